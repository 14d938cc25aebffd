"""One block of a sweep file as a product: its size, its trials and its exclusions."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from llm_planning.experiments.grid_errors import SweepConfigError, shown
from llm_planning.experiments.trial import Trial
from llm_planning.model_configs import DEFAULT_MODEL
from llm_planning.names import remedy
from llm_planning.planners.registry import PlannerSpec, find_planner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from llm_planning.experiments.grid_file import Clause
    from llm_planning.experiments.grid_yaml import Json


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """What a file says about one key.

    Attributes:
        value: as `grid_file` read it.
        where: file and key path.
        generation: of the file: 0 is the sweep's own, 1 the one that it extends.
    """

    value: Any
    where: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A planner, the values of the settings that were given, and its tasks."""

    spec: PlannerSpec
    where: str
    settings: Mapping[str, Said]
    tasks: Sequence[str]

    @property
    def size(self) -> int:
        return len(self.tasks) * math.prod(len(said.value) for said in self.settings.values())

    def combinations(self) -> Iterator[dict[str, Json]]:
        for values in itertools.product(*(said.value for said in self.settings.values())):
            yield dict(zip(self.settings, values, strict=True))

    def read(self, given: Mapping[str, Json]) -> dict[str, Json]:
        """All settings of the planner when these are given, defaults included."""
        try:
            settings = self.spec.settings.model_validate(given)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = str(first["loc"][0]) if first["loc"] else ""
            where = self.settings[key].where if key in self.settings else self.where
            raise SweepConfigError(
                f"{where}: {shown(given.get(key, given))} is not possible for {self.spec.name}: "
                f"{first['msg']}"
            ) from error
        full: dict[str, Json] = to_jsonable_python(settings.to_json())
        for key, value in given.items():
            if _kind(value) != _kind(full[key]):
                raise SweepConfigError(
                    f"{self.settings[key].where}: {shown(value)} is {_kind(value)}, but {key} of "
                    f"{self.spec.name} is {_kind(full[key])}: write {shown(full[key])}"
                )
        return full


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A block in which every name is known."""

    models: Sequence[str]
    world_models: Sequence[str | None]
    rows: Sequence[_Row]
    tasks: Sequence[str]
    seeds: Sequence[int]
    clauses: Sequence[Clause]
    where_clauses: str
    matched: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, where: str, said: Mapping[str, Said]) -> Product:
        """Checks the names in a block against one another.

        Args:
            where: the block's own place.
            said: key -> what holds in the block; a setting's key is `settings.NAME`.

        Raises:
            SweepConfigError: planners or tasks are missing, or a planner lacks a task or a setting.
        """
        for key in ("planners", "tasks"):
            if key not in said:
                raise SweepConfigError(f"{where}: says no `{key}`, here or in what it builds on")
        exclude = said.get("exclude", Said([], where, 0))
        return cls(
            models=said["model"].value if "model" in said else [DEFAULT_MODEL],
            world_models=said["world_model"].value if "world_model" in said else [None],
            rows=_rows(said),
            tasks=said["tasks"].value,
            seeds=said["seeds"].value if "seeds" in said else range(1),
            clauses=exclude.value,
            where_clauses=exclude.where,
        )

    @property
    def size(self) -> int:
        """Number of trials before exclusions, those that are given twice counted twice."""
        rows = sum(row.size for row in self.rows)
        return len(self.models) * len(self.world_models) * rows * len(self.seeds)

    def trials(self) -> Iterator[tuple[tuple[str | int | None, ...], Trial]]:
        """The trials that no clause excludes, each after what tells it from another.

        The clauses that exclude one are remembered in `matched`.

        Raises:
            SweepConfigError: a planner's settings have an impossible value.
        """
        cells = [(row, *cell) for row in self.rows for cell in self._settings(row)]
        for model, other in itertools.product(self.models, self.world_models):
            world = None if other == model else other
            for row, settings, text, covering in cells:
                here = [one for one in covering if _has(one.model, model)]
                here = [one for one in here if _has(one.world_model, world)]
                for task in row.tasks:
                    excluding = [one for one in here if _has(one.task, task)]
                    for seed in self._seeds(excluding):
                        trial = Trial(
                            planner=row.spec.name,
                            environment=row.spec.environment,
                            task=task,
                            model=model,
                            world_model=world,
                            seed=seed,
                            settings=settings,
                        )
                        yield (row.spec.name, task, model, world, seed, text), trial

    def to_json(self) -> dict[str, Json]:
        """The block as it could be written in a file, without clauses that exclude nothing."""
        clauses = [one for one in self.clauses if id(one) in self.matched]
        return {
            "model": list(self.models),
            "world_model": list(self.world_models),
            "planners": {
                row.spec.name: {key: _plain(said.value) for key, said in row.settings.items()}
                for row in self.rows
            },
            "tasks": list(self.tasks),
            "seeds": _plain(self.seeds),
            "exclude": [_clause_json(one) for one in clauses],
        }

    def _settings(self, row: _Row) -> Iterator[tuple[dict[str, Json], str, list[Clause]]]:
        """A planner's combinations, each with its text and the clauses that may exclude it.

        One that is excluded whatever the task, the model and the seed need not be possible.
        """
        clauses = [one for one in self.clauses if _has(one.planner, row.spec.name)]
        defaults = row.spec.settings.read({}).to_json() if clauses else {}
        for given in row.combinations():
            covering = [one for one in clauses if _covers(one, {**defaults, **given})]
            whole = any(
                not (one.model or one.world_model or one.task or one.seed) for one in covering
            )
            full = {} if whole else row.read(given)
            yield full, json.dumps(full, sort_keys=True), covering

    def _seeds(self, excluding: Sequence[Clause]) -> Iterable[int]:
        if not excluding:
            return self.seeds
        left = []
        for seed in self.seeds:
            matching = [id(one) for one in excluding if _has(one.seed, seed)]
            self.matched.update(matching)
            if not matching:
                left.append(seed)
        return left


def different(
    trials: Iterable[tuple[tuple[str | int | None, ...], Trial]],
) -> tuple[Trial, ...]:
    """Each trial once, in the order of first sight; never hashes a trial's whole JSON."""
    first: dict[tuple[str | int | None, ...], Trial] = {}
    for identity, trial in trials:
        first.setdefault(identity, trial)
    return tuple(first.values())


