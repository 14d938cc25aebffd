"""Finds and reads the files of the papers that can be reported."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, ValidationError

from llm_base.yaml_file import YamlError, read_mapping
from llm_planning.experiments.published import (
    Column,
    Comparison,
    Measure,
    Panel,
    Part,
    Plot,
    PublishedTable,
    Row,
    Setup,
    as_tuple,
)
from llm_planning.model_configs import config_folder
from llm_planning.names import remedy

if TYPE_CHECKING:
    from pathlib import Path

    from llm_base.yaml_file import Json

_PUBLISHED = ".published.yaml"


class PublishedError(ValueError):
    """A paper or table is unknown, or its file says something impossible."""


class _About(Part):
    title: str
    citation: str
    setup: Annotated[tuple[Setup, ...], BeforeValidator(as_tuple)] = ()
    asked: dict[str, dict[str, str]] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper whose tables can be reported.

    Attributes:
        citation: authors, place, year.
        setup: of its experiments; a table's own setup replaces it field by field.
        asked: what selects a model's runs in the place of an oracle's
            (`PublishedTable.answered`); empty where figures stand beside a model's anyway.
        instead: what its tables are read with.
    """

    name: str
    title: str
    citation: str
    setup: tuple[Setup, ...]
    asked: dict[str, dict[str, str]]
    folder: Path
    instead: dict[str, dict[str, str]] = field(default_factory=dict)

    def tables(self) -> tuple[str, ...]:
        """Names of its tables and figures, in order."""
        names = (path.name.removesuffix(_PUBLISHED) for path in self.folder.glob(f"*{_PUBLISHED}"))
        return tuple(sorted(names, key=_natural))

    def table(self, name: str) -> PublishedTable:
        """Reads a table.

        Raises:
            PublishedError: there is no such table, or its file says something impossible.
        """
        if name not in self.tables():
            raise PublishedError(
                f"unknown table {name!r} of {self.name}; {remedy(name, self.tables())}"
            )
        table = load_table(self.folder / f"{name}{_PUBLISHED}")
        return table.answered(self.instead) if self.instead else table

    def answered(self) -> Paper:
        """This paper with the figures that stand beside an oracle's runs beside a model's.

        Raises:
            PublishedError: none stands beside an oracle's.
        """
        if not self.asked:
            raise PublishedError(
                f"--asked moves figures from rows of an oracle to rows of a model, and those of "
                f"{self.name} stand beside a model's already: leave it out"
            )
        return replace(self, instead=self.asked)

    def sweeps(self, table: str) -> tuple[Path, ...]:
        """The sweeps that measure a table: the whole one first, then its variants.

        A variant that has a table of its own measures that one.
        """
        whole = self.folder / f"{table}.yaml"
        variants = sorted(self.folder.glob(f"{table}-*.yaml"))
        own = set(self.tables())
        return tuple(
            path
            for path in (whole, *variants)
            if path.is_file()
            and not path.name.endswith(_PUBLISHED)
            and (path == whole or path.stem not in own)
        )


def papers(folder: Path | None = None) -> tuple[str, ...]:
    """Names of the papers that can be reported.

    Args:
        folder: of the configurations; this project's own by default.
    """
    root = folder or config_folder().parent
    return tuple(sorted(path.parent.name for path in root.glob("*/paper.yaml")))


def find_paper(name: str, folder: Path | None = None) -> Paper:
    """The paper with a name.

    Args:
        name: of its folder, such as "too".
        folder: of the configurations; this project's own by default.

    Raises:
        PublishedError: there is no such paper; names the nearest.
    """
    root = folder or config_folder().parent
    if name not in papers(root):
        raise PublishedError(f"unknown paper {name!r}; {remedy(name, papers(root))}")
    path = root / name / "paper.yaml"
    try:
        about = _About.model_validate(_read(path))
    except ValidationError as error:
        raise PublishedError(_error_text(path, error)) from error
    return Paper(name=name, folder=path.parent, **dict(about))


def load_table(path: Path) -> PublishedTable:
    """Reads a published file.

    Raises:
        PublishedError: it cannot be read, or says something impossible; names the key.
    """
    try:
        return PublishedTable.model_validate(_read(path))
    except ValidationError as error:
        raise PublishedError(_error_text(path, error)) from error


def _read(path: Path) -> dict[str, Json]:
    try:
        return read_mapping(path)
    except YamlError as error:
        raise PublishedError(str(error)) from error


def _error_text(path: Path, error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "[key]")
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = f"unknown key; {remedy(str(first['loc'][-1]), _keys_at(first['loc']))}"
    return f"{path}: {where or 'the file'}: {message}"


def _keys_at(loc: tuple[int | str, ...]) -> list[str]:
    """The known keys at the place of an unknown key of a published file."""
    parts: dict[str, type[Part]] = {
        "columns": Column,
        "measure": Measure,
        "rows": Row,
        "compare": Comparison,
        "setup": Setup,
        "plot": Plot,
        "panels": Panel,
    }
    named = [parts[str(step)] for step in loc[:-1] if str(step) in parts]
    model: type[Part] = named[-1] if named else PublishedTable
    return [field.alias or name for name, field in model.model_fields.items()]


def _natural(name: str) -> tuple[str, int]:
    """A sort key that puts table10 behind table9."""
    match = re.fullmatch(r"(.*?)(\d*)", name)
    letters, digits = match.groups() if match else (name, "")
    return letters, int(digits or 0)
