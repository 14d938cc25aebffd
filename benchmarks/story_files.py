"""What the valid actions of a story cost on this machine, and what remembering them by world saves.

    python benchmarks/story_files.py                      # the story that comes with this project
    python benchmarks/story_files.py --rollouts 20 FILE   # any story file
    python benchmarks/story_files.py --known FILE         # faster: trusts that worlds tell all

Players take random actions. Counted are the states whose valid actions a search needs, and the
worlds that they are in (`Interpreter.situation`): so many computations there are with a memory by
state and by world. Computed anew in every state, the actions have to be those of its world.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING

from llm_planning.environments.textgame.jericho_games import read_story, story_file
from llm_planning.environments.textgame.jericho_interpreter import (
    SECONDS,
    JerichoInterpreter,
    valid_actions,
)
from llm_planning.environments.textgame.shipped_stories import GULL_ROCK

if TYPE_CHECKING:
    from llm_planning.environments.textgame.jericho_machine import MachineSnapshot, Story

STEPS = 10
"""The most actions of a rollout: MC-DML's first depth."""


@dataclass(slots=True)
class Walks:
    """What random rollouts met.

    Attributes:
        states: names of the states whose valid actions were asked for.
        worlds: situation -> the valid actions of the first state in it.
        seconds: of processor time, for each computation.
        unequal: states whose valid actions are not those of their situation.
    """

    states: set[str] = field(default_factory=set)
    worlds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    unequal: int = 0

    @property
    def saved(self) -> float:
        """How many times fewer computations there are by world than by state."""
        return len(self.states) / len(self.worlds)

    def report(self, name: str) -> str:
        """The measurements, a line each."""
        sizes = [len(actions) for actions in self.worlds.values()]
        return "\n".join(
            (
                f"{name}: {len(self.states)} states in {len(self.worlds)} worlds, "
                f"{self.saved:.1f} times fewer computations",
                f"  valid actions a world: mean {fmean(sizes):.1f}, {min(sizes)} to {max(sizes)}",
                f"  CPU seconds a computation: mean {fmean(self.seconds):.2f}, "
                f"at most {max(self.seconds):.2f} ({len(self.seconds)} measured)",
                f"  states whose actions are not those of their world: {self.unequal}",
            )
        )


def walk(story: Story, *, rollouts: int, anew: bool, seed: int = 0) -> Walks:
    """Plays random rollouts from the beginning, in this process.

    Args:
        story: read by `read_story`.
        rollouts: number of them.
        anew: compute the actions of every state, and compare them with those of its world.
        seed: of the draws.
    """
    game = JerichoInterpreter(story, state="exact")
    draw, met = Random(seed), Walks()
    for _ in range(rollouts):
        here = game.begin()
        for _ in range(STEPS):
            if here.ending is not None:
                break
            here = game.step(here.state, draw.choice(_actions(game, story, here.state, met, anew)))
    return met


def _actions(
    game: JerichoInterpreter, story: Story, snapshot: MachineSnapshot, met: Walks, anew: bool
) -> tuple[str, ...]:
    name, world = game.key(snapshot), game.situation(snapshot)
    known = met.worlds.get(world)
    if known is None or (anew and name not in met.states):
        began = time.process_time()
        found = valid_actions(story, snapshot, SECONDS).actions
        met.seconds.append(time.process_time() - began)
        met.unequal += known is not None and known != found
        known = met.worlds.setdefault(world, found)
    met.states.add(name)
    return known


async def main() -> None:
    """Measures each file that is named, or the shipped story."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", default=[str(GULL_ROCK.file)])
    parser.add_argument("--rollouts", type=int, default=150)
    parser.add_argument(
        "--known", action="store_true", help="trust the worlds: compute each one's actions once"
    )
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} cores; {chosen.rollouts} random rollouts of {STEPS} actions at most")
    for name in chosen.files:
        story = await asyncio.to_thread(read_story, story_file(name))
        met = walk(story, rollouts=chosen.rollouts, anew=not chosen.known)
        print(met.report(Path(name).name))


if __name__ == "__main__":
    asyncio.run(main())
