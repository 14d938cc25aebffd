"""Names: what has one is loaded when it is asked for; a misspelt one gets the nearest proposed."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from re import split
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_MOST = 100
"""Names that are listed."""


class Named(Protocol):
    """What a catalogue lists."""

    @property
    def name(self) -> str:
        """By which it is found."""
        ...


T = TypeVar("T", bound=Named)


class Catalogue(Mapping[str, T]):
    """Specs by name. All names are known; a module is loaded when one of its specs is asked for.

    Args:
        places: "package.module:NAME" -> the names of the spec, or of the tuple of specs, that the
            module has under this name.
    """

    def __init__(self, places: Mapping[str, Sequence[str]]) -> None:
        self._places = {name: place for place, names in places.items() for name in names}
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        """Loads a spec.

        Raises:
            KeyError: nothing has this name.
        """
        if name not in self._loaded:
            module, _, attribute = self._places[name].partition(":")
            named = getattr(import_module(module), attribute)
            specs: Sequence[T] = named if isinstance(named, tuple) else (named,)
            self._loaded |= {spec.name: spec for spec in specs}
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        """Whether something has this name; loads nothing."""
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of the list."""
        return iter(self._places)

    def __len__(self) -> int:
        """The number of names."""
        return len(self._places)


def by_number(name: str) -> list[tuple[int, str]]:
    """A key that sorts p2 before p10."""
    parts = split(r"([0-9]+)", name)
    return [(int(part), "") if place % 2 else (0, part) for place, part in enumerate(parts)]


def remedy(name: str, known: Iterable[str]) -> str:
    """Says which known names to write instead of an unknown one.

    Args:
        name: as the user wrote it.
        known: all names.

    Returns:
        The nearest known names as a question, followed by all of them, or by their number where
        nobody would read them.
    """
    names = sorted(known)
    # Known names that the written one begins with come before names that only look alike.
    begun = [short for short in names if len(short) > 1 and name.startswith(short)]
    alike = get_close_matches(name, names, n=3, cutoff=0.5)
    near = list(dict.fromkeys((*begun, *alike)))
    question = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{question}known: " + (
        f"{len(names)} names" if len(names) > _MOST else ", ".join(names)
    )
