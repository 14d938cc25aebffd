"""`llm-planning sweep`: many trials on one engine, kept in a ledger that survives everything."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from enum import StrEnum
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from llm_planning.commands import sweep_results
from llm_planning.commands.sweep_plan import list_trials, run_samples
from llm_planning.commands.sweep_results import FolderArgument, JsonOption, failure
from llm_planning.experiments.display import clock, display_on
from llm_planning.experiments.estimate import by_kind
from llm_planning.experiments.grid import SweepConfigError, load_sweep
from llm_planning.experiments.ledger import LEDGER_FILE, Ledger, LedgerError
from llm_planning.experiments.local_pool import prepare_trial
from llm_planning.experiments.opening import (
    Answers,
    LocalExecutor,
    Models,
    RayExecutor,
    identify,
    run_groups,
)
from llm_planning.experiments.provenance import gather
from llm_planning.experiments.ray_cluster import RayPoolError
from llm_planning.experiments.trial import Trial
from llm_planning.running import REFUSALS
from llm_serving.errors import ServingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from llm_planning.experiments.opening import Executor
    from llm_planning.experiments.scheduler import Progress

app = typer.Typer(
    no_args_is_help=True,
    help="Thousands of trials from one YAML file, resumed wherever they were stopped.",
)


class Where(StrEnum):
    """Where trials run."""

    LOCAL = "local"
    RAY = "ray"


FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The sweep's YAML file.")]
OutOption = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Where results go; ./sweeps/<its name>.")
]
DryOption = Annotated[
    bool, typer.Option("--dry-run", help="List the trials and estimate their cost; record nothing.")
]
SamplesOption = Annotated[
    int, typer.Option(min=0, help="Trials that --dry-run runs to estimate; 0: only list.")
]
CacheOption = Annotated[
    bool, typer.Option("--cache/--no-cache", help="Reuse answers to questions asked before.")
]
DeterministicOption = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="No answer depends on what is computed beside it, and none is from the cache. Slow "
        "but on NVIDIA GPUs from compute capability 8.0 on: see above.",
    ),
]
ExecutorOption = Annotated[Where, typer.Option(help="This process, or the workers of Ray.")]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Most trials in flight on an engine; else by its load."),
]
AddressOption = Annotated[
    str | None, typer.Option(help="Of a Ray cluster that runs; else one is started here.")
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Ray workers, each with an engine; else one per GPU.")
]
CpusOption = Annotated[
    int, typer.Option(min=1, help="CPU slots of a Ray worker on machines without a GPU.")
]


class _UsageError(ValueError):
    """The command line asks for something that there is not."""


@app.command()
def run(
    file: FileArgument,
    *,
    out: OutOption = None,
    dry_run: DryOption = False,
    samples: SamplesOption = 4,
    cache: CacheOption = True,
    deterministic: DeterministicOption = False,
    executor: ExecutorOption = Where.LOCAL,
    concurrency: ConcurrencyOption = None,
    ray_address: AddressOption = None,
    ray_workers: WorkersOption = None,
    ray_cpus: CpusOption = 8,
    as_json: JsonOption = False,
) -> None:
    """Runs the trials of a YAML file; in a folder where they were begun, those still missing.

    Exits with 0 when the sweep ran to its end, failed trials included; with 1 when a model, the
    engine, Ray or the ledger failed; with 2 for a file that says something impossible; with 130
    when interrupted. In every case what had ended is recorded, and `sweep resume` goes on.

    With the response cache a sweep run twice gives the same answers. Without it, an answer can
    depend on the batch that it was computed in, because floating-point sums do. --deterministic
    excludes that: vLLM's batch-invariant kernels, which cost some speed, on NVIDIA GPUs from
    compute capability 8.0 on; on other GPUs and on CPUs, which vLLM has no such kernels for, one
    question at a time on one trial at a time from an empty prefix cache, which gives up all that
    batching gains. Either way answers are the same only on the same hardware and versions.
    """
    try:
        where = _executor(
            executor,
            answers=_answers(cached=cache, deterministic=deterministic),
            most=concurrency,
            address=ray_address,
            workers=ray_workers,
            cpus=ray_cpus,
        )
        sweep = load_sweep(file)
    except (SweepConfigError, _UsageError) as error:
        raise failure(error, 2) from error
    if dry_run:
        _dry_run(sweep.trials, where, samples, as_json=as_json)
        return
    folder = out or Path("sweeps") / sweep.name
    _sweep(folder, sweep.to_json(), where, deterministic=deterministic, as_json=as_json)


@app.command()
def resume(
    folder: FolderArgument,
    *,
    cache: CacheOption = True,
    deterministic: DeterministicOption = False,
    executor: ExecutorOption = Where.LOCAL,
    concurrency: ConcurrencyOption = None,
    ray_address: AddressOption = None,
    ray_workers: WorkersOption = None,
    ray_cpus: CpusOption = 8,
    as_json: JsonOption = False,
) -> None:
    """Runs the trials of a sweep that are still missing; the YAML file is not needed.

    Exits as `sweep run` does.
    """
    try:
        where = _executor(
            executor,
            answers=_answers(cached=cache, deterministic=deterministic),
            most=concurrency,
            address=ray_address,
            workers=ray_workers,
            cpus=ray_cpus,
        )
    except _UsageError as error:
        raise failure(error, 2) from error
    try:
        with Ledger.open(folder) as ledger:
            begun = ledger.sweep
    except LedgerError as error:
        raise failure(error, 1) from error
    _sweep(folder, begun, where, deterministic=deterministic, as_json=as_json)


app.command()(sweep_results.status)
app.command()(sweep_results.report)
app.command()(sweep_results.export)


def _answers(*, cached: bool, deterministic: bool) -> Answers:
    if deterministic:
        return Answers.DETERMINISTIC
    return Answers.CACHED if cached else Answers.FRESH


def _executor(
    where: Where,
    *,
    answers: Answers,
    most: int | None,
    address: str | None,
    workers: int | None,
    cpus: int,
) -> Executor:
    if where is Where.RAY:
        return RayExecutor(
            answers=answers,
            most=most,
            tell=_tell,
            address=address,
            workers=workers,
            cpus_per_worker=cpus,
        )
    if address is not None or workers is not None:
        raise _UsageError("--ray-address and --ray-workers need --executor ray")
    return LocalExecutor(answers=answers, most=most, tell=_tell)


def _sweep(
    folder: Path, sweep: Mapping[str, Any], where: Executor, *, deterministic: bool, as_json: bool
) -> None:
    """Runs what is missing of a sweep and says how it went."""
    try:
        if (folder / LEDGER_FILE).exists():
            with Ledger.open(folder) as ledger:
                ledger.refuse_old()
    except LedgerError as error:
        raise failure(error, 1) from error
    trials = [Trial(**trial) for trial in sweep["trials"]]
    console = Console(stderr=True)
    try:
        with _sigterm_as_ctrl_c():
            provenance = _provenance(trials, deterministic=deterministic)
            with (
                _recording(folder, sweep, provenance) as ledger,
                display_on(console, name=str(sweep["name"])) as display,
            ):
                progress = run_groups(
                    trials, executor=where, ledger=ledger, retries=sweep["retries"], watch=display
                )
    except (ServingError, LedgerError, RayPoolError, *REFUSALS) as error:
        _say_where(folder)
        raise failure(error, 1) from error
    except KeyboardInterrupt as interrupt:
        typer.echo("interrupted", err=True)
        _say_where(folder)
        raise typer.Exit(130) from interrupt
    _say_end(folder, str(sweep["name"]), progress, as_json=as_json)


def _provenance(trials: list[Trial], *, deterministic: bool) -> dict[str, Any]:
    """What the trials are about to be run with.

    Raises:
        ServingError: a model cannot be found.
        ValueError: a planner, a domain or a setting is not there any more, or the user's own code
            is not what it was when the sweep began.
    """
    for first, *_ in by_kind(trials).values():
        prepare_trial(first)
    models = dict(pair for trial in trials for pair in Models.of(trial).configurations)
    return gather(models=starmap(identify, models.items()), deterministic=deterministic)


def _recording(folder: Path, sweep: Mapping[str, Any], provenance: Mapping[str, Any]) -> Ledger:
    """The ledger of a sweep that is begun, or was begun before."""
    if (folder / LEDGER_FILE).exists():
        return Ledger.resume(folder, provenance, sweep=sweep)
    return Ledger.create(folder, sweep, provenance)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Lets whoever ends this process politely have the same clean end as Ctrl-C."""

    def end(*_: object) -> None:
        # A shell lets its background jobs ignore SIGINT; nothing would come of raising it there.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _dry_run(trials: tuple[Trial, ...], where: Executor, samples: int, *, as_json: bool) -> None:
    if not samples:
        list_trials(trials, estimated=None, as_json=as_json)
        return
    try:
        with _sigterm_as_ctrl_c():
            estimated = run_samples(trials, samples, where)
    except (ServingError, RayPoolError) as error:
        raise failure(error, 1) from error
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(130) from interrupt
    list_trials(trials, estimated=estimated, as_json=as_json)


