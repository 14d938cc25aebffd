"""The command line of `llm-planning gpu-check`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from llm_planning.cli.options import Work, name, named_path

OutOption = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER", parser=named_path, help="Gets gpu-check.txt and gpu-check.json."
    ),
]
OnlyOption = Annotated[
    str | None, typer.Option(metavar="NAMES", help="These checks alone, separated by commas.")
]
QuickOption = Annotated[bool, typer.Option("--quick", help="Leave the benchmarks out.")]
ModelOption = Annotated[str, typer.Option(parser=name, help="The model that is opened.")]
LimitOption = Annotated[
    int, typer.Option(min=1, max=86_400, metavar="SECONDS", help="The longest for each check.")
]


def gpu_check(
    *,
    out: OutOption = Path("gpu-check"),
    only: OnlyOption = None,
    quick: QuickOption = False,
    model: ModelOption = "smollm2-135m-instruct",
    limit: LimitOption = 900,
) -> Work:
    """Checks what this GPU answers, then measures how fast; writes one report.

    Each check is a process of its own. Scores, constrained answers, two engines and closing are
    compared with slower ways to the same answers. Without a GPU the CPU is checked. Exits with 1
    if an answer is wrong or a check fails.
    """
    from llm_planning.commands import gpu_check as commands

    return partial(commands.gpu_check, out=out, only=only, quick=quick, model=model, limit=limit)
