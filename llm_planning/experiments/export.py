"""A ledger as one flat table: written for pandas, polars, DuckDB and spreadsheets, and read again.

One row per finished trial. The columns are the fields of `runs`, under the same names (settings as
`settings.KEY`, metrics as `metrics.KEY`, usage summed over roles and as `usage.ROLE.KEY`), and
beside them the trial's key, its plan, its error, when it started, the file of its trace, `equal` if
all of its seeds did the same, and its provenance (`provenance.commit`,
`provenance.versions.torch`, ...).
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from llm_base.files import TargetError, check_target, read_regular, write_durably
from llm_base.lines import lines_of
from llm_planning.experiments.ledger import LedgerError
from llm_planning.experiments.runs import (
    EQUAL,
    METRICS,
    keys_of_equal_seeds,
    read_trials,
    result_record,
)
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from llm_planning.experiments.ledger import Ledger, LedgerRow
    from llm_planning.experiments.runs import RunRecord

Kind: TypeAlias = Literal["truth", "integer", "number", "text", "texts", "time"]
"""The kind of a column's values; each may be missing in a row."""

LARGEST = 1 << 30
"""Bytes of a table that is read, packed or not."""

MOST_CELLS = 10**8
"""Cells of a table, at most: rows that share no field make it grow with their number squared."""

_SPECIAL = re.compile(r'[,"\r\n]')
"""What a cell of a CSV file has only in quotes."""

_INTEGERS = range(-(2**63), 2**63)

_PROMPTS = "prompts"
"""The field of a provenance that is left out: it is long and alike in most rows."""

_TEXT_FIELDS = ("planner", "domain", "task", "model", "status", "role_models.", "provenance")
"""Prefixes of fields that hold texts, even if these look like numbers in a CSV file."""

_TRUTH_FIELDS = ("provenance.deterministic", "provenance.dirty")
"""Fields with such a prefix that hold none."""

_UNREPORTED = frozenset({"key", "plan", "error", "started", "trace"})
"""Columns that reports do not read."""


_EVERY_EXPORT = ("planner", "task", "seed", "status", "provenance")
"""Columns that tell an export from other tables."""


class ExportError(LedgerError):
    """A table cannot be written to a file, or a file does not hold one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table.

    Attributes:
        values: one per row; None in a row without a value.
    """

    name: str
    kind: Kind
    values: Sequence[Any]


def columns(ledger: Ledger) -> list[Column]:
    """The finished trials of a ledger, column by column, rows in the order of the sweep.

    A column has one kind. Integers beside other numbers become numbers. If other kinds meet, all
    values become texts, as JSON if they are not texts.

    Raises:
        ExportError: the table has more than `MOST_CELLS`.
        LedgerError: the ledger cannot be read.
    """
    rows = list(ledger.rows())
    # Read after the rows, as a writer may be adding to both tables.
    provenances = {
        id_: dict(_leaves("provenance", {k: v for k, v in known.items() if k != _PROMPTS}))
        for id_, known in ledger.provenances.items()
    }
    records = [_record(row, ledger, provenances[row.provenance]) for row in rows]
    equal = keys_of_equal_seeds(read_trials(ledger), ledger)
    for record in records:
        if record["key"] in equal:
            record[EQUAL] = True
    names = dict.fromkeys(name for record in records for name in record)
    if len(names) * len(records) > MOST_CELLS:
        raise ExportError(
            f"{ledger.folder} makes a table of {len(names)} columns and {len(records)} rows, more "
            f"than {MOST_CELLS} cells: its trials have too many different settings or metrics"
        )
    return [_column(name, [record.get(name) for record in records]) for name in _grouped(names)]


