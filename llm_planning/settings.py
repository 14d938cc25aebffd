"""What the settings of every planner and every domain have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, ClassVar, Final, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llm_base.quoting import quote
from llm_planning.names import remedy

HOTTEST: Final = 2.0
"""The highest temperature at which engines draw an answer."""

WRITTEN_SETTINGS = ("save",)
"""Settings that name a file to be written by a run."""

CODE_SETTINGS = ("words", "domain.words")
"""Settings that name a file of Python to be run, if their value ends so."""


class SettingsError(ValueError):
    """A setting is unknown, its value is impossible, or nothing reads it."""


class UnreadSettingError(SettingsError):
    """A setting has another value than its default, and nothing in the run reads it.

    Attributes:
        key: of the setting, as `Settings.known_keys` has it.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True, slots=True)
class When:
    """A condition under which a setting is read.

    Attributes:
        key: of the setting that decides it; empty if none does.
        reader: what reads the setting then, such as `choice=majority`; if none does, why.
        holds: tells whether settings meet it.
    """

    key: str
    reader: str
    holds: Callable[[Any], bool]


ReadWhen: TypeAlias = Mapping[str, Sequence[When]]
"""Key of a setting -> the conditions under which it is read; all must hold."""


def when(key: str, *values: object) -> When:
    """The condition that a setting has one of these values."""
    listed = " or ".join(map(str, values))
    return When(key, f"{key}={listed}", lambda settings: getattr(settings, key) in values)


def never(why: str) -> When:
    """No condition: the setting is shared with others, and is never read here."""
    return When("", why, lambda _: False)


class Settings(BaseModel):
    """The settings of a planner or of a domain; subclass it, with a field for each setting.

    Settings are a pydantic model. They cannot be changed, and a key is a field's alias where it has
    one, its name elsewhere.

    Attributes:
        read_when: when settings are read. A setting without an entry is always read; the entries
            of base classes count as well.

    Example:
        >>> from pydantic import Field
        >>> from llm_planning import Settings
        >>> class BeamSettings(Settings):
        ...     width: int = Field(4, ge=1)
        >>> BeamSettings.read({"width": "8"}).width
        8
        >>> BeamSettings.read({"size": 8})
        Traceback (most recent call last):
            ...
        llm_planning.settings.SettingsError: unknown setting 'size'; known: width
    """

    # A validator is built when the first settings are read: most models of a run never read any.
    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, defer_build=True)

    read_when: ClassVar[ReadWhen] = {}

    @classmethod
    @cache
    def known_keys(cls) -> tuple[str, ...]:
        """The keys that a user sets, in the order of the fields."""
        return tuple(
            str(field.validation_alias or name) for name, field in cls.model_fields.items()
        )

    @classmethod
    def read(cls, values: Mapping[str, object]) -> Self:
        """Reads settings that a user gave; texts are turned into numbers where those belong.

        Args:
            values: key -> value; what is missing keeps its default.

        Raises:
            SettingsError: names the key, the value and what to write instead.
        """
        known = cls.known_keys()
        for key in values:
            if key not in known and key not in cls.model_fields:
                raise SettingsError(f"unknown setting {quote(key)}; {remedy(key, known)}")
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            # An error of settings that do not fit together has no place, and names them itself.
            subject = f"setting {key}={quote(first['input'])} is" if key else "these settings are"
            why = first["msg"].removeprefix("Value error, ")
            raise SettingsError(f"{subject} not possible: {why}") from error

    def to_json(self) -> dict[str, object]:
        """Key -> value of all settings, as `read` takes them."""
        return dict(zip(self.known_keys(), self.model_dump().values(), strict=True))

    def missing_reader(self, key: str, more: ReadWhen) -> When | None:
        """The condition that fails, so that nothing reads a setting; None if it is read.

        Args:
            more: conditions beside those of `read_when`.
        """
        conditions = (*more.get(key, ()), *self._readers(key))
        return next((condition for condition in conditions if not condition.holds(self)), None)

    @classmethod
    @cache
    def _readers(cls, key: str) -> tuple[When, ...]:
        """The conditions of a setting in `read_when`, here and in the classes above."""
        tables = (vars(kind).get("read_when", {}) for kind in cls.__mro__)
        return tuple(chain.from_iterable(table.get(key, ()) for table in tables))

    def refuse_unread(self, name: str, more: ReadWhen) -> None:
        """Makes sure that every value that is not the default is read.

        Args:
            more: conditions beside those of `read_when`.

        Raises:
            UnreadSettingError: names the setting, and what would read it.
        """
        fields = zip(self.to_json().items(), type(self).model_fields.values(), strict=True)
        for (key, value), field in fields:
            missing = None if value == field.default else self.missing_reader(key, more)
            if missing is None:
                continue
            why = f": {missing.reader}"
            if missing.key:
                now = f"{missing.key}={getattr(self, missing.key)}"
                why = f" with {now}: only {missing.reader} reads it"
            raise UnreadSettingError(
                key, f"setting {key}={quote(value)} does nothing in {name}{why}; leave it out"
            )


def identified(values: Mapping[str, object], name: str, digest: str) -> dict[str, object]:
    """Adds what identifies the files that a setting names, so that changed files are another trial.

    Args:
        values: of settings, by name.
        name: of the setting; its companion `NAME_sha256` gets the hash.
        digest: of the files as they are now; empty if the setting names none.

    Raises:
        ValueError: the values have another hash.
    """
    if values.get(f"{name}_sha256") not in {None, "", digest}:
        if not digest:
            raise ValueError(
                f"what {name}={values.get(name)} names cannot be read from the working directory: "
                "run it from the folder where the sweep began, or restore it"
            )
        raise ValueError(f"what {name}={values.get(name)} names has changed: restore it")
    return {**values, f"{name}_sha256": digest}


class NoSettings(Settings):
    """Nothing to set."""


class EpisodeSettings(Settings):
    """Settings of a planner that acts move by move.

    Attributes:
        moves: the most real moves of an episode.
    """

    moves: int = Field(50, ge=1)
