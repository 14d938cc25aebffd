"""The command line of `llm-planning minecraft`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from llm_planning.cli.options import JsonOption, Work  # noqa: TC001 - typer reads them

app = typer.Typer(help="The rules of Minecraft 1.16.")

ItemsArgument = Annotated[
    list[str], typer.Argument(metavar="ITEM...", help="Items by their names in the game.")
]


@app.callback()
def choose() -> None:
    """The rules of Minecraft 1.16."""


@app.command()
def requirements(items: ItemsArgument, *, as_json: JsonOption = False) -> Work:
    """Shows what items need, and which action obtains them: the truth that agents have to learn.

    Exits with 2 if there is no such item, with 1 if the rules cannot be read, go in a circle or
    need what they do not have.
    """
    from llm_planning.commands import minecraft as commands

    return partial(commands.requirements, items, as_json=as_json)
