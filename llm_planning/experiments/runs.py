"""The runs of a sweep as flat records, from which reports select and count.

The fields of a record:

    planner, domain, task, model, role_models.ROLE, seed, settings.KEY    of the trial
    status, success, options, seconds, attempts, metrics.KEY              of its result
    calls, prompt_tokens, cached_tokens, completion_tokens, replayed      summed over roles
    tokens                                                                read and written
    usage.ROLE.calls, usage.ROLE.tokens, ...                              of one role
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_planning.experiments.ledger import LedgerError, repeatable_digest
from llm_planning.names import remedy
from llm_planning.registry import defaults_of
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from llm_planning.experiments.ledger import Ledger
    from llm_planning.experiments.trial import Trial, TrialResult

RunRecord: TypeAlias = "Mapping[str, Any]"
Where: TypeAlias = "Mapping[str, tuple[Any, ...]]"
"""Field -> the values that a selected run may have."""

TRIAL_FIELDS = ("planner", "domain", "task", "model", "seed")
SETTINGS = "settings."
"""Begins the names of the fields that are settings."""
ROLE_MODELS = "role_models."
"""Begins the names of the fields that are models of roles."""
METRICS = "metrics."
"""Begins the names of the fields that a planner or a world measures itself."""
EQUAL = "equal"
"""Of a run that another seed has repeated; see `mark_equal_seeds`."""
_OF_TRIAL = (ROLE_MODELS, SETTINGS)
_SPENT = (
    "calls",
    "tokens",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "replayed",
)
RESULT_FIELDS = ("status", "success", "options", "seconds", "attempts", *_SPENT)
_FAMILIES = (*_OF_TRIAL, METRICS, "usage.")


class UnknownFieldError(ValueError):
    """No record has a field of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The trials of a sweep, or some of them.

    Attributes:
        done: records of the trials that ran to their end.
        failed: records of those that failed for good.
        pending: records of trials without a result, which hold only the trial's fields.
    """

    done: tuple[RunRecord, ...] = ()
    failed: tuple[RunRecord, ...] = ()
    pending: tuple[RunRecord, ...] = ()

    @property
    def all(self) -> tuple[RunRecord, ...]:
        """Every record."""
        return self.done + self.failed + self.pending

    def select(self, where: Where) -> Runs:
        """The runs that fit every field.

        Fields of a result, such as success and metrics, select only among the done runs.
        """
        of_trial = {field: values for field, values in where.items() if is_trial_field(field)}
        return Runs(
            done=_fitting(self.done, where),
            failed=_fitting(self.failed, of_trial),
            pending=_fitting(self.pending, of_trial),
        )

    def check_field(self, field: str) -> None:
        """Makes sure that these runs can have a field.

        Raises:
            UnknownFieldError: no run has it; names the nearest.
        """
        check_field_name(field)
        records = self.all if is_trial_field(field) else self.done
        # A later run may be the first with a metric.
        unsure = not is_trial_field(field) and (self.failed or self.pending)
        if not field.startswith(_FAMILIES) or unsure or not records:
            return
        known = {name for record in records for name in record}
        if field not in known:
            family = field.partition(".")[0]
            listed = [name for name in known if name.startswith(f"{family}.")]
            raise UnknownFieldError(f"no run has {field!r}; {remedy(field, listed)}")


def field_values(field: str, runs: Runs) -> tuple[Any, ...]:
    """The distinct values of a field in runs: numbers by size, then others by name."""
    present = [record[field] for record in runs.all if record.get(field) is not None]
    values = {distinct(value): value for value in reversed(present)}.values()
    numbers = [value for value in values if isinstance(value, int | float)]
    others = [value for value in values if not isinstance(value, int | float)]
    return (*sorted(numbers), *sorted(others, key=str))


def distinct(value: object) -> Hashable:
    """A hashable key for the value of a field; a setting may be a list."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and not math.isnan(value):
        return value
    return (json.dumps(value, sort_keys=True),)


def is_trial_field(field: str) -> bool:
    """Whether a field belongs to the trial and so is known before it runs."""
    return field in TRIAL_FIELDS or field.startswith(_OF_TRIAL)


