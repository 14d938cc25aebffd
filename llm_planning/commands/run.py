"""`llm-planning run`: one planner on one task."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.table import Table

from llm_kernels.files import TargetError, at_home, check_target
from llm_planning.domain import DomainError
from llm_planning.endings import UsageError, is_ours, refusing
from llm_planning.interrupts import heard_while_loading
from llm_planning.model_configs import comes_along, configuration, default_model, model_name
from llm_planning.names import remedy
from llm_planning.own_code import OwnCodeError, code_file, told_of
from llm_planning.registry import (
    DOMAIN_GROUP,
    PLANNER_GROUP,
    UnknownDomainError,
    UnknownPlannerError,
    announced,
    find_domain,
    find_planner,
)
from llm_planning.roles import Engines, RoleSettings, metered
from llm_planning.roles.oracles import tell
from llm_planning.running import (
    REFUSALS,
    PlannerRun,
    Prepared,
    asks_model,
    find_where,
    fitting_domains,
    models_of_roles,
    prepare,
    run_planner,
    source_of,
)
from llm_planning.session import open_engines
from llm_planning.settings import WRITTEN_SETTINGS, SettingsError
from llm_planning.specs import DomainSpec, PlannerSpec, choose, known_keys
from llm_planning.trace import recording
from llm_planning.trace_file import TraceError, told_outcome, write_trace
from llm_planning.watching import watched
from llm_serving.encoder_engine import NO_MODEL
from llm_serving.models import is_bundled_adapter
from llm_serving.request import Usage
from llm_serving.terminal import SafeConsole, complain, literal, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from llm_planning.outcome import Outcome

SpecT = TypeVar("SpecT")

_FILLED_IN = frozenset({"roles_sha256", "pddl_sha256", "home_sha256"})
"""Settings that are not listed, as they only belong to a trial's key."""


def run(
    planner: str | None,
    *,
    domain: str | None,
    task: str | None,
    model: str | None,
    role_model: Sequence[str],
    seed: int,
    settings: Sequence[str],
    cache: bool,
    trace: Path | None,
    as_json: bool,
) -> None:
    """Plans one task and prints the outcome; the arguments are those of the command line."""
    with refusing(*REFUSALS, TargetError):
        if planner is None:
            known = sorted((*_planners(), *announced(PLANNER_GROUP)))
            raise UsageError(f"name a planner: {', '.join(known)}")
        spec, said = find_planner(planner), _pairs(settings, "--set")
        model = model and model_name(model)
        if model == NO_MODEL and not role_model:
            said |= _stood_in(spec, said)
        prepared = prepare(spec, domain=domain, task=task, settings=said)
        model = model or _default_model(prepared)
        models = _role_models(prepared, _pairs(role_model, "--role-model"))
        written = [prepared.chosen.to_json().get(key) for key in WRITTEN_SETTINGS]
        for target in (trace, *written):
            if target:
                check_target(Path(at_home(str(target))))
    with (
        refusing(SettingsError),
        _open_engines(model, models, cached=cache) as engines,
        recording() as events,
    ):
        meters = metered(engines)
        planning = run_planner(lambda: prepared, meters, seed=seed)
        with SafeConsole(stderr=True).waiting("planning") as status:
            record = asyncio.run(watched(planning, meters, status.update))
        with _own_failures(prepared):
            outcome = record.result()
    try:
        if as_json:
            say(json.dumps(_report(outcome, record, model=model)))
        else:
            _show(outcome, record, model=model)
        sys.stdout.flush()
    finally:
        # If the answer or the trace cannot be written, the other one is written all the same.
        if trace is not None:
            header = {
                "planner": prepared.spec.recorded_as,
                "domain": prepared.domain.name,
                "task": prepared.task,
                "model": model,
                "role_models": models,
                "seed": seed,
                "settings": prepared.chosen.to_json(),
            }
            try:
                ended = told_outcome(
                    success=outcome.success,
                    plan=outcome.plan,
                    metrics=outcome.metrics,
                    unrepeatable=outcome.unrepeatable,
                    seconds=record.seconds,
                )
                write_trace(trace, events, header=header, summary=outcome.trace, outcome=ended)
            except OSError as error:
                raise TraceError(f"the trace {trace} cannot be written: {error}") from error


