"""`llm-planning sweep run --dry-run`: lists the trials and forecasts their cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from llm_base.terminal import SafeConsole, complain, harmless, literal, say_json
from llm_planning.commands.options import read_pairs
from llm_planning.endings import UsageError
from llm_planning.experiments.display import Display, clock
from llm_planning.experiments.forecast import by_kind, choose_samples, forecast
from llm_planning.experiments.instead import Instead
from llm_planning.experiments.runs import trial_record, varying
from llm_planning.model_configs import configuration, model_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.experiments.executors import Executor
    from llm_planning.experiments.forecast import Forecast
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


def run_samples(trials: Sequence[Trial], count: int, executor: Executor) -> Forecast:
    """Runs a few trials of a sweep, shows their progress, and forecasts the cost of all.

    Raises:
        ServingError: a model cannot be served, or its engine stopped.
    """
    with Display(SafeConsole(stderr=True), name="samples") as display:
        return forecast(
            trials, samples=choose_samples(trials, count), executor=executor, watch=display
        )


def list_trials(trials: Sequence[Trial], *, expected: Forecast | None, as_json: bool) -> None:
    """Prints the trials of a sweep, in one line those that differ only in task and seed.

    Args:
        expected: the forecast of their cost; None if there is none.
    """
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
            "estimate": None if expected is None else _forecast_json(expected),
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
    for line in [] if expected is None else _forecast_lines(expected):
        console.print(literal(line), soft_wrap=True)


def _forecast_lines(expected: Forecast) -> list[str]:
    lines = [
        f"{count} of {expected.samples} samples failed: {error}"
        for error, count in expected.failed.items()
    ]
    cost = expected.cost
    if cost is None:
        return [*lines, "no estimate: no sample ran to its end"]
    lines.append(
        f"about {cost.calls:.0f} calls, {cost.prompt_tokens:.0f} tokens read and "
        f"{cost.completion_tokens:.0f} written, judged by {expected.samples} trials"
    )
    if expected.seconds is None:
        lines.append("no estimate of the time: the response cache had every answer already")
    else:
        lines.append(
            f"at most about {clock(expected.seconds)}: at the speed of {expected.samples} trials "
            "at once, which a fuller batch exceeds; answers in the response cache cost nothing"
        )
    return lines


def _forecast_json(expected: Forecast) -> dict[str, Any]:
    cost = expected.cost
    return {
        "samples": expected.samples,
        "failed": dict(expected.failed),
        "calls": None if cost is None else round(cost.calls),
        "prompt_tokens": None if cost is None else round(cost.prompt_tokens),
        "completion_tokens": None if cost is None else round(cost.completion_tokens),
        "seconds": None if expected.seconds is None else round(expected.seconds, 1),
    }