def trial_without_seed(record: RunRecord) -> str:
    """What the trials of several seeds have in common, as JSON."""
    fields = {key: value for key, value in record.items() if is_trial_field(key) and key != "seed"}
    return json.dumps(fields, sort_keys=True)


def varying(records: Iterable[RunRecord]) -> tuple[str, ...]:
    """The planner and the fields of trials that vary, without task and seed.

    A setting that only some planners have does not vary by that, nor by the defaults of different
    planners (`at_defaults`); a role's own model does. The hash of what another setting names varies
    with that setting, and is left out.
    """
    records = list(records)
    values: dict[str, set[str]] = {}
    for record in records:
        for field, value in record.items():
            if field in {"task", "seed"} or field.endswith("_sha256"):
                continue
            if is_trial_field(field) and value is not None:
                values.setdefault(field, set()).add(json.dumps(value))
    return tuple(
        field
        for field, some in values.items()
        if field == "planner"
        or (len(some) > 1 and not at_defaults(field, records))
        or (field.startswith(ROLE_MODELS) and any(field not in record for record in records))
    )


def at_defaults(field: str, records: Iterable[RunRecord]) -> bool:
    """Whether a field is a setting that every record with it leaves at its own planner's default.

    The defaults are those of today, and only of this project's planners.
    """
    key = field.removeprefix(SETTINGS)
    return field != key and all(
        key in (known := defaults_of(record["planner"])) and record[field] == known[key]
        for record in records
        if field in record
    )


def swept(records: Iterable[RunRecord]) -> tuple[str, ...]:
    """The fields that `varying` names and that vary while planner, domain and task are the same.

    What only differs from planner to planner, or from domain to domain, is not swept.
    """
    records = list(records)
    named = [field for field in varying(records) if field not in {"planner", "domain"}]
    values: dict[tuple[Hashable, ...], set[Hashable]] = {}
    varied = set()
    for record in records:
        cell = tuple(record.get(name) for name in ("planner", "domain", "task"))
        for field in named:
            if field not in varied:
                some = values.setdefault((field, *cell), set())
                some.add(distinct(record.get(field)))
                if len(some) > 1:
                    varied.add(field)
    return tuple(field for field in named if field in varied)


