"""The ledger of a sweep: one row per finished trial, and nothing lost when the process dies.

A ledger is a folder with a SQLite file in write-ahead mode and the trials' traces. A result is
recorded in two steps: its trace is put on the disk under its final name, then one transaction
adds its row. A process that is killed before the second step ends leaves no row: the next run that
records removes the trace and runs the trial again. Once `record` has returned, the row and the
trace survive the death of the process and the loss of power.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from llm_planning.experiments import ledger_file
from llm_planning.experiments.ledger_checks import TooLargeError, check_sha256, read_object
from llm_planning.experiments.ledger_file import LEDGER_FILE, LedgerError, decoding, explaining
from llm_planning.experiments.ledger_rows import (
    SELECT_ROW,
    SWEEP,
    LedgerRow,
    UnkeepableResultError,
    canonical,
    check_sweep,
    decode_attempt,
    decode_provenances,
    decode_row,
    decode_trial,
    encode_prompts,
    encode_result,
    encode_sweep,
    repeatable,
)
from llm_planning.experiments.traces import TraceFolder, repeatable_digest
from llm_planning.experiments.trial import Trial
from llm_planning.trace_file import TraceError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from filelock import FileLock

    from llm_planning.events import Event
    from llm_planning.experiments.trial import TrialResult

__all__ = ["LEDGER_FILE", "Ledger", "LedgerError", "LedgerRow", "UnkeepableResultError"]

_TRACES = "traces"
_Read = TypeVar("_Read")


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
        try:
            content, trials = encode_sweep(sweep)
        except TooLargeError as error:
            raise LedgerError(
                f"the sweep cannot be kept in {folder} ({error}): give fewer or shorter settings"
            ) from error

        def fill(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO sweep VALUES (?)", (content,))
            connection.executemany("INSERT INTO trials VALUES (?, ?, ?)", trials)

        with ledger_file.locked(folder) as lock:
            traces = TraceFolder(folder / _TRACES)
            ledger_file.refuse_used(folder / LEDGER_FILE, traces_left=traces.holds_any())
            ledger_file.build(folder / LEDGER_FILE, fill)
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
        ledger_file.refuse_missing(folder / LEDGER_FILE)
        with ledger_file.locked(folder) as lock:
            return cls._writer(folder, provenance, lock, sweep=sweep)

    @classmethod
    def open(cls, folder: Path) -> Ledger:
        """Opens a ledger for reading, at any time.

        Raises:
            LedgerError: there is none, or it is damaged or of another version.
        """
        return cls(folder, ledger_file.connect_to_read(folder / LEDGER_FILE))

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
            ValueError: the trial is not in this sweep or has a row, or `attempt` is not its next.
        """
        trial = self._numbers.get(result.trial.key)
        if trial is None:
            raise ValueError(f"the trial {result.trial.to_json()} is not in the ledger's sweep")
        if not final and result.status == "done":
            raise ValueError("a trial that is done is not tried again: its row is final")
        if self._lock is None:
            raise LedgerError(f"the ledger {self._file} was opened for reading: resume the sweep")
        columns, trace = encode_result(result)
        spent = (result.started, result.seconds, self._provenance)
        with self._turn, explaining(self._file):
            self._refuse_repeated(trial, attempt)
            if not final:
                self._insert(
                    "INTO failed_attempts", (trial, attempt, columns.usage, columns.error, *spent)
                )
                return
            for prompt in encode_prompts(result):
                if prompt not in self._prompts:
                    self._insert("OR IGNORE INTO prompts", (self._provenance, *prompt))
                    self._prompts.add(prompt)
            traced: tuple[str | None, int | None] = (None, None)
            if trace is not None:
                traced = self._traces.write(result.trial.key, trace)
            # If adding the row fails, the trace stays: after an error of the disk, only the next
            # opening knows whether the row is there.
            self._insert("INTO results", (trial, *columns, attempt, *spent, *traced))

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
        found = self._select("SELECT trial FROM results ORDER BY trial")
        # Selected after the rows, as a writer may be adding to both tables.
        known = {id_ for (id_,) in self._select("SELECT id FROM provenances NOT INDEXED")}
        for (number,) in found:
            if number in seen:
                continue
            with decoding(self._file):
                (values,) = self._select(SELECT_ROW, (number,))
                row = decode_row(values, self._traces, provenances=known)
            seen.add(number)
            yield row

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
        rows = self._select("SELECT content FROM sweep LIMIT 2")
        with decoding(self._file):
            if len(rows) != 1:
                raise ValueError(f"it holds {'several' if rows else 'no'} sweeps")
            content = check_sweep(read_object(rows[0][0], "the sweep", SWEEP))
        return content | {"trials": [trial.to_json() for trial in self.trials]}

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials of the sweep, in its order."""
        return tuple(
            self._each(
                "SELECT key, content FROM trials ORDER BY number",
                lambda key, content: decode_trial(content, key=key),
            )
        )

    @property
    def provenances(self) -> Mapping[str, Mapping[str, Any]]:
        """Id -> provenance: the commits, machines and models that results were made with.

        If models were asked, its `prompts` has the fixed texts of the prompts: planner -> role ->
        SHA-256 -> text.
        """
        prompts = self._select("SELECT * FROM prompts")
        # Selected after the prompts, as a writer may be adding to both tables.
        statement = "SELECT id, content FROM provenances ORDER BY rowid"
        with self._turn, explaining(self._file), decoding(self._file):
            return decode_provenances(self._connection.execute(statement), prompts)

    def content_digest(self) -> str:
        """SHA-256 of everything that two runs of a sweep with the same answers have in common.

        That is the sweep, and of each trial its status, success, plan, repeatable metrics, error,
        attempts with their errors, calls and tokens by role, and the repeatable part of its trace
        (see `repeatable_digest`). Times, the caches' shares and the provenance are left out.

        Raises:
            LedgerError: the ledger or a trace cannot be read.
        """
        failed: dict[str, list[str | None]] = defaultdict(list)
        for key, error in self._each(
            "SELECT key, error FROM failed_attempts JOIN trials ON number = trial "
            "ORDER BY trial, attempt",
            decode_attempt,
        ):
            failed[key].append(error)
        digest = hashlib.sha256(canonical(self.sweep).encode())
        for row in self.rows():
            tried = failed.pop(row.key, [])
            events = self.read_events(row)
            with decoding(self._file):
                trace = repeatable_digest(events) if events else None
            digest.update(canonical([repeatable(row, trace), tried]).encode())
        digest.update(canonical(failed).encode())
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
        connection = ledger_file.connect_to_write(folder / LEDGER_FILE)
        try:
            content = canonical(provenance)
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
        return dict(
            self._each(
                "SELECT key, number FROM trials NOT INDEXED",
                lambda key, number: (check_sha256(key, "the key of a trial"), number),
            )
        )

    def _clean(self) -> None:
        traced = self._keys(
            "SELECT key FROM results JOIN trials ON number = trial WHERE trace_sha256 IS NOT NULL"
        )
        with explaining(self._file):
            ledger_file.discard_unfinished(self._file)
            self._traces.clean(frozenset(traced))

    def _refuse_other(self, sweep: Mapping[str, Any]) -> None:
        keys = {Trial(**trial).key for trial in sweep["trials"]}
        if keys == self._numbers.keys():
            return
        raise LedgerError(
            f"the ledger {self._file} belongs to another sweep: of its {len(self._numbers)} trials "
            f"{len(self._numbers.keys() - keys)} are not in this one, which has "
            f"{len(keys - self._numbers.keys())} others; name another folder (a model's YAML file "
            "and own code that are edited make other trials)"
        )

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

    def _keys(self, statement: str) -> list[str]:
        """The keys of trials that a statement selects as its only column."""
        return self._each(statement, lambda key: check_sha256(key, "the key of a trial"))

    def _each(self, statement: str, read: Callable[..., _Read]) -> list[_Read]:
        """Reads the rows that a statement selects, one in memory at a time."""
        with self._turn, explaining(self._file), decoding(self._file):
            return [read(*row) for row in self._connection.execute(statement)]

    def _select(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        with self._turn, explaining(self._file):
            return self._connection.execute(statement, values).fetchall()
