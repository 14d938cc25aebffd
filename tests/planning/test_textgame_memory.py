"""Snapshots by name and the transition memory: the same game, with less asked of it."""

import asyncio
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from textgame_toys import Numbers, Trails, view, wander

from llm_planning.environments.textgame import remembered
from llm_planning.environments.textgame.game import (
    Ending,
    GameSeconds,
    Observation,
    Played,
    TextGameError,
    Transition,
)
from llm_planning.environments.textgame.interpreted import InterpretedGame, Origin, Snapshots
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.transition_store import (
    Record,
    TransitionStore,
    transition_store_path,
)
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.planners.mc_dml.search import observe

HERE = Path(__file__).parent


def player(path):
    """A process that plays and saves, until it is killed."""
    return subprocess.Popen(
        [sys.executable, str(HERE / "textgame_killed.py"), str(path)],
        env=os.environ | {"PYTHONPATH": str(HERE), "PYTHONHASHSEED": "77"},
        stdout=subprocess.PIPE,
        text=True,
    )


async def follow(game, *actions):
    here = await game.start()
    for action in actions:
        here = await game.step(here.state, action)
    return here


# Interpreted games.


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


async def test_an_observation_computes_no_valid_actions():
    """They cost most of all, and nobody needs those of an episode's last state."""
    toy = Numbers()
    game = RememberedGame(InterpretedGame(toy), TransitionMemory())
    assert await observe(game, await game.start()) == Observation("Begin.", "You see 1.", "nothing")
    assert toy.asked == {"begin": 1, "look": 1}


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


# Remembered games.


async def test_what_was_asked_once_is_not_asked_again():
    toy = Numbers()
    memory = TransitionMemory()
    plain = await wander(InterpretedGame(Numbers()), seed=1, steps=300)
    first = RememberedGame(InterpretedGame(toy), memory)
    assert await wander(first, seed=1, steps=300) == plain
    # 11 numbers go on, with 2 actions at odd and 3 at even ones.
    assert toy.asked == {"begin": 1, "step": 27, "look": 11, "actions": 11}
    second = RememberedGame(InterpretedGame(toy), memory)
    assert await wander(second, seed=2, steps=300) == await wander(
        InterpretedGame(Numbers()), seed=2, steps=300
    )
    assert toy.asked["step"] == 27
    assert second.seconds == GameSeconds()
    assert first.seconds.steps == 27


async def test_known_answers_do_not_suspend():
    game = RememberedGame(InterpretedGame(Numbers()), TransitionMemory())
    await wander(game, seed=0, steps=300)
    for question in (
        game.actions("number 4"),
        game.look("number 4"),
        game.step("number 4", "double"),
    ):
        with pytest.raises(StopIteration) as answered:
            question.send(None)
        assert answered.value.value is not None


async def test_an_ended_game_is_refused_by_its_memory_too(tmp_path):
    path = tmp_path / "numbers.sqlite"
    for _ in range(2):
        memory = TransitionMemory(TransitionStore(path))
        toy = Numbers()
        game = RememberedGame(InterpretedGame(toy), memory)
        won = await follow(game, "double", "add", "double", "double")
        assert won.state == "number 12 (victory)"
        assert await view(game, won.state) == (("", ""), ())
        with pytest.raises(ValueError, match="has ended"):
            await game.step(won.state, "add")
        assert toy.asked["look"] == 0
        memory.close()
    assert toy.asked["step"] == 0


async def test_what_is_asked_for_at_one_moment_is_found_out_once():
    toy = Numbers()
    toy.waiting = asyncio.Event()
    memory = TransitionMemory()
    players = [RememberedGame(InterpretedGame(toy), memory) for _ in range(3)]
    start = await players[0].start()
    asked = [asyncio.create_task(view(player, start.state)) for player in players]
    await asyncio.sleep(0.01)
    assert toy.asked["actions"] == 1
    # Whoever asked first goes away; one of the others takes over.
    asked[0].cancel()
    await asyncio.sleep(0.01)
    assert toy.asked["actions"] == 2
    toy.waiting.set()
    one, two = await asyncio.gather(*asked[1:])
    # Who waits for another's question waits all the same.
    assert all(0.005 < player.seconds.valid_actions.seconds < 10.0 for player in players)
    assert one == two == (("You see 1.", "nothing"), ("add", "double"))
    assert one[1] is await players[0].actions(start.state)
    assert (toy.asked["actions"], toy.asked["look"]) == (2, 1)
    assert memory.computing == {}
    assert asked[0].cancelled()


async def test_an_error_reaches_everybody_and_is_not_kept():
    class Broken(Numbers):
        async def valid_actions(self, snapshot):
            found = await super().valid_actions(snapshot)
            if self.asked["actions"] < 3:
                raise TextGameError("no actions today")
            return found

    game = RememberedGame(InterpretedGame(Broken()), TransitionMemory())
    start = await game.start()
    failed = await asyncio.gather(
        view(game, start.state), view(game, start.state), return_exceptions=True
    )
    assert [str(error) for error in failed] == ["no actions today"] * 2
    assert await game.actions(start.state) == ("add", "double")


