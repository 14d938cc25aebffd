"""One block of a sweep file as a product: its size, its trials and its exclusions."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llm_planning.experiments.grid_file import SweepConfigError
from llm_planning.experiments.grid_rows import (
    Said,
    kind_of,
    placed,
    proper_key,
    refuse_strange_roles,
    rows_of,
    settings_by_planner,
)
from llm_planning.experiments.trial import Trial
from llm_planning.model_configs import DEFAULT_MODEL, configuration
from llm_planning.names import remedy
from llm_planning.running import source_of
from llm_planning.specs import FOREIGN, choose, known_keys
from llm_serving.errors import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from llm_planning.experiments.grid_file import Clause
    from llm_planning.experiments.grid_rows import Row
    from llm_planning.specs import PlannerSpec
    from llm_serving.yaml_file import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A block in which every name is known."""

    models: Sequence[str]
    role_models: Sequence[Mapping[str, str]]
    planners: Mapping[str, Mapping[str, Said]]
    domains: Sequence[str] | None
    rows: Sequence[Row]
    tasks: Sequence[str]
    seeds: Sequence[int]
    clauses: Sequence[Clause]
    where_clauses: str
    matched: set[int] = field(default_factory=set)
    configurations: dict[str, Json] = field(default_factory=dict)

    @classmethod
    def of(cls, where: str, said: Mapping[str, Said]) -> Product:
        """Looks up the names in a block and checks them against one another.

        Args:
            where: the block's own place.
            said: key -> what holds in the block; a setting's key is `settings.NAME`.

        Raises:
            SweepConfigError: planners or tasks are missing; something has no such name; or a
                planner lacks a task or a setting, or a domain what the planner needs.
        """
        for key in ("planners", "tasks"):
            if key not in said:
                raise SweepConfigError(f"{where}: says no `{key}`, here or in what it builds on")
        exclude = said.get("exclude", Said([], where, 0))
        planners = settings_by_planner(said)
        rows = [row for name, own in planners.items() for row in rows_of(name, own, said)]
        if "role_models" in said:
            refuse_strange_roles(said["role_models"], rows)
        return cls(
            models=said["model"].value if "model" in said else [DEFAULT_MODEL],
            role_models=said["role_models"].value if "role_models" in said else [{}],
            planners=planners,
            domains=said["domain"].value if "domain" in said else None,
            rows=rows,
            tasks=said["tasks"].value,
            seeds=said["seeds"].value if "seeds" in said else range(1),
            clauses=exclude.value,
            where_clauses=exclude.where,
        )

    @property
    def size(self) -> int:
        """Number of trials before exclusions, those that are given twice counted twice."""
        rows = sum(row.size for row in self.rows)
        return len(self.models) * len(self.role_models) * rows * len(self.seeds)

    def trials(self) -> Iterator[tuple[tuple[object, ...], Trial]]:
        """The trials that no clause excludes, each after what tells it from another.

        The clauses that exclude one are remembered in `matched`.

        Raises:
            SweepConfigError: a setting has an impossible value.
        """
        cells = [(row, *cell) for row in self.rows for cell in self._settings(row)]
        for model, others in itertools.product(self.models, self.role_models):
            for row, settings, filed, text, covering in cells:
                roles = {
                    role: name
                    for role, name in sorted({**filed, **others}.items())
                    if role in row.spec.roles and name != model
                }
                engines = self._engines(row, (model, *roles.values()))
                here = [one for one in covering if _has(one.model, model)]
                here = [one for one in here if _has(one.role_models, roles)]
                for task in row.tasks:
                    excluding = [one for one in here if _has(one.task, task)]
                    for seed in self._seeds(excluding):
                        trial = Trial(
                            planner=row.spec.recorded_as,
                            domain=row.domain_name,
                            task=task,
                            model=model,
                            role_models=roles,
                            seed=seed,
                            settings=settings,
                            engines=engines,
                            source=source_of(row.spec, row.domain),
                        )
                        place = (trial.planner, trial.domain, task)
                        yield (*place, model, tuple(roles.items()), seed, text), trial

    def to_json(self) -> dict[str, Json]:
        """The block as it could be written in a file, without clauses that exclude nothing."""
        clauses = [one for one in self.clauses if id(one) in self.matched]
        return {
            "model": list(self.models),
            "role_models": [dict(one) for one in self.role_models],
            "planners": {
                name: {key: _plain(said.value) for key, said in settings.items()}
                for name, settings in self.planners.items()
            },
            **({} if self.domains is None else {"domain": list(self.domains)}),
            "tasks": list(self.tasks),
            "seeds": _plain(self.seeds),
            "exclude": [_clause_json(one) for one in clauses],
        }

    def _engines(self, row: Row, names: Iterable[str]) -> dict[str, Json]:
        """What the names of models mean now; "none" means nothing."""
        for name in names:
            if name not in self.configurations:
                with placed(row.where):
                    config = configuration(name)
                said = None if config is None else config.model_dump(mode="json")
                self.configurations[name] = said
        return {name: one for name in names if (one := self.configurations[name]) is not None}

    def _settings(
        self, row: Row
    ) -> Iterator[tuple[dict[str, Json], dict[str, str], str, list[Clause]]]:
        """A planner's combinations, each with its models, text and clauses that may exclude it.

        One that is excluded whatever the task, the model and the seed need not be possible.
        """
        names = {*row.spec.names}
        clauses = [one for one in self.clauses if not one.planner or names & {*one.planner}]
        clauses = [one for one in clauses if _has(one.domain, row.domain_name)]
        defaults = choose(row.spec, row.domain, {}).to_json() if clauses else {}
        for given in row.combinations():
            covering = [one for one in clauses if _covers(one, {**defaults, **given}, row.spec)]
            whole = any(
                not (one.model or one.role_models or one.task or one.seed) for one in covering
            )
            full, models = ({}, {}) if whole else row.read(given)
            yield full, models, json.dumps(full, sort_keys=True), covering

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


