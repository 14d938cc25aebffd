"""`llm-planning cache`: what the caches of answers, vectors and games hold, and emptying them."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from llm_planning.environments.textgame.transition_files import (
    GameShare,
    TransitionStats,
    remove_transitions,
    transition_folder,
    transition_stats,
)
from llm_serving.cache import CacheStats, ResponseCache, response_cache_path
from llm_serving.cache_file import UnreadableCacheError, remove_cache_file
from llm_serving.errors import ServingError
from llm_serving.vector_store import VectorCache, VectorStats, vector_cache_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

app = typer.Typer(
    no_args_is_help=True,
    help="The caches that make repeated questions, embeddings and moves of games free.",
)


class Kind(StrEnum):
    """The caches there are."""

    RESPONSES = "responses"
    VECTORS = "vectors"
    TRANSITIONS = "transitions"


Stats: TypeAlias = CacheStats | VectorStats | TransitionStats

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
OnlyOption = Annotated[Kind | None, typer.Option(help="Leave the other caches alone.")]

_UNITS = {Kind.RESPONSES: "answers", Kind.VECTORS: "vectors", Kind.TRANSITIONS: "transitions"}


@dataclass(frozen=True, slots=True)
class _Held:
    """What a cache held before it was cleared; without stats where it cannot be read."""

    kind: Kind
    path: Path
    stats: Stats | None

    def __str__(self) -> str:
        return "unreadable" if self.stats is None else _summary(self.kind, self.stats)


@app.command()
def show(*, as_json: JsonOption = False) -> None:
    """Shows where the caches are, their sizes, and the share of each model and game.

    A transition memory that is damaged or of another version is listed as unreadable: it is begun
    anew when its game is played. Exits with 1 if another file cannot be read.
    """
    try:
        held = {kind: _stats(kind) for kind in Kind}
    except ServingError as error:
        raise _failure(error) from error
    if as_json:
        told = {kind: {"path": str(_path(kind)), **asdict(held[kind])} for kind in Kind}
        typer.echo(json.dumps(_object(told)))
        return
    console = Console()
    for kind, stats in held.items():
        console.print(Text(f"{_path(kind)}: {_summary(kind, stats)}"), soft_wrap=True)
        table = _table(stats)
        if table.row_count:
            console.print(table)


@app.command()
def clear(*, only: OnlyOption = None, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Removes every cached answer, vector and transition of a game; asks first on a terminal.

    Runs that use a cache at this moment go on, and fill it anew; those that play a game keep what
    they learn to themselves. A damaged file, or one that is not a cache of this version, is
    deleted. Exits with 1 if that is not possible.
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
        typer.echo(json.dumps(_object(told)))
        return
    for one in held:
        typer.echo(f"{one.path}: {one}, now empty; {decimal(freed[one.kind])} freed")


def _object(told: Mapping[Kind, Mapping[str, object]]) -> dict[str, object]:
    """What is told of the answers, and within it that of every other cache by its name."""
    others = {str(kind): told[kind] for kind in Kind if kind is not Kind.RESPONSES}
    return {**told[Kind.RESPONSES], **others}


def _path(kind: Kind) -> Path:
    match kind:
        case Kind.RESPONSES:
            return response_cache_path()
        case Kind.VECTORS:
            return vector_cache_path()
        case Kind.TRANSITIONS:
            return transition_folder()


def _stats(kind: Kind) -> Stats:
    # Looking must not create the file.
    exists = _path(kind).exists()
    match kind:
        case Kind.RESPONSES if exists:
            with closing(ResponseCache(response_cache_path())) as responses:
                return responses.stats()
        case Kind.RESPONSES:
            return CacheStats(entries=0, bytes=0, file_bytes=0, models=())
        case Kind.VECTORS if exists:
            with closing(VectorCache(vector_cache_path())) as vectors:
                return vectors.stats()
        case Kind.VECTORS:
            return VectorStats(entries=0, bytes=0, file_bytes=0, encoders=())
        case Kind.TRANSITIONS:
            return transition_stats()


def _held(kind: Kind) -> _Held:
    try:
        return _Held(kind, _path(kind), _stats(kind))
    except UnreadableCacheError:
        return _Held(kind, _path(kind), None)


def _clear(held: _Held) -> int:
    """Empties a cache, or deletes a file without stats; returns the bytes given back."""
    if not held.path.exists():
        return 0
    if held.kind is Kind.TRANSITIONS:
        return remove_transitions()
    if held.stats is None:
        freed = held.path.stat().st_size
        remove_cache_file(held.path)
        return freed
    opened = ResponseCache if held.kind is Kind.RESPONSES else VectorCache
    with closing(opened(held.path)) as cache:
        cache.clear()
        return max(0, held.stats.file_bytes - cache.stats().file_bytes)


def _cleared(kind: Kind, removed: int | None, freed: int) -> dict[str, str | int | None]:
    return {"path": str(_path(kind)), "removed": removed, "freed_bytes": freed}


def _summary(kind: Kind, stats: Stats) -> str:
    return f"{stats.entries} {_UNITS[kind]}, {decimal(stats.file_bytes)} on disk"


def _table(stats: Stats) -> Table:
    if isinstance(stats, CacheStats):
        table = Table("model", "revision", "dtype", "answers", "size")
        rows = [(m.name, m.revision, m.dtype, m.entries, m.bytes) for m in stats.models]
    elif isinstance(stats, TransitionStats):
        table = Table("game", "revision", "states", "transitions", "size")
        rows = [(g.name, g.revision, _states(g), g.entries, g.file_bytes) for g in stats.games]
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


def _states(share: GameShare) -> str:
    return "unreadable" if share.states is None else str(share.states)


def _failure(error: Exception) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(1)
