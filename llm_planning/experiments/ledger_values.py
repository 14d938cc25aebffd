"""What stands in a ledger's rows, checked where it is read: a stranger may have written it.

Every function raises a `ValueError` that says, in one line, what is wrong.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_kernels.files import LONGEST_NAME
from llm_planning.experiments.trial import Trial
from llm_serving.errors import shown
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_DEPTH = 100
"""Lists and objects inside each other, of a setting, a metric or a provenance."""

MOST_COUNT = 2**53
"""Of calls, tokens and attempts: the largest that is exact as a float."""

LONGEST = 1e10
"""Seconds that something takes, at most: three centuries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much a JSON text may hold: a short one can take 30 times its length when it is read.

    Attributes:
        characters: of the text, at most.
        values: numbers, texts, lists, objects and so on, those inside others included, at most.
    """

    characters: int
    values: int


SWEEP = Bounds(characters=2**23, values=300_000)
"""Of a resolved sweep, which may list what a large grid consists of."""

TRIAL = Bounds(characters=2**20, values=10_000)
"""Of a trial: hundreds of characters are usual, and a ledger may hold a million trials."""

OTHERS = Bounds(characters=2**23, values=100_000)
"""Of a plan, the metrics, the usage or a provenance."""

_YEAR_10000 = 253_402_300_800.0
_MOST_RETRIES = 100
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COUNTS = frozenset({"calls", "prompt_tokens", "cached_tokens", "completion_tokens", "replayed"})

# A text that has no end takes all that is left, so that nothing is looked at twice.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|([,\[{])', re.DOTALL)

Said: TypeAlias = "dict[str, Any]"
"""A JSON object."""


class TooLargeError(ValueError):
    """Something is JSON, and more than a ledger takes."""


def within(said: str, what: str, bounds: Bounds) -> str:
    """The same JSON text, which is known to be small enough to be read.

    Raises:
        TooLargeError: it is not.
    """
    if len(said) > bounds.characters:
        raise TooLargeError(f"{what} has more than {bounds.characters} characters")
    # Every value but the outermost follows one of these.
    if sum(map(said.count, ",[{")) >= bounds.values:
        # Slower, and right: what stands inside texts begins no value.
        begun = (1 for token in _TOKEN.finditer(said) if token[1])
        if sum(islice(begun, bounds.values)) == bounds.values:
            raise TooLargeError(f"{what} has more than {bounds.values} values")
    return said


def read_json(value: object, what: str, bounds: Bounds = OTHERS) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON text, neither too large nor too deep for whoever goes through it."""
    said = within(text(value, what), what, bounds)
    try:
        read = json.loads(said)
    except RecursionError as error:
        raise ValueError(f"{what} is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{what} is no JSON: {error}") from error
    level = [read]
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return read
    raise ValueError(f"{what} is nested more than {MOST_DEPTH} deep")


def read_object(value: object, what: str, bounds: Bounds = OTHERS) -> Said:
    """The value of the JSON text of an object."""
    return mapping(read_json(value, what, bounds), what)


def text(value: object, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise _wrong(what, value, "no text")
    return value


def text_or_none(value: object, what: str) -> str | None:
    """A text, or nothing."""
    return None if value is None else text(value, what)


def texts(value: object, what: str) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list):
        raise _wrong(what, value, "no list")
    return tuple(text(one, f"an item of {what}") for one in value)


def mapping(value: object, what: str) -> Said:
    """A JSON object."""
    if not isinstance(value, dict):
        raise _wrong(what, value, "no object")
    return value


def sha256(value: object, what: str) -> str:
    """A SHA-256 in hexadecimal; files are named after it."""
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise _wrong(what, value, "no SHA-256")
    return value


def integer(value: object, what: str) -> int:
    """An integer of any size."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(what, value, "no integer")
    return value


def count(value: object, what: str, *, least: int = 0, most: int = MOST_COUNT) -> int:
    """How many there are of something."""
    number = integer(value, what)
    if not least <= number <= most:
        raise _wrong(what, value, f"not between {least} and {most}")
    return number


def seconds(value: object, what: str, *, most: float = LONGEST) -> float:
    """How long something took."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong(what, value, "no number")
    if not 0 <= value < most:
        raise _wrong(what, value, f"not between 0 and {most:g}")
    return float(value)


def moment(value: object, what: str) -> float:
    """Seconds since the epoch, of a year that has four digits."""
    return seconds(value, what, most=_YEAR_10000)


def truth_or_none(value: object, what: str) -> bool | None:
    """A truth as SQLite keeps it, or nothing."""
    return None if value is None else bool(count(value, what, most=1))


def usage(said: Said) -> dict[str, Usage]:
    """What each role asked; counts that are missing are 0."""
    return {role: _usage(spent, f"the usage of {shown(role)}") for role, spent in said.items()}


def trial(said: Said, *, key: str, version: int) -> Trial:
    """A trial in the words of today.

    Args:
        said: of it.
        key: under which the ledger has it; in version 1 another one than today's.
        version: of the ledger.
    """
    try:
        read = Trial(**said) if version > 1 else Trial.of_version_1(said)
    except (TypeError, KeyError) as error:
        raise ValueError(f"a trial has not the fields of one: {error}") from error
    for name in ("planner", "domain", "task", "model", "source"):
        text(getattr(read, name), f"the {name} of a trial")
    integer(read.seed, "the seed of a trial")
    for name in ("role_models", "settings", "engines"):
        mapping(getattr(read, name), f"the {name} of a trial")
    for other in read.role_models.values():
        text(other, "a role's model of a trial")
    for configuration in read.engines.values():
        mapping(configuration, "an engine's configuration of a trial")
    if version > 1 and read.key != key:
        raise ValueError(f"the key {key} is not that of its trial")
    return read


def sweep(said: Said) -> Said:
    """A resolved sweep without its trials."""
    name = text(said.get("name"), "the name of the sweep")
    if not name.isprintable() or len(name) > LONGEST_NAME:
        raise _wrong("the name of the sweep", name, "no name of a folder")
    count(said.get("retries"), "the retries of the sweep", most=_MOST_RETRIES)
    return said


def _usage(spent: object, what: str) -> Usage:
    said: Mapping[str, Any] = mapping(spent, what)
    for name, value in said.items():
        if name == "seconds":
            seconds(value, f"seconds in {what}")
        elif name in _COUNTS:
            count(value, f"{name} in {what}")
        else:
            raise _wrong(what, name, "no field of it")
    return Usage(**said)


def _wrong(what: str, value: object, why: str) -> ValueError:
    return ValueError(f"{what} is {shown(value)}, {why}")