def check_field_name(field: str) -> None:
    """Makes sure that records can have a field of this name.

    Raises:
        UnknownFieldError: no record ever has it; names the nearest.
    """
    known = (*TRIAL_FIELDS, *RESULT_FIELDS)
    if field not in known and not field.startswith(_FAMILIES):
        families = [f"{family}KEY" for family in _FAMILIES]
        raise UnknownFieldError(f"unknown field {field!r}; {remedy(field, [*known, *families])}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTrial:
    """A trial of a sweep.

    Attributes:
        record: its fields, and those of its result.
        error: of a trial that failed for good.
        trace_sha256: of the trace that it left; None if it left none.
    """

    key: str
    record: RunRecord
    error: str | None = None
    trace_sha256: str | None = None


def read_trials(ledger: Ledger) -> list[ListedTrial]:
    """Every trial of a ledger's sweep, in the sweep's order; those with a result first."""
    finished = [
        ListedTrial(
            key=row.key,
            record=result_record(row.result, attempts=row.attempts),
            error=row.result.error,
            trace_sha256=row.trace_sha256,
        )
        for row in ledger.rows()
    ]
    keys = {trial.key for trial in finished}
    return finished + [
        ListedTrial(key=trial.key, record=trial_record(trial))
        for trial in ledger.trials
        if trial.key not in keys
    ]


def read_runs(ledger: Ledger) -> Runs:
    """Every trial of a ledger's sweep, in the sweep's order; those without a row are pending."""
    return runs_of(trial.record for trial in read_trials(ledger))


def mark_equal_seeds(trials: Sequence[ListedTrial], ledger: Ledger) -> Runs:
    """The runs of trials; those of a trial that did the same with every seed have `EQUAL` in them.

    The same are result, costs and every recorded event: seeds may change nothing, so such runs tell
    no more than one. Runs whose traces are not there are not compared.
    """
    equal = keys_of_equal_seeds(trials, ledger)
    return runs_of(
        {**trial.record, EQUAL: True} if trial.key in equal else trial.record for trial in trials
    )


def keys_of_equal_seeds(trials: Sequence[ListedTrial], ledger: Ledger) -> frozenset[str]:
    """The keys of trials whose seeds all did the same; see `mark_equal_seeds`."""
    cells: dict[str, list[ListedTrial]] = {}
    for trial in trials:
        if trial.record.get("status") == "done" and trial.trace_sha256:
            cells.setdefault(trial_without_seed(trial.record), []).append(trial)
    return frozenset(
        trial.key for cell in cells.values() if _are_equal(cell, ledger) for trial in cell
    )


def one_of_equal_seeds(runs: Runs, fields: Sequence[str]) -> Runs:
    """The first run of each trial, if all seeds of each did the same; otherwise all runs.

    Args:
        runs: those of equal seeds have `EQUAL` in them.
        fields: that are measured. Where seeds differ in one, as in times, all runs are kept.
    """
    first: dict[str, RunRecord] = {}
    for record in runs.done:
        one = first.setdefault(trial_without_seed(record), record)
        if not record.get(EQUAL) or any(record.get(field) != one.get(field) for field in fields):
            return runs
    return replace(runs, done=tuple(first.values()))


def _are_equal(cell: Sequence[ListedTrial], ledger: Ledger) -> bool:
    """Whether several seeds of a trial did the same; what is quick to compare comes first."""
    fields = ("success", "options", "calls", "prompt_tokens", "completion_tokens")
    first = cell[0]
    if len(cell) < 2 or any(
        trial.record.get(field) != first.record.get(field) for trial in cell for field in fields
    ):
        return False
    try:
        did = _did(first, ledger)
        return all(_did(trial, ledger) == did for trial in cell[1:])
    except (LedgerError, RecursionError):  # a trace is missing, or not to be read
        return False


def _did(trial: ListedTrial, ledger: Ledger) -> str:
    """A digest of what a run did, without its own account of it, which may name the seed."""
    events = ledger.trace(trial.key, trial.trace_sha256 or "")
    told = {"header", "summary"}
    return repeatable_digest(event for event in events if event["type"] not in told)


def runs_of(records: Iterable[RunRecord]) -> Runs:
    """Groups records by the status of their trials; those without a status are pending."""
    by_status: dict[object, list[RunRecord]] = {}
    for record in records:
        by_status.setdefault(record.get("status"), []).append(record)
    done, failed, pending = (
        tuple(by_status.get(status, ())) for status in ("done", "failed", None)
    )
    return Runs(done=done, failed=failed, pending=pending)


def trial_record(trial: Trial) -> dict[str, Any]:
    """The fields of a trial."""
    named = {field: getattr(trial, field) for field in TRIAL_FIELDS}
    roles = {f"{ROLE_MODELS}{role}": name for role, name in trial.role_models.items()}
    return named | roles | {f"settings.{key}": value for key, value in trial.settings.items()}


def result_record(result: TrialResult, *, attempts: int) -> dict[str, Any]:
    """The fields of a trial and of its result."""
    total = sum(result.usage.values(), start=Usage())
    return {
        **trial_record(result.trial),
        "status": result.status,
        "success": result.success,
        "options": len(result.plan),
        "seconds": result.seconds,
        "attempts": attempts,
        **_spent(total),
        **{f"metrics.{key}": value for key, value in result.metrics.items()},
        **{
            f"usage.{role}.{field}": value
            for role, usage in result.usage.items()
            for field, value in _spent(usage).items()
        },
    }


def _spent(usage: Usage) -> dict[str, int]:
    return {
        "calls": usage.calls,
        "tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
        "replayed": usage.replayed,
    }


def _fitting(records: tuple[RunRecord, ...], where: Where) -> tuple[RunRecord, ...]:
    # One field after another: the first leaves few records for the next.
    for field, values in where.items():
        if len(values) == 1:
            (value,) = values
            records = tuple(record for record in records if _same(record.get(field), value))
        else:
            records = tuple(
                record
                for record in records
                if any(_same(record.get(field), value) for value in values)
            )
    return records


def _same(value: object, other: object) -> bool:
    # In Python True equals 1, but a seed of 1 is not a success.
    return value == other and isinstance(value, bool) == isinstance(other, bool)
