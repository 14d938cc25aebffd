"""The actions of Minecraft are found among few candidates, and none is missed."""

from random import Random

import pytest

from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.verbs import QUANTITIES, VERBS
from llm_planning.environments.minecraft.options.vocabulary import OBJECTS


@pytest.mark.parametrize("options", ["folded", "single"])
def test_the_actions_are_all_feasible_options_that_are_not_done(options):
    world, rng = Minecraft(task="craft-a-compass", options=options), Random(5)
    state, seen = world.start(0), set()
    for _ in range(40):
        actions = world.actions(state)
        assert actions == [
            option
            for verb in VERBS
            for item in OBJECTS
            for quantity in (QUANTITIES if verb in {"mine", "smelt"} else QUANTITIES[:1])
            if world.world.feasible(state, option := Option(verb, quantity, item)) is None
            and not (verb in {"find", "equip"} and world.world.done(state, option))
        ]
        seen |= {option.verb for option in actions}
        state = world.step(state, rng.choice(world.advise(state)[:1] or actions), rng).state
    assert {"mine", "craft", "smelt", "find", "equip", "place"} <= seen
