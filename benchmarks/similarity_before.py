"""The Triton kernels of another commit or folder, beside those of today in one process."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

_NAME = "llm_kernels_before"
_REPOSITORY = Path(__file__).resolve().parents[1]
_PACKAGE = "kernels/llm_kernels"


def sources(origin: str) -> dict[str, str]:
    """The text of every module of `llm_kernels`, by file name.

    Args:
        origin: a folder that holds them, or a commit of this repository.

    Raises:
        SystemExit: it is neither.
    """
    if Path(origin).is_dir():
        texts = {path.name: path.read_text("utf-8") for path in Path(origin).glob("*.py")}
    else:
        command = ["git", "-C", str(_REPOSITORY), "archive", "--format=tar", origin, _PACKAGE]
        archived = subprocess.run(command, capture_output=True, check=False)
        if archived.returncode:
            reason = archived.stderr.decode().strip()
            raise SystemExit(f"{origin!r} is neither a folder nor a commit here: {reason}")
        texts = {}
        with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is not None and member.name.endswith(".py"):
                    texts[Path(member.name).name] = content.read().decode()
    if "triton_search.py" not in texts:
        raise SystemExit(f"{origin!r} holds no triton_search.py: name a folder llm_kernels/")
    return texts


def searching(origin: str, folder: Path) -> Callable[[Tensor, Tensor, Tensor, int], Any]:
    """A search by those kernels, on the device, of which nothing waits.

    Args:
        origin: as for `sources`.
        folder: an empty one, in which the modules stay under another name while they are used.

    Returns:
        As `triton_search.launch`, with the answer as today's keys or as scores and rows.
    """
    package = folder / _NAME
    package.mkdir()
    for name, text in sources(origin).items():
        (package / name).write_text(re.sub(r"\bllm_kernels\b", _NAME, text), "utf-8")
    sys.path.insert(0, str(folder))
    try:
        module: Any = import_module(f"{_NAME}.triton_search")
    finally:
        sys.path.remove(str(folder))
    # Before they had keys, kernels were launched with buffers that `search` made.
    return module.launch if hasattr(module, "scores_and_rows") else module.search
