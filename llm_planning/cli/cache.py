"""The command line of `llm-planning cache`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from llm_planning.cli.options import JsonOption, Kind, Work

app = typer.Typer(help="Answers, vectors and moves of games that are stored and used again.")

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
OnlyOption = Annotated[Kind | None, typer.Option(help="Clear this cache alone.")]


@app.command()
def show(*, as_json: JsonOption = False) -> Work:
    """Shows where the caches are, their sizes, and the share of each model and game.

    A transition memory that is damaged or of another version is listed as unreadable: it is begun
    anew when its game is played. Exits with 1 if another file cannot be read.
    """
    from llm_planning.commands import cache as commands

    return partial(commands.show, as_json=as_json)


@app.command()
def clear(*, only: OnlyOption = None, yes: YesOption = False, as_json: JsonOption = False) -> Work:
    """Removes every cached answer, vector and transition of a game; asks first on a terminal.

    Runs that use a cache at this moment go on, and fill it anew; those that play a game keep what
    they learn to themselves. A damaged file, or one that is not a cache of this version, is
    deleted. Exits with 1 if that is not possible.
    """
    from llm_planning.commands import cache as commands

    return partial(commands.clear, only=only, yes=yes, as_json=as_json)
