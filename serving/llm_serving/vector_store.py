"""The vector cache's file: unit vectors of texts in SQLite, shared by threads and processes."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llm_serving.cache_file import CacheFile, CacheLayout
from llm_serving.models.folders import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_LAYOUT = CacheLayout(
    name="vector cache",
    clear="vectors",
    application_id=0x4C4C4D56,  # "LLMV"
    version=1,
    tables=(
        """CREATE TABLE encoders (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            revision TEXT NOT NULL UNIQUE,
            dimension INTEGER NOT NULL
        )""",
        """CREATE TABLE vectors (
            id INTEGER PRIMARY KEY,
            encoder INTEGER NOT NULL REFERENCES encoders (id),
            text BLOB NOT NULL,
            vector BLOB NOT NULL,
            size INTEGER GENERATED ALWAYS AS (length(vector)) VIRTUAL,
            UNIQUE (encoder, text)
        )""",
    ),
)

# Below the number of parameters that any build of SQLite allows in one statement.
_ASKED_AT_ONCE = 500
# A vector that is further from length 1 was damaged on the disk.
_LENGTH_ERROR = 1e-3


@dataclass(frozen=True, slots=True)
class EncoderIdentity:
    """Which weights embed.

    Attributes:
        name: bundled name, absolute folder or hub id; says where they were found.
        revision: tells these weights from any others, under any name.
    """

    name: str
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShare:
    """What the cache holds of one encoder.

    Attributes:
        name: the one under which the encoder was first asked.
        entries: vectors kept.
        bytes: their size, as stored.
    """

    name: str
    revision: str
    dimension: int
    entries: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStats:
    """What a vector cache holds.

    Attributes:
        entries: vectors kept.
        bytes: their size, as stored.
        file_bytes: size on disk, keys, free pages and the write-ahead log included.
        encoders: the share of each encoder, the largest first.
    """

    entries: int
    bytes: int
    file_bytes: int
    encoders: tuple[EncoderShare, ...]


def vector_cache_path() -> Path:
    """The vector cache's file in the cache folder."""
    return cache_folder() / "vectors.sqlite"


