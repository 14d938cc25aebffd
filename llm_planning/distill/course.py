"""A course: fresh lessons for ever, and an exam of held-out questions."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_planning.distill.checkpoint import TrainingError
from llm_planning.roles.measuring import IDLE_STATES, PER_STATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_planning.distill.tokens import Lesson, LessonTokenizer
    from llm_planning.roles.exercises import Exercise, ExerciseMaker

Makers: TypeAlias = "Sequence[tuple[ExerciseMaker, Sequence[str]]]"
"""Makers of exercises, each with those of its roles that are taught."""

_MOST_DRAWS: Final = 1000


class Course:
    """Makes the lessons of a training; a batch depends on its number and the seed alone.

    Args:
        worlds: the makers of each world, which take turns; all teach the same roles.
        states: number drawn for one batch; each is asked about by all roles of its makers.
    """

    def __init__(self, worlds: Sequence[Makers], *, states: int, seed: int) -> None:
        self._worlds = tuple(worlds)
        self._states = states
        self._seed = seed

    def exercises(self, batch: int) -> list[Exercise]:
        """The exercises of a batch.

        All makers get equal generators for each state, so that those of a world with a teacher ask
        about the same one.
        """
        return [
            exercise
            for number in range(self._states)
            for maker, roles in self._turn(batch * self._states + number)
            for exercise in _about_one_state(
                maker, roles, Random(f"lessons {self._seed} {batch} {number}")
            )
        ]

    def _turn(self, number: int) -> Makers:
        return self._worlds[number % len(self._worlds)]

    def exam(self, questions: int) -> list[Exercise]:
        """Different held-out exercises, the same for every course; all roles of a state at once.

        Args:
            questions: of each role, as far as its maker has so many.
        """
        chosen: dict[object, Exercise] = {}
        left = Counter({role: questions for _, roles in self._worlds[0] for role in roles})
        number = idle = 0
        while idle < IDLE_STATES and +left:
            before = len(chosen)
            for maker, roles in self._turn(number):
                rng = Random(f"exam {number}")
                lacking = [role for role in roles if left[role] > 0]
                drawn = maker.about_one_state(rng, roles=lacking, held_out=True) if lacking else ()
                for role in lacking:
                    new = [
                        exercise
                        for exercise in drawn
                        if exercise.role == role and exercise.prompt not in chosen
                    ]
                    for exercise in rng.sample(new, min(PER_STATE, left[role], len(new))):
                        chosen[exercise.prompt] = exercise
                    left[role] = questions - sum(
                        exercise.role == role for exercise in chosen.values()
                    )
            number, idle = number + 1, 0 if len(chosen) > before else idle + 1
        return list(chosen.values())


def _about_one_state(maker: ExerciseMaker, roles: Sequence[str], rng: Random) -> Sequence[Exercise]:
    """Draws states until there is something to ask; some have nothing to ask of some roles.

    Raises:
        TrainingError: the maker makes nothing.
    """
    for _ in range(_MOST_DRAWS):
        if exercises := maker.about_one_state(rng, roles=roles, held_out=False):
            return exercises
    raise TrainingError(
        f"no lesson of {', '.join(roles)} in {_MOST_DRAWS} states: check the teacher"
    )


def lessons_of(exercises: Iterable[Exercise], tokenizer: LessonTokenizer) -> list[Lesson]:
    """Exercises as tokens of one model."""
    return [
        tokenizer.lesson(
            exercise.role, exercise.prompt, exercise.answer, importance=exercise.importance
        )
        for exercise in exercises
    ]
