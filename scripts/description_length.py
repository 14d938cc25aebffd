"""Draws accuracy against description length: the argument of LLM-MCTS, Sections 1 and 4.

    python scripts/description_length.py [FILE]

It reads the exports of multiplication and of travel in `docs/results/exports` and writes a picture,
by default `docs/results/llm-mcts-description-length.svg`. What is not exported yet is left out, and
a line says so. The table is `configs/llm_mcts/description-length.published.yaml`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from importlib.resources import files
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING

from results_pages import EXPORTS, RESULTS, read_runs

from llm_kernels.files import write_durably
from llm_planning.experiments.paper_report import report
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.plots import picture

if TYPE_CHECKING:
    from llm_planning.experiments.runs import RunRecord, Runs

NAMES = ("llm-mcts-multiplication", "llm-mcts-multiplication-small", "travel", "travel-small")
"""The exports that are drawn."""

BITS = "metrics.description_bits"


def with_travel(runs: Runs) -> Runs:
    """The runs, with the description length of those that travel, which do not say it.

    L-Policy has the next city for every pair of n cities, n² log2(n) bits. L-Model has the list of
    flights, log2(n) bits for each; the paper has O(n) flights (Section 4.1).
    """
    if not any(one["domain"] == "travel" for one in runs.done):
        return runs
    folder = files("llm_planning") / "environments" / "travel" / "flights"
    cities, flights = (
        len((folder / f"{name}.csv").read_text("utf-8").splitlines()) - 1  # the first line is heads
        for name in ("cities", "direct_flights")
    )
    bits = {"l-policy": cities**2 * log2(cities), "l-model": flights * log2(cities)}

    def told(one: RunRecord) -> RunRecord:
        return {**one, BITS: bits[one["planner"]]} if one["domain"] == "travel" else one

    return replace(runs, done=tuple(map(told, runs.done)))


def main(arguments: list[str]) -> int:
    """Draws what is exported.

    Returns:
        0; or 1 if nothing is.
    """
    parser = argparse.ArgumentParser(description="Draws accuracy against description length.")
    default = RESULTS / "llm-mcts-description-length.svg"
    parser.add_argument("file", type=Path, nargs="?", default=default, help="the picture")
    file: Path = parser.parse_args(arguments).file
    there = [name for name in NAMES if (EXPORTS / f"{name}.parquet").is_file()]
    for name in NAMES:
        if name not in there:
            print(f"{name}.parquet is not in {EXPORTS}: it is left out", file=sys.stderr)
    if not there:
        return 1
    runs = read_runs(*(EXPORTS / f"{name}.parquet" for name in there))
    made = report(find_paper("llm_mcts"), "description-length", with_travel(runs))
    write_durably(file, picture(made, file.suffix))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
