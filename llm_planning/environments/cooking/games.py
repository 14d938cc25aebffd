"""The TextWorld games in which a meal is cooked, and how they are made and opened.

The games are of the kind `tw-cooking`. They have one room, the kitchen, with stove, oven, fridge,
table and counter. It has no barbecue, which is not among the paper's tools, so no recipe needs one.
The player carries every ingredient from the beginning. Each is to be cut and cooked. Nothing is
closed.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_planning.environments.cooking.kitchen import Kitchen, Reply
from llm_planning.environments.cooking.recipes import CookingError
from llm_planning.environments.textgame.game import TextGameError
from llm_planning.environments.textgame.jericho_machine import hush
from llm_planning.environments.textgame.textworld_kinds import KITCHEN
from llm_planning.environments.textgame.textworld_making import READING, make_once, opening_made
from llm_planning.roles import gather

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Part of every game's revision. Increase it when kitchens change: older games are then made anew.
_GENERATION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GameSpec:
    """The seed and the size of a game.

    Attributes:
        seed: of all that TextWorld draws.
        ingredients: of the recipe, 1 to 5; each is cut once and cooked once.
    """

    seed: int
    ingredients: int = 3

    @property
    def name(self) -> str:
        """The name of the game in its folder and in errors."""
        return f"cooking-{self.ingredients}-{self.seed}"


class TextWorldGame:
    """A compiled game that was started.

    Args:
        file: the compiled game, with TextWorld's description beside it.
        name: of the game, for errors.
    """

    def __init__(self, file: Path, *, name: str) -> None:
        import textworld

        self.name = name
        wanted = textworld.EnvInfos(score=True, inventory=True, won=True, lost=True)
        hush()
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
    """Returns the file of a compiled game, and makes it if it is not in the cache."""
    try:
        return make_once(
            spec.name,
            folder=spec.name,
            generation=_GENERATION,
            kind=KITCHEN,
            level=spec.ingredients,
            seed=spec.seed,
        )
    except TextGameError as error:
        raise CookingError(str(error)) from None


_kitchens: dict[GameSpec, Kitchen] = {}


def open_kitchen(spec: GameSpec) -> Kitchen:
    """Returns the kitchen of a game, started once per process and shared by all of its episodes.

    Raises:
        CookingError: the game cannot be made, opened or played.
    """
    file = make_game(spec)
    with READING:
        if spec not in _kitchens:
            try:
                with opening_made(spec.name, file):
                    game = TextWorldGame(file, name=spec.name)
            except TextGameError as error:
                raise CookingError(str(error)) from None
            _kitchens[spec] = Kitchen(game)
        return _kitchens[spec]


async def open_kitchens(specs: Sequence[GameSpec]) -> list[Kitchen]:
    """Opens several kitchens, as many at once as there are processors.

    Returns:
        In the order of the specs.
    """
    free = asyncio.Semaphore(len(os.sched_getaffinity(0)))

    async def opened(spec: GameSpec) -> Kitchen:
        async with free:
            return await asyncio.to_thread(open_kitchen, spec)

    return await gather(map(opened, specs))
