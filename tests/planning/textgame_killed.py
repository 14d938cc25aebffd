"""Plays and saves until it is killed, and says how much: `python textgame_killed.py FILE`."""

import asyncio
import sys
from itertools import count
from pathlib import Path

from textgame_toys import wander

from llm_planning.environments.textgame.interpreted import InterpretedGame
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.transition_store import TransitionStore
from llm_planning.environments.textgame.trapdoor import TrapDoor


async def live(file):
    memory = TransitionMemory(TransitionStore(file))
    game = RememberedGame(InterpretedGame(TrapDoor()), memory)
    for seed in count():
        await wander(game, seed=seed, steps=600)
        memory.save()
        made = sum(len(record.transitions) for record in memory.records.values())
        print(made, flush=True)


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1])))
