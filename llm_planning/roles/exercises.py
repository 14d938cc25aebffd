"""Exercises: questions of a planner's roles with their right answers, to measure and to teach.

A domain with rules knows what is right, so it can make as many exercises as one likes. Each is
asked in the planner's own words, through the same engine and the same constraint.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence  # noqa: TC003 (type aliases)
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from random import Random

    from llm_serving.engine import Engine
    from llm_serving.request import Message


@dataclass(frozen=True, slots=True)
class Grade:
    """What an answer is worth.

    Attributes:
        right: whether it is right.
        said: the answer in a few words, such as a verdict or an option, to count confusions.
    """

    right: bool
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """A question of one role with its right answer.

    Attributes:
        role: whose question it is.
        prompt: the chat that the model reads.
        answer: the right answer as a model writes it; of several right answers the best.
        said: the right answer in a few words, as in `Grade`.
        kinds: what the question is about: aspect -> its value, such as verdict -> feasible or
            goal -> held out. Every exercise of one role has the same aspects.
        ask: asks an engine, as the planner does, and returns its answer as text.
        grade: grades an answer.
    """

    role: str
    prompt: tuple[Message, ...]
    answer: str
    said: str
    kinds: Mapping[str, str] = field(default_factory=dict)
    ask: Callable[[Engine], Awaitable[str]]
    grade: Callable[[str], Grade]


class ExerciseMaker(Protocol):
    """Makes exercises of some roles in one domain.

    Attributes:
        roles: the roles of which it makes exercises.
    """

    roles: tuple[str, ...]

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes exercises about one state, so that their prompts begin alike.

        Args:
            rng: draws the state and what is asked about it.
            roles: of `roles`; exercises of other roles are left out.
            held_out: whether the goal, recipe or state is one that teaching leaves out. Teaching
                asks for False only.

        Returns:
            Any number of exercises of each role, also none.
        """
        ...
