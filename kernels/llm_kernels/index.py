"""An index of embeddings: vectors by string key, searched by cosine similarity, saved to disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from llm_kernels import similarity
from llm_kernels.entries import JsonValue, checked_keys, json_text, json_value, payload_texts
from llm_kernels.errors import EntryError, VectorError
from llm_kernels.index_file import SavedIndex, read_index, write_index
from llm_kernels.vectors import GREATEST_DIMENSION, inverse_norms, positive, real_array, unit_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torch import Tensor

    from llm_kernels.vectors import Array, Floats, Rows

_DTYPES = ("float32", "float16")
# Products, rows x dimension x queries, below which a CPU answers in 0.3 ms (two cores, D = 384): as
# soon as a GPU that the queries have to reach first. The two were not measured side by side.
_ANSWERED_HERE = 4_000_000


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
    scores by age: the entry added first comes first.

    The index lives in memory. A write that is refused changes nothing. While one thread writes, no
    other may use the index.

    Adding copies the new vectors. Removing copies 4 bytes per row of the index once a call, so pass
    many keys in one call.

    Args:
        dimension: of every vector, D.
        dtype: "float32", or "float16" for half the memory and three decimal digits.
        backend: "auto", "triton", "faiss", "torch" or "numpy".
        device: "cpu", "cuda" or "cuda:1" and the like. On a GPU the rows are copied there as they
            are searched; the host keeps its own, and with backend "auto" answers from them where
            rows x dimension x queries is less than 4 million.
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
        if dtype not in _DTYPES:
            raise VectorError(f"dtype is {dtype!r}: choose one of {', '.join(_DTYPES)}")
        if positive(dimension, "dimension") > GREATEST_DIMENSION:
            raise VectorError(f"dimension is {dimension}: it must be {GREATEST_DIMENSION} at most")
        similarity.check_device(device)
        if backend != "auto":
            similarity.check_backend(backend, device)
        self._metadata = json_text(dict(metadata or {}), "metadata")
        self._backend = backend
        # Columns by row, the oldest first. Of the arrays only the first `len(self._keys)` are in
        # use; a row that was removed has the inverse norm 0.
        self._rows: Rows = np.empty((0, dimension), dtype)
        self._inverse_norms: Floats = np.empty(0, np.float32)
        self._keys: list[str] = []
        self._payloads: list[str | None] = []
        self._row_of: dict[str, int] = {}
        self._sent = None if device == "cpu" else (_Sent(device), _Sent(device))

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
        rows = self._stored(vectors, named)
        texts = [None] * len(named) if payloads is None else payload_texts(payloads, named)
        for key in named:
            if key in self._row_of:
                raise EntryError(f"key {key!r} is in the index already: remove it first")
        self._append(named, rows, texts)

    def remove(self, keys: Iterable[str]) -> None:
        """Removes entries.

        Raises:
            EntryError: a key that is not in the index or comes twice.
        """
        named = checked_keys(keys)
        for key in named:
            self._row(key, remedy="leave it out")
        self._drop(named)

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

    def search_batch(
        self, vectors: object, k: int, *, keys: Sequence[str | None] | None = None
    ) -> tuple[tuple[Match, ...], ...]:
        """Searches for many vectors at once; all answers come from one state of the index.

        Args:
            vectors: [Q, D] numbers.
            k: at least 1.
            keys: [Q] keys of the entries that the queries themselves are, None for one that is no
                entry. A query's own entry, if it is in the index, comes before all that share its
                vector, also before older ones.

        Returns:
            One answer per vector, each as `search` gives it.

        Raises:
            VectorError: as for `search`.
        """
        units = self._units(vectors, label=lambda row: f"query {row}")
        most = min(positive(k, "k"), len(self))
        used = len(self._keys)
        rows: Array = self._rows[:used]
        norms: Array = self._inverse_norms[:used]
        small = self._backend == "auto" and rows.size * len(units) < _ANSWERED_HERE
        if self._sent is not None and not small:
            rows = self._sent[0].following(self._rows, used)
            norms = self._sent[1].following(self._inverse_norms, used)
        answer = similarity.topk_of_units(units, rows, norms, most, backend=self._backend)
        best = tuple(
            tuple(self._match(row, score) for row, score in zip(found, graded, strict=True))
            for graded, found in zip(*(side.tolist() for side in answer), strict=True)
        )
        if keys is None:
            return best
        queries = zip(keys, units, best, strict=True)
        return tuple(self._own_first(key, unit, matches) for key, unit, matches in queries)

    # --- looking up ------------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        dimension: int = self._rows.shape[1]
        return dimension

    @property
    def dtype(self) -> str:
        """What the vectors are kept in, "float32" or "float16"."""
        return self._rows.dtype.name

    @property
    def metadata(self) -> dict[str, JsonValue]:
        """What the index was made with; a new object at every call."""
        return cast("dict[str, JsonValue]", json_value(self._metadata))

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys, the oldest entry first."""
        return tuple(self._row_of)

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, key: object) -> bool:
        return key in self._row_of

    def vector(self, key: str) -> Floats:
        """The unit vector of a key as it is kept, float32 [D], a copy.

        Raises:
            EntryError: the key is not in the index.
        """
        vector: Floats = self._rows[self._row(key, remedy="see keys")].astype(np.float32)
        return vector

    # --- files -----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Saves the index as one file, whole or not at all, in place of one that is there.

        Args:
            path: of the file, in a folder that exists.

        Raises:
            IndexFileError: the keys and payloads are too long to be read back.
            OSError: it cannot be written; the file that it would replace is still there.
        """
        live = list(self._row_of.values())
        write_index(
            Path(path),
            SavedIndex(
                metadata=self._metadata,
                keys=self.keys,
                payloads=[self._payloads[row] for row in live],
                rows=self._rows[live],
            ),
        )

    @classmethod
    def load(
        cls, path: str | Path, *, backend: str = "auto", device: str = "cpu"
    ) -> EmbeddingIndex:
        """Loads a saved index, which anybody may have written.

        Args:
            path: where it was saved.
            backend: as for a new index.
            device: as for a new index.

        Raises:
            IndexFileError: the file is missing, damaged, no index, or larger than the free memory.
            BackendError: as for a new index.
        """
        saved = read_index(Path(path))
        index = cls(
            saved.rows.shape[1], dtype=saved.rows.dtype.name, backend=backend, device=device
        )
        index._metadata = saved.metadata
        index._append(saved.keys, saved.rows, saved.payloads)
        return index

    # --- inside ----------------------------------------------------------------------------------

    def _units(self, vectors: object, *, label: Callable[[int], str]) -> Floats:
        """Vectors [N, D] scaled to unit length."""
        array = real_array(vectors)
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise VectorError(
                f"vectors have shape {list(array.shape)} instead of [rows, {self.dimension}], the "
                "dimension that the index was made for"
                + (": one vector is a matrix of one row, v[None, :]" if array.ndim == 1 else "")
            )
        return unit_rows(array, label=label)

    def _stored(self, vectors: object, keys: Sequence[str]) -> Rows:
        """The vectors of keys as they are kept."""
        array = real_array(vectors)
        if array.ndim == 2 and len(array) != len(keys):
            raise VectorError(
                f"{len(array)} vectors for {len(keys)} keys: pass one row per key, in their order"
            )
        units = self._units(array, label=lambda row: f"the vector of key {keys[row]!r}")
        rows: Rows = units.astype(self.dtype, copy=False)
        return rows

    def _match(self, row: int, score: float) -> Match:
        return Match(self._keys[row], score, json_value(self._payloads[row]))

    def _own_first(
        self, key: str | None, unit: Floats, best: tuple[Match, ...]
    ) -> tuple[Match, ...]:
        """The matches of a query whose own entry has this key, which may not be among them."""
        row = None if key is None else self._row_of.get(key)
        if row is None:
            return best
        cosine = unit @ self._rows[row].astype(np.float32) * self._inverse_norms[row]
        found = (match for match in best if match.key == key)
        own = next(found, None) or self._match(row, float(cosine))
        return (own, *(match for match in best if match.key != key))[: len(best)]

    def _row(self, key: str, *, remedy: str) -> int:
        row = self._row_of.get(key)
        if row is None:
            raise EntryError(f"key {key!r} is not in the index: {remedy}")
        return row

    def _append(self, keys: Sequence[str], rows: Rows, payloads: Sequence[str | None]) -> None:
        """Adds rows at the end; room is made by doubling."""
        start, end = len(self._keys), len(self._keys) + len(keys)
        norms = inverse_norms(rows)
        if end > len(self._rows):
            room = max(end, 2 * len(self._rows))
            self._rows = _grown(self._rows[:start], room)
            self._inverse_norms = _grown(self._inverse_norms[:start], room)
        self._rows[start:end] = rows
        self._inverse_norms[start:end] = norms
        self._keys += keys
        self._payloads += payloads
        self._row_of.update(zip(keys, range(start, end), strict=True))

    def _drop(self, keys: Sequence[str]) -> None:
        """Removes keys; where few rows are left, they move together."""
        # A new array, by which a copy on a device sees that more than its end is new.
        self._inverse_norms = self._inverse_norms.copy()
        self._inverse_norms[[self._row_of.pop(key) for key in keys]] = 0.0
        if len(self) < len(self._keys) - len(self):
            live = list(self._row_of.values())
            self._rows, self._inverse_norms = self._rows[live], self._inverse_norms[live]
            self._keys = list(self._row_of)
            self._payloads = [self._payloads[row] for row in live]
            self._row_of = {key: row for row, key in enumerate(self._keys)}


class _Sent:
    """An array's copy on a device, to which only what is new at its end is sent.

    Rows are filled up with zeros to whole 16 bytes, which a GPU copies at once; products stay as
    they are.

    Args:
        device: anything that torch takes; the tests use "cpu".
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._array: np.ndarray[Any, Any] | None = None
        self._tensor: Any = None
        self._count = 0

    def following(self, array: Rows | Floats, count: int) -> Tensor:
        """The first `count` rows of an array, filled up; all are sent if it is another array."""
        import torch

        if array is not self._array:
            dtype = torch.float16 if array.dtype == np.float16 else torch.float32
            together = 16 // array.itemsize
            widths = (-(-width // together) * together for width in array.shape[1:])
            shape = (len(array), *widths)
            self._tensor = torch.zeros(shape, dtype=dtype, device=self._device)
            self._array, self._count = array, 0
        if self._count < count:
            new = torch.from_numpy(array[self._count : count])
            self._tensor[(slice(self._count, count), *map(slice, array.shape[1:]))].copy_(new)
            self._count = count
        return self._tensor[:count]


def _grown(array: Any, room: int) -> Any:  # noqa: ANN401 - an array of any type
    """A longer array that begins with a given one."""
    result = np.empty((room, *array.shape[1:]), array.dtype)
    result[: len(array)] = array
    return result
