"""Plays a game that TextWorld made, from any state.

A snapshot is the state of the Z-machine (41 KB), the facts and the completed quests, and is never
copied again. TextWorld's own wrappers track the facts too, but cannot be put back to an earlier
state, so this module tracks them: the game names every action that succeeds (`tw-trace-actions`),
and the action says which facts it removes and which it adds. A completed quest stays completed, so
a state is the facts together with the quests; `key` is a hash of both.

In three ways a game's words depend on how a state was reached. Here they only depend on the state:

- Inform lists things in the order in which they last moved. After every action, the object tree of
  the Z-machine is put in the order of the objects' numbers.
- The last words and the status line count the turns. A text ends before the prompt, with the line
  that tells how the game ended.
- A question of the parser ("Which do you mean ...?") waits for an answer. An action that changes
  neither facts nor quests leaves the snapshot as it was.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from llm_base.files import read_regular
from llm_planning.environments.textgame.game import Ending, TextGameError, Transition
from llm_planning.environments.textgame.jericho_commands import checked, verbs_of
from llm_planning.environments.textgame.jericho_machine import find_jericho, hush
from llm_planning.environments.textgame.textworld_kinds import level_of
from llm_planning.environments.textgame.textworld_making import (
    LONGEST_DESCRIPTION,
    READING,
    make_once,
    opening_made,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from textworld.logic import Action, Proposition

# Part of every game's revision. Increase it when `game_request` changes: games are then made anew.
_GENERATION = 1
# Part of the interpreter's revision. Increase it when texts, keys or valid actions change.
_REVISION = 1
_PACKAGES = ("textworld", "jericho")
_KEPT_MOVES = 20_000

# They repeat or correct the command before. (TextWorld's own, `tw-...`, change later answers.)
_BACK = frozenset({"again", "g", "oops", "o"})

MachineState: TypeAlias = tuple[Any, ...]
"""The result of `jericho.FrotzEnv.get_state`; it must not be changed."""

_WON = "*** The End ***"
_LOST = "*** You lost! ***"
_TRACED = re.compile(r"\[([^]]+)\]\n?")
_SUCCEEDED = re.compile(r"\[([^]()]+) - succeeded\]")
_SCORE = re.compile(r"<score>\s*(-?\d+)")
_COUNTERS = re.compile(r"<(score|moves)>.*?</\1>", re.DOTALL)
_PROMPT = re.compile(r"\n>.*", re.DOTALL)
_BLANK = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class TextWorldSnapshot:
    """A state.

    Attributes:
        facts: TextWorld's propositions that hold.
        completed: positions of the completed quests.
        ending: None while the game goes on.
    """

    machine: MachineState
    facts: frozenset[Proposition]
    completed: frozenset[int]
    score: int
    ending: Ending | None


@dataclass(frozen=True, slots=True)
class _Moves:
    """The actions that are possible under some facts.

    Attributes:
        actions: the game's report of an action -> TextWorld's action.
    """

    commands: tuple[str, ...]
    actions: dict[str, Action]


class TextWorldInterpreter:
    """A compiled game; not for two threads at once.

    Args:
        file: the compiled game; TextWorld's description lies beside it.
        name: for people.

    Attributes:
        revision: a hash of the game, and the versions of this module, TextWorld and Jericho.
        max_score: sum of the rewards of the quests.
        walkthrough: the game's own solution without commands that change nothing, such as `examine
            cookbook` or opening an open door.
        objective: the goal in the game's own words.
    """

    def __init__(self, file: Path, *, name: str) -> None:
        from textworld.generator.game import Game
        from textworld.generator.inform7 import Inform7Game

        description = file.with_suffix(".json")
        contents = read_regular(file) + read_regular(description, most=LONGEST_DESCRIPTION)
        game: Any = Game.load(str(description))
        self.name = name
        versions = [f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES]
        digest = hashlib.sha256(contents).hexdigest()
        self.revision = ", ".join((digest, f"revision {_REVISION}", *versions))
        self.max_score = float(game.max_score)
        self.objective = " ".join(str(game.objective).split())
        self._game = game
        self._inform: Any = Inform7Game(game)
        self._fact_name = cache(str)
        self._moves = lru_cache(maxsize=_KEPT_MOVES)(self._find_moves)
        hush()
        self._frotz: Any = find_jericho().FrotzEnv(str(file), seed=1)
        self._first = self._begin()
        self.walkthrough = self._solve(game.walkthrough or ())

    def begin(self) -> Transition:
        """The first snapshot; its text is the objective and the first room."""
        return self._first

    def _begin(self) -> Transition:
        self._frotz.reset()
        self._frotz.step("tw-trace-actions")
        self._frotz.step("tw-extra-infos score")
        facts = frozenset(self._game.world.state.facts)
        first = TextWorldSnapshot(self._machine_state(), facts, frozenset(), 0, None)
        look, _ = self.look(first)
        return Transition(first, "\n\n".join(filter(None, (self.objective, look))), 0.0, None)

    def key(self, snapshot: TextWorldSnapshot) -> str:
        """A hash of the facts, the completed quests and the ending."""
        words = sorted(map(self._fact_name, snapshot.facts))
        words += map(str, sorted(snapshot.completed))
        words.append(str(snapshot.ending))
        return hashlib.sha256("\n".join(words).encode()).hexdigest()[:32]

    def situation(self, snapshot: TextWorldSnapshot) -> str:
        """The key."""
        return self.key(snapshot)

    def step(self, snapshot: TextWorldSnapshot, action: str) -> Transition:
        """Plays one action.

        Raises:
            TextGameError: the action reaches outside the game, like `save`, or repeats or corrects
                an earlier one, or is too long; or the Z-machine stopped; or the game's score
                differs from the rewards of the completed quests.
        """
        command = checked(action)
        if refused := sorted(filter(_reaches_back, verbs_of(command))):
            raise TextGameError(
                f"{self.name} refuses {action!r}: what {refused[0]!r} does depends on more than "
                "the state of the game"
            )
        answer = self._answer(snapshot, command)
        facts, completed, score = snapshot.facts, snapshot.completed, snapshot.score
        # A line can hold several commands. Each is a turn, whose words end with the score.
        for turn in answer.split("</score>"):
            for event in _SUCCEEDED.findall(turn):
                done = self._moves(facts).actions.get(event.lower())
                if done is not None:
                    facts = (facts - done.removed) | done.added
            points = _SCORE.search(turn)
            if points is not None:
                completed, score = self._complete(completed, facts), int(points[1])
        self._check(action, completed, score)
        ending = Ending.VICTORY if _WON in answer else Ending.FAILURE if _LOST in answer else None
        if (facts, completed, ending) == (snapshot.facts, snapshot.completed, None):
            after = snapshot
        else:
            after = TextWorldSnapshot(self._machine_state(), facts, completed, score, ending)
        return Transition(after, _words(answer), float(score - snapshot.score), ending)

    def look(self, snapshot: TextWorldSnapshot) -> tuple[str, str]:
        """The answers to `look` and to `inventory`, no turn taken."""
        return _words(self._answer(snapshot, "look")), _words(self._answer(snapshot, "inventory"))

    async def valid_actions(self, snapshot: TextWorldSnapshot) -> tuple[str, ...]:
        """𝒜(s): TextWorld's admissible commands that change something, sorted."""
        return self._moves(snapshot.facts).commands

    def _solve(self, commands: Iterable[str]) -> tuple[str, ...]:
        """The commands that change something when all are played from the beginning."""
        solution = []
        snapshot = self._first.state
        for command in commands:
            after = self.step(snapshot, command).state
            if after is not snapshot:
                solution.append(command)
            snapshot = after
        return tuple(solution)

    def _answer(self, snapshot: TextWorldSnapshot, command: str) -> str:
        """The game's answer in a state, traces and counters included."""
        self._frotz.set_state(snapshot.machine)
        # The rest of another state's prompt must not become a part of the next answer.
        self._frotz.frotz_lib.flush_buffer()
        self._frotz.frotz_lib.dumb_clear_screen()
        answer, _, _, _ = self._frotz.step(command)
        if self._frotz._emulator_halted():
            self._frotz.reset()  # a stopped machine restores no state
            raise TextGameError(
                f"the Z-machine of {self.name} stopped over {command!r}: the game has a fault; "
                "play another seed or level"
            )
        return str(answer)

    def _machine_state(self) -> MachineState:
        """The Z-machine's state, with things in the order of their numbers."""
        ram, *rest = self._frotz.get_state()
        _order_objects(ram)
        return (ram, *rest)

    def _find_moves(self, facts: frozenset[Proposition]) -> _Moves:
        from textworld.logic import State

        kb = self._game.kb
        state = State(kb.logic, facts)
        possible = list(state.all_applicable_actions(kb.rules.values(), kb.types.constants_mapping))
        # If the game reports two actions alike, the one with more preconditions is kept.
        possible.sort(key=lambda action: (len(action.preconditions), action.name))
        actions = {self._event(action): action for action in possible}
        commands = set(filter(_changes, self._inform.gen_commands_from_actions(possible)))
        return _Moves(tuple(sorted(commands)), actions)

    def _event(self, action: Action) -> str:
        """The game's report of this action."""
        named = self._game.kb.rules[action.name].match(action)
        names = {slot.name: self._game.infos[thing.name].name for slot, thing in named.items()}
        return str(self._game.kb.inform7_events[action.name]).format(**names).lower()

    def _complete(self, completed: frozenset[int], facts: frozenset[Proposition]) -> frozenset[int]:
        """The completed quests after a turn."""
        new = (
            position
            for position, quest in enumerate(self._game.quests)
            if position not in completed
            and not _any_holds(quest.fail_events, facts)
            and _any_holds(quest.win_events, facts)
        )
        return completed.union(new)

    def _check(self, action: str, completed: frozenset[int], score: int) -> None:
        expected = sum(self._game.quests[position].reward for position in completed)
        if score != expected:
            raise TextGameError(
                f"{self.name} has {score} points after {action!r}, but its quests give {expected}: "
                "TextWorld does not describe this game rightly; play another seed or level"
            )


def open_textworld(kind: str, *, level: int | None, seed: int) -> TextWorldInterpreter:
    """Opens a generated game; blocks, and takes seconds to make a game that is not in the cache.

    Any number of threads may open games at once.

    Args:
        kind: one of `KINDS`.
        level: None for the kind's default.

    Raises:
        TextGameError: TextWorld is not installed, has no such game or cannot make it.
    """
    level = level_of(kind, level)
    if seed < 0:
        raise TextGameError(f"game_seed is {seed}: set 0 or more")
    name = f"{kind}-{level}-{seed}"
    # XENON's kitchens use folders without the prefix.
    file = make_once(
        name, folder=f"text-{name}", generation=_GENERATION, kind=kind, level=level, seed=seed
    )
    with READING, opening_made(name, file):
        return TextWorldInterpreter(file, name=name)


def _changes(command: str) -> bool:
    """Whether a command can change anything."""
    return command.split(maxsplit=1)[0] not in {"look", "inventory", "examine"}


def _reaches_back(verb: str) -> bool:
    """Whether a verb's effect depends on more than the facts and the quests."""
    return verb in _BACK or verb.startswith("tw-")


def _any_holds(events: Iterable[Any], facts: frozenset[Proposition]) -> bool:
    return any(facts.issuperset(event.condition.preconditions) for event in events)


def _words(answer: str) -> str:
    """The game's words without traces, counters, the prompt and the status line after it."""
    text = _PROMPT.sub("", _COUNTERS.sub("", _TRACED.sub("", answer)))
    for end in (_WON, _LOST):
        before, found, _ = text.partition(end)
        text = before + found
    return _BLANK.sub("\n\n", text).strip()


def _order_objects(ram: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
    """Chains the children of every object in the order of their numbers, in place.

    Source: the Z-Machine Standards Document 1.1, 12.3: from version 4 on, the table of objects
    begins with 63 words of defaults; an object is 7 words, the first three of them its attributes,
    then parent, sibling, child and the address of its properties. The table ends where the first
    object's properties begin, as Inform lays it out.

    Args:
        ram: uint8, [bytes of dynamic memory].
    """
    start = int.from_bytes(ram[10:12].tobytes()) + 126
    end = int.from_bytes(ram[start + 12 : start + 14].tobytes())
    count = (end - start) // 14
    tree = ram[start : start + 14 * count].view(">u2").reshape(count, 7)
    parents = tree[:, 3].astype(np.intp)
    held = np.flatnonzero(parents)
    held = held[np.argsort(parents[held], kind="stable")]
    first = np.diff(parents[held], prepend=0) != 0
    last = np.append(first[1:], True)
    tree[held, 4] = np.where(last, 0, np.roll(held, -1) + 1)
    tree[parents[held[first]] - 1, 5] = held[first] + 1
