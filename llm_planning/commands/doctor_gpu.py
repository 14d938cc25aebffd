"""What `doctor` says of an NVIDIA GPU: driver, card, compiler, memory, faiss."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sysconfig
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from llm_serving.vllm_arguments import GIB

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST_DRIVER = 580
"""Of CUDA 13, for which torch and vLLM 0.26 to 0.33 are built."""

LEAST_CAPABILITY, BFLOAT16_CAPABILITY = (7, 5), (8, 0)
"""Of the cards that CUDA 13 compiles for, and of those that compute in bfloat16."""

_FREE_SHARE = 0.9
_ASKED = "name,memory.total,memory.free,driver_version,compute_cap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The first GPU.

    Attributes:
        name: of the device.
        memory: in bytes.
        free: of it, in bytes; None if nobody says.
        usable: whether the installed torch can run on it.
        driver: its version; "" if nobody says.
        capability: compute capability; None if nobody says.
    """

    name: str
    memory: int
    usable: bool
    free: int | None = None
    driver: str = ""
    capability: tuple[int, int] | None = None


def find_gpu() -> Gpu | None:
    """The first GPU that the driver finds, or else the first that torch finds."""
    usable = _found_by_torch()
    if shutil.which("nvidia-smi") is not None:
        asked = ["nvidia-smi", f"--query-gpu={_ASKED}", "--format=csv,noheader,nounits"]
        with suppress(OSError, subprocess.SubprocessError, ValueError):
            listed = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True)
            name, memory, free, driver, capability = (
                part.strip() for part in listed.stdout.splitlines()[0].rsplit(",", 4)
            )
            major, minor = capability.split(".")
            return Gpu(
                name=name,
                memory=int(memory) << 20,
                free=int(free) << 20,
                usable=usable is not None,
                driver=driver,
                capability=(int(major), int(minor)),
            )
    return usable


def _found_by_torch() -> Gpu | None:
    with suppress(importlib.metadata.PackageNotFoundError):
        if not importlib.metadata.version("torch").endswith("+cpu"):
            # With a broken torch the driver is asked; it may find a GPU that torch cannot use.
            with suppress(ImportError, OSError, RuntimeError):
                import torch

                if torch.cuda.is_available():
                    properties = torch.cuda.get_device_properties(0)
                    return Gpu(name=properties.name, memory=properties.total_memory, usable=True)
    return None


def faults_of(gpu: Gpu) -> Iterator[tuple[str, str]]:
    """What keeps models from running on a GPU, or slows them, each with its remedy."""
    major = gpu.driver.partition(".")[0]
    if major.isdigit() and int(major) < LEAST_DRIVER:
        yield (
            f"its driver {gpu.driver} is older than {LEAST_DRIVER}, which CUDA 13 needs",
            f"update the driver to {LEAST_DRIVER} or newer, or install vLLM's build for CUDA 12.9; "
            "until then `make setup` installs for the CPU",
        )
    if gpu.capability is not None and gpu.capability < LEAST_CAPABILITY:
        yield (
            f"its compute capability {_dotted(gpu.capability)} is below "
            f"{_dotted(LEAST_CAPABILITY)}, the least that CUDA 13 compiles for",
            "run on the CPU, or on a newer card",
        )
    elif gpu.capability is not None and gpu.capability < BFLOAT16_CAPABILITY:
        yield (
            f"its compute capability {_dotted(gpu.capability)} has no bfloat16",
            "write `dtype: float16` in the model's configuration",
        )
    if gpu.free is not None and gpu.free < _FREE_SHARE * gpu.memory:
        yield (
            f"only {gpu.free / GIB:.1f} GiB of it are free, less than the default `memory_share` "
            f"of {_FREE_SHARE}",
            "end what holds the rest (`nvidia-smi` lists it), or set LLM_PLANNING_MEMORY_SHARE",
        )
    if gpu.usable and not any(map(shutil.which, ("gcc", "clang", "cc"))):
        yield ("there is no C compiler, with which Triton builds its launcher", _packages("gcc"))
    if gpu.usable and not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        yield ("Python.h is missing, which Triton's launcher includes", _packages("python3-dev"))


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))


def _packages(name: str) -> str:
    return f"install it: sudo apt-get install {name}"
