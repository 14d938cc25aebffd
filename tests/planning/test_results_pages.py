"""The pages of docs/results say what their kept data say."""

import math
import sys
from itertools import pairwise
from pathlib import Path

import description_length
import pytest
import results_pages
import results_source
from pyarrow import parquet

ROOT = Path(__file__).parents[2]


RESULTS = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def pages():
    """Path -> text of the pages as they are kept."""
    return {
        page: page.read_text(encoding="utf-8")
        for page in RESULTS.rglob("*.md")
        if "exports" not in page.parts
    }


@pytest.mark.slow
def test_pages_are_made_from_templates_and_data(pages):
    made = results_pages.pages()
    assert sorted(pages) == sorted(made)
    differing = [str(page) for page in made if made[page] != pages[page]]
    assert not differing, "run python scripts/results_pages.py"


def test_no_table_is_typed():
    for template in RESULTS.glob("templates/**/*.j2"):
        lines = template.read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if line.startswith("|")], template


def test_all_kept_data_are_shown(pages):
    text = "\n".join(pages.values())
    kept = [*RESULTS.glob("exports/*.parquet"), *RESULTS.glob("exports/**/*.csv")]
    assert kept
    assert [file.name for file in kept if f"/{file.name})" not in text] == []


def test_kept_data_name_no_files_and_no_machines():
    for file in RESULTS.glob("exports/*.parquet"):
        names = set(parquet.read_schema(file).names)
        assert names.isdisjoint({"key", "trace", "provenance.system"}), file


def test_pages_say_which_rows_are_of_changes_that_nobody_has(pages):
    """Whoever wants to run them again has no commit to go back to."""
    text = "\n".join(pages.values())
    silent = []
    for file in RESULTS.glob("exports/*.parquet"):
        if "provenance.dirty" in parquet.read_schema(file).names:
            dirty = parquet.read_table(file, columns=["provenance.dirty"]).column(0)
            said = [line for line in text.splitlines() if f"/{file.name})" in line]
            if any(value is True for value in dirty.to_pylist()):
                silent += [
                    file.name
                    for line in said
                    if line.startswith("*Measured from") and results_pages.UNCOMMITTED not in line
                ]
    assert silent == []


def test_printed_figures_say_where_they_are_from():
    for file in RESULTS.glob("exports/printed/*.csv"):
        assert file.read_text(encoding="utf-8").startswith("# Figures as "), file


@pytest.mark.parametrize(
    ("row", "column"), [("Nobody", "here"), ("Somebody", "there")], ids=["row", "column"]
)
def test_figures_that_a_table_lacks_are_errors(row, column):
    table = results_source.Source(
        source="Made up.", heads=["", "here"], rows=[["Somebody", "0.5 [0.4, 0.6]"]]
    )
    assert table.figure("Somebody", "here") == "0.5"
    with pytest.raises(results_source.PageError, match="Made up"):
        table.cell(row, column)


def test_some_rows_of_a_table():
    table = results_source.Source(
        source="Made up.", heads=["", "here"], rows=[["A, 5%", "1"], ["B, 5%", "2"], ["A, 9%", "3"]]
    )
    assert table.having("A,").rows == [["A, 5%", "1"], ["A, 9%", "3"]]
    assert table.having("B,", "9%").rows == [["B, 5%", "2"], ["A, 9%", "3"]]
    with pytest.raises(results_source.PageError, match="C"):
        table.having("C")


def test_the_rows_at_an_end_of_a_column():
    table = results_source.Source(
        source="Made up.",
        heads=["", "won", "asked"],
        rows=[
            ["A", "80% [60, 90]", "1,200 [9, 2,000]"],
            ["B", "80%", "960"],
            ["C", "9%", "97.6"],
            ["D", "–", "–"],
        ],
    )
    assert [row[0] for row in table.most("won").rows] == ["A", "B"]
    assert [row[0] for row in table.most("won").least("asked").rows] == ["B"]
    assert [row[0] for row in table.most("asked").rows] == ["A"]


def test_a_part_of_a_table_has_the_columns_that_were_named_and_their_runs():
    table = results_source.Source(
        source="Made up.",
        heads=["", results_source.RUNS_HERE, "SR (here)", "time (here)", "SR (paper)"],
        rows=[["Somebody", "5 runs", "50%", "3", "2 / 3"]],
    )
    part = table.part("SR (paper)", "SR (here)")
    assert part.heads == ["", results_source.RUNS_HERE, "SR (paper)", "SR (here)"]
    assert part.rows == [["Somebody", "5 runs", "2 / 3", "50%"]]
    with pytest.raises(results_source.PageError, match="no column 'SR' in: Made up"):
        table.part("SR")


def test_a_difference_is_told_in_points():
    table = results_source.Source(
        source="Made up.",
        heads=[""],
        rows=[],
        differences=[["", "first − second"], ["SR: a − b", "17% [3, 29] (20 seeds)"]],
    )
    assert table.difference("SR: a − b") == "17 [3, 29]"
    with pytest.raises(results_source.PageError, match="no difference 'SR: b' in: Made up"):
        table.difference("SR: b")


