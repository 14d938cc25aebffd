"""`llm-planning cache`: what the caches of answers and of vectors hold, and emptying them."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from llm_serving.cache import CacheStats, ResponseCache, response_cache_path
from llm_serving.cache_file import UnreadableCacheError, remove_cache_file
from llm_serving.errors import ServingError
from llm_serving.vector_store import VectorCache, VectorStats, vector_cache_path

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer(
    no_args_is_help=True, help="The caches that make repeated questions and embeddings free."
)


class Kind(StrEnum):
    """The caches there are."""

    RESPONSES = "responses"
    VECTORS = "vectors"


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
OnlyOption = Annotated[Kind | None, typer.Option(help="Leave the other cache alone.")]

_UNITS = {Kind.RESPONSES: "answers", Kind.VECTORS: "vectors"}


@dataclass(frozen=True, slots=True)
class _Held:
    """What a cache held before it was cleared; without stats where it cannot be read."""

    kind: Kind
    path: Path
    stats: CacheStats | VectorStats | None

    def __str__(self) -> str:
        return "unreadable" if self.stats is None else _summary(self.kind, self.stats)


@app.command()
def show(*, as_json: JsonOption = False) -> None:
    """Shows where the caches are, their sizes, and the share of each model.

    Exits with 1 if a file cannot be read.
    """
    try:
        responses, vectors = _response_stats(), _vector_stats()
    except ServingError as error:
        raise _failure(error) from error
    paths = {kind: _path(kind) for kind in Kind}
    if as_json:
        kept = {"path": str(paths[Kind.VECTORS]), **asdict(vectors)}
        told = {"path": str(paths[Kind.RESPONSES]), **asdict(responses), "vectors": kept}
        typer.echo(json.dumps(told))
        return
    console = Console()
    for kind, stats in ((Kind.RESPONSES, responses), (Kind.VECTORS, vectors)):
        console.print(Text(f"{paths[kind]}: {_summary(kind, stats)}"), soft_wrap=True)
        if stats.entries:
            console.print(_table(stats))


@app.command()
def clear(*, only: OnlyOption = None, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Removes every cached answer and every cached vector; asks first on a terminal.

    Runs that use a cache at this moment go on, and fill it anew. A damaged file, or one that is
    not a cache of this version, is deleted. Exits with 1 if that is not possible.
    """
    chosen = tuple(Kind) if only is None else (only,)
    try:
        held = [_held(kind) for kind in chosen]
        existing = [one for one in held if one.path.exists()]
        if existing and not yes and sys.stdin.isatty():
            listed = " and ".join(f"{one.path} ({one})" for one in existing)
            typer.confirm(f"Empty {listed}?", abort=True, err=True)
        freed = {one.kind: _clear(one) for one in held}
    except (ServingError, OSError) as error:
        raise _failure(error) from error
    if as_json:
        told = {kind: _cleared(kind, 0, 0) for kind in Kind}
        for one in held:
            removed = None if one.stats is None else one.stats.entries
            told[one.kind] = _cleared(one.kind, removed, freed[one.kind])
        typer.echo(json.dumps({**told[Kind.RESPONSES], "vectors": told[Kind.VECTORS]}))
        return
    for one in held:
        typer.echo(f"{one.path}: {one}, now empty; {decimal(freed[one.kind])} freed")


def _path(kind: Kind) -> Path:
    return response_cache_path() if kind is Kind.RESPONSES else vector_cache_path()


def _open(kind: Kind) -> ResponseCache | VectorCache:
    path = _path(kind)
    return ResponseCache(path) if kind is Kind.RESPONSES else VectorCache(path)


def _response_stats() -> CacheStats:
    # Looking must not create the file.
    if not response_cache_path().exists():
        return CacheStats(entries=0, bytes=0, file_bytes=0, models=())
    with closing(ResponseCache(response_cache_path())) as cache:
        return cache.stats()


def _vector_stats() -> VectorStats:
    if not vector_cache_path().exists():
        return VectorStats(entries=0, bytes=0, file_bytes=0, encoders=())
    with closing(VectorCache(vector_cache_path())) as cache:
        return cache.stats()


def _held(kind: Kind) -> _Held:
    try:
        stats = _response_stats() if kind is Kind.RESPONSES else _vector_stats()
    except UnreadableCacheError:
        return _Held(kind, _path(kind), None)
    return _Held(kind, _path(kind), stats)


def _clear(held: _Held) -> int:
    """Empties a cache, or deletes a file without stats; returns the bytes given back."""
    if not held.path.exists():
        return 0
    if held.stats is None:
        freed = held.path.stat().st_size
        remove_cache_file(held.path)
        return freed
    with closing(_open(held.kind)) as cache:
        cache.clear()
        return max(0, held.stats.file_bytes - cache.stats().file_bytes)


def _cleared(kind: Kind, removed: int | None, freed: int) -> dict[str, str | int | None]:
    return {"path": str(_path(kind)), "removed": removed, "freed_bytes": freed}


def _summary(kind: Kind, stats: CacheStats | VectorStats) -> str:
    return f"{stats.entries} {_UNITS[kind]}, {decimal(stats.file_bytes)} on disk"


def _table(stats: CacheStats | VectorStats) -> Table:
    if isinstance(stats, CacheStats):
        table = Table("model", "revision", "dtype", "answers", "size")
        rows = [(m.name, m.revision, m.dtype, m.entries, m.bytes) for m in stats.models]
    else:
        table = Table("encoder", "revision", "dimension", "vectors", "size")
        rows = [(e.name, e.revision, str(e.dimension), e.entries, e.bytes) for e in stats.encoders]
    for column in table.columns:
        column.overflow = "fold"
    for column in table.columns[3:]:
        column.justify = "right"
    for name, revision, form, entries, size in rows:
        table.add_row(Text(name), Text(revision[:12]), form, str(entries), decimal(size))
    return table


def _failure(error: Exception) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(1)
