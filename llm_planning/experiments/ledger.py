"""The ledger of a sweep: one row per finished trial, and nothing lost when the process dies.

A ledger is a folder with a SQLite file in write-ahead mode and the trials' traces. A result is
recorded in two steps: its trace is put on the disk under its final name, then one transaction
adds its row. A process that is killed between them, or before, leaves no row: the trial is run
again, and the next run that writes removes what has no row. Once `record` has returned, the row and
the trace survive the death of the process and the loss of power.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections import Counter
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from llm_planning.experiments import ledger_file
from llm_planning.experiments.ledger_file import LEDGER_FILE, LedgerError
from llm_planning.experiments.ledger_rows import (
    SELECT_ROW,
    SWEEP,
    LedgerRow,
    TooLargeError,
    UnkeepableResultError,
    canonical,
    check_sha256,
    check_sweep,
    check_text_or_none,
    decode_provenances,
    decode_row,
    decode_trial,
    encode_result,
    encode_trial,
    read_object,
    repeatable,
    within,
)
from llm_planning.experiments.traces import TraceFolder, repeatable_digest
from llm_planning.experiments.trial import Trial
from llm_planning.trace_file import TraceError, summary_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from filelock import FileLock

    from llm_planning.experiments.trial import TrialResult
    from llm_planning.trace import Event

__all__ = ["LEDGER_FILE", "Ledger", "LedgerError", "LedgerRow", "UnkeepableResultError"]

_TRACES = "traces"
_Read = TypeVar("_Read")


class Ledger:
    """The results of one sweep.

    Made by `create` or `resume` it is the only one that records; made by `open` it reads, while
    another process may be recording. Threads may share it.
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
        self._prompts: set[tuple[str, str, str]] = set()
        self._version = ledger_file.version_of(connection)

    @classmethod
    def create(
        cls, folder: Path, sweep: Mapping[str, Any], provenance: Mapping[str, Any]
    ) -> Ledger:
        """Begins a ledger and opens it for recording.

        Killed at any moment this leaves either a whole ledger or none, and can be called again.

        Args:
            folder: of the sweep; made if it is missing.
            sweep: the resolved sweep as JSON values; `trials` lists each trial's `to_json`.
            provenance: of the results that will be recorded, as JSON values.

        Raises:
            LedgerError: the folder has a ledger or traces already, another process is making one,
                the disk does not take it, or the sweep is larger than those that are read.
            ValueError: two trials are the same.
        """
        rest = {key: value for key, value in sweep.items() if key != "trials"}
        trials = [Trial(**trial) for trial in sweep["trials"]]
        try:
            content = within(json.dumps(rest), "the sweep", SWEEP)
            rows = [(n, trial.key, encode_trial(trial)) for n, trial in enumerate(trials)]
        except TooLargeError as error:
            raise LedgerError(
                f"the sweep cannot be kept in {folder} ({error}): give fewer or shorter settings"
            ) from error
        if len({trial.key for trial in trials}) < len(trials):
            raise ValueError("a sweep has each of its trials once")

        def fill(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO sweep VALUES (?)", (content,))
            connection.executemany("INSERT INTO trials VALUES (?, ?, ?)", rows)

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
        """Opens a ledger for recording what is still missing; removes what a killed run left.

        Args:
            folder: of the sweep.
            provenance: of the results that will be recorded from now on.
            sweep: what the ledger should hold; its trials must be the ledger's.

        Raises:
            LedgerError: there is no ledger, it is damaged, of another version or of another sweep,
                another process records, or the disk does not take it.
        """
        ledger_file.refuse_missing(folder / LEDGER_FILE)
        with ledger_file.locked(folder) as lock:
            return cls._writer(folder, provenance, lock, sweep=sweep)

    @classmethod
    def open(cls, folder: Path) -> Ledger:
        """Opens a ledger for reading, at any time.

        Raises:
            LedgerError: there is none, or it is damaged or of an unknown version.
        """
        return cls(folder, ledger_file.connect_to_read(folder / LEDGER_FILE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refuse_old(self) -> None:
        """Makes sure that results can be added.

        Raises:
            LedgerError: it has version 1, whose trials had other keys.
        """
        if self._version == 1:
            raise LedgerError(
                f"the ledger {self._file} has version 1, which is reported but not resumed: begin "
                "the sweep anew in another folder, or resume it with the llm-planning that began it"
            )

    def close(self) -> None:
        """Closes the file and lets others record."""
        with self._turn:
            self._connection.close()
            if self._lock is not None:
                self._lock.release()

    def record(self, result: TrialResult, *, attempt: int, final: bool) -> None:
        """Keeps what came of one attempt: on the disk when this returns, as a whole or not at all.

        The trace of an attempt that is not final is not kept.

        Args:
            result: of a trial of this sweep that has no final row.
            attempt: which one this was, counted from 1.
            final: whether this is the trial's row; otherwise it will be tried again.

        Raises:
            UnkeepableResultError: the result holds something that is no JSON value, or too much.
            LedgerError: the disk does not take it, or the ledger is open for reading only.
            ValueError: the trial is none of this sweep's, has its row, or had other attempts.
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
        with self._turn, self._explaining():
            self._refuse_repeated(trial, attempt)
            if not final:
                self._insert(
                    "failed_attempts", (trial, attempt, columns.usage, columns.error, *spent)
                )
                return
            self._keep_prompts(result)
            traced: tuple[str | None, int | None] = (None, None)
            if trace is not None:
                traced = self._traces.write(result.trial.key, trace)
            # A trace whose row fails stays: after an error of the disk only the next opening
            # knows whether the row has reached it.
            self._insert("results", (trial, *columns, attempt, *spent, *traced))

    def finished(self) -> frozenset[str]:
        """Keys of the trials that have their row."""
        return frozenset(self._keys("SELECT key FROM results JOIN trials ON number = trial"))

    def attempts(self) -> Mapping[str, int]:
        """Key -> number of attempts that failed, of the trials that have no row yet."""
        return Counter(
            self._keys(
                "SELECT key FROM failed_attempts JOIN trials ON number = trial "
                "WHERE trial NOT IN (SELECT trial FROM results)"
            )
        )

    def rows(self) -> Iterator[LedgerRow]:
        """The trials that have ended, in the order of the sweep, as of now."""
        # One row is in memory at a time, and nothing is open between them: whoever reads may take
        # long, and a row that is there stays as it is.
        found = self._select("SELECT trial FROM results ORDER BY trial")
        # Read later than the rows: a writer may be adding to both.
        known = {id_ for (id_,) in self._select("SELECT id FROM provenances NOT INDEXED")}
        for number in found:
            with self._decoding():
                (values,) = self._select(SELECT_ROW, number)
                row = decode_row(values, self._traces, version=self._version, provenances=known)
            yield row

    def read_trace(self, row: LedgerRow) -> dict[str, Any]:
        """What the planner says of its decisions in a trial; empty if it left no trace.

        Raises:
            LedgerError: the trace's file is missing or not the one that the trial left.
        """
        return summary_of(self.read_events(row))

    def read_events(self, row: LedgerRow) -> list[Event]:
        """All lines of a trial's trace; none if it left no trace.

        Raises:
            LedgerError: the trace's file is missing or not the one that the trial left.
        """
        if row.trace_sha256 is None:
            return []
        try:
            return self._traces.read(row.key, row.trace_sha256)
        except TraceError as error:
            raise LedgerError(str(error)) from error

    @property
    def sweep(self) -> Mapping[str, Any]:
        """The resolved sweep that the ledger was created with, its trials in the words of today."""
        rows = self._select("SELECT content FROM sweep LIMIT 2")
        with self._decoding():
            if len(rows) != 1:
                raise ValueError(f"it tells of {'several' if rows else 'no'} sweeps")
            content = check_sweep(read_object(rows[0][0], "the sweep", SWEEP))
        return content | {"trials": [trial.to_json() for trial in self.trials]}

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Those of the sweep, in its order."""
        return tuple(
            self._each(
                "SELECT key, content FROM trials ORDER BY number",
                lambda key, content: decode_trial(content, key=key, version=self._version),
            )
        )

    @property
    def provenances(self) -> Mapping[str, Mapping[str, Any]]:
        """What results were run with, by id: one for each commit, machine and model used.

        `prompts`, where anything was asked, has the fixed texts of the prompts as they were put to
        the models: planner -> role -> SHA-256 -> text.
        """
        prompts = self._select("SELECT * FROM prompts") if self._version > 1 else []
        # Read later than what refers to it: a writer may be adding to both.
        statement = "SELECT id, content FROM provenances ORDER BY rowid"
        with self._turn, self._explaining(), self._decoding():
            return decode_provenances(self._connection.execute(statement), prompts)

    def content_digest(self) -> str:
        """SHA-256 of everything that two runs of a sweep with the same answers have in common.

        That is the sweep, and of each trial its status, success, plan, metrics but the
        `unrepeatable` ones, error, attempts with their errors, calls and tokens by role, and the
        trace as far as it repeats itself (see `repeatable_digest`). Left out are times, what was
        replayed or found in the prefix cache, and the provenance.

        Raises:
            LedgerError: the ledger or a trace cannot be read.
        """
        failed: dict[str, list[str | None]] = {}
        tries = self._each(
            "SELECT key, error FROM failed_attempts JOIN trials ON number = trial "
            "ORDER BY trial, attempt",
            lambda key, error: (
                check_sha256(key, "the key of a trial"),
                check_text_or_none(error, "the error of an attempt"),
            ),
        )
        for key, error in tries:
            failed.setdefault(key, []).append(error)
        digest = hashlib.sha256(canonical(self.sweep).encode())
        for row in self.rows():
            tried = failed.pop(row.key, [])
            events = self.read_events(row)
            with self._decoding():
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
            ledger.refuse_old()
            if sweep is not None:
                ledger._refuse_other(sweep)
            ledger._clean()
            with ledger._explaining():
                connection.execute(
                    "INSERT OR IGNORE INTO provenances VALUES (?, ?)", (id_, content)
                )
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
        with self._explaining():
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

    def _keep_prompts(self, result: TrialResult) -> None:
        for role, texts in result.prompts.items():
            for text in texts:
                content = text.encode("utf-8", "backslashreplace")
                sha256 = hashlib.sha256(content).hexdigest()
                told = (result.trial.planner, role, sha256)
                if told not in self._prompts:
                    self._connection.execute(
                        "INSERT OR IGNORE INTO prompts VALUES (?, ?, ?, ?, ?)",
                        (self._provenance, *told, content.decode()),
                    )
                    self._prompts.add(told)

    def _insert(self, table: str, row: tuple[object, ...]) -> None:
        # Outside a transaction a statement is one by itself; it has ended when this returns.
        places = ", ".join("?" * len(row))
        self._connection.execute(f"INSERT INTO {table} VALUES ({places})", row)

    def _keys(self, statement: str) -> list[str]:
        """Keys of trials, the only column that a statement selects."""
        return self._each(statement, lambda key: check_sha256(key, "the key of a trial"))

    def _each(self, statement: str, read: Callable[..., _Read]) -> list[_Read]:
        """What becomes of the rows that a statement finds, of which one is in memory at a time."""
        with self._turn, self._explaining(), self._decoding():
            return [read(*row) for row in self._connection.execute(statement)]

    def _select(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        with self._turn, self._explaining():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise ledger_file.explained(self._file, error) from error

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        try:
            yield
        except RecursionError as error:
            raise ledger_file.damaged(self._file, "it is nested too deeply") from error
        except ValueError as error:
            raise ledger_file.damaged(self._file, str(error)) from error
