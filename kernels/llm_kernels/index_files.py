"""Saved indexes: a folder with `index.json` and the file of vectors that it names.

The vectors are a safetensors file (`index_vectors`). `index.json` holds everything else, the
vectors' name and digest, and a digest of its own text. Replacing `index.json` is the one step that
makes a save take effect. A save that is killed before this step leaves the old index complete, and
a save that is killed after it the new index. Processes that save to one folder wait for each other
at `index.lock`; the system releases the lock of a process that dies.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from llm_base.files import new_file, open_regular, parse_json, sync, sync_folder
from llm_base.memory import free_memory
from llm_base.quoting import quote
from llm_kernels.entries import checked_keys, json_text, payload_texts
from llm_kernels.errors import EntryError, IndexFileError, VectorError
from llm_kernels.index_vectors import (
    BLOCK_BYTES,
    DTYPES,
    REMEDY,
    VECTORS_NAME,
    read_vectors,
    vectors_name,
    write_vectors,
)
from llm_kernels.vectors import GREATEST_DIMENSION, inverse_norms

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from llm_kernels.entries import JsonValue
    from llm_kernels.snapshots import Snapshot
    from llm_kernels.vectors import Floats, Rows

_INDEX = "index.json"
_LOCK = "index.lock"
_PARTIAL_INDEX = "index.json.partial"
_PARTIAL_VECTORS = "vectors.partial"
_FORMAT = "llm-kernels embedding index"
_VERSION = 1
# The digest covers everything after its own line.
_HEAD_BYTES = 1024
"""The beginning of an `index.json`, which holds its format and the name of its vectors' file."""
_HEAD = re.compile(rb'\{\n"sha256": "([0-9a-f]{64})",\n(?="format": "%s",\n)' % _FORMAT.encode())
_NAMED = re.compile(rb'"file": "(%s)"' % VECTORS_NAME.pattern.encode())
_MOST_INDEX_BYTES = 1 << 32
"""Bytes of the largest `index.json`, which is read into memory: over ten million entries."""
_VALUE_BYTES = 144
"""The most memory that one value of `index.json` takes beside its text; an object takes as much."""
_json_string = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedIndex:
    """The checked content of an index's folder.

    Attributes:
        metadata: what the index was made with.
        keys: [N], distinct.
        payloads: JSON texts or None, [N].
        rows: float32 or float16 [N, D].
        inverse_norms: float32 [N].
    """

    metadata: dict[str, JsonValue]
    keys: list[str]
    payloads: list[str | None]
    rows: Rows
    inverse_norms: Floats


def save_index(folder: Path, snapshot: Snapshot, metadata: str) -> None:
    """Writes the live rows of a snapshot to a folder, in place of the index that it held.

    Memory: a few megabytes for the vectors, and once or twice the length of `index.json`. Other
    processes that save to the folder wait; processes that load from it do not.

    Args:
        folder: made if it is missing. Files in it that belong to no index are left alone.
        snapshot: what to save.
        metadata: JSON text of an object.

    Raises:
        IndexFileError: the folder has an `index.json` that is not an index's, or this index's would
            be larger than 4 GiB.
        OSError: the disk is full or not writable; the index saved before is still there.
    """
    from filelock import FileLock

    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / _LOCK):
        _refuse_foreign(folder / _INDEX)
        try:
            digest = write_vectors(folder / _PARTIAL_VECTORS, snapshot)
            (folder / _PARTIAL_VECTORS).replace(folder / vectors_name(digest))
            _write_index(folder / _PARTIAL_INDEX, snapshot, metadata, digest)
            # The names below must not reach the disk before the file that they name.
            sync_folder(folder)
            (folder / _PARTIAL_INDEX).replace(folder / _INDEX)
            sync_folder(folder)
        finally:
            _sweep(folder)


