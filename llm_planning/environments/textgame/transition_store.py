"""The files of transition memories: states and transitions in SQLite, and what all of them hold.

One file per game revision, shared by any number of processes. A row says something about the game
that cannot be otherwise, so whoever writes it first is right, and it is never changed; only the way
to a state may become a shorter one.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
import warnings
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from filelock import FileLock

from llm_planning.environments.textgame.game import Ending, Origin, TextGameError, Transition
from llm_serving.cache_file import (
    CacheError,
    CacheFile,
    CacheLayout,
    UnreadableCacheError,
    remove_cache_file,
)
from llm_serving.models.folders import cache_folder

if TYPE_CHECKING:
    from pathlib import Path

LAYOUT = CacheLayout(
    name="transition memory",
    clear="transitions",
    application_id=0x4C4C4D54,  # "LLMT"
    version=2,
    tables=(
        """CREATE TABLE states (
            state TEXT PRIMARY KEY,
            parent TEXT,
            action TEXT,
            depth INTEGER NOT NULL,
            look TEXT,
            inventory TEXT,
            actions TEXT
        )""",
        """CREATE TABLE transitions (
            state TEXT NOT NULL,
            action TEXT NOT NULL,
            next TEXT NOT NULL,
            text TEXT NOT NULL,
            reward REAL NOT NULL,
            ending TEXT,
            PRIMARY KEY (state, action)
        )""",
    ),
)

# Ways of several processes may mix. Every row is written after its parent's, and depths only fall:
# so along any way they fall too, and it ends at the beginning.
_PUT_STATE = (
    "INSERT INTO states (state, parent, action, depth) VALUES (?, ?, ?, ?) ON CONFLICT (state) DO "
    "UPDATE SET parent = excluded.parent, action = excluded.action, depth = excluded.depth "
    "WHERE excluded.depth < depth"
)
_PUT_ACTIONS = "UPDATE states SET actions = ? WHERE state = ? AND actions IS NULL"
_PUT_SEEN = "UPDATE states SET look = ?, inventory = ? WHERE state = ? AND look IS NULL"
_PUT_TRANSITION = (
    "INSERT OR IGNORE INTO transitions (state, action, next, text, reward, ending) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)
_GET_STATE = "SELECT parent, action, depth, look, inventory, actions FROM states WHERE state = ?"
_GET_TRANSITIONS = (
    "SELECT action, next, text, reward, ending, "
    "EXISTS (SELECT 1 FROM states WHERE states.state = next) FROM transitions WHERE state = ?"
)

_COUNT = "SELECT (SELECT count(*) FROM states), (SELECT count(*) FROM transitions)"
_SUFFIX = ".sqlite"

Row: TypeAlias = tuple[Any, ...]


@dataclass(slots=True)
class Record:
    """What is remembered of a state.

    Attributes:
        origin: how it is reached; None for the beginning.
        depth: actions from the beginning on, along the shortest known way; infinite where no way
            is known.
        actions: 𝒜(s); None while nobody asked for it.
        seen: the answers to `look` and to `inventory`; None while nobody looked.
        transitions: action -> what it does.
    """

    origin: Origin | None
    depth: float
    actions: tuple[str, ...] | None = None
    seen: tuple[str, str] | None = None
    transitions: dict[str, Transition] = field(default_factory=dict)


def transition_folder() -> Path:
    """Where the files lie, one for each revision of a game; it may not exist yet."""
    return cache_folder() / "transitions"


def transition_store_path(name: str, revision: str) -> Path:
    """The file of a game in the cache folder.

    Args:
        name: of the game, for people who look into the folder.
        revision: of the game; another one has another file.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    digest = hashlib.sha256(revision.encode()).hexdigest()[:16]
    return transition_folder() / f"{plain}-{digest}{_SUFFIX}"


