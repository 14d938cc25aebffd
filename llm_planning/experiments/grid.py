"""From a YAML file to the trials of a sweep.

A sweep is a product: models x planners x domains x settings x tasks x seeds. This file says all
there is to the language:

    name: too-scaling              # the sweep's folder; without it, the file's own name
    extends: base.yaml             # keys other than `name` that are missing come from there
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

Blocks join grids that are no product, such as those of planners that do not share a setting. What a
block does not say it takes from the top of the file, `settings` again one by one:

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
planner that does not ask the role. Trials stand in the order of the blocks and, in each, of
models, planners, domains, settings, tasks and seeds, the seeds changing fastest. Whatever is
unknown, empty, without effect or larger than a million trials is refused with one
`SweepConfigError`, and nothing is written.
"""

from __future__ import annotations

import itertools
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from llm_planning.experiments.grid_file import (
    MOST_TRIALS,
    Block,
    SweepConfigError,
    SweepFile,
    read_file,
)
from llm_planning.experiments.grid_product import Product, different, refuse_idle_clauses
from llm_planning.experiments.grid_rows import Said
from llm_planning.experiments.trust import Trust, UntrustedError
from llm_serving.errors import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from llm_planning.experiments.trial import Trial

__all__ = ["Sweep", "SweepConfigError", "load_sweep", "sweep_name"]

_DEFAULT_RETRIES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What one file describes.

    Attributes:
        name: safe as a folder's name.
        trials: all different, in the order in which the file gives them.
        retries: more attempts for a trial that fails.
        source: the configuration as JSON, inheritance and defaults resolved; itself a sweep file
            that gives the same trials.
    """

    name: str
    trials: tuple[Trial, ...]
    retries: int
    source: str

    def to_json(self) -> dict[str, Any]:
        """The resolved configuration with its list of trials."""
        return {**json.loads(self.source), "trials": [trial.to_json() for trial in self.trials]}


def load_sweep(path: str | os.PathLike[str], *, trust: Trust | None = None) -> Sweep:
    """Reads a sweep file and what it extends, and runs the user's own code that it names.

    Args:
        path: the YAML file; a model's YAML file and a user's own code in it are found from the
            working directory, a file that it extends from its own folder.
        trust: what the file may make us open; by default no code and no folders.

    Raises:
        SweepConfigError: the first thing that is wrong: its file, key path and value, and what to
            write instead.
    """
    files = _read_chain(Path(path))
    name = _name_of(files[0])
    retries = next(
        (one.content.retries for one in files if "retries" in one.content.model_fields_set),
        _DEFAULT_RETRIES,
    )
    trust = trust or Trust()
    blocks = _blocks(files)
    for _, said in blocks:
        _check_names(said, trust)
    products = [Product.of(where, said) for where, said in blocks]
    size = sum(product.size for product in products)
    if size > MOST_TRIALS:
        raise SweepConfigError(
            f"{path}: {size} trials, before exclusions; a sweep has at most {MOST_TRIALS}"
        )
    trials = tuple(
        different(itertools.chain.from_iterable(product.trials() for product in products))
    )
    refuse_idle_clauses(products)
    if not trials:
        raise SweepConfigError(f"{path}: exclude: leaves no trial; exclude less")
    with _vouched(path):
        trust.check_trials(trials)
    source = {
        "name": name,
        "retries": retries,
        "grids": [product.to_json() for product in products],
    }
    return Sweep(
        name=name,
        trials=trials,
        retries=retries,
        source=json.dumps(source, ensure_ascii=False, separators=(",", ":")),
    )


def _check_names(said: Mapping[str, Said], trust: Trust) -> None:
    """Refuses code that the user does not vouch for, before looking up a name runs it."""
    for key in {"planners", "domain"} & said.keys():
        for name in said[key].value:
            with _vouched(said[key].where):
                trust.check_name(name)


@contextmanager
def _vouched(where: object) -> Iterator[None]:
    """Says where in a file something stands that the user does not vouch for."""
    try:
        yield
    except UntrustedError as error:
        raise SweepConfigError(f"{where}: {error}") from error


def sweep_name(path: Path) -> str:
    """The name of the sweep in a file, of which nothing else is looked at.

    Raises:
        SweepConfigError: the file is no sweep's.
    """
    return _name_of(_File(path, read_file(path)))


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    content: SweepFile


def _read_chain(path: Path) -> list[_File]:
    """The file and its ancestors, nearest first."""
    files: list[_File] = []
    seen: list[str] = []
    while True:
        try:
            content = read_file(path)
        except SweepConfigError as error:
            if not files:
                raise
            raise SweepConfigError(f"{files[-1].path}: extends: {error}") from error
        real = os.path.realpath(path)
        if real in seen:
            circle = " -> ".join(str(one) for one in [*(file.path for file in files), path])
            raise SweepConfigError(f"{files[-1].path}: extends: goes in a circle: {circle}")
        files.append(_File(path, content))
        seen.append(real)
        if not content.extends:
            return files
        path = path.parent / content.extends


def _name_of(file: _File) -> str:
    stem = file.path.stem
    try:
        return file.content.name or SweepFile(name=stem).name
    except ValidationError:
        raise SweepConfigError(
            f"{file.path}: name: the file's own name, {shown(stem)}, names no folder; give another"
        ) from None


def _blocks(files: list[_File]) -> list[tuple[str, dict[str, Said]]]:
    """What holds in each block, with the place where the block stands."""
    top: dict[str, Said] = {}
    for generation, file in reversed(list(enumerate(files))):
        top |= _said(file.content, f"{file.path}: ", generation)
    origin = next((number for number, one in enumerate(files) if one.content.grids), None)
    if origin is None:
        return [(str(files[0].path), top)]
    file = files[origin]
    places = [f"{file.path}: grids[{number}]" for number in range(len(file.content.grids))]
    blocks = [
        (place, top | _said(block, f"{place}.", origin))
        for place, block in zip(places, file.content.grids, strict=True)
    ]
    for key, said in top.items():
        if said.generation <= origin and all(block[key] is not said for _, block in blocks):
            raise SweepConfigError(
                f"{said.where}: has no effect: every block of `grids` says its own; leave it out"
            )
    return blocks


def _said(block: Block, where: str, generation: int) -> dict[str, Said]:
    """What a block says itself, each setting apart, so that a union of two is an inheritance."""
    said: dict[str, Said] = {}
    for key in Block.model_fields:
        if key == "settings":
            for setting, values in block.settings.items():
                path = f"settings.{setting}"
                said[path] = Said(values, f"{where}{path}", generation)
        elif key in block.model_fields_set:
            said[key] = Said(getattr(block, key), f"{where}{key}", generation)
    return said
