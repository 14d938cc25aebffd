"""docs/reproduce.md: its commands open in any folder, its reports find what they need."""

import re
from dataclasses import replace
from functools import cache

import pytest
from command_line import invoke
from report_ledgers import result_of, trial_of, write_ledger
from test_contributing import ROOT

from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.instead import Instead
from llm_planning.experiments.papers import PublishedError, find_paper
from llm_planning.experiments.sweep_files import find_sweep, packaged_sweeps
from llm_planning.registry import find_planner

PAPERS = ("llm_mcts", "mc_dml", "xenon", "too", "drip")
MODEL = "qwen2.5-7b-instruct"
PAGE = (ROOT / "docs" / "reproduce.md").read_text("utf-8")
SWEEP = re.compile(r"`sweep run (\S+?)((?: --\S+(?: \w+)?)*)`")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "`sweep run" in line]
SWEEPS = {name: "--model" in options for line in ROWS for name, options in SWEEP.findall(line)}

OF_PAPERS = {
    "llm_mcts": "Table 1, Table 2, Table 3, Figure 2, Figures 5, 6",
    "mc_dml": "Table 1, Table 2, Table 3, Table 4, Table 5, Appendix D",
    "xenon": "Table 2, 13, Figure 5; Tables 3, 15, 18 to 21; Table 4, Figure 6; Table 5; Table 6; "
    "Figure 7; Figure 8; Table 12; Table 14; Table 16, Figure 22; Table 17; Figure 23; Figure 24; "
    "Figure 25; Figure 26",
    "too": "Table 1, Table 2, Table 4, Table 5, Figure 9; Figure 3; Figures 2, 5 to 8",
    "drip": "Table 1, Table 2, Figure 5, Figure 6, Table 3, Table 4, Figure 7",
}
"""Paper -> its tables and figures that are results of runs."""


@cache
def trials(name, model):
    return load_sweep(find_sweep(name), instead=Instead(model=model)).trials


def reports(line):
    """Paper and table of each report in a line of the page, and whether it is `--asked`."""
    sweep = SWEEP.search(line)[1].partition("/")[0]
    for table, asked in re.findall(r"`report paper \w+ (\S+?)( --asked)?`", line):
        yield sweep, table, bool(asked)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_of_the_papers_is_there(paper):
    sections = [part for part in PAGE.split("\n## ") if f"sweep run {paper}/" in part]
    (section,) = (part for part in sections if part.startswith(tuple("LMXTD")))
    first = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    named = "; ".join(first)
    for words in re.split(r", (?=Table|Figure|Appendix)|; ", OF_PAPERS[paper]):
        assert words in named, words


def test_every_sweep_that_asks_as_the_paper_does_is_on_the_page():
    asked = {name for name in packaged_sweeps() if name.endswith("-asked")}
    assert asked <= set(SWEEPS)


@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep_opens_in_an_empty_folder_with_a_model_of_ones_own(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep = trials(name, MODEL if SWEEPS[name] else "")
    asking = [trial for trial in sweep if trial.model != "none"]
    assert bool(asking) == (SWEEPS[name] or name.endswith("-asked"))
    if SWEEPS[name]:
        assert {trial.model for trial in asking} == {MODEL}
    assert not any(tmp_path.iterdir())


def test_a_sweep_that_asks_leaves_no_role_to_rules_but_those_of_manual():
    for name in SWEEPS:
        if not name.endswith("-asked"):
            continue
        roles = {trial.settings.get("roles", "llm") for trial in trials(name, MODEL)}
        assert roles - {"configs/drip/oracles/manual.yaml"} <= {"llm"}


def selected(where, trial):
    """Whether the fields that a trial has before it runs fit."""
    for field, values in where.items():
        if field.startswith("settings."):
            value = trial.settings.get(field.removeprefix("settings."))
        elif field.startswith("metrics.") or field == "success":
            continue
        else:
            value = getattr(trial, field)
        if value not in values:
            return False
    return True


CASES = [(SWEEP.search(line)[1], *report) for line in ROWS for report in reports(line)]


@pytest.mark.parametrize(("sweep", "paper", "table", "asked"), CASES)
def test_the_papers_figures_stand_beside_rows_that_the_named_model_answers(
    sweep, paper, table, asked
):
    told = find_paper(paper)
    published = (told.answered() if asked else told).table(table)
    mine = trials(sweep, MODEL if SWEEPS[sweep] else "")
    rows = [row for row in published.rows if row.where is not None]
    figures = [row for row in rows if row.published]
    for row in figures:
        (where,) = ({**published.where, **row.where},)
        fitting = [trial for trial in mine if selected(where, trial)]
        assert fitting, row.label
        columns = [c for c in published.columns if c.key in row.published and c.measure]
        for column in columns:
            runs = [trial for trial in fitting if selected(column.where, trial)]
            assert runs, (row.label, column.key)
            if SWEEPS[sweep]:
                assert asks_or_asks_nobody(runs), (row.label, column.key)
    if not figures:
        each = [row.each for row in published.rows if row.each]
        assert any(
            selected({f: v for f, v in where.items() if v != "all"}, trial)
            for where in (*each, *(row.where for row in rows))
            for trial in mine
        )


def asks_or_asks_nobody(runs):
    return all(trial.model == MODEL or not find_planner(trial.planner).roles for trial in runs)


def test_only_figures_that_stand_beside_an_oracle_are_moved():
    with pytest.raises(PublishedError, match="those of too stand beside a model's already"):
        find_paper("too").answered()
    ended = invoke("report", "paper", "too", "table1", "--asked")
    assert (ended.exit_code, "leave it out" in ended.stderr) == (2, True)


def test_the_papers_figure_is_told_beside_what_the_model_reached(tmp_path):
    asked = {"model": MODEL, "domain": "minecraft-goals", "task": "67-goals"}
    where = {"roles": "llm", "controller": "minerl"}
    trials = [replace(trial_of("xenon", seed=seed, **where), **asked) for seed in range(2)]
    learnt = zip(trials, (0.25, 0.26), strict=True)
    results = [result_of(trial, learnt_unobtainable=share) for trial, share in learnt]
    folder = write_ledger(tmp_path / "sweep", results)
    show = ("report", "paper", "xenon", "table13", "--from", str(folder))
    plain, moved = invoke(*show).stdout, invoke(*show, "--asked").stdout
    assert "| XENON | 2 runs | 0.51 | – (0 runs) | 0.255 [0.191, 0.319] |" in plain
    assert "| XENON | 2 runs | 0.51 | 0.255 [0.191, 0.319] |" in moved
    assert "0 of 1 printed figure" in moved


@pytest.mark.parametrize("table", find_paper("xenon").tables())
def test_no_row_of_an_oracle_is_left_and_none_is_there_twice(table):
    plain, moved = (paper.table(table) for paper in (find_paper("xenon"), ASKED))
    wheres = [row.where or row.each for row in moved.rows if not row.cited]
    assert "table12" not in str([*wheres, *(column.where for column in moved.columns)])
    assert len({str(sorted(map(str, where.items()))) for where in wheres}) == len(wheres)
    assert sum(bool(row.published) for row in moved.rows) == sum(
        bool(row.published) for row in plain.rows
    )


ASKED = find_paper("xenon").answered()
