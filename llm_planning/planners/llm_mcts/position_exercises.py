"""Exercises of the role `position`: where may a thing be at home?

A model is asked as LLM-MCTS+ asks it, for the `exact` probabilities of all places, of which the
likeliest is its answer; or as LLM-MCTS does, for one of its `samples`, which may name several
places. An answer is right if the home's law has the thing lie there, in every place that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from llm_planning.environments.household.domain import HOUSEHOLD
from llm_planning.environments.household.goals import Wanted
from llm_planning.environments.household.home import bundled_home
from llm_planning.environments.household.rules import Rules
from llm_planning.planners.llm_mcts.positions import ROLE, asked_as, state_prior
from llm_planning.roles.exercises import USUAL_WAY, WAY, Exercise, Grade
from llm_planning.search import argmax

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from llm_planning.environments.household.home import Home
    from llm_planning.roles.exercises import ExerciseMaker, Words
    from llm_planning.specs import DomainSpec
    from llm_serving.engine import Engine

WAYS: Final[tuple[Literal["exact", "samples"], ...]] = (USUAL_WAY, "samples")
"""The ways of asking that ask."""


class PositionExercises:
    """Makes exercises of the role `position` at home; see `ExerciseMaker`.

    The things are those that tasks may want, in the home `seen`; where something is to be new, in
    `unseen`.

    Example:
        >>> from random import Random
        >>> from llm_planning.planners.llm_mcts.position_exercises import ROLE, PositionExercises
        >>> made = PositionExercises().about_one_state(Random(1), roles=[ROLE], held_out=False)
        >>> [one.said for one in made]
        ['inside the fridge']
    """

    roles: tuple[str, ...] = (ROLE,)
    taught_words = ""

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes an exercise about a drawn thing, asked in a drawn way; see `ExerciseMaker`."""
        if ROLE not in roles:
            return ()
        home = bundled_home("unseen" if held_out else "seen")
        number, place = rng.choice(home.goals)
        return [_exercise(home, number, place, asked=rng.choice(WAYS))]


def _exercise(
    home: Home, number: int, wanted: int, *, asked: Literal["exact", "samples"]
) -> Exercise:
    thing, law = home.things[number], home.law[number]
    rules = Rules(home, [Wanted(thing, home.places[wanted].name)])
    positions = [f"{place.relation} the {place.name}" for place in home.places]

    async def ask(engine: Engine) -> str:
        weights, *_ = await state_prior(rules, asked, engine=engine, samples=1)
        # A sample gives all places that it names the same weight.
        best = max(weights)
        named = [p for p, weight in enumerate(weights) if weight == best]
        return ", ".join(positions[p] for p in named)

    def grade(answer: str) -> Grade:
        named = answer.split(", ")
        return Grade(all(law[positions.index(one)] > 0 for one in named), answer)

    likeliest = positions[argmax(law)]
    return Exercise(
        role=ROLE,
        prompt=asked_as(home, thing, asked),
        answer=likeliest,
        said=likeliest,
        kinds={WAY: asked, "home": home.name},
        ask=ask,
        grade=grade,
    )


def position_exercises(domain: DomainSpec, words: Words) -> ExerciseMaker | None:  # noqa: ARG001
    """The exercises of `position` at home; every model is asked in the same words."""
    return PositionExercises() if domain.name == HOUSEHOLD.name else None
