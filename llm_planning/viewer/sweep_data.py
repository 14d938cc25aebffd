"""What the page of a sweep shows, as JSON values.

Every number with an interval is computed here, by the statistics of reports; the page only draws.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from llm_planning.experiments.runs import (
    TRIAL_FIELDS,
    distinct,
    field_values,
    runs_of,
    swept,
)
from llm_planning.experiments.statistics import CONFIDENCE
from llm_planning.experiments.summary import leads, summary
from llm_planning.viewer.sweep_matrix import absences

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from llm_planning.experiments.runs import ListedTrial, Runs
    from llm_planning.experiments.summary import Lead

MOST_ROWS = 50_000
"""Trials that the page lists; its measures are over all trials."""

_MOST_GROUPINGS = 12
"""Swept fields that the page can group by, beside the planner alone and all of them together."""

_MOST_ERRORS = 100
"""Distinct errors that the page lists; the rest is counted."""

_LONGEST_ERROR = 2_000
"""Characters of an error that the page shows; the ledger has all."""

_NUMBERS = ("options", "calls", "tokens", "seconds", "attempts")


def spread(trials: Iterable[ListedTrial], most: int) -> list[ListedTrial]:
    """Some trials that left a trace: the first of every planner and task, then the second, ...

    Args:
        trials: in the order of the sweep.
    """
    cells: Counter[tuple[object, ...]] = Counter()
    placed = []
    for trial in trials:
        if trial.trace_sha256 is not None:
            cell = tuple(trial.record[field] for field in ("planner", "domain", "task"))
            placed.append((cells[cell], trial))
            cells[cell] += 1
    placed.sort(key=lambda ranked: ranked[0])
    return [trial for _, trial in placed[:most]]


def sweep_data(
    sweep: Mapping[str, Any],
    provenances: Mapping[str, Mapping[str, Any]],
    trials: Sequence[ListedTrial],
) -> dict[str, Any]:
    """Everything that the page of a sweep shows, but for the links to pages of trials."""
    runs = runs_of(trial.record for trial in trials)
    fields = swept(runs.all)
    every = [("planner", *fields)] if len(fields) > 1 else []
    single = [("planner", field) for field in fields[:_MOST_GROUPINGS]]
    domains = field_values("domain", runs)
    groupings = [
        _grouping(runs, by, fields=fields, several=len(domains) > 1)
        for by in (("planner",), *single, *every)
    ]
    models = field_values("model", runs)
    facets = [field for field in TRIAL_FIELDS[1:] if field != "model" or len(models) > 1]
    pairs = ((record["planner"], record["domain"]) for record in runs.all)
    errors = Counter(trial.error for trial in trials if trial.error)
    success = Counter(record["success"] for record in runs.done)
    return {
        "name": sweep["name"],
        "confidence": CONFIDENCE,
        "counts": {
            "total": len(trials),
            "done": len(runs.done),
            "failed": len(runs.failed),
            "pending": len(runs.pending),
            "won": success[True],
            "lost": success[False],
        },
        "spent": {
            name: sum(record[name] for record in (*runs.done, *runs.failed))
            for name in ("calls", "tokens", "seconds")
        },
        "quantity": _quantity(groupings),
        "groupings": groupings,
        "ungrouped": len(fields[_MOST_GROUPINGS:]),
        "domains": list(domains),
        "absent": {
            planner: {domain: asdict(absence) for domain, absence in reasons.items()}
            for planner, reasons in absences(sweep, pairs).items()
        },
        "trials": _columns(trials[:MOST_ROWS], ("planner", *facets, *fields)),
        "unlisted": len(trials[MOST_ROWS:]),
        "errors": [[_cut(error), count] for error, count in errors.most_common(_MOST_ERRORS)],
        "other_errors": max(0, len(errors) - _MOST_ERRORS),
        # The prompts are in the traces, too.
        "provenance": [
            {key: _plain(value) for key, value in provenance.items() if key != "prompts"}
            for provenance in provenances.values()
        ],
    }


def _grouping(
    runs: Runs, by: tuple[str, ...], *, fields: Sequence[str], several: bool
) -> dict[str, Any]:
    return {
        "by": [label(field) for field in by],
        "pooled": [
            [label(field), len(field_values(field, runs))] for field in fields if field not in by
        ],
        "groups": _groups(runs, by),
        "tasks": _groups(runs, (*by, "domain", "task")),
        "domains": _groups(runs, (*by, "domain")) if several else [],
        "leads": [_lead(lead) for lead in leads(runs, by=by)],
    }


def label(field: str) -> str:
    """A field's name for readers."""
    return field.removeprefix("settings.")


def _groups(runs: Runs, by: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "values": [_plain(value) for value in group.values],
            "done": group.done,
            "failed": group.failed,
            "pending": group.pending,
            **{
                name: {**asdict(measured.estimate), "without": measured.without}
                for name, measured in group.measured.items()
            },
        }
        for group in summary(runs, by=by).groups
    ]


def _lead(lead: Lead) -> dict[str, Any]:
    difference = lead.difference
    return {
        "domain": lead.domain,
        "first": [_plain(value) for value in lead.first],
        "second": None if lead.second is None else [_plain(value) for value in lead.second],
        "difference": None
        if difference is None
        else {**asdict(difference.estimate), "alone": difference.alone},
        "reason": lead.reason,
        "few": [[_plain(value) for value in values] for values in lead.few],
    }


def _quantity(groupings: Sequence[Mapping[str, Any]]) -> str:
    """What is compared: success, or the share of right answers if nothing was judged otherwise."""
    groups = groupings[0]["groups"]
    judged = any(group["success"]["n"] for group in groups)
    return "right" if not judged and any("right" in group for group in groups) else "success"


def link(data: dict[str, Any], paged: Collection[str]) -> None:
    """Notes in the data of a page which trials have a page of their own.

    Args:
        data: of `sweep_data`.
        paged: keys of these trials.
    """
    trials = data["trials"]
    trials["paged"] = [int(key in paged) for key in trials["keys"]]


def _columns(trials: Sequence[ListedTrial], fields: Sequence[str]) -> dict[str, Any]:
    """Trials by columns: texts as places in a list of the distinct ones, numbers as they are."""
    records = [trial.record for trial in trials]
    return {
        "fields": [
            {"name": label(field), **_coded([record.get(field) for record in records])}
            for field in dict.fromkeys(fields)
        ],
        "outcome": _coded([_outcome(trial) for trial in trials]),
        "numbers": {name: [record.get(name) for record in records] for name in _NUMBERS},
        "errors": _coded([trial.error and _cut(trial.error) for trial in trials]),
        "keys": [trial.key for trial in trials],
        "traced": [int(trial.trace_sha256 is not None) for trial in trials],
    }


def _coded(values: Sequence[Any]) -> dict[str, Any]:
    places: dict[Any, int] = {}
    unique: list[object] = []
    at = []
    for value in values:
        key = distinct(value)
        if key not in places:
            places[key] = len(unique)
            unique.append(_plain(value))
        at.append(places[key])
    return {"values": unique, "at": at}


def _plain(value: object) -> object:
    """A value that JSON has a form for; a ledger of others may have settings such as NaN."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return str(value)
    return value


def _cut(text: str) -> str:
    left_out = len(text) - _LONGEST_ERROR
    if left_out <= 0:
        return text
    return f"{text[:_LONGEST_ERROR]}… ({left_out} more characters)"


def _outcome(trial: ListedTrial) -> str:
    status = trial.record.get("status")
    if status != "done":
        return "failed" if status == "failed" else "not run"
    return {True: "success", False: "no success", None: "not judged"}[trial.record["success"]]
