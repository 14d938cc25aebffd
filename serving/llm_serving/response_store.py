"""The response cache's file: answers in SQLite, shared by threads and processes."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_serving.errors import ServingError
from llm_serving.models.folders import cache_folder
from llm_serving.request import Completion, ModelIdentity, Scores, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Answer: TypeAlias = Completion | Scores
"""What the cache keeps."""

# "LLMP": tells this project's files from other SQLite databases.
_APPLICATION_ID = 0x4C4C4D50
_SCHEMA_VERSION = 1
_BUSY_SECONDS = 30.0
# Shorter values stay plain: deflate costs 0.1 ms each time and would save them little.
_COMPRESS_FROM = 512

_SCHEMA = (
    """CREATE TABLE models (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        revision TEXT NOT NULL,
        dtype TEXT NOT NULL,
        UNIQUE (name, revision, dtype)
    )""",
    """CREATE TABLE responses (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL UNIQUE,
        model INTEGER NOT NULL REFERENCES models (id),
        value BLOB NOT NULL,
        created INTEGER NOT NULL,
        size INTEGER GENERATED ALWAYS AS (length(value)) VIRTUAL
    )""",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_SCHEMA_VERSION}",
)

_dump = json.JSONEncoder(separators=(",", ":")).encode


class ResponseCacheError(ServingError):
    """The response cache cannot be opened, read or written."""


class UnreadableCacheError(ResponseCacheError):
    """The file is damaged or is not a response cache of this version: clearing it helps."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(
            f"the response cache {path} {reason}: remove it with `llm-planning cache clear`, "
            "or run with `--no-cache`"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShare:
    """What the cache holds of one model.

    Attributes:
        name: under which the model was first asked.
        revision: of its weights.
        dtype: of its weights.
        entries: answers kept.
        bytes: their size, as stored.
    """

    name: str
    revision: str
    dtype: str
    entries: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """What a response cache holds.

    Attributes:
        entries: answers kept.
        bytes: their size, as stored.
        file_bytes: size on disk, keys, free pages and the write-ahead log included.
        models: the share of each model, the largest first.
    """

    entries: int
    bytes: int
    file_bytes: int
    models: tuple[ModelShare, ...]


def response_cache_path() -> Path:
    """The response cache's file in the cache folder."""
    return cache_folder() / "responses.sqlite"


