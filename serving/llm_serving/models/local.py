"""Local model folders: what makes one whole, and a revision that follows its content.

Who names a folder is trusted with it. What is looked at here tells a user in one line what else a
library would say at length, or late.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from llm_base.files import read_json
from llm_base.quoting import quote
from llm_serving.errors import EncoderError, UnknownModelError
from llm_serving.models.folders import sha256

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TEXTS = frozenset({".json", ".jinja", ".model", ".tiktoken", ".txt"})
_WEIGHTS = frozenset({".bin", ".gguf", ".pt", ".pth", ".safetensors"})
_NEVER_LOADED = frozenset({"optimizer", "rng_state", "scaler", "scheduler", "training_args"})
"""Names of files that a training leaves beside the weights, without their endings."""
_POINTER = b"version https://git-lfs.github.com/spec/"
"""Begins what Git LFS leaves in the place of a file that it has not fetched."""
_SAMPLE = 1 << 20
_LONGEST_TEXT = 1 << 30
"""Bytes of a tokenizer or a configuration; the largest ones known have 30 MB."""
CARD = "taught.json"
"""In the folder of an adapter, or of a model that one was merged into: what it was taught."""
MERGED = "merged.json"
"""In the folder of a model that an adapter was merged into: the revision of both."""
MARKS = (CARD, MERGED)
_REMEDY = "Copy or download the whole model again"
_MODULE = re.compile(r"sentence_transformers\.(\w+\.)*[A-Z]\w*")
"""A class of sentence-transformers; any other class would be code from the model's folder."""


def check_folder(folder: Path, *, remedy: str = _REMEDY) -> None:
    """Refuses a folder that holds no model, or not the whole one.

    Args:
        remedy: ends the message where files are missing or damaged.

    Raises:
        UnknownModelError: it has no `config.json`, or a damaged one; it has no weights, or lacks
            some that its index lists; a file is a pointer of Git LFS, or cannot be read.
    """
    with _readable():
        if not (folder / "config.json").is_file():
            raise UnknownModelError(
                f"the folder {folder} holds no model: it has no config.json. Give the folder that "
                "a Hugging Face model was saved or downloaded to"
            )
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        pointers = [path.relative_to(folder) for path in files if is_pointer(path)]
        if pointers:
            raise UnknownModelError(
                f"the model in {folder} is not whole: pointers of Git LFS stand in the place of "
                f"{len(pointers)} of its files, the first is {pointers[0]}. Run `git lfs pull` "
                f"there. {remedy}"
            )
        _read_object(folder / "config.json", remedy)
        listed = {shard for path in folder.glob("*.index.json") for shard in _shards(path, remedy)}
        if missing := sorted(shard for shard in listed if not (folder / shard).is_file()):
            raise UnknownModelError(
                f"the model in {folder} is not whole: {len(missing)} of {len(listed)} weight files "
                f"are missing, the first is {missing[0][:80]}. {remedy}"
            )
    endings = {path.suffix for path in files if path.stem not in _NEVER_LOADED}
    if endings.isdisjoint(_WEIGHTS - {".gguf"}):
        other = ", and GGUF is not read" if ".gguf" in endings else ""
        raise UnknownModelError(
            f"the model in {folder} has no weights: no file ends in .safetensors or .bin{other}. "
            f"{remedy}"
        )


@contextmanager
def _readable() -> Iterator[None]:
    """Names the file that cannot be read.

    Raises:
        UnknownModelError: one could not.
    """
    try:
        yield
    except OSError as error:
        raise UnknownModelError(f"{error.filename} cannot be read: {error.strerror}") from error


def is_pointer(path: Path) -> bool:
    """Whether a file is a pointer of Git LFS."""
    with path.open("rb") as file:
        return file.read(len(_POINTER)) == _POINTER


def _read_json(path: Path, remedy: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return read_json(path, most=_LONGEST_TEXT)
    except ValueError as error:
        raise UnknownModelError(f"{path} is damaged: it is not JSON ({error}). {remedy}") from error


def _read_object(path: Path, remedy: str) -> dict[str, Any]:
    value = _read_json(path, remedy)
    if not isinstance(value, dict):
        raise UnknownModelError(f"{path} is damaged: it is not a JSON object. {remedy}")
    return value


def _shards(index: Path, remedy: str) -> set[str]:
    """The files of weights that an index lists."""
    shards = _read_object(index, remedy).get("weight_map")
    if isinstance(shards, dict) and all(isinstance(shard, str) for shard in shards.values()):
        return set(shards.values())
    raise UnknownModelError(
        f"{index} is damaged: it has no `weight_map` from weights to files. {remedy}"
    )


def check_modules(folder: Path) -> None:
    """Refuses a sentence encoder that is made of anything but sentence-transformers' modules.

    Raises:
        EncoderError: its `modules.json` is damaged, or names code of another origin.
        UnknownModelError: it cannot be read, or is not JSON.
    """
    path = folder / "modules.json"
    with _readable():
        modules = _read_json(path, _REMEDY)
    if not (isinstance(modules, list) and all(isinstance(module, dict) for module in modules)):
        raise EncoderError(f"{path} is damaged: it is not a list of modules. {_REMEDY}")
    for kind in (str(module.get("type")) for module in modules):
        if not _MODULE.fullmatch(kind):
            raise EncoderError(
                f"{path} names the module {quote(kind)}, which is not from sentence-transformers: "
                "code that comes with a model is not run here; take another encoder"
            )


def is_marked(folder: Path) -> bool:
    """Whether a folder holds a model that was taught or merged here."""
    return any(os.path.lexists(folder / mark) for mark in MARKS)


def content_revision(folder: Path) -> str:
    """A hash that changes when the model does, in well under a second for any size.

    Configurations, tokenizers and templates count with every byte; a weight file counts with its
    size, its safetensors header, and its first and last MiB. A folder that was taught or merged
    here, which its marks tell, is hashed whole: two that were taught alike differ in the middle
    alone. Times and places do not count, so a copy has the same revision.

    Returns:
        A SHA-256 in hexadecimal.

    Raises:
        UnknownModelError: a file cannot be read.
    """
    whole = _TEXTS | _WEIGHTS if is_marked(folder) else _TEXTS
    digest = hashlib.sha256()
    with _readable():
        for path in sorted(folder.rglob("*")):
            if path.suffix not in _TEXTS | _WEIGHTS or not path.is_file():
                continue
            content = (
                sha256(path)
                if path.suffix in whole
                else hashlib.sha256(_weight_sample(path)).hexdigest()
            )
            name = path.relative_to(folder).as_posix()
            digest.update(f"{name}\0{path.stat().st_size}\0".encode() + bytes.fromhex(content))
    return digest.hexdigest()


def _weight_sample(path: Path) -> bytes:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = 0
        if path.suffix == ".safetensors":
            head = min(8 + int.from_bytes(file.read(8), "little"), size, 100_000_000)
            file.seek(0)
        first = file.read(head + _SAMPLE)
        file.seek(max(size - _SAMPLE, 0))
        return first + file.read()
