"""A course: fresh lessons for ever, and an exam of held-out questions."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.distill.tokens import Lesson, LessonTokenizer

    from llm_planning.roles.exercises import Exercise, ExerciseMaker

EXAM = "exam"
"""Seeds of exams begin with this word, so that no lesson repeats one."""


class Course:
    """Makes the lessons of a training run; a batch depends on its number and the seed alone.

    Args:
        maker: makes the exercises.
        tokenizer: of the model that is taught.
        roles: that are taught.
        states: in one batch; of each, all roles are asked about.
        importance: role -> weight of its questions in the loss; 1 for others.
        seed: of all draws.
    """

    def __init__(
        self,
        maker: ExerciseMaker,
        tokenizer: LessonTokenizer,
        *,
        roles: Sequence[str],
        states: int,
        importance: Mapping[str, float],
        seed: int,
    ) -> None:
        self._maker = maker
        self._tokenizer = tokenizer
        self._roles = tuple(roles)
        self._states = states
        self._importance = importance
        self._seed = seed

    def lessons(self, batch: int) -> list[Lesson]:
        """The lessons of a batch; questions about one state come together."""
        rng = Random(f"{self._seed} {batch}")
        return [
            self._lesson(exercise)
            for _ in range(self._states)
            for exercise in self._maker.about_one_state(rng, roles=self._roles, held_out=False)
        ]

    def exam(self, questions: int) -> list[tuple[Exercise, Lesson]]:
        """Held-out exercises with their lessons, the same for every seed.

        Args:
            questions: of each role, as far as the maker has so many.
        """
        drawn: dict[str, list[Exercise]] = {role: [] for role in self._roles}
        number = 0
        while any(len(those) < questions for those in drawn.values()) and number < 20 * questions:
            rng = Random(f"{EXAM} {number}")
            for role, those in drawn.items():
                if len(those) < questions:
                    made = self._maker.about_one_state(rng, roles=(role,), held_out=True)
                    those.extend(made[: min(2, questions - len(those))])
            number += 1
        return [(one, self._lesson(one)) for those in drawn.values() for one in those]

    def _lesson(self, exercise: Exercise) -> Lesson:
        return self._tokenizer.lesson(
            exercise.role,
            exercise.prompt,
            exercise.answer,
            importance=self._importance.get(exercise.role, 1.0),
        )
