"""What counts in a verdict: no figure that could not miss, and no seed that changed nothing."""

from dataclasses import replace
from pathlib import Path

import pytest
import results_pages
from report_ledgers import report_of, result_of, trial_of, write_ledger

from llm_planning.experiments.export import export, read_export
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.paper_report import markdown, report
from llm_planning.experiments.papers import PublishedError, find_paper
from llm_planning.experiments.report_verdict import verdict_counts, verdict_text
from llm_planning.experiments.runs import mark_equal_seeds, read_trials, runs_of

EXPORTS = Path(__file__).parents[2] / "docs" / "results" / "exports"

TABLE = """
    title: Verdict
    columns:
      - {key: rate, label: SR, measure: {rate: success}, as: percent}
      - {key: calls, label: calls, measure: {mean: calls}}
    rows:
      - {label: CoT, where: {planner: cot}, published: {rate: 0%, calls: 6}}
      - {label: ToO, where: {planner: too}, published: {rate: 100%, calls: 4}}
    """
MARKED = """
    no_evidence:
      - {rows: [CoT], columns: [rate, calls], mark: other budget, why: It had less time.}
      - {rows: [ToO], columns: [calls], mark: fitted, why: It was chosen so.}
    """


def results(*, won):
    """CoT reaches nothing, ToO so many of four; both make 4, 5, 6 and 7 calls."""
    return [
        result_of(trial_of(planner, seed=seed), calls=4 + seed, success=seed < reached)
        for planner, reached in (("cot", 0), ("too", won))
        for seed in range(4)
    ]


def test_what_holds_at_an_end_of_its_scale_does_not_count(tmp_path):
    counts = verdict_counts(table := report_of(tmp_path, TABLE, results(won=4)))
    assert (counts["printed"], counts["measured"], counts["hold"]) == (4, 2, 2)
    assert counts["at_an_end"] == 2
    assert verdict_text(table) == (
        "2 of 2 printed figures hold: they lie in the interval that was measured here; "
        "not counted: 2 at 0 or all, where little can miss."
    )


def test_what_misses_an_end_of_its_scale_counts(tmp_path):
    counts = verdict_counts(report_of(tmp_path, TABLE, results(won=1)))
    assert (counts["measured"], counts["hold"], counts["at_an_end"]) == (3, 2, 1)


def test_cells_that_are_no_evidence_say_so_and_do_not_count(tmp_path):
    table = report_of(tmp_path, TABLE + MARKED, results(won=4))
    counts = verdict_counts(table)
    assert (counts["measured"], counts["other_budget"], counts["fitted"]) == (0, 2, 1)
    text = markdown(table, sweep="s", verbose=False)
    assert (
        "**No printed figure says whether the paper holds here; not counted: 1 at 0 or all, where "
        "little can miss, 1 fitted, 2 of another budget.**"
    ) in text
    assert "| 0% | 0% [0, 49] (other budget) | 6 | 5.5 [3.45, 7.55] (other budget) |" in text


@pytest.mark.parametrize(
    ("row", "column", "says"), [("ReAct", "calls", "no row 'ReAct'"), ("CoT", "cals", "calls")]
)
def test_no_evidence_names_rows_and_columns_of_its_table(tmp_path, row, column, says):
    wrong = f"no_evidence: [{{rows: [{row}], columns: [{column}], mark: fitted, why: x}}]"
    with pytest.raises(PublishedError, match=says):
        report_of(tmp_path, f"{TABLE}{wrong}\n", results(won=4))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        # UCT's zeros, which has 100 simulations for the paper's 120 seconds.
        ("llm_mcts/table1", "10 of another budget"),
        # The controller was fitted to the rows beside which 0.586 stands.
        ("xenon/table3", "16 fitted"),
        ("xenon/table5", "12 fitted"),
        ("xenon/table12", "10 given to who answers"),
    ],
)
def test_tables_whose_figures_were_fitted_or_had_another_budget_say_so(table, said):
    paper, name = table.split("/")
    kept = EXPORTS / f"{paper.replace('_', '-')}-{name}.parquet"
    assert said in verdict_text(report(find_paper(paper), name, runs_of(read_export(kept))))


def test_a_page_tells_no_fitted_figure_without_the_word():
    table = results_pages.exported("xenon-table3", paper="xenon", table="table3")
    learnt = "XENON (learned graph), prior of Table 12"
    assert table.figure(learnt, "Overall (here)") == "0.586 (fitted)"
    kept = results_pages.exported("xenon-table5", paper="xenon", table="table5")
    row = "dependencies ○, actions ○ (XENON)"
    assert kept.figure(row, "(0,0), prior of Table 12 (here)") == "0.98"
    lost = results_pages.printed("xenon-table5")
    assert lost.figure(row, "(0,0), prior of the model (here)") == "0.866 (ledger not kept)"


def test_a_percentage_without_its_sign_is_compared_as_one(tmp_path):
    """LLM-MCTS prints 83.4 ± 6.8 and XENON 85.29 where others print 85%."""
    printed = TABLE.replace("100%", "71.9 ± 5.6").replace("0%", "25")
    table = report_of(tmp_path, printed, results(won=3))
    assert [cell.published_value for cell in table.lines[1].cells] == pytest.approx([0.719, 4])
    counts = verdict_counts(table)
    assert (counts["measured"], counts["hold"]) == (4, 4)


def doing(planner, seed, *, done):
    """A result whose trace says what was done, and which seed it had."""
    return replace(
        result_of(trial_of(planner, seed=seed), success=True),
        plan=tuple(done),
        trace={"seed": seed},
        events=[{"type": "execution", "at": 1.0, "option": option} for option in done],
    )


@pytest.mark.parametrize("exported", [False, True])
def test_seeds_that_change_nothing_are_one_run_of_a_table(tmp_path, exported):
    same = [doing("cot", seed, done="ab") for seed in range(4)]
    others = [doing("too", seed, done="ab" if seed else "ba") for seed in range(4)]
    folder = write_ledger(tmp_path, same + others)
    with Ledger.open(folder) as ledger:
        if exported:
            export(ledger, tmp_path / "runs.parquet")
            runs = runs_of(read_export(tmp_path / "runs.parquet"))
        else:
            runs = mark_equal_seeds(read_trials(ledger), ledger)
    configs = tmp_path / "configs" / "p"
    configs.mkdir(parents=True)
    (configs / "paper.yaml").write_text("title: P\ncitation: c")
    (configs / "t.published.yaml").write_text(
        "title: T\ncolumns: [{key: rate, label: SR, measure: {rate: success}, as: percent}]\n"
        "rows: [{label: CoT, where: {planner: cot}}, {label: ToO, where: {planner: too}}]\n"
    )
    text = markdown(report(find_paper("p", configs.parent), "t", runs), sweep="s", verbose=False)
    assert "| CoT | 4 runs | – | 100% (no interval: one run; 4 runs, equal for all seeds) |" in text
    assert "| ToO | 4 runs | – | 100% [51, 100] |" in text
