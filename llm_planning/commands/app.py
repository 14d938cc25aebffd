"""All of `llm-planning`, as Typer reads it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand

from llm_planning.commands import (
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

if TYPE_CHECKING:
    from collections.abc import Callable

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
for command in (run.run, doctor.doctor, gpu_check.gpu_check, distill.distill, view.view):
    app.command()(command)
_GROUPS: Final = {
    "models": models.app,
    "cache": cache.app,
    "sweep": sweep.app,
    "report": report.app,
    "roles": roles.app,
    "index": index.app,
    "minecraft": minecraft.app,
}
for name, group in _GROUPS.items():
    app.add_typer(group, name=name, context_settings=_NOT_GIVEN)


class _Command(TyperCommand):
    """A command that is given its options now, and works when `llm_planning.cli` says so.

    Typer would make something else of Ctrl-C and of a reader that left.
    """

    def invoke(self, ctx: Any) -> Callable[[], None]:  # noqa: ANN401 - Typer exports no such class
        """The work, ready to run."""
        return partial(super().invoke, ctx)


for commands in (app, *_GROUPS.values()):
    for registered in commands.registered_commands:
        registered.cls = _Command


@app.callback()
def configure() -> None:
    """Published LLM planners on an open-weight model in this process, offline."""
