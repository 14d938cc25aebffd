"""`llm-planning run`: one planner on one task."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer

from llm_planning.commands.options import (
    MOST,
    CacheOption,
    JsonOption,
    RoleModelOption,
    SetOption,
    VerboseOption,
    name,
    named_path,
    read_pairs,
)
from llm_planning.endings import UsageError, refusing
from llm_planning.model_configs import DEFAULT_MODEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from llm_planning.roles import Engines
    from llm_planning.running import PlannerRun, Prepared
    from llm_planning.trace import Trace
    from llm_serving.engine import Engine

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
    str | None,
    typer.Option(
        parser=name,
        help="A bundled model, a configuration, a folder, a hub id or a YAML file; MODEL+ADAPTER "
        "for a model with an adapter.",
        show_default="none if rules answer every role, else the bundled model that was taught the "
        f"planner's roles there, else {DEFAULT_MODEL}",
    ),
]
SeedOption = Annotated[int, typer.Option(min=0, max=MOST, help="Seed of every draw.")]
ListOption = Annotated[
    bool,
    typer.Option(
        "--list",
        help="List the planners, or those that fit --domain; with PLANNER, its tasks and settings.",
    ),
]
TraceOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", parser=named_path, help="Write everything that was decided to this file."
    ),
]


def run(
    planner: PlannerArgument = None,
    *,
    domain: DomainOption = None,
    task: TaskOption = None,
    model: ModelOption = None,
    role_model: RoleModelOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    seed: SeedOption = 0,
    settings: SetOption = [],  # noqa: B006 - likewise
    list_: ListOption = False,
    cache: CacheOption = True,
    trace: TraceOption = None,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Plans one task and prints the plan, what came of it, what it cost and who answered.

    Exits with 0 when the planner ran to its end, whether or not its plan reaches the goal; with 1
    when the model, the engine, a game, a saved file or code of your own failed; with 2 for a name
    or a setting that does not exist or is not possible; with 130 when interrupted. With --trace, a
    run that is broken off leaves what was done until then.
    """
    if list_:
        from llm_planning.commands.run_list import print_list

        print_list(planner, domain=domain, as_json=as_json)
        return
    from llm_base.files import TargetError, at_home, check_target
    from llm_base.terminal import say_json
    from llm_planning.commands.run_answer import Answer
    from llm_planning.commands.run_models import NO_MODEL, default_model_of, own_models, stood_in
    from llm_planning.interrupts import sigterm_as_ctrl_c
    from llm_planning.model_configs import configuration, model_name
    from llm_planning.registry import find_planner, telling_own_lines
    from llm_planning.running import REFUSALS, prepare
    from llm_planning.settings import WRITTEN_SETTINGS, SettingsError
    from llm_planning.trace_file import outcome_json
    from llm_serving.errors import EngineConfigError

    with refusing(*REFUSALS, TargetError, EngineConfigError):
        if planner is None:
            from llm_planning.commands.run_list import planners_known

            raise UsageError(f"name a planner: {', '.join(planners_known())}")
        spec, given = find_planner(planner), read_pairs(settings, "--set")
        model = model and model_name(model)
        if model == NO_MODEL and not role_model:
            given |= stood_in(spec, given)
        prepared = prepare(spec, domain=domain, task=task, settings=given)
        _note_what_is_seen(prepared)
        model = model or default_model_of(prepared)
        models = own_models(prepared, read_pairs(role_model, "--role-model"))
        for named in (model, *models.values()):
            configuration(named)
        written = [prepared.chosen.to_json().get(key) for key in WRITTEN_SETTINGS]
        for target in (trace, *written):
            if target:
                check_target(Path(at_home(str(target))))
    about = {"model": model, "role_models": models, "seed": seed}
    with (
        refusing(SettingsError),
        sigterm_as_ctrl_c(),
        _kept_if_broken_off(trace, prepared, about) as traces,
    ):
        record = _planned(prepared, traces, model=model, models=models, seed=seed, cached=cache)
        with telling_own_lines(prepared.spec.name, prepared.domain.name):
            outcome = record.result()
    answer = Answer(prepared=prepared, record=record, outcome=outcome, model=model, models=models)
    try:
        if as_json:
            say_json(answer.to_json())
        else:
            answer.show(verbose=verbose)
        sys.stdout.flush()
    finally:
        # If the answer or the trace cannot be written, the other one is written all the same.
        if trace is not None:
            ended = outcome_json(
                success=outcome.success,
                plan=outcome.plan,
                metrics=outcome.metrics,
                unrepeatable=outcome.unrepeatable,
                seconds=record.seconds,
            )
            _write_trace(trace, traces[-1], prepared, about, summary=outcome.trace, outcome=ended)


def _note_what_is_seen(prepared: Prepared) -> None:
    """Says where a search sees what a world of the user's own hides from agents."""
    if not prepared.domain.source:
        return
    from llm_base.terminal import complain
    from llm_planning.domain import Believes, Observes, missing_members
    from llm_planning.planners.any_domain.settings import UctSettings
    from llm_planning.planners.mc_dml.settings import GameSearchSettings

    domain, searches = prepared.domain, (UctSettings, GameSearchSettings)
    if (
        issubclass(prepared.spec.settings, searches)
        and not missing_members(domain.kind, Observes)
        and missing_members(domain.kind, Believes)
    ):
        complain("note: the search sees what `observe` hides, as the world has no `belief`")


