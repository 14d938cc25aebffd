"""The kinds of games that TextWorld makes, and what their levels mean.

Levels of the coin collector and the treasure hunter are TextWorld's own; the levels of the other
kinds are ours. `LEVELS` lists them, and `game_request` translates one for TextWorld.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_planning.environments.textgame.game import TextGameError
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Mapping

REWARDS = ("dense", "balanced", "sparse")
"""TextWorld's reward setting for each level of `simple`, from 1."""

_COOKBOOK = 5


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of a kind.

    Attributes:
        ranges: (first, last) of each range of levels that can be made.
        default: a game small enough for search: 3 to 12 actions to win, 3 to 16 valid actions.
        meaning: of the numbers, for error messages.
    """

    ranges: tuple[tuple[int, int], ...]
    default: int
    meaning: str

    def __contains__(self, level: int) -> bool:
        """Whether there is such a level."""
        return any(first <= level <= last for first, last in self.ranges)

    def __str__(self) -> str:
        """All levels and their meaning, in words."""
        runs = " and ".join(f"{first} to {last}" for first, last in self.ranges)
        return f"{runs} ({self.meaning})"


LEVELS: Mapping[str, Levels] = {
    "coin-collector": Levels(
        # TextWorld names 300 levels, but a Z-machine game of it holds at most 100 rooms.
        ((1, 100), (101, 150), (201, 233)),
        205,
        "the last two digits are the rooms on the way to the coin, 1 to 100; from 101 each of them "
        "has one dead end beside it, from 201 two; at most 100 rooms in all",
    ),
    "treasure-hunter": Levels(
        ((1, 30),),
        13,
        "1 to 10: 5 rooms; 11 to 20: 10 rooms with doors and containers; 21 to 30: 20 rooms, some "
        "things locked; within each, the way to the object grows",
    ),
    "simple": Levels(((1, 3),), 1, "rewards: 1 dense, 2 balanced, 3 sparse"),
    "custom": Levels(((1, 15),), 5, "actions to the goal"),
    "cooking": Levels(
        ((1, 15),),
        1,
        "1 to 5: so many ingredients to find and to cook; 6 to 10: 1 to 5, also to be cut; "
        "11 to 15: 1 to 5, also with doors and containers closed",
    ),
}

KINDS: tuple[str, ...] = tuple(LEVELS)
"""The kinds that a user can name."""

KITCHEN = "kitchen"
"""XENON's cooking games (environments/cooking), whose level counts the ingredients."""


def level_of(kind: str, level: int | None) -> int:
    """The level to make.

    Args:
        kind: one of `KINDS`.
        level: None for the kind's default.

    Raises:
        TextGameError: the kind or its level does not exist.
    """
    if kind not in LEVELS:
        raise TextGameError(
            f"TextWorld makes no kind of game called {kind!r}; {remedy(kind, KINDS)}"
        )
    levels = LEVELS[kind]
    if level is None:
        return levels.default
    if level not in levels:
        raise TextGameError(f"{kind} has no level {level}; set one of {levels}")
    return level


@dataclass(frozen=True, slots=True)
class Custom:
    """A game as `tw-make custom` makes it, without the plot of a challenge.

    Attributes:
        rooms: number of rooms (`--world-size`).
        objects: smallest number of objects (`--nb-objects`).
        quest_length: number of actions to the goal (`--quest-length`).
    """

    rooms: int
    objects: int
    quest_length: int


@dataclass(frozen=True, slots=True)
class Challenge:
    """A game of one of TextWorld's challenges.

    Attributes:
        name: TextWorld's name of the challenge.
    """

    name: str
    settings: Mapping[str, Any]


def game_request(kind: str, level: int) -> Challenge | Custom:
    """The game that TextWorld is asked to make.

    Args:
        kind: one of `KINDS`, or `KITCHEN`.
    """
    match kind:
        case "coin-collector":
            return Challenge("tw-coin_collector", {"level": level})
        case "treasure-hunter":
            return Challenge("tw-treasure_hunter", {"level": level})
        case "simple":
            rewards = REWARDS[level - 1]
            return Challenge("tw-simple", {"rewards": rewards, "goal": "detailed", "test": False})
        case "custom":
            # Longer quests need more rooms and things. The defaults of `tw-make custom`, 5 rooms
            # and 10 things, have too many states for search.
            return Custom(rooms=level // 3 + 2, objects=level + 2, quest_length=level)
        case "cooking":
            ingredients = (level - 1) % _COOKBOOK + 1
            return _cooking(
                recipe=ingredients,
                take=ingredients,
                cut=level > _COOKBOOK,
                open=level > 2 * _COOKBOOK,
                go=6,
            )
        case _:
            return _cooking(recipe=level, take=0, cut=True, open=False, go=1)


def _cooking(**settings: int) -> Challenge:
    always = {"cook": True, "drop": False, "recipe_seed": 0, "split": ""}
    return Challenge("tw-cooking", {**settings, **always})