def export(ledger: Ledger, path: Path) -> int:
    """Writes the finished trials of a ledger to a file, whole or not at all.

    Args:
        ledger: open for reading or recording.
        path: ends in `.csv` or `.parquet`; a file that exists is replaced.

    Returns:
        The number of rows.

    Raises:
        ExportError: the file has another ending or cannot be written, or no trial has finished yet.
        LedgerError: the ledger cannot be read.
    """
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        raise ExportError(
            f"cannot export to {path}: unknown ending {path.suffix!r}; "
            f"{remedy(path.suffix, _WRITERS)}"
        )
    try:
        check_target(path)
    except TargetError as error:
        raise ExportError(str(error)) from error
    table = columns(ledger)
    if not table:
        raise ExportError(f"no trial in {ledger.folder} has finished yet: export it later")
    try:
        write_durably(path, write(table))
    except OSError as error:
        raise ExportError(
            f"cannot write {path} ({error}): free disk space there, or name another file"
        ) from error
    return len(table[0].values)


def read_export(path: Path) -> list[RunRecord]:
    """The records of the trials in a file that `export` wrote; see `runs.runs_of`.

    If the sweep is complete, a report made from them equals the report made from the ledger. Values
    of None are missing in them except for metrics, which all runs have, and a column of integers
    and other numbers holds no integers. From a CSV file, an empty text is None, and a text that
    reads as a number is a number.

    Args:
        path: ends in `.csv` or `.parquet`, or in one of these and `.gz`.

    Returns:
        A record for each row, with the fields of `runs` and those of the provenance.

    Raises:
        ExportError: the file cannot be read or does not hold such a table.
    """
    is_packed = path.suffix.lower() == ".gz"
    ending = (path.with_suffix("") if is_packed else path).suffix.lower()
    read = _READERS.get(ending)
    if read is None:
        raise ExportError(f"cannot read {path}: its name must end in one of {', '.join(_READERS)}")
    try:
        content = read_regular(path, most=LARGEST)
        table = read(_unpacked(content) if is_packed else content)
        if missing := [name for name in _EVERY_EXPORT if name not in table]:
            raise ValueError(f"it has no column {missing[0]!r}")
    except (OSError, EOFError, zlib.error, csv.Error, ValueError) as error:
        raise ExportError(f"cannot read {path} ({error}): export the ledger again") from error
    names = [name for name in table if name not in _UNREPORTED]
    rows = zip(*(table[name] for name in names), strict=True)
    return [
        {
            name: value
            for name, value in zip(names, row, strict=True)
            if value is not None or name.startswith(METRICS)
        }
        for row in rows
    ]


