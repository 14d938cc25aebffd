"""The command line of `llm-planning sweep`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, wraps
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from llm_planning.cli.options import (
    CacheOption,
    ExecutorKind,
    JsonOption,
    SweepFolderArgument,
    Work,
    name,
    named_path,
)
from llm_planning.endings import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

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
    bool,
    typer.Option("--dry-run", help="List the trials; with --samples, estimate their cost, too."),
]
SamplesOption = Annotated[
    int,
    typer.Option(
        min=0,
        max=1_000_000,
        help="Trials that --dry-run runs to estimate the rest; 0 loads no model.",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """How trials are run: the options that `sweep run` and `sweep resume` share."""

    cache: CacheOption = True
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="No answer depends on what is computed beside it, and none is from the cache. "
            "Slow without an NVIDIA GPU of compute capability 8.0.",
        ),
    ] = False
    executor: Annotated[
        ExecutorKind, typer.Option(help="Where trials run: in this process, or on Ray workers.")
    ] = ExecutorKind.LOCAL
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1_000_000,
            metavar="N",
            help="Trials that an engine runs at once at most.  [default: as its load allows]",
        ),
    ] = None
    ray_address: Annotated[
        str | None,
        typer.Option(help="Address of a running Ray cluster.  [default: start one here]"),
    ] = None
    ray_workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="Ray workers, each with an engine.  [default: one per GPU]"
        ),
    ] = None
    ray_cpus: Annotated[
        int,
        typer.Option(
            min=1, max=10_000, help="CPU slots of a Ray worker on machines without a GPU."
        ),
    ] = 8
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            parser=name,
            help="Let the sweep use this code, this model or this file to be written, or those in "
            "this folder; may be repeated.",
        ),
    ] = None


def _with_sweep_options(command: Callable[..., Work]) -> Callable[..., Work]:
    """Shows Typer each field of `SweepOptions` in place of a command's parameter `options`."""
    hints = get_type_hints(SweepOptions, include_extras=True)
    shared = [
        field.replace(annotation=hints[field.name])
        for field in signature(SweepOptions).parameters.values()
    ]
    parameters = [
        shown
        for own in signature(command, eval_str=True).parameters.values()
        for shown in (shared if own.name == "options" else [own])
    ]

    @wraps(command)
    def expanded(**given: Any) -> Work:  # noqa: ANN401 - whatever Typer has read
        options = SweepOptions(**{field: given.pop(field) for field in hints})
        return command(**given, options=options)

    expanded.__annotations__ = {one.name: one.annotation for one in parameters}
    expanded.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return expanded


@app.command()
@_with_sweep_options
def run(
    file: FileArgument,
    *,
    out: OutOption = None,
    dry_run: DryOption = False,
    samples: SamplesOption = 0,
    options: SweepOptions,
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

    if dry_run:
        return partial(commands.dry_run, file, options=options, samples=samples, as_json=as_json)
    if samples:
        raise UsageError("--samples: only --dry-run takes samples: add it, or leave --samples out")
    return partial(commands.run, file, out=out, options=options, as_json=as_json)


@app.command()
@_with_sweep_options
def resume(
    folder: SweepFolderArgument,
    *,
    options: SweepOptions,
    as_json: JsonOption = False,
) -> Work:
    """Runs the trials of a sweep that are still missing, without its YAML file.

    Exits as `sweep run` does.
    """
    from llm_planning.commands import sweep as commands

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
