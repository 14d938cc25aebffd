"""The README's first table is docs/results/matrix.md in short, and says what was recorded."""

from functools import cache
from pathlib import Path

import pytest

from llm_planning.experiments.export import read_export
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.runs import runs_of

ROOT = Path(__file__).parents[2]
HEADER = "| planner | Minecraft | Blocksworld | Homes | Text games | Air travel | Products |"
WORLDS = ("minecraft", "blocksworld", "household", "textgame", "travel", "multiplication")
SENSELESS, NOT_RUN, RUNS = "×", "–", 12


def rows():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    start = lines.index(HEADER) + 2
    end = next(place for place in range(start, len(lines)) if not lines[place].startswith("|"))
    return [tuple(map(str.strip, line.strip("|").split("|"))) for line in lines[start:end]]


@cache
def recorded():
    export = ROOT / "docs" / "results" / "exports" / "matrix-models.parquet"
    return find_paper("matrix").table("models"), runs_of(read_export(export))


def won(label, column):
    """How many of the runs of a cell reach the goal; how the table says that there are none."""
    table, runs = recorded()
    row = next(row for row in table.rows if row.label == label)
    where = next(there.where for there in table.columns if there.key == column)
    done = runs.select(row.where).select(where).done
    if not done:
        return SENSELESS if table.why_senseless(label, column) else NOT_RUN
    count = sum(run["success"] for run in done)
    return f"{count}" if len(done) == RUNS else f"{count} of {len(done)}"


def short(label, world):
    """Goals reached by the taught model, and in brackets by the untaught one."""
    taught, untaught = (won(label, f"{world}-{model}") for model in ("taught", "untaught"))
    if taught == untaught and not taught[0].isdigit():
        return taught
    if untaught == SENSELESS or label == "UCT" or label.endswith("no model"):  # these ask nobody
        return taught
    return f"{taught} ({untaught})"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_row_is_what_was_recorded(row):
    label, *cells = row
    assert cells == [short(label, world) for world in WORLDS]
