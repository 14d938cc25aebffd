"""Plans a meal in Minecraft with the bundled model, says what came of it, and writes its page.

    python scripts/demo.py [--out demo.html]

Minecraft's rules taught the model, and the world says what its plan is worth. The same by hand:

    llm-planning run too --task cook-meat --trace demo.jsonl
    llm-planning view demo.jsonl --open
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TASK = "cook-meat"
MOST_LINES = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Plans, tells and writes the page.

    Returns:
        0 if the world says that the goal is reached, else 1.
    """
    parser = argparse.ArgumentParser(description="A first plan, and its page.")
    parser.add_argument("--out", type=Path, default=Path("demo.html"), help="the page")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="as of llm-planning run"
    )
    parser.add_argument("--model", help="as of llm-planning run")
    chosen = parser.parse_args(arguments)
    trace = chosen.out.with_suffix(".jsonl")
    others = [part for setting in chosen.set for part in ("--set", setting)]
    if chosen.model is not None:
        others += ["--model", chosen.model]
    run = ["run", "too", "--task", TASK, *others, "--json", "--trace", str(trace)]
    outcome = json.loads(_llm_planning(run))
    _llm_planning(["view", str(trace), "--out", str(chosen.out)])
    for line in told(outcome, page=chosen.out):
        print(line)
    return 0 if outcome["success"] else 1


def told(outcome: Mapping[str, Any], *, page: Path) -> list[str]:
    """What is said of a run: at most ten lines, so a long plan has several options in one."""
    plan, usage = outcome["plan"], outcome["usage"]["total"]
    room = MOST_LINES - 4
    share = -(-len(plan) // room) or 1
    numbered = [f"{place}. {option}" for place, option in enumerate(plan, start=1)]
    lines = [" ".join(numbered[at : at + share]) for at in range(0, len(plan), share)]
    reached = "reached" if outcome["success"] else "not reached"
    return [
        f"Task: {TASK}, in Minecraft. The plan:",
        *(f"  {line}" for line in lines),
        f"Carried out in the world: the goal is {reached}.",
        f"It asked {usage['calls']} questions and took {outcome['seconds']:.0f} s.",
        f"Why, node by node: {page.resolve().as_uri()}",
    ]


def _llm_planning(arguments: Sequence[str]) -> str:
    command = [sys.executable, "-m", "llm_planning.cli", *arguments]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        raise SystemExit(ended.returncode)
    return ended.stdout


if __name__ == "__main__":
    sys.exit(main())
