"""The files of sweeps: which one a name means, and what one may make this program open.

Sweeps and ledgers are passed on from hand to hand, and name planners, domains and models. Code of
somebody else would run with the user's rights. So files of code, models that this project does not
name itself, and files to be written are used only where the user names them too, by `--trust`.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

from llm_kernels.files import at_home
from llm_planning.experiments.grid_file import SweepConfigError
from llm_planning.model_configs import config_folder, configured_models, find_config
from llm_planning.names import remedy
from llm_planning.own_code import code_file
from llm_serving.models import CATALOGUE, names_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_planning.experiments.trial import Trial

WRITTEN_SETTINGS = ("save",)
"""Settings that name a file which a run writes."""

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


def find_sweep(name: str) -> Path:
    """The file that a user means.

    Args:
        name: a file, the name of a packaged sweep, or the last part of one that no other has.

    Raises:
        SweepConfigError: there is none, or there are several.
    """
    if os.path.isfile(name):
        return Path(name)
    packaged = packaged_sweeps()
    if name in packaged:
        return packaged[name]
    alike = [one for one in packaged if one.rpartition("/")[2] == name]
    if len(alike) > 1:
        raise SweepConfigError(f"{name} is the name of several sweeps: write {' or '.join(alike)}")
    if alike:
        return packaged[alike[0]]
    if os.path.exists(name):
        # A folder or a pipe: reading says what is wrong with it.
        return Path(name)
    bare = name.removeprefix("configs/").removesuffix(".yaml")
    raise SweepConfigError(
        f"{name}: there is no such file and no such sweep; {remedy(bare, packaged)}"
    )


def shown_sweep(path: Path) -> str:
    """How a user names a sweep's file: a packaged one by its name."""
    names = {file: name for name, file in packaged_sweeps().items()}
    return names.get(path, str(path))


class UntrustedError(ValueError):
    """A file names code, a model or a file to be written that the user did not name."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What a user vouches for.

    Attributes:
        names: as the user said them: models of the hub are meant by their ids.
        paths: the same as files and folders, absolute, links resolved.
    """

    names: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()

    @classmethod
    def of(cls, named: Iterable[str | os.PathLike[str]]) -> Self:
        """Trust in models of the hub, in files, and in folders with all that is in them.

        Args:
            named: `~` is the user's home; a name without any letters vouches for nothing.
        """
        names = frozenset(name for one in named if (name := os.fspath(one)))
        return cls(names, frozenset(map(_real, names)))

    def check_name(self, name: str) -> None:
        """Makes sure that looking up a planner or a domain runs nobody else's code.

        Raises:
            UntrustedError: the name has the form FILE.py:NAME, and the user does not vouch for it.
        """
        file = code_file(name)
        if file is not None:
            self._check(str(file), f"{name} runs code")

    def check_model(self, model: str) -> None:
        """Makes sure that serving a model loads nothing that only a file names.

        Args:
            model: as `EngineConfig.model` has it.

        Raises:
            UntrustedError: it is a folder, or one of the hub that no configuration of this project
                has, and the user does not vouch for it.
        """
        if comes_along(model):
            return
        if names_folder(model):
            self._check(model, f"the model {model} is a folder")
        elif model not in self.names:
            raise _untrusted(f"the model {model} does not come with this program", model)

    def check_trials(self, trials: Iterable[Trial]) -> None:
        """Makes sure of everything that trials load, and of the files that they write.

        Raises:
            UntrustedError: the user does not vouch for some of it.
        """
        names: set[str] = set()
        models: set[str] = set()
        for trial in trials:
            # What a model is called says nothing of what it is.
            called = {str(one.get("model", "")) for one in trial.engines.values()}
            for name in {trial.planner, trial.domain} - names:
                self.check_name(name)
            for model in called - models:
                self.check_model(model)
            for key in WRITTEN_SETTINGS:
                if path := trial.settings.get(key):
                    self._check(str(path), f"the setting {key}={path} writes a file")
            names |= {trial.planner, trial.domain}
            models |= called

    def _check(self, path: str, what: str) -> None:
        real = Path(_real(path))
        if self.paths.isdisjoint(map(str, (real, *real.parents))):
            raise _untrusted(what, path)


def comes_along(model: str) -> bool:
    """Whether a model is one that this project names itself, and no folder passes for it."""
    return model in CATALOGUE or (model in _configured() and not names_folder(model))


@cache
def _configured() -> frozenset[str]:
    return frozenset(find_config(name).model for name in configured_models())


def _untrusted(what: str, name: str) -> UntrustedError:
    return UntrustedError(
        f"{what}, and only a file asks for it: look at it, then add --trust {shlex.quote(name)}"
    )


def _real(path: str) -> str:
    path = at_home(path)
    try:
        return os.path.realpath(path)
    except ValueError:  # no file can have the name, so nothing is trusted by it
        return path
