"""A transition memory keeps all that was saved when its process is killed."""

import asyncio
import sqlite3
from itertools import count
from pathlib import Path

from killing import start
from textgame_toys import view, wander

from llm_planning.environments.textgame.game import GameSeconds
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.environments.textgame.transition_store import TransitionStore
from llm_planning.environments.textgame.trapdoor import TrapDoor


def remembered(path):
    memory = TransitionMemory(TransitionStore(Path(path)))
    return memory, RememberedGame(SnapshotGame(TrapDoor()), memory)


def play_and_save(path):
    """Prints the number of transitions after each save, until the process is killed."""

    async def play():
        memory, game = remembered(path)
        for seed in count():
            await wander(game, seed=seed, steps=600)
            memory.save()
            print(sum(len(known.transitions) for known in memory.states.values()), flush=True)

    asyncio.run(play())


async def test_another_process_goes_on_where_one_was_killed(tmp_path):
    path = tmp_path / "games" / "trap.sqlite"
    with start(play_and_save, path) as process:
        saved = int(process.stdout.readline())
        process.kill()  # somewhere in the next walk, or while it is saved
    file = sqlite3.connect(path)
    assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert file.execute("SELECT count(*) FROM transitions").fetchone()[0] >= saved > 100
    file.close()
    memory, game = remembered(path)
    # Nothing that was saved is asked again.
    known = await wander(SnapshotGame(TrapDoor()), seed=0, steps=600)
    assert await wander(game, seed=0, steps=600) == known
    assert game.seconds == GameSeconds()
    # From states that only the other process has met, it goes on to new ones.
    for state in {here.state for *_, here in known if here.ending is None}:
        for action in await game.actions(state):
            await view(game, (await game.step(state, action)).state)
    assert game.seconds.steps > 100
    other = await wander(SnapshotGame(TrapDoor()), seed=1, steps=600)
    assert await wander(game, seed=1, steps=600) == other
    memory.close()