def load_index(folder: Path) -> SavedIndex:
    """Reads a folder that `save_index` wrote; changes nothing in it.

    The vectors are in memory only once: they are read into the array that the index keeps, and the
    digest is computed from this array.

    Raises:
        IndexFileError: the folder holds no index, or one that is truncated, altered, incomplete,
            of another version, or whose `index.json` may not fit the memory that is free.
    """
    text = _read_index(folder)
    while True:
        content = _checked_content(folder / _INDEX, text)
        try:
            return _with_vectors(folder, content)
        except FileNotFoundError as error:
            # A saver may have replaced the index and its vectors after the first was read.
            newer = _read_index(folder)
            if newer == text:
                raise _unread(content, folder, error) from None
            text = newer
        except OSError as error:
            raise _unread(content, folder, error) from None


def _unread(content: dict[str, Any], folder: Path, error: OSError) -> IndexFileError:
    name = content["vectors"]["file"]
    missing = isinstance(error, FileNotFoundError)
    reason = "is missing" if missing else f"cannot be read ({error.strerror})"
    return IndexFileError(f"{folder / _INDEX} names {name}, which {reason}: {REMEDY}")


# --- writing -------------------------------------------------------------------------------------


def _refuse_foreign(index: Path) -> None:
    try:
        with open_regular(index) as file:
            head = file.read(_HEAD_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise IndexFileError(
            f"{index} cannot be read ({error.strerror}), and would be replaced: save to another "
            "folder or remove it"
        ) from None
    if _HEAD.match(head) is None:
        raise IndexFileError(
            f"{index} is not an embedding index, or its beginning is damaged, and would be "
            "overwritten: save to another folder or remove the file"
        )


def _write_index(path: Path, snapshot: Snapshot, metadata: str, digest: str) -> None:
    live = snapshot.live_rows().tolist()
    fields = {
        "format": json.dumps(_FORMAT),
        "version": json.dumps(_VERSION),
        "vectors": json.dumps({"file": vectors_name(digest), "sha256": digest}),
        "dtype": json.dumps(snapshot.rows.dtype.name),
        "dimension": json.dumps(snapshot.rows.shape[1]),
        "metadata": metadata,
        "keys": _lines(_json_string(snapshot.keys[row]) for row in live),
        "payloads": _lines(snapshot.payloads[row] or "null" for row in live),
    }
    body = ",\n".join(f'"{name}": {text}' for name, text in fields.items()).encode() + b"\n}\n"
    if len(body) > _MOST_INDEX_BYTES - _HEAD_BYTES:
        raise IndexFileError(
            f"the keys and payloads of {path.parent} take {len(body)} bytes, more than the "
            f"{_MOST_INDEX_BYTES} that are read back: keep smaller payloads, or several indexes"
        )
    with new_file(path) as file:
        file.write(b'{\n"sha256": "%s",\n' % hashlib.sha256(body).hexdigest().encode())
        file.write(body)
        sync(file)


def _lines(texts: Iterable[str]) -> str:
    return "[\n" + ",\n".join(texts) + "\n]"


def _sweep(folder: Path) -> None:
    """Removes the partial files of a save, and vectors that `index.json` does not name."""
    for name in (_PARTIAL_INDEX, _PARTIAL_VECTORS):
        with suppress(IsADirectoryError):  # it is not ours, and made the save fail
            (folder / name).unlink(missing_ok=True)
    try:
        with open_regular(folder / _INDEX) as file:
            named = _NAMED.search(file.read(_HEAD_BYTES))
    except FileNotFoundError:
        keep = ""
    else:
        if named is None:
            return
        keep = named[1].decode()
    for path in folder.iterdir():
        if VECTORS_NAME.fullmatch(path.name) and path.name != keep:
            path.unlink(missing_ok=True)


# --- reading -------------------------------------------------------------------------------------


def _read_index(folder: Path) -> bytes:
    path = folder / _INDEX
    if not os.path.isdir(folder):
        raise IndexFileError(f"there is no folder {folder}: build an index and save it there")
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            head = _HEAD.match(file.read(_HEAD_BYTES))
            # Checked before the rest is read: a sparse file of any size takes no room on the disk.
            if head is None:
                raise IndexFileError(f"{path} does not begin as an embedding index does: {REMEDY}")
            if size > _MOST_INDEX_BYTES:
                raise IndexFileError(f"{path} has {size} bytes, more than any index: {REMEDY}")
            file.seek(head.end())
            needed = _measure(path, file, head[1].decode())
            if needed > (free := free_memory()):
                raise IndexFileError(
                    f"{path} takes up to {needed} bytes of memory to read, and {free} are free: "
                    "free some, or keep smaller payloads, or several indexes"
                )
            file.seek(0)
            return file.read(size)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise IndexFileError(
            f"{folder} holds no index, as it has no file {_INDEX}: give the folder that an index "
            "was saved to"
        ) from None
    except OSError as error:
        raise IndexFileError(f"{path} cannot be read: {error.strerror}") from None


def _measure(path: Path, file: BinaryIO, expected: str) -> int:
    """Checks the digest of an `index.json` and bounds the memory that reading it takes.

    Args:
        file: open at the first byte that the digest covers; it is read to its end.
        expected: the digest, in hexadecimal.

    Returns:
        An upper bound, in bytes, for the file, its text, its values and these values as texts.

    Raises:
        IndexFileError: the digest differs.
    """
    digest = hashlib.sha256()
    size = values = 0
    width = 1
    while block := file.read(BLOCK_BYTES):
        if b"\0" in block:  # JSON has no NUL, and a sparse file has nothing else.
            break
        digest.update(block)
        size += len(block)
        values += sum(map(block.count, (b",", b":", b"[", b"{")))
        if not block.isascii() or b"\\u" in block or block.endswith(b"\\"):
            width = 4  # One wide character widens all characters of a text in Python.
    if digest.hexdigest() != expected:
        raise IndexFileError(f"{path} is truncated or was altered, as its digest differs: {REMEDY}")
    return (2 + 3 * width) * size + _VALUE_BYTES * values


def _checked_content(path: Path, text: bytes) -> dict[str, Any]:
    """The fields of an `index.json` whose digest is right, each of the type that it must have."""
    try:
        content = parse_json(text)
        version = content["version"]
        if version != _VERSION:
            raise IndexFileError(
                f"{path} is of version {quote(version)} and this release reads version {_VERSION}: "
                "load it with the release that saved it, or build it again"
            )
        _check_types(content)
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, IndexFileError):
            raise
        raise IndexFileError(f"{path} has wrong fields ({error}): {REMEDY}") from None
    return dict(content)


