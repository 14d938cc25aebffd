"""Story files of our own that come with this project, and what a player needs to know of them.

`stories` has the source of each, in Inform 6 and without any library, beside the compiled story.
The source says how it is compiled; nobody who plays it needs the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_STORIES = Path(__file__).with_name("stories")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedStory:
    """A story of our own.

    Attributes:
        name: of the task.
        grammar: templates of its commands, in Jericho's notation.
        walkthrough: commands that win all points.
    """

    name: str
    file: Path
    grammar: str
    walkthrough: tuple[str, ...]


GULL_ROCK = ShippedStory(
    name="gull-rock",
    file=_STORIES / "gull_rock.z5",
    grammar=(
        "take OBJ;drop OBJ;open OBJ;close OBJ;unlock OBJ with OBJ;lock OBJ with OBJ;put OBJ in OBJ;"
        "read OBJ;light OBJ;extinguish OBJ;fill OBJ;sit;kneel;stand"
    ),
    walkthrough=(
        *("north", "open gate", "west", "take lantern", "east", "north", "north", "open door"),
        *("east", "east", "open desk", "take logbook", "read logbook", "drop logbook", "west"),
        *("open drawer", "take matches", "light lantern", "west", "south", "down", "open box"),
        *("take key", "drop matches", "north", "open oyster", "take pearl", "drop pearl", "south"),
        *("take matches", "up", "north", "unlock hatch with key", "open hatch", "northeast"),
        *("drop key", "open cupboard", "take can", "southwest", "north", "up", "up", "up"),
        *("open lamp", "fill lamp", "light lamp"),
    ),
)
"""A lighthouse to be lit before the night: 23 rooms, 50 points."""

SHIPPED: Mapping[str, ShippedStory] = {story.name: story for story in (GULL_ROCK,)}


@cache
def shipped_by_digest() -> Mapping[str, ShippedStory]:
    """MD5 of the story file -> the story."""
    return {
        md5(story.file.read_bytes(), usedforsecurity=False).hexdigest(): story
        for story in SHIPPED.values()
    }
