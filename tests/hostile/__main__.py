"""`python -m tests.hostile`: runs cases, prints those that fail and the counts."""

import argparse
import asyncio
import sys
import time
from collections import Counter

from llm_planning.environments.cooking.domain import Cooking

from .cases import inside, processes
from .running import Runner, Verdict

_SLOWEST = 12


def main() -> int:
    """Returns 1 if any case fails."""
    parser = argparse.ArgumentParser(prog="hostile", description=__doc__)
    parser.add_argument("--cases", type=int, default=5_000, help="of all kinds together")
    parser.add_argument("--processes", type=int, default=500, help="of these, as processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="of a case's name")
    asked = parser.parse_args()
    kitchens = Cooking()
    # To make them takes longer than a case may.
    asyncio.run(kitchens.meals(seed=0, most=kitchens.settings.games))
    specs = [
        *inside(asked.cases - asked.processes, seed=asked.seed, only=asked.only),
        *processes(asked.processes, seed=asked.seed, only=asked.only),
    ]
    counts: Counter[tuple[str, str]] = Counter()
    failed: list[Verdict] = []
    slowest: list[tuple[float, str]] = []
    begun = time.monotonic()

    def count(verdict: Verdict) -> None:
        how = "process" if verdict.spec.process else "inside"
        counts[f"{verdict.spec.command} ({how})", verdict.kind] += 1
        if verdict.ending is not None:
            slowest.append((verdict.ending.seconds, verdict.spec.name))
            slowest.sort(reverse=True)
            del slowest[_SLOWEST:]
        if verdict.faults:
            failed.append(verdict)
            print(verdict.text(), flush=True)
        if counts.total() % 500 == 0:
            spent = time.monotonic() - begun
            print(f"{counts.total()} of {len(specs)} cases in {spent:.0f} s", flush=True)

    with Runner(slow=True) as runner:
        runner.run(specs, count)
    kinds = sorted({kind for _, kind in counts})
    width = max((len(command) for command, _ in counts), default=0)
    print("\n" + " " * width, *(f"{kind:>14}" for kind in kinds))
    for command in sorted({command for command, _ in counts}):
        print(f"{command:{width}}", *(f"{counts[command, kind]:14}" for kind in kinds))
    print("\nthe slowest:")
    for seconds, name in slowest:
        print(f"{seconds:6.1f} s  {name}")
    as_processes = sum(n for (command, _), n in counts.items() if command.endswith("(process)"))
    print(
        f"\n{counts.total()} cases, {as_processes} of them as processes, seed {asked.seed}: "
        f"{len(failed)} failed, {time.monotonic() - begun:.0f} s"
    )
    return 1 if failed or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
