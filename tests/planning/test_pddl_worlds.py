"""The script that plans in every PDDL problem of a folder."""

import csv
import sys

import pytest
from test_bridges_pddl_relaxed import CUP, TEA

pytest.importorskip("unified_planning")
pytest.importorskip("up_fast_downward")

import pddl_worlds
from pddl_worlds import Tried, tried

CHANCE = TEA.replace("(full ?v))", "(probabilistic 0.5 (full ?v)))")


@pytest.fixture
def folder(tmp_path):
    for name, text in {"tea": TEA, "chance": CHANCE, "lonely": TEA}.items():
        (tmp_path / f"{name}.pddl").write_text(text)
    for name in ("tea/p1", "tea/p2", "tea_test/p3", "chance/p1"):
        path = tmp_path / f"{name}.pddl"
        path.parent.mkdir(exist_ok=True)
        path.write_text(CUP)
    return tmp_path


def test_a_problem_is_opened_planned_and_validated(folder):
    found = tried("tea/p1", folder / "tea.pddl", folder / "tea/p1.pddl")
    assert (found.found, found.why) == ("opened", "")
    assert (found.planned, found.valid, found.length, found.shortest) == (True, True, 4, 4)
    assert found.searched == found.search_valid
    assert found.search_length


def test_what_is_not_opened_says_why(folder):
    found = tried("chance/p1", folder / "chance.pddl", folder / "chance/p1.pddl")
    assert found.found == "no domain"
    assert found.why.startswith("domain=chance.pddl is not read as PDDL: ")
    assert found.why.endswith("does not know effects by chance, written probabilistic")


def test_a_table_goes_on_where_it_was_ended(folder, monkeypatch):
    # One problem of each domain, then the next ones.
    names = list(pddl_worlds.problems(folder))
    assert names == ["chance/p1", "tea/p1", "tea/p2", "tea_test/p3"]
    asked = []
    monkeypatch.setattr(
        pddl_worlds, "tried", lambda name, *_: asked.append(name) or Tried(name, "opened")
    )
    table = folder / "table.csv"
    table.write_text("problem,found\nchance/p1,opened\ntea/p2,opened\n")
    monkeypatch.setattr(sys, "argv", ["pddl_worlds.py", str(folder), str(table)])
    pddl_worlds.main()
    assert asked == ["tea/p1", "tea_test/p3"]
    with table.open() as file:
        tried_names = [row["problem"] for row in csv.DictReader(file)]
    assert tried_names == ["chance/p1", "tea/p2", "tea/p1", "tea_test/p3"]
