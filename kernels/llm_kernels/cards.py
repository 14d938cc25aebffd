"""Which backend answered soonest on a GPU of a certain name.

`benchmarks/similarity_gpu.py --record FILE` writes what it measured on one; `auto` reads the files
in `cards/` beside this module. There is none: today's backends were not measured on a card.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING

from llm_base.files import write_durably

if TYPE_CHECKING:
    from collections.abc import Mapping

_FOLDER = Path(__file__).parent / "cards"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedSearch:
    """One size of search, from the queries on the host to the answer there.

    Attributes:
        rows: of the corpus.
        dtype: of the corpus.
        seconds: of each backend that was there.
    """

    rows: int
    dimension: int
    queries: int
    k: int
    dtype: str
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What was measured on one GPU.

    Attributes:
        name: as torch gives it.
        date: year, month and day.
        versions: of the libraries that took part.
    """

    name: str
    date: str
    versions: Mapping[str, str]
    searches: tuple[TimedSearch, ...]

    def by_speed(
        self, *, rows: int, dimension: int, queries: int, k: int, dtype: str
    ) -> tuple[str, ...]:
        """The backends, the fastest first, of the search that is the nearest by ratios of sizes.

        Empty where no corpus of this dtype was searched.
        """
        asked = (rows, dimension, queries, k)

        def distance(search: TimedSearch) -> float:
            timed = (search.rows, search.dimension, search.queries, search.k)
            return sum(abs(log2(one / other)) for one, other in zip(asked, timed, strict=True))

        alike = [search for search in self.searches if search.dtype == dtype]
        if not alike:
            return ()
        seconds = min(alike, key=distance).seconds
        return tuple(sorted(seconds, key=seconds.__getitem__))


def write_card(path: Path, card: Card) -> None:
    """Writes a card's file."""
    write_durably(path, (json.dumps(asdict(card), indent=1) + "\n").encode())


def read_cards(folder: Path = _FOLDER) -> dict[str, Card]:
    """The cards of a folder, by name."""
    cards = {}
    for path in sorted(folder.glob("*.json")):
        read = json.loads(path.read_text(encoding="utf-8"))
        searches = tuple(TimedSearch(**search) for search in read.pop("searches"))
        cards[read["name"]] = Card(**read, searches=searches)
    return cards


@cache
def card_of(device: str) -> Card | None:
    """What was measured on GPUs such as the one that torch calls so, if anything."""
    cards = read_cards()
    if not cards:
        return None
    import torch

    return cards.get(torch.cuda.get_device_name(device)) if torch.cuda.is_available() else None