@contextlib.contextmanager
def _own_failures(prepared: Prepared) -> Iterator[None]:
    """Adds the file and the line to errors of the user's own code.

    Raises:
        OwnCodeError: the code raised an error of a class that is not this project's.
    """
    try:
        yield
    except Exception as error:
        if not source_of(prepared.spec, prepared.domain) or is_ours(error):
            raise
        files = {str(code_file(name)) for name in (prepared.spec.name, prepared.domain.name)}
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if frame.filename in files] or frames
        where = f"{theirs[-1].filename}, line {theirs[-1].lineno}"
        raise OwnCodeError(f"{where}: {told_of(error)}") from error


def _planners() -> Mapping[str, PlannerSpec]:
    from llm_planning.planners.catalogue import PLANNERS

    return PLANNERS


def list_what_there_is(planner: str | None, *, domain: str | None, as_json: bool) -> None:
    """Lists the planners by paper, or the tasks and settings of one."""
    with refusing(*REFUSALS):
        columns, rows = _listed(planner, domain)
    if as_json:
        say(json.dumps(rows))
        return
    table = Table(*columns)
    paper = ""
    for row in rows:
        if row.get("paper", "") != paper:
            paper = row["paper"]
            table.add_section()
            table.add_row(literal(paper, "bold"))
        table.add_row(*(literal(row[column]) for column in columns))
    SafeConsole().print(table)


def _listed(
    planner: str | None, domain: str | None
) -> tuple[tuple[str, ...], list[dict[str, str]]]:
    """The columns and the rows of a list."""
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
        return ("name", "domains", "summary"), rows
    return ("kind", "name", "default"), _tasks_and_settings(find_planner(planner), domain)


def _tasks_and_settings(spec: PlannerSpec, domain: str | None) -> list[dict[str, str]]:
    """The tasks of a planner by domain, and the settings in the first domain."""
    named = [domain] if domain else _domains_of(spec, _of_packages(DOMAIN_GROUP, find_domain))
    places = {name: find_where(spec, domain=name, task=None) for name in named}
    rows = [
        {"kind": f"task of {name}", "name": task, "default": ""}
        for name, where in places.items()
        for task in where.tasks
    ]
    if not places:
        return rows
    (_, first), *others = places.items()
    chosen = choose(spec, first, {}).every_value()
    rows += [
        {"kind": "setting", "name": key, "default": str(chosen[key])}
        for key in known_keys(spec, first)
        if key not in _FILLED_IN | spec.never_read
    ]
    return rows + [
        {"kind": f"setting in {name}", "name": key, "default": str(value)}
        for name, where in others
        for key, value in where.settings.read({}).every_value().items()
        if key not in _FILLED_IN
    ]


def _of_packages(group: str, find: Callable[[str], SpecT]) -> Iterator[SpecT]:
    """The names that installed packages announce; reports unusable ones on standard error."""
    for name in announced(group):
        try:
            yield find(name)
        except (UnknownPlannerError, UnknownDomainError, DomainError) as error:
            complain(f"not listed: {error}")


def _domains_of(spec: PlannerSpec, others: Iterable[DomainSpec]) -> list[str]:
    """Names of the domains in which a planner works, this project's before those of packages."""
    return [one.name for one in (*fitting_domains(spec), *others) if not spec.lacks(one)]


def _default_model(prepared: Prepared) -> str:
    if not asks_model(prepared.spec, prepared.chosen):
        return "none"
    settings, roles = prepared.chosen.planner, prepared.spec.roles
    asked = settings.models_roles(roles) if isinstance(settings, RoleSettings) else roles
    return default_model(asked, domain=prepared.domain.name)


def _stood_in(spec: PlannerSpec, said: Mapping[str, object]) -> dict[str, object]:
    """The setting by which rules answer, unless the user says who does; says so on the terminal."""
    profile = spec.settings.profile if issubclass(spec.settings, RoleSettings) else None
    if profile is None or "roles" in said:
        return {}
    complain(f"note: no model: rules with {profile.told} answer (roles={profile.name})")
    return {"roles": profile.name}


