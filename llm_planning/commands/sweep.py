"""`llm-planning sweep`: many trials on one engine, kept in a ledger that survives everything."""

from __future__ import annotations

import shlex
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llm_planning.commands.options import (
    CacheOption,
    ExecutorKind,
    JsonOption,
    RoleModelOption,
    SetOption,
    SweepFolderArgument,
    VerboseOption,
    check_writable_folder,
    name,
    named_path,
)
from llm_planning.endings import UsageError, refusing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llm_planning.experiments.scheduler import Progress

app = typer.Typer(help="Run many trials from one YAML file, resume them, and see what came out.")

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="The sweep's YAML file, or a name such as too/figure3-small."
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        parser=name,
        help="Ask this model wherever the file has one asked; named as for `run`.  "
        "[default: the file's models]",
        show_default=False,
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        parser=named_path,
        help="Folder for the results.  [default: ./sweeps/NAME, or ./sweeps/NAME-MODEL]",
    ),
]
DryOption = Annotated[
    bool,
    typer.Option("--dry-run", help="List the trials, and load no model."),
]
ForecastOption = Annotated[
    bool,
    typer.Option(
        "--forecast",
        help="Run a few trials of each row, which count as done, and say what the rest will take.",
    ),
]
SamplesOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1_000_000,
        metavar="N",
        help="Trials that --forecast is to have results of.  [default: 2 of each row, 40 at most]",
    ),
]
ByOption = Annotated[
    list[str], typer.Option(metavar="FIELD", help="Group by this field; may be repeated.")
]
MeanOption = Annotated[
    list[str],
    typer.Option(metavar="FIELD", help="Show the mean of this metric, too; may be repeated."),
]
TableOption = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FILE", parser=named_path, help="File to write; ends in .csv or .parquet."
    ),
]
DeterministicOption = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="No answer depends on what is computed beside it, and none is from the cache. "
        "Slow without an NVIDIA GPU of compute capability 8.0.",
    ),
]
ExecutorOption = Annotated[
    ExecutorKind, typer.Option(help="Where trials run: in this process, or on Ray workers.")
]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1_000_000,
        metavar="N",
        help="Trials that an engine runs at once at most.  [default: as its load allows]",
    ),
]
RayAddressOption = Annotated[
    str | None,
    typer.Option(help="Address of a running Ray cluster.  [default: start one here]"),
]
RayWorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1, max=10_000, help="Ray workers, each with an engine.  [default: one per GPU]"
    ),
]
RayCpusOption = Annotated[
    int,
    typer.Option(min=1, max=10_000, help="CPU slots of a Ray worker on machines without a GPU."),
]
TrustOption = Annotated[
    list[str],
    typer.Option(
        metavar="NAME",
        parser=name,
        help="Let the sweep use this code, this model or this file to be written, or those in "
        "this folder; may be repeated.",
    ),
]


