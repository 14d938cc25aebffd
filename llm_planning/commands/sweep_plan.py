"""What `llm-planning sweep run` will do: what it replaces, its trials, and their cost."""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rich.table import Table

from llm_base.terminal import SafeConsole, complain, harmless, literal, say_json
from llm_planning.commands.options import read_pairs
from llm_planning.endings import UsageError
from llm_planning.experiments.display import clock
from llm_planning.experiments.forecast import by_kind
from llm_planning.experiments.instead import Instead
from llm_planning.experiments.runs import trial_record, varying
from llm_planning.model_configs import configuration, model_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from llm_planning.experiments.forecast import Amount, Forecast
    from llm_planning.experiments.grid import Sweep
    from llm_planning.experiments.trial import Trial


def instead_of(model: str | None, role_models: Sequence[str], settings: Sequence[str]) -> Instead:
    """Reads what the command line puts in the place of what a sweep's file says.

    Raises:
        UsageError: a pair is malformed, or a role's model is empty.
        ServingError: there is no such model.
    """
    roles = read_pairs(role_models, "--role-model")
    if unnamed := [role for role, named in roles.items() if not named]:
        raise UsageError(f"--role-model {unnamed[0]}=: name a model after the sign")
    instead = Instead(
        model=model_name(model or ""),
        role_models={role: model_name(str(named)) for role, named in roles.items()},
        settings={key: str(text) for key, text in read_pairs(settings, "--set").items()},
    )
    for named in instead.models:
        configuration(named)
    return instead


def print_changes(sweep: Sweep) -> None:
    """Says on the terminal what models and settings of the command line have replaced."""
    if not sweep.changes:
        return
    complain(f"{sweep.name} differs from its file:")
    for change in sweep.changes:
        now = f"{change.after} instead of {change.before}"
        if change.after is None:
            now = f"{change.before} is left out, as nothing reads it now"
        complain(f"{change.what}: {now} ({', '.join(change.planners)})")
    if sweep.unasked:
        complain(f"as in the file, since no model is asked: {', '.join(sweep.unasked)}")


def list_trials(trials: Sequence[Trial], *, as_json: bool) -> None:
    """Prints the trials of a sweep, in one line those that differ only in task and seed."""
    fields = {name: name.removeprefix("settings.") for name in varying(map(trial_record, trials))}
    kinds = [
        {short: trial_record(same[0]).get(name) for name, short in fields.items()}
        | {"tasks": len({trial.task for trial in same}), "trials": len(same)}
        for same in by_kind(trials).values()
    ]
    if as_json:
        listing = {
            "total": len(trials),
            "kinds": kinds,
            "trials": [{"key": trial.key, **trial.to_json()} for trial in trials],
        }
        say_json(listing)
        return
    # A column for each setting would be too narrow to read: a sweep of many planners has dozens.
    settings = [short for name, short in fields.items() if "." in name]
    others = [short for name, short in fields.items() if "." not in name]
    table = Table(*map(harmless, others), *(["settings"] if settings else []), "tasks", "trials")
    for kind in kinds:
        cells = ["-" if kind[name] is None else str(kind[name]) for name in others]
        if settings:
            given = (f"{name}={kind[name]}" for name in settings if kind[name] is not None)
            cells.append(", ".join(given))
        table.add_row(*map(literal, cells), str(kind["tasks"]), str(kind["trials"]))
    console = SafeConsole()
    console.print(table)
    console.print(f"{len(trials)} trials")


def forecast_lines(expected: Forecast) -> Iterator[str]:
    """A forecast for people: first what is left, and then each arm."""
    for error, count in expected.failed.items():
        yield f"{count} trials failed: {error}"
    if not expected.done:
        yield "No forecast: no trial has ended well."
        return
    if not expected.left:
        yield f"All {expected.total} trials have ended, so nothing is left to forecast."
        return
    yield (
        f"{expected.left} of {expected.total} trials are left. By the {expected.done} that are "
        "done they will take, with 95% intervals from how much trials of a row differ:"
    )
    cached = expected.cached_tokens.value / (expected.prompt_tokens.value or 1)
    yield f"  questions       {_amount(expected.questions)}"
    yield f"  tokens read     {_amount(expected.prompt_tokens)}, {cached:.0%} from the prefix cache"
    yield f"  tokens written  {_amount(expected.completion_tokens)}"
    if expected.seconds is None:
        yield "  time            not known: the response cache had every answer already"
    else:
        yield (
            f"  time here       {_amount(expected.seconds, clock)}, if {expected.at_once:.1f} run "
            "at once, as so far; a fuller batch is faster"
        )
    if expected.questions.low is None:
        yield "No row has two results, so that how far this is off is not known."
    if expected.borrowed:
        yield (
            f"{expected.borrowed} rows have no result yet: those of like rows stand for theirs, "
            "and how unlike they are is in no interval."
        )
    if expected.replayed:
        yield (
            f"The response cache had {expected.replayed:.0%} of the answers so far, which took no "
            "time."
        )


def forecast_table(expected: Forecast) -> Table:
    """What the trials of each arm took so far: mean, least and most."""
    table = Table("row", "trials", "done", "questions", "seconds")
    for arm in expected.arms:
        row = ", ".join(
            str(value) if name in {"planner", "domain", "model"} else f"{name}={value}"
            for name, value in arm.fields.items()
        )
        counts = str(arm.trials), str(len(arm.questions))
        table.add_row(literal(row), *counts, _spread(arm.questions), _spread(arm.seconds))
    return table


def forecast_json(expected: Forecast) -> dict[str, Any]:
    """A forecast as JSON values; seconds are those of the clock."""
    values = asdict(expected)
    return {**values, "failed": dict(expected.failed), "left": expected.left}


def _amount(amount: Amount, write: Callable[[float], str] = "{:,.0f}".format) -> str:
    if amount.low is None or amount.high is None:
        return f"about {write(amount.value)}"
    return f"about {write(amount.value)} [{write(amount.low)}, {write(amount.high)}]"


def _spread(values: Sequence[float]) -> str:
    """The mean of some values with the least and the largest."""
    if not values:
        return "-"
    least, most = min(values), max(values)
    ends = f" ({least:,.3g} to {most:,.3g})" if most > least else ""
    return f"{fmean(values):,.3g}{ends}"
