"""What the file of a sweep may make this program open: what the user vouches for, and no more.

Sweeps and ledgers are passed on from hand to hand, and name planners, domains and models. Code of
somebody else would run with the user's rights; so the files of code that they name, folders of
models and files to be written are used only where the user names them too, by `--trust`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from llm_kernels.files import at_home
from llm_planning.own_code import code_file
from llm_serving.models import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from llm_planning.experiments.trial import Trial

WRITTEN_SETTINGS = ("save",)
"""Settings that name a file which a run writes."""


class UntrustedError(ValueError):
    """A file names code, a model's folder or a file to be written that the user did not name."""


@dataclass(frozen=True, slots=True)
class Trust:
    """The files and folders that a user vouches for.

    Attributes:
        paths: absolute, links resolved.
    """

    paths: frozenset[str] = frozenset()

    @classmethod
    def of(cls, said: Iterable[str | os.PathLike[str]]) -> Self:
        """Trust in files, and in folders with all that is in them; `~` is the user's home."""
        return cls(frozenset(_real(os.fspath(path)) for path in said))

    def check_name(self, name: str) -> None:
        """Makes sure that looking up a planner or a domain runs nobody else's code.

        Raises:
            UntrustedError: the name has the form FILE.py:NAME, and the user does not vouch for it.
        """
        file = code_file(name)
        if file is not None:
            self._check(str(file), f"{name} runs code")

    def check_model(self, config: Mapping[str, Any]) -> None:
        """Makes sure that serving a model opens no folder that only a file names.

        Args:
            config: of the model, as JSON; see `EngineConfig`.

        Raises:
            UntrustedError: it is a folder, and the user does not vouch for it.
        """
        model = str(config.get("model", ""))
        if is_folder(model):
            self._check(model, f"the model {model} is a folder")

    def check_trials(self, trials: Iterable[Trial]) -> None:
        """Makes sure of everything that trials open, and of the files that they write.

        Raises:
            UntrustedError: the user does not vouch for some of it.
        """
        seen: set[str] = set()
        for trial in trials:
            names = {trial.planner, trial.domain} - seen
            for name in names:
                self.check_name(name)
            for name in trial.engines.keys() - seen:
                self.check_model(trial.engines[name])
            for key in WRITTEN_SETTINGS:
                if path := trial.settings.get(key):
                    self._check(str(path), f"the setting {key}={path} writes a file")
            seen |= {*names, *trial.engines}

    def _check(self, path: str, what: str) -> None:
        real = Path(_real(path))
        if self.paths.isdisjoint(map(str, (real, *real.parents))):
            raise UntrustedError(
                f"{what}, and only a file asks for it: look at it, then add --trust {path}"
            )


def is_folder(model: str) -> bool:
    """Whether a model's name means a folder on this machine."""
    return model not in CATALOGUE and os.path.isdir(at_home(model))


def _real(path: str) -> str:
    path = at_home(path)
    try:
        return os.path.realpath(path)
    except ValueError:  # no file can have the name, so nothing is trusted by it
        return path