def _say_end(folder: Path, name: str, progress: Progress, *, as_json: bool) -> None:
    if as_json:
        said = {
            "folder": str(folder),
            "name": name,
            "total": progress.total,
            "kept": progress.kept,
            "done": progress.done,
            "failed": progress.failed,
            "retried": progress.retried,
            "seconds": round(progress.seconds, 3),
            "written_tokens": progress.load.written_tokens,
        }
        typer.echo(json.dumps(said))
        return
    kept = f", {progress.kept} from earlier runs" if progress.kept else ""
    typer.echo(
        f"{name}: all {progress.total} trials finished{kept}; "
        f"{progress.done} done and {progress.failed} failed in {clock(progress.seconds)}"
    )
    if progress.failed:
        typer.echo(f"why trials failed: llm-planning sweep status {folder}")
    typer.echo(f"results: llm-planning sweep report {folder}")


def _say_where(folder: Path) -> None:
    """What of a sweep that broke off is recorded, if it has a ledger."""
    try:
        with Ledger.open(folder) as ledger:
            finished, total = len(ledger.finished()), len(ledger.sweep["trials"])
    except LedgerError:
        return
    typer.echo(
        f"{finished} of {total} trials are recorded; to go on: llm-planning sweep resume {folder}",
        err=True,
    )


def _tell(said: str) -> None:
    typer.echo(said, err=True)