def _planned(
    prepared: Prepared,
    traces: list[Trace],
    *,
    model: str,
    models: Mapping[str, str],
    seed: int,
    cached: bool,
) -> PlannerRun:
    """Runs a planner: to its first question before a model is opened, and then anew with models.

    So whatever is wrong with a world or a setting is told before minutes are spent on a model, and
    a run that asks nothing opens none.

    Args:
        traces: gets the trace of each run; empty while models are opened.
        model: answers the roles that have no model of their own.
        models: role -> its own model.
        cached: whether answers, vectors and steps of games are cached on disk.
    """
    from llm_planning.commands.run_models import NO_MODEL
    from llm_planning.roles import Engines, metered
    from llm_planning.sharing import sharing

    if {model, *models.values()} != {NO_MODEL}:
        unopened = _Unopened()
        with sharing(on_disk=cached):
            record = _watched(prepared, Engines(cast("Engine", unopened)), traces, seed=seed)
        if not unopened.asked:
            return record
    # So that a model which cannot be opened does not cost the trace that the file had before.
    traces.clear()
    with _open_engines(model, models, cached=cached) as engines:
        return _watched(prepared, metered(engines), traces, seed=seed)


class _AskedError(BaseException):
    """A planner asks, and no model is open. Planners do not catch it, as they do their errors."""


class _Unopened:
    """Stands for the engine before a model is opened: whatever is wanted of it ends the run."""

    def __init__(self) -> None:
        self.asked = False

    def __getattr__(self, name: str) -> NoReturn:
        self.asked = True
        raise _AskedError


def _watched(prepared: Prepared, engines: Engines, traces: list[Trace], *, seed: int) -> PlannerRun:
    import asyncio

    from llm_base.terminal import SafeConsole
    from llm_planning.running import run_planner
    from llm_planning.trace import recording
    from llm_planning.watching import watched

    with recording() as trace, SafeConsole(stderr=True).waiting("planning") as status:
        traces.append(trace)
        planning = run_planner(lambda: prepared, engines, seed=seed)
        return asyncio.run(watched(planning, engines, status.update))


@contextlib.contextmanager
def _open_engines(model: str, models: Mapping[str, str], *, cached: bool) -> Iterator[Engines]:
    """Loads the model and the roles' own models."""
    from llm_base.terminal import SafeConsole
    from llm_planning.interrupts import heard_while_loading
    from llm_planning.model_configs import open_engines
    from llm_planning.roles import Engines

    names = list(dict.fromkeys((model, *models.values())))
    loading = f"loading {' and '.join(names)}"
    with contextlib.ExitStack() as stack:
        with SafeConsole(stderr=True).waiting(loading), heard_while_loading():
            opened = stack.enter_context(open_engines(names, cached=cached))
        yield Engines(opened[model], {role: opened[name] for role, name in models.items()})


@contextlib.contextmanager
def _kept_if_broken_off(
    file: Path | None, prepared: Prepared, about: Mapping[str, object]
) -> Iterator[list[Trace]]:
    """Writes the trace of a run that an error or Ctrl-C ends: what was done until then.

    Args:
        file: None for no trace.
        about: joins the header of the trace.

    Yields:
        A list for the traces of the run, of which the last one is written.

    Raises:
        KeyboardInterrupt: Ctrl-C; the message says where the trace is.
    """
    traces: list[Trace] = []
    try:
        yield traces
    except BaseException as error:
        if file is None or not (traces and traces[-1].events):
            raise  # nothing was done, as where a world cannot be opened
        import traceback

        from llm_base.terminal import complain
        from llm_planning.interrupts import was_interrupted
        from llm_planning.trace_file import TraceError

        stopped = was_interrupted(error)
        lines = "".join(traceback.format_exception(error)).splitlines()
        try:
            raised = {"raised": ["interrupted"] if stopped else lines}
            _write_trace(file, traces[-1], prepared, about, summary=raised)
        except TraceError as unwritten:
            complain(f"note: {unwritten}")
            raise error from None
        if stopped:
            raise KeyboardInterrupt(f"what was done until then is in {file}") from error
        raise


def _write_trace(
    file: Path,
    trace: Trace,
    prepared: Prepared,
    about: Mapping[str, object],
    *,
    summary: Mapping[str, Any],
    outcome: Mapping[str, Any] | None = None,
) -> None:
    from llm_planning.trace_file import TraceError, write_trace

    header = {
        "planner": prepared.spec.name,
        "domain": prepared.domain.name,
        "task": prepared.task,
        **about,
        "settings": prepared.chosen.to_json(),
    }
    try:
        write_trace(file, trace, header=header, summary=summary, outcome=outcome)
    except OSError as error:
        raise TraceError(f"the trace {file} cannot be written: {error}") from error
