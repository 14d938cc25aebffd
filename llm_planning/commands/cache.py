"""`llm-planning cache`: what the caches of answers, vectors and games hold, and emptying them."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeAlias

import typer
from rich.filesize import decimal
from rich.table import Table

from llm_kernels.quoting import printable
from llm_planning.cli.options import Kind
from llm_planning.environments.textgame.transition_store import (
    GameShare,
    TransitionStats,
    remove_transitions,
    transition_folder,
    transition_stats,
)
from llm_serving.cache_file import UnreadableCacheError, remove_cache_file
from llm_serving.response_store import CacheStats, ResponseCache, response_cache_path
from llm_serving.terminal import SafeConsole, literal, say
from llm_serving.vector_store import VectorCache, VectorStats, vector_cache_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Stats: TypeAlias = CacheStats | VectorStats | TransitionStats

_UNITS = {Kind.RESPONSES: "answers", Kind.VECTORS: "vectors", Kind.TRANSITIONS: "transitions"}


@dataclass(frozen=True, slots=True)
class _Content:
    """What a cache holds; its stats are None where it cannot be read."""

    kind: Kind
    path: Path
    stats: Stats | None

    def __str__(self) -> str:
        return "unreadable" if self.stats is None else _summary(self.kind, self.stats)


def show(*, as_json: bool) -> None:
    """Shows where the caches are, their sizes, and the share of each model and game."""
    content = {kind: _stats(kind) for kind in Kind}
    if as_json:
        told = {kind: {"path": str(_path(kind)), **asdict(content[kind])} for kind in Kind}
        say(json.dumps(_object(told)))
        return
    console = SafeConsole()
    for kind, stats in content.items():
        console.print(literal(f"{_path(kind)}: {_summary(kind, stats)}"), soft_wrap=True)
        table = _table(stats)
        if table.row_count:
            console.print(table)


def clear(*, only: Kind | None, yes: bool, as_json: bool) -> None:
    """Removes every cached answer, vector and transition of a game; asks first on a terminal."""
    chosen = tuple(Kind) if only is None else (only,)
    content = [_content(kind) for kind in chosen]
    existing = [one for one in content if os.path.exists(one.path)]
    if existing and not yes and sys.stdin.isatty():
        listed = " and ".join(f"{one.path} ({one})" for one in existing)
        _ask(f"Empty {listed}?")
    freed = {one.kind: _clear(one) for one in content}
    if as_json:
        told = {kind: _cleared(kind, 0, 0) for kind in Kind}
        for one in content:
            removed = None if one.stats is None else one.stats.entries
            told[one.kind] = _cleared(one.kind, removed, freed[one.kind])
        say(json.dumps(_object(told)))
        return
    for one in content:
        say(f"{one.path}: {one}, now empty; {decimal(freed[one.kind])} freed")


def _ask(question: str) -> None:
    """Goes on only if the user says yes.

    Raises:
        typer.Abort: the user does not say yes.
    """
    # Not `input`, which writes to standard output, where the answer belongs.
    print(printable(question), end=" [y/N] ", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise typer.Abort


def _object(told: Mapping[Kind, Mapping[str, object]]) -> dict[str, object]:
    """The JSON output: the fields of the response cache, and each other cache under its name."""
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
    exists = os.path.exists(_path(kind))
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


def _content(kind: Kind) -> _Content:
    try:
        return _Content(kind, _path(kind), _stats(kind))
    except UnreadableCacheError:
        return _Content(kind, _path(kind), None)


def _clear(content: _Content) -> int:
    """Empties a cache, or deletes its unreadable file; returns the bytes given back."""
    if not os.path.exists(content.path):
        return 0
    if content.kind is Kind.TRANSITIONS:
        return remove_transitions()
    if content.stats is None:
        freed = content.path.stat().st_size
        remove_cache_file(content.path)
        return freed
    opened = ResponseCache if content.kind is Kind.RESPONSES else VectorCache
    with closing(opened(content.path)) as cache:
        cache.clear()
        return max(0, content.stats.file_bytes - cache.stats().file_bytes)


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
        table.add_row(
            literal(name), literal(revision[:12]), literal(form), str(entries), decimal(size)
        )
    return table


def _states(share: GameShare) -> str:
    return "unreadable" if share.states is None else str(share.states)
