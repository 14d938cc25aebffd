"""Reads a sweep file and the files that it extends: keys, values, blocks, and their errors."""

from __future__ import annotations

import os
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from llm_base.quoting import quote
from llm_base.yaml_file import YamlError, key_path, read_mapping
from llm_planning.environments.catalogue import DOMAINS
from llm_planning.experiments.sweep_files import SweepConfigError, packaged_sweep
from llm_planning.model_configs import find_config, model_name
from llm_planning.names import remedy
from llm_planning.planners.catalogue import PLANNERS
from llm_serving.errors import ServingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from llm_base.yaml_file import Json

MOST_TRIALS = 1_000_000
"""Trials of a sweep, at most: a larger grid is taken for a mistake."""

_DEFAULT_RETRIES = 2
_LONGEST_TEXT = 500
_NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$"


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _swept(value: Json) -> Sequence[Json]:
    """The values of a setting: the items of a list or a range, or the value itself."""
    if isinstance(value, dict):
        return _range(value)
    if value == []:
        raise ValueError("[] leaves nothing to run; give at least one value")
    return tuple(_listed(value))


def _seeds(value: Json) -> Sequence[int]:
    """The seeds of a list or a range; a number n means the seeds 0 to n - 1."""
    if type(value) is int:
        if not 0 < value <= MOST_TRIALS:
            raise ValueError(f"{value} seeds are not possible; give 1 to {MOST_TRIALS}")
        return range(value)
    return _seed_values(value)


def _seed_values(value: Json) -> Sequence[int]:
    seeds = _swept(value)
    for seed in seeds:
        if type(seed) is not int or seed < 0:
            raise ValueError(f"{quote(seed)} is not a seed; a seed is a whole number, 0 or more")
    return seeds


def _range(value: dict[str, Json]) -> Sequence[int | float]:
    """`from`, `from + step`, ..., `to`, computed in decimals, so that steps of 0.1 stay exact."""
    for key, bound in value.items():
        if key not in {"from", "to", "step"}:
            known = remedy(key, ("from", "to", "step"))
            raise ValueError(f"unknown key {quote(key)} of a range; {known}")
        if type(bound) not in {int, float}:
            raise ValueError(f"{key} {quote(bound)} of a range is not a number")
    if not {"from", "to"} <= value.keys():
        raise ValueError(
            f"{quote(value)} is not a range: a range has `from`, `to` and, if not 1, `step`"
        )
    first, last = (Decimal(repr(value[key])) for key in ("from", "to"))
    step = Decimal(repr(value.get("step", 1)))
    if step <= 0 or last < first:
        raise ValueError(f"{quote(value)} holds no value; go up, in positive steps")
    steps = (last - first) / step
    if steps >= MOST_TRIALS:
        raise ValueError(f"{quote(value)} holds more than {MOST_TRIALS} values")
    if first + int(steps) * step != last:
        raise ValueError(f"{quote(value)} ends at {first + int(steps) * step}, not at its `to`")
    if all(type(bound) is int for bound in value.values()):
        return range(int(first), int(last) + 1, int(step))
    return tuple(float(first + number * step) for number in range(int(steps) + 1))


def _by_planner(value: Json) -> Json:
    """Planner -> own settings, from a mapping, a list of names or one name."""
    if isinstance(value, dict):
        return {name: {} if settings is None else settings for name, settings in value.items()}
    names = _listed(value)
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"{quote(name)} is not a planner's name")
    return {name: {} for name in names}


def _is_setting(name: str) -> bool:
    models = [spec.settings for spec in PLANNERS.values()]
    models += [spec.settings for spec in DOMAINS.values()]
    return any(name in settings.known_keys() for settings in models)


