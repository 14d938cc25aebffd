"""Local model folders: what makes one usable, and a revision that follows its content."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from llm_serving.errors import UnknownModelError

if TYPE_CHECKING:
    from pathlib import Path

_TEXTS = frozenset({".json", ".jinja", ".model", ".tiktoken", ".txt"})
_WEIGHTS = frozenset({".bin", ".gguf", ".pt", ".pth", ".safetensors"})
_SAMPLE = 1 << 20


def check_folder(folder: Path) -> None:
    """Refuses a folder that holds no model.

    Raises:
        UnknownModelError: it has no `config.json`, or lacks weight files that its index lists.
    """
    if not (folder / "config.json").is_file():
        raise UnknownModelError(
            f"the folder {folder} holds no model: it has no config.json. Give the folder that a "
            "Hugging Face model was saved or downloaded to"
        )
    check_weights(folder, remedy="Copy or download the whole model again")


def check_weights(folder: Path, *, remedy: str) -> None:
    """Refuses a folder that lacks weight files which its own index lists.

    Raises:
        UnknownModelError: files are missing; ends with the remedy.
    """
    listed = {
        shard
        for index in sorted(folder.glob("*.index.json"))
        for shard in json.loads(index.read_text(encoding="utf-8")).get("weight_map", {}).values()
    }
    missing = sorted(shard for shard in listed if not (folder / shard).is_file())
    if missing:
        raise UnknownModelError(
            f"the model in {folder} is not whole: {len(missing)} of {len(listed)} weight files "
            f"are missing, the first is {missing[0]}. {remedy}"
        )


def content_revision(folder: Path) -> str:
    """A hash that changes when the model does, in well under a second for any size.

    Configurations, tokenizers and templates count with every byte; a weight file counts with its
    size, its safetensors header, and its first and last MiB. Times and places do not count, so a
    copy has the same revision.

    Args:
        folder: holds a model.

    Returns:
        A SHA-256 in hexadecimal.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix not in _TEXTS | _WEIGHTS or not path.is_file():
            continue
        content = _weight_sample(path) if path.suffix in _WEIGHTS else path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def _weight_sample(path: Path) -> bytes:
    size = path.stat().st_size
    with path.open("rb") as file:
        head = 0
        if path.suffix == ".safetensors":
            head = min(8 + int.from_bytes(file.read(8), "little"), size)
            file.seek(0)
        first = file.read(head + _SAMPLE)
        file.seek(max(size - _SAMPLE, 0))
        return first + file.read()
