"""The ledger of a sweep: one row per finished trial, and nothing lost when the process dies.

A ledger is a folder with a SQLite file in write-ahead mode and the trials' traces. A result is
recorded in two steps: its trace is put on the disk under its final name, then one transaction
adds its row. A process that is killed before the second step ends leaves no row: the next run that
records removes the trace and runs the trial again. Once `record` has returned, the row and the
trace survive the death of the process and the loss of power.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    TypeAdapter,
    ValidationError,
)

from llm_base.files import LONGEST_NAME
from llm_base.quoting import first_fault
from llm_planning.experiments import ledger_files
from llm_planning.experiments.ledger_files import (
    LEDGER_FILE,
    LedgerError,
    TraceFolder,
    damaged,
    explaining,
)
from llm_planning.experiments.trial import KeptResult, Trial, limited, with_utf8
from llm_planning.interrupts import was_interrupted
from llm_planning.own_code import changed_since, describe_error
from llm_planning.trace_file import TraceError
from llm_planning.trace_tree import repeatable_fields

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from filelock import FileLock

    from llm_planning.events import Event
    from llm_planning.experiments.trial import TrialResult

__all__ = ["LEDGER_FILE", "Ledger", "LedgerError", "LedgerRow", "UnkeepableResultError"]

_TRACES = "traces"
_Row = TypeVar("_Row")


def _printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError("a folder cannot have this name")
    return name


class _Sweep(BaseModel):
    """A resolved sweep without its trials."""

    model_config = ConfigDict(extra="allow", strict=True, defer_build=True)

    name: Annotated[str, Field(max_length=LONGEST_NAME), AfterValidator(_printable)]
    retries: Annotated[int, Field(ge=0, le=100)]


class _Attempt(BaseModel):
    """What the digest takes of a failed attempt."""

    model_config = ConfigDict(strict=True, defer_build=True)

    error: str | None


# What the columns of a selected row hold; a stranger may have written them. A SHA-256 names files.
_Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_STRICT = ConfigDict(strict=True, defer_build=True)
_SWEEP = TypeAdapter(tuple[Json[_Sweep]], config=_STRICT)
_KEY = TypeAdapter(tuple[_Sha256], config=_STRICT)
_PLACE = TypeAdapter(tuple[int], config=_STRICT)
_NUMBER = TypeAdapter(tuple[_Sha256, int], config=_STRICT)
_WHOLE_TRIAL = TypeAdapter(Trial)
_TRIAL = TypeAdapter(tuple[_Sha256, Json[Trial]], config=_STRICT)
_ATTEMPT = TypeAdapter(tuple[_Sha256, Json[_Attempt]], config=_STRICT)
_ID = TypeAdapter(tuple[str], config=_STRICT)
_FILES = TypeAdapter(tuple[Json[dict[str, str | None]]], config=_STRICT)
_PROVENANCE = TypeAdapter(tuple[str, Json[dict[str, Any]]], config=_STRICT)
_PROMPT = TypeAdapter(tuple[str, str, str, str, str], config=_STRICT)
_RESULT = TypeAdapter(
    tuple[
        _Sha256,
        Json[Trial],
        Annotated[int, Field(ge=1, le=2**53)],
        str,
        _Sha256 | None,
        Json[KeptResult],
    ],
    config=_STRICT,
)

# Types of lines that may differ between runs with the same answers.
_TYPES_APART = frozenset({"load", "end"})


class UnkeepableResultError(LedgerError):
    """A planner left a result that is not JSON or is too large; the ledger is unharmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """A trial that has ended for good.

    Attributes:
        result: of the last attempt, without its trace, events and prompts.
        provenance: a key of `Ledger.provenances`.
        trace: the trace's file; None if the planner left no trace.
        trace_sha256: SHA-256 of the trace's uncompressed lines.
    """

    key: str
    result: TrialResult
    attempts: int
    provenance: str
    trace: Path | None
    trace_sha256: str | None


