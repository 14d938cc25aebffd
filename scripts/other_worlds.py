"""Opens every world of a source, tests the contract of domains in it, and lets `uct` play in it.

    python scripts/other_worlds.py gymnasium openspiel > docs/results/exports/worlds.csv
    python scripts/results_pages.py

Each world has a process of its own and a limit of time, as some end the process that opens them.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import time
import warnings
from dataclasses import astuple, dataclass, fields
from random import Random
from typing import TYPE_CHECKING, Any

from llm_planning.domain import Domain, DomainError
from llm_planning.domain_calls import is_won, settled
from llm_planning.environments.bridges import bridge
from llm_planning.experiments.export import csv_line
from llm_planning.running import prepare

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

WALK = 10
"""Random actions by which the contract is tested."""

MOVES, SIMULATIONS, DEPTH = 10, 20, 20
"""What `uct` plays."""

LIMIT = 60.0
"""Seconds that a world may take."""

PLAYED, NO_DOMAIN, NO_SEARCH = "played", "no domain", "not searched"


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a world.

    Attributes:
        world: source and id.
        found: `played`, `no domain`, `not searched`, or the name of an error.
        why: one line; empty if it was played.
    """

    world: str
    found: str
    why: str = ""


async def check_contract(world: Domain[Any, Any]) -> None:
    """Equal seeds give equal walks, and a held state goes on as it did, whatever came between.

    Raises:
        AssertionError: the world breaks the contract.
    """
    first, second = [await _walk(world) for _ in range(2)]
    assert first, "no action is possible at the start"
    assert first == second, "equal seeds gave different walks"
    for state, action, step, described in reversed(first):
        again = await settled(world.step(state, action, Random(repr(state))))
        assert again == step, "a held state went on in another way"
        assert await settled(world.describe(state)) == described, "a held state reads otherwise"


async def _walk(world: Domain[Any, Any]) -> list[tuple[Any, Any, Any, str]]:
    draws, steps = Random(0), []
    state = await settled(world.start(1))
    for _ in range(WALK):
        described = await settled(world.describe(state))
        actions = await settled(world.actions(state))
        assert len(set(actions)) == len(actions), "two actions are called alike"
        if not actions:
            break
        action = draws.choice(actions)
        step = await settled(world.step(state, action, Random(repr(state))))
        steps.append((state, action, step, described))
        state = step.state
        if step.done:
            assert not await settled(world.actions(state)), "actions after the end"
            await is_won(world, state, done=True)
            break
    return steps


async def play(name: str) -> Tried:
    """Opens a world with full sight, tests its contract and plays in it."""
    domain = bridge(name)
    settings = {"sight": "full"}
    try:
        world: Any = domain.open(domain.tasks[0], domain.settings.read(settings))
    except DomainError as error:
        return Tried(name, NO_DOMAIN, str(error))
    if world.no_search:
        return Tried(name, NO_SEARCH, world.no_search)
    try:
        await check_contract(world)
    except AssertionError as error:
        return Tried(name, "contract", str(error))
    chosen = {**settings, "moves": MOVES, "simulations": SIMULATIONS, "depth": DEPTH}
    prepared = prepare("uct", domain=domain, settings=chosen)
    from llm_planning.roles import Engines
    from llm_serving.scripted import ScriptedEngine

    await prepared.run(Engines(ScriptedEngine({})), 1)
    return Tried(name, PLAYED)


def _in_a_process(name: str, results: SimpleQueue[Tried]) -> None:
    warnings.simplefilter("ignore")
    try:
        results.put(asyncio.run(play(name)))
    except Exception as error:
        results.put(Tried(name, type(error).__name__, str(error).partition("\n")[0][:200]))


def tried(name: str, *, limit: float = LIMIT) -> Tried:
    """Plays in a process of its own."""
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    process = context.Process(target=_in_a_process, args=(name, results))
    process.start()
    begun = time.monotonic()
    while process.is_alive() and results.empty() and time.monotonic() - begun < limit:
        time.sleep(0.01)
    found = results.get() if not results.empty() else None
    process.kill()
    process.join()
    if found is not None:
        return found
    if time.monotonic() - begun >= limit:
        return Tried(name, "too slow", f"over {limit:g} s")
    return Tried(name, "crash", f"ended its process ({process.exitcode})")


def main() -> None:
    """Tries the worlds that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sources", nargs="+", help="such as gymnasium, or gymnasium:Taxi-v4")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for a world")
    arguments = parser.parse_args()
    sys.stdout.write(csv_line(field.name for field in fields(Tried)))
    for source in arguments.sources:
        prefix = source.partition(":")[0]
        for task in bridge(source).tasks:
            row = astuple(tried(f"{prefix}:{task}", limit=arguments.limit))
            sys.stdout.write(csv_line(row))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
