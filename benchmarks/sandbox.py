"""What a sealed process costs: a program that does nothing, and a call of its host.

Beside it runs what cannot be cheaper: a Python process that starts and ends, as a sealed one must.
The answers of the calls are compared first. The time of a call is the difference between a program
with many calls and one with a single call, divided by the difference in calls.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from harness import AnswersDifferError, Finding, medians, parser, report

from llm_planning.execution.sandbox import Limits, run_program, why_unsealed

if TYPE_CHECKING:
    from collections.abc import Sequence

CALLS = 200
LIMITS = Limits(calls=CALLS)


def program(calls: int) -> str:
    """Adds up what the host answers."""
    return f"""
    const call = __call;
    async function main() {{
      let sum = 0;
      for (let i = 0; i < {calls}; i++) sum += call("twice", [i]).value;
      call("sum", [sum]);
    }}"""


async def run(calls: int) -> float:
    """Runs a program; returns its sum."""
    sums = []

    async def host(name: str, values: Sequence[Any]) -> object:
        if name == "twice":
            return {"value": 2 * values[0]}
        sums.append(values[0])
        return None

    end = await run_program([program(calls - 1)], "main()", host, seed=0, limits=LIMITS)
    if end.error is not None or end.calls != calls:
        raise AnswersDifferError(f"the program ended with {end}")
    return float(sums[0])


def timed(calls: int) -> float:
    """Seconds of one run in a new event loop, the loop's start left out."""

    async def measure() -> float:
        begun = time.perf_counter()
        await run(calls)
        return time.perf_counter() - begun

    return asyncio.run(measure())


def bare() -> float:
    """Seconds of a Python process that does nothing."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
    return time.perf_counter() - begun


def main() -> None:
    """Measures and reports."""
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=21, help="rounds")
    arguments = options.parse_args()
    if (reason := why_unsealed()) is not None:
        raise SystemExit(reason)
    if asyncio.run(run(CALLS)) != sum(2 * i for i in range(CALLS - 1)):
        raise AnswersDifferError("the program adds up something else")
    arms = {"one": lambda: timed(1), "many": lambda: timed(CALLS), "bare": bare}
    seconds = medians(arms, repeats=arguments.repeats)
    findings = [
        Finding(
            label="a program with one call, in a sealed process",
            measured=1000 * seconds["one"],
            unit="ms",
            bound="at most",
            target=80,
            details={"a_bare_python_process_ms": 1000 * seconds["bare"]},
        ),
        Finding(
            label="a call of the host",
            measured=1e6 * (seconds["many"] - seconds["one"]) / (CALLS - 1),
            unit="µs",
            bound="at most",
            target=200,
        ),
    ]
    report("sandbox", findings, as_json=arguments.json)


if __name__ == "__main__":
    main()
