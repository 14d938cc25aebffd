"""Text games as a domain of the contract."""

import pytest
from textgame_toys import Numbers

from llm_planning.domain_calls import is_won
from llm_planning.environments.textgame.domain import TextGameDomain, open_text_game
from llm_planning.environments.textgame.game import Ending, TextGameError
from llm_planning.environments.textgame.open_games import GameSettings
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.environments.textgame.trapdoor import BAIT, TrapDoor
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


async def begun(opening, task="trap-door"):
    async with open_text_game(task, GameSettings(opening=opening, remember="off")) as world:
        return world, await world.start(0), await world.advise(await world.start(0))


async def test_a_player_begins_where_an_opening_ends():
    world, start, left = await begun("take lantern; light lantern ;open trap door;")
    whole = TrapDoor.walkthrough
    assert left == world.walkthrough == whole[3:]
    assert world.first_score == start.reward == BAIT
    _, from_the_beginning, _ = await begun("")
    assert start.state != from_the_beginning.state
    assert (await begun("take lantern"))[0].walkthrough == whole[1:]


async def test_of_a_walkthrough_that_begins_otherwise_nothing_is_left():
    with pytest.raises(TextGameError, match="comes without a walkthrough"):
        await begun("open trap door")


@pytest.mark.parametrize(
    ("opening", "words"),
    [
        ("take lantern; dance", "opening: action 2, 'dance', changes nothing in trap-door, which"),
        ("open trap door; shout; shout; shout", "action 4, 'shout', ends the game in trap-door"),
    ],
)
async def test_an_opening_that_does_not_play_is_an_error(opening, words):
    async with open_text_game("trap-door", GameSettings(opening=opening)) as world:
        with pytest.raises(TextGameError, match=words):
            await world.start(0)
