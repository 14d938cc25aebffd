"""A home: its rooms and places, what lies there, and what tasks want of it; read from a YAML file.

`homes/seen.yaml` says what a file holds. The two homes of this project have the names of LLM-MCTS,
Appendix A.1 (`names.py`); a home of one's own may have any.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llm_base.files import at_home
from llm_base.quoting import first_fault, quote
from llm_base.yaml_file import YamlError, read_mapping
from llm_planning.domain import DomainError
from llm_planning.environments.household.names import unique_name
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BUNDLED: Final = ("seen", "unseen")
"""The homes that come with this project."""

PACKAGED: Final = "virtualhome"
"""The scene of VirtualHome that an extra brings; `bridges/virtualhome.py` reads it."""

MOST_ROOMS: Final = 16
MOST_PLACES: Final = 60
MOST_THINGS: Final = 500
MOST_OF_A_NAME: Final = 9
"""Sizes of the largest home; the simulator's arrays grow with them."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9'-]*( [A-Za-z0-9'-]+)*")
_LONGEST_NAME: Final = 90
"""Characters of the longest name: a scene's room and class, of 40 each, and a number."""
_NO_NAMES: Final = frozenset(
    {"and", "in", "inside", "into", "on", "onto", "the", "a", "an", "nothing", "you"}
)
"""Words of goals and observations, which cannot be part of a name."""


class HomeError(DomainError):
    """A file is no home; the message names the file and what is wrong in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A container or a surface.

    Attributes:
        room: number of its room.
        container: whether it is a container, which is closed at the start.
    """

    name: str
    room: int
    container: bool

    @property
    def relation(self) -> str:
        """How things lie there: `inside` or `on`."""
        return "inside" if self.container else "on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A home.

    Attributes:
        name: `seen`, `unseen`, or a path.
        rooms: names.
        places: containers and surfaces, room by room.
        things: names of what can be moved.
        law: weights of the places where a thing lies at the start, shape [things][places].
        number: how many things of a name there are where a goal names them, shape [things].
        goals: (thing, place), by number, that tasks may want.
        trained_in: name of the home whose training tasks say what is novel here.
        starts: where each thing of a name lies at the start, shape [things][number], if that is
            not drawn by the law: a scene says where everything is.
    """

    name: str
    rooms: tuple[str, ...]
    places: tuple[Place, ...]
    things: tuple[str, ...]
    law: tuple[tuple[float, ...], ...]
    number: tuple[int, ...]
    goals: tuple[tuple[int, int], ...]
    trained_in: str
    starts: tuple[tuple[int, ...], ...] = ()


Name: TypeAlias = Annotated[str, Field(max_length=_LONGEST_NAME, pattern=f"^{_NAME.pattern}$")]
Weight: TypeAlias = Annotated[float, Field(gt=0, le=1e6)]


class _Part(BaseModel):
    """A part of a file, which has no other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Room(_Part):
    containers: list[Name] = []
    surfaces: list[Name] = []


class _Group(_Part):
    names: list[Name] = Field(min_length=1)
    lie: dict[str, Weight] = Field(min_length=1)
    goals: list[str] = []


class _HomeFile(_Part):
    rooms: dict[Name, _Room] = Field(min_length=1, max_length=MOST_ROOMS)
    things: dict[str, _Group] = Field(min_length=1)
    several: dict[str, Annotated[int, Field(ge=1, le=MOST_OF_A_NAME)]] = {}
    trained_in: str = ""


@cache
def bundled_home(name: str) -> Home:
    """One of `BUNDLED`."""
    return _read(Path(__file__).parent / "homes" / f"{name}.yaml", name)


def read_home(name: str) -> Home:
    """Reads a home.

    Args:
        name: one of `BUNDLED`, or a YAML file.

    Raises:
        HomeError: there is no such file, or it is no home.
    """
    return bundled_home(name) if name in BUNDLED else _read(Path(at_home(name)), name)


def _read(path: Path, name: str) -> Home:
    try:
        return home_of(read_mapping(path), name)
    except YamlError as error:
        raise HomeError(
            f"home={name} is neither {' nor '.join((*BUNDLED, PACKAGED))} nor a file of a home: "
            f"{error}"
        ) from error


def home_of(values: object, name: str) -> Home:
    """The home that the values of a file describe.

    Args:
        values: as `homes/seen.yaml` has them.

    Raises:
        HomeError: they describe none.
    """
    try:
        return _built(_HomeFile.model_validate(values), name)
    except ValidationError as error:
        raise HomeError(f"home={name}: {first_fault(error)}") from error
    except ValueError as error:
        raise HomeError(f"home={name}: {error}") from error


def _built(file: _HomeFile, name: str) -> Home:
    """The home of a file that has the right shape."""
    rooms = tuple(file.rooms)
    places = tuple(
        Place(name=place_name, room=number, container=container)
        for number, room in enumerate(file.rooms.values())
        for container, names in ((True, room.containers), (False, room.surfaces))
        for place_name in names
    )
    groups = [(f"things.{key}", group) for key, group in file.things.items()]
    things = tuple(thing for _, group in groups for thing in group.names)
    _check_sizes(places, things)
    _check_names((*rooms, *(place.name for place in places), *things))
    index = {place.name: number for number, place in enumerate(places)}
    law: list[tuple[float, ...]] = []
    goals: list[tuple[int, int]] = []
    for key, group in groups:
        _check_known(group.lie, index, of=f"{key}.lie", kind="place")
        _check_known(group.goals, index, of=f"{key}.goals", kind="place")
        weights = tuple(group.lie.get(place.name, 0.0) for place in places)
        wanted = list(dict.fromkeys(index[place] for place in group.goals))
        for _ in group.names:
            goals += [(len(law), place) for place in wanted]
            law.append(weights)
    _check_known(file.several, things, of="several", kind="thing")
    if file.trained_in:
        _check_known([file.trained_in], BUNDLED, of="trained_in", kind="home")
    return Home(
        name=name,
        rooms=rooms,
        places=places,
        things=things,
        law=tuple(law),
        number=tuple(file.several.get(thing, 1) for thing in things),
        goals=tuple(goals),
        trained_in=file.trained_in or name,
    )


def _check_sizes(places: Sequence[Place], things: Sequence[str]) -> None:
    if not places:
        raise ValueError("rooms: no room has a container or a surface; name one")
    if len(places) > MOST_PLACES:
        raise ValueError(f"rooms: {len(places)} places are more than {MOST_PLACES}")
    if len(things) > MOST_THINGS:
        raise ValueError(f"things: {len(things)} names are more than {MOST_THINGS}")


def _check_names(names: Iterable[str]) -> None:
    """Makes sure that no two names can be mistaken for each other or for a word of a goal."""
    counts = Counter(map(unique_name, names))
    for name in names:
        if counts[unique_name(name)] > 1:
            raise ValueError(f"the name {name!r} is given twice; every name stands for one thing")
        if words := _NO_NAMES.intersection(name.lower().split()):
            raise ValueError(
                f"the name {name!r} has the word {min(words)!r}, which goals use; choose another"
            )


def _check_known(
    names: Iterable[str], known: Iterable[str] | Mapping[str, int], *, of: str, kind: str
) -> None:
    every = frozenset(known)
    for name in names:
        if name not in every:
            raise ValueError(f"{of}: unknown {kind} {quote(name)}; {remedy(name, known)}")
