"""Snapshots by name: an interpreter asked from any state, and states played again."""

import asyncio
import time
from dataclasses import replace

import pytest
from textgame_toys import Numbers, Trails, follow, view, wander

from llm_planning.environments.textgame.game import (
    Ending,
    Played,
    TextGameError,
    Transition,
)
from llm_planning.environments.textgame.interpreted import InterpretedGame, Snapshots
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.trapdoor import TrapDoor


async def test_an_interpreted_game_tells_what_its_interpreter_says():
    toy = Numbers()
    game = InterpretedGame(toy)
    start = await game.start()
    assert start == Transition("number 1", "Begin.", 0.0, None)
    assert await view(game, start.state) == (("You see 1.", "nothing"), ("add", "double"))
    two = await game.step(start.state, "add")
    assert two == Transition("number 2", "add: 2", 1.0, None)
    assert await game.start() == start
    assert toy.asked == {"begin": 1, "step": 1, "look": 1, "actions": 1}
    assert await game.actions(two.state) == ("add", "double", "wait")
    assert toy.asked == {"begin": 1, "step": 1, "look": 1, "actions": 2}
    seconds = game.seconds
    assert seconds.steps == 1
    assert seconds.simulation > 0
    assert seconds.valid_actions.seconds > 0
    assert InterpretedGame(game.snapshots).seconds.steps == 0


async def test_an_ended_game_is_refused_without_asking():
    toy = Numbers()
    game = InterpretedGame(toy)
    won = await follow(game, "double", "add", "double", "double")
    lost = await follow(game, "double", "double", "double", "double")
    assert (won.ending, lost.ending) == (Ending.VICTORY, Ending.FAILURE)
    assert won.state == "number 12 (victory)"
    before = dict(toy.asked)
    for ended in (won, lost):
        assert await view(game, ended.state) == (("", ""), ())
        assert await game.actions(ended.state) == ()
        with pytest.raises(ValueError, match="has ended"):
            await game.step(ended.state, "add")
    assert toy.asked == before


async def test_the_first_reward_is_the_score_with_which_a_game_begins():
    class Ahead(Numbers):
        def begin(self):
            return replace(super().begin(), reward=10.0)

    for game in (
        InterpretedGame(Ahead()),
        RememberedGame(InterpretedGame(Ahead()), TransitionMemory()),
    ):
        assert (await game.start()).reward == 10.0


@pytest.mark.parametrize("state", ["number 2", "number 13 (failure)", ""])
async def test_states_that_nobody_was_told_of_are_unknown(state):
    for game in (
        InterpretedGame(Numbers()),
        RememberedGame(InterpretedGame(Numbers()), TransitionMemory()),
    ):
        for question in (game.look, game.actions):
            with pytest.raises(KeyError) as unknown:
                await question(state)
            assert unknown.value.args == (state,)
        with pytest.raises(KeyError):
            await game.step(state, "add")


@pytest.mark.parametrize("limit", [1, 2, 50])
async def test_dropped_snapshots_are_played_again(limit):
    whole, small = TrapDoor(), TrapDoor()
    expected = await wander(InterpretedGame(whole), seed=4, steps=400)
    game = InterpretedGame(Snapshots(small, limit=limit))
    assert await wander(game, seed=4, steps=400) == expected
    old = [here.state for *_, here in expected if here.ending is None]
    views = [await view(game, state) for state in reversed(old)]
    assert views == [await view(InterpretedGame(game.snapshots), state) for state in reversed(old)]
    # Played again is paid for: far more steps than the walk has.
    assert (game.seconds.steps > 1000) == (limit < 50)


async def test_the_nearest_kept_ancestor_is_enough():
    toy = Numbers()
    game = InterpretedGame(Snapshots(toy, limit=2))
    for number in range(1, 9):
        await game.step(f"number {number}", "add") if number > 1 else await follow(game, "add")
    toy.asked.clear()
    # Kept are 8 and 9; 6 is five steps from the beginning.
    await view(game, "number 8")
    assert toy.asked["step"] == 0
    await view(game, "number 6")
    assert toy.asked["step"] == 5
    toy.asked.clear()
    await view(game, "number 7")
    assert toy.asked["step"] == 1


async def test_the_first_snapshot_speaks_for_its_state():
    """With a key that tells too few states apart, a state does not change under its players."""
    seen = []

    class Told(Numbers):
        def look(self, snapshot):
            seen.append(snapshot)
            return super().look(snapshot)

    game = InterpretedGame(Told())
    four = await follow(game, "double", "double")
    assert await follow(game, "add", "add", "add") == Transition(four.state, "add: 4", 1.0, None)
    await view(game, four.state)
    assert seen == [(4, ("double", "double"))]


@pytest.mark.parametrize("limit", [1, 50])
async def test_the_beginning_speaks_for_its_state_when_it_is_met_again(limit):
    game = InterpretedGame(Snapshots(Trails(), limit=limit))
    assert (await follow(game, "add", "back")).state == "number 1"
    assert await game.look("number 1") == ("", "")


@pytest.mark.parametrize("remembered_too", [False, True])
async def test_the_first_way_speaks_for_a_state_that_was_dropped(remembered_too):
    game = InterpretedGame(Snapshots(Trails(), limit=1))
    if remembered_too:
        game = RememberedGame(game, TransitionMemory(limit=1))
    await follow(game, "double", "double")
    await follow(game, "add", "add", "add")
    for _ in range(2):
        assert await game.look("number 4") == ("double double", "")
        # Its way leads on from the first one to 2.
        assert await game.look("number 3") == ("double add", "")


async def test_a_game_that_does_not_repeat_itself_is_an_error():
    class Whims(Numbers):
        def step(self, snapshot, action):
            played = super().step(snapshot, action)
            extra = self.asked["step"] > 3
            return Played((played.snapshot[0] + extra, ()), played.text, played.reward, None)

    game = InterpretedGame(Snapshots(Whims(), limit=1))
    await follow(game, "add", "add", "add")
    with pytest.raises(TextGameError, match=r"numbers does not repeat itself: 'add' led from"):
        await view(game, "number 2")


async def test_questions_that_wait_together_are_counted_once():
    toy = Numbers()
    toy.waiting = asyncio.Event()
    game = InterpretedGame(toy)
    two = await follow(game, "add")
    started = time.perf_counter()
    asked = [asyncio.create_task(game.actions(state)) for state in ("number 1", two.state)]
    await asyncio.sleep(0.05)
    toy.waiting.set()
    await asyncio.gather(*asked)
    assert 0.04 < game.seconds.valid_actions.seconds <= time.perf_counter() - started
