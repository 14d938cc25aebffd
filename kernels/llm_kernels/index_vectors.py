"""The file of a saved index's vectors: safetensors, under a name that carries its SHA-256."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from typing import TYPE_CHECKING

import numpy as np

from llm_base.files import new_file, open_regular, sync
from llm_kernels.errors import IndexFileError
from llm_kernels.vectors import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llm_kernels.snapshots import Snapshot
    from llm_kernels.vectors import Rows

REMEDY = "restore the folder from a copy, or build the index again and save it there"
DTYPES = {"float32": "F32", "float16": "F16"}
"""The dtypes that can be saved, and their names in safetensors."""
BLOCK_BYTES = 1 << 22
"""Bytes that are read or written at once."""
VECTORS_NAME = re.compile(r"vectors-[0-9a-f]{32}\.safetensors")


def vectors_name(digest: str) -> str:
    """The name of the file whose SHA-256 is `digest`, in hexadecimal."""
    return f"vectors-{digest[:32]}.safetensors"


def write_vectors(path: Path, snapshot: Snapshot) -> str:
    """Writes a safetensors file with one tensor, `vectors`; returns its SHA-256.

    The layout is written here: safetensors' own writer uses a temporary file of a random name,
    which would stay after a kill, and its file is readable by its owner only.
    """
    digest = hashlib.sha256()
    with new_file(path) as file:
        for block in _content(snapshot):
            file.write(block)
            digest.update(block)
        sync(file)
    return digest.hexdigest()


def read_vectors(path: Path, *, shape: tuple[int, int], dtype: str, digest: str) -> Rows:
    """Reads a file of vectors into the array that the index keeps.

    Args:
        shape: [N, D], as `index.json` states it.
        dtype: as `index.json` states it, one of `DTYPES`.
        digest: SHA-256 of the file, in hexadecimal.

    Raises:
        IndexFileError: the file has another length or another digest.
        OSError: it cannot be opened.
    """
    kind = np.dtype(dtype)
    head = _head(*shape, dtype)
    expected = len(head) + shape[0] * shape[1] * kind.itemsize
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size != expected:
            raise IndexFileError(
                f"{path} has {size} bytes instead of {expected}, so it is truncated or was "
                f"replaced: {REMEDY}"
            )
        found = hashlib.sha256(file.read(len(head)))
        rows: Rows = np.empty(shape, kind)
        flat = rows.reshape(-1).view(np.uint8)
        for part in blocks(len(flat), BLOCK_BYTES):
            file.readinto(flat[part].data)
            found.update(flat[part].data)
    if found.hexdigest() != digest:
        raise IndexFileError(f"{path} was altered, as its digest differs: {REMEDY}")
    return rows


def _content(snapshot: Snapshot) -> Iterator[memoryview | bytes]:
    live = snapshot.live_rows()
    dimension, dtype = snapshot.rows.shape[1], snapshot.rows.dtype
    yield _head(len(live), dimension, dtype.name)
    for part in blocks(len(live), max(1, BLOCK_BYTES // (dimension * dtype.itemsize))):
        yield snapshot.rows[live[part]].data.cast("B")


def _head(rows: int, dimension: int, dtype: str) -> bytes:
    """The beginning of the safetensors file: the header's length in 8 bytes, and the header."""
    end = rows * dimension * np.dtype(dtype).itemsize
    tensor = {"dtype": DTYPES[dtype], "shape": [rows, dimension], "data_offsets": [0, end]}
    header = json.dumps({"vectors": tensor}, separators=(",", ":")).encode()
    header = header.ljust(-(-len(header) // 8) * 8)
    return struct.pack("<Q", len(header)) + header
