"""`llm-planning run`: one planner on one task."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llm_kernels.files import TargetError, check_target
from llm_planning.domain import DomainError
from llm_planning.environments.textgame.game import TextGameError
from llm_planning.model_configs import DEFAULT_MODEL
from llm_planning.names import remedy
from llm_planning.planners.xenon.saved import SavedKnowledgeError
from llm_planning.registry import (
    DOMAIN_GROUP,
    PLANNER_GROUP,
    UnknownDomainError,
    UnknownPlannerError,
    announced,
    find_domain,
    find_planner,
)
from llm_planning.roles import Engines, metered, usage_by_role
from llm_planning.roles.oracles import tell
from llm_planning.running import (
    REFUSALS,
    Prepared,
    find_where,
    fitting_domains,
    models_of_roles,
    prepare,
    tasks_of,
)
from llm_planning.session import open_engine, open_uncached_engine
from llm_planning.settings import SettingsError
from llm_planning.specs import DomainSpec, PlannerSpec, choose, known_keys
from llm_planning.trace import recording
from llm_planning.trace_file import TraceError, write_trace
from llm_planning.worker_processes import WorkerLostError
from llm_serving.errors import ServingError
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping

    from llm_planning.outcome import Outcome
    from llm_serving.engine import Engine

SpecT = TypeVar("SpecT")

_FILLED_IN = frozenset({"roles_sha256"})
"""Settings that nobody sets: they belong to a trial's key."""

PlannerArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="PLANNER", help="A name from `run --list`, or FILE.py:NAME of your own."
    ),
]
DomainOption = Annotated[
    str | None, typer.Option(help="Where to plan: a name, or FILE.py:CLASS of your own.")
]
TaskOption = Annotated[str | None, typer.Option(help="A task from `run PLANNER --list`.")]
ModelOption = Annotated[
    str, typer.Option(help="A bundled model, a configuration, a folder, a hub id or a YAML file.")
]
RoleModelOption = Annotated[
    list[str],
    typer.Option(metavar="ROLE=MODEL", help="Another model for one role; may be repeated."),
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
    Path | None, typer.Option(help="Write everything that was decided to this file.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]


class _UsageError(ValueError):
    """The command line asks for something that there is not."""


def run(
    planner: PlannerArgument = None,
    *,
    domain: DomainOption = None,
    task: TaskOption = None,
    model: ModelOption = DEFAULT_MODEL,
    role_model: RoleModelOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    seed: SeedOption = 0,
    settings: SetOption = [],  # noqa: B006 - likewise
    list_: ListOption = False,
    cache: CacheOption = True,
    trace: TraceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plans one task and prints the plan, how it was found and what it cost.

    Exits with 0 when the planner ran to its end, whether or not its plan reaches the goal; with 1
    when the model, the engine, a game or a saved file failed; with 2 for a name or a setting that
    does not exist or is not possible; with 130 when interrupted.
    """
    try:
        if list_:
            _list(planner, domain, as_json=as_json)
            return
        if planner is None:
            known = sorted((*_planners(), *announced(PLANNER_GROUP)))
            raise _UsageError(f"name a planner: {', '.join(known)}")
        prepared = prepare(planner, domain=domain, task=task, settings=_pairs(settings, "--set"))
        models = _role_models(prepared, _pairs(role_model, "--role-model"))
        if trace is not None:
            check_target(trace)
    except (*REFUSALS, TargetError, _UsageError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    try:
        with _open_engines(model, models, cached=cache) as engines, recording() as events:
            meters = metered(engines)
            begun = time.perf_counter()
            outcome = asyncio.run(_watched(prepared.run(meters, seed), meters))
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
    if as_json:
        typer.echo(json.dumps(_report(outcome, usage, seconds)))
    else:
        _show(outcome, usage, seconds)
    if trace is not None:
        header = {
            "planner": prepared.spec.name,
            "domain": prepared.domain_name,
            "task": prepared.task,
            "model": model,
            "role_models": models,
            "seed": seed,
            "settings": prepared.chosen.to_json(),
        }
        try:
            write_trace(trace, events, header=header, summary=outcome.trace)
        except (OSError, TraceError) as error:
            typer.echo(f"error: the trace {trace} cannot be written: {error}", err=True)
            raise typer.Exit(1) from error


def _planners() -> Mapping[str, PlannerSpec]:
    from llm_planning.planners.catalogue import PLANNERS

    return PLANNERS


def _list(planner: str | None, domain: str | None, *, as_json: bool) -> None:
    """Lists the planners by paper, or the tasks and settings of one."""
    if planner is None:
        domains = list(_of_packages(DOMAIN_GROUP, find_domain))
        rows = [
            {
                "paper": one.paper,
                "name": one.name,
                "domains": ", ".join(_domains_of(one, domains)),
                "summary": one.summary,
            }
            for one in (*_planners().values(), *_of_packages(PLANNER_GROUP, find_planner))
        ]
        columns = ("name", "domains", "summary")
    else:
        spec = find_planner(planner)
        rows = _tasks_and_settings(spec, domain)
        columns = ("kind", "name", "default")
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table(*columns)
    paper = ""
    for row in rows:
        if row.get("paper", "") != paper:
            paper = row["paper"]
            table.add_section()
            table.add_row(Text(paper, style="bold"))
        table.add_row(*(row[column] for column in columns))
    Console().print(table)


def _tasks_and_settings(spec: PlannerSpec, domain: str | None) -> list[dict[str, str]]:
    """The tasks of a planner, domain by domain, and what can be set in the first of them."""
    named = [domain] if domain else _domains_of(spec, _of_packages(DOMAIN_GROUP, find_domain))
    places = {name: find_where(spec, domain=name, task=None) for name in named}
    rows = [
        {"kind": f"task of {name}", "name": task, "default": ""}
        for name, where in places.items()
        for task in tasks_of(spec, where)
    ]
    first, *others = places.items() or [("", None)]
    chosen = choose(spec, first[1], {}).to_json()
    rows += [
        {"kind": "setting", "name": key, "default": str(chosen[key])}
        for key in known_keys(spec, first[1])
        if key not in _FILLED_IN
    ]
    return rows + [
        {"kind": f"setting in {name}", "name": key, "default": str(value)}
        for name, where in others
        if where
        for key, value in where.settings.read({}).to_json().items()
    ]


def _of_packages(group: str, find: Callable[[str], SpecT]) -> Iterator[SpecT]:
    """What installed packages announce; of what is no use, standard error tells why."""
    for name in announced(group):
        try:
            yield find(name)
        except (UnknownPlannerError, UnknownDomainError, DomainError) as error:
            typer.echo(f"not listed: {error}", err=True)


def _domains_of(spec: PlannerSpec, others: Iterable[DomainSpec]) -> list[str]:
    """Names of the domains in which a planner works, this project's before those of packages."""
    if spec.benchmark is not None:
        return [spec.benchmark.domain]
    return [one.name for one in (*fitting_domains(spec), *others) if not spec.lacks(one)]


def _role_models(prepared: Prepared, said: Mapping[str, object]) -> dict[str, str]:
    """Role -> the model of its own, as the command line and the setting `roles` say."""
    roles = prepared.spec.roles
    for role in said:
        if role not in roles:
            raise _UsageError(
                f"--role-model {role}: {prepared.spec.name} asks nothing under that name; "
                f"{remedy(role, roles)}"
            )
    filed = models_of_roles(prepared.spec, prepared.chosen)
    return {**filed, **{role: str(name) for role, name in said.items()}}


def _pairs(said: list[str], option: str) -> dict[str, object]:
    pairs: dict[str, object] = {}
    for one in said:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise _UsageError(f"{option} {one}: write it as key=value")
        if key in pairs:
            raise _UsageError(f"{option} {key} is given twice: {pairs[key]!r} and {value!r}")
        pairs[key] = value
    return pairs


@contextlib.contextmanager
def _open_engines(model: str, models: Mapping[str, str], *, cached: bool) -> Iterator[Engines]:
    """Loads the model, and those of roles that have one of their own."""
    opener = open_engine if cached else open_uncached_engine
    opened: dict[str, Engine] = {}
    with contextlib.ExitStack() as stack:
        for name in (model, *models.values()):
            if name not in opened:
                with Console(stderr=True).status(f"loading {name}"):
                    opened[name] = stack.enter_context(opener(name))
        yield Engines(opened[model], {role: opened[name] for role, name in models.items()})


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
        "oracles": list(outcome.trace.get("oracles", ())),
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
    for line in tell(outcome.trace.get("oracles", ())):
        console.print(Text(f"oracle of {line}"), soft_wrap=True)
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
