"""Graphs of flights as files: a folder with `cities.csv` and `direct_flights.csv`.

Files may come from anybody. Whatever is wrong with them is one line that names the file and the
line, and nothing is left out in silence.
"""

from __future__ import annotations

import csv
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from llm_base.files import read_regular
from llm_base.lines import lines_of
from llm_base.quoting import printable, quote
from llm_planning.environments.travel.graph import City, FlightGraph, is_writable
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CITIES: Final = "cities.csv"
FLIGHTS: Final = "direct_flights.csv"

CITY_COLUMNS: Final = ("id", "name", "country", "population")
FLIGHT_COLUMNS: Final = ("from", "to")

MOST_BYTES: Final = 64 * 2**20
"""The largest file that is read: some five million flights."""

LONGEST_NAME: Final = 60
"""Characters of a city's name."""

MOST_PEOPLE: Final = 10**10
"""The population of no city."""

BUNDLED: Final = Path(__file__).parent / "flights"
"""The graph that comes with the project."""


class GraphError(SettingsError):
    """The files are no graph of flights; the message says why in one line."""


def graph_hash(folder: Path) -> str:
    """SHA-256 of both files, in hexadecimal; empty if one cannot be read."""
    digest = hashlib.sha256()
    for name in (CITIES, FLIGHTS):
        try:
            digest.update(hashlib.sha256(read_regular(folder / name, most=MOST_BYTES)).digest())
        except (OSError, ValueError):
            return ""
    return digest.hexdigest()


@lru_cache(4)
def read_graph(folder: Path, sha256: str) -> FlightGraph:  # noqa: ARG001 - part of the cache's key
    """Reads a graph, once for each content.

    Args:
        folder: with both files.
        sha256: as `graph_hash` returns it.

    Raises:
        GraphError: a file cannot be read, or is not what it should be.
    """
    cities: dict[str, City] = {}
    lines: dict[str, str] = {}
    for where, row in _rows(folder / CITIES, CITY_COLUMNS):
        city = _city(row, where)
        if city.key in cities:
            raise GraphError(f"{where}: the id {quote(city.key)} is given twice; keep one")
        cities[city.key], lines[city.key] = city, where
    flights: dict[tuple[str, str], None] = {}
    for where, row in _rows(folder / FLIGHTS, FLIGHT_COLUMNS):
        flight = row["from"], row["to"]
        for key in flight:
            if key not in cities:
                raise GraphError(f"{where}: {CITIES} has no city with the id {quote(key)}")
        if flight[0] == flight[1]:
            raise GraphError(f"{where}: the flight begins and ends in {quote(flight[0])}")
        if flight in flights:
            raise GraphError(
                f"{where}: the flight {quote(flight[0])} to {quote(flight[1])} is given twice; "
                "keep one"
            )
        flights[flight] = None
    graph = FlightGraph(cities.values(), flights)
    names = {city.key: name for name, city in graph.cities.items()}
    for key, where in lines.items():
        if not is_writable(names[key]):
            raise GraphError(
                f"{where}: no answer can name {quote(names[key])}: write it in Latin letters and "
                "digits"
            )
    return graph


def _city(row: Mapping[str, str], where: str) -> City:
    for column in ("id", "name", "country"):
        if not row[column] or len(row[column]) > LONGEST_NAME or not row[column].isprintable():
            raise GraphError(
                f"{where}: {column} is {quote(row[column])}; write 1 to {LONGEST_NAME} printable "
                "characters"
            )
    people = row["population"]
    # int() would take signs, blanks, underscores and other scripts' digits, too.
    if not (
        people.isascii() and people.isdigit() and len(people) <= 10 and int(people) < MOST_PEOPLE
    ):
        raise GraphError(f"{where}: population is {quote(people)}; write a whole number from 0 on")
    return City(key=row["id"], name=row["name"], country=row["country"], population=int(people))


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The lines of a file, each with its place, such as `cities.csv: line 2`."""
    file = printable(str(path))
    reader = csv.DictReader(lines_of(_text(path, file)), strict=True)
    count = 0
    try:
        heads = reader.fieldnames or ()
        for column in columns:
            if list(heads).count(column) != 1:
                much = "twice" if column in heads else "not"
                raise GraphError(
                    f"{file}: the column {column!r} is {much} there; its first line has to name "
                    f"each of {', '.join(columns)} once"
                )
        for row in reader:
            count += 1
            where = f"{file}: line {reader.line_num}"
            if None in row or None in row.values():
                raise GraphError(f"{where}: has not as many values as there are columns")
            yield where, row
    except csv.Error as error:
        raise GraphError(f"{file}: line {reader.line_num}: is not CSV: {error}") from error
    if not count:
        raise GraphError(f"{file}: has no line below its heads; write at least one")


def _text(path: Path, file: str) -> str:
    try:
        content = read_regular(path, most=MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise GraphError(
            f"{file}: there is no such file; graph={printable(str(path.parent))} has to be a "
            f"folder with {CITIES} and {FLIGHTS}"
        ) from error
    except OSError as error:
        raise GraphError(f"{file}: cannot be read: {error.strerror}") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GraphError(
            f"{file}: byte {error.start} is not UTF-8; save the file in that encoding"
        ) from error
