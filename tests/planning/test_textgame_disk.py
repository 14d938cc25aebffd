"""The transition memory on disk: kept between processes, even if they are killed."""

import asyncio
import sqlite3
from contextlib import closing, nullcontext

import pytest
from textgame_toys import Numbers, follow, kept, view, wander

from llm_planning.environments.textgame import remembered
from llm_planning.environments.textgame.game import Origin, TextGameError
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.environments.textgame.transition_store import (
    KnownState,
    TransitionStore,
    transition_store_path,
)


async def test_the_way_to_a_state_of_an_earlier_run_is_played_again(tmp_path):
    path = tmp_path / "numbers.sqlite"
    with kept(path) as game:
        # 8 is reached by seven steps first, and then by three.
        await follow(game, *["add"] * 7)
        await follow(game, "double", "double", "double")
    toy = Numbers()
    with kept(path, toy) as game:
        assert await game.look("number 8") == ("You see 8.", "nothing")
        assert toy.asked["step"] == 3
        record = game.memory.find("number 8")
        assert (record.origin, record.depth) == (Origin("number 4", "double"), 3)


async def test_actions_and_looks_are_kept_on_disk_separately(tmp_path):
    asked = []
    for _ in range(3):
        toy = Numbers()
        with kept(tmp_path / "numbers.sqlite", toy) as game:
            here = await follow(game, "add", "add")
            assert await game.actions("number 2") == ("add", "double", "wait")
            if asked:
                # In the second run: 1 before its actions are known, 2 after.
                await view(game, "number 1")
                assert await game.look("number 2") == ("You see 2.", "nothing")
            asked.append((toy.asked["step"], toy.asked["actions"], toy.asked["look"]))
            record = game.memory.find(here.state)
            assert (record.actions, record.seen) == (None, None)
    assert asked == [(2, 1, 0), (1, 1, 2), (0, 0, 0)]


async def test_a_look_is_kept_where_the_actions_are_not(tmp_path):
    path = tmp_path / "numbers.sqlite"
    toy = Numbers()
    toy.waiting = asyncio.Event()
    with kept(path, toy) as game:
        start = await game.start()
        viewing = asyncio.create_task(view(game, start.state))
        while not toy.asked["actions"]:  # noqa: ASYNC110 - a game has no event to wait for
            await asyncio.sleep(0)
        viewing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await viewing
    toy = Numbers()
    with kept(path, toy) as game:
        assert await view(game, start.state) == (("You see 1.", "nothing"), ("add", "double"))
    assert (toy.asked["look"], toy.asked["actions"]) == (0, 1)


async def test_ways_of_two_processes_never_make_a_circle(tmp_path):
    """One process reached s by p, the other p by s: in any order of saving, both ways end."""
    path = tmp_path / "ways.sqlite"
    ours, theirs = TransitionStore(path), TransitionStore(path)
    for store in (ours, theirs):
        store.put_state("start", KnownState(None, 0))
    ours.put_state("p", KnownState(Origin("start", "a"), 5))
    ours.put_state("s", KnownState(Origin("p", "b"), 6))
    theirs.put_state("s", KnownState(Origin("start", "c"), 1))
    theirs.put_state("p", KnownState(Origin("s", "d"), 2))
    for first, second in ((ours, theirs), (theirs, ours)):
        first.save()
        second.save()
        assert first.load("s").origin == Origin("start", "c")
        assert first.load("p").origin == Origin("s", "d")
    ours.close()
    theirs.close()


async def test_two_open_memories_share_a_file(tmp_path):
    path = tmp_path / "numbers.sqlite"
    with kept(path) as first, kept(path) as second:
        for seed in range(3):
            walks = [await wander(game, seed=seed, steps=100) for game in (first, second)]
            assert walks[0] == walks[1]
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM transitions").fetchone() == (27,)


async def test_rows_are_saved_in_time_without_being_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(remembered, "SECONDS_UNSAVED", 0.3)
    with kept(tmp_path / "numbers.sqlite") as game:
        store = game.memory._store
        for actions in (("add",), ("add", "add")):
            await follow(game, *actions)
            assert store.unsaved > 0
            while store.unsaved:  # noqa: ASYNC110 - a store has no event to wait for
                await asyncio.sleep(0.01)
        monkeypatch.setattr(remembered, "ROWS_AT_ONCE", 2)
        await follow(game, "add", "add", "add")
        assert store.unsaved < 2


def damage_header(path):
    path.write_bytes(b"not a database, but long enough to look at" * 100)


def damage_version(path):
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize("damage", [damage_header, damage_version])
async def test_a_damaged_file_is_begun_anew_with_a_warning(damage, tmp_path):
    path = tmp_path / "numbers.sqlite"
    with kept(path) as game:
        await wander(game, seed=0, steps=50)
    damage(path)
    played = []
    for warned in (pytest.warns(RuntimeWarning, match="was damaged or of another"), nullcontext()):
        toy = Numbers()
        with warned, kept(path, toy) as game:
            await wander(game, seed=0, steps=50)
        played.append(toy.asked["step"])
    assert played[0] > played[1] == 0


def test_the_warning_names_the_caller_who_opened_the_file(tmp_path):
    path = tmp_path / "numbers.sqlite"
    damage_header(path)
    with pytest.warns(RuntimeWarning, match="is begun anew") as warned:
        TransitionStore(path).close()
    assert [warning.filename for warning in warned] == [__file__]


def test_a_file_that_cannot_be_opened_is_a_clear_error(tmp_path):
    with pytest.raises(TextGameError, match=r"cannot be used .*remember=memory"):
        TransitionStore(tmp_path)


async def test_where_nothing_can_be_written_games_are_played_all_the_same(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    with kept(tmp_path / "file" / "numbers.sqlite") as game:
        expected = await wander(SnapshotGame(Numbers()), seed=0, steps=300)
        assert await wander(game, seed=0, steps=300) == expected
    assert len(caplog.messages) == 1
    assert "nothing is added to the caches" in caplog.text


async def filled(path):
    """An undamaged file, and a connection to damage it with."""
    with kept(path) as game:
        await wander(game, seed=0, steps=300)
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
    message = "the transition memory cannot be used"
    with kept(path) as game:
        try:
            await wander(game, seed=0, steps=300)
        except TextGameError as error:
            message = str(error)
    assert "cannot be used" in message
    assert len(message.splitlines()) == 1


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


async def test_a_file_that_cannot_be_written_ends_no_search(tmp_path):
    with kept(tmp_path / "numbers.sqlite") as game:
        expected = await wander(SnapshotGame(Numbers()), seed=0, steps=300)
        game.memory._store._file.run("PRAGMA query_only = 1")
        assert await wander(game, seed=0, steps=300) == expected
        with pytest.warns(RuntimeWarning, match="make room on the disk"):
            game.memory.save()
        assert await wander(game, seed=0, steps=300) == expected


def test_a_revision_has_a_file_of_its_own():
    first, second = (transition_store_path("Trap Door/1", revision) for revision in ("a", "b"))
    assert first != second
    assert first.parent == second.parent
    assert first.name.startswith("trap-door-1-")