def different(trials: Iterable[tuple[tuple[object, ...], Trial]]) -> tuple[Trial, ...]:
    """Each trial once, in the order of first sight; never hashes a trial's whole JSON."""
    first: dict[tuple[object, ...], Trial] = {}
    for identity, trial in trials:
        first.setdefault(identity, trial)
    return tuple(first.values())


def refuse_idle_clauses(products: Sequence[Product]) -> None:
    """Refuses a clause that excluded nothing in any of the blocks where it holds.

    Raises:
        SweepConfigError: there is one.
    """
    matched = set().union(*(product.matched for product in products))
    for product in products:
        for number, clause in enumerate(product.clauses):
            if id(clause) not in matched:
                raise SweepConfigError(
                    f"{product.where_clauses}[{number}]: {shown(_clause_json(clause))} matches no "
                    f"trial{_unknown_in(clause, products)}; leave it out, or say `exclude: []` if "
                    "it comes from another file"
                )


def _unknown_in(clause: Clause, products: Iterable[Product]) -> str:
    """The first name of a clause that nothing in the sweep has, and the nearest that it has."""
    rows = [row for product in products for row in product.rows]
    keys = {key for row in rows for key in known_keys(row.spec, row.domain)}
    for what, names, known in (
        ("planner", clause.planner, {name for row in rows for name in row.spec.names}),
        ("domain", clause.domain, {row.domain_name for row in rows}),
        ("task", clause.task, {task for row in rows for task in row.tasks}),
        ("setting", [key.removeprefix(FOREIGN) for key in clause.settings], keys),
    ):
        for name in names:
            if name not in known:
                return f": unknown {what} {shown(name)}; {remedy(name, known)}"
    return ""


def _has(values: Sequence[object], value: object) -> bool:
    """Whether a clause's values of one key, none of them being any, match this one."""
    return not values or value in values


def _covers(clause: Clause, settings: Mapping[str, Json], spec: PlannerSpec) -> bool:
    """Whether there is one of the clause's values for each setting of the clause."""
    for key, values in clause.settings.items():
        name = proper_key(key, spec)
        if name not in settings:
            return False
        here = settings[name]
        if not any(value == here and kind_of(value) == kind_of(here) for value in values):
            return False
    return True


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
