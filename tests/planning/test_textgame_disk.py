"""The transition memory on disk: kept between processes, whatever happens to them."""

import asyncio
import gc
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from weakref import WeakValueDictionary

import pytest
from textgame_toys import Numbers, follow, view, wander

from llm_planning.environments.textgame import opening, remembered
from llm_planning.environments.textgame.game import (
    GameSeconds,
    TextGameError,
)
from llm_planning.environments.textgame.interpreted import InterpretedGame, Origin
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.transition_store import (
    Record,
    TransitionStore,
    transition_store_path,
)
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.session import open_engine, open_uncached_engine

HERE = Path(__file__).parent


def player(path):
    """A process that plays and saves, until it is killed."""
    return subprocess.Popen(
        [sys.executable, str(HERE / "textgame_killed.py"), str(path)],
        env=os.environ | {"PYTHONPATH": str(HERE), "PYTHONHASHSEED": "77"},
        stdout=subprocess.PIPE,
        text=True,
    )


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
    game.memory._keep = lambda put: put(store)  # no timer, which would hold it for two seconds
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
    (tmp_path / "numbers.sqlite").mkdir()
    with pytest.raises(TextGameError, match=r"cannot be used .*remember=memory"):
        TransitionStore(tmp_path / "numbers.sqlite")


async def test_where_nothing_can_be_written_games_are_played_all_the_same(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    memory = TransitionMemory(TransitionStore(tmp_path / "file" / "numbers.sqlite"))
    expected = await wander(InterpretedGame(Numbers()), seed=0, steps=300)
    assert await wander(RememberedGame(InterpretedGame(Numbers()), memory), seed=0, steps=300) == (
        expected
    )
    memory.close()
    assert len(caplog.messages) == 1
    assert "nothing is added to the caches" in caplog.text


async def filled(path):
    """A sound file, and a connection to damage it through."""
    memory = TransitionMemory(TransitionStore(path))
    await wander(RememberedGame(InterpretedGame(Numbers()), memory), seed=0, steps=300)
    memory.close()
    return sqlite3.connect(path, isolation_level=None)


@pytest.mark.parametrize(
    "change",
    [
        f"UPDATE {table} SET {column} = {value}"
        for table, columns in {
            "states": "parent action depth look inventory actions",
            "transitions": "action next text reward ending",
        }.items()
        for column in columns.split()
        for value in ("'\u2028nowhere'", "x'ff00'", "-1e999", "17", "CAST(x'ff' AS TEXT)")
    ]
    + [
        "UPDATE states SET actions = printf('%s%s', replace(hex(zeroblob(9999)), '0', '['), ']')",
        "UPDATE states SET actions = '{\"a\": 1}'",
        "UPDATE states SET parent = state",
        "UPDATE states SET depth = 3",
        "DELETE FROM states",
        "DELETE FROM states WHERE depth > 1",
    ],
)
async def test_no_damage_of_a_row_is_a_traceback_or_never_ends(tmp_path, change):
    path = tmp_path / "numbers.sqlite"
    file = await filled(path)
    file.execute("PRAGMA ignore_check_constraints = 1")
    file.execute(change.replace("UPDATE", "UPDATE OR IGNORE"))
    file.close()
    memory = TransitionMemory(TransitionStore(path))
    game = RememberedGame(InterpretedGame(Numbers()), memory)
    said = "the transition memory cannot be used"
    try:
        await wander(game, seed=0, steps=300)
    except TextGameError as error:
        said = str(error)
    assert "cannot be used" in said
    assert len(said.splitlines()) == 1
    memory.close()


async def test_a_view_in_a_table_s_place_is_not_looked_at(tmp_path):
    path = tmp_path / "numbers.sqlite"
    file = await filled(path)
    file.execute("DROP TABLE states")
    file.execute(
        "CREATE VIEW states AS WITH RECURSIVE n(state) AS (SELECT 1 UNION ALL SELECT state + 1 "
        "FROM n) SELECT state, 1 parent, 1 action, 1 depth, 1 look, 1 inventory, 1 actions FROM n"
    )
    file.close()
    with pytest.warns(RuntimeWarning, match="begun anew"):
        TransitionStore(path).close()


async def test_without_caches_nothing_is_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(opening, "_snapshots", WeakValueDictionary())
    monkeypatch.setattr(opening, "_memories", WeakValueDictionary())
    monkeypatch.setattr(opening, "_held", [])
    with open_uncached_engine("none"):
        game = await opening.open_game("trap-door", opening.GameSettings())
        await wander(game, seed=0, steps=20)
    assert not (tmp_path / "cache").exists()
    opening.close_games()
    with open_engine("none"):
        await opening.open_game("trap-door", opening.GameSettings())
    assert list((tmp_path / "cache" / "transitions").iterdir())
    opening.close_games()


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
