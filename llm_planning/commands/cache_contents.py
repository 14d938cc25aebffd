"""What the caches of answers, vectors and games hold, and emptying them."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rich.filesize import decimal
from rich.table import Table

from llm_base.terminal import literal
from llm_planning.commands.options import Kind
from llm_planning.environments.textgame.transition_store import (
    GameShare,
    TransitionStats,
    remove_transitions,
    transition_folder,
    transition_stats,
)
from llm_serving.cache_file import UnreadableCacheError, remove_cache_file
from llm_serving.stores import (
    CacheStats,
    ResponseCache,
    Store,
    VectorCache,
    response_cache_path,
    vector_cache_path,
)

if TYPE_CHECKING:
    from pathlib import Path

Stats: TypeAlias = CacheStats | TransitionStats

_COLUMNS = {
    Kind.RESPONSES: ("model", "dtype"),
    Kind.VECTORS: ("encoder", "dimension"),
    Kind.TRANSITIONS: ("game", "states"),
}
_UNITS = {Kind.RESPONSES: "answers", Kind.VECTORS: "vectors", Kind.TRANSITIONS: "transitions"}


@dataclass(frozen=True, slots=True)
class Content:
    """What a cache holds; its stats are None where it cannot be read."""

    kind: Kind
    path: Path
    stats: Stats | None

    def __str__(self) -> str:
        return "unreadable" if self.stats is None else summary(self.kind, self.stats)


def cache_path(kind: Kind) -> Path:
    """Where a cache is: a file, or a folder of files."""
    match kind:
        case Kind.RESPONSES:
            return response_cache_path()
        case Kind.VECTORS:
            return vector_cache_path()
        case Kind.TRANSITIONS:
            return transition_folder()


def stats_of(kind: Kind) -> Stats:
    """What a cache holds.

    Raises:
        UnreadableCacheError: it cannot be read.
    """
    if kind is Kind.TRANSITIONS:
        return transition_stats()
    # Looking must not create the file.
    if not os.path.exists(cache_path(kind)):
        return CacheStats()
    with closing(_opened(kind)) as cache:
        return cache.stats()


def _opened(kind: Kind) -> Store:
    return (ResponseCache if kind is Kind.RESPONSES else VectorCache)(cache_path(kind))


def content_of(kind: Kind) -> Content:
    """What a cache holds, also of one that cannot be read."""
    try:
        return Content(kind, cache_path(kind), stats_of(kind))
    except UnreadableCacheError:
        return Content(kind, cache_path(kind), None)


def emptied(content: Content) -> int:
    """Empties a cache, or deletes its unreadable file; returns the bytes given back."""
    if not os.path.exists(content.path):
        return 0
    if content.kind is Kind.TRANSITIONS:
        return remove_transitions()
    if content.stats is None:
        freed = content.path.stat().st_size
        remove_cache_file(content.path)
        return freed
    with closing(_opened(content.kind)) as cache:
        cache.clear()
        return max(0, content.stats.file_bytes - cache.stats().file_bytes)


def summary(kind: Kind, stats: Stats) -> str:
    """What a cache holds, in words."""
    return f"{stats.entries} {_UNITS[kind]}, {decimal(stats.file_bytes)} on disk"


def table_of(kind: Kind, stats: Stats) -> Table:
    """What a cache holds, by model, encoder or game."""
    name, form = _COLUMNS[kind]
    table = Table(name, "revision", form, _UNITS[kind], "size")
    rows = (
        [(g.name, g.revision, _states(g), g.entries, g.file_bytes) for g in stats.games]
        if isinstance(stats, TransitionStats)
        else [(s.name, s.revision, s.form, s.entries, s.bytes) for s in stats.shares]
    )
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
