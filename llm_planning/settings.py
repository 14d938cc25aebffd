"""What the settings of every planner and every domain have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from llm_planning.names import remedy
from llm_serving.errors import shown

if TYPE_CHECKING:
    from collections.abc import Mapping


class SettingsError(ValueError):
    """A setting is unknown, or its value is impossible."""


class Settings(BaseModel):
    """Settings: immutable, checked, and known by their keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True)

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """The keys a user sets: a field's alias where it has one, its name elsewhere."""
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
        for key in values:
            if key not in cls.known_keys() and key not in cls.model_fields:
                raise SettingsError(
                    f"unknown setting {shown(key)}; {remedy(key, cls.known_keys())}"
                )
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            raise SettingsError(
                f"setting {key}={shown(first['input'])} is not possible: {first['msg']}"
            ) from error

    def to_json(self) -> dict[str, object]:
        """Key -> value, as `read` takes them."""
        return dict(zip(self.known_keys(), self.model_dump().values(), strict=True))


class NoSettings(Settings):
    """Nothing to set."""
