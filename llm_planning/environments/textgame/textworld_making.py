"""Games made by TextWorld, compiled once and kept in the cache.

Making a game is a function of its seed only while Python's hash seed is fixed, and takes seconds:
Inform 7 compiles it. So it is done in a process of its own, whose hash seed is 0:
`python -m (this module) SEED LEVEL FILE KIND`. The result is renamed into its place whole.
Processes that want the same game at the same moment wait for the one that makes it. Different games
are made at once, and read one by one.
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
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from llm_planning.environments.textgame.game import TextGameError
from llm_planning.environments.textgame.jericho_machine import process_folder
from llm_planning.environments.textgame.textworld_kinds import Challenge, rules
from llm_serving.models.folders import CACHE_VARIABLE, building, cache_folder, is_intact, publish

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

logger = logging.getLogger(__name__)

# Not `__name__`, which is another one where it is run.
_MODULE = "llm_planning.environments.textgame.textworld_making"
_LONGEST_REASON = 300

GAME_FILE = "game.z8"
MAKING_SECONDS = 300
"""After which the process that makes a game is killed."""

READING = threading.Lock()
"""Held by whoever begins a game that TextWorld made: it has one parser, which two threads cannot
use at once. Nothing is parsed any more while a game is played."""


def hush() -> None:
    """Keeps the emulator from warning that it does not know a made game by heart, for good.

    It need not: the game itself tells its score. (To put the old filters back would take those of
    other threads away.)
    """
    warnings.filterwarnings("ignore", message=".*is not fully supported")


def make_once(name: str, *, folder: str, generation: int, kind: str, level: int, seed: int) -> Path:
    """The compiled game, made if it is not in the cache.

    Args:
        name: for errors.
        folder: name of its folder; says what it is made of.
        generation: changes whenever the same folder comes to mean another game.
        kind: one that `textworld_kinds.rules` knows.
        level: one that the kind has.
        seed: of everything that TextWorld draws.

    Returns:
        Its file; the folder is never written again.

    Raises:
        TextGameError: TextWorld is not installed, or cannot make the game.
    """
    if importlib.util.find_spec("textworld") is None:
        raise TextGameError(
            "TextWorld, which makes and plays these games, is not installed: "
            "pip install 'llm-planning[textgames]'"
        )
    revision = f"textworld {importlib.metadata.version('textworld')}, generation {generation}"

    def made_in(place: Path) -> Path:
        # Every byte is looked at: an interpreter in C is going to read them.
        if not is_intact(place, revision):
            with building(place) as workshop:
                if not is_intact(place, revision):
                    built = workshop / "game"
                    built.mkdir()
                    generate_apart(name, kind=kind, level=level, seed=seed, file=built / GAME_FILE)
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
    """Says of a made game that cannot be opened how to have it made again.

    Raises:
        TextGameError: TextWorld or Jericho raised anything at all.
    """
    try:
        yield
    except TextGameError:
        raise
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
        raise TextGameError(
            f"the game {name} cannot be opened ({said}): remove the folder {file.parent}, and it "
            "is made again"
        ) from error


def generate_apart(name: str, *, kind: str, level: int, seed: int, file: Path) -> None:
    """Makes a game in a process of its own.

    Args:
        name: for errors.
        kind: one that `textworld_kinds.rules` knows.
        level: one that the kind has.
        seed: of everything that TextWorld draws.
        file: where the game goes.

    Raises:
        TextGameError: TextWorld failed, or took longer than `MAKING_SECONDS`.
    """
    try:
        # Inform leaves a folder of its own in the user's home.
        with tempfile.TemporaryDirectory() as home:
            made = subprocess.run(
                # -P: nothing is imported from the working directory, which is the user's.
                [sys.executable, "-P", "-m", _MODULE, str(seed), str(level), str(file), kind],
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
    if made.returncode != 0 or not file.is_file():
        last = (made.stderr or made.stdout).strip().splitlines()[-1:]
        raise TextGameError(
            f"TextWorld could not make {name} (exit {made.returncode}): {' '.join(last)}"
        )


def generate(*, kind: str, level: int, seed: int, file: str) -> None:
    """Makes and compiles a game.

    Args:
        kind: one that `rules` knows.
        level: one that the kind has.
        seed: of everything that is drawn.
        file: of the compiled game; its description is written beside it.
    """
    import textworld
    from textworld.challenges import CHALLENGES
    from textworld.generator import compile_game, make_game

    options = textworld.GameOptions()
    options.seeds = seed
    options.path = file
    wanted = rules(kind, level)
    if isinstance(wanted, Challenge):
        _, make, _ = CHALLENGES[wanted.name]
        game = make(wanted.settings, options)
    else:
        options.nb_rooms = wanted.rooms
        options.nb_objects = wanted.objects
        options.quest_length = wanted.quest_length
        game = make_game(options)
    compile_game(game, options)


if __name__ == "__main__":
    generate(seed=int(sys.argv[1]), level=int(sys.argv[2]), file=sys.argv[3], kind=sys.argv[4])
