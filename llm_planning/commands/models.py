"""`llm-planning models`: which models there are, fetching them, and where they lie."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from llm_serving.errors import ServingError, UnknownModelError
from llm_serving.models import CATALOGUE, cache_folder, fetch, fetch_verified, locate

if TYPE_CHECKING:
    from llm_serving.models import BundledModel

app = typer.Typer(no_args_is_help=True, help="Models: bundled, in a local folder, or on the hub.")

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A bundled name, a local folder or a hub id.")
]
VerifyOption = Annotated[
    bool, typer.Option("--verify", help="Read every byte, and fetch anew what is damaged.")
]


@dataclass(frozen=True, slots=True)
class _Row:
    """A bundled model and where it lies, if it is fetched."""

    model: BundledModel
    path: str | None


@app.command("list")
def list_models(*, as_json: JsonOption = False) -> None:
    """Lists the bundled models and whether each is on this machine."""
    rows = [_Row(model, _path_if_fetched(model.name)) for model in CATALOGUE.values()]
    if as_json:
        models = [
            {
                "name": row.model.name,
                "kind": row.model.kind,
                "licence": row.model.licence,
                "bytes": row.model.folder_bytes,
                "revision": row.model.revision,
                "fetched": row.path is not None,
                "path": row.path,
            }
            for row in rows
        ]
        typer.echo(json.dumps({"cache": str(cache_folder()), "models": models}))
        return
    table = Table("model", "kind", "size", "licence", "fetched")
    for row in rows:
        table.add_row(
            row.model.name,
            row.model.kind,
            decimal(row.model.folder_bytes),
            row.model.licence,
            "no" if row.path is None else "yes",
        )
    console = Console()
    console.print(table)
    console.print("A local folder or a hub id (organisation/name) is a model, too.", soft_wrap=True)


@app.command("fetch")
def fetch_model(
    name: NameArgument, *, verify: VerifyOption = False, as_json: JsonOption = False
) -> None:
    """Brings a model to this machine; one that is there already is left alone.

    May be interrupted and run again. Exits with 1 if the model is unknown or cannot be fetched.
    """
    began = time.monotonic()
    try:
        model = fetch_verified(name) if verify else fetch(name)
    except ServingError as error:
        raise _failure(error) from error
    if as_json:
        seconds = round(time.monotonic() - began, 3)
        typer.echo(
            json.dumps(
                {
                    "name": model.name,
                    "path": str(model.path),
                    "revision": model.revision,
                    "verified": verify,
                    "seconds": seconds,
                }
            )
        )
    else:
        typer.echo(f"{model.name}: {model.path}")


@app.command("path")
def show_path(name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Prints the folder of a model that is on this machine; fetches nothing.

    Exits with 1 if the model is unknown or not fetched.
    """
    try:
        model = locate(name)
    except ServingError as error:
        raise _failure(error) from error
    if as_json:
        typer.echo(
            json.dumps({"name": model.name, "path": str(model.path), "revision": model.revision})
        )
    else:
        typer.echo(str(model.path))


def _path_if_fetched(name: str) -> str | None:
    try:
        return str(locate(name).path)
    except UnknownModelError:
        return None


def _failure(error: ServingError) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(1)