def _role_models(prepared: Prepared, said: Mapping[str, object]) -> dict[str, str]:
    """Role -> its own model, from the command line and the setting `roles`."""
    roles = prepared.spec.roles
    for role in said:
        if role not in roles:
            raise UsageError(
                f"--role-model {role}: {prepared.spec.name} has no such role; {remedy(role, roles)}"
            )
    named = {role: model_name(str(name)) for role, name in said.items()}
    filed = models_of_roles(prepared.spec, prepared.chosen)
    for role, name in filed.items():
        config = configuration(name)
        if config is None or role in named:
            continue
        bundled = all(map(is_bundled_adapter, config.adapters.values()))
        if not (comes_along(config.model) and bundled):
            raise UsageError(
                f"roles={prepared.chosen.to_json()['roles']}: the model {name} of {role} does not "
                "come with this program, and only a file asks for it: look at it, then add "
                f"--role-model {shlex.quote(f'{role}={name}')}"
            )
    return {**filed, **named}


def _pairs(said: Sequence[str], option: str) -> dict[str, object]:
    pairs: dict[str, object] = {}
    for one in said:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {one}: write it as key=value")
        if key in pairs:
            raise UsageError(f"{option} {key} is given twice: {pairs[key]!r} and {value!r}")
        pairs[key] = value
    return pairs


@contextlib.contextmanager
def _open_engines(model: str, models: Mapping[str, str], *, cached: bool) -> Iterator[Engines]:
    """Loads the model and the roles' own models."""
    names = list(dict.fromkeys((model, *models.values())))
    loading = f"loading {' and '.join(names)}"
    with contextlib.ExitStack() as stack:
        with SafeConsole(stderr=True).waiting(loading), heard_while_loading():
            opened = stack.enter_context(open_engines(names, cached=cached))
        yield Engines(opened[model], {role: opened[name] for role, name in models.items()})


_TOLD = ("problems", "executions")
"""Parts of a trace that `--json` prints: each problem, or each execution with its programs, what
the world said of them, and its verdict."""


def _report(outcome: Outcome, record: PlannerRun, *, model: str) -> dict[str, Any]:
    return {
        "success": outcome.success,
        "model": model,
        "metrics": dict(outcome.metrics),
        "plan": list(outcome.plan),
        **{key: outcome.trace[key] for key in _TOLD if key in outcome.trace},
        "oracles": list(outcome.trace.get("oracles", ())),
        "seconds": round(record.seconds, 3),
        "usage": {
            "total": _counts(_total(record.usage)),
            "roles": {role: _counts(one) for role, one in record.usage.items()},
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


def _show(outcome: Outcome, record: PlannerRun, *, model: str) -> None:
    console = SafeConsole()
    say(outcome.text)
    console.print()
    if "problems" in outcome.trace:
        console.print("Plans: --json has that of each problem")
    else:
        console.print(literal("Plan", "bold"))
        for number, option in enumerate(outcome.plan, start=1):
            console.print(literal(f"  {number}. {option}"), soft_wrap=True)
        if not outcome.plan:
            console.print("  (empty)")
    console.print()
    for key, value in {"success": outcome.success, **outcome.metrics}.items():
        console.print(literal(f"{key}: {value}"), soft_wrap=True)
    for line in tell(outcome.trace.get("oracles", ())):
        console.print(literal(f"oracle of {line}"), soft_wrap=True)
    table = Table("role", "calls", "replayed", "prompt tokens", "cached", "written", "seconds")
    for column in table.columns[1:]:
        column.justify = "right"
    for role, one in [*record.usage.items(), ("total", _total(record.usage))]:
        table.add_row(
            literal(role),
            str(one.calls),
            str(one.replayed),
            str(one.prompt_tokens),
            str(one.cached_tokens),
            str(one.completion_tokens),
            f"{one.seconds:.1f}",
        )
    console.print(table)
    by = "" if model == NO_MODEL else f" with {model}"
    console.print(literal(f"planned in {record.seconds:.1f} s{by}"))
