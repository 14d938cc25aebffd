"""The files of transition memories: states and transitions in SQLite, and statistics of all files.

Each revision of a game has one file, which any number of processes share. Games are deterministic,
so every process would write the same row: the first one stays and is never changed. Only the way to
a state is replaced when a shorter one is found.
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
    application_id=0x4C4C4D54,  # "LLMT"
    version=3,
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
        """CREATE TABLE situations (
            situation TEXT PRIMARY KEY,
            actions TEXT NOT NULL
        )""",
    ),
)

# Several processes may write parts of one way. Every row is written after its parent's row, and the
# depth of a row only falls. So the depth falls from each state to its parent, and every way ends at
# the beginning.
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
_PUT_SITUATION = "INSERT OR IGNORE INTO situations (situation, actions) VALUES (?, ?)"
_GET_SITUATION = "SELECT actions FROM situations WHERE situation = ?"
_GET_STATE = "SELECT parent, action, depth, look, inventory, actions FROM states WHERE state = ?"
_GET_TRANSITIONS = (
    "SELECT action, next, text, reward, ending, "
    "EXISTS (SELECT 1 FROM states WHERE states.state = next) FROM transitions WHERE state = ?"
)

_COUNT = "SELECT (SELECT count(*) FROM states), (SELECT count(*) FROM transitions)"
_SUFFIX = ".sqlite"

Row: TypeAlias = tuple[Any, ...]


@dataclass(slots=True)
class KnownState:
    """What is remembered of a state.

    Attributes:
        origin: the parent and the action that lead to the state; None for the beginning.
        depth: number of actions on the shortest known way from the beginning; infinite if no way
            is known.
        actions: 𝒜(s); None until a player asks for it.
        seen: the answers to `look` and to `inventory`; None until a player asks for them.
    """

    origin: Origin | None
    depth: float
    actions: tuple[str, ...] | None = None
    seen: tuple[str, str] | None = None
    transitions: dict[str, Transition] = field(default_factory=dict)


def transition_folder() -> Path:
    """The folder of the files, which need not exist."""
    return cache_folder() / "transitions"


def transition_store_path(name: str, revision: str) -> Path:
    """The file of a game in the cache folder.

    Args:
        name: of the game; makes the file's name readable.
        revision: of the game; each revision has a file of its own.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    digest = hashlib.sha256(revision.encode()).hexdigest()[:16]
    return transition_folder() / f"{plain}-{digest}{_SUFFIX}"


