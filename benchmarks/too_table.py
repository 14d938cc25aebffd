"""A small table of Tree of Options: all of its calls in flight together, and one call at a time.

Three tasks, one run each of ToO, its ablations and ToT-MCTS (k=2, d=6, iter=3), with the bundled
model. All trials run at once on one engine. One call at a time, as a client of a service would ask,
takes too long to wait for: every `SAMPLED`-th of the same calls is asked alone, in order, and its
answer is compared. In float32 batches tip no tie, so the answers have to be equal. The seconds of
all calls are those of the sample, times the tokens that all calls write over those of the sample.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from bench_engine import engine, forget
from harness import AnswersDifferError, Finding, parser, report

from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.registry import find_planner
from llm_planning.roles import Engines
from llm_planning.specs import Run
from llm_serving.engine import MeteredEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_serving.request import Completion, Request
    from llm_serving.vllm_engine import VllmEngine

TASKS = ("obtain-leather", "cook-meat", "craft-a-compass")
PLANNERS = ("too", "too-no-wm", "too-no-fc", "tot-mcts")
SETTINGS = {"k": 2, "d": 6, "iter": 3, "return": "mean", "first_play": "reward"}


SAMPLED = 12
"""One in so many calls is asked alone."""


class Recording(MeteredEngine):
    """An engine that keeps what it was asked and what it answered.

    Attributes:
        asked: in the order of the answers.
    """

    def __init__(self, opened: VllmEngine) -> None:
        super().__init__(opened)
        self.asked: list[tuple[Request, Completion]] = []

    async def generate(self, request: Request) -> Completion:
        """Writes one answer and keeps it."""
        completion = await super().generate(request)
        self.asked.append((request, completion))
        return completion


async def plan(meter: MeteredEngine, planner: str, task: str) -> tuple[str, ...]:
    """One trial."""
    spec = find_planner(planner)
    run = Run(
        domain="minecraft",
        task=task,
        world=Minecraft(task=task),
        engines=Engines(meter),
        settings=spec.settings.read(SETTINGS),
        seed=0,
    )
    return (await spec.run(run)).plan


async def together(
    meter: MeteredEngine, trials: Sequence[tuple[str, str]]
) -> list[tuple[str, ...]]:
    """All trials at once."""
    return list(await asyncio.gather(*(plan(meter, *trial) for trial in trials)))


async def alone(opened: VllmEngine, asked: Sequence[tuple[Request, Completion]]) -> float:
    """Seconds of these calls, one after the other.

    Raises:
        AnswersDifferError: an answer is another one.
    """
    seconds = 0.0
    for request, before in asked:
        begun = time.perf_counter()
        completion = await opened.generate(request)
        seconds += time.perf_counter() - begun
        if completion.text != before.text:
            raise AnswersDifferError(f"{before.text} is {completion.text} alone")
    return seconds


def written(asked: Sequence[tuple[Request, Completion]]) -> int:
    """Tokens that these calls write."""
    return sum(completion.usage.completion_tokens for _, completion in asked)


def main() -> None:
    """Measures and reports."""
    options = parser(__doc__)
    options.add_argument("--planners", nargs="+", default=PLANNERS, help="rows of the table")
    arguments = options.parse_args()
    trials = [(planner, task) for planner in arguments.planners for task in TASKS]
    with engine() as opened:
        asyncio.run(plan(MeteredEngine(opened), *trials[0]))  # compiles every grammar
        forget(opened)
        meter = Recording(opened)
        begun = time.perf_counter()
        asyncio.run(together(meter, trials))
        seconds = time.perf_counter() - begun
        forget(opened)
        sample = meter.asked[::SAMPLED]
        one_by_one = asyncio.run(alone(opened, sample))
    slow = one_by_one * written(meter.asked) / written(sample)
    findings = [
        Finding(
            label="one call at a time over all at once",
            measured=slow / seconds,
            unit="x",
            bound="at least",
            target=5,
            details={
                "trials": len(trials),
                "calls": len(meter.asked),
                "calls_asked_alone": len(sample),
                "seconds_all_at_once": seconds,
                "seconds_one_call_at_a_time": slow,
            },
        )
    ]
    report("too_table", findings, as_json=arguments.json)


if __name__ == "__main__":
    main()
