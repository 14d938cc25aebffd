"""Tables of papers: selecting runs, measuring cells, and the Markdown, CSV and JSON of a report."""

import csv
import gzip
import io
import json
from dataclasses import replace

import pytest
import scipy.stats
from report_ledgers import report_of, result_of, trial_of, write_ledger

from llm_planning.experiments.export import export, read_export
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.measures import MeasureError
from llm_planning.experiments.paper_report import (
    EmptyReportError,
    as_csv,
    as_json,
    markdown,
    report,
)
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.report_verdict import verdict_counts, verdict_text
from llm_planning.experiments.runs import UnknownFieldError, read_runs, runs_of
from llm_planning.experiments.statistics import Estimate

TABLE = """
title: Cost of plans (Table 9)
names: {too: ToO, cot: CoT}
columns:
  - {key: calls, label: "#APIs", measure: {mean: calls, per: task}}
  - {key: rate, label: SR, measure: {rate: success}, as: percent, paper: drawn}
  - {key: run, label: Execution, cited: nothing is executed}
rows:
  - {label: CoT, where: {planner: cot}, published: {calls: 1, run: 0.06k}}
  - {label: ReAct, cited: not implemented here, published: {calls: 0.03k}}
  - {label: ToO, where: {planner: too}, published: {calls: 0.9k, run: 0.03k}}
compare:
  - {column: calls, first: {planner: too}, second: {planner: cot}}
setup:
  - {label: factor k, field: settings.k, paper: 5}
notes: [Only planning is measured.]
"""

GOLDEN = """\
## A Paper: Cost of plans (Table 9)

A. Author, 2026

**1 of 1 printed figures hold: they lie in the interval that was measured here; 1 more was not measured. 0 of 1 differences are beyond chance.**

Model: small (8 runs).

|  | runs here | #APIs (paper) | #APIs (here) | SR (here) | Execution (cited only) |
| --- | --- | --- | --- | --- | --- |
| CoT | 4 runs | 1 | 1 [-2.04, 4.04] | – (4 without a value) | 0.06k |
| ReAct (cited only) | – | 0.03k | – | – | – |
| ToO | 3 runs, 1 failed, 1 not run yet | 0.9k | 35 (no interval: one run only in 1 of 2 groups) | 67% [21, 94] | 0.03k |

Differences, paired by task and seed:

| | first − second |
| --- | --- |
| #APIs: ToO − CoT | 29.3 [-20.4, 79.1] (3 pairs, 1 run without a partner) |

- Runs: 7 done, 1 failed, 1 not run yet (sweeps/made).
- In brackets: 95% intervals (Student's t over repeats within groups that weigh alike; \
Wilson score; Student's t).
- SR of the paper: not published as numbers.
- ReAct: cited only, not implemented here.
- Execution: cited only, nothing is executed.

| setting | paper | here |
| --- | --- | --- |
| model | gpt-4 | small |
| factor k | 5 | 1, 3 |
| d | not stated | 2 |

- Only planning is measured.
"""  # noqa: E501


@pytest.fixture
def configs(tmp_path):
    """A folder of configurations with one paper, and a way to add tables to it."""
    folder = tmp_path / "configs"
    (folder / "paper").mkdir(parents=True)
    (folder / "paper" / "paper.yaml").write_text(
        "title: A Paper\ncitation: A. Author, 2026\n"
        "setup:\n"
        "  - {label: model, field: model, paper: gpt-4}\n"
        "  - {label: k, field: settings.k, paper: 3}\n"
    )
    (folder / "paper" / "table9.published.yaml").write_text(TABLE)
    return folder


def cot(*, seed=0, task="mine", **result):
    return result_of(trial_of("cot", task=task, seed=seed, d=2), **result)


def too(*, seed=0, task="mine", k=3, **result):
    return result_of(trial_of("too", task=task, seed=seed, d=2, k=k), **result)


