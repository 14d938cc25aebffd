"""`llm-planning report paper`."""

import csv
import json

import pytest
from command_line import answer, invoke, refused
from report_ledgers import PROVENANCE, resources, result_of, trial_of, write_ledger


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def swept(here):
    """The default folder of Table 2, with its sweep."""
    results = [
        result_of(trial_of(planner, seed=seed), **resources(planning=calls + seed, execution=9))
        for planner, calls in (("cot", 1), ("tot-mcts", 60), ("too", 90))
        for seed in range(2)
    ]
    return write_ledger(here / "sweeps" / "too-table2", results)


def report_paper(*arguments):
    return invoke("report", "paper", *arguments)


def test_lists_tables_with_what_is_measured(here):
    result = report_paper("too")
    assert result.exit_code == 0
    for text in ("table2", "figure3", "planning #APIs", "pass@B", "ReAct-Option"):
        assert text in result.stdout
    assert "llm-planning sweep run" in result.stdout
    assert "llm-planning sweep run too/table2-small" in result.stdout


def test_lists_tables_as_json(here):
    listed = answer("report", "paper", "too")
    tables = {table["name"]: table for table in listed["tables"]}
    assert {"table1", "table2", "table4", "table5", "figure3", "oracles"} <= set(tables)
    assert tables["table2"]["cited"] == []
    assert tables["table2"]["sweeps"] == ["too/table2", "too/table2-small"]
    assert tables["figure3"]["sweeps"] == ["too/figure3", "too/figure3-small"]


def test_prints_markdown(swept):
    result = report_paper("too", "table2")
    assert result.exit_code == 0
    assert "| ToO | 2 runs | 0.9k | 0.0905k [0.0841k, 0.0969k] |" in result.stdout
    assert "| ReAct-Option | 0 runs | 0.03k | – |" in result.stdout
    assert "| 112k | 0.99k (equal) |" in result.stdout
    assert "(sweeps/too-table2)" in result.stdout


def test_reads_another_folder(swept, here):
    swept.rename(here / "elsewhere")
    result = report_paper("too", "table2", "--from", "elsewhere")
    assert result.exit_code == 0
    assert "| ToO | 2 runs |" in result.stdout


def test_reads_an_export_of_the_sweep(swept, here):
    whole = report_paper("too", "table2").stdout
    assert invoke("sweep", "export", "sweeps/too-table2", "--out", "too.parquet").exit_code == 0
    swept.rename(here / "gone")
    result = report_paper("too", "table2", "--from", "too.parquet")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == whole.replace("(sweeps/too-table2)", "(too.parquet)")
    read = answer("report", "paper", "too", "table2", "--from", "too.parquet")
    (of_runs,) = read["provenance"].values()
    assert (of_runs["commit"], of_runs["model.name"]) == ("0123abc", "scripted")


def test_prints_json_with_provenance(swept):
    result = report_paper("too", "table2", "--json")
    (line,) = result.stdout.splitlines()
    report = json.loads(line)
    assert list(report["provenance"].values()) == [PROVENANCE]
    assert report["rows"][3]["cells"]["planning-calls"]["measured"]["runs"] == 2
    verdict = report["verdict"]
    assert f"**{verdict['text']}**" in report_paper("too", "table2").stdout.splitlines()[:6]
    assert verdict["text"].startswith(f"{verdict['hold']} of {verdict['measured']} printed figures")
    assert 0 < verdict["measured"] < verdict["printed"]


def test_writes_csv_and_picture(swept, here):
    (here / "t.csv").write_text("old")
    result = report_paper("too", "table2", "--csv", "t.csv", "--plot", "t.png")
    assert result.exit_code == 0
    with (here / "t.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 4 * 6
    assert (here / "t.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert sorted(path.name for path in here.iterdir()) == ["sweeps", "t.csv", "t.png"]


def test_writes_to_nothing_but_files(swept):
    line = refused("report", "paper", "too", "table2", "--csv", "/dev/null")
    assert "that is not a regular file" in line


def test_a_sweep_that_was_not_run(here):
    line = refused("report", "paper", "too", "table2", code=1)
    assert "no sweep was run in sweeps/too-table2" in line
    for name in ("too/table2", "too/table2-small"):
        assert f"`llm-planning sweep run {name}`" in line


def test_a_smaller_sweep_that_was_run_is_proposed(here):
    write_ledger(here / "sweeps" / "too-table2-small", [result_of(trial_of("too"))])
    assert "--from sweeps/too-table2-small" in report_paper("too", "table2").stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("tou",), 2, "unknown paper 'tou'; did you mean too"),
        (("too", "table3"), 2, "unknown table 'table3' of too; did you mean table"),
        (("too", "table2", "--plot", "x.gif"), 2, "a picture's name ends in .png, .svg, .pdf"),
        (("too", "table2", "--csv", "no/x.csv"), 2, "--csv: cannot write no/x.csv: the folder"),
        (("too", "table2", "--from", "nowhere"), 1, "no sweep was run in nowhere"),
        (("too", "table2", "--from", "empty"), 1, "empty"),
    ],
)
def test_errors_are_one_message(here, arguments, code, message):
    (here / "empty").mkdir()
    assert message in refused("report", "paper", *arguments, code=code)
