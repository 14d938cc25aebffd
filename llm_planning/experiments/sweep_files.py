"""Finds the files of sweeps, and checks what they make this program open.

Sweeps and ledgers come from other people. Code that they name would run with the user's rights, a
file that they name would be written over, and a model's folder is trusted as far as the user names
it. So all three are used only if the user names them too, by `--trust`.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from llm_base.files import at_home
from llm_base.quoting import printable
from llm_planning.model_configs import comes_along, config_folder
from llm_planning.names import remedy
from llm_planning.own_code import code_file
from llm_planning.settings import CODE_SETTINGS, WRITTEN_SETTINGS
from llm_serving.errors import UnknownModelError
from llm_serving.models import is_bundled_adapter, is_hub_id, names_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from llm_planning.experiments.trial import Trial

_NO_SWEEPS = ("models/", "/paper.yaml", ".published.yaml")


class SweepConfigError(ValueError):
    """A sweep's configuration says something impossible; the message is one printable line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def packaged_sweeps() -> dict[str, Path]:
    """Name -> file of the sweeps that come with this project, such as too/figure3-small."""
    root = config_folder().parent
    files = (*sorted(root.glob("*.yaml")), *sorted(root.glob("*/*.yaml")))
    paths = {path.relative_to(root).as_posix(): path for path in files}
    return {
        name.removesuffix(".yaml"): path
        for name, path in paths.items()
        if not name.startswith(_NO_SWEEPS[0]) and not name.endswith(_NO_SWEEPS[1:])
    }


def find_sweep(name: str) -> Path:
    """Finds the file of a sweep by its name.

    Args:
        name: a file, or a name as `packaged_sweep` takes it.

    Raises:
        SweepConfigError: no file has the name, or several have.
    """
    if os.path.isfile(name):
        return Path(name)
    if (packaged := packaged_sweep(name)) is not None:
        return packaged
    if os.path.exists(name):
        # Reading a folder or a pipe reports the error.
        return Path(name)
    known = remedy(_bare(name), packaged_sweeps())
    raise SweepConfigError(f"{name}: there is no such file and no such sweep; {known}")


def packaged_sweep(name: str) -> Path | None:
    """The file of a packaged sweep; None if there is none.

    Args:
        name: of the sweep, or the last part of it if that is unique; `configs/` before it and
            `.yaml` after it may stand there, as in a checkout.

    Raises:
        SweepConfigError: several sweeps have the name.
    """
    packaged, bare = packaged_sweeps(), _bare(name)
    if bare in packaged:
        return packaged[bare]
    alike = [sweep for sweep in packaged if sweep.rpartition("/")[2] == bare]
    if len(alike) > 1:
        raise SweepConfigError(f"{name} is the name of several sweeps: write {' or '.join(alike)}")
    return packaged[alike[0]] if alike else None


def _bare(name: str) -> str:
    return name.removeprefix("configs/").removesuffix(".yaml")


def sweep_argument(path: Path) -> str:
    """What commands call the file of a sweep: a packaged one by its name, others by their path."""
    names = {file: name for name, file in packaged_sweeps().items()}
    return names.get(path, str(path))


class UntrustedError(ValueError):
    """A file names code, a model or a file to be written that the user did not name."""


@dataclass(frozen=True, slots=True)
class Trust:
    """The code, models and files that a user trusts.

    Attributes:
        names: as the user wrote them; models of the hub have their ids.
        paths: the names as files and folders, absolute, links resolved.
    """

    names: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()

    @classmethod
    def of(cls, named: Iterable[str | os.PathLike[str]]) -> Self:
        """Trust in models of the hub, in files, and in folders with all that is in them.

        Args:
            named: `~` is the user's home; an empty name trusts nothing.
        """
        names = frozenset(os.fspath(name) for name in named if name)
        return cls(names, frozenset(map(_real, names)))

    def check_name(self, name: str) -> None:
        """Makes sure that looking up a planner or a domain runs only trusted code.

        Raises:
            UntrustedError: the name has the form FILE.py:NAME, and the user does not trust it.
        """
        file = code_file(name)
        if file is not None:
            self._check(str(file), f"{name} runs code")

    def check_model(self, model: str) -> None:
        """Makes sure that a model is one of this project's or trusted by the user.

        Args:
            model: as `EngineConfig.model` has it.

        Raises:
            UntrustedError: the model is a folder, or a hub id in no configuration of this project,
                and the user does not trust it.
            UnknownModelError: likewise, and it can only be a folder, but there is none.
        """
        if comes_along(model):
            return
        if names_folder(model):
            self._check(model, f"the model {model} is a folder")
        elif model in self.names:
            return
        elif "/" in model and not is_hub_id(model):
            raise UnknownModelError(
                f"the model {model} is a folder that does not exist: make it first, or run this "
                "from the folder that has it"
            )
        else:
            here = " and is no folder here" if "/" in model else ""
            raise _untrusted(f"the model {model} does not come with this program{here}", model)

    def check_trials(self, trials: Iterable[Trial]) -> None:
        """Makes sure that all that trials load, and all files that they write, are trusted.

        Raises:
            UntrustedError: the user does not trust one of them.
        """
        trials = tuple(trials)
        engines = [engine for trial in trials for engine in trial.engines.values()]
        for name in dict.fromkeys(
            name for trial in trials for name in (trial.planner, trial.domain)
        ):
            self.check_name(name)
        # The name of a model in a trial says nothing about its content.
        for model in dict.fromkeys(str(engine.get("model", "")) for engine in engines):
            self.check_model(model)
        for place in dict.fromkeys(place for engine in engines for place in _adapters(engine)):
            if not is_bundled_adapter(place):
                self._check(place, f"the adapter {place} does not come with this program")
        for key in WRITTEN_SETTINGS:
            for path in _values(trials, key):
                self._check(path, f"the setting {key}={path} writes a file")
        for key in CODE_SETTINGS:
            for path in _values(trials, key):
                if path.endswith(".py"):
                    self._check(path, f"the setting {key}={path} runs code")

    def _check(self, path: str, reason: str) -> None:
        real = Path(_real(path))
        if self.paths.isdisjoint(map(str, (real, *real.parents))):
            raise _untrusted(reason, path)


def _values(trials: Iterable[Trial], key: str) -> Iterable[str]:
    """The values of a setting that are not empty."""
    found = dict.fromkeys(str(trial.settings.get(key) or "") for trial in trials)
    return filter(None, found)


def _adapters(engine: Mapping[str, object]) -> Iterator[str]:
    """The folders of adapters in a configuration that a file may have."""
    adapters = engine.get("adapters")
    if isinstance(adapters, dict):
        yield from map(str, adapters.values())


def _untrusted(reason: str, name: str) -> UntrustedError:
    return UntrustedError(
        f"{reason}, and only a file asks for it: look at it, then add --trust {shlex.quote(name)}"
    )


def _real(path: str) -> str:
    path = at_home(path)
    try:
        return os.path.realpath(path)
    except ValueError:  # no file can have this name, so it trusts nothing
        return path