def remove_response_cache(path: Path) -> None:
    """Deletes a cache's files, readable or not; a missing one is no error."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


class ResponseCache:
    """Answers by the digest of their question, in one SQLite file.

    Any number of threads may share one object, and any number of processes one file: it is in
    write-ahead mode, every answer is one transaction, and a process killed at any moment leaves
    the answers that it had put. An object does not survive `fork`: a child opens its own.

    Raises:
        UnreadableCacheError: the file is damaged, foreign or of another version.
        ResponseCacheError: it cannot be opened or written (permissions, a full disk).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._model_ids: dict[ModelIdentity, int] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise _explained(error, path) from error
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._connection.close()
            raise _explained(error, path) from error
        except ResponseCacheError:
            self._connection.close()
            raise

    def get(self, key: bytes) -> Answer | None:
        """The answer kept under a key, with the token counts of the call that gave it."""
        rows = self._run("SELECT value FROM responses WHERE key = ?", (key,))
        return self._unpacked(rows[0][0]) if rows else None

    def put(self, key: bytes, answer: Answer, model: ModelIdentity) -> Answer:
        """Keeps an answer, on disk when this returns, unless the key has one already.

        Returns:
            The answer that stands: another process may have drawn its own in the meantime, and
            a rerun must see what this run saw.
        """
        model_id = self._model_ids.get(model) or self._register(model)
        kept = self._run(
            "INSERT INTO responses (key, model, value, created) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (key) DO NOTHING RETURNING id",
            (key, model_id, _packed(answer), int(time.time())),
        )
        return answer if kept else self.get(key) or answer

    def stats(self) -> CacheStats:
        """Counts what is kept, model by model."""
        rows = self._run(
            "SELECT name, revision, dtype, count(*), sum(size) FROM responses "
            "JOIN models ON models.id = responses.model GROUP BY models.id ORDER BY 5 DESC, 1, 2"
        )
        models = tuple(
            ModelShare(name=name, revision=revision, dtype=dtype, entries=entries, bytes=size)
            for name, revision, dtype, entries, size in rows
        )
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return CacheStats(
            entries=sum(model.entries for model in models),
            bytes=sum(model.bytes for model in models),
            file_bytes=sum(file.stat().st_size for file in files if file.exists()),
            models=models,
        )

    def clear(self) -> None:
        """Removes every answer and gives the disk space back; others may go on using the file."""
        # The models stay: other processes remember their numbers.
        self._run("DELETE FROM responses")
        self._run("VACUUM")
        self._run("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Closes the file; the object cannot be used any more."""
        with self._lock:
            self._connection.close()

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        if os.getpid() != self._pid:
            raise ResponseCacheError(
                f"the response cache {self.path} was opened before this process was forked: "
                "open it in the child process"
            )
        try:
            with self._lock:
                return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise _explained(error, self.path) from error

    def _prepare(self) -> None:
        """Creates the tables in an empty file and refuses any other that is not a cache."""
        if self._is_empty():
            # Several processes may come here at once; changing the journal's mode fails at once,
            # without the busy timeout, while another connection does the same.
            deadline = time.monotonic() + _BUSY_SECONDS
            while not self._enter_wal():
                if time.monotonic() > deadline:
                    raise ResponseCacheError(
                        f"the response cache {self.path} is held by another process: end it"
                    )
                time.sleep(0.005)
            self._connection.execute("BEGIN IMMEDIATE")
            if self._is_empty():
                for statement in _SCHEMA:
                    self._connection.execute(statement)
            self._connection.execute("COMMIT")
        application, version = self._marks()
        if application != _APPLICATION_ID:
            raise UnreadableCacheError(self.path, "is another program's SQLite database")
        if version != _SCHEMA_VERSION:
            raise UnreadableCacheError(
                self.path, f"has version {version}, and this program reads {_SCHEMA_VERSION}"
            )
        # With the write-ahead log, a commit that is not flushed survives the death of the process
        # and only the last ones are lost with the machine's power: no answer is worth an fsync.
        self._connection.execute("PRAGMA synchronous = NORMAL")

    def _marks(self) -> tuple[int, int]:
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        return application, version

    def _is_empty(self) -> bool:
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return tables == 0 and self._marks() == (0, 0)

    def _enter_wal(self) -> bool:
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if _code(error) == sqlite3.SQLITE_BUSY:
                return False
            raise
        return True

    def _register(self, model: ModelIdentity) -> int:
        named = (model.name, model.revision, model.dtype)
        self._run("INSERT OR IGNORE INTO models (name, revision, dtype) VALUES (?, ?, ?)", named)
        ((number,),) = self._run(
            "SELECT id FROM models WHERE name = ? AND revision = ? AND dtype = ?", named
        )
        self._model_ids[model] = number
        return int(number)

    def _unpacked(self, value: bytes) -> Answer:
        try:
            # JSON begins with "[", deflate with "x".
            plain = value if value[:1] == b"[" else zlib.decompress(value)
            *fields, prompt, cached, completion = json.loads(plain)
            usage = Usage(
                calls=1, prompt_tokens=prompt, cached_tokens=cached, completion_tokens=completion
            )
            if len(fields) == 1:
                return Scores(logprobs=tuple(fields[0]), usage=usage)
            text, token_ids, finish = fields
            return Completion(text=text, token_ids=tuple(token_ids), finish=finish, usage=usage)
        except (ValueError, TypeError, zlib.error) as error:
            raise UnreadableCacheError(self.path, "holds a damaged answer") from error


def _packed(answer: Answer) -> bytes:
    usage = answer.usage
    fields: list[object] = (
        [answer.logprobs]
        if isinstance(answer, Scores)
        else [answer.text, answer.token_ids, answer.finish]
    )
    fields += [usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens]
    plain = _dump(fields).encode()
    return plain if len(plain) < _COMPRESS_FROM else min(plain, zlib.compress(plain), key=len)


def _code(error: BaseException) -> int:
    """SQLite's primary result code; 0 if the error does not come from SQLite itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _explained(error: BaseException, path: Path) -> ResponseCacheError:
    if _code(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return UnreadableCacheError(path, f"is damaged or no SQLite database ({error})")
    return ResponseCacheError(
        f"the response cache {path} cannot be used ({error}): make its folder writable and free "
        "disk space there, set LLM_PLANNING_CACHE to another folder, or run with `--no-cache`"
    )