def refuse_idle_clauses(products: Iterable[Product]) -> None:
    """Refuses a clause that excluded nothing in any of the blocks where it holds.

    Raises:
        SweepConfigError: there is one.
    """
    products = list(products)
    matched = set().union(*(product.matched for product in products))
    for product in products:
        for number, clause in enumerate(product.clauses):
            if id(clause) not in matched:
                raise SweepConfigError(
                    f"{product.where_clauses}[{number}]: {shown(_clause_json(clause))} matches no "
                    "trial; leave it out, or say `exclude: []` if it comes from another file"
                )


def _rows(said: Mapping[str, Said]) -> list[_Row]:
    planners = said["planners"]
    shared = {
        key.removeprefix("settings."): one
        for key, one in said.items()
        if key.startswith("settings.")
    }
    for key, one in shared.items():
        if one.generation <= planners.generation and all(
            key in own for own in planners.value.values()
        ):
            raise SweepConfigError(
                f"{one.where}: has no effect: every planner says its own; leave it out"
            )
    rows = []
    for name, own in planners.value.items():
        where = f"{planners.where}.{name}"
        settings = shared | {
            key: Said(values, f"{where}.{key}", planners.generation) for key, values in own.items()
        }
        rows.append(_row(find_planner(name), where, settings, said["tasks"]))
    return rows


def _row(spec: PlannerSpec, where: str, settings: Mapping[str, Said], tasks: Said) -> _Row:
    known = spec.settings.known_keys()
    for key, said in settings.items():
        if key not in known:
            raise SweepConfigError(
                f"{said.where}: planner {spec.name} has no setting {key!r}; give it under "
                f"`planners` to those that have it, or in a block of `grids`; {remedy(key, known)}"
            )
    chosen = spec.tasks if tasks.value == ["all"] else tasks.value
    for task in chosen:
        if task not in spec.tasks:
            raise SweepConfigError(
                f"{tasks.where}: planner {spec.name} has no task {shown(task)}; "
                f"{remedy(task, spec.tasks)}"
            )
    return _Row(spec=spec, where=where, settings=settings, tasks=chosen)


def _has(values: Sequence[object], value: object) -> bool:
    """Whether a clause's values of one key, none of them being any, match this one."""
    return not values or value in values


def _covers(clause: Clause, settings: Mapping[str, Json]) -> bool:
    """Whether a planner has one of the clause's values for each setting of the clause."""
    return all(
        key in settings
        and any(value == settings[key] and _kind(value) == _kind(settings[key]) for value in values)
        for key, values in clause.settings.items()
    )


def _kind(value: Json) -> str:
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


def _plain(values: Sequence[Json]) -> Json:
    """Values as a file writes them."""
    if isinstance(values, range):
        return {"from": values[0], "to": values[-1], "step": values.step}
    return list(values)


def _clause_json(clause: Clause) -> dict[str, Json]:
    said = clause.model_dump(exclude_unset=True, exclude={"seed", "settings"})
    if clause.seed:
        said["seed"] = _plain(clause.seed)
    if clause.settings:
        said["settings"] = {key: _plain(values) for key, values in clause.settings.items()}
    return said
