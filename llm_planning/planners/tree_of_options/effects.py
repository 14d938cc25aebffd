"""What options did when they were executed, for ToO+: in one trial, and in a folder for many."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic

from pydantic import ValidationError

from llm_base.files import check_target, make_folder, read_json, write_json
from llm_base.quoting import first_fault, printable
from llm_planning.domain import A, S
from llm_planning.roles.options import one_option
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from llm_planning.execution.options import OptionDomain

FILE: Final = "effects.json"
LARGEST: Final = 1 << 24
"""Bytes of the largest file of effects."""

_LONGEST_REASON: Final = 200


@dataclass(slots=True)
class Effects(Generic[S, A]):
    """What options did when they were executed.

    Attributes:
        domain: may say how an effect repeats (`Domain.again`), and when to try what failed
            (`Domain.worth_trying`).
        seen: option -> the last states before and after it, in the order of the first sight.
        failed: option -> the state in which it failed last.
    """

    domain: OptionDomain[S, A]
    seen: dict[A, tuple[S, S]] = field(default_factory=dict)
    failed: dict[A, S] = field(default_factory=dict)

    def falls_short(self, expected: S, state: S) -> bool:
        """Whether a state lacks what was expected."""
        return self.domain.falls_short(expected, state)

    def is_hopeless(self, state: S, option: A) -> bool:
        """Whether an option failed, and nothing has changed since that may help it."""
        if option not in self.failed:
            return False
        return not self.domain.worth_trying(self.failed[option], state)

    def expect(self, state: S, option: A) -> S | None:
        """The state after an option, if what was seen tells it."""
        if option not in self.seen:
            return None
        return self.domain.again(state, *self.seen[option])


class EffectStore:
    """The effects that the trials of a world share, as `effects.json` in a folder.

    Args:
        folder: is made if it is missing.

    Raises:
        SettingsError: the folder cannot be made, or nothing can be written there.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        from filelock import FileLock

        self._lock = FileLock(folder / ".lock")
        try:
            make_folder(folder)
            # A run learns at its beginning, not at its end, that it cannot write.
            check_target(self._path)
            with self._lock:
                pass
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"effects={printable(str(folder))}: it cannot hold effects ({_why(error)}): name a "
                "folder to write to"
            ) from error

    def read(self, domain: Any) -> dict[Any, tuple[Any, Any]]:  # noqa: ANN401 - any `OptionDomain`
        """Returns option -> the states before and after it; nothing if there is no file.

        Raises:
            SettingsError: the file is damaged.
        """
        form, grammar = one_option(domain.grammar), domain.grammar
        try:
            saved = read_json(self._path, most=LARGEST)
            return {
                grammar.read(form.model_validate(effect["option"]).model_dump()): (
                    domain.restored(effect["before"]),
                    domain.restored(effect["after"]),
                )
                for effect in saved["effects"]
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SettingsError(
                f"effects: {printable(str(self._path))} is damaged ({_why(error)}): restore it, or "
                "remove it"
            ) from error

    def add(self, domain: Any, seen: Mapping[Any, tuple[Any, Any]]) -> None:  # noqa: ANN401
        """Adds effects to those that other trials wrote meanwhile; the newest of an option stays.

        Raises:
            SettingsError: the file is damaged, or cannot be written.
        """
        try:
            with self._lock:
                known = {**self.read(domain), **seen}
                effects = [
                    {
                        "option": dict(domain.grammar.write(option)),
                        "before": domain.saved(before),
                        "after": domain.saved(after),
                    }
                    for option, (before, after) in known.items()
                ]
                write_json(self._path, {"effects": effects})
        except OSError as error:
            raise SettingsError(
                f"effects: {printable(str(self._path))} cannot be written ({_why(error)}): name "
                "another folder"
            ) from error


def _why(error: Exception) -> str:
    """What an error says, in one short line."""
    if isinstance(error, ValidationError):
        message = first_fault(error)
    elif isinstance(error, KeyError):
        message = f"{error} is missing"
    else:
        message = getattr(error, "strerror", None) or str(error)
    return printable(" ".join(message.split())[:_LONGEST_REASON])
