"""Text games as a domain of the contract."""

import pytest
from textgame_toys import Numbers, trap_door

from llm_planning.domain import is_won
from llm_planning.environments.textgame.domain import TEXTGAME, TextGameDomain, open_text_game
from llm_planning.environments.textgame.game import Ending
from llm_planning.environments.textgame.open_games import GAME_TASKS, GameSettings
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.environments.textgame.trapdoor import BAIT, TrapDoor
from llm_planning.execution.episode import execute
from llm_planning.planners.mc_dml.roles import Observation, observe
from llm_planning.planners.mc_dml.specs import SPECS
from llm_planning.specs import choose


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


async def test_no_step_draws():
    world = trap_door()

    class Refusing:
        def __getattr__(self, name):
            raise AssertionError(name)

    here, score = await world.start(0), 0.0
    for action in TrapDoor.walkthrough:
        step = await world.step(here, action, Refusing())
        here, score = step.state, score + step.reward
    assert world.success(here)
    assert (score, world.max_score) == (100.0, 100.0)
    assert world.walkthrough == TrapDoor.walkthrough
    assert (world.name, world.goal) == ("trap-door", TextGameDomain.goal)


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


async def test_the_domain_as_the_catalogue_has_it():
    assert (TEXTGAME.name, TEXTGAME.tasks) == ("textgame", GAME_TASKS)
    assert TEXTGAME.kind is TextGameDomain
    async with TEXTGAME.open("trap-door", GameSettings(remember="memory")) as opened:
        start = await opened.start(0)
        assert (await opened.step(start, "open trap door", None)).reward == BAIT


def test_users_set_the_game_among_the_planner_s_settings():
    chosen = choose(SPECS[0], TEXTGAME, {"game_seed": "2", "C": "7"})
    assert chosen.domain.game_seed == 2
    assert chosen.planner.c == 7.0
    assert chosen.to_json()["remember"] == "disk"