RESULTS = (
    cot(calls=0),
    cot(seed=1, calls=2),
    cot(task="cook", calls=0),
    cot(task="cook", seed=1, calls=2),
    too(calls=10, success=True),
    too(seed=1, calls=30, success=False),
    too(task="cook", calls=50, success=True),
    too(task="cook", seed=1, failed=True),
)
PENDING = (trial_of("too", task="cook", seed=2, d=2, k=1),)


def measured(configs, folder, results=RESULTS, pending=PENDING):
    """The report of the table on a ledger of these results."""
    write_ledger(folder, results, pending=pending)
    with Ledger.open(folder) as ledger:
        return report(find_paper("paper", configs), "table9", read_runs(ledger))


def test_golden_markdown(configs, tmp_path):
    table = measured(configs, tmp_path / "sweep")
    assert markdown(table, sweep="sweeps/made", verbose=True) == GOLDEN


def test_details_stand_there_only_when_asked_for(configs, tmp_path):
    short = markdown(measured(configs, tmp_path / "sweep"), sweep="s", verbose=False)
    for hidden in ("| setting |", "- Only planning", "cited only, "):
        assert hidden in GOLDEN
        assert hidden not in short
    assert "**1 of 1 printed figures hold" in short
    assert short.endswith(
        "\n- `-v` shows the settings, the notes, and why figures are cited only.\n"
    )


def test_a_difference_holds_beyond_chance_on_the_printed_side(configs, tmp_path):
    table = measured(configs, tmp_path / "sweep")
    (drawn,) = table.differences

    def compared(published, low, high):
        estimate = Estimate(value=low and (low + high) / 2, low=low, high=high, n=9, method="t")
        return replace(
            drawn, published=published, difference=replace(drawn.difference, estimate=estimate)
        )

    beside = (
        compared("12", 1.0, 3.0),
        compared("-5", 1.0, 3.0),
        compared("-5", -3.0, -1.0),
        compared("12", -1.0, 3.0),
        compared(None, 1.0, 3.0),
    )
    counts = verdict_counts(replace(table, differences=beside))
    assert (counts["differences"], counts["beyond_chance"]) == (5, 4)
    assert (counts["differences_printed"], counts["differences_hold"]) == (4, 2)
    assert verdict_text(replace(table, differences=beside)).endswith(
        " 4 of 5 differences are beyond chance, 2 of 4 on the side that the paper prints."
    )
    unmeasured = compared("12", None, None)
    assert verdict_text(replace(table, differences=(*beside, unmeasured))).endswith(
        " 4 of 5 differences are beyond chance, 2 of 4 on the side that the paper prints; "
        "1 more was not measured."
    )
    assert verdict_text(replace(table, differences=(unmeasured, unmeasured))).endswith(
        ". None of 2 differences was measured with an interval."
    )


def test_cells_count_what_is_missing(configs, tmp_path):
    line = measured(configs, tmp_path / "sweep").lines[2]
    calls, rate = line.cell("calls").measured, line.cell("rate").measured
    assert calls.estimate.value == 35.0  # tasks weigh alike: (20 + 50) / 2
    assert (calls.runs, calls.groups, calls.without) == (3, 2, 0)
    assert (calls.failed, calls.pending, calls.expected) == (1, 1, 5)
    assert (rate.estimate.value, rate.runs) == (pytest.approx(2 / 3), 3)


def test_csv_holds_every_cell_unrounded(configs, tmp_path):
    table = measured(configs, tmp_path / "sweep")
    rows = list(csv.DictReader(io.StringIO(as_csv(table))))
    assert len(rows) == 9
    assert {(row["paper"], row["table"]) for row in rows} == {("paper", "table9")}
    of = {(row["row"], row["column"]): row for row in rows}
    assert of["ToO", "rate"]["published"] == "not published as numbers"
    assert float(of["ToO", "rate"]["measured"]) == 2 / 3
    assert float(of["ToO", "rate"]["low"]) == pytest.approx(0.20766, abs=1e-5)
    assert (of["ToO", "calls"]["runs"], of["ToO", "calls"]["failed"]) == ("3", "1")
    assert (of["ToO", "calls"]["published"], of["ToO", "calls"]["published_value"]) == (
        "0.9k",
        "900.0",
    )
    assert of["ReAct", "calls"]["cited"] == "not implemented here"
    assert of["ToO", "run"]["cited"] == "nothing is executed"
    assert of["ToO", "run"]["measured"] == ""


