"""Games made by TextWorld, compiled once and kept in the cache; how one of them is opened.

Making a game is a function of its seed only while Python's hash seed is fixed, and takes seconds:
Inform 7 compiles it. So `generation` does it in a process of its own, whose hash seed is 0, and the
result is renamed into its place whole. Processes that want the same game at the same moment wait
for the one that makes it.

The games are `tw-cooking` ones with a single room, the kitchen: stove, oven, fridge, table and
counter are there. The barbecue, which is none of the paper's tools, is not, so no recipe needs it.
Every ingredient is carried from the beginning, is to be cut and to be cooked; nothing is closed.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_planning.environments.cooking.kitchen import Kitchen, Reply
from llm_planning.environments.cooking.recipes import CookingError
from llm_planning.roles import together
from llm_serving.models.folders import building, cache_folder, is_complete, publish

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GAME_FILE = "game.z8"

# Part of every game's revision: a change of what `generation` asks for must not find older games.
_GENERATION = 1
_MAKING_SECONDS = 300


class MissingTextWorldError(CookingError):
    """TextWorld is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "the cooking games are made and played by TextWorld, which is not installed: "
            "pip install 'llm-planning[textgames]'"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GameSpec:
    """Which game.

    Attributes:
        seed: of everything that TextWorld draws.
        ingredients: of the recipe, 1 to 5; each is one cut and one time at the heat.
    """

    seed: int
    ingredients: int = 3

    @property
    def name(self) -> str:
        """As the folder and the errors call it."""
        return f"cooking-{self.ingredients}-{self.seed}"


class TextWorldGame:
    """A compiled game, begun.

    Args:
        file: the compiled game; TextWorld's description lies beside it.
        name: for errors.
    """

    def __init__(self, file: Path, *, name: str) -> None:
        import textworld

        self.name = name
        wanted = textworld.EnvInfos(score=True, inventory=True, won=True, lost=True)
        with warnings.catch_warnings():
            # The interpreter knows only published games by heart; TextWorld keeps the score itself.
            warnings.filterwarnings("ignore", message=".*is not fully supported", append=False)
            self._game: Any = textworld.start(str(file), request_infos=wanted)
            self._game.reset()

    def send(self, command: str) -> Reply:
        """Plays one command."""
        state, _, _ = self._game.step(command)
        return Reply(
            text=str(state["feedback"]).strip(),
            score=int(state["score"]),
            inventory=str(state["inventory"]),
            won=bool(state["won"]),
            lost=bool(state["lost"]),
        )


def make_game(spec: GameSpec) -> Path:
    """The compiled game, made if it is not in the cache.

    Returns:
        Its file; the folder is never written again.

    Raises:
        MissingTextWorldError: TextWorld is not installed.
        CookingError: TextWorld failed.
    """
    if importlib.util.find_spec("textworld") is None:
        raise MissingTextWorldError
    textworld = importlib.metadata.version("textworld")
    revision = f"textworld {textworld}, generation {_GENERATION}"
    folder = cache_folder() / "games" / spec.name
    if not is_complete(folder, revision):
        with building(folder) as workshop:
            if not is_complete(folder, revision):
                built = workshop / "game"
                built.mkdir()
                _generate(spec, built)
                publish(built, folder, revision=revision)
    return folder / GAME_FILE


def _generate(spec: GameSpec, folder: Path) -> None:
    module = "llm_planning.environments.cooking.generation"
    order = [str(spec.seed), str(spec.ingredients), str(folder / GAME_FILE)]
    try:
        made = subprocess.run(
            [sys.executable, "-m", module, *order],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_MAKING_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CookingError(
            f"TextWorld took more than {_MAKING_SECONDS} seconds to make {spec.name}: "
            "try again on an idle machine"
        ) from None
    if made.returncode != 0 or not (folder / GAME_FILE).is_file():
        last = (made.stderr or made.stdout).strip().splitlines()[-1:]
        raise CookingError(
            f"TextWorld could not make {spec.name} (exit {made.returncode}): {' '.join(last)}"
        )


_kitchens: dict[GameSpec, Kitchen] = {}
_opening = threading.Lock()


def open_kitchen(spec: GameSpec) -> Kitchen:
    """The kitchen of a game, begun once per process and shared by whoever plays in it.

    Raises:
        CookingError: the game cannot be made, opened or played.
    """
    file = make_game(spec)
    with _opening:
        if spec not in _kitchens:
            _kitchens[spec] = Kitchen(TextWorldGame(file, name=spec.name))
        return _kitchens[spec]


async def open_kitchens(specs: Sequence[GameSpec]) -> list[Kitchen]:
    """Several kitchens, as many made at once as there are processors.

    Returns:
        In the order of the specs.

    Raises:
        CookingError: one of the games cannot be made, opened or played.
    """
    free = asyncio.Semaphore(len(os.sched_getaffinity(0)))

    async def opened(spec: GameSpec) -> Kitchen:
        async with free:
            return await asyncio.to_thread(open_kitchen, spec)

    return await together(map(opened, specs))
