"""The `llm-planning` command."""

from __future__ import annotations

import typer

from llm_planning.commands import cache, doctor, index, minecraft, models, report, sweep
from llm_planning.commands.run import quiet_pipes, run

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="LLM planners on an open-weight model in this process, offline.",
)
app.command()(run)
app.command()(doctor.doctor)
app.add_typer(models.app, name="models")
app.add_typer(cache.app, name="cache")
app.add_typer(sweep.app, name="sweep")
app.add_typer(report.app, name="report")
app.add_typer(index.app, name="index")
app.add_typer(minecraft.app, name="minecraft")


@app.callback()
def configure() -> None:
    """LLM planners on an open-weight model in this process, offline."""
    quiet_pipes()


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
