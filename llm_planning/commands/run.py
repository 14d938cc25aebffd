"""`llm-planning run`: one planner on one task."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llm_planning.environments.textgame.game import TextGameError
from llm_planning.files import write_json
from llm_planning.metering import metered, usage_by_role
from llm_planning.model_configs import DEFAULT_MODEL
from llm_planning.names import remedy
from llm_planning.planners.registry import PLANNERS, PlannerSpec, UnknownPlannerError, find_planner
from llm_planning.planners.settings import SettingsError
from llm_planning.planners.xenon.saved import SavedKnowledgeError
from llm_planning.roles import Engines
from llm_planning.session import open_engine, open_uncached_engine
from llm_planning.worker_processes import WorkerLostError
from llm_serving.errors import ServingError
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping

    from llm_planning.planners.outcome import Outcome
    from llm_serving.engine import Engine

PlannerArgument = Annotated[
    str | None, typer.Argument(metavar="PLANNER", help="A name from `run --list`.")
]
TaskOption = Annotated[str | None, typer.Option(help="A task from `run PLANNER --list`.")]
ModelOption = Annotated[
    str, typer.Option(help="A bundled model, a configuration, a folder, a hub id or a YAML file.")
]
WorldOption = Annotated[
    str | None, typer.Option(help="Another model for the world model's roles, if any.")
]
SeedOption = Annotated[int, typer.Option(help="Seed of every draw.")]
SetOption = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="A setting; may be repeated.")
]
ListOption = Annotated[bool, typer.Option("--list", help="List planners, or one's tasks.")]
CacheOption = Annotated[
    bool, typer.Option("--cache/--no-cache", help="Reuse answers to questions asked before.")
]
TraceOption = Annotated[
    Path | None, typer.Option(help="Write everything that was decided to this JSON file.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]


class _UsageError(ValueError):
    """The command line asks for something that there is not."""


def run(
    planner: PlannerArgument = None,
    *,
    task: TaskOption = None,
    model: ModelOption = DEFAULT_MODEL,
    world_model: WorldOption = None,
    seed: SeedOption = 0,
    settings: SetOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    list_: ListOption = False,
    cache: CacheOption = True,
    trace: TraceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plans one task and prints the plan, how it was found and what it cost.

    Exits with 0 when the planner ran to its end, whether or not it believes that its plan
    reaches the goal; with 1 when the model, the engine, a game or a saved file failed; with 2 for a
    name or a setting that does not exist or is not possible; with 130 when interrupted.
    """
    try:
        if list_:
            _list(planner, as_json=as_json)
            return
        spec = find_planner(planner) if planner else _missing("planner", PLANNERS)
        name = _task_of(spec, task)
        chosen = spec.settings.read(_pairs(settings))
        if trace is not None and not trace.absolute().parent.is_dir():
            raise _UsageError(f"--trace {trace}: the folder {trace.absolute().parent} is missing")
        if trace is not None and trace.is_dir():
            raise _UsageError(f"--trace {trace}: that is a folder; name a file in it")
    except (UnknownPlannerError, SettingsError, _UsageError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    try:
        with _open_engines(model, world_model, cached=cache) as engines:
            meters = metered(engines)
            begun = time.perf_counter()
            outcome = asyncio.run(
                _watched(spec.run(name, engines=meters, settings=chosen, seed=seed), meters)
            )
            seconds = time.perf_counter() - begun
    except SettingsError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    except (ServingError, SavedKnowledgeError, TextGameError, WorkerLostError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(130) from interrupt
    usage = usage_by_role(meters)
    if trace is not None:
        write_json(trace, {"planner": spec.name, "task": name, "seed": seed, **outcome.trace})
    if as_json:
        typer.echo(json.dumps(_report(outcome, usage, seconds)))
    else:
        _show(outcome, usage, seconds)


def _list(planner: str | None, *, as_json: bool) -> None:
    """Lists the planners, or the tasks and settings of one."""
    if planner is None:
        rows = [
            {"name": one.name, "environment": one.environment, "summary": one.summary}
            for one in PLANNERS.values()
        ]
        columns = ("name", "environment", "summary")
    else:
        spec = find_planner(planner)
        defaults = spec.settings.read({}).to_json()
        rows = [{"kind": "task", "name": task, "default": ""} for task in spec.tasks]
        rows += [
            {"kind": "setting", "name": key, "default": str(value)}
            for key, value in defaults.items()
        ]
        columns = ("kind", "name", "default")
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*(row[column] for column in columns))
    Console().print(table)


def _missing(what: str, known: Mapping[str, object]) -> PlannerSpec:
    raise _UsageError(f"name a {what}: {', '.join(sorted(known))}")


def _task_of(spec: PlannerSpec, task: str | None) -> str:
    if task is None:
        return spec.tasks[0]
    if task not in spec.tasks:
        raise _UsageError(f"unknown task {task!r} for {spec.name}; {remedy(task, spec.tasks)}")
    return task


def _pairs(settings: list[str]) -> dict[str, object]:
    pairs: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise _UsageError(f"--set {setting}: write it as key=value")
        if key in pairs:
            raise _UsageError(f"--set {key} is given twice: {pairs[key]!r} and {value!r}")
        pairs[key] = value
    return pairs


@contextlib.contextmanager
def _open_engines(model: str, world_model: str | None, *, cached: bool) -> Iterator[Engines]:
    """Loads the model, and a second one if the world model is to be another."""
    opener = open_engine if cached else open_uncached_engine
    with contextlib.ExitStack() as opened:

        def load(name: str) -> Engine:
            with Console(stderr=True).status(f"loading {name}"):
                return opened.enter_context(opener(name))

        options = load(model)
        world = options if world_model in {None, model} else load(str(world_model))
        yield Engines(options=options, world=world)


async def _watched(planning: Coroutine[Any, Any, Outcome], engines: Engines) -> Outcome:
    """Awaits a plan; on a terminal, shows what it has cost so far."""
    running = asyncio.create_task(planning)
    with Console(stderr=True).status("planning") as status:
        while not running.done():
            await asyncio.wait({running}, timeout=0.5)
            spent = _total(usage_by_role(engines))
            status.update(
                f"planning: {spent.calls} calls, {spent.completion_tokens} tokens written"
            )
    return await running


def _report(outcome: Outcome, usage: Mapping[str, Usage], seconds: float) -> dict[str, Any]:
    return {
        "success": outcome.success,
        "metrics": dict(outcome.metrics),
        "plan": list(outcome.plan),
        "seconds": round(seconds, 3),
        "usage": {
            "total": _counts(_total(usage)),
            "roles": {role: _counts(one) for role, one in usage.items()},
        },
    }


def _counts(usage: Usage) -> dict[str, int]:
    return {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
    }


def _total(usage: Mapping[str, Usage]) -> Usage:
    return sum(usage.values(), Usage())


def _show(outcome: Outcome, usage: Mapping[str, Usage], seconds: float) -> None:
    console = Console()
    console.print(Text(outcome.text), soft_wrap=True)
    console.print()
    console.print(Text("Plan", style="bold"))
    for number, option in enumerate(outcome.plan, start=1):
        console.print(Text(f"  {number}. {option}"), soft_wrap=True)
    if not outcome.plan:
        console.print("  (empty)")
    console.print()
    for key, value in {"success": outcome.success, **outcome.metrics}.items():
        console.print(Text(f"{key}: {value}"), soft_wrap=True)
    table = Table("role", "calls", "replayed", "prompt tokens", "cached", "written", "seconds")
    for column in table.columns[1:]:
        column.justify = "right"
    for role, one in [*usage.items(), ("total", _total(usage))]:
        table.add_row(
            role,
            str(one.calls),
            str(one.replayed),
            str(one.prompt_tokens),
            str(one.cached_tokens),
            str(one.completion_tokens),
            f"{one.seconds:.1f}",
        )
    console.print(table)
    console.print(f"planned in {seconds:.1f} s")


def quiet_pipes() -> None:
    """Without a terminal, no progress bar of any library writes to standard error."""
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
