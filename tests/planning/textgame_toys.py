"""Interpreters and games for tests; they count the questions that they are asked."""

import asyncio
import random
from collections import Counter
from contextlib import closing, contextmanager

from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.environments.textgame.game import Ending, Transition
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.environments.textgame.transition_store import TransitionStore
from llm_planning.environments.textgame.trapdoor import TrapDoor


def trap_door():
    """The trap door for a planner, with a memory of its own."""
    return TextGameDomain(RememberedGame(SnapshotGame(TrapDoor()), TransitionMemory()))


class Numbers:
    """A game about a number: 12 wins, anything above loses. Snapshots are (number, trail)."""

    name = "numbers"
    revision = "numbers 1"
    max_score = 12.0
    walkthrough = ()
    objective = ""
    first_score = 0.0

    def __init__(self):
        self.asked = Counter()
        self.waiting = None

    def begin(self):
        self.asked["begin"] += 1
        return Transition((1, ()), "Begin.", self.first_score, None)

    def key(self, snapshot):
        return f"number {snapshot[0]}"

    def situation(self, snapshot):
        return self.key(snapshot)

    def step(self, snapshot, action):
        self.asked["step"] += 1
        number, trail = snapshot
        after = {"add": number + 1, "double": 2 * number, "wait": number}[action]
        ending = {True: Ending.VICTORY, False: Ending.FAILURE}[after == 12] if after > 11 else None
        text = f"{action}: {after}"
        return Transition((after, (*trail, action)), text, float(after - number), ending)

    def look(self, snapshot):
        self.asked["look"] += 1
        return f"You see {snapshot[0]}.", "nothing"

    async def valid_actions(self, snapshot):
        self.asked["actions"] += 1
        if self.waiting is not None:
            await self.waiting.wait()
        await asyncio.sleep(0)
        return ("add", "double") if snapshot[0] % 2 else ("add", "double", "wait")


class Parities(Numbers):
    """What can be done is decided by whether the number is odd."""

    def situation(self, snapshot):
        return "odd" if snapshot[0] % 2 else "even"


class Trails(Numbers):
    """An interpreter whose key is the number only, while `look` also shows the trail."""

    def step(self, snapshot, action):
        if action == "back":
            return Transition((1, (*snapshot[1], action)), "back", 0.0, None)
        return super().step(snapshot, action)

    def look(self, snapshot):
        return " ".join(snapshot[1]), ""


@contextmanager
def kept(path, interpreter=None, *, game=None):
    """A game that is remembered in a file, which is saved and closed at the end."""
    with closing(TransitionMemory(TransitionStore(path))) as memory:
        yield RememberedGame(game or SnapshotGame(interpreter or Numbers()), memory)


async def wander(game, *, seed, steps):
    """A random walk, with everything that the game answered on it."""
    draw = random.Random(seed)
    transitions = []
    here = await game.start()
    for _ in range(steps):
        if here.ending is not None:
            here = await game.start()
        seen, actions = await view(game, here.state)
        action = draw.choice(actions)
        here = await game.step(here.state, action)
        transitions.append((seen, actions, action, here))
    return transitions


async def view(game, state):
    """The answers to `look` and `inventory`, and the valid actions, of a state."""
    return await game.look(state), await game.actions(state)


def played(interpreter, *actions):
    """Takes actions one after the other, and returns the last transition."""
    transition = interpreter.begin()
    for action in actions:
        transition = interpreter.step(transition.state, action)
    return transition


async def follow(game, *actions):
    """The same with a game."""
    here = await game.start()
    for action in actions:
        here = await game.step(here.state, action)
    return here
