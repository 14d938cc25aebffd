"""The command line of `llm-planning models`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from llm_planning.cli.options import JsonOption, Work  # noqa: TC001 - typer reads them

app = typer.Typer(help="List, fetch and find models: bundled, in a folder, or on the hub.")

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A bundled name, a local folder or a hub id, with @REVISION or without.",
    ),
]
VerifyOption = Annotated[
    bool, typer.Option("--verify", help="Read every byte, and fetch anew what is damaged.")
]


@app.command("list")
def list_models(*, as_json: JsonOption = False) -> Work:
    """Lists the bundled models and whether each is on this machine."""
    from llm_planning.commands import models as commands

    return partial(commands.list_models, as_json=as_json)


@app.command("fetch")
def fetch_model(
    name: NameArgument, *, verify: VerifyOption = False, as_json: JsonOption = False
) -> Work:
    """Brings a model to this machine; one that is there already is left alone.

    May be interrupted and run again. Exits with 1 if the model is unknown or cannot be fetched.
    """
    from llm_planning.commands import models as commands

    return partial(commands.fetch_model, name, verify=verify, as_json=as_json)


@app.command("path")
def show_path(name: NameArgument, *, as_json: JsonOption = False) -> Work:
    """Prints the folder of a model that is on this machine; fetches nothing.

    Exits with 1 if the model is unknown or not fetched.
    """
    from llm_planning.commands import models as commands

    return partial(commands.show_path, name, as_json=as_json)
