"""`llm-planning models`: lists, fetches and finds models."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.filesize import decimal
from rich.table import Table

from llm_planning.interrupts import heard_while_loading
from llm_serving.errors import UnknownModelError
from llm_serving.models import CATALOGUE, cache_folder, fetch, fetch_verified, locate
from llm_serving.terminal import SafeConsole, say

if TYPE_CHECKING:
    from llm_serving.models import CatalogueModel


@dataclass(frozen=True, slots=True)
class _Row:
    """A bundled model, and its folder if it is fetched."""

    model: CatalogueModel
    path: str | None


def list_models(*, as_json: bool) -> None:
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
        say(json.dumps({"cache": str(cache_folder()), "models": models}))
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
    console = SafeConsole()
    console.print(table)
    console.print(
        "A local folder or a hub id, organisation/name or organisation/name@revision, is one, too.",
        soft_wrap=True,
    )


def fetch_model(name: str, *, verify: bool, as_json: bool) -> None:
    """Brings a model to this machine; one that is there already is left alone."""
    began = time.monotonic()
    with heard_while_loading():
        model = fetch_verified(name) if verify else fetch(name)
    if as_json:
        seconds = round(time.monotonic() - began, 3)
        say(
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
        say(f"{model.name}: {model.path}")


def show_path(name: str, *, as_json: bool) -> None:
    """Prints the folder of a model that is on this machine; fetches nothing."""
    model = locate(name)
    if as_json:
        say(json.dumps({"name": model.name, "path": str(model.path), "revision": model.revision}))
    else:
        say(str(model.path))


def _path_if_fetched(name: str) -> str | None:
    try:
        return str(locate(name).path)
    except UnknownModelError:
        return None