@pytest.mark.parametrize("kept", [None, "numbers.sqlite"])
async def test_the_memory_is_bounded(kept, tmp_path):
    store = TransitionStore(tmp_path / kept) if kept else None
    memory = TransitionMemory(store, limit=4)
    toy = Numbers()
    game = RememberedGame(InterpretedGame(toy), memory)
    for seed in range(3):
        expected = await wander(InterpretedGame(Numbers()), seed=seed, steps=200)
        assert await wander(game, seed=seed, steps=200) == expected
        assert len(memory.records) <= 4
    # What was dropped is on disk, or is played again.
    assert (toy.asked["actions"] == 11) == (kept is not None)
    memory.close()


async def test_coarse_states_are_the_same_with_and_without_memory():
    """The first way to a state speaks for it in both, however few snapshots and states are kept."""
    told = []
    for limit in (1, 1000):
        plain = InterpretedGame(Snapshots(Trails(), limit=limit))
        kept = RememberedGame(
            InterpretedGame(Snapshots(Trails(), limit=limit)), TransitionMemory(limit=limit + 1)
        )
        told += [[await wander(game, seed=s, steps=60) for s in range(3)] for game in (plain, kept)]
    assert told[0] == told[1] == told[2] == told[3]


# On disk.


async def test_the_way_to_a_state_of_an_earlier_run_is_played_again(tmp_path):
    path = tmp_path / "numbers.sqlite"
    memory = TransitionMemory(TransitionStore(path))
    game = RememberedGame(InterpretedGame(Numbers()), memory)
    # 8 is reached by seven steps first, and then by three.
    await follow(game, *["add"] * 7)
    await follow(game, "double", "double", "double")
    memory.close()
    toy = Numbers()
    memory = TransitionMemory(TransitionStore(path))
    game = RememberedGame(InterpretedGame(toy), memory)
    assert await game.look("number 8") == ("You see 8.", "nothing")
    assert toy.asked["step"] == 3
    assert memory.find("number 8").origin == Origin("number 4", "double")
    assert memory.find("number 8").depth == 3
    memory.close()


async def test_a_memory_that_nobody_holds_saves_and_closes_itself(tmp_path):
    path = tmp_path / "numbers.sqlite"
    store = TransitionStore(path)
    game = RememberedGame(InterpretedGame(Numbers()), TransitionMemory(store, limit=100))
    game.memory._changed = lambda: None  # no timer, which would hold it for two seconds
    await follow(game, "add", "add")
    assert store.unsaved > 0
    del game
    gc.collect()
    assert store.unsaved == 0
    with pytest.raises(TextGameError, match="closed"):
        store.load("number 1")
    memory = TransitionMemory(TransitionStore(path))
    assert memory.find("number 3").depth == 2
    memory.close()


async def test_actions_and_looks_are_kept_on_disk_separately(tmp_path):
    path = tmp_path / "numbers.sqlite"
    asked = []
    for _ in range(3):
        memory = TransitionMemory(TransitionStore(path))
        toy = Numbers()
        game = RememberedGame(InterpretedGame(toy), memory)
        here = await follow(game, "add", "add")
        assert await game.actions("number 2") == ("add", "double", "wait")
        if asked:
            # In the second run: 1 before its actions are known, 2 after.
            await view(game, "number 1")
            assert await game.look("number 2") == ("You see 2.", "nothing")
        asked.append((toy.asked["step"], toy.asked["actions"], toy.asked["look"]))
        record = memory.find(here.state)
        assert (record.actions, record.seen) == (None, None)
        memory.close()
    assert asked == [(2, 1, 0), (1, 1, 2), (0, 0, 0)]


async def test_a_look_is_kept_where_the_actions_are_not(tmp_path):
    path = tmp_path / "numbers.sqlite"
    toy = Numbers()
    toy.waiting = asyncio.Event()
    memory = TransitionMemory(TransitionStore(path))
    game = RememberedGame(InterpretedGame(toy), memory)
    start = await game.start()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(view(game, start.state), 0.01)
    memory.close()
    toy = Numbers()
    memory = TransitionMemory(TransitionStore(path))
    game = RememberedGame(InterpretedGame(toy), memory)
    assert await view(game, start.state) == (("You see 1.", "nothing"), ("add", "double"))
    assert (toy.asked["look"], toy.asked["actions"]) == (0, 1)
    memory.close()


async def test_ways_of_two_processes_never_make_a_circle(tmp_path):
    """One reached s by p, the other p by s: whoever is saved last, both lead to the beginning."""
    path = tmp_path / "ways.sqlite"
    one, two = TransitionStore(path), TransitionStore(path)
    for store in (one, two):
        store.put_state("start", Record(None, 0))
    one.put_state("p", Record(Origin("start", "a"), 5))
    one.put_state("s", Record(Origin("p", "b"), 6))
    two.put_state("s", Record(Origin("start", "c"), 1))
    two.put_state("p", Record(Origin("s", "d"), 2))
    for first, second in ((one, two), (two, one)):
        first.save()
        second.save()
        assert first.load("s").origin == Origin("start", "c")
        assert first.load("p").origin == Origin("s", "d")
    one.close()
    two.close()


