"""The pages of docs/results say what their kept data say."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


results_pages = load(ROOT / "scripts" / "results_pages.py")
RESULTS = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def pages():
    return results_pages.pages()


def test_pages_are_made_from_templates_and_data(pages):
    on_disk = {
        page: page.read_text(encoding="utf-8")
        for page in RESULTS.rglob("*.md")
        if "exports" not in page.parts
    }
    assert sorted(on_disk) == sorted(pages)
    differing = [str(page) for page in pages if pages[page] != on_disk[page]]
    assert not differing, "run python scripts/results_pages.py"


def test_no_table_is_typed():
    for template in RESULTS.glob("templates/**/*.j2"):
        lines = template.read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if line.startswith("|")], template


def test_all_kept_data_are_shown(pages):
    shown = "\n".join(pages.values())
    kept = [*RESULTS.glob("exports/*.parquet"), *RESULTS.glob("exports/printed/*.csv")]
    assert kept
    assert [file.name for file in kept if f"/{file.name})" not in shown] == []


def test_printed_figures_say_where_they_are_from():
    for file in RESULTS.glob("exports/printed/*.csv"):
        assert file.read_text(encoding="utf-8").startswith("# Figures as "), file


@pytest.mark.parametrize(
    ("row", "column"), [("Nobody", "here"), ("Somebody", "there")], ids=["row", "column"]
)
def test_figures_that_a_table_lacks_are_errors(row, column):
    table = results_pages.Source(
        source="Made up.", heads=["", "here"], rows=[["Somebody", "0.5 [0.4, 0.6]"]]
    )
    assert table.figure("Somebody", "here") == "0.5"
    with pytest.raises(results_pages.PageError, match="Made up"):
        table.cell(row, column)


def test_a_difference_is_found_by_its_label():
    table = results_pages.Source(
        source="Made up.",
        heads=["", "here"],
        rows=[],
        differences=[["", "first − second"], ["here: A − B", "3% [1%, 5%] (9 pairs)"]],
    )
    assert table.difference("here: A − B") == "3% [1%, 5%]"
    with pytest.raises(results_pages.PageError, match="no difference 'here: B − A' in: Made up"):
        table.difference("here: B − A")


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


@pytest.fixture
def description_length(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return load(ROOT / "scripts" / "description_length.py")


def test_what_is_not_exported_is_left_out_and_told(
    description_length, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(description_length, "EXPORTS", tmp_path)
    picture = tmp_path / "lengths.svg"
    assert description_length.main([str(picture)]) == 1
    assert not picture.exists()
    name = "llm-mcts-multiplication.parquet"
    (tmp_path / name).write_bytes((RESULTS / "exports" / name).read_bytes())
    capsys.readouterr()
    assert description_length.main([str(picture)]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in told] == [
        f"{name}.parquet" for name in description_length.NAMES[1:]
    ]
    assert picture.read_bytes().startswith(b"<?xml")
