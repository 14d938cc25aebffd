"""Whether an NVIDIA GPU can run what is built for CUDA: driver, card, compiler, memory.

`make` runs this file before any package is installed: it prints the extra that suits the machine,
"cuda" or "cpu", and on standard error what is wrong. So it imports the standard library alone.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST_DRIVER = 580
"""Of CUDA 13, for which torch and vLLM 0.26 to 0.33 are built."""

LEAST_CAPABILITY, BFLOAT16_CAPABILITY = (7, 5), (8, 0)
"""Of the cards that CUDA 13 compiles for, and of those that compute in bfloat16."""

_GIB = 1 << 30
_ASKED = ("name", "driver_version", "memory.total", "memory.free", "compute_cap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU, as far as its driver or torch describes it.

    Attributes:
        driver: its version; "" if nobody says.
        memory: in bytes; None if nobody says, as of a GPU that has none of its own.
        free: of it, in bytes; None if nobody says.
        capability: compute capability; None if nobody says.
        usable: whether the installed torch can run on it.
    """

    name: str
    driver: str = ""
    memory: int | None = None
    free: int | None = None
    capability: tuple[int, int] | None = None
    usable: bool = False

    def __str__(self) -> str:
        parts = [self.name]
        if self.memory is not None:
            parts.append(f"{self.memory / _GIB:.1f} GiB")
        if self.driver:
            parts.append(f"driver {self.driver}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a GPU or beside it.

    Attributes:
        stops: whether no model runs on the GPU until then.
    """

    problem: str
    remedy: str
    stops: bool


def find_gpu() -> Gpu | None:
    """The GPU that models would take: of the driver's the first that is fit, or else torch's."""
    by_torch = _gpu_of_torch()
    by_driver = list_gpus()
    first = next((gpu for gpu in by_driver if not any(unfit(gpu))), None)
    if first is None and by_driver:
        first = by_driver[0]
    return by_torch if first is None else replace(first, usable=by_torch is not None)


def list_gpus() -> list[Gpu]:
    """The GPUs that the driver finds, as `nvidia-smi` tells of them."""
    # That of an old driver knows no compute capability, and then says nothing at all.
    for fields in (_ASKED, _ASKED[:-1]):
        asked = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
        with suppress(OSError, subprocess.SubprocessError):
            answer = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True)
            rows = [line.rsplit(",", len(fields) - 1) for line in answer.stdout.splitlines()]
            return [
                _gpu(dict(zip(fields, map(str.strip, row), strict=True)))
                for row in rows
                if len(row) == len(fields)
            ]
    return []


def unfit(gpu: Gpu) -> Iterator[Fault]:
    """What keeps the packages for CUDA 13 from this GPU, by its driver and its card."""
    major = gpu.driver.partition(".")[0]
    if major.isdigit() and int(major) < LEAST_DRIVER:
        yield Fault(
            f"its driver {gpu.driver} is older than {LEAST_DRIVER}, which CUDA 13 needs",
            f"update the driver to {LEAST_DRIVER} or newer, or install vLLM's build for CUDA 12.9; "
            "until then `make setup` installs for the CPU",
            stops=True,
        )
    if gpu.capability is not None and gpu.capability < LEAST_CAPABILITY:
        yield Fault(
            f"its compute capability {_dotted(gpu.capability)} is below "
            f"{_dotted(LEAST_CAPABILITY)}, the least that CUDA 13 compiles for",
            "run on the CPU, or on a newer card",
            stops=True,
        )


def lacking(gpu: Gpu) -> Iterator[Fault]:
    """What a GPU that is fit lacks, or this machine for it."""
    if gpu.capability is not None and gpu.capability < BFLOAT16_CAPABILITY:
        yield Fault(
            f"its compute capability {_dotted(gpu.capability)} has no bfloat16",
            "write `dtype: float16` in the model's configuration",
            stops=False,
        )
    share = _memory_share()
    if gpu.free is not None and gpu.memory is not None and gpu.free < share * gpu.memory:
        yield Fault(
            f"only {gpu.free / _GIB:.1f} GiB of it are free, less than the `memory_share` of "
            f"{share:g}",
            "end what holds the rest (`nvidia-smi` lists it), or set LLM_PLANNING_MEMORY_SHARE",
            stops=False,
        )
    # As Triton looks for them. vLLM launches its kernels on every GPU.
    if not os.environ.get("CC") and not any(map(shutil.which, ("gcc", "clang"))):
        yield Fault(
            "there is no C compiler, with which Triton builds its launcher",
            _packages("gcc"),
            stops=True,
        )
    scheme = sysconfig.get_default_scheme().replace("posix_local", "posix_prefix")
    if not (Path(sysconfig.get_path("include", scheme)) / "Python.h").is_file():
        major, minor, *_ = sys.version_info
        yield Fault(
            "Python.h is missing, which Triton's launcher includes",
            _packages(f"python{major}.{minor}-dev"),
            stops=True,
        )


def _gpu_of_torch() -> Gpu | None:
    """The first GPU of a torch that is built for one; only such a torch is imported."""
    with suppress(importlib.metadata.PackageNotFoundError, ImportError, OSError, RuntimeError):
        if not importlib.metadata.version("torch").endswith("+cpu"):
            import torch

            if torch.cuda.is_available():
                properties = torch.cuda.get_device_properties(0)
                return Gpu(name=properties.name, memory=properties.total_memory, usable=True)
    return None


def _gpu(fields: dict[str, str]) -> Gpu:
    def mebibytes(field: str) -> int | None:
        return int(fields[field]) << 20 if fields[field].isdigit() else None

    major, _, minor = fields.get("compute_cap", "").partition(".")
    return Gpu(
        name=fields["name"],
        driver=fields["driver_version"],
        memory=mebibytes("memory.total"),
        free=mebibytes("memory.free"),
        capability=(int(major), int(minor)) if major.isdigit() and minor.isdigit() else None,
    )


def _memory_share() -> float:
    with suppress(ValueError):
        return min(0.9, float(os.environ.get("LLM_PLANNING_MEMORY_SHARE", "0.9")))
    return 0.9


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))


def _packages(name: str) -> str:
    return f"install it: sudo apt-get install {name}"


def main() -> None:
    """Says which extra suits this machine, and what is wrong with its GPU."""
    gpus = list_gpus()
    fit = [gpu for gpu in gpus if not any(unfit(gpu))]
    print("cuda" if fit else "cpu")
    for gpu in (fit or gpus)[:1]:
        for fault in lacking(gpu) if fit else unfit(gpu):
            print(f"{gpu}: {fault.problem}: {fault.remedy}", file=sys.stderr)


if __name__ == "__main__":
    main()
