r"""Plans a meal in Minecraft, a tidy home and towers of blocks, and writes a page of each.

    python scripts/demo.py [--out FOLDER]

Minecraft's rules taught the first model, those of blocks the third, and each answers all that its
planner asks. The second one was taught nothing: it only says where things may be, and a search does
the rest. The same by hand:

    llm-planning run too --task cook-meat --trace demo.jsonl
    llm-planning view demo.jsonl --open
    llm-planning run llm-mcts-plus --set prior=uniform --trace demo-home.jsonl \
        --set goal="put two apples in the fridge and the book on the sofa"
    llm-planning view demo-home.jsonl --open
    llm-planning run drip-plus --domain blocksworld --set problem=24 --trace demo-blocks.jsonl
    llm-planning view demo-blocks.jsonl --open
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from llm_planning.cli import main as llm_planning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH = 80
"""Columns of what is printed, but for addresses."""


@dataclass(frozen=True, slots=True)
class Part:
    """One run of the demo.

    Attributes:
        world: where it plans, as a heading.
        name: of its trace and its page, without their endings.
        task: what is to be done, and by which planner.
        run: what `llm-planning run` is given.
        settings: likewise, each after a `--set`; the demo's own options replace them.
    """

    world: str
    name: str
    task: str
    run: Sequence[str]
    settings: Mapping[str, str] = field(default_factory=dict)


GOAL = "put two apples in the fridge and the book on the sofa"
PARTS = (
    Part(
        "Minecraft",
        "demo",
        "cook meat, by Tree of Options",
        ("too", "--task", "cook-meat"),
    ),
    Part(
        "Home",
        "demo-home",
        f"{GOAL}, by LLM-MCTS+",
        ("llm-mcts-plus",),
        {"prior": "uniform", "goal": GOAL},
    ),
    Part(
        "Blocks",
        "demo-blocks",
        "rebuild towers of ten blocks, by DRIP+",
        ("drip-plus", "--domain", "blocksworld"),
        {"problem": "24"},
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
    others = [] if chosen.model is None else ["--model", chosen.model]
    started = time.monotonic()
    outcomes = []
    for part in PARTS:
        page = chosen.out / f"{part.name}.html"
        trace = page.with_suffix(".jsonl")
        settings = {**part.settings, **dict(pair.split("=", 1) for pair in chosen.set)}
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        run = ["run", *part.run, *sets, *others, "--json", "--trace", str(trace)]
        outcome = json.loads(_printed(run))
        _printed(["view", str(trace), "--out", str(page)])
        print("\n".join(lines_of(part, outcome)), flush=True)
        outcomes.append(outcome)
    lines = summed_up(PARTS, outcomes, folder=chosen.out, seconds=time.monotonic() - started)
    print("\n".join(lines))
    return 0 if all(outcome["success"] for outcome in outcomes) else 1


def lines_of(part: Part, outcome: Mapping[str, Any]) -> list[str]:
    """What is said of a run: its plan, who answered which role, and the world's verdict."""
    numbered = [f"{place}. {option}" for place, option in enumerate(outcome["plan"], start=1)]
    # A step stays in one line.
    whole = "  ".join(step.replace(" ", "\xa0") for step in numbered or ["no plan"])
    steps = [line.replace("\xa0", " ") for line in wrap(whole, WIDTH - 2)]
    answered = {
        outcome["model"]: outcome["usage"]["roles"],
        "rules": [errors["role"] for errors in outcome["oracles"]],
    }
    return [
        f"{part.world}: {part.task}",
        *(f"  {line}" for line in steps),
        *(f"Answered by {who}: {', '.join(roles)}." for who, roles in answered.items() if roles),
        f"Carried out in the world: the goal is {_verdict(outcome)}.",
        "",
    ]


def summed_up(
    parts: Sequence[Part], outcomes: Sequence[Mapping[str, Any]], *, folder: Path, seconds: float
) -> list[str]:
    """The verdicts, and what they cost.

    Args:
        parts: of the demo.
        outcomes: of the parts.
        folder: of the pages.
        seconds: of the whole demo.
    """
    lines = [f"{'':10}{'the goal is':13}{'questions':>9}{'tokens':>8}{'seconds':>9}  page"]
    for part, outcome in zip(parts, outcomes, strict=True):
        usage = outcome["usage"]["total"]
        tokens = usage["prompt_tokens"] + usage["completion_tokens"]
        costs = f"{usage['calls']:9}{tokens:8,}{outcome['seconds']:9.0f}"
        lines.append(f"{part.world:10}{_verdict(outcome):13}{costs}  {part.name}.html")
    return [
        *lines,
        f"All of it took {seconds:.0f} s, with fetching and loading the models.",
        f"Pages that say why, node by node: {folder.resolve().as_uri()}",
    ]


def _verdict(outcome: Mapping[str, Any]) -> str:
    return "reached" if outcome["success"] else "not reached"


def _printed(command: Sequence[str]) -> str:
    """What a command of `llm-planning` prints; one process loads its libraries once."""
    with redirect_stdout(io.StringIO()) as printed:
        code = llm_planning(command)
    if code:
        raise SystemExit(code)
    return printed.getvalue()


if __name__ == "__main__":
    sys.exit(main())
