"""All of `llm-planning`, as Typer reads it."""

from __future__ import annotations

from typing import Final

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

_NOT_GIVEN: Final = {
    "default_map": dict.fromkeys(("help", "install_completion", "show_completion"), False)
}
"""Typer checks a flag of a group that is not given, None, with Pydantic, unless it is False. The
import of Pydantic takes longer than all of a help."""

app = typer.Typer(
    context_settings=_NOT_GIVEN,
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
_GROUPS: Final = {
    "models": models.app,
    "cache": cache.app,
    "sweep": sweep.app,
    "report": report.app,
    "roles": roles.app,
    "index": index.app,
    "minecraft": minecraft.app,
}
for group, commands in _GROUPS.items():
    app.add_typer(commands, name=group, context_settings=_NOT_GIVEN)


@app.callback()
def configure() -> None:
    """Published LLM planners on an open-weight model in this process, offline."""
