r"""Plans a meal in Minecraft and tidies a home with the bundled models, and writes a page of each.

    python scripts/demo.py [--out FOLDER]

Minecraft's rules taught the first model. The second one was taught nothing: it only says where
things may be, and a search does the rest. The same by hand:

    llm-planning run too --task cook-meat --trace demo.jsonl
    llm-planning view demo.jsonl --open
    llm-planning run llm-mcts-plus --set prior=uniform --trace demo-home.jsonl \
        --set goal="put two apples in the fridge and the book on the sofa"
    llm-planning view demo-home.jsonl --open
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_LINES = 10


@dataclass(frozen=True, slots=True)
class Part:
    """One run of the demo.

    Attributes:
        name: of its trace and its page, without their endings.
        task: what is to be done, and in which world.
        run: what `llm-planning run` is given.
    """

    name: str
    task: str
    run: Sequence[str]


GOAL = "put two apples in the fridge and the book on the sofa"
PARTS = (
    Part("demo", "cook-meat, in Minecraft", ("too", "--task", "cook-meat")),
    Part(
        "demo-home",
        f"{GOAL}, at home",
        ("llm-mcts-plus", "--set", "prior=uniform", "--set", f"goal={GOAL}"),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plans, tells and writes the pages.

    Returns:
        0 if the worlds say that all goals are reached, else 1.
    """
    parser = argparse.ArgumentParser(description="First plans, and their pages.")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder of the pages")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="as of llm-planning run"
    )
    parser.add_argument("--model", help="as of llm-planning run")
    chosen = parser.parse_args(arguments)
    others = [part for setting in chosen.set for part in ("--set", setting)]
    if chosen.model is not None:
        others += ["--model", chosen.model]
    reached = True
    for part in PARTS:
        page = chosen.out / f"{part.name}.html"
        trace = page.with_suffix(".jsonl")
        run = ["run", *part.run, *others, "--json", "--trace", str(trace)]
        outcome = json.loads(_llm_planning(run))
        _llm_planning(["view", str(trace), "--out", str(page)])
        for line in told(part, outcome, page=page):
            print(line, flush=True)
        reached = reached and outcome["success"]
    return 0 if reached else 1


def told(part: Part, outcome: Mapping[str, Any], *, page: Path) -> list[str]:
    """What is said of a run: at most ten lines, so a long plan has several options in one."""
    plan, usage = outcome["plan"], outcome["usage"]["total"]
    room = MOST_LINES - 4
    share = -(-len(plan) // room) or 1
    numbered = [f"{place}. {option}" for place, option in enumerate(plan, start=1)]
    lines = [" ".join(numbered[at : at + share]) for at in range(0, len(plan), share)]
    reached = "reached" if outcome["success"] else "not reached"
    return [
        f"Task: {part.task}. The plan:",
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
