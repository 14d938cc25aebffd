"""What was computed once: answers of models and vectors of texts, in SQLite files, by digest.

An entry is a digest, a value that is packed with a checksum of both, and its source: the weights
that computed it. The first value of a digest stands for every thread and process.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from llm_base.files import parse_json
from llm_serving.cache_file import CacheFile, CacheLayout
from llm_serving.models.folders import cache_folder
from llm_serving.request import Completion, ModelIdentity, Scores, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]

Answer: TypeAlias = Completion | Scores
"""What the response cache keeps."""

# Shorter values are not compressed: deflate takes 0.1 ms each time and would save little.
_COMPRESS_FROM = 512
_LONGEST_VALUE = 1 << 26
"""Bytes that a value may have when it is decompressed."""
_FINISHES = frozenset({"stop", "length"})
# Below the number of parameters that any build of SQLite allows in one statement.
_ASKED_AT_ONCE = 500

VERSION: Final = 2
"""Of the tables, and in the names of the files in the cache folder: an older cache stays apart."""

_TABLES = (
    """CREATE TABLE sources (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        revision TEXT NOT NULL,
        form TEXT NOT NULL,
        UNIQUE (name, revision, form)
    )""",
    """CREATE TABLE entries (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL UNIQUE,
        source INTEGER NOT NULL REFERENCES sources (id),
        value BLOB NOT NULL,
        created INTEGER NOT NULL,
        size INTEGER GENERATED ALWAYS AS (length(value)) VIRTUAL
    )""",
)

_dump = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Source:
    """Which weights computed an entry.

    Attributes:
        name: under which they were first asked.
        revision: tells them from any others, under any name.
        form: the dtype of a model's weights, the dimension of an encoder's vectors.
    """

    name: str
    revision: str
    form: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a cache holds of one source.

    Attributes:
        form: see `Source`, and so name and revision.
        entries: values kept.
        bytes: their size, as stored.
    """

    name: str
    revision: str
    form: str
    entries: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """What a cache holds.

    Attributes:
        entries: values kept.
        bytes: their size, as stored.
        file_bytes: size on disk, keys, free pages and the write-ahead log included.
        shares: of each source, the largest first.
    """

    entries: int = 0
    bytes: int = 0
    file_bytes: int = 0
    shares: tuple[Share, ...] = ()


