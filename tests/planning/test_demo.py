"""The first plans that a newcomer sees: a few lines and a page of each, and one table of all."""

from pathlib import Path

import demo
import pytest

RULES = ("--set", "roles=rules", "--model", "none")


def made(length=1, *, success=True, oracles=()):
    tokens = {"prompt_tokens": 1200, "completion_tokens": 34, "cached_tokens": 800}
    return {
        "success": success,
        "model": "small",
        "plan": [f"mine {index} dirt" for index in range(length)],
        "oracles": [{"role": role} for role in oracles],
        "usage": {"total": {"calls": 3, **tokens}, "roles": {"decompose": {"calls": 3}}},
        "seconds": 1.6,
    }


@pytest.mark.parametrize("part", demo.PARTS, ids=lambda part: part.name)
@pytest.mark.parametrize("length", [0, 6, 40])
def test_a_plan_of_any_length_is_told(part, length):
    outcome = made(length, success=length == 6, oracles=["judge", "apply"])
    lines = demo.lines_of(part, outcome)
    assert lines[0] == f"{part.world}: {part.task}"
    assert max(map(len, lines)) <= demo.WIDTH
    for place, action in enumerate(outcome["plan"], start=1):
        assert any(f"{place}. {action}" in line for line in lines)
    assert lines[-4:-2] == ["Answered by small: decompose.", "Answered by rules: judge, apply."]
    verdict = "reached" if length == 6 else "not reached"
    assert lines[-2:] == [f"Carried out in the world: the goal is {verdict}.", ""]
    assert ("  no plan" in lines) is (length == 0)


def test_who_was_not_asked_is_not_named():
    lines = demo.lines_of(demo.PARTS[0], made())
    assert not any("rules" in line for line in lines)


def test_one_table_has_the_verdicts_and_the_costs():
    outcomes = [made(success=success) for success in (True, False, True)]
    head, *rows, total, pages = demo.summed_up(
        demo.PARTS, outcomes, folder=Path("pages"), seconds=200.4
    )
    assert head.split() == ["the", "goal", "is", "questions", "tokens", "seconds", "page"]
    assert [row.split() for row in rows] == [
        [part.world, *verdict.split(), "3", "1,234", "2", f"{part.name}.html"]
        for part, verdict in zip(demo.PARTS, ("reached", "not reached", "reached"), strict=True)
    ]
    assert "200 s" in total
    assert pages.endswith(Path("pages").resolve().as_uri())


def test_the_demo_by_rules(tmp_path, capfd):
    assert demo.main(["--out", str(tmp_path), *RULES]) == 0
    printed = capfd.readouterr().out
    assert printed.count("Carried out in the world: the goal is reached.") == len(demo.PARTS) == 3
    assert "Answered by rules: decompose, judge, apply." in printed
    for part in demo.PARTS:
        page = tmp_path / f"{part.name}.html"
        assert page.name in printed
        assert "Content-Security-Policy" in page.read_text("utf-8")
        assert page.with_suffix(".jsonl").exists()


def test_the_demo_fails_where_a_goal_is_not_reached(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "PARTS", demo.PARTS[1:2])
    assert demo.main(["--out", str(tmp_path), *RULES, "--set", "moves=1"]) == 1
    assert "the goal is not reached." in capsys.readouterr().out


def test_the_demo_ends_where_a_run_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        demo.main(["--out", str(tmp_path), "--set", "roles=nowhere.yaml", "--model", "none"])
    assert ended.value.code == 2
    assert "nowhere.yaml" in capsys.readouterr().err