class Ledger:
    """The results of one sweep.

    A ledger from `create` or `resume` records, and no other process can. A ledger from `open` only
    reads, also while another process records. Threads may share it.
    """

    def __init__(
        self,
        folder: Path,
        connection: sqlite3.Connection,
        *,
        lock: FileLock | None = None,
        provenance: str = "",
    ) -> None:
        self.folder = folder
        self._file = folder / LEDGER_FILE
        self._connection = connection
        self._traces = TraceFolder(folder / _TRACES)
        self._lock = lock
        self._provenance = provenance
        self._turn = threading.Lock()
        self._prompts: set[tuple[str, ...]] = set()

    @classmethod
    def create(
        cls, folder: Path, sweep: Mapping[str, Any], provenance: Mapping[str, Any]
    ) -> Ledger:
        """Makes a ledger and opens it for recording.

        Killed at any moment, this leaves a whole ledger or none, and can be called again.

        Args:
            folder: of the sweep; made if it is missing.
            sweep: the resolved sweep as JSON values; `trials` lists each trial's `to_json`.
            provenance: of the results to be recorded, as JSON values.

        Raises:
            LedgerError: the folder has a ledger or traces already, another process is making one,
                the disk does not take it, or the sweep is too large to be read again.
            ValueError: two trials are the same.
        """
        trials = [Trial(**trial) for trial in sweep["trials"]]
        if len({trial.key for trial in trials}) < len(trials):
            raise ValueError("a sweep has each of its trials once")
        try:
            content = with_utf8(limited(json.dumps({**sweep, "trials": None})))
            rows = [
                (number, trial.key, limited(json.dumps(trial.to_json())))
                for number, trial in enumerate(trials)
            ]
            for _, _, text in rows:
                _WHOLE_TRIAL.validate_json(text)
        except ValueError as error:
            raise LedgerError(
                f"the sweep cannot be kept in {folder} ({_reason(error)}): give fewer, shorter "
                "or plainer settings"
            ) from error

        def fill(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO sweep VALUES (?)", (content,))
            connection.executemany("INSERT INTO trials VALUES (?, ?, ?)", rows)

        with ledger_files.locked(folder) as lock:
            traces = TraceFolder(folder / _TRACES)
            ledger_files.refuse_used(folder / LEDGER_FILE, traces_left=traces.holds_any())
            ledger_files.build(folder / LEDGER_FILE, fill)
            return cls._writer(folder, provenance, lock)

    @classmethod
    def resume(
        cls,
        folder: Path,
        provenance: Mapping[str, Any],
        *,
        sweep: Mapping[str, Any] | None = None,
    ) -> Ledger:
        """Opens a ledger for recording the missing results; removes what a killed run left.

        Args:
            provenance: of the results to be recorded from now on.
            sweep: the expected sweep; its trials must be the ledger's.

        Raises:
            LedgerError: there is no ledger; it is damaged, of another version or of another sweep;
                another process records; or the disk does not take it.
        """
        ledger_files.refuse_missing(folder / LEDGER_FILE)
        with ledger_files.locked(folder) as lock:
            return cls._writer(folder, provenance, lock, sweep=sweep)

    @classmethod
    def open(cls, folder: Path) -> Ledger:
        """Opens a ledger for reading, at any time.

        Raises:
            LedgerError: there is none, or it is damaged or of another version.
        """
        return cls(folder, ledger_files.connect_to_read(folder / LEDGER_FILE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file and lets other processes record."""
        with self._turn:
            self._connection.close()
            if self._lock is not None:
                self._lock.release()

    def record(self, result: TrialResult, *, attempt: int, final: bool) -> None:
        """Records the result of one attempt, which is on the disk when this returns.

        An error leaves nothing of it. The trace of an attempt that is not final is not kept.

        Args:
            result: of a trial of this sweep that has no row.
            attempt: number of the attempt, counted from 1.
            final: whether this result becomes the trial's row; otherwise the trial is run again.

        Raises:
            UnkeepableResultError: the result holds a value that is not JSON, or is too large.
            LedgerError: the disk does not take it, or the ledger is open for reading only.
            OwnCodeError: a file that the user's own code reads is another one for this result.
            ValueError: the trial is not in this sweep or has a row, or `attempt` is not its next.
        """
        trial = self._numbers.get(result.trial.key)
        if trial is None:
            raise ValueError(f"the trial {result.trial.to_json()} is not in the ledger's sweep")
        if not final and result.status == "done":
            raise ValueError("a trial that is done is not tried again: its row is final")
        if self._lock is None:
            raise LedgerError(f"the ledger {self._file} was opened for reading: resume the sweep")
        try:
            content, trace = KeptResult.encode(result), result.trace_lines()
        except BaseException as error:  # what a planner leaves may be of any class
            if was_interrupted(error):
                raise
            raise UnkeepableResultError(
                f"the planner {result.trial.planner} left a result that cannot be kept "
                f"({_reason(error)}): its plan, metrics and trace must be JSON values of a few "
                "megabytes at most"
            ) from error
        self._refuse_changed(result.files)
        with self._turn, explaining(self._file):
            self._refuse_repeated(trial, attempt)
            if not final:
                self._insert("INTO failed_attempts", (trial, attempt, self._provenance, content))
                return
            for prompt in _prompts_of(result):
                if prompt not in self._prompts:
                    self._insert("OR IGNORE INTO prompts", (self._provenance, *prompt))
                    self._prompts.add(prompt)
            sha256 = None if trace is None else self._traces.write(result.trial.key, trace)
            # If adding the row fails, the trace stays: after an error of the disk, only the next
            # opening knows whether the row is there.
            self._insert("INTO results", (trial, attempt, self._provenance, sha256, content))

    def finished(self) -> frozenset[str]:
        """Keys of the trials that have a row."""
        return frozenset(self._keys("SELECT key FROM results JOIN trials ON number = trial"))

    def attempts(self) -> Mapping[str, int]:
        """Key -> number of failed attempts, of the trials without a row."""
        return Counter(
            self._keys(
                "SELECT key FROM failed_attempts JOIN trials ON number = trial "
                "WHERE trial NOT IN (SELECT trial FROM results)"
            )
        )

    def rows(self) -> Iterator[LedgerRow]:
        """The rows that are there now, in the order of the sweep."""
        return self.new_rows(set())

    def new_rows(self, seen: set[int]) -> Iterator[LedgerRow]:
        """The rows that are there now and were not before, in the order of the sweep.

        Args:
            seen: the places of the rows that were read before; gains those that are read now.
        """
        # One row is in memory at a time, and no statement is open between two: a caller may take
        # long, and rows never change.
        places = self._read(_PLACE, "SELECT trial FROM results ORDER BY trial")
        # Selected after the rows, as a writer may be adding to both tables.
        known = {id_ for (id_,) in self._read(_ID, "SELECT id FROM provenances NOT INDEXED")}
        for (number,) in places:
            if number in seen:
                continue
            ((key, trial, attempts, provenance, sha256, kept),) = self._read(
                _RESULT,
                "SELECT key, trials.content AS trial, attempts, provenance, trace_sha256, "
                "results.content AS result FROM results LEFT JOIN trials ON number = trial "
                "WHERE results.trial = ?",
                (number,),
            )
            if provenance not in known:
                raise damaged(self._file, f"the provenance of the trial {key} is missing")
            self._refuse_renamed(key, trial)
            seen.add(number)
            yield LedgerRow(
                key=key,
                result=kept.of(trial),
                attempts=attempts,
                provenance=provenance,
                trace=None if sha256 is None else self._traces.path(key),
                trace_sha256=sha256,
            )

    @cached_property
    def files(self) -> dict[str, str | None]:
        """What a user's own code read for the attempts, from the working directory -> its hash.

        What an attempt wrote has None: it may change.
        """
        found: dict[str, str | None] = {}
        for table in ("results", "failed_attempts"):
            for (files,) in self._read(
                _FILES,
                f"SELECT DISTINCT json_extract(content, '$.files') AS files FROM {table} "
                "WHERE files IS NOT NULL",
            ):
                _add_files(found, files)
        return found

    def read_events(self, row: LedgerRow) -> list[Event]:
        """All events of a trial's trace; none if the trial left no trace.

        Raises:
            LedgerError: the trace's file is missing or not the one that the trial left.
        """
        return [] if row.trace_sha256 is None else self.trace(row.key, row.trace_sha256)

    def trace(self, key: str, sha256: str) -> list[Event]:
        """All events of a trace.

        Args:
            sha256: `LedgerRow.trace_sha256`.

        Raises:
            LedgerError: the trace's file is missing or not the one that the trial left.
        """
        try:
            return self._traces.read(key, sha256)
        except TraceError as error:
            raise LedgerError(str(error)) from error

    @property
    def sweep(self) -> Mapping[str, Any]:
        """The resolved sweep that the ledger was made with."""
        rows = self._read(_SWEEP, "SELECT content FROM sweep LIMIT 2")
        if len(rows) != 1:
            raise damaged(self._file, f"it holds {'several' if rows else 'no'} sweeps")
        ((sweep,),) = rows
        return sweep.model_dump() | {"trials": [trial.to_json() for trial in self.trials]}

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials of the sweep, in its order."""
        rows = self._read(_TRIAL, "SELECT key, content AS trial FROM trials ORDER BY number")
        for key, trial in rows:
            self._refuse_renamed(key, trial)
        return tuple(trial for _, trial in rows)

    @property
    def provenances(self) -> Mapping[str, Mapping[str, Any]]:
        """Id -> provenance: the commits, machines and models that results were made with.

        If models were asked, its `prompts` has the fixed texts of the prompts: planner -> role ->
        SHA-256 -> text.
        """
        prompts: dict[str, dict[str, dict[str, dict[str, str]]]] = {}
        for id_, planner, role, sha256, text in self._read(_PROMPT, "SELECT * FROM prompts"):
            of_planner = prompts.setdefault(id_, {}).setdefault(planner, {})
            of_planner.setdefault(role, {})[sha256] = text
        # Selected after the prompts, as a writer may be adding to both tables.
        statement = "SELECT id, content FROM provenances ORDER BY rowid"
        return {
            id_: {name: value for name, value in content.items() if name != "prompts"}
            | ({"prompts": prompts[id_]} if id_ in prompts else {})
            for id_, content in self._read(_PROVENANCE, statement)
        }

    def content_digest(self) -> str:
        """SHA-256 of everything that two runs of a sweep with the same answers have in common.

        That is the sweep, and of each trial its status, success, plan, repeatable metrics, error,
        attempts with their errors, calls and tokens by role, and the repeatable part of its trace
        (see `repeatable_digest`). Times, the caches' shares and the provenance are left out.

        Raises:
            LedgerError: the ledger or a trace cannot be read.
        """
        failed: dict[str, list[str | None]] = defaultdict(list)
        for key, attempt in self._read(
            _ATTEMPT,
            "SELECT key, failed_attempts.content AS attempt FROM failed_attempts JOIN trials "
            "ON number = trial ORDER BY trial, failed_attempts.attempt",
        ):
            failed[key].append(attempt.error)
        digest = hashlib.sha256(_canonical(self.sweep).encode())
        for row in self.rows():
            tried = failed.pop(row.key, [])
            events = self.read_events(row)
            try:
                trace = repeatable_digest(events) if events else None
            except RecursionError as error:
                raise damaged(self._file, "a trace is nested too deeply") from error
            digest.update(_canonical([_repeatable(row, trace), tried]).encode())
        digest.update(_canonical(failed).encode())
        return digest.hexdigest()

    @classmethod
    def _writer(
        cls,
        folder: Path,
        provenance: Mapping[str, Any],
        lock: FileLock,
        *,
        sweep: Mapping[str, Any] | None = None,
    ) -> Ledger:
        connection = ledger_files.connect_to_write(folder / LEDGER_FILE)
        try:
            content = with_utf8(_canonical(provenance))
            id_ = hashlib.sha256(content.encode()).hexdigest()[:16]
            ledger = cls(folder, connection, lock=lock, provenance=id_)
            if sweep is not None:
                ledger._refuse_other(sweep)
            ledger._clean()
            with explaining(ledger._file):
                ledger._insert("OR IGNORE INTO provenances", (id_, content))
        except BaseException:
            connection.close()
            raise
        return ledger

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Key of a trial -> its place in the sweep."""
        return dict(self._read(_NUMBER, "SELECT key, number FROM trials NOT INDEXED"))

    def _clean(self) -> None:
        traced = self._keys(
            "SELECT key FROM results JOIN trials ON number = trial WHERE trace_sha256 IS NOT NULL"
        )
        with explaining(self._file):
            ledger_files.discard_unfinished(self._file)
            self._traces.clean(frozenset(traced))

    def _refuse_other(self, sweep: Mapping[str, Any]) -> None:
        keys, ours = {Trial(**trial).key for trial in sweep["trials"]}, self._numbers.keys()
        if keys == ours:
            return
        raise LedgerError(
            f"the ledger {self._file} belongs to another sweep, and a folder holds one: "
            f"{len(ours - keys)} of its {len(ours)} trials are not in this one, and "
            f"{len(keys - ours)} of this one's {len(keys)} are not in it; "
            "name another folder with --out (a model's YAML file and own code that are edited make "
            "other trials)"
        )

    def _refuse_changed(self, files: Mapping[str, str | None]) -> None:
        if not files:
            return
        known = self.files
        changed = [
            path
            for path, sha256 in files.items()
            if sha256 and known.get(path) not in (None, sha256)
        ]
        if changed:
            raise changed_since(changed)
        _add_files(known, files)

    def _refuse_repeated(self, trial: int, attempt: int) -> None:
        ((rows, failed),) = self._connection.execute(
            "SELECT (SELECT count(*) FROM results WHERE trial = ?1), "
            "(SELECT count(*) FROM failed_attempts WHERE trial = ?1)",
            (trial,),
        )
        if rows:
            raise ValueError(f"trial {trial} of the sweep has its row already")
        if attempt != failed + 1:
            raise ValueError(
                f"attempt {attempt} of trial {trial} of the sweep cannot follow {failed} others"
            )

    def _insert(self, into: str, row: tuple[object, ...]) -> None:
        # A statement outside a transaction is its own transaction, committed when this returns.
        places = ", ".join("?" * len(row))
        self._connection.execute(f"INSERT {into} VALUES ({places})", row)

    def _refuse_renamed(self, key: str, trial: Trial) -> None:
        if trial.key != key:
            raise damaged(self._file, f"the key {key} is not that of its trial")

    def _keys(self, statement: str) -> list[str]:
        """The keys of trials that a statement selects as its only column."""
        return [key for (key,) in self._read(_KEY, statement)]

    def _read(
        self, kind: TypeAdapter[_Row], statement: str, values: Sequence[object] = ()
    ) -> list[_Row]:
        """The rows that a statement selects, one of which is unread in memory at a time."""
        with self._turn, explaining(self._file):
            cursor = self._connection.execute(statement, values)
            try:
                return [kind.validate_python(row) for row in cursor]
            except ValidationError as error:
                names = [name for name, *_ in cursor.description]
                raise damaged(self._file, first_fault(error, names)) from error


def _add_files(known: dict[str, str | None], files: Mapping[str, str | None]) -> None:
    """Adds what an attempt read; what any attempt wrote has None."""
    for path, sha256 in files.items():
        known[path] = sha256 and known.get(path, sha256)


def _reason(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return first_fault(error)
    return str(error) if isinstance(error, TypeError | ValueError) else describe_error(error)


def _prompts_of(result: TrialResult) -> Iterator[tuple[str, str, str, str]]:
    """Planner, role, SHA-256 and text of each fixed text that a trial's prompts began with."""
    for role, texts in result.prompts.items():
        for text in texts:
            content = text.encode("utf-8", "backslashreplace")
            sha256 = hashlib.sha256(content).hexdigest()
            yield result.trial.planner, role, sha256, content.decode()


def _repeatable(row: LedgerRow, trace: str | None) -> list[Any]:
    """The values of a row that another run of the trial with the same answers would repeat.

    Args:
        trace: the trace's `repeatable_digest`; None if the trial left no trace.
    """
    result = row.result
    usage = {
        role: [spent.calls, spent.prompt_tokens, spent.completion_tokens]
        for role, spent in result.usage.items()
    }
    metrics = {name: x for name, x in result.metrics.items() if name not in result.unrepeatable}
    columns = [result.status, result.success, result.plan, metrics, usage, result.error]
    return [row.key, *columns, row.attempts, trace]


def repeatable_digest(lines: Iterable[Event]) -> str:
    """SHA-256 of the part of a trace that another run with the same answers repeats.

    The order of trees and of answers depends on how long answers take. So only the order of lines
    within a tree counts.

    Raises:
        RecursionError: a line is nested too deeply.
    """
    trees: dict[str, list[str]] = {}
    others: list[str] = []
    for line in lines:
        if line["type"] in _TYPES_APART:
            continue
        kept = repeatable_fields(line)
        tree = kept.pop("tree", None)
        text = json.dumps(kept, sort_keys=True)
        (others if tree is None else trees.setdefault(json.dumps(tree), [])).append(text)
    parts = sorted([*others, *map("\n".join, trees.values())])
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _canonical(value: object) -> str:
    """JSON whose bytes are the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
