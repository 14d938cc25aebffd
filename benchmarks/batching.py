"""Whether a planner's awaits fill the engine's batch as well as bare requests do.

32 ToO expansions are awaited together and one after the other. One expansion already keeps several
requests in flight, so the engine's own quotient is taken between the numbers of requests that the
two arms really had in flight: the same requests, sent by nobody's planner.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bench_engine import engine, engine_parser, forget, lengths, option_states
from harness import Finding, report

from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.gpu_check.asked import Recorder
from llm_planning.planners.tree_of_options.algorithm import Memo, SearchState, TreeOfOptions
from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.settings import FeasibleSearchSettings
from llm_planning.roles import Engines
from llm_planning.search import Node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_serving.dispatcher import Activity
    from llm_serving.request import Request
    from llm_serving.vllm_engine import VllmEngine

EXPANSIONS, ALONE = 32, 3


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of asking.

    Attributes:
        rate: tokens written per second.
        in_flight: requests that an average step advanced.
        requests: what was asked.
    """

    rate: float
    in_flight: float
    requests: Sequence[Request]


def expansions(opened: VllmEngine, count: int, *, limit: int) -> Arm:
    """Expands so many nodes, so many of them at once."""
    recorder = Recorder(opened)
    settings, domain = FeasibleSearchSettings(), Minecraft()
    ask: OptionAsking[Any, Any] = OptionAsking(
        domain,
        Engines(recorder),  # type: ignore[arg-type]
        settings,
        seed=0,
    )
    work = []
    for tau in option_states(count):
        planner = TreeOfOptions(tau, ask, settings)
        node: Node[Any, Any] = Node()
        node.memo = Memo(done=False)
        work.append(planner.options(node, SearchState(tau), 0))
    return _measure(opened, recorder, work, limit)


def bare(opened: VllmEngine, requests: Sequence[Request], *, limit: int) -> Arm:
    """Sends requests as they are, so many of them at once."""
    recorder = Recorder(opened)
    return _measure(opened, recorder, [recorder.generate(request) for request in requests], limit)


def _measure(opened: VllmEngine, recorder: Recorder, work: Sequence[object], limit: int) -> Arm:
    forget(opened)
    before: Activity = replace(opened.activity)

    async def run() -> None:
        free = asyncio.Semaphore(limit)

        async def admit(job: object) -> None:
            async with free:
                await job  # type: ignore[misc]

        await asyncio.gather(*map(admit, work))

    begun = time.perf_counter()
    asyncio.run(run())
    seconds = time.perf_counter() - begun
    activity = opened.activity.since(before)
    return Arm(recorder.written / seconds, activity.mean_in_flight, recorder.requests)


def main() -> None:
    """Measures and reports."""
    arguments = engine_parser(__doc__).parse_args()
    with engine(model=arguments.model, dtype=arguments.dtype) as opened:
        expansions(opened, 2, limit=2)  # compiles every grammar
        together = expansions(opened, EXPANSIONS, limit=EXPANSIONS)
        alone = expansions(opened, ALONE, limit=1)
        many = bare(opened, together.requests, limit=round(together.in_flight))
        few = bare(opened, alone.requests, limit=max(1, round(alone.in_flight)))
        single = bare(opened, alone.requests[::6], limit=1)
        sizes = lengths(opened, [request.prompt for request in together.requests])
    quotient = together.rate / alone.rate
    details = {
        "tokens_per_s_together": together.rate,
        "tokens_per_s_one_after_the_other": alone.rate,
        "in_flight_together": together.in_flight,
        "in_flight_one_after_the_other": alone.in_flight,
        "bare_tokens_per_s_many": many.rate,
        "bare_tokens_per_s_few": few.rate,
        "bare_tokens_per_s_single": single.rate,
        "bare_in_flight_many": many.in_flight,
        "bare_in_flight_few": few.in_flight,
        "requests_together": len(together.requests),
        **sizes,
    }
    findings = [
        Finding(
            label="expansions' quotient over the engine's own between as many in flight",
            measured=quotient / (many.rate / few.rate),
            unit="x",
            bound="at least",
            target=0.8,
            details=details,
        ),
        Finding(
            label="32 expansions together over one after the other",
            measured=quotient,
            unit="x",
            bound="at least",
            target=3,
        ),
    ]
    report("batching", findings, as_json=arguments.json)


if __name__ == "__main__":
    main()