async def test_two_open_memories_share_a_file(tmp_path):
    path = tmp_path / "numbers.sqlite"
    one, two = (TransitionMemory(TransitionStore(path)) for _ in range(2))
    games = [RememberedGame(InterpretedGame(Numbers()), memory) for memory in (one, two)]
    for seed in range(3):
        told = [await wander(game, seed=seed, steps=100) for game in games]
        assert told[0] == told[1]
    one.save()
    two.save()
    one.close()
    two.close()
    file = sqlite3.connect(path)
    (count_,) = file.execute("SELECT count(*) FROM transitions").fetchone()
    file.close()
    assert count_ == 27


async def test_rows_are_saved_in_time_without_being_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(remembered, "SECONDS_UNSAVED", 0.02)
    store = TransitionStore(tmp_path / "numbers.sqlite")
    memory = TransitionMemory(store)
    game = RememberedGame(InterpretedGame(Numbers()), memory)
    for actions in (("add",), ("add", "add")):
        await follow(game, *actions)
        assert store.unsaved > 0
        await asyncio.sleep(0.1)
        assert store.unsaved == 0
    monkeypatch.setattr(remembered, "ROWS_AT_ONCE", 2)
    await follow(game, "add", "add", "add")
    assert store.unsaved < 2
    memory.close()


def damage_header(path):
    path.write_bytes(b"not a database, but long enough to look at" * 100)


def damage_version(path):
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize("damage", [damage_header, damage_version])
async def test_a_damaged_file_is_begun_anew_with_a_warning(damage, tmp_path):
    path = tmp_path / "numbers.sqlite"
    memory = TransitionMemory(TransitionStore(path))
    await wander(RememberedGame(InterpretedGame(Numbers()), memory), seed=0, steps=50)
    memory.close()
    damage(path)
    with pytest.warns(
        RuntimeWarning, match="damaged or of another version, and is begun anew"
    ) as warned:
        memory = TransitionMemory(TransitionStore(path))
    assert [one.filename for one in warned] == [__file__]
    toy = Numbers()
    await wander(RememberedGame(InterpretedGame(toy), memory), seed=0, steps=50)
    assert toy.asked["step"] > 0
    memory.close()
    memory = TransitionMemory(TransitionStore(path))
    toy = Numbers()
    await wander(RememberedGame(InterpretedGame(toy), memory), seed=0, steps=50)
    assert toy.asked["step"] == 0
    memory.close()


def test_a_file_that_cannot_be_opened_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TextGameError, match=r"cannot be used .*remember=memory"):
        TransitionStore(tmp_path / "file" / "numbers.sqlite")


async def test_a_file_that_cannot_be_written_ends_no_search(tmp_path):
    path = tmp_path / "numbers.sqlite"
    store = TransitionStore(path)
    memory = TransitionMemory(store)
    game = RememberedGame(InterpretedGame(Numbers()), memory)
    expected = await wander(InterpretedGame(Numbers()), seed=0, steps=300)
    store._file.run("PRAGMA query_only = 1")
    assert await wander(game, seed=0, steps=300) == expected
    with pytest.warns(RuntimeWarning, match="make room on the disk"):
        memory.save()
    assert await wander(game, seed=0, steps=300) == expected
    memory.close()


async def test_another_process_goes_on_where_one_was_killed(tmp_path):
    path = tmp_path / "games" / "trap.sqlite"
    with player(path) as process:
        saved = int(process.stdout.readline())
        # Somewhere in the next walk, or while it is saved.
        os.kill(process.pid, signal.SIGKILL)
    file = sqlite3.connect(path)
    assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert file.execute("SELECT count(*) FROM transitions").fetchone()[0] >= saved > 100
    file.close()
    memory = TransitionMemory(TransitionStore(path))
    game = RememberedGame(InterpretedGame(TrapDoor()), memory)
    # Nothing that was saved is asked again.
    known = await wander(InterpretedGame(TrapDoor()), seed=0, steps=600)
    assert await wander(game, seed=0, steps=600) == known
    assert game.seconds == GameSeconds()
    # From states that only the other process has met, it goes on to new ones.
    for state in {here.state for *_, here in known if here.ending is None}:
        for action in await game.actions(state):
            await view(game, (await game.step(state, action)).state)
    assert game.seconds.steps > 100
    other = await wander(InterpretedGame(TrapDoor()), seed=1, steps=600)
    assert await wander(game, seed=1, steps=600) == other
    memory.close()


def test_a_revision_has_a_file_of_its_own():
    one, two = (transition_store_path("Trap Door/1", revision) for revision in ("a", "b"))
    assert one != two
    assert one.parent == two.parent
    assert one.name.startswith("trap-door-1-")