def _unpacked(content: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
        unpacked = packed.read(LARGEST + 1)
    if len(unpacked) > LARGEST:
        raise ValueError(f"it holds more than {LARGEST} bytes")
    return unpacked


def provenances_of(records: Iterable[RunRecord]) -> dict[str, dict[str, Any]]:
    """The provenances in the records of an export: their numbers, and what each says of its runs.

    What a ledger nests, such as the versions of packages, has dotted names here.
    """
    prefix = "provenance."
    return {
        str(record["provenance"]): {
            name.removeprefix(prefix): value
            for name, value in record.items()
            if name.startswith(prefix)
        }
        for record in records
    }


def to_csv(table: Iterable[Column]) -> bytes:
    """Comma-separated values in UTF-8 with a head line.

    Missing values are empty, booleans `true` and `false`, times ISO 8601 in UTC, lists JSON.
    """
    table = list(table)
    cells = [[_in_csv(value) for value in column.values] for column in table]
    head = [column.name for column in table]
    return "".join(map(csv_line, [head, *zip(*cells, strict=True)])).encode()


def csv_line(cells: Iterable[str]) -> str:
    r"""A line of comma-separated values.

    `csv.writer` leaves a carriage return unquoted before Python 3.11.9 and 3.12.3 (gh-67044), where
    every reader then ends the line.

    Example:
        >>> from llm_planning.experiments.export import csv_line
        >>> csv_line(["plain", "a,b", "stuck\r"])
        'plain,"a,b","stuck\r"\n'
    """
    return f"{','.join(map(_quoted, cells))}\n"


def _quoted(cell: str) -> str:
    return '"{}"'.format(cell.replace('"', '""')) if _SPECIAL.search(cell) else cell


def to_parquet(table: Iterable[Column]) -> bytes:
    """Parquet, each column with its own type: plans as lists of texts, times with their zone."""
    import pyarrow
    from pyarrow import parquet

    types = {
        "truth": pyarrow.bool_(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "text": pyarrow.string(),
        "texts": pyarrow.list_(pyarrow.string()),
        "time": pyarrow.timestamp("us", tz="UTC"),
    }
    file = io.BytesIO()
    arrays = {column.name: pyarrow.array(column.values, types[column.kind]) for column in table}
    parquet.write_table(pyarrow.table(arrays), file, compression="zstd")
    return file.getvalue()


def _from_csv(content: bytes) -> Mapping[str, Sequence[Any]]:
    text = content.decode()
    # The default limit of the reader is below the length of texts in a ledger.
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    head, *rows = csv.reader(lines_of(text))
    cells = zip(*rows, strict=True) if rows else [()] * len(head)
    return {name: _typed(name, column) for name, column in zip(head, cells, strict=True)}


def _from_parquet(content: bytes) -> Mapping[str, Sequence[Any]]:
    from pyarrow import parquet

    table: dict[str, list[Any]] = parquet.read_table(io.BytesIO(content)).to_pydict()
    return table


def _typed(name: str, cells: Sequence[str]) -> Sequence[Any]:
    """The values of a CSV column: booleans or numbers if all cells are, else texts."""
    texts = [cell or None for cell in cells]
    if name.startswith(_TEXT_FIELDS) and name not in _TRUTH_FIELDS:
        return texts
    try:
        values = [None if cell is None else json.loads(cell) for cell in texts]
    except (ValueError, RecursionError):
        return texts
    return values if all(isinstance(value, int | float | None) for value in values) else texts


_READERS: Mapping[str, Callable[[bytes], Mapping[str, Sequence[Any]]]] = {
    ".csv": _from_csv,
    ".parquet": _from_parquet,
}

_WRITERS: Mapping[str, Callable[[Iterable[Column]], bytes]] = {
    ".csv": to_csv,
    ".parquet": to_parquet,
}


def _record(row: LedgerRow, ledger: Ledger, provenance: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "key": row.key,
        **result_record(row.result, attempts=row.attempts),
        "plan": row.result.plan,
        "error": row.result.error,
        "started": datetime.fromtimestamp(row.result.started, UTC),
        "trace": None if row.trace is None else row.trace.relative_to(ledger.folder).as_posix(),
        "provenance": row.provenance,
        **provenance,
    }


def _grouped(names: Iterable[str]) -> list[str]:
    """Sorts names by family; families keep the order in which they first occur."""
    families: dict[str, list[str]] = {}
    for name in names:
        families.setdefault(name.partition(".")[0], []).append(name)
    return [name for family in families.values() for name in family]


def _leaves(name: str, value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{name}.{key}", inner)
    else:
        yield name, value


def _column(name: str, values: list[Any]) -> Column:
    kind = _kind([value for value in values if value is not None])
    if kind == "number":
        values = [None if value is None else float(value) for value in values]
    elif kind == "text":
        values = [None if value is None else _as_text(value) for value in values]
    elif kind == "texts":
        values = [None if value is None else [_as_text(text) for text in value] for value in values]
    return Column(name=_as_text(name), kind=kind, values=values)


def _kind(values: Sequence[Any]) -> Kind:
    """The kind of all values; text if they differ or fit no other kind."""
    types = {type(value) for value in values}
    if types == {bool}:
        return "truth"
    if types and types <= {int, float}:
        fitting = all(value in _INTEGERS for value in values if isinstance(value, int))
        return "text" if not fitting else "number" if float in types else "integer"
    if types == {datetime}:
        return "time"
    if types == {tuple} and all(isinstance(text, str) for value in values for text in value):
        return "texts"
    return "text"


def _as_text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    # A lone surrogate cannot be encoded as UTF-8.
    return text.encode("utf-8", "backslashreplace").decode()


def _in_csv(value: Any) -> str:  # noqa: ANN401 - a value of any kind
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str) else json.dumps(value)