def _check_types(content: dict[str, Any]) -> None:
    """Checks the types of the fields, which are wrong only in a file that was written by hand."""
    dimension, keys, payloads = content["dimension"], content["keys"], content["payloads"]
    if type(dimension) is not int or not 1 <= dimension <= GREATEST_DIMENSION:
        raise ValueError(f"dimension {quote(dimension)}")
    if content["dtype"] not in DTYPES:
        raise ValueError(f"dtype {quote(content['dtype'])}")
    if not isinstance(content["metadata"], dict):
        raise ValueError("metadata that is not an object")
    json_text(content["metadata"], "metadata")
    if not isinstance(keys, list) or not isinstance(payloads, list):
        raise ValueError("keys or payloads that are not a list")
    name, digest = content["vectors"]["file"], content["vectors"]["sha256"]
    if name != vectors_name(digest) or not VECTORS_NAME.fullmatch(name):
        raise ValueError("a file of vectors that is not named by its digest")


def _with_vectors(folder: Path, content: dict[str, Any]) -> SavedIndex:
    path = folder / vectors_name(content["vectors"]["sha256"])
    rows = read_vectors(
        path,
        shape=(len(content["keys"]), content["dimension"]),
        dtype=content["dtype"],
        digest=content["vectors"]["sha256"],
    )
    try:
        keys = checked_keys(content["keys"])
        return SavedIndex(
            metadata=content["metadata"],
            keys=keys,
            payloads=payload_texts(content["payloads"], keys),
            rows=rows,
            inverse_norms=inverse_norms(rows, name="vectors"),
        )
    except (EntryError, VectorError) as error:
        raise IndexFileError(
            f"{folder} holds entries that no index accepts ({error}): {REMEDY}"
        ) from None
