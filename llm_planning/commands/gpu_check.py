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
        metavar="FOLDER",
        parser=named_path,
        help="Gets the report gpu-check.txt, gpu-check.json and gpu-check.jsonl, and a log a step.",
    ),
]
OnlyOption = Annotated[
    str | None, typer.Option(metavar="NAMES", help="These steps alone, separated by commas.")
]
QuickOption = Annotated[bool, typer.Option("--quick", help="Leave the benchmarks out.")]
ModelOption = Annotated[
    str,
    typer.Option(
        parser=name,
        help="The model that is opened; `random` has SmolLM2's sizes, and nobody has to fetch it. "
        "Steps that name their sizes need none.",
    ),
]
LimitOption = Annotated[
    int, typer.Option(min=1, max=86_400, metavar="SECONDS", help="The longest for each step.")
]
MinutesOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1_440,
        metavar="MINUTES",
        help="The longest for all steps together: each gets its share at most, and what is left "
        "then is not run.  [default: any]",
    ),
]


def gpu_check(
    *,
    out: OutOption = Path("gpu-check"),
    only: OnlyOption = None,
    quick: QuickOption = False,
    model: ModelOption = "smollm2-135m-instruct",
    limit: LimitOption = 900,
    minutes: MinutesOption = None,
) -> None:
    """Checks what this GPU answers, then measures how fast; writes one report.

    Each step is a process of its own, in the order of worth: the machine, the similarity kernel,
    engines of the sizes of Qwen2.5-VL-7B and SmolLM2-135M with random weights, then single checks
    and benchmarks. Answers are compared with slower ways to the same answers. What a step finds is
    in FOLDER at once. Without a GPU the CPU is checked. Exits with 1 if an answer is wrong or a
    step fails.
    """
    from llm_base.terminal import say
    from llm_planning.gpu_check.report import (
        LINES,
        exit_code,
        names_of_checks,
        remember,
        run_checks,
    )

    check_writable_folder(out)
    if (out / LINES).exists():
        raise UsageError(f"--out {out} has the results of an earlier check: name another folder")
    names = names_of_checks(quick=quick)
    if only is not None:
        known, names = names, only.split(",")
        for chosen in names:
            if chosen not in known:
                raise UsageError(f"--only {chosen}: no such step; there are {', '.join(known)}")
    outcomes = run_checks(names, model=model, out=out, limit=limit, minutes=minutes, notify=say)
    remember(outcomes)
    say((out / "gpu-check.txt").read_text(encoding="utf-8"))
    say(f"written: {out / 'gpu-check.txt'} and {out / 'gpu-check.json'}")
    raise typer.Exit(exit_code(outcomes))
