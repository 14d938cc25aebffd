"""Looks up the planners of a block, each in its domains."""

from __future__ import annotations

import itertools
import math
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from llm_base.quoting import quote
from llm_base.yaml_file import key_path
from llm_planning.experiments.grid_file import Entry
from llm_planning.experiments.sweep_files import SweepConfigError, UntrustedError
from llm_planning.names import remedy
from llm_planning.registry import find_planner
from llm_planning.running import (
    REFUSALS,
    asked_roles,
    find_where,
    fitting_domains,
    models_of_roles,
    why_unanswered,
)
from llm_planning.settings import SettingsError, UnreadSettingError
from llm_planning.specs import FOREIGN, check_task, choose, known_keys
from llm_serving.errors import ServingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from llm_base.yaml_file import Json
    from llm_planning.specs import DomainSpec, PlannerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """A combination of settings of a row.

    Attributes:
        settings: all of them, with defaults.
        models: role -> its own model, by the file that `roles` names.
        asked: the roles that a model answers.
        unanswered: why no trial without a model can end; None if one can, or if nobody knows.
    """

    settings: dict[str, Json]
    models: Mapping[str, str]
    asked: frozenset[str]
    unanswered: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A planner in a domain, the values of the settings that were given, and the tasks there."""

    spec: PlannerSpec
    domain: DomainSpec
    where: str
    settings: Mapping[str, Entry]
    tasks: Sequence[str]

    @property
    def size(self) -> int:
        """Number of trials of one model and one seed, before exclusions."""
        return len(self.tasks) * math.prod(len(entry.value) for entry in self.settings.values())

    def combinations(self) -> Iterator[dict[str, Json]]:
        """The combinations of values of the given settings; the last setting changes fastest."""
        for values in itertools.product(*(entry.value for entry in self.settings.values())):
            yield dict(zip(self.settings, values, strict=True))

    def read(self, given: Mapping[str, Json]) -> Combination:
        """Reads a combination of the given settings.

        Raises:
            SweepConfigError: it is not possible.
        """
        try:
            chosen = choose(self.spec, self.domain, given)
            models = models_of_roles(self.spec, chosen)
        except SettingsError as error:
            raise self._impossible(given, error) from error
        full: dict[str, Json] = to_jsonable_python(chosen.to_json())
        for key, value in given.items():
            # A default that is left out of a trial is of the right kind.
            if key in full and kind_of(value) != kind_of(full[key]):
                raise SweepConfigError(
                    f"{self.settings[key].where}: {quote(value)} is {kind_of(value)}, but {key} of "
                    f"{self.spec.name} is {kind_of(full[key])}: write {quote(full[key])}"
                )
        return Combination(
            settings=full,
            models=models,
            asked=frozenset(asked_roles(self.spec, chosen)),
            unanswered=why_unanswered(self.spec, chosen),
        )

    def _impossible(self, given: Mapping[str, Json], error: SettingsError) -> SweepConfigError:
        """The error to show, at the setting that is impossible on its own, if there is one."""
        if isinstance(error, UnreadSettingError) and error.key in self.settings:
            return SweepConfigError(f"{self.settings[error.key].where}: {error}, or exclude it")
        where, value, instead = self.where, quote(given), ""
        for key, entry in self.settings.items():
            try:
                models_of_roles(self.spec, choose(self.spec, self.domain, {key: given[key]}))
            except UnreadSettingError:
                continue
            except SettingsError:
                where, value = entry.where, quote(given[key])
                instead = _elsewhere(entry, given[key])
                break
        reason = str(error)
        if isinstance(error.__cause__, ValidationError):
            reason = error.__cause__.errors(include_url=False)[0]["msg"]
        return SweepConfigError(
            f"{where}: {value} is not possible for {self.spec.name}: {reason}{instead}"
        )


def _elsewhere(entry: Entry, value: Json) -> str:
    """The remedy for a file that is not here, but as seen from a folder above the sweep's file."""
    if not isinstance(value, str) or os.path.lexists(value):
        return ""
    above = Path(entry.where.partition(": ")[0]).absolute().parents
    return next((f"; run it from {at}" for at in above if os.path.isfile(at / value)), "")


