"""`gpu-check`: verdicts, reports, and the checks themselves on both of vLLM's model runners."""

import json
import sys
from pathlib import Path

import pytest
from command_line import invoke

from llm_planning.gpu_check.report import (
    BENCHMARKS,
    names_of_checks,
    run_checks,
    write_report,
)

RUNNERS = Path(__file__).parents[1] / "serving" / "runners"

CHILD = """
import json, os, sys, time
name = sys.argv[3]
if name == "opens":
    print("noise")
    print(json.dumps({"right": True, "figures": {"runner": "V2"}, "reason": ""}))
elif name == "scores":
    second = os.environ.get("VLLM_USE_V2_MODEL_RUNNER")
    reason = "scores differ" if second == "1" else ""
    print(json.dumps({"right": second != "1", "figures": {"second": second}, "reason": reason}))
elif name == "kernel":
    print(json.dumps({"right": None, "figures": {}, "reason": "no GPU"}))
elif name == "closes":
    print("loading", file=sys.stderr)
    sys.exit("the engine died")
else:
    time.sleep(60)
"""


@pytest.fixture
def stand_in(tmp_path):
    """Takes the place of Python; its first arguments are `-m` and the module."""
    (tmp_path / "child.py").write_text(CHILD)
    return (sys.executable, str(tmp_path / "child.py"))


def test_a_check_that_dies_or_hangs_ends_no_other(stand_in, tmp_path):
    told = []
    names = ["opens", "scores", "scores-v2", "closes", "machine", "kernel"]
    outcomes = run_checks(names, model="m", limit=2, tell=told.append, python=stand_in)
    verdicts = {one.name: one.verdict for one in outcomes}
    assert verdicts == {
        "opens": "right",
        "scores": "right",
        "scores-v2": "wrong",
        "closes": "failed",
        "machine": "failed",
        "kernel": "not run",
    }
    by_name = {one.name: one for one in outcomes}
    assert by_name["opens"].figures == {"runner": "V2"}
    assert by_name["scores-v2"].reason == "scores differ"
    assert by_name["closes"].reason == "exit code 1\nloading\nthe engine died"
    assert by_name["machine"].reason.startswith("not ended after 2 s")
    assert len(told) == 2 * len(names)
    text = write_report(outcomes, tmp_path / "out" / "deep")
    assert (tmp_path / "out/deep/gpu-check.txt").read_text() == text
    assert "scores-v2              wrong" in text
    kept = json.loads((tmp_path / "out/deep/gpu-check.json").read_text())
    assert [one["verdict"] for one in kept] == list(verdicts.values())


def test_answers_come_before_speed():
    quick, whole = names_of_checks(quick=True), names_of_checks(quick=False)
    assert whole == [*quick, *(f"benchmark-{name}" for name in BENCHMARKS)]
    assert quick[:2] == ["machine", "opens-eagerly"]
    assert quick[quick.index("scores") :][:3] == ["scores", "scores-v1", "scores-v2"]
    for name in BENCHMARKS:
        assert (Path(__file__).parents[2] / "benchmarks" / f"{name}.py").is_file()


def test_an_unknown_check_is_named(tmp_path):
    result = invoke("gpu-check", "--only", "opens,speed", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "--only speed: no such check; there are machine, opens-eagerly" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--limit", "0"), "--limit"),
        (("--model", ""), "it is empty"),
        (("--only", ""), "--only : no such check"),
        (("--out", "{file}"), "is not a folder that can be written"),
    ],
)
def test_impossible_options_are_told_before_anything_runs(tmp_path, options, fault):
    (tmp_path / "file").write_text("mine")
    given = [option.format(file=tmp_path / "file") for option in options]
    result = invoke("gpu-check", *given)
    assert result.exit_code == 2
    assert fault in result.stderr
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    sys.path.insert(0, str(RUNNERS))
    from tiny_llama import build

    folder = tmp_path_factory.mktemp("tiny") / "model"
    build(folder)
    return str(folder)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("runner", "name"), [("V1", "scores"), ("V2", "constrained")])
def test_the_checks_run_on_both_model_runners(tiny, runner, name):
    on_cpu = (sys.executable, str(RUNNERS / "on_cpu.py"), runner, "async")
    (outcome,) = run_checks([name], model=tiny, limit=250, tell=print, python=on_cpu)
    assert outcome.verdict == "right", outcome.reason
    assert outcome.figures["runner"] == runner
    if name == "scores":
        assert outcome.figures["way"] == "tail"
        assert outcome.figures["nats_apart"] < 1e-4
        assert len(outcome.figures["gaps"]) == 7
