"""Draws accuracy against description length: the argument of LLM-MCTS, Sections 1 and 4.

    python scripts/description_length.py [FILE]

It reads the exports of multiplication and of travel in `docs/results/exports` and writes a picture,
by default `docs/results/llm-mcts-description-length.svg`. What is not exported yet is left out, and
a line says so. The table is `configs/llm_mcts/description-length.published.yaml`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from results_pages import read_runs
from results_source import EXPORTS, RESULTS

from llm_base.files import write_durably
from llm_planning.experiments.paper_report import report
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.plots import picture

NAMES = ("llm-mcts-multiplication", "llm-mcts-multiplication-small", "travel", "travel-small")
"""The exports that are drawn."""


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
    made = report(find_paper("llm_mcts"), "description-length", runs)
    write_durably(file, picture(made, file.suffix))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
