"""All transition memories in the cache folder: what they hold, and removing them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_planning.environments.textgame.transition_store import LAYOUT
from llm_serving.cache_file import CacheFile, remove_cache_file
from llm_serving.models.folders import cache_folder

if TYPE_CHECKING:
    from pathlib import Path

_COUNTS = "SELECT (SELECT count(*) FROM states), (SELECT count(*) FROM transitions)"


@dataclass(frozen=True, slots=True, kw_only=True)
class GameShare:
    """What is kept of one revision of a game.

    Attributes:
        name: of the game, as its file has it.
        revision: the digest in the file's name.
        states: kept.
        entries: transitions kept.
        file_bytes: size on disk, the write-ahead log included.
    """

    name: str
    revision: str
    states: int
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
        UnreadableCacheError: a file is damaged, foreign or of another version.
        CacheError: one cannot be opened.
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
        freed += sum(part.stat().st_size for part in file.parent.glob(f"{file.name}*"))
        remove_cache_file(file)
    return freed


def _files() -> list[Path]:
    return sorted(transition_folder().glob("*.sqlite"))


def _share(file: Path) -> GameShare:
    name, _, revision = file.stem.rpartition("-")
    with closing(CacheFile(file, LAYOUT)) as opened:
        ((states, entries),) = opened.run(_COUNTS)
        return GameShare(
            name=name,
            revision=revision,
            states=states,
            entries=entries,
            file_bytes=opened.disk_bytes,
        )