@app.command()
def run(
    file: FileArgument,
    *,
    model: ModelOption = None,
    role_model: RoleModelOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    settings: SetOption = [],  # noqa: B006 - likewise
    out: OutOption = None,
    dry_run: DryOption = False,
    forecast: ForecastOption = False,
    samples: SamplesOption = None,
    cache: CacheOption = True,
    deterministic: DeterministicOption = False,
    executor: ExecutorOption = "local",
    concurrency: ConcurrencyOption = None,
    ray_address: RayAddressOption = None,
    ray_workers: RayWorkersOption = None,
    ray_cpus: RayCpusOption = 8,
    trust: TrustOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    as_json: JsonOption = False,
) -> None:
    """Runs the trials of a YAML file. Run again, it goes on with those still missing.

    Exits with 0 when the sweep ran to its end, failed trials included; with 1 when a model, the
    engine, Ray or the ledger failed; with 2 for a file that says something impossible; with 130
    when interrupted. What had ended is always recorded, and `sweep resume` goes on.

    With the response cache a sweep run twice gives the same answers. Without it, an answer can
    depend on the batch that it was computed in, because floating-point sums do. --deterministic
    excludes that. On NVIDIA GPUs from compute capability 8.0 on it uses vLLM's batch-invariant
    kernels, which cost some speed. Elsewhere it asks one question at a time, which gives up all
    that batching gains. Either way answers are the same only on the same hardware and versions.

    --model runs a paper's table with a model of your own. It is asked whatever the file has a model
    asked; rules and oracles stay, unless --set roles=llm has the model asked there, too. What is
    replaced is printed, and is part of the sweep's name and of the key of each trial.

    A sweep may be somebody else's. Code, models that do not come with this program, and files to be
    written are used only if --trust names them too.
    """
    from llm_planning.commands.sweep_plan import (
        instead_of,
        list_trials,
        print_changes,
    )
    from llm_planning.commands.sweep_running import carry_out, executor_of, finished_in
    from llm_planning.experiments.forecast import choose_samples
    from llm_planning.experiments.grid import load_sweep
    from llm_planning.experiments.sweep_files import Trust, find_sweep

    if samples is not None and not forecast:
        raise UsageError("--samples: only --forecast takes samples: add it, or leave --samples out")
    if dry_run and forecast:
        raise UsageError("--dry-run runs nothing, and --forecast runs some trials: leave one out")
    with _refusing_but_models():
        running = executor_of(
            executor,
            cache=cache,
            deterministic=deterministic,
            concurrency=concurrency,
            ray_address=ray_address,
            ray_workers=ray_workers,
            ray_cpus=ray_cpus,
        )
        instead = instead_of(model, role_model, settings)
        sweep = load_sweep(find_sweep(file), trust=Trust.of(trust), instead=instead)
    print_changes(sweep)
    if dry_run:
        list_trials(sweep.trials, as_json=as_json)
        return
    folder = out or Path("sweeps") / sweep.name
    check_writable_folder(folder)
    if forecast:
        chosen = choose_samples(sweep.trials, samples, finished=finished_in(folder))
        carry_out(folder, sweep.to_json(), running, deterministic=deterministic, chosen=chosen)
        _print_forecast(folder, ran=len(chosen), as_json=as_json)
        return
    progress = carry_out(folder, sweep.to_json(), running, deterministic=deterministic)
    _print_end(folder, sweep.name, progress, as_json=as_json)


def _print_forecast(folder: Path, *, ran: int, as_json: bool) -> None:
    from llm_base.terminal import SafeConsole, say, say_json
    from llm_planning.commands.sweep_plan import forecast_json, forecast_lines, forecast_table
    from llm_planning.experiments.forecast import forecast
    from llm_planning.experiments.ledger import Ledger

    with Ledger.open(folder) as ledger:
        name = str(ledger.sweep["name"])
        expected = forecast(ledger.trials, [row.result for row in ledger.rows()])
    if as_json:
        say_json({"folder": str(folder), "name": name, "ran": ran, **forecast_json(expected)})
        return
    say(f"{name}: {ran} trials were run for this, and count as done.")
    for line in forecast_lines(expected):
        say(line)
    SafeConsole(width=None if sys.stdout.isatty() else 200).print(forecast_table(expected))
    if expected.left:
        say("Next: the same command without --forecast")
    else:
        say(f"Next: llm-planning sweep report {shlex.quote(str(folder))}")


@contextmanager
def _refusing_but_models() -> Iterator[None]:
    """Turns what is wrong with a sweep's file into a `UsageError`.

    A model or an adapter that is missing has failed, as where the command line names it.
    """
    from llm_planning.experiments.sweep_files import SweepConfigError
    from llm_serving.errors import AdapterError, UnknownModelError

    try:
        yield
    except SweepConfigError as error:
        if isinstance(error.__cause__, AdapterError | UnknownModelError):
            raise
        raise UsageError(str(error)) from error


@app.command()
def resume(
    folder: SweepFolderArgument,
    *,
    cache: CacheOption = True,
    deterministic: DeterministicOption = False,
    executor: ExecutorOption = "local",
    concurrency: ConcurrencyOption = None,
    ray_address: RayAddressOption = None,
    ray_workers: RayWorkersOption = None,
    ray_cpus: RayCpusOption = 8,
    trust: TrustOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    as_json: JsonOption = False,
) -> None:
    """Runs the trials of a sweep that are still missing, without its YAML file.

    Exits as `sweep run` does.
    """
    from llm_planning.commands.sweep_running import carry_out, executor_of
    from llm_planning.experiments.ledger import Ledger
    from llm_planning.experiments.sweep_files import Trust, UntrustedError
    from llm_planning.experiments.trial import Trial

    running = executor_of(
        executor,
        cache=cache,
        deterministic=deterministic,
        concurrency=concurrency,
        ray_address=ray_address,
        ray_workers=ray_workers,
        ray_cpus=ray_cpus,
    )
    with Ledger.open(folder) as ledger:
        begun = ledger.sweep
    with refusing(UntrustedError):
        Trust.of(trust).check_trials(Trial(**trial) for trial in begun["trials"])
    progress = carry_out(folder, begun, running, deterministic=deterministic)
    _print_end(folder, str(begun["name"]), progress, as_json=as_json)


