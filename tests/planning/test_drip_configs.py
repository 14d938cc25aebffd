"""The published figures and sweeps of DRIP: what the paper prints, computed anew, and measured."""

import re

import pytest

from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.statistics import Counts, fisher, odds_ratio, proportion
from llm_planning.roles import Engines
from llm_planning.running import prepare
from llm_serving.scripted import ScriptedEngine

PAPER = find_paper("drip")
COUNTS = re.compile(r"(\d+\.\d)% \((\d+)/(\d+)\) \[(\d+\.\d)%, (\d+\.\d)%\]")
MISPRINT = ("ReAct, GPT-4o", 37.4, 10.57)
"""Row, the odds ratio that the paper prints there, and the one that its counts give."""


def printed(table="table1"):
    """Label -> (the figures that are printed, the counts among them)."""
    rows = {row.label: row.published for row in PAPER.table(table).rows if row.published}
    counts = {label: COUNTS.fullmatch(figures["accuracy"]) for label, figures in rows.items()}
    return {label: (rows[label], cells) for label, cells in counts.items() if cells}


@pytest.mark.parametrize("label", printed())
def test_table_1_prints_rates_and_intervals_of_its_counts(label):
    _, counts = printed()[label]
    share, successes, n, low, high = (float(text) for text in counts.groups())
    again = proportion(int(successes), int(n), interval="wald")
    expected = [round(100 * share, 1) for share in (again.value, again.low, again.high)]
    assert [share, low, high] == expected


@pytest.mark.parametrize(
    "label", [label for label, (cells, _) in printed().items() if "p" in cells]
)
def test_table_1_prints_tests_and_odds_of_its_counts(label):
    figures, counted = printed()[label]
    _, other = printed()[f"DRIP, {label.partition(', ')[2]}"]
    drip, this = (Counts(int(counts[2]), int(counts[3])) for counts in (other, counted))
    bound = float(figures["p"].split()[-1])
    p = fisher(drip, this).value
    assert p < bound if "<" in figures["p"] else p > bound
    odds = round(odds_ratio(drip, this).value, 2)
    row, misprint, right = MISPRINT
    assert (figures["odds"], odds) == ((misprint, right) if label == row else (odds, odds))


def test_the_misprint_is_told():
    assert any("37.4" in note and "10.57" in note for note in PAPER.table("table1").notes)


def test_the_order_table_prints_what_table_1_prints():
    claude = {label: cells for label, (cells, _) in printed().items() if "Claude" in label}
    table_1 = {label.partition(",")[0]: cells for label, cells in claude.items()}
    for row in PAPER.table("order").rows:
        assert row.published == table_1[row.label.partition(",")[0]]


def test_table_2_adds_up():
    row = PAPER.table("table2").rows[0].published
    parts = {key: int(text.partition(" /")[0]) for key, text in row.items()}
    assert parts["decomposition"] + parts["framework"] == parts["total"] == 19


def measured_fields(table):
    """The metrics that a table measures, whatever the planner."""
    for column in PAPER.table(table).columns:
        for field in (*(column.measure.fields if column.measure else ()), *column.where):
            if field.startswith("metrics."):
                yield field.removeprefix("metrics.")


BLOCKS = {"domain": "blocksworld", "task": "hard", "settings": {"roles": "rules"}}
DIAMOND = {"domain": "minecraft", "task": "mine-a-diamond", "settings": {"roles": "rules"}}
DRIP, ALL = ("drip", "drip-plus"), ("drip", "drip-plus", "drip-react")
MEASURED = {
    **dict.fromkeys(("table2", "readings"), (BLOCKS, DRIP)),
    **dict.fromkeys(("errors", "calls"), (BLOCKS, ALL)),
    **dict.fromkeys(
        ("table1", "figure5", "figure6", "rates", "order", "taught"), (BLOCKS, (*ALL, "drip-cot"))
    ),
    **dict.fromkeys(
        ("table3", "table4", "table3-asked", "table4-asked", "programs", "taught-diamond"),
        (DIAMOND, (*ALL, "plan-and-solve")),
    ),
    **dict.fromkeys(("figure7", "stuck"), (DIAMOND, DRIP)),
}
"""Table -> where its planners plan, and the planners."""


@pytest.mark.parametrize("table", MEASURED)
async def test_every_metric_that_is_measured_is_reported(table):
    fields = set(measured_fields(table))
    where, planners = MEASURED[table]
    for planner in planners:
        outcome = await prepare(planner, **where).run(Engines(ScriptedEngine({})), seed=0)
        assert outcome.success or (planner, where) == ("drip", DIAMOND)  # stuck, read literally
        assert fields <= set(outcome.metrics), planner


def test_every_table_is_tested_so():
    assert set(PAPER.tables()) == set(MEASURED)