class Store:
    """Packed values by digest, in one SQLite file.

    Any number of threads may share one object, and any number of processes one file: each `keep` is
    one transaction, and a process killed at any moment leaves what it had kept. An object does not
    survive `fork`: a child opens its own.

    Args:
        path: of the file, which is made with its folders if it is missing. A file that may not be
            written to is read, and nothing is added to it.

    Raises:
        UnreadableCacheError: the file is damaged, foreign or of another version.
        CacheError: it cannot be opened or written (permissions, a full disk).
    """

    layout: CacheLayout

    def __init__(self, path: Path) -> None:
        self._source_ids: dict[Source, int] = {}
        self._file = CacheFile(path, self.layout)

    def kept(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """The values of some digests; those that are not kept are left out."""
        digests, values = list(keys), {}
        for start in range(0, len(digests), _ASKED_AT_ONCE):
            some = digests[start : start + _ASKED_AT_ONCE]
            rows = self._file.run(
                f"SELECT key, value FROM entries WHERE key IN ({', '.join('?' * len(some))})", some
            )
            values.update({key: self._unpacked(key, value) for key, value in rows})
        return values

    def keep(self, values: Mapping[bytes, bytes], source: Source) -> bool:
        """Keeps values, on disk when this returns, where a digest has none already.

        Returns:
            Whether all of them stand. Otherwise another process has put its own in the meantime,
            and a rerun must see what this run saw.
        """
        if not values or not self._file.writable:
            return True
        number = self._source_ids.get(source) or self._register(source)
        now = int(time.time())
        written = self._file.run_many(
            "INSERT OR IGNORE INTO entries (key, source, value, created) VALUES (?, ?, ?, ?)",
            [(key, number, _packed(key, value), now) for key, value in values.items()],
        )
        return written == len(values)

    def stats(self) -> CacheStats:
        """Counts what is kept, source by source."""
        rows = self._file.run(
            "SELECT name, revision, form, count(*), sum(size) FROM entries "
            "JOIN sources ON sources.id = entries.source "
            "GROUP BY sources.id ORDER BY 5 DESC, 1, 2"
        )
        shares = tuple(map(self._share, rows))
        return CacheStats(
            entries=sum(share.entries for share in shares),
            bytes=sum(share.bytes for share in shares),
            file_bytes=self._file.disk_bytes,
            shares=shares,
        )

    def clear(self) -> None:
        """Removes every entry and gives the disk space back; others may go on using the file."""
        # The sources stay: other processes remember their numbers.
        self._file.run("DELETE FROM entries")
        self._file.shrink()

    def close(self) -> None:
        """Closes the file; the object cannot be used any more."""
        self._file.close()

    def _register(self, source: Source) -> int:
        named = (source.name, source.revision, source.form)
        self._file.run(
            "INSERT OR IGNORE INTO sources (name, revision, form) VALUES (?, ?, ?)", named
        )
        numbers = self._file.run(
            "SELECT id FROM sources WHERE name = ? AND revision = ? AND form = ?", named
        )
        if len(numbers) != 1:
            raise self._file.unreadable("holds a damaged source")
        self._source_ids[source] = number = int(numbers[0][0])
        return number

    def _share(self, row: tuple[object, ...]) -> Share:
        match row:
            case str(name), str(revision), str(form), int(entries), int(size):
                return Share(name=name, revision=revision, form=form, entries=entries, bytes=size)
        raise self._file.unreadable("holds a damaged source")

    def _unpacked(self, key: bytes, value: object) -> bytes:
        try:
            return _plain(key, value)
        except (ValueError, TypeError, zlib.error) as error:
            raise self._file.unreadable("holds a damaged entry") from error


class ResponseCache(Store):
    """Answers by the digest of their question.

    Example:
        >>> from pathlib import Path
        >>> from llm_serving import ResponseCache
        >>> cache = ResponseCache(Path("responses.sqlite"))
        >>> cache.stats().entries
        0
        >>> cache.close()
    """

    layout = CacheLayout(
        name="response cache",
        # "LLMP": tells this project's files from other SQLite databases.
        application_id=0x4C4C4D50,
        version=VERSION,
        tables=_TABLES,
    )

    def get(self, key: bytes) -> Answer | None:
        """The answer kept under a key, with the token counts of the call that gave it."""
        plain = self.kept((key,)).get(key)
        try:
            return None if plain is None else _answer(plain)
        except (ValueError, TypeError) as error:
            raise self._file.unreadable("holds a damaged entry") from error

    def put(self, key: bytes, answer: Answer, model: ModelIdentity) -> Answer:
        """Keeps an answer unless the key has one already.

        Returns:
            The answer that is kept.
        """
        source = Source(model.name, model.revision, model.dtype)
        return answer if self.keep({key: _fields(answer)}, source) else self.get(key) or answer


@dataclass(frozen=True, slots=True)
class EncoderIdentity:
    """Which weights embed.

    Attributes:
        name: bundled name, absolute folder or hub id; says where they were found.
        revision: tells these weights from any others, under any name.
    """

    name: str
    revision: str


class VectorCache(Store):
    """Unit vectors by the encoder's revision and the text."""

    layout = CacheLayout(
        name="vector cache",
        application_id=0x4C4C4D56,  # "LLMV"
        version=VERSION,
        tables=_TABLES,
    )

    def dimension(self, encoder: EncoderIdentity) -> int | None:
        """The dimension of an encoder's vectors; None if none is kept yet."""
        rows = self._file.run("SELECT form FROM sources WHERE revision = ?", (encoder.revision,))
        if not rows:
            return None
        form = rows[0][0]
        if not isinstance(form, str) or not form.isascii() or not form.isdecimal() or form == "0":
            raise self._file.unreadable("holds a damaged source")
        return int(form)

    def get(self, encoder: EncoderIdentity, texts: Iterable[str]) -> dict[str, Vector]:
        """The vectors kept of some texts, bit for bit as they were put; others are left out."""
        text_of = {_text_key(encoder, text): text for text in texts}
        values = self.kept(text_of)
        if len({len(value) for value in values.values()}) > 1 or any(
            len(value) % 4 for value in values.values()
        ):
            raise self._file.unreadable("holds a damaged entry")
        return {
            text_of[key]: np.frombuffer(value, "<f4").astype(np.float32, copy=False)
            for key, value in values.items()
        }

    def put(self, encoder: EncoderIdentity, vectors: Mapping[str, Vector]) -> dict[str, Vector]:
        """Keeps vectors where a text has none already.

        Returns:
            The vectors that are kept: another process may have put its own in the meantime, which
            differ in the last bits.
        """
        standing = dict(vectors)
        values = {
            _text_key(encoder, text): vector.astype("<f4").tobytes()
            for text, vector in standing.items()
        }
        dimension = len(next(iter(standing.values()), ()))
        if self.keep(values, Source(encoder.name, encoder.revision, str(dimension))):
            return standing
        return standing | self.get(encoder, standing)


def response_cache_path() -> Path:
    """The response cache's file in the cache folder."""
    return cache_folder() / f"responses-{VERSION}.sqlite"


def vector_cache_path() -> Path:
    """The vector cache's file in the cache folder."""
    return cache_folder() / f"vectors-{VERSION}.sqlite"


def _text_key(encoder: EncoderIdentity, text: str) -> bytes:
    # A revision has no line breaks.
    return hashlib.sha256(f"{encoder.revision}\n{text}".encode()).digest()


def _packed(key: bytes, plain: bytes) -> bytes:
    """A value with a checksum of itself and of its key, by which damage is found."""
    level = 0 if len(plain) < _COMPRESS_FROM else zlib.Z_DEFAULT_COMPRESSION
    folding = zlib.compressobj(level, zdict=key)
    return folding.compress(plain) + folding.flush()


def _plain(key: bytes, value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("a value that is not bytes")
    unfolding = zlib.decompressobj(zdict=key)
    plain = unfolding.decompress(value, _LONGEST_VALUE)
    if not unfolding.eof or unfolding.unused_data:
        raise ValueError("a value that ends early or late")
    return plain


def _fields(answer: Answer) -> bytes:
    usage = answer.usage
    fields: list[object] = (
        [answer.logprobs]
        if isinstance(answer, Scores)
        else [answer.text, answer.token_ids, answer.finish]
    )
    fields += [usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens]
    return _dump(fields).encode()


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
