"""Which file a sweep's name means: a path, or one of this project's own configurations."""

from __future__ import annotations

import os
from pathlib import Path

from llm_planning.experiments.grid_file import SweepConfigError
from llm_planning.model_configs import config_folder
from llm_planning.names import remedy

_NO_SWEEPS = ("models/", "/paper.yaml", ".published.yaml")


def packaged_sweeps() -> dict[str, Path]:
    """Name -> file of the sweeps that come with this project, such as too/figure3-small."""
    root = config_folder().parent
    found = {path.relative_to(root).as_posix(): path for path in sorted(root.glob("*/*.yaml"))}
    return {
        name.removesuffix(".yaml"): path
        for name, path in found.items()
        if not name.startswith(_NO_SWEEPS[0]) and not name.endswith(_NO_SWEEPS[1:])
    }


def find_sweep(said: str) -> Path:
    """The file that a user means.

    Args:
        said: a file, the name of a packaged sweep, or the last part of one that no other has.

    Raises:
        SweepConfigError: there is none, or there are several.
    """
    if os.path.isfile(said):
        return Path(said)
    packaged = packaged_sweeps()
    if said in packaged:
        return packaged[said]
    alike = [name for name in packaged if name.rpartition("/")[2] == said]
    if len(alike) > 1:
        raise SweepConfigError(f"{said} is the name of several sweeps: write {' or '.join(alike)}")
    if alike:
        return packaged[alike[0]]
    if os.path.exists(said):
        # A folder or a pipe: reading says what is wrong with it.
        return Path(said)
    name = said.removeprefix("configs/").removesuffix(".yaml")
    raise SweepConfigError(
        f"{said}: there is no such file and no such sweep; {remedy(name, packaged)}"
    )


def shown_sweep(path: Path) -> str:
    """How a user names a sweep's file: a packaged one by its name."""
    names = {file: name for name, file in packaged_sweeps().items()}
    return names.get(path, str(path))
