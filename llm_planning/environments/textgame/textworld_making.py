"""Games made by TextWorld, compiled once and kept in the cache.

A game is a function of its seed only if Python's hash seed is fixed, and compiling it with Inform 7
takes seconds. So a game is made in a separate process whose hash seed is 0:
`python -m (this module) SEED LEVEL FILE KIND`. The complete result is then renamed into its place.
A game that a user brings as a description alone is compiled alike, by `DESCRIPTION FILE`.
If several processes want the same game at the same moment, one makes it and the others wait.
Different games are made side by side, and read one at a time.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

from llm_base.files import read_regular
from llm_planning.environments.textgame.game import TextGameError
from llm_planning.environments.textgame.jericho_machine import process_folder
from llm_planning.environments.textgame.textworld_kinds import Challenge, game_request
from llm_serving.models.folders import CACHE_VARIABLE, building, cache_folder, is_intact, publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

logger = logging.getLogger(__name__)

# `__name__` is "__main__" in the separate process.
_MODULE = "llm_planning.environments.textgame.textworld_making"
_LONGEST_REASON = 300

GAME_FILE = "game.z8"
MAKING_SECONDS = 300
"""The time after which the process that makes a game is killed."""

LONGEST_DESCRIPTION = 64 << 20
"""Bytes of a description that a user brings; those of TextWorld's challenges have 0.02 to 1 MB."""

READING = threading.Lock()
"""Held while a game that TextWorld made is read, since TextWorld's parser is not thread-safe.
Playing a game parses nothing."""


def make_once(name: str, *, folder: str, generation: int, kind: str, level: int, seed: int) -> Path:
    """Returns the compiled game, and makes it if it is not in the cache.

    Args:
        folder: name of the game's folder, made of kind, level and seed.
        generation: number to increase when the same folder name means another game.
        kind: a kind that `textworld_kinds.game_request` knows.

    Returns:
        The game's file, in a folder that is never written again.

    Raises:
        TextGameError: TextWorld is not installed, or cannot make the game.
    """

    def make(file: Path) -> None:
        generate_apart(name, kind=kind, level=level, seed=seed, file=file)

    return _made_once(name, folder=folder, generation=generation, make=make)


def compile_once(description: Path) -> Path:
    """Returns the game of TextWorld's description, compiled unless it is in the cache.

    Args:
        description: the JSON file that TextWorld wrote beside a game, in whatever format the game.

    Returns:
        The game's file, with a copy of the description beside it.

    Raises:
        TextGameError: TextWorld is not installed, or the file is no description of a game.
        OSError: the file cannot be read.
    """
    content = read_regular(description, most=LONGEST_DESCRIPTION)

    def make(file: Path) -> None:
        copy = file.with_name("given.json")
        copy.write_bytes(content)
        _run_apart(description.name, str(copy), str(file), file=file)
        copy.unlink()

    digest = blake2b(content, digest_size=16).hexdigest()
    return _made_once(description.name, folder=f"given-{digest}", generation=1, make=make)


def check_textworld() -> None:
    """Refuses games of TextWorld's without TextWorld."""
    if importlib.util.find_spec("textworld") is None:
        raise TextGameError(
            "TextWorld, which makes and plays these games, is not installed: "
            "pip install 'llm-planning[textgames]'"
        )


def _made_once(name: str, *, folder: str, generation: int, make: Callable[[Path], None]) -> Path:
    check_textworld()
    revision = f"textworld {importlib.metadata.version('textworld')}, generation {generation}"

    def made_in(place: Path) -> Path:
        # Every byte is checked, because an interpreter in C will read the file.
        if not is_intact(place, revision):
            with building(place) as workshop:
                if not is_intact(place, revision):
                    built = workshop / "game"
                    built.mkdir()
                    make(built / GAME_FILE)
                    publish(built, place, revision=revision)
        return place / GAME_FILE

    try:
        return made_in(cache_folder() / "games" / folder)
    except OSError as error:
        logger.warning("%s is made for this process alone: %s", name, error)
    try:
        return made_in(process_folder() / folder)
    except OSError as error:
        raise TextGameError(
            f"there is no room to make {name}: {error}; free disk space, or set "
            f"{CACHE_VARIABLE} to a folder that can be written"
        ) from error


@contextmanager
def opening_made(name: str, file: Path) -> Iterator[None]:
    """A context for opening a made game; its error says how to have the game made again.

    Raises:
        TextGameError: TextWorld or Jericho raised any exception.
    """
    remedy = f"remove the folder {os.path.dirname(file)}, and it is made again"
    with _opening(f"the game {name}", remedy):
        yield


@contextmanager
def opening_given(file: Path, description: Path) -> Iterator[None]:
    """A context for opening a game that a user brings, with TextWorld's description of it.

    Raises:
        TextGameError: TextWorld or Jericho raised any exception.
    """
    remedy = (
        f"{description} is to be TextWorld's description of this very game; bring the one that "
        "TextWorld wrote, or move the file away to play the story without it"
    )
    with _opening(f"the game {file}", remedy):
        yield


@contextmanager
def _opening(what: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except TextGameError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
        raise TextGameError(f"{what} cannot be opened ({reason}): {remedy}") from error


def generate_apart(name: str, *, kind: str, level: int, seed: int, file: Path) -> None:
    """Makes a game in a separate process.

    Raises:
        TextGameError: TextWorld failed, or took longer than `MAKING_SECONDS`.
    """
    _run_apart(name, str(seed), str(level), str(file), kind, file=file)


def _run_apart(name: str, *arguments: str, file: Path) -> None:
    """Runs this module in a separate process, which writes `file`."""
    try:
        # Inform writes a folder into the home directory.
        with tempfile.TemporaryDirectory() as home:
            process = subprocess.run(
                # -P: nothing is imported from the user's working directory.
                [sys.executable, "-P", "-m", _MODULE, *arguments],
                env={**os.environ, "PYTHONHASHSEED": "0", "HOME": home},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=MAKING_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise TextGameError(
            f"TextWorld took more than {MAKING_SECONDS} seconds to make {name}: "
            "try again on an idle machine"
        ) from None
    if process.returncode != 0 or not file.is_file():
        last = (process.stderr or process.stdout).strip().splitlines()[-1:]
        raise TextGameError(
            f"TextWorld could not make {name} (exit {process.returncode}): {' '.join(last)}"
        )


def generate(*, kind: str, level: int, seed: int, file: str) -> None:
    """Makes and compiles a game.

    Args:
        file: path of the compiled game; its description is written beside it.
    """
    import textworld
    from textworld.challenges import CHALLENGES
    from textworld.generator import compile_game, make_game

    options = textworld.GameOptions()
    options.seeds = seed
    options.path = file
    wanted = game_request(kind, level)
    if isinstance(wanted, Challenge):
        _, make, _ = CHALLENGES[wanted.name]
        game = make(wanted.settings, options)
    else:
        options.nb_rooms = wanted.rooms
        options.nb_objects = wanted.objects
        options.quest_length = wanted.quest_length
        game = make_game(options)
    compile_game(game, options)


def compile_given(*, description: str, file: str) -> None:
    """Compiles the game of a description that TextWorld wrote.

    Args:
        file: path of the compiled game; the description is written anew beside it.
    """
    import textworld
    from textworld.generator import compile_game
    from textworld.generator.game import Game

    options = textworld.GameOptions()
    options.path = file
    compile_game(Game.load(description), options)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        compile_given(description=sys.argv[1], file=sys.argv[2])
    else:
        generate(seed=int(sys.argv[1]), level=int(sys.argv[2]), file=sys.argv[3], kind=sys.argv[4])
