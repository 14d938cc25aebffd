"""The response cache's file: answers in SQLite, shared by threads and processes."""

from __future__ import annotations

import json
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from llm_base.files import parse_json
from llm_serving.cache_file import CacheFile, CacheLayout
from llm_serving.models.folders import cache_folder
from llm_serving.request import Completion, ModelIdentity, Scores, Usage

if TYPE_CHECKING:
    from pathlib import Path

Answer: TypeAlias = Completion | Scores
"""What the cache keeps."""

# Shorter values are not compressed: deflate takes 0.1 ms each time and would save little.
_COMPRESS_FROM = 512
_LONGEST_VALUE = 1 << 26
"""Bytes that a value may have when it is decompressed."""
_FINISHES = frozenset({"stop", "length"})

_LAYOUT = CacheLayout(
    name="response cache",
    clear="responses",
    # "LLMP": tells this project's files from other SQLite databases.
    application_id=0x4C4C4D50,
    version=1,
    tables=(
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
    ),
)

_dump = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShare:
    """What the cache holds of one model.

    Attributes:
        name: the one under which the model was first asked.
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


class ResponseCache:
    """Answers by the digest of their question, in one SQLite file.

    Any number of threads may share one object, and any number of processes one file: every answer
    is one transaction, and a process killed at any moment leaves the answers that it had put. An
    object does not survive `fork`: a child opens its own.

    Args:
        path: of the file, which is made with its folders if it is missing. A file that may
            not be written to is read, and nothing is added to it.

    Raises:
        UnreadableCacheError: the file is damaged, foreign or of another version.
        CacheError: it cannot be opened or written (permissions, a full disk).

    Example:
        >>> from pathlib import Path
        >>> from llm_serving import ResponseCache
        >>> cache = ResponseCache(Path("responses.sqlite"))
        >>> cache.stats().entries
        0
        >>> cache.close()
    """

    def __init__(self, path: Path) -> None:
        self._model_ids: dict[ModelIdentity, int] = {}
        self._file = CacheFile(path, _LAYOUT)

    def get(self, key: bytes) -> Answer | None:
        """The answer kept under a key, with the token counts of the call that gave it."""
        rows = self._file.run("SELECT value FROM responses WHERE key = ?", (key,))
        return self._unpacked(key, rows[0][0]) if rows else None

    def put(self, key: bytes, answer: Answer, model: ModelIdentity) -> Answer:
        """Keeps an answer, on disk when this returns, unless the key has one already.

        Returns:
            The answer that is kept: another process may have put its own in the meantime, and a
            rerun must see what this run saw.
        """
        if not self._file.writable:
            return answer
        model_id = self._model_ids.get(model) or self._register(model)
        kept = self._file.run(
            "INSERT INTO responses (key, model, value, created) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (key) DO NOTHING RETURNING id",
            (key, model_id, _packed(key, answer), int(time.time())),
        )
        return answer if kept else self.get(key) or answer

    def stats(self) -> CacheStats:
        """Counts what is kept, model by model."""
        rows = self._file.run(
            "SELECT name, revision, dtype, count(*), sum(size) FROM responses "
            "JOIN models ON models.id = responses.model GROUP BY models.id ORDER BY 5 DESC, 1, 2"
        )
        models = tuple(
            ModelShare(name=name, revision=revision, dtype=dtype, entries=entries, bytes=size)
            for name, revision, dtype, entries, size in map(self._checked, rows)
        )
        return CacheStats(
            entries=sum(model.entries for model in models),
            bytes=sum(model.bytes for model in models),
            file_bytes=self._file.disk_bytes,
            models=models,
        )

    def clear(self) -> None:
        """Removes every answer and gives the disk space back; others may go on using the file."""
        # The models stay: other processes remember their numbers.
        self._file.run("DELETE FROM responses")
        self._file.shrink()

    def close(self) -> None:
        """Closes the file; the object cannot be used any more."""
        self._file.close()

    def _register(self, model: ModelIdentity) -> int:
        named = (model.name, model.revision, model.dtype)
        self._file.run(
            "INSERT OR IGNORE INTO models (name, revision, dtype) VALUES (?, ?, ?)", named
        )
        numbers = self._file.run(
            "SELECT id FROM models WHERE name = ? AND revision = ? AND dtype = ?", named
        )
        if len(numbers) != 1:
            raise self._file.unreadable("holds a damaged model")
        self._model_ids[model] = number = int(numbers[0][0])
        return number

    def _checked(self, share: tuple[object, ...]) -> tuple[str, str, str, int, int]:
        match share:
            case str(name), str(revision), str(dtype), int(entries), int(size):
                return name, revision, dtype, entries, size
        raise self._file.unreadable("holds a damaged model")

    def _unpacked(self, key: bytes, value: object) -> Answer:
        try:
            return _answer(_json(key, value))
        except (ValueError, TypeError, zlib.error) as error:
            raise self._file.unreadable("holds a damaged answer") from error


def _json(key: bytes, value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("a value that is not bytes")
    unfolding = zlib.decompressobj(zdict=key)
    plain = unfolding.decompress(value, _LONGEST_VALUE)
    if not unfolding.eof or unfolding.unused_data:
        raise ValueError("a value that ends early or late")
    return plain


def _answer(plain: bytes) -> Answer:
    *fields, prompt, cached, completion = parse_json(plain)
    if any(type(count) is not int or count < 0 for count in (prompt, cached, completion)):
        raise ValueError("a token count that is not a whole number of 0 or more")
    usage = Usage(calls=1, prompt_tokens=prompt, cached_tokens=cached, completion_tokens=completion)
    match fields:
        case [[*logprobs]] if all(map(_is_logprob, logprobs)):
            return Scores(logprobs=tuple(map(float, logprobs)), usage=usage)
        case [str(text), [*token_ids], finish] if finish in _FINISHES:
            if all(type(token) is int and token >= 0 for token in token_ids):
                return Completion(text=text, token_ids=tuple(token_ids), finish=finish, usage=usage)
    raise ValueError("neither an answer nor scores")


def _is_logprob(value: object) -> bool:
    return type(value) in {int, float} and value == value  # noqa: PLR0124 - not of NaN


def _packed(key: bytes, answer: Answer) -> bytes:
    """An answer with a checksum of itself and of its key, by which damage is found."""
    usage = answer.usage
    fields: list[object] = (
        [answer.logprobs]
        if isinstance(answer, Scores)
        else [answer.text, answer.token_ids, answer.finish]
    )
    fields += [usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens]
    plain = _dump(fields).encode()
    level = 0 if len(plain) < _COMPRESS_FROM else zlib.Z_DEFAULT_COMPRESSION
    folding = zlib.compressobj(level, zdict=key)
    return folding.compress(plain) + folding.flush()
