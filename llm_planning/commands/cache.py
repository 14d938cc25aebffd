"""`llm-planning cache`: what the response cache holds, and emptying it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from llm_serving.cache import (
    CacheStats,
    ResponseCache,
    UnreadableCacheError,
    remove_response_cache,
    response_cache_path,
)
from llm_serving.errors import ServingError

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer(
    no_args_is_help=True, help="The cache of answers that makes repeated questions free."
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

_EMPTY = CacheStats(entries=0, bytes=0, file_bytes=0, models=())


@app.command()
def show(*, as_json: JsonOption = False) -> None:
    """Shows where the cache is, its size, and the share of each model.

    Exits with 1 if the file cannot be read.
    """
    path = response_cache_path()
    try:
        stats = _stats(path)
    except ServingError as error:
        raise _failure(error) from error
    if as_json:
        typer.echo(json.dumps({"path": str(path), **asdict(stats)}))
        return
    console = Console()
    console.print(Text(f"{path}: {_summary(stats)}"), soft_wrap=True)
    if stats.models:
        console.print(_table(stats))


@app.command()
def clear(*, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Removes every cached answer; asks first on a terminal.

    Runs that use the cache at this moment go on, and fill it anew. A damaged file, or one that is
    not a response cache of this version, is deleted. Exits with 1 if that is not possible.
    """
    path = response_cache_path()
    try:
        stats: CacheStats | None = _stats(path)
    except UnreadableCacheError:
        stats = None
    except ServingError as error:
        raise _failure(error) from error
    held = "unreadable" if stats is None else _summary(stats)
    if path.exists() and not yes and sys.stdin.isatty():
        typer.confirm(f"Remove the response cache {path} ({held})?", abort=True, err=True)
    try:
        freed = _clear(path, stats)
    except (ServingError, OSError) as error:
        raise _failure(error) from error
    if as_json:
        removed = None if stats is None else stats.entries
        typer.echo(json.dumps({"path": str(path), "removed": removed, "freed_bytes": freed}))
    else:
        typer.echo(f"{path}: {held}, now empty; {decimal(freed)} freed")


def _stats(path: Path) -> CacheStats:
    # Looking must not create the file.
    if not path.exists():
        return _EMPTY
    cache = ResponseCache(path)
    try:
        return cache.stats()
    finally:
        cache.close()


def _clear(path: Path, stats: CacheStats | None) -> int:
    """Empties the cache, or deletes a file without stats; returns the bytes given back."""
    if not path.exists():
        return 0
    if stats is None:
        freed = path.stat().st_size
        remove_response_cache(path)
        return freed
    cache = ResponseCache(path)
    try:
        cache.clear()
        return max(0, stats.file_bytes - cache.stats().file_bytes)
    finally:
        cache.close()


def _summary(stats: CacheStats) -> str:
    return f"{stats.entries} answers, {decimal(stats.file_bytes)} on disk"


def _table(stats: CacheStats) -> Table:
    table = Table("model", "revision", "dtype", "answers", "size")
    for column in table.columns:
        column.overflow = "fold"
    for column in table.columns[3:]:
        column.justify = "right"
    for model in stats.models:
        table.add_row(
            Text(model.name),
            Text(model.revision[:12]),
            model.dtype,
            str(model.entries),
            decimal(model.bytes),
        )
    return table


def _failure(error: Exception) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(1)
