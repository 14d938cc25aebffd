"""Cities, the direct flights between them, and the ways with the fewest flights."""

from __future__ import annotations

import unicodedata
from collections import Counter, deque
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SIGNS: Final = " .,()-'"
"""What answers write in a name beside letters and digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class City:
    """A city.

    Attributes:
        key: identifies it in its files.
        name: as it is written there; several cities may have the same.
        country: its code, such as JP.
    """

    key: str
    name: str
    country: str
    population: int


class FlightGraph:
    """Which cities have direct flights to which.

    Cities are called by names that differ. Of several cities with one name the most populous has
    it; the others have their country behind it, and their key where that is the same, too.

    Args:
        cities: each once.
        flights: pairs of keys, from and to, each once.

    Attributes:
        cities: name -> the city, the most populous first.
        flights: name of a city -> names of those to which it has a direct flight, the most
            populous first; empty for a city without any.
        shared: the names whose first words several cities have.
    """

    def __init__(self, cities: Iterable[City], flights: Iterable[tuple[str, str]]) -> None:
        ordered = sorted(cities, key=lambda city: -city.population)
        self.cities: Mapping[str, City] = _named(ordered)
        names = {city.key: name for name, city in self.cities.items()}
        rank = {name: number for number, name in enumerate(self.cities)}
        leaving: dict[str, list[str]] = {name: [] for name in self.cities}
        for start, end in flights:
            leaving[names[start]].append(names[end])
        self.flights: Mapping[str, tuple[str, ...]] = {
            name: tuple(sorted(to, key=rank.__getitem__)) for name, to in leaving.items()
        }
        counts = Counter(folded(city.name) for city in ordered)
        self.shared = frozenset(
            name for name, city in self.cities.items() if counts[folded(city.name)] > 1
        )
        self._direct = {name: frozenset(to) for name, to in self.flights.items()}
        self._by_folded = {folded(name): name for name in self.cities}
        # A method's own cache would keep every graph for ever.
        self.flights_to: Callable[[str], Mapping[str, int]] = lru_cache(1024)(self._flights_to)

    def named(self, written: str) -> str | None:
        """The city that a text names, whatever its case, accents and punctuation; None for none."""
        return self._by_folded.get(folded(written))

    def is_direct(self, start: str, end: str) -> bool:
        """Whether there is a direct flight from one city to another."""
        return end in self._direct.get(start, ())

    @cached_property
    def _arriving(self) -> Mapping[str, list[str]]:
        arriving: dict[str, list[str]] = {name: [] for name in self.cities}
        for start, ends in self.flights.items():
            for end in ends:
                arriving[end].append(start)
        return arriving

    def _flights_to(self, goal: str) -> Mapping[str, int]:
        """City -> the fewest flights from it to a goal; cities without a way are left out."""
        fewest = {goal: 0}
        queue = deque([goal])
        while queue:
            city = queue.popleft()
            for before in self._arriving[city]:
                if before not in fewest:
                    fewest[before] = fewest[city] + 1
                    queue.append(before)
        return fewest

    def way(self, start: str, goal: str) -> tuple[str, ...] | None:
        """The cities of a way with the fewest flights, both ends included; None if there is none.

        Of equally short ways it takes the one through the most populous cities, from the start on.
        """
        fewest = self.flights_to(goal)
        if start not in fewest:
            return None
        cities = [start]
        while (city := cities[-1]) != goal:
            left = fewest[city]
            cities.append(next(end for end in self.flights[city] if fewest.get(end) == left - 1))
        return tuple(cities)


_LETTERS = str.maketrans(
    {"ı": "i", "ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D"}
    | {"ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "þ": "th", "Þ": "Th"}
    | {"ə": "e", "Ə": "E", "ħ": "h", "Ħ": "H", "ŋ": "ng", "Ŋ": "Ng", "ŧ": "t", "Ŧ": "T"}
    | dict.fromkeys("'’‘`ʻ")
)
"""Letters that have no accent to take off, and apostrophes, which stand inside a word."""


def plain(name: str) -> str:
    """A name in letters without accents: Sao Paulo, Xian."""
    apart = unicodedata.normalize("NFKD", name.translate(_LETTERS))
    return "".join(c for c in apart if not unicodedata.combining(c))


def folded(name: str) -> str:
    """A name without case, accents, punctuation and needless blanks."""
    return " ".join("".join(c if c.isalnum() else " " for c in plain(name)).split()).casefold()


def spelled(name: str) -> str:
    """A name as answers write it: plain, from a capital letter or a digit on, without odd signs."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in SIGNS) else " " for c in plain(name))
    text = " ".join(kept.split()).lstrip(SIGNS)
    return f"{text[:1].upper()}{text[1:]}"


def is_writable(name: str) -> bool:
    """Whether an answer can name a city: nothing but Latin letters and digits tells it apart."""
    return folded(spelled(name)) == folded(name) != ""


def _named(ordered: Iterable[City]) -> dict[str, City]:
    named: dict[str, City] = {}
    taken: set[str] = set()
    for city in ordered:
        country = f"{city.name} ({city.country})"
        full = f"{city.name} ({city.country}, {city.key})"
        # Keys may differ in case, accents and punctuation alone.
        forms = chain((city.name, country, full), (f"{full} {number}" for number in count(2)))
        name = next(form for form in forms if folded(form) not in taken)
        taken.add(folded(name))
        named[name] = city
    return named
