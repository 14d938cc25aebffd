"""Which game a task and its settings name, and opening it.

Whoever plays the same game in a process shares its interpreter, its snapshots and its transition
memory; the seconds are each player's own. A generated game stays open, as it is slow to read and
has few states. A story file is closed when its last player is gone, for what is known of it grows
with every step. Where states are named by their `world`, nothing is shared: what a name stands for
depends on what was played before.

Nobody has to close anything: what a memory has not saved yet is saved every few seconds while the
event loop runs, when the task that opened the game ends (in a sweep, a trial), when its last player
is gone, and when the process ends in order. A process that is killed loses the last seconds, and no
others.
"""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from weakref import WeakValueDictionary

from pydantic import Field

from llm_planning.environments.textgame import jericho_games
from llm_planning.environments.textgame.interpreted import InterpretedGame, Snapshots
from llm_planning.environments.textgame.jericho_interpreter import JerichoInterpreter
from llm_planning.environments.textgame.jericho_machine import StateOption  # noqa: TC001 - pydantic
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.textworld_kinds import KINDS, LEVELS, level_of
from llm_planning.environments.textgame.transition_store import (
    TransitionStore,
    on_disk,
    transition_store_path,
)
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.settings import Settings, SettingsError
from llm_planning.specs import check_task

if TYPE_CHECKING:
    from llm_planning.environments.textgame.game import Interpreter, TextGame

TRAP_DOOR = TrapDoor.name

GAME_TASKS: tuple[str, ...] = (*KINDS, TRAP_DOOR, *jericho_games.JERICHO_GAMES)
"""What a planner of text games can be asked to play."""

Remember: TypeAlias = Literal["disk", "memory", "off"]


class GameSettings(Settings):
    """Settings that say which game is played.

    Attributes:
        game: a story file, to be played instead of the task's game.
        games: folder of the story files of Table 1's games, each named after its task.
        game_seed: of a generated game.
        level: of a generated game; by default its kind's.
        state: what tells the states of a story file apart: `exact` the whole memory of the game,
            `world` its objects alone, which takes states for equal that are not (see
            `JerichoInterpreter`); not with remember=disk. Each player then has snapshots and a
            memory of its own, so that no result depends on what others played before.
        remember: where transitions are kept: on `disk` (and in memory) for every later run, unless
            this one is without caches; in `memory` for this process (of a story file, as long as
            somebody plays it); or not at all (`off`). A story file's exact states hardly ever meet
            again on another way, so its file in the cache folder grows with every new simulation,
            by about 1 KB per transition, and nothing in it is ever dropped: `llm-planning cache
            show` tells its size, and `cache clear --only transitions` empties it.
    """

    game: str = ""
    games: str = ""
    game_seed: int = Field(1, ge=0)
    level: int | None = None
    state: StateOption = "exact"
    remember: Remember = "disk"


# A child of this process can use neither an interpreter nor a file of its parent's.
_Key: TypeAlias = tuple[int, str, Path | None, int | None, int]

# What the players of a game share, as long as one of them holds it. Memories also by their files.
_snapshots: WeakValueDictionary[_Key, Snapshots] = WeakValueDictionary()
_memories: WeakValueDictionary[tuple[_Key, Path | None], TransitionMemory] = WeakValueDictionary()
_opening: dict[_Key, threading.Lock] = {}

# What is held for good, of generated games.
_held: list[Snapshots | TransitionMemory] = []


async def open_game(task: str, settings: GameSettings) -> TextGame:
    """Opens a game for one player; it is made, where it has to be, in a thread.

    Args:
        task: one of `GAME_TASKS`.
        settings: which game of that name.

    Raises:
        UnknownTaskError: no game has this name.
        SettingsError: the settings do not belong to the game.
        TextGameError: the game cannot be made or opened.
    """
    key, snapshots = await _opened(task, settings)
    game = InterpretedGame(snapshots)
    if settings.remember == "off":
        return game
    if settings.state == "world":
        return RememberedGame(game, TransitionMemory())
    memory = _memory(key, snapshots.interpreter, settings.remember)
    trial = asyncio.current_task()
    if trial is not None:
        trial.add_done_callback(lambda _: memory.save())
    return RememberedGame(game, memory)


def close_games() -> None:
    """Saves and closes all games of this process; players who still hold one are left without."""
    for (key, _), memory in list(_memories.items()):
        if key[0] == os.getpid():
            memory.close()
    for shared in (_snapshots, _memories, _held):
        shared.clear()


def _memory(key: _Key, interpreter: Interpreter, remember: Remember) -> TransitionMemory:
    kept = remember == "disk" and on_disk()
    path = transition_store_path(interpreter.name, interpreter.revision) if kept else None
    memory = _memories.get((key, path))
    if memory is None:
        memory = TransitionMemory(None if path is None else TransitionStore(path))
        _memories[key, path] = memory
        _hold(key, memory)
    return memory


async def _opened(task: str, settings: GameSettings) -> tuple[_Key, Snapshots]:
    _check(task, settings)
    key = _key(task, settings)
    if settings.state == "world":
        return key, await asyncio.to_thread(_open, key, settings.state)
    lock = _opening.setdefault(key, threading.Lock())
    snapshots = _snapshots.get(key)
    if snapshots is None:
        snapshots = await asyncio.to_thread(_open_once, lock, key, settings.state)
    return key, snapshots


def _key(task: str, settings: GameSettings) -> _Key:
    """The game by one name, however its settings are written."""
    if settings.game or task in jericho_games.JERICHO_GAMES:
        named = settings.game or str(jericho_games.find_story(task, settings.games))
        return os.getpid(), "", jericho_games.story_file(named), None, 0
    level = level_of(task, settings.level) if task in KINDS else None
    return os.getpid(), task, None, level, settings.game_seed


def _open_once(lock: threading.Lock, key: _Key, state: StateOption) -> Snapshots:
    with lock:
        snapshots = _snapshots.get(key)
        if snapshots is None:
            snapshots = _snapshots[key] = _open(key, state)
            _hold(key, snapshots)
        return snapshots


def _open(key: _Key, state: StateOption) -> Snapshots:
    snapshots = Snapshots(_interpreter(key, state))
    snapshots.begin()
    return snapshots


def _hold(key: _Key, shared: Snapshots | TransitionMemory) -> None:
    """Keeps what belongs to a generated game, or to the trap door, while the process lives."""
    _, _, story, _, _ = key
    if story is None:
        _held.append(shared)


def _interpreter(key: _Key, state: StateOption) -> Interpreter:
    _, name, story, level, seed = key
    if story is not None:
        return JerichoInterpreter(jericho_games.read_story(story), state=state)
    if name == TRAP_DOOR:
        return TrapDoor()
    from llm_planning.environments.textgame.textworld_interpreter import open_textworld

    return open_textworld(name, level=level, seed=seed)


def _check(task: str, settings: GameSettings) -> None:
    """Refuses settings that are not of the game that they name.

    A folder of stories is none of them: a configuration may name it for all of its tasks, generated
    games among them.
    """
    check_task(task, known=GAME_TASKS, of="textgame")
    if settings.game and settings.games:
        raise SettingsError(
            f"setting games={settings.games} is not possible with game={settings.game}: that is "
            "the one file to be played; leave one of them out"
        )
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
        if not settings.game and task not in jericho_games.JERICHO_GAMES:
            raise SettingsError(
                f"setting state=world is not possible: it is for story files, and {task} is none; "
                "leave it out"
            )
        if settings.remember == "disk":
            raise SettingsError(
                "setting state=world is not possible with remember=disk: what an earlier run met "
                "under a name need not be met again; set remember=memory"
            )
