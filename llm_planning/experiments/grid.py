"""From a YAML file to the trials of a sweep.

A sweep is a product: models x planners x domains x settings x tasks x seeds. The whole language:

    name: too-scaling              # the sweep's folder; without it, the file's own name
    extends: base.yaml             # a file beside it or a packaged sweep, which has missing keys
    model: smollm2-135m-instruct   # one or a list, named as after `--model`
    role_models: {}                # role -> another model, such as {dynamics: NAME}; one or a list
    planners:                      # a name, a list, or name -> settings of this planner alone
      too: {infeasible: [repair, drop]}
      tot-mcts: {}
    domain: minecraft              # one or a list; without it, the domain that has the tasks
    tasks: [cook-meat, milk-a-cow] # a name, a list, or `all`: every task of each domain
    seeds: 3                       # how many, from 0 on; or a list; or {from: 5, to: 9}
    settings:                      # of every planner; these are inherited one by one
      k: [1, 3]                    # a list is swept
      d: {from: 8, to: 16, step: 4}  # so is a range; `to` belongs to it
      return: mean                 # anything else is one value; [[1, 2]] is one that is a list
    exclude:                       # a trial that has a value of each key of a clause is left out
      - {planner: tot-mcts, settings: {k: 1, d: [12, 16]}}
      - {task: milk-a-cow, seed: 2}
    retries: 2                     # more attempts for a trial that fails

Blocks join grids that are not one product, such as those of planners that do not share a setting. A
block takes missing keys from the top of the file, and missing `settings` one by one:

    settings: {d: [8, 12]}
    grids:
      - {planners: [too, tot-mcts], settings: {k: [1, 3]}}
      - {planners: cot, seeds: 1}

`planners` and `tasks` are needed. Without `model` there is the bundled one, without `seeds` the
seed 0, without `retries` two. A planner or a domain may be FILE.py:NAME, a file of the user's that
is found from the working directory and is run if the user vouches for it. Settings are the
planner's and its domain's; `domain.KEY` is the domain's where both have the key. A planner's own
settings take the place of those of every planner; a setting that neither planner nor domain has is
an error. A trial that several blocks or values give is run once: a role's model says nothing of a
planner that does not ask the role, or has it answered by rules. Trials stand in the order of the
blocks and, in each, of models, planners, domains, settings, tasks and seeds, the seeds changing
fastest. Whatever is unknown, empty, without effect or larger than a million trials is refused with
one `SweepConfigError`, and nothing is written.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_base.quoting import quote
from llm_planning.experiments.grid_file import (
    MOST_TRIALS,
    Entry,
    resolve_file,
)
from llm_planning.experiments.grid_rows import (
    Combination,
    kind_of,
    placed,
    proper_key,
    refuse_strange_roles,
    settings_by_planner,
)
from llm_planning.experiments.instead import Instead, Replacing
from llm_planning.experiments.sweep_files import SweepConfigError, Trust
from llm_planning.experiments.trial import Trial
from llm_planning.model_configs import configuration
from llm_planning.names import remedy
from llm_planning.running import source_of
from llm_planning.specs import FOREIGN, choose, known_keys

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from llm_base.yaml_file import Json
    from llm_planning.experiments.grid_file import Clause
    from llm_planning.experiments.grid_rows import Row
    from llm_planning.experiments.instead import Change
    from llm_planning.specs import PlannerSpec


_EXCLUDED = Combination(settings={}, models={}, asked=frozenset(), unanswered=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The sweep that a file describes.

    Attributes:
        name: safe as a folder's name.
        trials: distinct, in the order in which the file gives them.
        retries: more attempts for a trial that fails.
        source: the configuration as JSON with inheritance and defaults resolved, which is itself a
            sweep file with the same trials.
        changes: what models and settings of the command line have replaced.
        unasked: the planners that such a model does not answer, as they ask nobody or rules.
    """

    name: str
    trials: tuple[Trial, ...]
    retries: int
    source: str
    changes: tuple[Change, ...] = ()
    unasked: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The resolved configuration with its list of trials."""
        return {**json.loads(self.source), "trials": [trial.to_json() for trial in self.trials]}


def load_sweep(
    path: str | os.PathLike[str], *, trust: Trust | None = None, instead: Instead | None = None
) -> Sweep:
    """Reads a sweep file and what it extends, and runs the user's own code that it names.

    Args:
        path: the YAML file; a model's YAML file and a user's own code in it are found from the
            working directory, a file that it extends from its own folder.
        trust: the code and models that the file may open; by default no code and no folders.
        instead: models and settings that take the place of the file's, and are part of the name.

    Raises:
        SweepConfigError: names the first error by file, key path and value, and what to write
            instead.
    """
    resolved = resolve_file(Path(path))
    instead = instead or Instead()
    with placed(str(path)):
        trust = instead.trusted(trust or Trust())
    for _, entries in resolved.blocks:
        _check_names(entries, trust)
    replacing = Replacing(instead)
    products = [
        product
        for where, entries in resolved.blocks
        for product in _Product.all_of(where, entries, replacing)
    ]
    replacing.check(Path(path))
    size = sum(product.size for product in products)
    if size > MOST_TRIALS:
        raise SweepConfigError(
            f"{path}: {size} trials, before exclusions; a sweep has at most {MOST_TRIALS}"
        )
    # Distinct trials in their first order, found without hashing each trial's whole JSON.
    distinct: dict[tuple[object, ...], Trial] = {}
    for identity, trial in itertools.chain.from_iterable(map(_Product.trials, products)):
        distinct.setdefault(identity, trial)
    trials = tuple(distinct.values())
    _refuse_idle_clauses(products)
    if not trials:
        raise SweepConfigError(f"{path}: exclude: leaves no trial; exclude less")
    with placed(str(path)):
        trust.check_trials(trials)
    name = instead.name(resolved.name)
    source = {
        "name": name,
        "retries": resolved.retries,
        "grids": [product.to_json() for product in products],
    }
    return Sweep(
        name=name,
        trials=trials,
        retries=resolved.retries,
        source=json.dumps(source, ensure_ascii=False, separators=(",", ":")),
        changes=replacing.changes,
        unasked=replacing.unasked,
    )


def _check_names(entries: Mapping[str, Entry], trust: Trust) -> None:
    """Refuses code that the user does not trust, before looking up a name runs it."""
    for key in {"planners", "domain"} & entries.keys():
        for name in entries[key].value:
            with placed(entries[key].where):
                trust.check_name(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """A block in which every name is known."""

    models: Sequence[str]
    role_models: Sequence[Mapping[str, str]]
    planners: Mapping[str, Mapping[str, Entry]]
    domains: Sequence[str] | None
    rows: Sequence[Row]
    tasks: Sequence[str]
    seeds: Sequence[int]
    clauses: Sequence[Clause]
    where_clauses: str
    matched: set[int] = field(default_factory=set)
    configurations: dict[str, Json] = field(default_factory=dict)

    @classmethod
    def all_of(
        cls, where: str, entries: Mapping[str, Entry], replacing: Replacing
    ) -> Iterator[_Product]:
        """Looks up the names in a block and checks them against one another.

        Args:
            where: the block's place in the file.
            entries: key -> its entry in the block; a setting's key is `settings.NAME`.
            replacing: puts models and settings in the place of the block's.

        Yields:
            The block; or its parts, if some of it asks other models now.

        Raises:
            SweepConfigError: planners or tasks are missing; something has no such name; or a
                planner lacks a task or a setting, or a domain what the planner needs.
        """
        for key in ("planners", "tasks"):
            if key not in entries:
                raise SweepConfigError(
                    f"{where}: `{key}` is missing, here and in the files that it extends"
                )
        exclude = entries.get("exclude", Entry([], where, 0))
        planners: dict[str, Mapping[str, Entry]] = {}
        rows: dict[str, list[Row]] = {}
        for name, own in settings_by_planner(entries).items():
            planners[name], rows[name] = replacing.rows_of(name, own, entries)
        if "role_models" in entries:
            refuse_strange_roles(entries["role_models"], itertools.chain(*rows.values()))
        for part in replacing.parts(entries, rows, exclude.value):
            yield cls(
                models=part.models,
                role_models=part.role_models,
                planners={name: planners[name] for name in part.planners},
                domains=entries["domain"].value if "domain" in entries else None,
                rows=[row for name in part.planners for row in rows[name]],
                tasks=entries["tasks"].value,
                seeds=entries["seeds"].value if "seeds" in entries else range(1),
                clauses=part.clauses,
                where_clauses=exclude.where,
            )

    @property
    def size(self) -> int:
        """Number of trials before exclusions, with repetitions."""
        rows = sum(row.size for row in self.rows)
        return len(self.models) * len(self.role_models) * rows * len(self.seeds)

    def trials(self) -> Iterator[tuple[tuple[object, ...], Trial]]:
        """The trials that no clause excludes, each after a key that differs between trials.

        Clauses that exclude a trial are added to `matched`.

        Raises:
            SweepConfigError: a setting has an impossible value, or a model must answer and none is
                named.
        """
        cells = [(row, *cell) for row in self.rows for cell in self._settings(row)]
        for model, others in itertools.product(self.models, self.role_models):
            for row, read, text, covering in cells:
                # A role that has a model of its own by a file is asked by its own name.
                roles = {
                    role: name
                    for role, name in sorted({**read.models, **others}.items())
                    if role in read.asked and (name != model or role in read.models)
                }
                engines = self._engines(row, (model, *roles.values()))
                here = [clause for clause in covering if _has(clause.model, model)]
                here = [clause for clause in here if _has(clause.role_models, roles)]
                for task in row.tasks:
                    excluding = [clause for clause in here if _has(clause.task, task)]
                    for seed in self._seeds(excluding):
                        if read.unanswered and not engines:
                            raise SweepConfigError(f"{row.where}: {read.unanswered}")
                        trial = Trial(
                            planner=row.spec.name,
                            domain=row.domain.name,
                            task=task,
                            model=model,
                            role_models=roles,
                            seed=seed,
                            settings=read.settings,
                            engines=engines,
                            source=source_of(row.spec, row.domain),
                        )
                        place = (trial.planner, trial.domain, task)
                        yield (*place, model, tuple(roles.items()), seed, text), trial

    def to_json(self) -> dict[str, Json]:
        """The block as it could stand in a file, without clauses that exclude nothing."""
        clauses = [clause for clause in self.clauses if id(clause) in self.matched]
        return {
            "model": list(self.models),
            "role_models": [dict(models) for models in self.role_models],
            "planners": {
                name: {key: _plain(entry.value) for key, entry in settings.items()}
                for name, settings in self.planners.items()
            },
            **({} if self.domains is None else {"domain": list(self.domains)}),
            "tasks": list(self.tasks),
            "seeds": _plain(self.seeds),
            "exclude": [_clause_json(clause) for clause in clauses],
        }

    def _engines(self, row: Row, names: Iterable[str]) -> dict[str, Json]:
        """The current configurations of models; "none" has none."""
        for name in names:
            if name not in self.configurations:
                with placed(row.where):
                    config = configuration(name)
                content = None if config is None else config.model_dump(mode="json")
                self.configurations[name] = content
        return {
            name: self.configurations[name]
            for name in names
            if self.configurations[name] is not None
        }

    def _settings(self, row: Row) -> Iterator[tuple[Combination, str, list[Clause]]]:
        """A planner's combinations, each with its settings as text and what may exclude it.

        A combination that is excluded for every task, model and seed need not be possible.
        """
        clauses = [clause for clause in self.clauses if _has(clause.planner, row.spec.name)]
        clauses = [clause for clause in clauses if _has(clause.domain, row.domain.name)]
        defaults = choose(row.spec, row.domain, {}).to_json() if clauses else {}
        for given in row.combinations():
            covering = [
                clause for clause in clauses if _covers(clause, {**defaults, **given}, row.spec)
            ]
            whole = any(
                not (clause.model or clause.role_models or clause.task or clause.seed)
                for clause in covering
            )
            read = _EXCLUDED if whole else row.read(given)
            yield read, json.dumps(read.settings, sort_keys=True), covering

    def _seeds(self, excluding: Sequence[Clause]) -> Iterable[int]:
        if not excluding:
            return self.seeds
        left = []
        for seed in self.seeds:
            matching = [id(clause) for clause in excluding if _has(clause.seed, seed)]
            self.matched.update(matching)
            if not matching:
                left.append(seed)
        return left


def _refuse_idle_clauses(products: Sequence[_Product]) -> None:
    """Makes sure that every clause excludes a trial in one of its blocks.

    Raises:
        SweepConfigError: a clause excludes nothing.
    """
    matched = set().union(*(product.matched for product in products))
    for product in products:
        for number, clause in enumerate(product.clauses):
            if id(clause) not in matched:
                raise SweepConfigError(
                    f"{product.where_clauses}[{number}]: {quote(_clause_json(clause))} matches no "
                    f"trial{_unknown_in(clause, products)}; leave it out, or say `exclude: []` if "
                    "it comes from another file"
                )


def _unknown_in(clause: Clause, products: Iterable[_Product]) -> str:
    """The first name in a clause that the sweep does not have, with the nearest names."""
    rows = [row for product in products for row in product.rows]
    keys = {key for row in rows for key in known_keys(row.spec, row.domain)}
    for kind, names, known in (
        ("planner", clause.planner, {row.spec.name for row in rows}),
        ("domain", clause.domain, {row.domain.name for row in rows}),
        ("task", clause.task, {task for row in rows for task in row.tasks}),
        ("setting", [key.removeprefix(FOREIGN) for key in clause.settings], keys),
    ):
        for name in names:
            if name not in known:
                return f": unknown {kind} {quote(name)}; {remedy(name, known)}"
    return ""


def _has(values: Sequence[object], value: object) -> bool:
    """Whether one of a clause's values of a key is this one; no values match every value."""
    return not values or value in values


def _covers(clause: Clause, settings: Mapping[str, Json], spec: PlannerSpec) -> bool:
    """Whether each setting of a clause has one of the clause's values."""
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
    written = clause.model_dump(exclude_unset=True, exclude={"seed", "settings"})
    if clause.seed:
        written["seed"] = _plain(clause.seed)
    if clause.settings:
        written["settings"] = {key: _plain(values) for key, values in clause.settings.items()}
    return written
