"""Exercises of the role `position`: where may a thing be at home?

A model is asked as LLM-MCTS+ asks it, for the `exact` probabilities of all places, of which the
likeliest is its answer; or as LLM-MCTS does, for one of its `samples`, which may name several
places. An answer is right if the home's law has the thing lie there, in every place that it names.
Things are of the home `seen`; where something is to be new, of `unseen`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from llm_planning.environments.household.goals import Wanted
from llm_planning.environments.household.home import bundled_home
from llm_planning.environments.household.rules import Rules
from llm_planning.planners.llm_mcts.exercises import HomeExercises
from llm_planning.planners.llm_mcts.positions import ROLE, asked_as, state_prior
from llm_planning.roles.exercises import USUAL_WAY, WAY, Exercise, Grade
from llm_planning.search import argmax

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from llm_serving.engine import Engine

WAYS: Final[tuple[Literal["exact", "samples"], ...]] = (USUAL_WAY, "samples")
"""The ways of asking that ask."""


class PositionExercises(HomeExercises):
    """Makes exercises of the role `position`.

    Example:
        >>> from random import Random
        >>> from llm_planning.planners.llm_mcts.position_exercises import PositionExercises
        >>> [one.said for one in PositionExercises().make(Random(1), held_out=False)]
        ['inside the fridge']
    """

    roles = (ROLE,)

    def make(self, rng: Random, *, held_out: bool) -> Sequence[Exercise]:
        """Makes an exercise about a drawn thing that tasks may want, asked in a drawn way."""
        home = bundled_home("unseen" if held_out else "seen")
        number, wanted = rng.choice(home.goals)
        asked = rng.choice(WAYS)
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
        made = Exercise(
            role=ROLE,
            prompt=asked_as(home, thing, asked),
            answer=likeliest,
            said=likeliest,
            kinds={WAY: asked, "home": home.name},
            ask=ask,
            grade=grade,
        )
        return [made]
