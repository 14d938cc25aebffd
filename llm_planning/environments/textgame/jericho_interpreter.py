"""Jericho games for everybody who plays: snapshots, keys, valid actions."""

from __future__ import annotations

import threading
from hashlib import blake2b
from typing import TYPE_CHECKING

from llm_planning.environments.textgame.game import Played
from llm_planning.environments.textgame.jericho_actions import REVISION, find_valid_actions
from llm_planning.environments.textgame.jericho_machine import Machine, exact_key, find_jericho

if TYPE_CHECKING:
    from llm_planning.environments.textgame.jericho_games import Story
    from llm_planning.environments.textgame.jericho_machine import MachineSnapshot, StateOption


class JerichoInterpreter:
    """Plays a Z-machine story from any snapshot; an `Interpreter`.

    The story's random numbers begin with the seed of Jericho's bindings, under which its
    walkthrough holds, and are part of the state: no answer depends on what else was played.

    Two namings of states. `exact`: everything in the interpreter's memory. Turn counters and the
    last command are in there too, so states hardly ever meet again on another way. `world`:
    Jericho's hash of the objects, with score and ending. States meet, but what is not an
    object's place or attribute is given up: turns, hunger, random numbers, timers, points that can
    be had only once. Of states with the same name, the one that was met first speaks for all.

    Args:
        story: a supported one.
        state: how states are named.

    Attributes:
        revision: of the story file, of Jericho, of the naming and of how valid actions are found.
        objective: not known.

    Raises:
        MissingJerichoError: Jericho is not installed.
    """

    def __init__(self, story: Story, *, state: StateOption) -> None:
        self._story = story
        self._machine = Machine(story)
        self._playing = threading.Lock()
        self._key = {"exact": exact_key, "world": self._world_key}[state]
        jericho = find_jericho()
        told = (story.digest, jericho.__version__, state, story.seed, story.grammar, REVISION)
        self.name = story.name
        self.revision = blake2b(repr(told).encode(), digest_size=16).hexdigest()
        self.max_score = float(self._machine.max_score)
        self.walkthrough = story.walkthrough
        self.objective = ""

    def begin(self) -> Played:
        """The first snapshot and the first words.

        The reward is the score that the game begins with (10 in Detective), so that the rewards of
        an episode add up to the game's score.
        """
        first = self._machine.first
        return Played(first, self._machine.first_words, float(first.score), first.ending)

    def key(self, snapshot: MachineSnapshot) -> str:
        """Names the state."""
        return self._key(snapshot)

    def step(self, snapshot: MachineSnapshot, action: str) -> Played:
        """Plays one action.

        A story that stops its machine has failed, unless it said before that it was won.

        Raises:
            TextGameError: the action reaches outside the game (`undo`, `save`), or is too long.
        """
        with self._playing:
            after, words = self._machine.play(snapshot, action)
        return Played(after, words, float(after.score - snapshot.score), after.ending)

    def look(self, snapshot: MachineSnapshot) -> tuple[str, str]:
        """The answers to `look` and to `inventory`, no turn taken; nothing of an ended game."""
        if snapshot.ending is not None:
            return "", ""
        with self._playing:
            look, inventory = self._machine.answers(snapshot, ("look", "inventory"))
        return look, inventory

    async def valid_actions(self, snapshot: MachineSnapshot) -> tuple[str, ...]:
        """𝒜(s), computed in a worker process.

        Raises:
            TextGameError: the interpreter crashed or hung where it was only looked at.
        """
        return await find_valid_actions(self._story, snapshot)

    def _world_key(self, snapshot: MachineSnapshot) -> str:
        with self._playing:
            world = self._machine.world(snapshot)
        named = (world, snapshot.score, snapshot.ending)
        return blake2b(repr(named).encode(), digest_size=16).hexdigest()
