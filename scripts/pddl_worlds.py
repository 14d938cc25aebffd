"""Plans in every PDDL problem of a folder, and asks a validator of others about each plan.

    python scripts/pddl_worlds.py FOLDER docs/results/exports/pddl.csv
    python scripts/results_pages.py

The folder is laid out as in pddlgym: the domain `X.pddl` has its problems in `X` and `X_test`. Each
problem has a process of its own and a limit of time. Rows that the file has already are kept, so a
run that was ended goes on. First comes one problem of each domain, then another one.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import multiprocessing
import os
import resource
import signal
import time
import warnings
from dataclasses import astuple, dataclass, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from other_worlds import MOVES, check_contract

from llm_base.quoting import printable
from llm_planning.domain import DomainError
from llm_planning.environments.bridges.pddl import PddlWorld
from llm_planning.environments.bridges.pddl_plans import NoPlanError, plan_of
from llm_planning.environments.bridges.pddl_problem import PddlProblem
from llm_planning.experiments.export import csv_line
from llm_planning.roles import Engines
from llm_planning.running import prepare_with
from llm_serving.scripted import ScriptedEngine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.queues import SimpleQueue

LIMIT = 8
"""Seconds of computing time for all but plans of Fast Downward, which has a limit of its own."""

SHORTEST = 2
"""Seconds of computing time for a shortest plan."""

WAIT = 90
"""Seconds after which a process is ended, whatever it does."""

OPENED, NO_DOMAIN, TOO_SLOW = "opened", "no domain", "too slow"

RULES = {"roles": "rules", "budget": 1000, "moves": 1000}
"""`drip-react` with the answers of rules: it goes the way that LAMA advises."""

SEARCH = {"moves": MOVES, "simulations": 20, "depth": 10}
"""What `uct` plays."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a problem. What was not found out in time is empty.

    Attributes:
        problem: its folder and name.
        found: `opened`, `no domain`, `too slow` to open, `contract`, or the name of an error.
        why: one line; of an opened problem, why there is no plan.
        planned: whether `drip-react` by rules says that it reached the goal.
        valid: whether the validator of unified-planning agrees with the plan of `drip-react`.
        length: the actions of that plan.
        searched: whether `uct` says that it reached the goal.
        search_valid: whether the validator agrees with the plan of `uct`.
        search_length: the actions of that plan.
        shortest: the fewest actions, by LM-cut.
    """

    problem: str
    found: str
    why: str = ""
    planned: bool | None = None
    valid: bool | None = None
    length: int | None = None
    searched: bool | None = None
    search_valid: bool | None = None
    search_length: int | None = None
    shortest: int | None = None


class Unmeasured(PddlWorld):
    """A problem whose shortest plan is no part of every run."""

    def traits(self) -> dict[str, Any]:
        """Nothing."""
        return {}


async def played(world: PddlWorld, planner: str, settings: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Whether a planner reached the goal, whether its plan is valid, and the plan's length."""
    outcome = await prepare_with(planner, world, settings=settings).run(
        Engines(ScriptedEngine({})), 1
    )
    return outcome.success, outcome.metrics["validated"], len(outcome.plan)


def tries(name: str, domain: Path, problem: Path) -> Iterator[Tried]:
    """Opens a problem, tests its contract and plans; yields what is known so far.

    Raises:
        Exception: an error of the bridge.
    """
    try:
        read = PddlProblem(domain, problem)
        world = Unmeasured(read)
    except DomainError as error:
        for path in (domain, problem):
            error = DomainError(str(error).replace(str(path), path.name))
        yield Tried(name, NO_DOMAIN, str(error))
        return
    found = Tried(name, OPENED)
    yield found
    try:
        if world.actions(world.start(1)):
            asyncio.run(check_contract(world))
    except AssertionError as error:
        yield replace(found, found="contract", why=str(error))
        return
    try:
        planned, valid, length = asyncio.run(played(world, "drip-react", RULES))
        found = replace(found, planned=planned, valid=valid, length=length)
    except NoPlanError as error:
        found = replace(found, why=str(error))
    yield found
    searched, valid, length = asyncio.run(played(world, "uct", SEARCH))
    found = replace(found, searched=searched, search_valid=valid, search_length=length)
    yield found
    if found.planned:
        try:
            yield replace(found, shortest=len(plan_of(read.model, "shortest", seconds=SHORTEST)))
        except NoPlanError as error:
            yield replace(found, why=str(error))


def _in_a_process(
    name: str, domain: Path, problem: Path, results: SimpleQueue[Tried | None]
) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, resource.RLIM_INFINITY))
    warnings.simplefilter("ignore")
    try:
        for found in tries(name, domain, problem):
            results.put(found)
    except Exception as error:
        why = printable(str(error).partition("\n")[0][:200])
        results.put(Tried(name, type(error).__name__, why))
    results.put(None)


def tried(name: str, domain: Path, problem: Path) -> Tried:
    """Plans in a process of its own, which ends with the planners that it started."""
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    process = context.Process(target=_in_a_process, args=(name, domain, problem, results))
    process.start()
    end = time.monotonic() + WAIT
    found = Tried(name, TOO_SLOW, f"not read in {LIMIT} s")
    while time.monotonic() < end:
        has_ended = not process.is_alive()
        if not results.empty():
            more = results.get()
            if more is None:
                break
            found = more
        elif has_ended:
            break
        else:
            time.sleep(0.01)
    if process.pid is not None and process.is_alive():
        os.killpg(process.pid, signal.SIGKILL)
    process.join()
    return found


def problems(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Name -> the files of its domain and of the problem, one of each domain after another."""
    found = []
    for domain in sorted(folder.glob("*.pddl")):
        places = [folder / domain.stem, folder / f"{domain.stem}_test"]
        found.append([(domain, file) for place in places for file in sorted(place.glob("*.pddl"))])
    return {
        f"{file.parent.name}/{file.stem}": (domain, file)
        for pairs in zip_longest(*found)
        for domain, file in filter(None, pairs)
    }


def main() -> None:
    """Plans in the problems of a folder until they or the time end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="domains, with their problems beside them")
    parser.add_argument("table", type=Path, help="file of CSV, which rows are added to")
    parser.add_argument("--minutes", type=float, default=45, help="for all problems together")
    arguments = parser.parse_args()
    names = [field.name for field in fields(Tried)]
    done = set()
    if arguments.table.exists():
        with arguments.table.open(encoding="utf-8", newline="") as file:
            done = {row["problem"] for row in csv.DictReader(file)}
    end = time.monotonic() + arguments.minutes * 60
    with arguments.table.open("a", encoding="utf-8", newline="") as file:
        if not done:
            file.write(csv_line(names))
        for name, files in problems(arguments.folder).items():
            if time.monotonic() > end:
                break
            if name not in done:
                values = astuple(tried(name, *files))
                file.write(csv_line("" if value is None else str(value) for value in values))
                file.flush()


if __name__ == "__main__":
    main()
