"""What a search pays for looking at the steps of somebody's world.

    python benchmarks/watching.py [--json]

UCT walks through a corridor with states of several kinds, each in two classes that do the same. One
is somebody's, so its steps are looked at: whether a state stays as it is, and whether the global
generators of `random` and NumPy move. The other counts as this project's own, and is not. Both
arms find the same plan.

The last figure is the look at the generators alone, beside a simulation and beside the plain way,
which asks each generator for its state.
"""

from __future__ import annotations

import asyncio
import random
import timeit
from dataclasses import dataclass
from time import thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
from harness import AnswersDifferError, Finding, medians, parser, report

from llm_planning import Domain, Step, open_engine, plan
from llm_planning.repeatable import elsewhere, is_watched

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS = 15
SIMULATIONS, MOVES, PLACES = 300, 10, 12


class Corridor(Domain[Any, str]):
    """The prize is in the last place; a state is its number."""

    goal = "Reach the last place."

    @staticmethod
    def made(place: int) -> Any:  # noqa: ANN401, D102
        return place

    @staticmethod
    def place(state: Any) -> int:  # noqa: ANN401, D102
        return int(state)

    def start(self, seed: int) -> Any:  # noqa: ANN401, ARG002, D102
        return self.made(0)

    def describe(self, state: Any) -> str:  # noqa: ANN401, D102
        return f"place {self.place(state)}"

    def actions(self, state: Any) -> list[str]:  # noqa: ANN401, ARG002, D102
        return ["on", "back", "wait"]

    def step(self, state: Any, action: str, rng: random.Random) -> Step[Any]:  # noqa: ANN401, ARG002, D102
        moved = self.place(state) + {"on": 1, "back": -1, "wait": 0}[action]
        there = min(max(moved, 0), PLACES)
        return Step(self.made(there), float(there == PLACES), there == PLACES, there)


class InDict(Corridor):
    """A state is a dict that each step makes anew."""

    made = staticmethod(lambda place: {"place": place, "key": False})
    place = staticmethod(lambda state: int(state["place"]))


@dataclass
class Spot:
    """A state of a class of one's own, compared as bytes."""

    place: int


class InObject(Corridor):
    """A state is an object that each step makes anew."""

    made = staticmethod(Spot)
    place = staticmethod(lambda state: int(state.place))


def arm(kind: type, *, ours: bool) -> tuple[tuple[str, ...], Callable[[], float]]:
    """The plan of a class of worlds, and what makes it again and returns the seconds."""
    module = "llm_planning.benchmark" if ours else "somebody"
    made = type(kind.__name__, (kind,), {"__module__": module})
    world = made()
    if is_watched(world) is ours:
        raise AnswersDifferError(f"{kind.__name__} is looked at in the wrong arm")
    settings = {"simulations": SIMULATIONS, "moves": MOVES}

    def run() -> tuple[str, ...]:
        with open_engine("none") as engine:
            return asyncio.run(plan("uct", world, engine=engine, settings=settings)).plan

    def seconds() -> float:
        begun = thread_time()
        run()
        return thread_time() - begun

    return run(), seconds


def paid(kind: type, label: str, target: float) -> Finding:
    """A search that is looked at, over one that is not."""
    (plain, unwatched), (seen, watched) = arm(kind, ours=True), arm(kind, ours=False)
    if plain != seen:
        raise AnswersDifferError(f"{label}: {seen} is not {plain}")
    times = medians({"unwatched": unwatched, "watched": watched}, repeats=REPEATS)
    each = {key: 1e6 * value / (SIMULATIONS * MOVES) for key, value in times.items()}
    return Finding(
        label=f"simulations with {label}, looked at over not",
        measured=times["watched"] / times["unwatched"],
        unit="x",
        bound="at most",
        target=target,
        details={f"{label}, {key}: µs a simulation": value for key, value in each.items()},
    )


def generators(simulation: float) -> Finding:
    """Two looks at the generators' places, which a step takes, in a simulation's time."""

    def asked() -> tuple[object, object]:
        return random.getstate(), np.random.get_state()

    ours, plain = (
        min(timeit.repeat(look, number=2000, repeat=5)) / 2000 * 2e6 for look in (elsewhere, asked)
    )
    return Finding(
        label="both looks at the global generators, of a simulation's time",
        measured=100 * ours / simulation,
        unit="%",
        bound="at most",
        target=3.0,
        details={"µs": ours, "µs by asking for the states": plain},
    )


def main() -> None:
    """Measures and prints."""
    options = parser(__doc__).parse_args()
    numbers = paid(Corridor, "numbers", 1.1)
    findings = [numbers, paid(InDict, "dicts", 1.15), paid(InObject, "objects", 1.25)]
    findings.append(generators(numbers.details["numbers, unwatched: µs a simulation"]))
    report("watching", findings, as_json=options.json)


if __name__ == "__main__":
    main()