class TransitionStore:
    """The open file of one revision of a game.

    A file that is damaged or of another version is replaced, with a warning; the game is then
    played again.

    Rows are written by `save`. A process that is killed loses the rows put since the last `save`,
    and no others.

    Args:
        path: of the file; its folder is made if it does not exist.

    Raises:
        TextGameError: the file cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # Rows are saved in this order, because the other statements need the row of their state.
        self._rows: dict[str, list[Row]] = {
            statement: []
            for statement in (_PUT_STATE, _PUT_ACTIONS, _PUT_SEEN, _PUT_TRANSITION, _PUT_SITUATION)
        }
        try:
            self._file = _open(path)
        except (CacheError, OSError) as error:
            raise self._failed(error) from error
        self._writable = self._file.writable

    @property
    def unsaved(self) -> int:
        """The number of rows that were put and not saved yet."""
        return sum(map(len, self._rows.values()))

    def load(self, state: str) -> KnownState | None:
        """Returns what was saved of a state; None if it was never put.

        Raises:
            TextGameError: the file cannot be read.
        """
        try:
            state_rows = self._file.run(_GET_STATE, (state,))
            if not state_rows:
                return None
            rows = self._file.run(_GET_TRANSITIONS, (state,))
            return _known_state(state_rows[0], dict(map(_transition, rows)))
        except (CacheError, ValueError, TypeError, RecursionError) as error:
            raise self._failed(error) from error

    def load_actions(self, situation: str) -> tuple[str, ...] | None:
        """Returns the valid actions of a situation; None if they were never put.

        Raises:
            TextGameError: the file cannot be read.
        """
        try:
            rows = self._file.run(_GET_SITUATION, (situation,))
            return _listed(rows[0][0]) if rows else None
        except (CacheError, ValueError, TypeError, RecursionError) as error:
            raise self._failed(error) from error

    def damaged(self, reason: str) -> TextGameError:
        """The error for loaded rows that contradict each other; it says how to remove the file."""
        return self._failed(ValueError(reason))

    def put_state(self, state: str, known: KnownState) -> None:
        """Puts how a state is reached; its parent must have been put before."""
        self._put(_PUT_STATE, (state, *(known.origin or (None, None)), known.depth))

    def put_actions(self, state: str, actions: tuple[str, ...]) -> None:
        """Puts the valid actions of a state that was put before."""
        self._put(_PUT_ACTIONS, (json.dumps(actions, ensure_ascii=False), state))

    def put_situation(self, situation: str, actions: tuple[str, ...]) -> None:
        """Puts the valid actions of a situation."""
        self._put(_PUT_SITUATION, (situation, json.dumps(actions, ensure_ascii=False)))

    def put_seen(self, state: str, seen: tuple[str, str]) -> None:
        """Puts the answers to `look` and to `inventory` in a state that was put before."""
        self._put(_PUT_SEEN, (*seen, state))

    def put_transition(self, state: str, action: str, transition: Transition) -> None:
        """Puts the transition of an action; both of its states must have been put before."""
        after = (transition.state, transition.text, transition.reward, transition.ending)
        self._put(_PUT_TRANSITION, (state, action, *after))

    def save(self) -> None:
        """Writes all rows that were put; once it returns, they survive the end of the process.

        If writing fails, for example on a full disk, it warns, and this process writes nothing to
        the file from then on. The search goes on.
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
        """Closes the file without saving; the store cannot be used afterwards."""
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
        # If several processes find the damage, only one of them replaces the file.
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


def _known_state(row: Row, transitions: dict[str, Transition]) -> KnownState:
    """Reads a row of the table of states."""
    parent, action, depth, look, inventory, actions = row
    if type(depth) is not int or depth < 0:
        raise ValueError(f"a state's depth is {depth!r}, not a whole number of 0 or more")
    return KnownState(
        None if parent is None else Origin(sys.intern(parent), sys.intern(action)),
        depth,
        actions=None if actions is None else _listed(actions),
        seen=None if look is None else (sys.intern(look), sys.intern(inventory)),
        transitions=transitions,
    )


def _listed(actions: str) -> tuple[str, ...]:
    listed = json.loads(actions)
    if not isinstance(listed, list):
        raise TypeError("a state's valid actions are not a list")
    return tuple(map(sys.intern, listed))


def _transition(row: Row) -> tuple[str, Transition]:
    action, state, text, reward, ending, known = row
    if not known:
        raise ValueError(f"the action {action!r} leads to a state that has no row")
    if not (isinstance(reward, float) and math.isfinite(reward)):
        raise ValueError(f"the reward of {action!r} is {reward!r}, not a finite number")
    ended = None if ending is None else Ending(ending)
    return sys.intern(action), Transition(sys.intern(state), sys.intern(text), reward, ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class GameShare:
    """Statistics of the file of one revision of a game.

    Attributes:
        name: of the game, as in the file's name.
        revision: the digest in the file's name.
        states: number of states in the file; None if the file is damaged or of another version,
            and so will be replaced when the game is played again.
        entries: number of transitions in the file.
        file_bytes: size on disk, the write-ahead log included.
    """

    name: str
    revision: str
    states: int | None
    entries: int
    file_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionStats:
    """Statistics of all transition memories.

    Attributes:
        entries: number of transitions in all files.
        file_bytes: size on disk, the write-ahead logs included.
        games: the share of each revision of a game, the largest first.
    """

    entries: int
    file_bytes: int
    games: tuple[GameShare, ...]


def transition_stats() -> TransitionStats:
    """Counts states, transitions and bytes, game by game; creates no file.

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
    """Deletes the file of every game, readable or not.

    Files are deleted and not emptied: a running process has put the beginning of its game already
    and would write only later states, which are of no use without it. What that process learns
    after the deletion is not kept.

    Returns:
        The number of bytes freed.

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
    """The size of a file and its write-ahead log, which another process may remove meanwhile."""
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