class TransitionStore:
    """One file, opened.

    One that is damaged or of another version is replaced, with a warning: everything can be played
    again.

    Writing is put off until `save`: whatever was put since is lost where the process is killed, and
    nothing else ever is.

    Args:
        path: of the file; its folder is made.

    Raises:
        TextGameError: the file cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # In the order in which they are saved: a state comes before what is said about it.
        self._rows: dict[str, list[Row]] = {
            statement: [] for statement in (_PUT_STATE, _PUT_ACTIONS, _PUT_SEEN, _PUT_TRANSITION)
        }
        try:
            self._file = _open(path)
        except (CacheError, OSError) as error:
            raise self._failed(error) from error
        self._writable = self._file.writable

    @property
    def unsaved(self) -> int:
        """Rows that were put and not saved."""
        return sum(map(len, self._rows.values()))

    def load(self, state: str) -> Record | None:
        """What was saved of a state; None where it was never put.

        Raises:
            TextGameError: the file cannot be read.
        """
        try:
            found = self._file.run(_GET_STATE, (state,))
            if not found:
                return None
            rows = self._file.run(_GET_TRANSITIONS, (state,))
            return _record(found[0], dict(map(_transition, rows)))
        except (CacheError, ValueError, TypeError, RecursionError) as error:
            raise self._failed(error) from error

    def damaged(self, reason: str) -> TextGameError:
        """The error that says what is wrong with what was loaded, and how to be rid of it."""
        return self._failed(ValueError(reason))

    def put_state(self, state: str, record: Record) -> None:
        """Keeps how a state is reached, after its parent was put."""
        self._put(_PUT_STATE, (state, *(record.origin or (None, None)), record.depth))

    def put_actions(self, state: str, actions: tuple[str, ...]) -> None:
        """Keeps the valid actions of a state that was put."""
        self._put(_PUT_ACTIONS, (json.dumps(actions, ensure_ascii=False), state))

    def put_seen(self, state: str, seen: tuple[str, str]) -> None:
        """Keeps the answers to `look` and to `inventory` in a state that was put."""
        self._put(_PUT_SEEN, (*seen, state))

    def put_transition(self, state: str, action: str, made: Transition) -> None:
        """Keeps what an action does; both states were put."""
        self._put(_PUT_TRANSITION, (state, action, made.state, made.text, made.reward, made.ending))

    def save(self) -> None:
        """Writes what was put; it outlives the process when this returns.

        Where that is not possible (a full disk), there is a warning, and this process keeps nothing
        more on disk: no search has to end for it.
        """
        try:
            for statement, rows in self._rows.items():
                if rows:
                    self._file.run_many(statement, rows)
                    rows.clear()
        except CacheError as error:
            self._writable = False
            for rows in self._rows.values():
                rows.clear()
            warnings.warn(str(self._failed(error)), RuntimeWarning, stacklevel=2)

    def close(self) -> None:
        """Closes the file without saving; the object cannot be used any more."""
        self._file.close()

    def _put(self, statement: str, row: Row) -> None:
        if self._writable:
            self._rows[statement].append(row)

    def _failed(self, error: Exception) -> TextGameError:
        reason = error.__cause__ or error
        return TextGameError(
            f"the transition memory {self.path} cannot be used ({reason}): remove it if it is "
            "damaged, make room on the disk if there is none, or set remember=memory"
        )


def _open(path: Path) -> CacheFile:
    try:
        return CacheFile(path, LAYOUT)
    except UnreadableCacheError:
        # Of several processes that find the damage, one replaces the file.
        with FileLock(path.with_name(f".{path.name}.lock")):
            try:
                return CacheFile(path, LAYOUT)
            except UnreadableCacheError:
                warnings.warn(
                    f"the transition memory {path} was damaged or of another version, and is "
                    "begun anew",
                    RuntimeWarning,
                    stacklevel=3,
                )
                remove_cache_file(path)
                return CacheFile(path, LAYOUT)


def _record(row: Row, transitions: dict[str, Transition]) -> Record:
    """What a row of states says.

    Raises:
        ValueError: no such row was ever put.
        TypeError: likewise.
    """
    parent, action, depth, look, inventory, actions = row
    if type(depth) is not int or depth < 0:
        raise ValueError(f"a state is {depth!r} actions from the beginning")
    listed = None if actions is None else json.loads(actions)
    if not isinstance(listed, list | None):
        raise TypeError("valid actions that are no list")
    return Record(
        None if parent is None else Origin(sys.intern(parent), sys.intern(action)),
        depth,
        actions=None if listed is None else tuple(map(sys.intern, listed)),
        seen=None if look is None else (sys.intern(look), sys.intern(inventory)),
        transitions=transitions,
    )


def _transition(row: Row) -> tuple[str, Transition]:
    action, state, text, reward, ending, known = row
    if not known:
        raise ValueError(f"{action!r} leads to a state that is not there")
    if not (isinstance(reward, float) and math.isfinite(reward)):
        raise ValueError(f"a reward is {reward!r}")
    ended = None if ending is None else Ending(ending)
    return sys.intern(action), Transition(sys.intern(state), sys.intern(text), reward, ended)


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
        ((states, entries),) = opened.run(_COUNT)
    return GameShare(
        name=name,
        revision=revision,
        states=states,
        entries=entries,
        file_bytes=_disk_bytes(file),
    )
