"""The first plans that a newcomer sees: ten lines and a page of each."""

from pathlib import Path

import demo
import pytest


@pytest.mark.parametrize("part", demo.PARTS, ids=lambda part: part.name)
@pytest.mark.parametrize("length", [0, 1, 6, 7, 13, 40])
def test_a_plan_of_any_length_is_told_in_ten_lines(part, length):
    plan = [f"mine {one} dirt" for one in range(length)]
    outcome = {
        "success": length == 6,
        "plan": plan,
        "usage": {"total": {"calls": 3}},
        "seconds": 1.6,
    }
    lines = demo.told(part, outcome, page=Path(f"{part.name}.html"))
    assert len(lines) <= demo.MOST_LINES
    assert lines[0] == f"Task: {part.task}. The plan:"
    text = "\n".join(lines)
    assert all(f"{place}. {option}" in text for place, option in enumerate(plan, start=1))
    assert ("the goal is reached." in text) is (length == 6)
    assert "It asked 3 questions and took 2 s." in text
    assert lines[-1].endswith(f"/{part.name}.html")


def test_the_demo_by_rules(tmp_path, capfd):
    given = ["--out", str(tmp_path), "--set", "roles=rules", "--model", "none"]
    assert demo.main(given) == 0
    said = capfd.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("Task: ")] == [
        f"Task: {part.task}. The plan:" for part in demo.PARTS
    ]
    assert sum("the goal is reached." in line for line in said) == len(demo.PARTS)
    last = [line for line in said if line.startswith("Why, ")]
    for part, line in zip(demo.PARTS, last, strict=True):
        page = tmp_path / f"{part.name}.html"
        assert line.endswith(page.as_uri())
        assert "Content-Security-Policy" in page.read_text("utf-8")
        assert page.with_suffix(".jsonl").exists()


def test_the_demo_fails_where_a_goal_is_not_reached(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "PARTS", demo.PARTS[1:])
    given = ["--out", str(tmp_path), "--set", "roles=rules", "--model", "none"]
    assert demo.main([*given, "--set", "moves=1"]) == 1