def test_json_says_the_same(configs, tmp_path):
    table = measured(configs, tmp_path / "sweep")
    values = json.loads(json.dumps(as_json(table)))
    assert values["runs"] == {"done": 7, "failed": 1, "pending": 1, "outside": 0}
    cell = values["rows"][2]["cells"]["calls"]
    assert (cell["published"], cell["published_value"]) == ("0.9k", 900.0)
    assert cell["measured"]["estimate"]["reason"] == "one run only in 1 of 2 groups"
    assert values["differences"][0]["estimate"]["value"] == pytest.approx(88 / 3)
    assert values["settings"][1] == {"label": "factor k", "paper": "5", "here": ["1", "3"]}


def test_a_report_from_an_export_is_that_from_the_ledger(configs, tmp_path):
    expected = measured(configs, tmp_path / "sweep", pending=())
    with Ledger.open(tmp_path / "sweep") as ledger:
        export(ledger, tmp_path / "rows.csv")
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress((tmp_path / "rows.csv").read_bytes()))
    read = report(find_paper("paper", configs), "table9", runs_of(read_export(path)))
    assert as_json(read) == as_json(expected)
    assert markdown(read, sweep="s", verbose=True) == markdown(expected, sweep="s", verbose=True)


@pytest.mark.parametrize("steps", [3, None], ids=["one row lacks it", "no row has it"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_row_without_a_value_is_told_from_an_export_too(tmp_path, ending, steps):
    file = """
        title: Steps to a first success
        columns: [{key: first, label: first, measure: {mean: metrics.first}}]
        rows: [{label: CoT, where: {planner: cot}}, {label: ToO, where: {planner: too}}]
        """
    expected = report_of(tmp_path, file, [cot(first=None), too(first=steps)])
    assert expected.lines[0].cell("first").measured.without == 1
    path = tmp_path / f"rows.{ending}"
    with Ledger.open(tmp_path / "sweep") as ledger:
        export(ledger, path)
    read = report(expected.paper, expected.name, runs_of(read_export(path)))
    assert as_json(read) == as_json(expected)


def test_a_metric_of_one_planner_alone(tmp_path):
    file = """
        title: Nodes of a search
        columns: [{key: a, label: a, measure: {mean: metrics.nodes}}]
        rows: [{label: CoT, where: {planner: cot}}, {label: ToO, where: {planner: too}}]
        """
    lines = report_of(tmp_path, file, [cot(), too(nodes=3)]).lines
    assert [line.cell("a").measured.without for line in lines] == [1, 0]


def test_rows_of_each_take_the_values_that_the_runs_have(tmp_path):
    file = """
        title: Grid
        names: {too: ToO}
        columns: [{key: calls, label: calls, measure: {mean: calls}, paper: absent}]
        rows: [{each: {planner: [too], settings.k: all, settings.d: [2, 4]}}]
        """
    results = [too(k=1, calls=4), too(k=3, calls=8), cot()]
    table = report_of(tmp_path, file, results)
    assert [line.label for line in table.lines] == ["ToO, k=1, d=2", "ToO, k=3, d=2"]
    assert [line.cell("calls").measured.estimate.value for line in table.lines] == [4, 8]
    assert table.left_out == ("ToO, k=1, d=4", "ToO, k=3, d=4")
    assert table.outside == 1
    text = markdown(table, sweep="s", verbose=True)
    assert "Not in this sweep: 2 of 4 rows" in text
    assert "1 of the sweep belong to no row" in text


def test_tasks_may_be_rows_and_methods_columns(tmp_path):
    file = """
        title: Turned
        columns:
          - {key: too, label: ToO, where: {planner: too}, measure: {median: tokens}}
          - {key: cot, label: CoT, where: {planner: cot}, measure: {mean: options}}
        rows:
          - {label: Mine, where: {task: mine}, published: {too: 5, cot: 2 / 3}}
          - {label: Cook, where: {task: cook}}
        """
    mine, cook = report_of(tmp_path, file, RESULTS, pending=PENDING).lines
    assert mine.cell("too").measured.estimate.value == 110 * 20
    assert mine.cell("cot").published_value == pytest.approx(2 / 3)
    assert cook.cell("cot").measured.estimate.value == 2.0
    # A column that takes part of its line's runs says how many.
    table = report_of(tmp_path / "again", file, RESULTS)
    assert "2 (equal; 2 runs)" in markdown(table, sweep="s", verbose=True)


def test_the_best_run_of_each_task(tmp_path):
    file = """
        title: Passed
        where: {planner: too}
        columns:
          - {key: passed, label: pass, measure: {rate: success, per: task, within: max}}
          - {key: best, label: best, measure: {mean: metrics.score, per: task, within: max}}
        rows: [{label: all, where: {}}]
        """
    results = [
        too(success=False, score=1),
        too(seed=1, success=True, score=5),
        too(task="cook", success=False, score=2),
    ]
    (line,) = report_of(tmp_path, file, results).lines
    passed, best = line.cell("passed").measured, line.cell("best").measured
    assert (passed.estimate.value, passed.estimate.n, passed.runs) == (0.5, 2, 3)
    assert best.estimate.value == 3.5


def test_runs_that_share_what_was_drawn_are_one_value_of_the_interval(tmp_path):
    file = """
        title: By graph
        columns:
          - {key: rate, label: SR, measure: {rate: success, unit: settings.k}}
          - {key: mean, label: mean, measure: {mean: success, per: task, unit: settings.k}}
          - {key: one, label: one, measure: {rate: success, unit: task}}
          - {key: none, label: none, measure: {rate: success, unit: settings.graph}}
        rows: [{label: ToO, where: {planner: too}}]
        """
    results = [
        too(k=k, seed=seed, success=seed < successes)
        for k, successes in ((1, 4), (3, 2), (5, 3))
        for seed in range(4)
    ]
    (line,) = report_of(tmp_path, file, results).lines
    rate, mean, one, none = (line.cell(key).measured for key in ("rate", "mean", "one", "none"))
    known = scipy.stats.ttest_1samp([1.0, 0.5, 0.75], 0).confidence_interval(0.95)
    assert (rate.estimate.value, rate.estimate.n, rate.runs) == (0.75, 3, 12)
    assert (mean.estimate.low, mean.estimate.high) == pytest.approx((known.low, known.high))
    assert rate.estimate.high == 1.0 < known.high
    # All runs are of one task, and have no graph, so nothing else was drawn: Wilson's of twelve.
    assert (one.estimate.value, one.estimate.n, one.estimate.method) == (0.75, 12, "Wilson score")
    assert none.estimate == one.estimate


def test_no_interval_of_a_cost_is_below_zero_but_that_of_a_difference_is(tmp_path):
    file = """
        title: Costs
        columns:
          - {key: calls, label: calls, measure: {cost: calls, per: task}}
          - {key: mean, label: mean, measure: {mean: calls, per: task}}
        rows: [{label: ToO, where: {planner: too}}]
        compare: [{column: calls, first: {planner: too}, second: {planner: cot}}]
        """
    results = [too(seed=seed, calls=calls) for seed, calls in enumerate((0, 0, 9))]
    results += [cot(seed=seed, calls=3) for seed in range(3)]
    table = report_of(tmp_path, file, results)
    (line,) = table.lines
    cost, mean = (line.cell(key).measured.estimate for key in ("calls", "mean"))
    assert (cost.value, cost.low, cost.high) == (3.0, 0.0, mean.high)
    assert mean.low < 0
    (compared,) = table.differences
    assert compared.difference.estimate.low == mean.low - 3


def test_a_result_selects_among_the_done_only(tmp_path):
    file = """
        title: Of successes
        columns: [{key: calls, label: calls, measure: {mean: calls}, where: {success: true}}]
        rows: [{label: ToO, where: {planner: too}}]
        """
    (line,) = report_of(tmp_path, file, RESULTS, pending=PENDING).lines
    calls = line.cell("calls").measured
    assert (calls.estimate.value, calls.runs, calls.failed, calls.pending) == (30.0, 2, 1, 1)


def test_success_rates_are_compared_in_pairs(tmp_path):
    file = """
        title: Compared
        columns: [{key: rate, label: SR, measure: {rate: success}, as: percent}]
        rows: [{label: all, where: {}}]
        compare: [{column: rate, first: {settings.k: 3}, second: {settings.k: 1}}]
        """
    results = [
        *(too(seed=seed, k=3, success=True) for seed in range(3)),
        *(too(seed=seed, k=1, success=seed == 0) for seed in range(2)),
    ]
    (compared,) = report_of(tmp_path, file, results).differences
    assert compared.difference.estimate.value == 0.5
    assert (compared.difference.estimate.n, compared.difference.alone) == (2, 1)


def test_tasks_of_one_seed_are_one_unit(tmp_path):
    file = """
        title: Compared
        columns:
          - {key: rate, label: SR, measure: {rate: success}, as: percent}
          - {key: drawn, label: SR by seed, measure: {rate: success, unit: seed}, as: percent}
        rows: [{label: all, where: {}}]
        compare:
          - {column: rate, first: {planner: too}, second: {planner: cot}, unit: seed}
          - {column: rate, first: {planner: too}, second: {planner: cot}}
          - {column: drawn, first: {planner: too}, second: {planner: cot}}
          - {column: drawn, first: {planner: too}, second: {planner: cot}, unit: task}
          - {column: drawn, first: {seed: 0}, second: {seed: 1}}
        """
    results = [
        run(seed=seed, task=task, success=won)
        for seed, wins in enumerate([(4, 0), (3, 1), (4, 3)])
        for run, won_of_four in zip((too, cot), wins, strict=True)
        for task, won in ((f"t{number}", number < won_of_four) for number in range(4))
    ]
    table = report_of(tmp_path, file, results)
    by_seed, by_pair, *of_drawn = (compared.difference for compared in table.differences)
    known = scipy.stats.ttest_1samp([1.0, 0.5, 0.25], 0).confidence_interval(0.95)
    assert (by_seed.estimate.n, by_pair.estimate.n) == (3, 12)
    assert by_seed.estimate.value == pytest.approx(by_pair.estimate.value)
    assert by_seed.estimate.low == pytest.approx(known.low)
    assert by_seed.estimate.high == 1.0 < known.high
    assert "] (3 seeds) |" in markdown(table, sweep="s", verbose=True)
    assert of_drawn[0] == by_seed
    assert [difference.counted for difference in of_drawn] == ["seed", "task", "pair"]


@pytest.mark.parametrize(("measure", "most"), [("portion", 1.0), ("mean", 1.3126)])
def test_a_difference_of_shares_ends_at_one(measure, most, tmp_path):
    """0.75 + t_{0.975, 3} s / √4 with s² = 0.125 would be 1.3126."""
    file = f"""
        title: Compared
        columns: [{{key: a, label: a, measure: {{{measure}: metrics.share}}}}]
        rows: [{{label: all, where: {{}}}}]
        compare: [{{column: a, first: {{planner: too}}, second: {{planner: cot}}}}]
        """
    shares = (1.0, 0.25, 1.0, 0.75)
    results = [
        run(seed=seed, share=share if run is too else 0.0)
        for seed, share in enumerate(shares)
        for run in (too, cot)
    ]
    (compared,) = report_of(tmp_path, file, results).differences
    assert compared.difference.estimate.high == pytest.approx(most, abs=1e-4)


@pytest.mark.parametrize("unit", ["settings.k", "settings.nothing"])
def test_a_unit_that_is_not_shared_is_refused(unit, tmp_path):
    file = f"""
        title: Compared
        columns: [{{key: rate, label: SR, measure: {{rate: success}}, as: percent}}]
        rows: [{{label: all, where: {{}}}}]
        compare:
          - {{column: rate, first: {{planner: too}}, second: {{planner: cot}}, unit: {unit}}}
        """
    with pytest.raises(MeasureError, match=f"unit={unit} is no field of both sides"):
        report_of(tmp_path, file, [too(success=True), cot(success=True)])


COMPARING = """
title: Beside ToO
columns:
  - {key: rate, label: SR, measure: {rate: success, interval: wald}, as: percent}
  - {key: lost, label: lost, measure: {share: {metrics.failure: [budget, depth]}}, as: percent}
  - {key: p, label: p, measure: {fisher: success, against: {planner: too}}}
  - {key: odds, label: odds ratio, measure: {odds: success, against: {planner: too}}}
rows:
  - {label: ToO k=3, where: {planner: too, settings.d: 2}, published: {rate: 9 / 10}}
  - {label: CoT, where: {planner: cot, settings.d: 2}, published: {odds: 37.4}}
  - {label: paper, cited: of another model, published: {p: p < 0.01}}
compare:
  - {column: lost, first: {planner: too}, second: {planner: cot}, published: 4.29}
  - {column: rate, first: {planner: too}, second: {planner: cot}}
"""


def test_a_row_is_tested_against_another(tmp_path):
    results = [
        *(too(seed=seed, success=seed < 8, failure=None) for seed in range(10)),
        *(cot(seed=seed, success=seed < 2, failure=None) for seed in range(2)),
        *(cot(seed=seed, success=False, failure="budget") for seed in range(2, 5)),
        *(cot(seed=seed, success=False, failure="other") for seed in range(5, 10)),
    ]
    table = report_of(tmp_path, COMPARING, results)
    first, second, paper = table.lines
    assert first.cell("p").measured is None  # the same runs on both sides
    assert paper.cell("odds").measured is None
    # 8 of 10 against 2 of 10: the odds are 4 and 1/4.
    assert second.cell("odds").measured.estimate.value == pytest.approx(16.0)
    # (C(10,8) C(10,2) + C(10,9) C(10,1) + 1) · 2 of C(20,10) tables
    expected = 2 * (45 * 45 + 100 + 1) / 184_756
    assert second.cell("p").measured.estimate.value == pytest.approx(expected)
    lost = second.cell("lost").measured
    assert (lost.estimate.value, lost.runs, lost.without) == (0.3, 10, 0)
    text = markdown(table, sweep="s", verbose=True)
    # Wald: 0.8 ± 1.96 · √(0.8 · 0.2 / 10), cut at 1
    assert "| ToO k=3 | 10 runs | 9 / 10 | 80% [55, 100] |" in text
    assert "| | paper | first − second |" in text
    assert "| lost: too − cot | 4.29 | -30% [" in text
    assert "| SR: too − cot | – | 60% [" in text
    assert as_json(table)["differences"][0]["published"] == 4.29


PASSED = """
title: As often as B pays for
columns:
  - key: passed
    label: pass@B
    measure: {passed: success, budget: [metrics.planning, metrics.execution], per: task,
              against: {planner: too}}
    as: percent
rows:
  - {label: ToO, where: {planner: too}}
  - {label: CoT, where: {planner: cot}}
"""


def spent(build, planning, execution, won, **trial):
    return build(success=won, planning=planning, execution=execution, **trial)


def of_budget(folder, results):
    table = report_of(folder, PASSED, results)
    return table, *(line.cell("passed").measured for line in table.lines)


def test_a_budget_pays_for_complete_runs_in_the_order_of_their_seeds(tmp_path):
    results = [
        # B of mine: (80 + 20 + 160 + 40) / 2 = 150
        spent(too, 80, 20, False, seed=0),
        spent(too, 160, 40, True, seed=1),
        # B of cook: 100
        spent(too, 60, 40, True, task="cook"),
        # 60 + 60 of 150 are paid; the third costs more than is left, and no later one is tried
        spent(cot, 50, 10, False, seed=4),
        spent(cot, 50, 10, False, seed=3),
        spent(cot, 30, 1, True, seed=5),
        spent(cot, 1, 0, True, seed=6),
        # the whole of 100, not more
        spent(cot, 50, 10, False, task="cook"),
        spent(cot, 30, 10, True, task="cook", seed=1),
    ]
    _, own, other = of_budget(tmp_path, results)
    # A run of ToO costs B: one run on each task, the first.
    assert (own.estimate.value, own.groups, own.unspent, own.runs) == (0.5, 2, 0, 3)
    assert (other.estimate.value, other.groups, other.unspent, other.runs) == (0.5, 2, 0, 6)


def test_seeds_that_run_out_before_the_budget_are_counted(tmp_path):
    results = [
        *(spent(too, 90, 10, True, task=task) for task in ("mine", "cook", "shear")),
        spent(cot, 10, 10, False),
        spent(cot, 10, 10, False, seed=1),
        spent(cot, 10, 10, True, task="cook"),  # no seeds left either, but it has passed
        spent(cot, 101, 0, True, task="shear"),  # not one complete run
        spent(cot, 1, 0, True, task="swim"),  # without a run of ToO it has no budget
        cot(task="shear", seed=1, failed=True),
    ]
    table, own, other = of_budget(tmp_path, results)
    assert own.estimate.value == 1.0
    assert (other.estimate.value, other.groups) == (pytest.approx(1 / 3), 3)
    assert (other.unspent, other.without, other.failed) == (1, 1, 1)
    assert "1 of 3 ran out of seeds before B was spent; 1 without a value)" in markdown(
        table, sweep="s", verbose=True
    )


def test_a_budget_that_nobody_sets(tmp_path):
    _, own, other = of_budget(tmp_path, [spent(cot, 10, 10, True)])
    assert own.estimate.value is None
    assert (other.estimate.value, other.without) == (None, 1)


def test_a_budget_pays_for_one_run_of_a_seed(tmp_path):
    results = [spent(too, 9, 9, True), spent(too, 9, 9, True, k=1), spent(cot, 1, 1, True)]
    with pytest.raises(MeasureError, match="one run of too on mine per seed"):
        of_budget(tmp_path, results)


def test_an_odds_ratio_that_is_not_finite(tmp_path):
    results = [
        *(too(seed=seed, success=True, failure=None) for seed in range(2)),
        *(
            cot(seed=seed, success=success, failure=None)
            for seed, success in enumerate([False, None])
        ),
    ]
    table = report_of(tmp_path, COMPARING, results)
    assert "– (no finite value: a count is 0; 1 without a value)" in markdown(
        table, sweep="s", verbose=True
    )


def test_bars_in_labels_do_not_break_the_table(tmp_path):
    file = """
        title: Bars
        columns: [{key: calls, label: a|b, measure: {mean: calls}}]
        rows: [{label: x|y, where: {planner: cot}}]
        """
    text = markdown(report_of(tmp_path, file, RESULTS, pending=PENDING), sweep="s", verbose=True)
    assert "| a\\|b (here) |" in text
    assert "| x\\|y |" in text


def test_a_metric_that_no_run_has(tmp_path):
    file = """
        title: Typing error
        columns: [{key: a, label: a, measure: {mean: metrics.nodez}}]
        rows: [{label: all, where: {}}]
        """
    with pytest.raises(UnknownFieldError, match=r"'metrics\.nodez'; did you mean metrics\.nodes"):
        report_of(tmp_path, file, [cot(nodes=3)])
    # While runs are missing, one of them may still have it.
    (line,) = report_of(tmp_path / "other", file, [cot(nodes=3)], pending=PENDING).lines
    assert line.cell("a").measured.estimate.value is None


@pytest.mark.parametrize(
    ("metrics", "measure", "message"),
    [
        ({"x": "high"}, "mean: metrics.x", "'high' in a run of cot, not a number"),
        ({"x": float("nan")}, "mean: metrics.x", "nan in a run of cot, not a number"),
        ({"x": -1}, "cost: metrics.x", "is -1 in a run of cot, and no cost is below 0"),
        ({"x": 1.5}, "portion: metrics.x", "1.5 in a run of cot, not a number from 0 to 1"),
        ({"x": 0.5}, "rate: metrics.x", "0.5 in a run of cot, neither true nor false"),
    ],
)
def test_what_cannot_be_measured(tmp_path, metrics, measure, message):
    file = f"""
        title: Words
        columns: [{{key: a, label: a, measure: {{{measure}}}}}]
        rows: [{{label: all, where: {{}}}}]
        """
    with pytest.raises(MeasureError, match=message):
        report_of(tmp_path, file, [cot(**metrics)])


def test_a_ledger_of_something_else(configs, tmp_path):
    other = [result_of(trial_of("xenon", k=1))]
    with pytest.raises(
        EmptyReportError, match="the sweep has no run for paper table9; its planners are xenon"
    ):
        measured(configs, tmp_path / "sweep", other, ())


def test_nothing_was_run_yet(configs, tmp_path):
    table = measured(configs, tmp_path / "sweep", (), PENDING)
    assert "| ToO | 0 runs, 1 not run yet |" in markdown(table, sweep="s", verbose=True)


def test_pairs_that_differ_in_more_than_is_paired_are_refused(configs, tmp_path):
    results = [cot(), too(k=1), too(k=3)]
    with pytest.raises(MeasureError, match="cannot pair too on mine, seed 0"):
        measured(configs, tmp_path / "sweep", results, ())


@pytest.mark.parametrize(
    "unfinished", [(), [cot(failed=True)], [cot(nodes=None)]], ids=["none", "failed", "no value"]
)
def test_a_side_without_results_has_no_pairs_yet(tmp_path, unfinished):
    file = """
        title: Half done
        columns: [{key: calls, label: calls, measure: {mean: metrics.nodes}}]
        rows: [{label: all, where: {}}]
        compare: [{column: calls, first: {planner: too}, second: {planner: cot}}]
        """
    results = [too(k=1, nodes=1), too(k=3, nodes=0), *unfinished]
    table = report_of(tmp_path, file, results, pending=[trial_of("cot", task="mine", seed=1)])
    (compared,) = table.differences
    assert (compared.difference.estimate.n, compared.difference.alone) == (0, 2)
    assert "0 pairs, 2 runs without a partner" in markdown(table, sweep="s", verbose=True)


def test_files_of_roles_that_are_compared_may_differ_in_hash_and_models(tmp_path):
    file = """
        title: Two oracles
        columns: [{key: nodes, label: nodes, measure: {mean: metrics.nodes}}]
        rows: [{label: all, where: {}}]
        compare:
          - {column: nodes, first: {settings.roles: a.yaml}, second: {settings.roles: b.yaml}}
        """
    results = [
        result_of(
            replace(
                trial_of("cot", roles=f"{name}.yaml", roles_sha256=2 * name, d=d),
                role_models={"propose": name},
            ),
            nodes=nodes,
        )
        for name, d, nodes in (("a", 2, 5), ("b", 2, 3), ("b", 1, 9))
    ]
    (compared,) = report_of(tmp_path, file, results).differences
    assert (compared.difference.estimate.value, compared.difference.alone) == (2, 1)


def test_sweeps_of_a_table(configs):
    names = ("table9-small.yaml", "table9.yaml", "table9-x.published.yaml", "table99.yaml")
    for name in names:
        (configs / "paper" / name).write_text("name: x")
    paper = find_paper("paper", configs)
    assert [path.name for path in paper.sweeps("table9")] == ["table9.yaml", "table9-small.yaml"]
    assert paper.sweeps("table8") == ()


def test_tables_are_listed_in_their_order(configs):
    for name in ("table10", "figure2"):
        (configs / "paper" / f"{name}.published.yaml").write_text(TABLE)
    assert find_paper("paper", configs).tables() == ("figure2", "table9", "table10")
