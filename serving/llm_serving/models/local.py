"""Local model folders: what makes one usable, and a revision that follows its content.

A folder may come from any source. The libraries that read it block on a pipe, follow names out of
the folder and raise any exception. So the folder is checked here first.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from llm_base.files import open_regular, parse_json, read_json, read_regular
from llm_base.quoting import quote
from llm_serving.errors import EncoderError, UnknownModelError
from llm_serving.models.folders import sha256

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXTS = frozenset({".json", ".jinja", ".model", ".tiktoken", ".txt"})
_WEIGHTS = frozenset({".bin", ".gguf", ".pt", ".pth", ".safetensors"})
_NEVER_LOADED = frozenset({"optimizer", "rng_state", "scaler", "scheduler", "training_args"})
"""Names of files that a training leaves beside the weights, without their endings."""
_POINTER = b"version https://git-lfs.github.com/spec/"
"""Begins what Git LFS leaves in the place of a file that it has not fetched."""
_SAMPLE = 1 << 20
_LONGEST_HEADER = 100_000_000
"""Bytes that a safetensors file's header may have, by its format."""
_LONGEST_TEXT = 1 << 30
"""Bytes of a tokenizer or a configuration; the largest ones known have 30 MB."""
_MOST_FILES = 10_000
_MOST_LAYERS = 4096
_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "depth")
CARD = "taught.json"
"""In the folder of an adapter, or of a model that one was merged into: what it was taught."""
MERGED = "merged.json"
"""In the folder of a model that an adapter was merged into: the revision of both."""
MARKS = (CARD, MERGED)
_REMEDY = "Copy or download the whole model again"
_MODULE = re.compile(r"sentence_transformers\.(\w+\.)*[A-Z]\w*")
"""A class of sentence-transformers; any other class would be code from the model's folder."""


def check_folder(folder: Path, *, remedy: str = _REMEDY) -> None:
    """Refuses a folder that holds no model, or one that no library should read.

    Args:
        folder: the model's.
        remedy: ends the message where files are missing or damaged.

    Raises:
        UnknownModelError: it has no `config.json`; a file in it is not a regular one or may not be
            read; a JSON file is damaged; it has no weights, or lacks some that its index lists; a
            file is a pointer of Git LFS.
    """
    if not os.path.lexists(folder / "config.json"):
        raise UnknownModelError(
            f"the folder {folder} holds no model: it has no config.json. Give the folder that a "
            "Hugging Face model was saved or downloaded to"
        )
    _check_files(folder)
    _check_pointers(folder, remedy)
    _check_layers(folder / "config.json", _read_object(folder / "config.json", remedy))
    _check_weights(folder, remedy)
    for path in sorted(folder.glob("*.safetensors")):
        _check_header(path, remedy)


def _check_files(folder: Path) -> None:
    """Refuses files that would block a reader, or cannot be read."""
    for number, path in enumerate(_paths(folder)):
        if number >= _MOST_FILES:
            raise UnknownModelError(
                f"the folder {folder} holds more than {_MOST_FILES} files, and a model has some "
                "ten: give the folder of one model"
            )
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            raise UnknownModelError(f"{path} cannot be read: {error.strerror}") from error
        if not stat.S_ISREG(mode):
            raise UnknownModelError(
                f"{path} is not a regular file: remove it from the model's folder"
            )
        if not os.access(path, os.R_OK):
            raise UnknownModelError(f"{path} may not be read by you: change its permissions")


def _check_pointers(folder: Path, remedy: str) -> None:
    pointers = sorted(os.path.relpath(path, folder) for path in _paths(folder) if _is_pointer(path))
    if pointers:
        raise UnknownModelError(
            f"the model in {folder} is not whole: pointers of Git LFS stand in the place of "
            f"{len(pointers)} of its files, the first is {pointers[0][:80]}. Run `git lfs pull` "
            f"there. {remedy}"
        )


