"""A course: fresh lessons for ever, and an exam of held-out questions."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from llm_planning.distill.checkpoint import TrainingError
from llm_planning.roles.measuring import draw_held_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llm_planning.distill.tokens import Lesson, LessonTokenizer
    from llm_planning.roles.exercises import Exercise, ExerciseMaker

IMPORTANCE: Final[Mapping[str, float]] = {"propose": 1.5, "termination": 0.5}
"""Role -> weight of its questions in the loss; 1 for others. Proposing is learned last."""

EXAM_SEED: Final = -1
"""The seed of exams. Those of measurements are not negative, so they ask other questions."""

_IDLE_STATES = 1000


class Course:
    """Makes the lessons of a training; a batch depends on its number and the seed alone.

    Args:
        makers: make the exercises, each of its roles that are taught.
        states: in one batch; of each, all roles of a maker are asked about.
        seed: of all draws.
    """

    def __init__(
        self,
        makers: Sequence[tuple[ExerciseMaker, Sequence[str]]],
        *,
        states: int,
        seed: int,
    ) -> None:
        self._makers = tuple(makers)
        self._states = states
        self._seed = seed

    def exercises(self, batch: int) -> list[Exercise]:
        """The exercises of a batch; those about one state come together."""
        rng = Random(f"{self._seed} {batch}")
        drawn: list[Exercise] = []
        for maker, roles in self._makers:
            for _ in range(self._states):
                drawn += _about_one_state(maker, roles, rng)
        return drawn

    def exam(self, questions: int) -> list[Exercise]:
        """Different held-out exercises, the same for every course.

        Args:
            questions: of each role, as far as its maker has so many.
        """
        return [
            exercise
            for maker, roles in self._makers
            for role in roles
            for exercise in draw_held_out(maker, role, count=questions, seed=EXAM_SEED)
        ]


def _about_one_state(maker: ExerciseMaker, roles: Sequence[str], rng: Random) -> Sequence[Exercise]:
    """Draws states until there is something to ask; some have nothing to ask of some roles.

    Raises:
        TrainingError: the maker makes nothing.
    """
    for _ in range(_IDLE_STATES):
        if made := maker.about_one_state(rng, roles=roles, held_out=False):
            return made
    raise TrainingError(
        f"no lesson of {', '.join(roles)} in {_IDLE_STATES} states: check the teacher"
    )


def lessons_of(exercises: Iterable[Exercise], tokenizer: LessonTokenizer) -> list[Lesson]:
    """Exercises as tokens of one model, with the importance of their roles."""
    return [
        tokenizer.lesson(one.role, one.prompt, one.answer, importance=IMPORTANCE.get(one.role, 1.0))
        for one in exercises
    ]