def _print_end(folder: Path, name: str, progress: Progress, *, as_json: bool) -> None:
    from llm_base.terminal import say, say_json
    from llm_planning.experiments.display import clock

    if as_json:
        counts = ("total", "kept", "done", "failed", "retried")
        say_json(
            {
                "folder": str(folder),
                "name": name,
                **{count: getattr(progress, count) for count in counts},
                "seconds": round(progress.seconds, 3),
                "written_tokens": progress.load.written_tokens,
            }
        )
        return
    kept = f", {progress.kept} from earlier runs" if progress.kept else ""
    say(
        f"{name}: all {progress.total} trials finished{kept}; "
        f"{progress.done} done and {progress.failed} failed in {clock(progress.seconds)}"
    )
    say(f"Files: {folder}")
    if progress.failed:
        say(f"Why trials failed: llm-planning sweep status {shlex.quote(str(folder))}")
    say(f"Next: llm-planning sweep report {shlex.quote(str(folder))}")


@app.command()
def status(
    folder: SweepFolderArgument, *, verbose: VerboseOption = False, as_json: JsonOption = False
) -> None:
    """Shows how far a sweep is and when it ends; exits with 1 if it cannot be read."""
    from llm_base.terminal import SafeConsole, literal, say_json
    from llm_planning.commands.sweep_results import status_lines, status_of
    from llm_planning.experiments.ledger import Ledger

    with Ledger.open(folder) as ledger:
        state = status_of(ledger)
    if as_json:
        say_json({"folder": str(folder), **state})
        return
    console = SafeConsole()
    for line in status_lines(state, folder, verbose=verbose):
        console.print(literal(line), soft_wrap=True)


@app.command()
def report(
    folder: SweepFolderArgument,
    *,
    by: ByOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    mean: MeanOption = [],  # noqa: B006
    as_json: JsonOption = False,
) -> None:
    """Shows success, calls, tokens and seconds of each planner and setting, with intervals.

    Exits with 1 if the sweep cannot be read; with 2 for a field that trials do not have, or that is
    no number.
    """
    from rich.table import Table

    from llm_base.terminal import SafeConsole, literal, say, say_json
    from llm_planning.commands.sweep_results import groups_of
    from llm_planning.experiments.ledger import Ledger
    from llm_planning.experiments.measures import MeasureError
    from llm_planning.experiments.runs import UnknownFieldError, mark_equal_seeds, read_trials
    from llm_planning.experiments.summary import summary

    with refusing(UnknownFieldError, MeasureError), Ledger.open(folder) as ledger:
        runs = mark_equal_seeds(read_trials(ledger), ledger)
        overview = summary(runs, by=by or None, means=mean)
    if as_json:
        say_json({"folder": str(folder), "groups": groups_of(overview)})
        return
    done, failed, left = (
        sum(getattr(group, count) for group in overview.groups)
        for count in ("done", "failed", "pending")
    )
    say(f"{done} trials are done, {failed} failed and {left} are left.")
    table = Table()
    for column in overview.header:
        table.add_column(literal(column))
    for cells in overview.cells:
        table.add_row(*map(literal, cells))
    # A pipe has no width, so cells are not cut.
    SafeConsole(width=None if sys.stdout.isatty() else 200).print(table)
    if any(group.equal for group in overview.groups):
        say("equal: with every seed the runs of a task did the same, so that they count as one.")
    say(f"Files: {folder}")
    say(f"Next: llm-planning view {shlex.quote(str(folder))}")


@app.command()
def export(folder: SweepFolderArgument, *, out: TableOption, as_json: JsonOption = False) -> None:
    """Writes a row for every finished trial to a CSV or Parquet file.

    Exits with 1 if the sweep cannot be read; with 2 for a file that cannot be written.
    """
    from llm_base.files import TargetError, check_target
    from llm_base.terminal import say, say_json
    from llm_planning.experiments.export import export as export_ledger
    from llm_planning.experiments.ledger import Ledger

    with refusing(TargetError):
        check_target(out)
    with Ledger.open(folder) as ledger:
        rows = export_ledger(ledger, out)
    if as_json:
        say_json({"folder": str(folder), "file": str(out), "rows": rows})
    else:
        say(f"{out}: {rows} rows")
