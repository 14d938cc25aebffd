"""All of `llm-planning`, as Typer reads it."""

from __future__ import annotations

import typer

from llm_planning.cli import (
    cache,
    distill,
    doctor,
    gpu_check,
    index,
    minecraft,
    models,
    report,
    roles,
    run,
    sweep,
    view,
)
from llm_planning.endings import TRACEBACK

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Published LLM planners on an open-weight model in this process, offline.",
    epilog=(
        "Exit codes: 0 done; 1 a file, a model or an engine failed; 2 the command line or a "
        f"configuration says something impossible; 70 a bug ({TRACEBACK}=1 shows where); "
        "130 interrupted."
    ),
)
app.command()(run.run)
app.command()(doctor.doctor)
app.command()(gpu_check.gpu_check)
app.command()(distill.distill)
app.command()(view.view)
app.add_typer(models.app, name="models")
app.add_typer(cache.app, name="cache")
app.add_typer(sweep.app, name="sweep")
app.add_typer(report.app, name="report")
app.add_typer(roles.app, name="roles")
app.add_typer(index.app, name="index")
app.add_typer(minecraft.app, name="minecraft")


@app.callback()
def configure() -> None:
    """Published LLM planners on an open-weight model in this process, offline."""
