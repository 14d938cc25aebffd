"""`llm-planning gpu-check`: is what a GPU gives right, and then, is it fast?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from llm_planning.cli.options import check_writable_folder
from llm_planning.endings import UsageError
from llm_planning.gpu_check.report import names_of_checks, run_checks, write_report
from llm_serving.terminal import say

if TYPE_CHECKING:
    from pathlib import Path


def gpu_check(*, out: Path, only: str | None, quick: bool, model: str, limit: int) -> None:
    """Runs the checks, and writes and prints the report.

    Raises:
        UsageError: there is no such check, or the folder cannot be written.
        typer.Exit: with 1 if an answer is wrong or a check failed, otherwise with 0.
    """
    check_writable_folder(out)
    names = names_of_checks(quick=quick)
    if only is not None:
        known, names = names, only.split(",")
        for name in names:
            if name not in known:
                raise UsageError(f"--only {name}: no such check; there are {', '.join(known)}")
    outcomes = run_checks(names, model=model, limit=limit, tell=say)
    say(write_report(outcomes, out))
    say(f"written: {out / 'gpu-check.txt'} and {out / 'gpu-check.json'}")
    raise typer.Exit(int(any(one.verdict in {"wrong", "failed"} for one in outcomes)))
