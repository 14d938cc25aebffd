"""The first plan that a newcomer sees: ten lines, and a page."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "demo.py"


def load():
    spec = importlib.util.spec_from_file_location("demo", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


demo = load()


@pytest.mark.parametrize("length", [0, 1, 6, 7, 13, 40])
def test_a_plan_of_any_length_is_told_in_ten_lines(length):
    plan = [f"mine {one} dirt" for one in range(length)]
    outcome = {
        "success": length == 6,
        "plan": plan,
        "usage": {"total": {"calls": 3}},
        "seconds": 1.6,
    }
    lines = demo.told(outcome, page=Path("demo.html"))
    assert len(lines) <= demo.MOST_LINES
    text = "\n".join(lines)
    assert all(f"{place}. {option}" in text for place, option in enumerate(plan, start=1))
    assert ("the goal is reached." in text) is (length == 6)
    assert "It asked 3 questions and took 2 s." in text
    assert lines[-1].endswith("/demo.html")


def test_the_demo_by_rules(tmp_path, capfd):
    page = tmp_path / "demo.html"
    given = ["--out", str(page), "--set", "roles=rules", "--model", "none"]
    assert demo.main(given) == 0
    said = capfd.readouterr().out.splitlines()
    assert len(said) == demo.MOST_LINES
    assert said[-1].endswith(page.as_uri())
    assert "Content-Security-Policy" in page.read_text("utf-8")
    assert page.with_suffix(".jsonl").exists()
