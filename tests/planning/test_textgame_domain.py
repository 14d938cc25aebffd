"""Text games as a domain of the contract."""

import pytest
from textgame_toys import Numbers

from llm_planning.domain_calls import is_won
from llm_planning.environments.textgame.domain import TextGameDomain, open_text_game
from llm_planning.environments.textgame.game import Ending
from llm_planning.environments.textgame.open_games import GameSettings
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.execution.episode import execute
from llm_planning.planners.mc_dml.roles import Observation, observe


def numbers():
    return TextGameDomain(SnapshotGame(Numbers()))


async def test_a_game_by_the_contract():
    world = numbers()
    state = await world.start(7)
    assert await world.describe(state) == "Begin.\nYou see 1.\nnothing"
    assert await world.actions(state) == ("add", "double")
    step = await world.step(state, "double", None)
    assert (step.reward, step.done, step.text, step.obstacle) == (1.0, False, "double: 2", None)
    assert await world.describe(step.state) == "double: 2\nYou see 2.\nnothing"
    # A step can begin in any state that was reached.
    assert (await world.step(state, "double", None)).state == step.state
    assert not await is_won(world, step.state, done=step.done)


async def test_an_action_that_changes_nothing_says_so():
    world = numbers()
    doubled = (await world.step(await world.start(0), "double", None)).state
    assert (await world.step(doubled, "wait", None)).obstacle == "wait: 2"


@pytest.mark.parametrize(
    ("plan", "ending"),
    [
        (["double", "add", "double", "double"], Ending.VICTORY),
        (["double", "double", "double", "double"], Ending.FAILURE),
    ],
)
async def test_victory_is_success_and_failure_is_not(plan, ending):
    world = numbers()
    done = await execute(world, plan, seed=0)
    last = done.moves[-1].step
    assert (done.ended, last.done, last.state.ending) == (True, True, ending)
    assert done.success == (ending is Ending.VICTORY)
    assert await world.actions(last.state) == ()
    assert await world.describe(last.state) == last.text


async def test_a_generated_game_tells_its_goal_and_no_place_twice():
    pytest.importorskip("textworld")
    async with open_text_game("coin-collector", GameSettings(remember="memory")) as world:
        start = await world.start(0)
        _, look, inventory = await world.look(start)
        assert world.goal.startswith("Hey, thanks for coming over to the TextWorld today")
        assert await world.describe(start) == "\n".join((world.goal, look, inventory))


async def test_an_observation_computes_no_valid_actions():
    """They cost most, and those of an episode's last state are not needed."""
    toy = Numbers()
    world = TextGameDomain(RememberedGame(SnapshotGame(toy), TransitionMemory()))
    assert await observe(world, await world.start(0)) == Observation(
        "Begin.", "You see 1.", "nothing"
    )
    assert toy.asked == {"begin": 1, "look": 1}
