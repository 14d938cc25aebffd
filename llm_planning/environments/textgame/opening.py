"""Which game a task and its settings name, and opening it.

Whoever plays the same game in a process shares its interpreter, its snapshots and its transition
memory; the seconds are each player's own. Nobody has to close anything: what a memory has not saved
yet is saved every few seconds while the event loop runs, when the task that opened the game ends
(in a sweep, a trial), when the process ends in order, and by `save_games`, which costs nothing when
there is nothing to write. A process that is killed loses the last seconds, and no others.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import Field

from llm_planning.environments.textgame.game import TextGameError
from llm_planning.environments.textgame.interpreted import InterpretedGame, Snapshots
from llm_planning.environments.textgame.jericho_games import JERICHO_GAMES, find_story, open_jericho
from llm_planning.environments.textgame.jericho_machine import StateOption
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.textworld_kinds import KINDS, LEVELS
from llm_planning.environments.textgame.transition_store import (
    TransitionStore,
    transition_store_path,
)
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.names import remedy
from llm_planning.planners.settings import PlannerSettings, SettingsError

if TYPE_CHECKING:
    from llm_planning.environments.textgame.game import Interpreter, TextGame

TRAP_DOOR = TrapDoor.name

GAME_TASKS: tuple[str, ...] = (*KINDS, TRAP_DOOR, *JERICHO_GAMES)
"""What a planner of text games can be asked to play."""

Remember: TypeAlias = Literal["disk", "memory", "off"]


class UnknownGameError(ValueError):
    """No game has this name."""


class GameSettings(PlannerSettings):
    """Settings that say which game is played.

    Attributes:
        game: a story file, to be played instead of the task's game.
        games: folder of the story files of Table 1's games, each named after its task.
        game_seed: of a generated game.
        level: of a generated game; by default its kind's.
        state: what tells the states of a story file apart: `exact` the whole memory of the game,
            `world` its objects alone, which takes states for equal that are not (see
            `JerichoInterpreter`); not with remember=disk.
        remember: where transitions are kept: on `disk` (and in memory) for every later run, in
            `memory` for this process, or not at all (`off`).
    """

    game: str = ""
    games: str = ""
    game_seed: int = Field(1, ge=0)
    level: int | None = None
    state: StateOption = "exact"
    remember: Remember = "disk"


@runtime_checkable
class Solved(Protocol):
    """An interpreter that knows how its game is won.

    Attributes:
        walkthrough: actions from the beginning on.
    """

    walkthrough: tuple[str, ...]


@dataclass(slots=True)
class _Table:
    """A game of this process, and what its players share.

    Attributes:
        lock: held while it is opened.
        snapshots: None until it is open.
        memories: by the file that they are kept in; None where they are not.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    snapshots: Snapshots | None = None
    memories: dict[Path | None, TransitionMemory] = field(default_factory=dict)


# A child of this process can use neither an interpreter nor a file of its parent's.
_Key: TypeAlias = tuple[int, str, str, int | None, int, StateOption]
_tables: dict[_Key, _Table] = {}


async def open_game(task: str, settings: GameSettings) -> TextGame:
    """Opens a game for one player; it is made, where it has to be, in a thread.

    Args:
        task: one of `GAME_TASKS`.
        settings: which game of that name.

    Raises:
        UnknownGameError: no game has this name.
        SettingsError: the settings do not belong to the game.
        TextGameError: the game cannot be made or opened.
    """
    table, snapshots = await _opened(task, settings)
    game = InterpretedGame(snapshots)
    if settings.remember == "off":
        return game
    interpreter = snapshots.interpreter
    on_disk = settings.remember == "disk"
    path = transition_store_path(interpreter.name, interpreter.revision) if on_disk else None
    if path not in table.memories:
        table.memories[path] = TransitionMemory(None if path is None else TransitionStore(path))
    memory = table.memories[path]
    trial = asyncio.current_task()
    if trial is not None:
        trial.add_done_callback(lambda _: memory.save())
    return RememberedGame(game, memory)


async def walkthrough_of(task: str, settings: GameSettings) -> tuple[str, ...]:
    """The actions that win a game.

    Raises:
        UnknownGameError: no game has this name.
        SettingsError: the settings do not belong to the game.
        TextGameError: the game cannot be made or opened, or nobody knows how to win it.
    """
    _, snapshots = await _opened(task, settings)
    interpreter = snapshots.interpreter
    if not isinstance(interpreter, Solved) or not interpreter.walkthrough:
        raise TextGameError(f"{interpreter.name} comes without a walkthrough: play another game")
    return tuple(interpreter.walkthrough)


def save_games() -> None:
    """Saves what the memories of this process have not saved yet."""
    for memory in _memories():
        memory.save()


def close_games() -> None:
    """Saves and closes all games of this process; players who still hold one are left without."""
    for memory in _memories():
        memory.close()
    _tables.clear()


atexit.register(save_games)


def _memories() -> list[TransitionMemory]:
    own = [table for (process, *_), table in _tables.items() if process == os.getpid()]
    return [memory for table in own for memory in table.memories.values()]


async def _opened(task: str, settings: GameSettings) -> tuple[_Table, Snapshots]:
    _check(task, settings)
    name = "" if settings.game else task
    where = settings.game or (settings.games if task in JERICHO_GAMES else "")
    key = (os.getpid(), name, where, settings.level, settings.game_seed, settings.state)
    table = _tables.setdefault(key, _Table())
    if table.snapshots is None:
        return table, await asyncio.to_thread(_open, table, name, where, settings)
    return table, table.snapshots


def _open(table: _Table, name: str, where: str, settings: GameSettings) -> Snapshots:
    with table.lock:
        if table.snapshots is None:
            snapshots = Snapshots(_interpreter(name, where, settings))
            snapshots.begin()
            table.snapshots = snapshots
        return table.snapshots


def _interpreter(name: str, where: str, settings: GameSettings) -> Interpreter:
    if name == TRAP_DOOR:
        return TrapDoor()
    if name in KINDS:
        from llm_planning.environments.textgame.textworld_interpreter import open_textworld

        return open_textworld(name, level=settings.level, seed=settings.game_seed)
    file = find_story(name, where) if name else Path(where).expanduser()
    return open_jericho(file, state=settings.state)


def _check(task: str, settings: GameSettings) -> None:
    """Refuses settings that would have no effect, or have none that is possible."""
    if task not in GAME_TASKS:
        raise UnknownGameError(f"unknown game {task!r}; {remedy(task, GAME_TASKS)}")
    named = "a story file" if settings.game else task
    if settings.game or task not in KINDS:
        for key in ("level", "game_seed"):
            value = getattr(settings, key)
            if value != GameSettings.model_fields[key].default:
                raise SettingsError(
                    f"setting {key}={value} is not possible: {named} is not generated; leave it "
                    f"out, or play one of {', '.join(KINDS)}"
                )
    elif settings.level is not None and settings.level not in LEVELS[task]:
        raise SettingsError(
            f"setting level={settings.level} is not possible: the levels of {task} are "
            f"{LEVELS[task]}"
        )
    if settings.state == "world":
        if not settings.game and task not in JERICHO_GAMES:
            raise SettingsError(
                f"setting state=world is not possible: it is for story files, and {task} is none; "
                "leave it out"
            )
        if settings.remember == "disk":
            raise SettingsError(
                "setting state=world is not possible with remember=disk: what an earlier run met "
                "under a name need not be met again; set remember=memory"
            )
