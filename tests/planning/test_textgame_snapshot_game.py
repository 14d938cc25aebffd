"""The table of states, and a game that is played from an interpreter's snapshots."""

import asyncio
import time
from dataclasses import replace

import pytest
from textgame_toys import Numbers, Trails, follow, view, wander

from llm_planning.environments.textgame.game import TextGameError, Transition
from llm_planning.environments.textgame.snapshot_game import SnapshotGame, StateTable
from llm_planning.environments.textgame.trapdoor import TrapDoor


async def test_a_game_gives_the_answers_of_its_interpreter():
    toy = Numbers()
    game = SnapshotGame(toy)
    start = await game.start()
    assert start == Transition("number 1", "Begin.", 0.0, None)
    assert await view(game, start.state) == (("You see 1.", "nothing"), ("add", "double"))
    added = await game.step(start.state, "add")
    assert added == Transition("number 2", "add: 2", 1.0, None)
    assert await game.start() == start
    assert await game.actions(added.state) == ("add", "double", "wait")
    assert toy.asked == {"begin": 1, "step": 1, "look": 1, "actions": 2}
    assert game.seconds.steps == 1
    assert game.seconds.simulation > 0
    assert game.seconds.valid_actions.seconds > 0
    assert SnapshotGame(game.states).seconds.steps == 0


@pytest.mark.parametrize("limit", [1, 50])
async def test_states_without_a_snapshot_are_played_again_and_paid_for(limit):
    game = SnapshotGame(StateTable(TrapDoor(), limit=limit))
    transitions = await wander(game, seed=4, steps=400)
    for here in [here for *_, here in reversed(transitions) if here.ending is None]:
        await view(game, here.state)
    # Far more steps than the walk has.
    assert (game.seconds.steps > 1000) == (limit < 50)


async def test_the_nearest_ancestor_with_a_snapshot_is_enough():
    toy = Numbers()
    game = SnapshotGame(StateTable(toy, limit=2))
    await follow(game, *["add"] * 8)
    toy.asked.clear()
    # Kept are 8 and 9; 6 is five steps from the beginning.
    for number, steps in ((8, 0), (6, 5), (7, 1)):
        await view(game, f"number {number}")
        assert toy.asked["step"] == steps
        toy.asked.clear()


@pytest.mark.parametrize("limit", [1, 50])
async def test_the_first_way_speaks_for_a_state(limit):
    """If two states have the same key, a state still does not change for its players."""
    game = SnapshotGame(StateTable(Trails(), limit=limit))
    four = await follow(game, "double", "double")
    assert await follow(game, "add", "add", "add") == Transition(four.state, "add: 4", 1.0, None)
    for _ in range(2):
        assert await game.look("number 4") == ("double double", "")
        # Its way leads on from the first one to 2.
        assert await game.look("number 3") == ("double add", "")
    assert (await follow(game, "add", "back")).state == "number 1"
    assert await game.look("number 1") == ("", "")


async def test_a_game_that_does_not_repeat_itself_is_an_error():
    class Whims(Numbers):
        def step(self, snapshot, action):
            transition = super().step(snapshot, action)
            return replace(transition, state=(transition.state[0] + (self.asked["step"] > 3), ()))

    game = SnapshotGame(StateTable(Whims(), limit=1))
    await follow(game, "add", "add", "add")
    with pytest.raises(TextGameError, match=r"numbers does not repeat itself: 'add' led from"):
        await view(game, "number 2")


async def test_questions_that_wait_together_are_counted_once():
    toy = Numbers()
    toy.waiting = asyncio.Event()
    game = SnapshotGame(toy)
    two = await follow(game, "add")
    started = time.perf_counter()
    asked = [asyncio.create_task(game.actions(state)) for state in ("number 1", two.state)]
    await asyncio.sleep(0.05)
    toy.waiting.set()
    await asyncio.gather(*asked)
    assert 0.04 < game.seconds.valid_actions.seconds <= time.perf_counter() - started