class VectorCache:
    """Unit vectors by the encoder's revision and the text's SHA-256, in one SQLite file.

    Any number of threads may share one object, and any number of processes one file: each `put` is
    one transaction, and a process killed at any moment leaves the vectors that it had put. An
    object does not survive `fork`: a child opens its own.

    Raises:
        UnreadableCacheError: the file is damaged, foreign or of another version.
        CacheError: it cannot be opened or written (permissions, a full disk).
    """

    def __init__(self, path: Path) -> None:
        self._encoder_ids: dict[str, int] = {}
        self._file = CacheFile(path, _LAYOUT)

    def dimension(self, encoder: EncoderIdentity) -> int | None:
        """The dimension of an encoder's vectors; None if none is kept yet."""
        rows = self._file.run(
            "SELECT dimension FROM encoders WHERE revision = ?", (encoder.revision,)
        )
        return self._checked_dimension(rows[0][0]) if rows else None

    def get(self, encoder: EncoderIdentity, texts: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors kept of some texts, bit for bit as they were put; others are left out."""
        asked = {_digest(text): text for text in texts}
        digests = list(asked)
        kept: dict[str, NDArray[np.float32]] = {}
        for start in range(0, len(digests), _ASKED_AT_ONCE):
            some = digests[start : start + _ASKED_AT_ONCE]
            rows = self._file.run(
                "SELECT text, vector, dimension FROM vectors "
                "JOIN encoders ON encoders.id = vectors.encoder "
                f"WHERE revision = ? AND text IN ({', '.join('?' * len(some))})",
                (encoder.revision, *some),
            )
            if rows:
                vectors = self._unpacked(rows)
                kept.update(zip((asked[row[0]] for row in rows), vectors, strict=True))
        return kept

    def put(
        self, encoder: EncoderIdentity, vectors: Mapping[str, NDArray[np.float32]]
    ) -> dict[str, NDArray[np.float32]]:
        """Keeps vectors, on disk when this returns, where a text has none already.

        Returns:
            The vectors that are kept: another process may have put its own in the meantime, which
            differ in the last bits, and a rerun must see what this run saw.
        """
        standing = dict(vectors)
        if not standing or not self._file.writable:
            return standing
        (dimension,) = next(iter(standing.values())).shape
        number = self._encoder_ids.get(encoder.revision) or self._register(encoder, dimension)
        written = self._file.run_many(
            "INSERT OR IGNORE INTO vectors (encoder, text, vector) VALUES (?, ?, ?)",
            [(number, *_row(text, vector)) for text, vector in standing.items()],
        )
        return standing if written == len(standing) else standing | self.get(encoder, standing)

    def stats(self) -> VectorStats:
        """Counts what is kept, encoder by encoder."""
        rows = self._file.run(
            "SELECT name, revision, dimension, count(*), sum(size) FROM vectors "
            "JOIN encoders ON encoders.id = vectors.encoder "
            "GROUP BY encoders.id ORDER BY 5 DESC, 1, 2"
        )
        encoders = tuple(
            EncoderShare(
                name=name, revision=revision, dimension=dimension, entries=entries, bytes=size
            )
            for name, revision, dimension, entries, size in map(self._checked, rows)
        )
        return VectorStats(
            entries=sum(encoder.entries for encoder in encoders),
            bytes=sum(encoder.bytes for encoder in encoders),
            file_bytes=self._file.disk_bytes,
            encoders=encoders,
        )

    def clear(self) -> None:
        """Removes every vector and gives the disk space back; others may go on using the file."""
        # The encoders stay: other processes remember their numbers.
        self._file.run("DELETE FROM vectors")
        self._file.shrink()

    def close(self) -> None:
        """Closes the file; the object cannot be used any more."""
        self._file.close()

    def _register(self, encoder: EncoderIdentity, dimension: int) -> int:
        self._file.run(
            "INSERT OR IGNORE INTO encoders (name, revision, dimension) VALUES (?, ?, ?)",
            (encoder.name, encoder.revision, dimension),
        )
        rows = self._file.run(
            "SELECT id, dimension FROM encoders WHERE revision = ?", (encoder.revision,)
        )
        if len(rows) != 1 or self._checked_dimension(rows[0][1]) != dimension:
            raise self._file.unreadable("holds a damaged encoder")
        self._encoder_ids[encoder.revision] = number = int(rows[0][0])
        return number

    def _checked_dimension(self, value: object) -> int:
        if not isinstance(value, int) or value < 1:
            raise self._file.unreadable("holds a damaged encoder")
        return value

    def _checked(self, share: tuple[object, ...]) -> tuple[str, str, int, int, int]:
        match share:
            case str(name), str(revision), int(dimension), int(entries), int(size):
                return name, revision, dimension, entries, size
        raise self._file.unreadable("holds a damaged encoder")

    def _unpacked(self, rows: list[tuple[bytes, object, object]]) -> NDArray[np.float32]:
        dimension = self._checked_dimension(rows[0][2])
        blobs = [_vector_bytes(digest, kept, 4 * dimension) for digest, kept, _ in rows]
        sound = [blob for blob in blobs if blob is not None]
        if len(sound) < len(rows):
            raise self._file.unreadable("holds a damaged vector")
        vectors = np.frombuffer(b"".join(sound), "<f4").reshape(len(sound), dimension)
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
        # With `not` outside, a NaN is damage too.
        if not (np.abs(lengths - 1) < _LENGTH_ERROR).all():
            raise self._file.unreadable("holds a damaged vector")
        return vectors.astype(np.float32, copy=False)


def _row(text: str, vector: NDArray[np.float32]) -> tuple[bytes, bytes]:
    """A text's digest and its vector, with a checksum of both, by which damage is found."""
    digest, content = _digest(text), vector.astype("<f4").tobytes()
    return digest, content + _checksum(digest, content)


def _vector_bytes(digest: bytes, kept: object, size: int) -> bytes | None:
    """The bytes of the vector in a kept value; None if the value is damaged."""
    if not isinstance(kept, bytes):
        return None
    content, checksum = kept[:size], kept[size:]
    return content if checksum == _checksum(digest, content) else None


def _checksum(digest: bytes, content: bytes) -> bytes:
    return zlib.crc32(content, zlib.crc32(digest)).to_bytes(4, "little")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
