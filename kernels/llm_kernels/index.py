"""An index of embeddings: vectors by string key, searched by cosine similarity, saved to disk."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from llm_kernels import index_files
from llm_kernels.entries import (
    JsonValue,
    checked_keys,
    json_text,
    json_value,
    payload_texts,
    real_array,
    unit_rows,
)
from llm_kernels.errors import EntryError, VectorError
from llm_kernels.index_vectors import DTYPES
from llm_kernels.searcher import Searcher
from llm_kernels.snapshots import RowTable, snapshot_of
from llm_kernels.vectors import GREATEST_DIMENSION, inverse_norms, positive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llm_kernels.snapshots import Snapshot
    from llm_kernels.vectors import Floats, Rows


@dataclass(frozen=True, slots=True)
class Match:
    """One result of a search.

    Attributes:
        score: cosine similarity to the query.
        payload: the one kept with the key; a new object in every match.

    Example:
        >>> from llm_kernels import EmbeddingIndex, Match
        >>> index = EmbeddingIndex(2)
        >>> index.add(["east"], [[2, 0]], [{"degrees": 90}])
        >>> index.search([1, 0], k=1) == (Match("east", 1.0, {"degrees": 90}),)
        True
    """

    key: str
    score: float
    payload: JsonValue = None


class EmbeddingIndex:
    """Vectors with string keys and optional payloads, for search by cosine similarity.

    Vectors are scaled to unit length when they come in. Results are ordered by score, equal
    scores by age: the entry added first comes first, and an updated one counts as new.

    Any number of threads may search while others write. A search sees one state of the index,
    before or after any write, and never waits for one. Writes wait for each other, and a look-up
    by key (`in`, `vector`, `payload`) waits for a write. A write that fails changes nothing.

    Adding copies the new vectors. Removing and updating also copy 4 bytes per row of the index once
    per call, so pass many keys in one call.

    Args:
        dimension: of every vector, D.
        dtype: "float32", or "float16" for half the memory and three decimal digits.
        backend: "auto", "triton", "faiss", "torch" or "numpy".
        device: "cpu", "cuda" or "cuda:1" and the like. On a GPU the rows are copied there as they
            are searched; the host keeps its own.
        metadata: JSON values that belong to the index as a whole, such as its encoder's name.

    Raises:
        VectorError: the dimension or the dtype is not possible.
        BackendError: the backend or the device is not available here, or they do not go together.
        EntryError: the metadata is not JSON.

    Example:
        >>> from llm_kernels import EmbeddingIndex
        >>> index = EmbeddingIndex(2, metadata={"encoder": "compass"})
        >>> index.add(["north", "east"], [[0, 1], [1, 0]])
        >>> [match.key for match in index.search([0.1, 0.9], k=2)]
        ['north', 'east']
        >>> index.save("compass")
        >>> EmbeddingIndex.load("compass").keys
        ('north', 'east')
    """

    def __init__(
        self,
        dimension: int,
        *,
        dtype: str = "float32",
        backend: str = "auto",
        device: str = "cpu",
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> None:
        if dtype not in tuple(DTYPES):
            raise VectorError(f"dtype is {dtype!r}: choose one of {', '.join(DTYPES)}")
        if positive(dimension, "dimension") > GREATEST_DIMENSION:
            raise VectorError(f"dimension is {dimension}: it must be {GREATEST_DIMENSION} at most")
        rows: Rows = np.empty((0, dimension), dtype)
        self._table = RowTable(snapshot_of(rows, np.empty(0, np.float32), [], []))
        self._metadata = json_text(dict(metadata or {}), "metadata")
        self._searcher = Searcher(backend=backend, device=device)
        self._lock = threading.Lock()

    # --- writing ---------------------------------------------------------------------------------

    def add(
        self,
        keys: Iterable[str],
        vectors: object,
        payloads: Iterable[JsonValue] | None = None,
    ) -> None:
        """Adds entries under new keys.

        Args:
            keys: N strings.
            vectors: [N, D] numbers (NumPy array, torch tensor or nested lists), of any length
                but zero.
            payloads: N JSON values; None where there is nothing to keep, or for all.

        Raises:
            EntryError: a key that is there already or comes twice, or a payload that is not JSON.
            VectorError: a wrong shape, NaN, Inf or a zero vector, with its key.
        """
        named = checked_keys(keys)
        rows, norms = self._stored(vectors, named)
        texts = [None] * len(named) if payloads is None else payload_texts(payloads, named)
        with self._lock:
            for key in named:
                if self._table.find(key) is not None:
                    raise EntryError(f"key {key!r} is in the index already: use update")
            self._table.write(
                removed=[], rows=rows, inverse_norms=norms, keys=named, payloads=texts
            )

    def update(
        self,
        keys: Iterable[str],
        vectors: object,
        payloads: Iterable[JsonValue] | None = None,
    ) -> None:
        """Gives entries new vectors, and new payloads if there are any.

        Args:
            keys: N keys of the index.
            vectors: [N, D], as for `add`.
            payloads: N JSON values; if None, every entry keeps the one that it has.

        Raises:
            EntryError: a key that is not in the index or comes twice, or a payload that is not
                JSON.
            VectorError: as for `add`.
        """
        named = checked_keys(keys)
        rows, norms = self._stored(vectors, named)
        given = None if payloads is None else payload_texts(payloads, named)
        with self._lock:
            removed = self._rows_of(named, remedy="use add")
            kept = self._table.snapshot.payloads
            texts = [kept[row] for row in removed] if given is None else given
            self._table.write(
                removed=removed, rows=rows, inverse_norms=norms, keys=named, payloads=texts
            )

    def remove(self, keys: Iterable[str]) -> None:
        """Removes entries.

        Raises:
            EntryError: a key that is not in the index or comes twice.
        """
        named = checked_keys(keys)
        with self._lock:
            self._table.remove(self._rows_of(named, remedy="leave it out"))

    # --- searching -------------------------------------------------------------------------------

    def search(self, vector: object, k: int) -> tuple[Match, ...]:
        """The k entries most similar to a vector, best first; all of them if there are fewer.

        Args:
            vector: [D] numbers, of any length but zero.
            k: at least 1.

        Raises:
            VectorError: a wrong shape, NaN, Inf, a zero vector, or a k that is not possible.
        """
        array = real_array(vector)
        if array.ndim != 1:
            raise VectorError(
                f"search takes one vector [{self.dimension}] and got shape {list(array.shape)}: "
                "use search_batch"
            )
        return self.search_batch(array[None, :], k)[0]

    def search_batch(self, vectors: object, k: int) -> tuple[tuple[Match, ...], ...]:
        """Searches for many vectors at once; all answers come from one state of the index.

        Args:
            vectors: [Q, D] numbers.
            k: at least 1.

        Returns:
            One answer per vector, each as `search` gives it.

        Raises:
            VectorError: as for `search`.
        """
        count = positive(k, "k")
        queries = unit_rows(
            real_array(vectors), dimension=self.dimension, label=lambda row: f"query {row}"
        )
        if len(queries) == 0:
            return ()
        snapshot, scores, rows = self._searcher.search(self._newest, queries, count)
        keys, payloads = snapshot.keys, snapshot.payloads
        return tuple(
            tuple(
                Match(keys[row], score, json_value(payloads[row]))
                for row, score in zip(found, graded, strict=True)
            )
            for found, graded in zip(rows.tolist(), scores.tolist(), strict=True)
        )

    # --- looking up ------------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        dimension: int = self._newest().rows.shape[1]
        return dimension

    @property
    def dtype(self) -> str:
        """What the vectors are kept in, "float32" or "float16"."""
        return self._newest().rows.dtype.name

    @property
    def metadata(self) -> dict[str, JsonValue]:
        """What the index was made with; a new object at every call."""
        return cast("dict[str, JsonValue]", json_value(self._metadata))

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys, the oldest entry first."""
        snapshot = self._newest()
        keys = snapshot.keys[: snapshot.count]
        return tuple(compress(keys, snapshot.inverse_norms[: snapshot.count].tolist()))

    def __len__(self) -> int:
        return self._newest().live

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        with self._lock:
            return self._table.find(key) is not None

    def vector(self, key: str) -> Floats:
        """The unit vector of a key as it is kept, float32 [D], a copy.

        Raises:
            EntryError: the key is not in the index.
        """
        with self._lock:
            (row,) = self._rows_of([key], remedy="see keys")
            vector: Floats = self._newest().rows[row].astype(np.float32)
            return vector

    def payload(self, key: str) -> JsonValue:
        """The payload of a key, a new object at every call.

        Raises:
            EntryError: the key is not in the index.
        """
        with self._lock:
            (row,) = self._rows_of([key], remedy="see keys")
            return json_value(self._newest().payloads[row])

    # --- files -----------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Saves the index, in place of one that the folder may hold.

        A save that is killed at any moment leaves the old index or the new one, complete. Searches
        and writes go on meanwhile; the save is of the state at its beginning.

        Args:
            folder: made if it is missing. Files in it that belong to no index are left alone.

        Raises:
            IndexFileError: the folder has an `index.json` that is not an index's.
            OSError: the disk is full or not writable; the index saved before is still there.
        """
        index_files.save_index(Path(folder), self._newest(), self._metadata)

    @classmethod
    def load(
        cls, folder: str | Path, *, backend: str = "auto", device: str = "cpu"
    ) -> EmbeddingIndex:
        """Loads a saved index; the folder is not changed.

        Args:
            folder: where it was saved.
            backend: as for a new index.
            device: as for a new index.

        Raises:
            IndexFileError: the folder holds no index, or one that is truncated, altered,
                incomplete or of another version.
            BackendError: as for a new index.
        """
        saved = index_files.load_index(Path(folder))
        index = cls(
            saved.rows.shape[1],
            dtype=saved.rows.dtype.name,
            backend=backend,
            device=device,
            metadata=saved.metadata,
        )
        index._table = RowTable(
            snapshot_of(saved.rows, saved.inverse_norms, saved.keys, saved.payloads)
        )
        return index

    # --- inside ----------------------------------------------------------------------------------

    def _newest(self) -> Snapshot:
        return self._table.snapshot

    def _stored(self, vectors: object, keys: Sequence[str]) -> tuple[Rows, Floats]:
        """The vectors of keys as they are kept, and their inverse norms."""
        array = real_array(vectors)
        if array.ndim == 2 and len(array) != len(keys):
            raise VectorError(
                f"{len(array)} vectors for {len(keys)} keys: pass one row per key, in their order"
            )
        units = unit_rows(
            array, dimension=self.dimension, label=lambda row: f"the vector of key {keys[row]!r}"
        )
        rows: Rows = units.astype(self.dtype, copy=False)
        norms: Floats = inverse_norms(rows)
        return rows, norms

    def _rows_of(self, keys: Iterable[str], *, remedy: str) -> list[int]:
        rows = []
        for key in keys:
            row = self._table.find(key)
            if row is None:
                raise EntryError(f"key {key!r} is not in the index: {remedy}")
            rows.append(row)
        return rows
