"""Measures how often a model is right at a role: draws exercises, asks them, and counts."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from llm_planning.roles.exercises import HELD_OUT, SEEN
from llm_planning.roles.llm import gather
from llm_planning.roles.oracles import draw

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from random import Random

    from llm_planning.roles.exercises import Exercise, ExerciseMaker
    from llm_serving.engine import Engine

PER_STATE: Final = 2
"""Questions of a role about one state, at most, so that answers are nearly independent.

Two questions about a state are about different options or goals: a maker asks the same thing of a
state in one way only.
"""

MATERIAL: Final = "material"
"""The aspect of what a model may have been taught: `SEEN` or `HELD_OUT`."""

IDLE_STATES: Final = 200
"""States in a row without a new question after which a maker counts as exhausted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A model's answer to an exercise.

    Attributes:
        expected: the right answer in a few words.
        said: the model's answer in a few words.
        items: as in `Grade`.
        invented: as in `Grade`.
    """

    kinds: Mapping[str, str]
    expected: str
    said: str
    right: bool
    items: tuple[int, int] | None = None
    invented: bool | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """Right answers among some questions."""

    right: int
    questions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """A wrong answer and how often it was given.

    Attributes:
        expected: the right answer in a few words.
        said: the model's answer in a few words.
    """

    expected: str
    said: str
    count: int


def draw_exercises(
    maker: ExerciseMaker, role: str, *, count: int, seed: int
) -> tuple[Exercise, ...]:
    """Draws different exercises of a role.

    They depend on nothing but the arguments, so that two models get the same ones. Half of them are
    about what teaching leaves out, as far as the maker has that; these come last. If there are any,
    all exercises have the aspect `MATERIAL`.

    Args:
        role: one of the maker's.

    Returns:
        The exercises; fewer than `count` if the maker has no more different ones.
    """
    held_out = draw_held_out(maker, role, count=count // 2, seed=seed)
    prompts: set[object] = {exercise.prompt for exercise in held_out}
    rest = count - len(held_out)
    seen = tuple(islice(_new(maker, role, prompts, seed=seed, held_out=False), rest))
    if not held_out:
        return seen
    return tuple(
        replace(exercise, kinds={MATERIAL: name, **exercise.kinds})
        for name, half in ((SEEN, seen), (HELD_OUT, held_out))
        for exercise in half
    )


def draw_held_out(
    maker: ExerciseMaker, role: str, *, count: int, seed: int
) -> tuple[Exercise, ...]:
    """Draws different exercises of a role that are about what teaching leaves out.

    Args:
        role: one of the maker's.

    Returns:
        The exercises; fewer than `count` if the maker has no more different ones.
    """
    return tuple(islice(_new(maker, role, set(), seed=seed, held_out=True), count))


def digest(exercises: Iterable[Exercise]) -> str:
    """SHA-256 of the questions and right answers in hexadecimal: what a measurement rests on."""
    questions = [
        [exercise.role, [[turn.role, turn.content] for turn in exercise.prompt], exercise.answer]
        for exercise in exercises
    ]
    return hashlib.sha256(json.dumps(questions).encode()).hexdigest()


async def ask_all(exercises: Iterable[Exercise], engine: Engine) -> list[Answered]:
    """Asks exercises all at once: the engine takes as many into its batch as have room.

    Returns:
        The graded answers, in the order of the exercises.

    Raises:
        ServingError: the engine failed, or a question does not fit the model.
    """

    async def ask(exercise: Exercise) -> Answered:
        grade = exercise.grade(await exercise.ask(engine))
        return Answered(
            kinds=dict(exercise.kinds),
            expected=exercise.brief,
            said=grade.brief,
            right=grade.right,
            items=grade.items,
            invented=grade.invented,
        )

    return await gather(map(ask, exercises))


def counted(answers: Iterable[Answered]) -> Count:
    """Counts the right answers."""
    rights = [answer.right for answer in answers]
    return Count(sum(rights), len(rights))


def counted_items(answers: Iterable[Answered]) -> tuple[int, int] | None:
    """The right items of all answers, and all of them; None if answers have no items."""
    items = [answer.items for answer in answers if answer.items is not None]
    return (sum(right for right, _ in items), sum(count for _, count in items)) if items else None


def invented_among(answers: Iterable[Answered]) -> list[Answered]:
    """The answers that can name what does not exist, each as `right` if it does."""
    able = [(answer, answer.invented) for answer in answers]
    return [replace(answer, right=named) for answer, named in able if named is not None]


def by_kind(answers: Sequence[Answered]) -> dict[str, dict[str, Count]]:
    """Counts the right answers for every value of every aspect: aspect -> value -> count."""
    kinds = sorted({kind for answer in answers for kind in answer.kinds.items()})
    counts: dict[str, dict[str, Count]] = {}
    for aspect, value in kinds:
        of_kind = counted(answer for answer in answers if answer.kinds.get(aspect) == value)
        counts.setdefault(aspect, {})[value] = of_kind
    return counts


def confusions(answers: Iterable[Answered]) -> list[Confusion]:
    """The wrong answers, the most frequent first."""
    counts = Counter((answer.expected, answer.said) for answer in answers if not answer.right)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        Confusion(expected=expected, said=said, count=count) for (expected, said), count in ordered
    ]


def _new(
    maker: ExerciseMaker, role: str, prompts: set[object], *, seed: int, held_out: bool
) -> Iterator[Exercise]:
    """Exercises whose prompts are not in `prompts` yet, to which they are added."""
    rng = draw("exercises", seed, role, held_out)
    idle = 0
    while idle < IDLE_STATES:
        idle += 1
        for exercise in _about_one_state(maker, role, rng, held_out=held_out):
            if exercise.prompt not in prompts:
                prompts.add(exercise.prompt)
                idle = 0
                yield exercise


def _about_one_state(
    maker: ExerciseMaker, role: str, rng: Random, *, held_out: bool
) -> list[Exercise]:
    made = maker.about_one_state(rng, roles=(role,), held_out=held_out)
    own = [exercise for exercise in made if exercise.role == role]
    return rng.sample(own, min(PER_STATE, len(own)))