@pytest.mark.parametrize(
    ("heads", "rows", "table"),
    [
        (
            ["", "runs here", "goals (here)"],
            [["A", "5 runs", "80% [38, 96]"], ["B", "5 runs", "0% [0, 43]"]],
            "|  | goals |\n| --- | --- |\n| A | 80% [38, 96] |\n| B | 0% [0, 43] |\n\n"
            "*Made up: 10 runs, 5 runs a row.*",
        ),
        (
            ["", "runs here", "goals (paper)", "goals (here)"],
            [["A", "5 runs", "90%", "80%"], ["C (cited only)", "–", "70%", "–"]],
            "|  | goals (paper) | goals (here) |\n| --- | --- | --- |\n| A | 90% | 80% |\n"
            "| C (cited only) | 70% | – |\n\n*Made up: 10 runs, 5 runs a row.*",
        ),
        (
            ["", "runs here", "goals (here)"],
            [["A", "5 runs", "80%"], ["B", "4 runs, 1 failed", "0%"]],
            "|  | runs here | goals |\n| --- | --- | --- |\n| A | 5 runs | 80% |\n"
            "| B | 4 runs, 1 failed | 0% |\n\n*Made up: 10 runs.*",
        ),
    ],
    ids=["nothing published", "one row only cited", "unequal runs"],
)
def test_what_all_rows_have_in_common_is_said_once(heads, rows, table):
    source = results_source.Source(source="Made up: 10 runs.", heads=heads, rows=rows)
    assert source.table == table


def test_a_part_of_a_table_has_one_side_of_its_figures():
    whole = results_source.Source(
        source="Made up: 10 runs.",
        heads=["", "runs here", "goals (paper)", "goals (here)", "seconds (here)"],
        rows=[
            ["A, at home", "5 runs", "90%", "80%", "3"],
            ["B, at home (cited only)", "–", "70%", "–", "–"],
            ["A, outdoors", "5 runs", "–", "60%", "4"],
        ],
    )
    here = whole.side(", at home", without=["seconds"])
    assert (here.heads, here.rows) == (["", "runs here", "goals"], [["A", "5 runs", "80%"]])
    assert here.source == whole.source
    paper = whole.side(figures="paper")
    assert paper.heads == ["", "goals"]
    assert paper.rows == [["A, at home", "90%"], ["B, at home", "70%"]]
    assert paper.source == "As the paper prints them."
    with pytest.raises(results_source.PageError, match="no row ends in ', indoors'"):
        whole.side(", indoors")


def test_pages_fit_a_screen(pages):
    for page, text in pages.items():
        assert len(text.encode()) <= 20_000, page
        heads = [line for line, below in pairwise(text.splitlines()) if below.startswith("| ---")]
        assert [line for line in heads if line.count("|") > 9] == [], page


def test_check_names_what_differs(tmp_path, monkeypatch, capsys):
    templates = tmp_path / "templates"
    (templates / "deep").mkdir(parents=True)
    (templates / "deep" / "page.md.j2").write_text("{{ 1 + 1 }}\n")
    monkeypatch.setattr(results_pages, "RESULTS", tmp_path)
    monkeypatch.setattr(results_pages, "TEMPLATES", templates)
    page = tmp_path / "deep" / "page.md"

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["results_pages.py", *options])
        return results_pages.main(), capsys.readouterr().out

    assert run("--check") == (1, "deep/page.md differs\n")
    assert not page.exists()
    assert run() == (0, "deep/page.md written\n")
    assert page.read_text() == "2\n"
    assert run("--check") == (0, "")
    page.write_text("3\n")
    assert run("--check") == (1, "deep/page.md differs\n")


# Accuracy against description length


def test_journeys_have_their_description_length(pages):
    """725 cities and 25,421 flights: n² log2(n) bits, and log2(n) bits for each flight."""
    runs = results_pages.read_runs(RESULTS / "exports" / "travel-small.parquet")
    bits = {run["planner"]: run[results_pages.BITS] for run in runs.done}
    each = math.log2(725)
    assert bits == {"l-policy": 725**2 * each, "l-model": 25_421 * each}
    table = pages[RESULTS / "llm_mcts" / "description-length.md"].partition("## Accuracy")[2]
    lines = [line.split(" | ") for line in table.splitlines() if ", travel, " in line]
    assert [(line[0].partition(",")[0], line[2].partition(" ")[0]) for line in lines] == [
        (f"| {planner}", f"{bits:,}")
        for planner, bits in (("L-Policy", 4_994_403), ("L-Model", 241_546))
        for _ in ("oracles", "model")
    ]


def test_what_is_not_exported_is_left_out_and_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(description_length, "EXPORTS", tmp_path)
    picture = tmp_path / "lengths.svg"
    assert description_length.main([str(picture)]) == 1
    assert not picture.exists()
    name = "llm-mcts-multiplication.parquet"
    (tmp_path / name).write_bytes((RESULTS / "exports" / name).read_bytes())
    capsys.readouterr()
    assert description_length.main([str(picture)]) == 0
    notes = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in notes] == [
        f"{name}.parquet" for name in description_length.NAMES[1:]
    ]
    assert picture.read_bytes().startswith(b"<?xml")
