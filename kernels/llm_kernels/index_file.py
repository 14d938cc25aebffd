"""A saved index: one safetensors file, which holds numbers and a JSON text and runs no code.

Its tensors are `vectors`, [N, D], and `entries`, the bytes of a JSON object with the index's
`metadata` and, one per vector, `keys` and `payloads`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llm_base.files import open_regular, parse_json, write_durably
from llm_base.memory import free_memory
from llm_base.quoting import printable, quote
from llm_kernels.entries import checked_keys, json_text, payload_texts
from llm_kernels.errors import IndexFileError, SimilarityError
from llm_kernels.vectors import GREATEST_DIMENSION, inverse_norms

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from llm_kernels.vectors import Rows

_FORMAT = {"format": "llm-kernels embedding index"}
_MOST_ENTRY_BYTES = 1 << 28
"""Bytes of `entries`, at most: Python's values take many times the memory of their text."""
_LONGEST_FAULT = 300
"""Characters of what is wrong with a file, which may be in the file's own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedIndex:
    """The content of an index's file.

    Attributes:
        metadata: JSON text of an object.
        keys: [N], distinct.
        payloads: JSON texts or None, [N].
        rows: float32 or float16 [N, D].
    """

    metadata: str
    keys: Sequence[str]
    payloads: Sequence[str | None]
    rows: Rows


def write_index(path: Path, index: SavedIndex) -> None:
    """Writes an index's file, whole or not at all.

    Raises:
        IndexFileError: the keys and payloads are too long to be read back.
        OSError: the file cannot be written; the one that it would replace is still there.
    """
    from safetensors.numpy import save

    keys = ",".join(json_text(key, "a key") for key in index.keys)
    payloads = ",".join(text or "null" for text in index.payloads)
    entries = f'{{"metadata":{index.metadata},"keys":[{keys}],"payloads":[{payloads}]}}'.encode()
    if len(entries) > _MOST_ENTRY_BYTES:
        raise IndexFileError(
            f"the keys and payloads of {path} take {len(entries)} bytes, more than the "
            f"{_MOST_ENTRY_BYTES} that are read back: keep smaller payloads, or several indexes"
        )
    tensors = {"vectors": index.rows, "entries": np.frombuffer(entries, np.uint8)}
    write_durably(path, save(tensors, metadata=_FORMAT))


def read_index(path: Path) -> SavedIndex:
    """Reads an index's file, which anybody may have written.

    Raises:
        IndexFileError: it is missing, damaged, no index, or larger than the free memory.
    """
    from safetensors import SafetensorError

    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise IndexFileError(
            f"{path} cannot be read: {error.strerror}; build an index and save it there"
        ) from None
    if size > (free := free_memory()):
        raise IndexFileError(f"{path} has {size} bytes and {free} of memory are free: free some")
    try:
        return _read(path)
    except (SafetensorError, SimilarityError, ValueError, TypeError, KeyError) as error:
        fault = printable(str(error))[:_LONGEST_FAULT]
        raise IndexFileError(
            f"{path} is no embedding index, or is damaged ({fault}): build it again"
        ) from None


def _read(path: Path) -> SavedIndex:
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        slices = [file.get_slice(name) for name in ("vectors", "entries")]
        match kinds := [(part.get_dtype(), part.get_shape()) for part in slices]:
            case [("F32" | "F16", [_, int(dimension)]), ("U8", [int(length)])] if (
                file.metadata() == _FORMAT
                and 1 <= dimension <= GREATEST_DIMENSION
                and length <= _MOST_ENTRY_BYTES
            ):
                rows, entries = file.get_tensor("vectors"), file.get_tensor("entries").tobytes()
            case _:
                raise ValueError(f"it holds {quote(kinds)}")
    content = parse_json(entries)
    if not isinstance(content["metadata"], dict) or not isinstance(content["payloads"], list):
        raise ValueError("metadata or payloads are of another type")
    keys = checked_keys(content["keys"])
    if len(keys) != len(rows):
        raise ValueError(f"{len(keys)} keys for {len(rows)} vectors")
    inverse_norms(rows, name="vectors")  # refuses vectors without a direction
    return SavedIndex(
        metadata=json_text(content["metadata"], "metadata"),
        keys=keys,
        payloads=payload_texts(content["payloads"], keys),
        rows=rows,
    )
