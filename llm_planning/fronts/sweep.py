"""The command line of `llm-planning sweep`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from llm_planning.fronts.options import (
    CacheOption,
    JsonOption,
    SweepFolderArgument,
    Where,
    Work,
    name,
    named_path,
)

app = typer.Typer(help="Run many trials from one YAML file, resume them, and see what came out.")

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="The sweep's YAML file, or a name such as too/figure3-small."
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        parser=named_path,
        help="Folder for the results.  [default: ./sweeps/NAME]",
    ),
]
DryOption = Annotated[
    bool, typer.Option("--dry-run", help="List the trials and estimate their cost; record nothing.")
]
SamplesOption = Annotated[
    int,
    typer.Option(
        min=0, max=1_000_000, help="Trials that --dry-run runs to estimate the rest; 0 only lists."
    ),
]
DeterministicOption = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="No answer depends on what is computed beside it, and none is from the cache. Slow "
        "without an NVIDIA GPU of compute capability 8.0.",
    ),
]
ExecutorOption = Annotated[
    Where, typer.Option(help="Where trials run: in this process, or on Ray workers.")
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
AddressOption = Annotated[
    str | None, typer.Option(help="Address of a running Ray cluster.  [default: start one here]")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1, max=10_000, help="Ray workers, each with an engine.  [default: one per GPU]"
    ),
]
CpusOption = Annotated[
    int,
    typer.Option(min=1, max=10_000, help="CPU slots of a Ray worker on machines without a GPU."),
]
TrustOption = Annotated[
    list[str],
    typer.Option(
        metavar="NAME",
        parser=name,
        help="Let the sweep use this code, this model or this file to be written, or those in this "
        "folder; may be repeated.",
    ),
]
ByOption = Annotated[
    list[str], typer.Option(metavar="FIELD", help="Group by this field; may be repeated.")
]
TableOption = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FILE", parser=named_path, help="File to write; ends in .csv or .parquet."
    ),
]


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
    trust: TrustOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    as_json: JsonOption = False,
) -> Work:
    """Runs the trials of a YAML file. Run again, it goes on with those still missing.

    Exits with 0 when the sweep ran to its end, failed trials included; with 1 when a model, the
    engine, Ray or the ledger failed; with 2 for a file that says something impossible; with 130
    when interrupted. What had ended is always recorded, and `sweep resume` goes on.

    With the response cache a sweep run twice gives the same answers. Without it, an answer can
    depend on the batch that it was computed in, because floating-point sums do. --deterministic
    excludes that. On NVIDIA GPUs from compute capability 8.0 on it uses vLLM's batch-invariant
    kernels, which cost some speed. Elsewhere it asks one question at a time, which gives up all
    that batching gains. Either way answers are the same only on the same hardware and versions.

    A sweep may be somebody else's. Code, models that do not come with this program, and files to be
    written are used only if --trust names them too.
    """
    from llm_planning.commands import sweep as commands
    from llm_planning.experiments.sweep_files import Trust

    options = commands.SweepOptions(
        where=executor,
        cached=cache,
        deterministic=deterministic,
        most=concurrency,
        address=ray_address,
        workers=ray_workers,
        cpus=ray_cpus,
        trust=Trust.of(trust),
    )
    if dry_run:
        return partial(commands.dry_run, file, options=options, samples=samples, as_json=as_json)
    return partial(commands.run, file, out=out, options=options, as_json=as_json)


@app.command()
def resume(
    folder: SweepFolderArgument,
    *,
    cache: CacheOption = True,
    deterministic: DeterministicOption = False,
    executor: ExecutorOption = Where.LOCAL,
    concurrency: ConcurrencyOption = None,
    ray_address: AddressOption = None,
    ray_workers: WorkersOption = None,
    ray_cpus: CpusOption = 8,
    trust: TrustOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    as_json: JsonOption = False,
) -> Work:
    """Runs the trials of a sweep that are still missing, without its YAML file.

    Exits as `sweep run` does.
    """
    from llm_planning.commands import sweep as commands
    from llm_planning.experiments.sweep_files import Trust

    options = commands.SweepOptions(
        where=executor,
        cached=cache,
        deterministic=deterministic,
        most=concurrency,
        address=ray_address,
        workers=ray_workers,
        cpus=ray_cpus,
        trust=Trust.of(trust),
    )
    return partial(commands.resume, folder, options=options, as_json=as_json)


@app.command()
def status(folder: SweepFolderArgument, *, as_json: JsonOption = False) -> Work:
    """Shows how far a sweep is, also while it runs; exits with 1 if it cannot be read."""
    from llm_planning.commands import sweep_results as commands

    return partial(commands.status, folder, as_json=as_json)


@app.command()
def report(
    folder: SweepFolderArgument,
    *,
    by: ByOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    as_json: JsonOption = False,
) -> Work:
    """Shows success, calls, tokens and seconds of each planner and setting, with intervals.

    Exits with 1 if the sweep cannot be read; with 2 for a field that trials do not have.
    """
    from llm_planning.commands import sweep_results as commands

    return partial(commands.report, folder, by=by, as_json=as_json)


@app.command()
def export(folder: SweepFolderArgument, *, out: TableOption, as_json: JsonOption = False) -> Work:
    """Writes a row for every finished trial to a CSV or Parquet file.

    Exits with 1 if the sweep cannot be read; with 2 for a file that cannot be written.
    """
    from llm_planning.commands import sweep_results as commands

    return partial(commands.export, folder, out=out, as_json=as_json)