def _is_pointer(path: Path | str) -> bool:
    """Whether a file is a pointer of Git LFS.

    Raises:
        UnknownModelError: it cannot be read.
    """
    try:
        with open_regular(Path(path)) as file:
            return file.read(len(_POINTER)) == _POINTER
    except OSError as error:
        raise UnknownModelError(f"{path} cannot be read: {error.strerror}") from error


def _paths(folder: Path) -> Iterator[str]:
    """The paths of all files below a folder."""

    def fail(error: OSError) -> None:
        raise UnknownModelError(
            f"the folder {error.filename} cannot be read: {error.strerror}"
        ) from error

    seen: set[str] = set()
    for root, below, names in os.walk(folder, onerror=fail, followlinks=True):
        # A link may lead back to where it lies.
        if (place := os.path.realpath(root)) in seen:
            below.clear()
            continue
        seen.add(place)
        yield from (os.path.join(root, name) for name in names)


def _read_json(path: Path, remedy: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return read_json(path, most=_LONGEST_TEXT)
    except OSError as error:
        raise UnknownModelError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UnknownModelError(f"{path} is damaged: it is not JSON ({error}). {remedy}") from error


def _read_object(path: Path, remedy: str) -> dict[str, Any]:
    value = _read_json(path, remedy)
    if not isinstance(value, dict):
        raise UnknownModelError(f"{path} is damaged: it is not a JSON object. {remedy}")
    return value


def _check_layers(path: Path, config: dict[str, Any]) -> None:
    """Refuses a number of layers that would fill the memory."""
    for part in (config, *(value for value in config.values() if isinstance(value, dict))):
        for name in _LAYERS:
            layers = part.get(name, 0)
            if isinstance(layers, int | float) and layers > _MOST_LAYERS:
                raise UnknownModelError(
                    f"{path} says {name}: {layers:.3g}, more than {_MOST_LAYERS}: no model that "
                    "can be run has so many"
                )


def check_modules(folder: Path) -> None:
    """Refuses a sentence encoder that is made of anything but sentence-transformers' modules.

    Raises:
        EncoderError: its `modules.json` is damaged, or names code of another origin.
        UnknownModelError: it is not JSON.
    """
    path = folder / "modules.json"
    modules = _read_json(path, _REMEDY)
    if not isinstance(modules, list):
        raise EncoderError(f"{path} is damaged: it is not a list of modules. {_REMEDY}")
    for module in modules:
        match module:
            case {"type": str(kind), "path": place} if _MODULE.fullmatch(kind):
                if not _is_inside(place):
                    raise EncoderError(
                        f"{path} names the folder {quote(str(place))}, which is outside of the "
                        "model's"
                    )
            case {"type": kind}:
                raise EncoderError(
                    f"{path} names the module {quote(str(kind))}, which is not from "
                    "sentence-transformers: code that comes with a model is not run here; take "
                    "another encoder"
                )
            case _:
                raise EncoderError(f"{path} is damaged: it is not a list of modules. {_REMEDY}")


def _check_weights(folder: Path, remedy: str) -> None:
    listed: set[str] = set()
    for index in sorted(folder.glob("*.index.json")):
        match _read_object(index, remedy):
            case {"weight_map": {**shards}} if all(map(_is_inside, shards.values())):
                listed.update(map(str, shards.values()))
            case _:
                raise UnknownModelError(
                    f"{index} is damaged: it has no `weight_map` from weights to files of the "
                    f"folder. {remedy}"
                )
    missing = sorted(shard for shard in listed if not os.path.isfile(folder / shard))
    if missing:
        raise UnknownModelError(
            f"the model in {folder} is not whole: {len(missing)} of {len(listed)} weight files "
            f"are missing, the first is {missing[0][:80]}. {remedy}"
        )
    endings = {path.suffix for path in map(Path, _paths(folder)) if path.stem not in _NEVER_LOADED}
    if endings.isdisjoint(_WEIGHTS - {".gguf"}):
        other = ", and GGUF is not read" if ".gguf" in endings else ""
        raise UnknownModelError(
            f"the model in {folder} has no weights: no file ends in .safetensors or .bin{other}. "
            f"{remedy}"
        )


def _check_header(path: Path, remedy: str) -> None:
    """Refuses weights whose header claims more bytes than there are: they would be allocated."""
    try:
        with open_regular(path) as file:
            claimed = 8 + int.from_bytes(file.read(8), "little")
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise UnknownModelError(f"{path} cannot be read: {error.strerror}") from error
    if _is_pointer(path):
        raise UnknownModelError(
            f"{path} is a pointer of Git LFS, not what it points to. Run `git lfs pull` there. "
            f"{remedy}"
        )
    if size < 8 or claimed > min(size, _LONGEST_HEADER):
        raise UnknownModelError(
            f"{path} is damaged: its header does not fit its {size} bytes. {remedy}"
        )


def tensor_shapes(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """The shape and the type of each tensor of a safetensors file, by its name.

    Raises:
        UnknownModelError: the file cannot be read, or its header is damaged.
    """
    _check_header(path, _REMEDY)
    damaged = UnknownModelError(f"{path} is damaged: its header names no tensors. {_REMEDY}")
    with open_regular(path) as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = parse_json(file.read(length))
        except ValueError as error:
            raise damaged from error
    if not isinstance(header, dict):
        raise damaged
    shapes: dict[str, tuple[tuple[int, ...], str]] = {}
    for name, tensor in header.items():
        match tensor:
            case _ if name == "__metadata__":
                continue
            case {"dtype": str(dtype), "shape": [*sizes]} if all(type(n) is int for n in sizes):
                shapes[name] = (tuple(sizes), dtype)
            case _:
                raise damaged
    return shapes


def _is_inside(place: object) -> bool:
    """Whether a path that a folder's file names stays in the folder."""
    if not isinstance(place, str) or "\0" in place:
        return False
    path = PurePosixPath(place)
    return not path.is_absolute() and ".." not in path.parts


def is_marked(folder: Path) -> bool:
    """Whether a folder holds a model that was taught or merged here."""
    return any(os.path.lexists(folder / mark) for mark in MARKS)


def content_revision(folder: Path) -> str:
    """A hash that changes when the model does, in well under a second for any size.

    Configurations, tokenizers and templates count with every byte; a weight file counts with its
    size, its safetensors header, and its first and last MiB. A folder that was taught or merged
    here, which its marks tell, is hashed whole: two that were taught alike differ in the middle
    alone. Times and places do not count, so a copy has the same revision.

    Args:
        folder: holds a model.

    Returns:
        A SHA-256 in hexadecimal.

    Raises:
        UnknownModelError: a file cannot be read, or is too large for its kind.
    """
    whole = is_marked(folder)
    digest = hashlib.sha256()
    for path in sorted(islice(folder.rglob("*"), _MOST_FILES)):
        if path.suffix not in _TEXTS | _WEIGHTS or not os.path.isfile(path):
            continue
        try:
            hashed = (
                sha256(path)
                if path.suffix in _WEIGHTS and whole
                else hashlib.sha256(
                    _weight_sample(path)
                    if path.suffix in _WEIGHTS
                    else read_regular(path, most=_LONGEST_TEXT)
                ).hexdigest()
            )
        except OSError as error:
            raise UnknownModelError(f"{path} cannot be read: {error.strerror}") from error
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(bytes.fromhex(hashed))
    return digest.hexdigest()


def _weight_sample(path: Path) -> bytes:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = 0
        if path.suffix == ".safetensors":
            head = min(8 + int.from_bytes(file.read(8), "little"), size, _LONGEST_HEADER)
            file.seek(0)
        first = file.read(head + _SAMPLE)
        file.seek(max(size - _SAMPLE, 0))
        return first + file.read()
