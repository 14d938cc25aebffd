"""Which game a task and its settings name; opening it, and sharing it among its players.

Within `share_games`, whoever plays the same game shares its interpreter, its states and its
transition memory; the seconds are each player's own. A generated game stays open to the end of
that, as it is slow to read and has few states. A story file is closed with its last player, for
what is known of it grows with every step. Where states are named by their `world`, nothing is
shared: what a name stands for depends on what was played before. Outside of `share_games`, each
player has a game alone.

What a memory learns is saved every few seconds while the event loop runs, when a player leaves, and
when the game is closed. A process that is killed loses the last seconds, and no others.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import asynccontextmanager, closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from pydantic import Field

from llm_planning.environments.textgame import jericho_games
from llm_planning.environments.textgame.interpreted import InterpretedGame, StateTable
from llm_planning.environments.textgame.jericho_interpreter import (
    JerichoInterpreter,
    StateOption,
)
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.textworld_kinds import KINDS, LEVELS, level_of
from llm_planning.environments.textgame.transition_store import (
    TransitionStore,
    transition_store_path,
)
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.settings import Settings, SettingsError
from llm_planning.specs import check_task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

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
            `JerichoInterpreter`); not with remember=disk. Each player then has states and a memory
            of its own, so that no result depends on what others played before.
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


class GameKey(NamedTuple):
    """What tells games apart.

    Attributes:
        task: of a generated game or of the trap door; empty for a story file.
        story: the file; None for the others.
        level: of a generated game.
        seed: likewise.
    """

    task: str
    story: Path | None
    level: int | None
    seed: int


_sharing: ContextVar[OpenGames | None] = ContextVar("games that players share", default=None)
_on_disk = ContextVar("transitions are kept on disk", default=True)


@dataclass(slots=True)
class _SharedGame:
    """What the players of one game share.

    Attributes:
        key: which game.
        state: how its states are named.
        players: how many there are.
        states: None until the game is open.
        memories: by their files; None for the one that is on no disk.
        opening: held by the player who opens the game.
    """

    key: GameKey
    state: StateOption
    players: int = 0
    states: StateTable | None = None
    memories: dict[Path | None, TransitionMemory] = field(default_factory=dict)
    opening: threading.Lock = field(default_factory=threading.Lock)

    def open(self) -> StateTable:
        """Opens the game, where no other player has done it; blocks."""
        with self.opening:
            if self.states is None:
                self.states = StateTable(_interpreter(self.key, self.state))
            return self.states

    def remembered(self, game: InterpretedGame, remember: Remember) -> TextGame:
        """The game of one player, with the memory that its settings name."""
        if remember == "off":
            return game
        path = None
        if remember == "disk" and _on_disk.get():
            path = transition_store_path(game.name, game.states.interpreter.revision)
        if path not in self.memories:
            self.memories[path] = TransitionMemory(TransitionStore(path) if path else None)
        return RememberedGame(game, self.memories[path])

    def close(self) -> None:
        """Saves and closes the memories."""
        for memory in self.memories.values():
            memory.close()


class OpenGames:
    """The games that are open, each shared by its players; on one event loop at a time.

    Attributes:
        process: which opened them. A child of it can use neither an interpreter nor a file of its
            parent's.
        shared: what the players of each game share.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self.shared: dict[GameKey, _SharedGame] = {}

    @asynccontextmanager
    async def open(self, task: str, settings: GameSettings) -> AsyncIterator[TextGame]:
        """Opens a game for one player; see `open_game`."""
        _check(task, settings)
        key = game_key(task, settings)
        shared = _SharedGame(key, settings.state)
        if settings.state == "exact":
            shared = self.shared.setdefault(key, shared)
        shared.players += 1
        try:
            states = shared.states
            if states is None:
                states = await asyncio.to_thread(shared.open)
            yield shared.remembered(InterpretedGame(states), settings.remember)
        finally:
            shared.players -= 1
            for memory in shared.memories.values():
                memory.save()
            is_over = not shared.players and (key.story is not None or shared.states is None)
            if is_over and self.shared.get(key) is shared:
                self.shared.pop(key).close()

    def close(self) -> None:
        """Saves and closes all games; a player who still has one is left without."""
        for shared in self.shared.values():
            shared.close()
        self.shared.clear()


def _games_here() -> OpenGames | None:
    games = _sharing.get()
    return games if games is not None and games.process == os.getpid() else None


@contextmanager
def share_games() -> Iterator[OpenGames]:
    """Within it, whoever opens the same game shares it; at the end all of them are closed.

    Tasks that are begun within it inherit that. Within another one, it is that one.
    """
    outer = _games_here()
    if outer is not None:
        yield outer
        return
    with closing(OpenGames()) as games:
        _sharing.set(games)
        try:
            yield games
        finally:
            _sharing.set(None)


@contextmanager
def off_disk() -> Iterator[None]:
    """Within it, games that are opened read and write no transition memory on the disk.

    For a run without caches. Tasks that are begun within it inherit that.
    """
    before = _on_disk.get()
    _on_disk.set(False)
    try:
        yield
    finally:
        _on_disk.set(before)


@asynccontextmanager
async def open_game(task: str, settings: GameSettings) -> AsyncIterator[TextGame]:
    """Opens a game for one player; it is made, where it has to be, in a thread.

    Args:
        task: one of `GAME_TASKS`.
        settings: which game of that name.

    Raises:
        UnknownTaskError: no game has this name.
        SettingsError: the settings do not belong to the game.
        TextGameError: the game cannot be made or opened.
    """
    with closing(OpenGames()) as own:
        async with (_games_here() or own).open(task, settings) as game:
            yield game


def game_key(task: str, settings: GameSettings) -> GameKey:
    """Which game it is, however its settings are written."""
    if settings.game or task in jericho_games.JERICHO_GAMES:
        named = settings.game or str(jericho_games.find_story(task, settings.games))
        return GameKey("", jericho_games.story_file(named), None, 0)
    level = level_of(task, settings.level) if task in KINDS else None
    return GameKey(task, None, level, settings.game_seed)


def _interpreter(key: GameKey, state: StateOption) -> Interpreter:
    if key.story is not None:
        return JerichoInterpreter(jericho_games.read_story(key.story), state=state)
    if key.task == TRAP_DOOR:
        return TrapDoor()
    from llm_planning.environments.textgame.textworld_interpreter import open_textworld

    return open_textworld(key.task, level=key.level, seed=key.seed)


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
                f"setting state=world is not possible: it is for story files, and {task} is not one; "
                "leave it out"
            )
        if settings.remember == "disk":
            raise SettingsError(
                "setting state=world is not possible with remember=disk, as the same name may mean "
                "another state in the next run: set remember=memory"
            )