def settings_by_planner(entries: Mapping[str, Entry]) -> dict[str, dict[str, Entry]]:
    """Planner -> its settings: the common ones and its own.

    Raises:
        SweepConfigError: no planner has a common setting.
    """
    planners = entries["planners"]
    shared = {
        key.removeprefix("settings."): entry
        for key, entry in entries.items()
        if key.startswith("settings.")
    }
    for key, entry in shared.items():
        if entry.generation <= planners.generation and all(
            key in own for own in planners.value.values()
        ):
            raise SweepConfigError(
                f"{entry.where}: has no effect: every planner says its own; leave it out"
            )
    return {
        name: shared
        | {
            key: Entry(values, key_path(key_path(planners.where, name), key), planners.generation)
            for key, values in own.items()
        }
        for name, own in planners.value.items()
    }


def rows_of(
    name: str, settings: Mapping[str, Entry], entries: Mapping[str, Entry]
) -> Iterator[Row]:
    """Looks up a planner in each of its domains.

    Args:
        settings: from `settings_by_planner`.
        entries: key -> its entry in the block.

    Raises:
        SweepConfigError: a name is unknown, or the parts do not fit together.
    """
    where = key_path(entries["planners"].where, name)
    with placed(where):
        spec = find_planner(name)
    for domain, tasks in _places(spec, entries):
        yield Row(
            spec=spec,
            domain=domain,
            where=where,
            settings=dict(_by_key(spec, domain, settings)),
            tasks=tasks,
        )


def _places(
    spec: PlannerSpec, entries: Mapping[str, Entry]
) -> Iterator[tuple[DomainSpec, Sequence[str]]]:
    """Domains with their tasks; if the file names no domain, the tasks decide it."""
    tasks = entries["tasks"]
    if "domain" in entries:
        for name in entries["domain"].value:
            with placed(entries["domain"].where):
                domain = find_where(spec, domain=name, task=None)
            yield domain, _tasks(domain, tasks)
    elif tasks.value == ["all"]:
        fitting = [*fitting_domains(spec)]
        if len(fitting) != 1:
            names = (
                " and ".join(domain.name for domain in fitting) or "no domain of this project's own"
            )
            raise SweepConfigError(
                f"{tasks.where}: planner {spec.name} plans in {names}: say which by `domain`"
            )
        yield fitting[0], fitting[0].tasks
    else:
        places: dict[str, tuple[DomainSpec, list[str]]] = {}
        for task in tasks.value:
            with placed(tasks.where):
                domain = find_where(spec, domain=None, task=task)
            places.setdefault(domain.name, (domain, []))[1].append(task)
        yield from places.values()


def _tasks(domain: DomainSpec, entry: Entry) -> Sequence[str]:
    if entry.value == ["all"]:
        return domain.tasks
    tasks: Sequence[str] = entry.value
    for task in tasks:
        with placed(entry.where):
            check_task(task, known=domain.tasks, of=domain.name)
    return tasks


def _by_key(
    spec: PlannerSpec, domain: DomainSpec, settings: Mapping[str, Entry]
) -> Iterator[tuple[str, Entry]]:
    """The settings by their keys in `Chosen.to_json`."""
    known, seen = known_keys(spec, domain), set()
    for key, entry in settings.items():
        name = proper_key(key, spec)
        if name not in known:
            raise SweepConfigError(
                f"{entry.where}: planner {spec.name} in {domain.name} has no setting "
                f"{quote(key)}; give it under `planners` to those that have it, or in a block of "
                f"`grids`; {remedy(key, known)}"
            )
        if name in seen:
            raise SweepConfigError(
                f"{entry.where}: {quote(key)} is given twice, with and without `{FOREIGN}`; "
                "keep one"
            )
        seen.add(name)
        yield name, entry


def proper_key(key: str, spec: PlannerSpec) -> str:
    """Drops the domain prefix unless the planner has a setting of the same name."""
    bare = key.removeprefix(FOREIGN)
    return key if bare in spec.settings.known_keys() else bare


def refuse_strange_roles(entry: Entry, rows: Iterable[Row]) -> None:
    """Makes sure that a planner of a block asks each role with its own model.

    Raises:
        SweepConfigError: no planner asks a role.
    """
    known = {role for row in rows for role in row.spec.roles}
    for role in dict.fromkeys(role for models in entry.value for role in models):
        if role not in known:
            raise SweepConfigError(
                f"{entry.where}: no planner here asks a role {quote(role)}; {remedy(role, known)}"
            )


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Adds the place in a file to errors about what is unknown, not trusted or does not fit."""
    try:
        yield
    except (*REFUSALS, ServingError, UntrustedError) as error:
        raise SweepConfigError(f"{where}: {error}") from error


def kind_of(value: Json) -> str:
    """The kind of a value in words: 1 and 1.0 are of one kind, 1 and true are not."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "a mapping"
