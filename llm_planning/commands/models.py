"""`llm-planning models`: lists, fetches and finds models."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from llm_planning.commands.options import JsonOption  # noqa: TC001 - typer reads it

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
def list_models(*, as_json: JsonOption = False) -> None:
    """Lists the bundled models and whether each is on this machine."""
    from rich.filesize import decimal
    from rich.table import Table

    from llm_base.terminal import SafeConsole, say_json
    from llm_serving.models import CATALOGUE, cache_folder

    paths = {name: _path_if_fetched(name) for name in CATALOGUE}
    if as_json:
        models = [
            {
                "name": model.name,
                "kind": model.kind,
                "licence": model.licence,
                "bytes": model.folder_bytes,
                "revision": model.revision,
                "fetched": paths[name] is not None,
                "path": paths[name],
            }
            for name, model in CATALOGUE.items()
        ]
        say_json({"cache": str(cache_folder()), "models": models})
        return
    table = Table("model", "kind", "size", "licence", "fetched")
    for name, model in CATALOGUE.items():
        size, fetched = decimal(model.folder_bytes), "yes" if paths[name] else "no"
        table.add_row(name, model.kind, size, model.licence, fetched)
    console = SafeConsole()
    console.print(table)
    console.print(
        "A local folder or a hub id, organisation/name or organisation/name@revision, is one, too.",
        soft_wrap=True,
    )


@app.command("fetch")
def fetch_model(
    name: NameArgument, *, verify: VerifyOption = False, as_json: JsonOption = False
) -> None:
    """Brings a model to this machine; one that is there already is left alone.

    May be interrupted and run again. Exits with 1 if the model is unknown or cannot be fetched.
    """
    from llm_base.terminal import say, say_json
    from llm_planning.interrupts import heard_while_loading
    from llm_serving.models import fetch, fetch_verified

    began = time.monotonic()
    with heard_while_loading():
        model = fetch_verified(name) if verify else fetch(name)
    if as_json:
        about = {"name": model.name, "path": str(model.path), "revision": model.revision}
        say_json({**about, "verified": verify, "seconds": round(time.monotonic() - began, 3)})
    else:
        say(f"{model.name}: {model.path}")


@app.command("path")
def show_path(name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Prints the folder of a model that is on this machine; fetches nothing.

    Exits with 1 if the model is unknown or not fetched.
    """
    from llm_base.terminal import say, say_json
    from llm_serving.models import locate

    model = locate(name)
    if as_json:
        say_json({"name": model.name, "path": str(model.path), "revision": model.revision})
    else:
        say(str(model.path))


def _path_if_fetched(name: str) -> str | None:
    from llm_serving.errors import UnknownModelError
    from llm_serving.models import locate

    try:
        return str(locate(name).path)
    except UnknownModelError:
        return None
