"""`llm-planning gpu-check`: is what a GPU gives right, and then, is it fast?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llm_planning.commands.options import check_writable_folder, name, named_path
from llm_planning.endings import UsageError

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
) -> None:
    """Checks what this GPU answers, then measures how fast; writes one report.

    Each check is a process of its own. Scores, constrained answers, two engines and closing are
    compared with slower ways to the same answers. Without a GPU the CPU is checked. Exits with 1
    if an answer is wrong or a check fails.
    """
    from llm_base.terminal import say
    from llm_planning.gpu_check.report import names_of_checks, remember, run_checks, write_report

    check_writable_folder(out)
    names = names_of_checks(quick=quick)
    if only is not None:
        known, names = names, only.split(",")
        for chosen in names:
            if chosen not in known:
                raise UsageError(f"--only {chosen}: no such check; there are {', '.join(known)}")
    outcomes = run_checks(names, model=model, limit=limit, notify=say)
    remember(outcomes)
    say(write_report(outcomes, out))
    say(f"written: {out / 'gpu-check.txt'} and {out / 'gpu-check.json'}")
    raise typer.Exit(int(any(outcome.verdict in {"wrong", "failed"} for outcome in outcomes)))
