"""All transition memories in the cache folder: what they hold, and removing them."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_planning.environments.textgame.transition_store import LAYOUT
from llm_serving.cache_file import CacheFile, UnreadableCacheError, remove_cache_file
from llm_serving.models.folders import cache_folder

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIX = ".sqlite"
_COUNTS = "SELECT (SELECT count(*) FROM states), (SELECT count(*) FROM transitions)"


@dataclass(frozen=True, slots=True, kw_only=True)
class GameShare:
    """What is kept of one revision of a game.

    Attributes:
        name: of the game, as its file has it.
        revision: the digest in the file's name.
        states: kept; None where the file is damaged or of another version. It is begun anew when
            the game is played again.
        entries: transitions kept.
        file_bytes: size on disk, the write-ahead log included.
    """

    name: str
    revision: str
    states: int | None
    entries: int
    file_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionStats:
    """What the transition memories hold.

    Attributes:
        entries: transitions kept.
        file_bytes: size on disk, the write-ahead logs included.
        games: the share of each revision of a game, the largest first.
    """

    entries: int
    file_bytes: int
    games: tuple[GameShare, ...]


def transition_folder() -> Path:
    """Where the files lie, one for each revision of a game; it may not exist yet."""
    return cache_folder() / "transitions"


def transition_stats() -> TransitionStats:
    """Counts what is kept, game by game; creates nothing.

    Raises:
        CacheError: a file cannot be opened.
    """
    shares = sorted(map(_share, _files()), key=lambda share: (-share.file_bytes, share.name))
    return TransitionStats(
        entries=sum(share.entries for share in shares),
        file_bytes=sum(share.file_bytes for share in shares),
        games=tuple(shares),
    )


def remove_transitions() -> int:
    """Deletes every file, readable or not.

    Whole files, because the ways to a game's states are of no use without their beginning, which
    who is playing has put long ago: what such a player goes on to learn is no longer kept.

    Returns:
        The bytes given back.

    Raises:
        OSError: a file cannot be deleted.
    """
    freed = 0
    for file in _files():
        freed += _disk_bytes(file)
        remove_cache_file(file)
    for lock in transition_folder().glob(f".*{_SUFFIX}.lock"):
        lock.unlink(missing_ok=True)
    return freed


def _files() -> list[Path]:
    return sorted(transition_folder().glob(f"*{_SUFFIX}"))


def _disk_bytes(file: Path) -> int:
    """Of a file and its write-ahead log, which whoever plays may remove at any moment."""
    size = 0
    for part in (file, file.with_name(f"{file.name}-wal")):
        with suppress(FileNotFoundError):
            size += part.stat().st_size
    return size


def _share(file: Path) -> GameShare:
    name, _, revision = file.stem.rpartition("-")
    states, entries = None, 0
    with suppress(UnreadableCacheError), closing(CacheFile(file, LAYOUT)) as opened:
        ((states, entries),) = opened.run(_COUNTS)
    return GameShare(
        name=name,
        revision=revision,
        states=states,
        entries=entries,
        file_bytes=_disk_bytes(file),
    )
