"""The world of examples/own_domain.py with the bundled model: is it solved, and does a prior help?

`puct` plays Towers of Hanoi with three discs on ten seeds, once with the model's prior and once
with the uniform one, with the planner's defaults; the time counts the loading of the model. Then
the same with fewer simulations and with four discs, where a prior has more to give or to spoil;
there, answers to equal questions are reused.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

from harness import Finding, parser, report

from llm_planning import open_uncached_engine, plan
from llm_serving.cache import CachedEngine
from llm_serving.stores import ResponseCache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning import Outcome
    from llm_serving.engine import Engine

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))
from own_domain import Hanoi

SEEDS = range(10)
"""Defaults were chosen on seeds from 100 on."""

OTHERS = ((3, 20), (3, 50), (4, 100))
"""Discs and simulations of the further comparisons."""


async def play(engine: Engine, discs: int, settings: Mapping[str, Any]) -> list[Outcome]:
    """One game per seed, one after the other."""
    return [
        await plan("puct", Hanoi(discs), engine=engine, settings=settings, seed=seed)
        for seed in SEEDS
    ]


def summary(outcomes: list[Outcome]) -> str:
    """How many were solved, and in how many moves."""
    moves = fmean(len(outcome.plan) for outcome in outcomes)
    solved = sum(outcome.success is True for outcome in outcomes)
    return f"{solved} solved, {moves:.1f} moves on average"


async def measure(engine: Engine, begun: float) -> list[Finding]:
    """Both priors on all seeds."""
    with_model = await play(engine, 3, {})
    seconds = perf_counter() - begun
    uniform = await play(engine, 3, {"prior": "uniform"})
    details = {"model's prior": summary(with_model), "uniform prior": summary(uniform)}
    with TemporaryDirectory() as folder, closing(ResponseCache(Path(folder) / "a.sqlite")) as cache:
        reusing = CachedEngine(engine, cache)
        for discs, simulations in OTHERS:
            for prior in ("exact", "index", "uniform"):
                settings = {"prior": prior, "simulations": simulations}
                outcomes = await play(reusing, discs, settings)
                details[f"{discs} discs, {simulations} simulations, {prior}"] = summary(outcomes)
    solved = sum(outcome.success is True for outcome in with_model)
    return [
        Finding(
            label="seeds of 10 that puct solves with the model's prior",
            measured=solved,
            unit="seeds",
            bound="at least",
            target=9,
            details=details,
        ),
        Finding(
            label="all ten together, the loading of the model included",
            measured=seconds,
            unit="s",
            bound="at most",
            target=120,
        ),
    ]


def main() -> None:
    """Runs everything."""
    options = parser(__doc__).parse_args()
    begun = perf_counter()
    with open_uncached_engine("smollm2-135m-instruct") as engine:
        findings = asyncio.run(measure(engine, begun))
    report("hanoi", findings, as_json=options.json)


if __name__ == "__main__":
    main()