def _model(name: str) -> str:
    """Checks a model's configuration; whether a hub id exists shows only when it is fetched."""
    _plain_text(name, kind="model's name")
    if not name.lower().endswith((".yaml", ".yml")):
        return model_name(name)
    try:
        find_config(name)
    except (ServingError, OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{quote(name)} cannot be run: {reason}") from error
    return name


def _plain_text(text: str, *, kind: str) -> str:
    if not text.isprintable() or text != text.strip() or not 0 < len(text) <= _LONGEST_TEXT:
        raise ValueError(f"{quote(text)} is not a {kind}")
    return text


_Name: TypeAlias = Annotated[StrictStr, AfterValidator(partial(_plain_text, kind="name"))]
_Path: TypeAlias = Annotated[StrictStr, AfterValidator(partial(_plain_text, kind="file's path"))]
_Model: TypeAlias = Annotated[StrictStr, AfterValidator(_model)]
_Excluded: TypeAlias = Annotated[StrictStr, AfterValidator(model_name)]
_Swept: TypeAlias = Annotated[Any, PlainValidator(_swept)]
_OneOrMore = (BeforeValidator(_listed), Field(min_length=1))


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Clause(_Part):
    """A clause of `exclude`: matches trials that have, for each of its keys, one of its values."""

    planner: Annotated[list[_Name], *_OneOrMore] = []
    domain: Annotated[list[_Name], *_OneOrMore] = []
    task: Annotated[list[_Name], *_OneOrMore] = []
    model: Annotated[list[_Excluded], *_OneOrMore] = []
    role_models: Annotated[list[dict[StrictStr, _Excluded]], *_OneOrMore] = []
    seed: Annotated[Any, PlainValidator(_seed_values)] = ()
    settings: Annotated[dict[_Name, _Swept], Field(min_length=1)] = {}

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("{} leaves every trial out; name what to leave out")
        return self


class Block(_Part):
    """A product of values; missing keys come from the top of the file or of one that it extends."""

    model: Annotated[list[_Model], *_OneOrMore] = []
    role_models: Annotated[list[dict[_Name, _Model]], *_OneOrMore] = []
    planners: Annotated[
        dict[_Name, dict[_Name, _Swept]], BeforeValidator(_by_planner), Field(min_length=1)
    ] = {}
    domain: Annotated[list[_Name], *_OneOrMore] = []
    tasks: Annotated[list[_Name], *_OneOrMore] = []
    seeds: Annotated[Any, PlainValidator(_seeds)] = ()
    settings: dict[_Name, _Swept] = {}
    exclude: Annotated[list[Clause], BeforeValidator(_listed)] = []


class SweepFile(Block):
    """The keys of one file."""

    name: Annotated[StrictStr, Field(pattern=_NAME)] = ""
    extends: _Path = ""
    retries: Annotated[StrictInt, Field(ge=0, le=100)] = 0
    grids: Annotated[list[Block], Field(min_length=1)] = []


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """The value of one key in a file.

    Attributes:
        value: as `grid_file` read it.
        where: file and key path.
        generation: of the file: 0 for the sweep's own, 1 for the file that it extends.
    """

    value: Any
    where: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedFile:
    """A sweep file with what it inherits.

    Attributes:
        retries: more attempts for a trial that fails.
        blocks: place of each block, and key -> its entry in the block; a setting's key is
            `settings.NAME`.
    """

    name: str
    retries: int
    blocks: tuple[tuple[str, dict[str, Entry]], ...]


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    content: SweepFile


def resolve_file(path: Path) -> ResolvedFile:
    """Reads a sweep file and what it extends, each from the folder of the one that extends it.

    What is not there is looked up among the packaged sweeps.

    Raises:
        SweepConfigError: names the first error in one of them.
    """
    files = _read_chain(path)
    retries = (file.content.retries for file in files if "retries" in file.content.model_fields_set)
    return ResolvedFile(
        name=_name_of(files[0]),
        retries=next(retries, _DEFAULT_RETRIES),
        blocks=tuple(_blocks(files)),
    )


def sweep_name(path: Path) -> str:
    """The name of the sweep in a file; its other keys are not read.

    Raises:
        SweepConfigError: the file is not that of a sweep.
    """
    return _name_of(_File(path, _read_file(path)))


def _read_chain(path: Path) -> list[_File]:
    """The file and its ancestors, nearest first."""
    files: list[_File] = []
    seen: list[str] = []
    while True:
        try:
            content = _read_file(path)
        except SweepConfigError as error:
            if not files:
                raise
            raise SweepConfigError(f"{files[-1].path}: extends: {error}") from error
        real = os.path.realpath(path)
        if real in seen:
            circle = " -> ".join(str(link) for link in [*(file.path for file in files), path])
            raise SweepConfigError(f"{files[-1].path}: extends: goes in a circle: {circle}")
        files.append(_File(path, content))
        seen.append(real)
        if not content.extends:
            return files
        path = _extended(path.parent, content.extends)


def _extended(folder: Path, name: str) -> Path:
    """The file that another one of a folder extends: one from there, or a packaged sweep."""
    path = folder / name
    return path if os.path.lexists(path) else packaged_sweep(name) or path


def _name_of(file: _File) -> str:
    stem = file.path.stem
    try:
        return file.content.name or SweepFile(name=stem).name
    except ValidationError:
        raise SweepConfigError(
            f"{file.path}: name: the file's own name, {quote(stem)}, names no folder; give another"
        ) from None


def _blocks(files: list[_File]) -> list[tuple[str, dict[str, Entry]]]:
    """The entries of each block, with the place of the block."""
    top: dict[str, Entry] = {}
    for generation, file in reversed(list(enumerate(files))):
        top |= _entries(file.content, f"{file.path}: ", generation)
    origin = next((number for number, file in enumerate(files) if file.content.grids), None)
    if origin is None:
        return [(str(files[0].path), top)]
    file = files[origin]
    places = [f"{file.path}: grids[{number}]" for number in range(len(file.content.grids))]
    blocks = [
        (place, top | _entries(block, f"{place}.", origin))
        for place, block in zip(places, file.content.grids, strict=True)
    ]
    for key, entry in top.items():
        if entry.generation <= origin and all(block[key] is not entry for _, block in blocks):
            instead = ", and name yours by --model" if key == "model" else ""
            raise SweepConfigError(
                f"{entry.where}: has no effect: every block of `grids` says its own; leave it "
                f"out{instead}"
            )
    return blocks


def _entries(block: Block, where: str, generation: int) -> dict[str, Entry]:
    """The block's own entries, one per setting, so that a union of two blocks is inheritance."""
    entries: dict[str, Entry] = {}
    for key in Block.model_fields:
        if key == "settings":
            for setting, values in block.settings.items():
                path = f"settings.{setting}"
                entries[path] = Entry(values, f"{where}{path}", generation)
        elif key in block.model_fields_set:
            entries[key] = Entry(getattr(block, key), f"{where}{key}", generation)
    return entries


def _read_file(path: Path) -> SweepFile:
    """Reads one file, without what it extends.

    Raises:
        SweepConfigError: names the first error in it.
    """
    try:
        raw = read_mapping(path)
    except YamlError as error:
        raise SweepConfigError(str(error)) from error
    try:
        return SweepFile.model_validate(raw)
    except ValidationError as error:
        raise SweepConfigError(f"{path}: {_explained(error, raw)}") from error


def _explained(error: ValidationError, raw: Json) -> str:
    first = error.errors(include_url=False)[0]
    location = first["loc"]
    if first["type"] == "extra_forbidden":
        model = Clause if "exclude" in location[:-1] else Block if location[1:] else SweepFile
        key = str(location[-1])
        path, _ = _followed(location, raw)
        place = "it is a setting, which stands under `settings`; " if _is_setting(key) else ""
        return f"{path}: unknown key {quote(key)}; {place}{remedy(key, model.model_fields)}"
    path, value = _followed(location, raw)
    if first["type"] == "value_error":
        return f"{path}: {first['ctx']['error']}"
    if path == "name":
        return (
            f"name: {quote(value)} names no folder; write up to 100 letters, digits, "
            "`-`, `_` and `.`, a letter or digit first and no `.` last"
        )
    if value is None and path.startswith(("model", "role_models.")):
        return f"{path}: no name is written here; write a model's name, or none for no model"
    return f"{path}: {quote(value)} is not possible: {first['msg']}"


def _followed(location: Iterable[int | str], raw: Json) -> tuple[str, Json]:
    """The key path as the user would write it, and the value there.

    A location of pydantic may have the index of a list that the user wrote as a single value.
    """
    path = ""
    for part in location:
        if isinstance(part, int) and isinstance(raw, list):
            path += f"[{part}]"
        elif isinstance(part, str) and isinstance(raw, dict) and part in raw:
            path = key_path(path, part)
        else:
            continue
        raw = raw[part]
    return path, raw
