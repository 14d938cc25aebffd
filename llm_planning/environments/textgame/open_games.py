"""Opening the game that a task and its settings name, and sharing it among its players.

Within `sharing`, players of the same game share its interpreter, its states and its transition
memory; each player has an account of seconds. A generated game stays open to the end of
`sharing`, because it is slow to read and has few states. A story file is closed with its last
player, because its known states grow with every step. With `state=world` nothing is shared, because
the meaning of a name depends on what was played before. Outside of `sharing`, each player opens
a game alone.

A memory is saved every few seconds while the event loop runs, when a player leaves, and when the
game is closed. A process that is killed loses only the last seconds.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from pydantic import Field

from llm_planning.data_files import note_read
from llm_planning.environments.textgame import jericho_games
from llm_planning.environments.textgame.given_games import open_given, textworld_description
from llm_planning.environments.textgame.jericho_interpreter import StateOption  # noqa: TC001
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.shipped_stories import SHIPPED
from llm_planning.environments.textgame.snapshot_game import SnapshotGame, StateTable
from llm_planning.environments.textgame.textworld_kinds import KINDS, LEVELS, level_of
from llm_planning.environments.textgame.transition_store import (
    TransitionStore,
    transition_store_path,
)
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.settings import Settings, SettingsError
from llm_planning.sharing import on_disk, shared
from llm_planning.specs import check_task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from llm_planning.environments.textgame.game import Interpreter, TextGame

TRAP_DOOR = TrapDoor.name

GAME_TASKS: tuple[str, ...] = (*KINDS, TRAP_DOOR, *SHIPPED, *jericho_games.JERICHO_GAMES)
"""The names of all games."""

Remember: TypeAlias = Literal["disk", "memory", "off"]


class GameSettings(Settings):
    """Settings that say which game is played.

    Attributes:
        game: a story file, or a game that TextWorld made (`.z8` or `.ulx` with its `.json` beside
            it), played instead of the task's game.
        games: folder of the story files of Table 1's games, each named after its task.
        game_seed: of a generated game.
        level: of a generated game; each kind of game has a default.
        opening: actions that are played before the player begins, such as `north; open window`,
            so that the player begins in the state that a paper shows.
        state: what distinguishes the states of a story file. `exact`: the whole memory of the game.
            `world`: only its objects, which makes some different states equal (see
            `JerichoInterpreter`); not possible with remember=disk. With `world`, each player has
            states and a memory of its own, so that no result depends on other players.
        remember: where transitions are kept. `disk`: on disk and in memory, for every later run,
            unless this run is without caches; those of the trap door in memory alone. `memory`: in
            this process; for a story file, as long as it has a player. `off`: nowhere. Different
            ways hardly ever lead to the same exact state of a story file, so its file in the cache
            folder grows with every new simulation, by about 1 KB per transition, and nothing in it
            is ever dropped: `llm-planning cache show` gives its size, and `cache clear --only
            transitions` empties it.
    """

    game: str = ""
    games: str = ""
    game_seed: int = Field(1, ge=0)
    level: int | None = None
    opening: str = ""
    state: StateOption = "exact"
    remember: Remember = "disk"

    @property
    def opened_by(self) -> tuple[str, ...]:
        """The actions of `opening`."""
        return tuple(filter(None, map(str.strip, self.opening.split(";"))))


class GameKey(NamedTuple):
    """The identity of a game.

    Attributes:
        task: of a generated game or of the trap door; empty for a story file.
        story: the story file; None for other games.
        level: of a generated game; None for other games.
        seed: of a generated game.
    """

    task: str
    story: Path | None
    level: int | None
    seed: int


@dataclass(slots=True)
class _SharedGame:
    """The parts of one game that its players share.

    Attributes:
        state: how its states are named.
        states: None until the game is open.
        memories: file -> memory; the key None is the memory that is not on disk.
        opening: held while a player opens the game.
    """

    key: GameKey
    state: StateOption
    players: int = 0
    states: StateTable | None = None
    memories: dict[Path | None, TransitionMemory] = field(default_factory=dict)
    opening: threading.Lock = field(default_factory=threading.Lock)

    def open(self) -> StateTable:
        """Opens the game unless another player has opened it; blocks."""
        with self.opening:
            if self.states is None:
                self.states = StateTable(_interpreter(self.key, self.state))
            return self.states

    def remembered(self, game: SnapshotGame, remember: Remember) -> TextGame:
        """The game of one player, with the memory that its settings name."""
        if remember == "off":
            return game
        path = None
        # The trap door is a few lines of Python: to read a file takes longer than to play it.
        if remember == "disk" and on_disk() and self.key.task != TRAP_DOOR:
            path = transition_store_path(game.name, game.states.interpreter.revision)
        if path not in self.memories:
            self.memories[path] = TransitionMemory(TransitionStore(path) if path else None)
        return RememberedGame(game, self.memories[path])

    def close(self) -> None:
        """Saves and closes the memories."""
        for memory in self.memories.values():
            memory.close()


class OpenGames:
    """The games that are open, each shared by its players; for one event loop at a time.

    Attributes:
        shared: identity of a game -> the parts that its players share.
    """

    def __init__(self) -> None:
        self.shared: dict[GameKey, _SharedGame] = {}

    @asynccontextmanager
    async def open(self, task: str, settings: GameSettings) -> AsyncIterator[TextGame]:
        """Opens a game for one player; see `open_game`."""
        _check(task, settings)
        key = game_key(task, settings)
        if task in jericho_games.JERICHO_GAMES and key.story and not settings.game:
            await asyncio.to_thread(jericho_games.check_release, key.story)
        if key.story and (settings.game or task in jericho_games.JERICHO_GAMES):
            with suppress(OSError, ValueError):  # which is said when the game is opened
                note_read(key.story)
                note_read(key.story.with_suffix(".json"))  # TextWorld's description, if it has one
        parts = _SharedGame(key, settings.state)
        if settings.state == "exact":
            parts = self.shared.setdefault(key, parts)
        parts.players += 1
        try:
            states = parts.states
            if states is None:
                states = await asyncio.to_thread(parts.open)
            yield parts.remembered(SnapshotGame(states), settings.remember)
        finally:
            parts.players -= 1
            for memory in parts.memories.values():
                memory.save()
            is_over = not parts.players and (key.story is not None or parts.states is None)
            if is_over and self.shared.get(key) is parts:
                self.shared.pop(key).close()

    def close(self) -> None:
        """Saves and closes all games, even if they have players."""
        for parts in self.shared.values():
            parts.close()
        self.shared.clear()


@asynccontextmanager
async def open_game(task: str, settings: GameSettings) -> AsyncIterator[TextGame]:
    """Opens a game for one player; reading or making it runs in a thread.

    Args:
        task: one of `GAME_TASKS`.

    Raises:
        UnknownTaskError: no game has this name.
        SettingsError: the settings do not belong to the game.
        TextGameError: the game cannot be made or opened.
    """
    with closing(OpenGames()) as own:
        async with (shared(OpenGames) or own).open(task, settings) as game:
            yield game


def game_key(task: str, settings: GameSettings) -> GameKey:
    """The identity of a game, the same for all ways of writing its settings."""
    if settings.game or task in jericho_games.JERICHO_GAMES:
        named = settings.game or str(jericho_games.find_story(task, settings.games))
        return GameKey("", jericho_games.story_file(named), None, 0)
    if task in SHIPPED:
        return GameKey("", SHIPPED[task].file, None, 0)
    level = level_of(task, settings.level) if task in KINDS else None
    return GameKey(task, None, level, settings.game_seed)


def _interpreter(key: GameKey, state: StateOption) -> Interpreter:
    if key.story is not None:
        return open_given(key.story, state=state)
    if key.task == TRAP_DOOR:
        return TrapDoor()
    from llm_planning.environments.textgame.textworld_interpreter import open_textworld

    return open_textworld(key.task, level=key.level, seed=key.seed)


def _check(task: str, settings: GameSettings) -> None:
    """Refuses settings that do not belong to the game.

    `games` is allowed for every game, because a configuration may set it once for all of its tasks.
    """
    check_task(task, known=GAME_TASKS, of="textgame")
    if settings.game and settings.games:
        raise SettingsError(
            f"setting games={settings.games} is not possible with game={settings.game}: game names "
            "the file to play; leave one of them out"
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
        if not settings.game and task not in {*SHIPPED, *jericho_games.JERICHO_GAMES}:
            raise SettingsError(
                "setting state=world is not possible: it is for story files, and "
                f"{task} is not one; leave it out"
            )
        if settings.game and textworld_description(jericho_games.story_file(settings.game)):
            raise SettingsError(
                f"setting state=world is not possible: TextWorld made {settings.game}, and tells "
                "its states apart by their facts; leave it out"
            )
        if settings.remember == "disk":
            raise SettingsError(
                "setting state=world is not possible with remember=disk, as the same name may mean "
                "another state in the next run: set remember=memory"
            )
