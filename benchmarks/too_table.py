"""A small table of Tree of Options: all of its calls in flight together, and one call at a time.

Three tasks, one run each of ToO, its ablations and ToT-MCTS (k=2, d=6, iter=3), with the bundled
model. All trials run at once on one engine, then one after the other with one call in flight, which
is how a client of a service would ask. The caches are empty before each arm. In float32 batches tip
no tie, so both arms must ask the same questions and plan the same.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_engine import engine, forget
from harness import AnswersDifferError, Finding, parser, report

from llm_planning.environments.minecraft.domain import Minecraft
from llm_planning.registry import find_planner
from llm_planning.roles import Engines
from llm_planning.specs import Problem
from llm_serving.engine import MeteredEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_serving.request import Completion, Request
    from llm_serving.vllm_engine import VllmEngine

TASKS = ("obtain-leather", "cook-meat", "craft-a-compass")
PLANNERS = ("too", "too-no-wm", "too-no-fc", "tot-mcts")
SETTINGS = {"k": 2, "d": 6, "iter": 3, "return": "mean", "first_play": "reward"}


class OneCall(MeteredEngine):
    """An engine with one call in flight."""

    def __init__(self, opened: VllmEngine) -> None:
        super().__init__(opened)
        self._turn = asyncio.Lock()

    async def generate(self, request: Request) -> Completion:
        """Writes one answer when it is its turn."""
        async with self._turn:
            return await super().generate(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to fill the table.

    Attributes:
        seconds: that it took.
        calls: of the model.
        plans: of each trial.
    """

    seconds: float
    calls: int
    plans: Sequence[tuple[str, ...]]


async def plan(meter: MeteredEngine, planner: str, task: str) -> tuple[str, ...]:
    """One trial."""
    spec = find_planner(planner)
    outcome = await spec.run(
        Problem(domain="minecraft", task=task, world=Minecraft(task=task)),
        engines=Engines(meter),
        settings=spec.settings.read(SETTINGS),
        seed=0,
    )
    return outcome.plan


async def together(
    meter: MeteredEngine, trials: Sequence[tuple[str, str]]
) -> list[tuple[str, ...]]:
    """All trials at once."""
    return list(await asyncio.gather(*(plan(meter, *trial) for trial in trials)))


async def alone(meter: MeteredEngine, trials: Sequence[tuple[str, str]]) -> list[tuple[str, ...]]:
    """One trial after the other."""
    return [await plan(meter, *trial) for trial in trials]


def main() -> None:
    """Measures and reports."""
    options = parser(__doc__)
    options.add_argument("--planners", nargs="+", default=PLANNERS, help="rows of the table")
    arguments = options.parse_args()
    trials = [(planner, task) for planner in arguments.planners for task in TASKS]
    arms = {}
    with engine() as opened:
        asyncio.run(together(MeteredEngine(opened), trials[:1]))  # compiles every grammar
        for name, fill, kind in (
            ("all at once", together, MeteredEngine),
            ("one call at a time", alone, OneCall),
        ):
            forget(opened)
            meter = kind(opened)
            begun = time.perf_counter()
            plans = asyncio.run(fill(meter, trials))
            arms[name] = Arm(
                seconds=time.perf_counter() - begun,
                calls=sum(one.calls for one in meter.counters.roles.values()),
                plans=plans,
            )
    fast, slow = arms.values()
    if (fast.calls, fast.plans) != (slow.calls, slow.plans):
        raise AnswersDifferError("the two arms do not plan the same")
    findings = [
        Finding(
            label="one call at a time over all at once",
            measured=slow.seconds / fast.seconds,
            unit="x",
            bound="at least",
            target=5,
            details={
                "trials": len(trials),
                "calls": fast.calls,
                "seconds_all_at_once": fast.seconds,
                "seconds_one_call_at_a_time": slow.seconds,
            },
        )
    ]
    report("too_table", findings, as_json=arguments.json)


if __name__ == "__main__":
    main()
