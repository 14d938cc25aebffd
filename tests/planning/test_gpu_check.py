"""`gpu-check`: verdicts, reports, and the checks themselves on both of vLLM's model runners."""

import importlib.util
import json
import math
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import invoke
from importing import importing

import llm_kernels
from llm_kernels import topk_cosine
from llm_planning.gpu_check import finding, report
from llm_planning.gpu_check.card import exactness
from llm_planning.gpu_check.checks import CHECKS, _apart
from llm_planning.gpu_check.report import (
    BENCHMARKS,
    names_of_checks,
    run_checks,
    write_report,
)
from llm_serving import gpu_sharing
from llm_serving.vllm_arguments import GIB

VISION = Path(__file__).parents[1] / "serving" / "vision"
KEPT_APART = Path(sys.prefix) / "vision"
RUNNERS = Path(__file__).parents[1] / "serving" / "runners"

CHILD = """
import json, os, subprocess, sys, time
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
elif name == "adapters":
    print(json.dumps({"right": True, "figures": {}, "reason": ""}))
    print("the driver died", file=sys.stderr)
    sys.exit(3)
else:
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    print("worker", worker.pid, os.environ["VLLM_LOGGING_STREAM"], file=sys.stderr, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def stand_in(tmp_path):
    """Takes the place of Python; its first arguments are `-m` and the module."""
    (tmp_path / "child.py").write_text(CHILD)
    return (sys.executable, str(tmp_path / "child.py"))


def gone(process):
    """Whether a process ends soon: nobody may have waited for it yet."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_check_that_dies_or_hangs_ends_no_other(stand_in, tmp_path):
    lines = []
    names = ["opens", "scores", "scores-v2", "closes", "machine", "kernel", "adapters"]
    outcomes = run_checks(names, model="m", limit=2, notify=lines.append, python=stand_in)
    verdicts = {outcome.name: outcome.verdict for outcome in outcomes}
    assert verdicts == {
        "opens": "right",
        "scores": "right",
        "scores-v2": "wrong",
        "closes": "failed",
        "machine": "failed",
        "kernel": "not run",
        "adapters": "failed",
    }
    by_name = {outcome.name: outcome for outcome in outcomes}
    assert by_name["opens"].figures == {"runner": "V2"}
    assert by_name["scores-v2"].reason == "scores differ"
    assert by_name["closes"].reason == "exit code 1\nloading\nthe engine died"
    assert by_name["adapters"].reason == "exit code 3\nthe driver died"
    late, log = by_name["machine"].reason.splitlines()
    assert late == "not ended after 2 s"
    _, worker, stream = log.split()
    assert stream == "ext://sys.stderr"
    assert gone(int(worker))
    assert len(lines) == 2 * len(names)
    text = write_report(outcomes, tmp_path / "out" / "deep")
    assert (tmp_path / "out/deep/gpu-check.txt").read_text() == text
    assert "scores-v2              wrong" in text
    kept = json.loads((tmp_path / "out/deep/gpu-check.json").read_text())
    assert [outcome["verdict"] for outcome in kept] == list(verdicts.values())


@pytest.mark.parametrize(
    ("verdicts", "recorded"),
    [
        ({"opens": "right", "process": "right", "kernel": "not run"}, [True]),
        ({"opens": "wrong", "process": "right"}, [False]),
        ({"opens": "right", "process": "failed"}, [False]),
        ({"process": "not run"}, [False]),
        ({"opens": "right"}, []),
    ],
)
def test_a_gpu_passes_where_its_process_is_right_and_nothing_is_wrong(
    monkeypatch, verdicts, recorded
):
    seen = []
    monkeypatch.setattr(report, "remember_check", lambda *, passed: seen.append(passed))
    monkeypatch.setattr(report, "on_gpu", lambda: False)
    outcomes = [report.Outcome(name=name, verdict=verdict) for name, verdict in verdicts.items()]
    report.remember(outcomes)
    assert seen == [], "a CPU needs no record"
    monkeypatch.setattr(report, "on_gpu", lambda: True)
    report.remember(outcomes)
    assert seen == recorded


def test_answers_come_before_speed():
    quick, whole = names_of_checks(quick=True), names_of_checks(quick=False)
    assert whole == [*quick, *(f"benchmark-{name}" for name in BENCHMARKS)]
    assert quick[:2] == ["machine", "opens-eagerly"]
    assert quick[quick.index("scores") :][:3] == ["scores", "scores-v1", "scores-v2"]
    for name in BENCHMARKS:
        assert (Path(__file__).parents[2] / "benchmarks" / f"{name}.py").is_file()


def test_benchmarks_import_their_neighbours_and_their_tables_are_kept(tmp_path, monkeypatch):
    """The command keeps every Python below it from importing from a script's folder."""
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    monkeypatch.setattr(report, "_FOLDER", tmp_path)
    (tmp_path / "harness.py").write_text("def table():\n    return 'N  ms\\n10  3'\n")
    for name, ratio in (("batching", 2.5), ("similarity_gpu", None)):
        (tmp_path / f"{name}.py").write_text(
            "import json, sys\nfrom harness import table\nprint(table())\n"
            f"print(json.dumps({{'ratio': {ratio}, 'options': sys.argv[1:]}}))\n"
        )
    batching, kernels, gone = run_checks(
        ["benchmark-batching", "benchmark-similarity_gpu", "benchmark-masks"],
        model="m",
        limit=20,
        notify=print,
    )
    assert batching.verdict == "right", batching.reason
    assert batching.figures == {"ratio": 2.5, "options": ["--json"]}
    assert batching.printed == "N  ms\n10  3"
    assert (kernels.verdict, kernels.reason) == ("not run", "nothing was measured here")
    assert gone.verdict == "not run"
    text = write_report([batching, kernels, gone], tmp_path / "out")
    assert "    N  ms\n    10  3\n" in text


@pytest.mark.parametrize(
    ("scores", "nats"),
    [([-1.0, -2.0], 0.5), ([-1.0, math.nan], None), ([-1.0, -math.inf], None)],
)
def test_a_score_that_is_no_number_is_no_agreement(scores, nats):
    assert _apart(scores, [-1.0, -2.5]) == nats


def test_rows_that_are_not_those_of_their_scores_are_wrong(monkeypatch):
    def wrong_in_long_lists(queries, corpus, k, **options):
        scores, rows = topk_cosine(queries, corpus, k, **options)
        if k == 64:
            rows[-1, -1] = rows[-1, 0]
        return scores, rows

    monkeypatch.setattr(llm_kernels, "topk_cosine", wrong_in_long_lists)
    found = exactness(["cpu"], backend="torch")
    assert not found.right
    errors = found.figures["largest_errors"]
    wrong = {name for name, error in errors.items() if error > 1e-5}
    assert len(errors) == 13
    assert wrong == {name for name in errors if name.endswith("k=64")}
    assert all(name in found.reason for name in wrong)


def test_two_engines_share_the_gpu_as_those_of_a_run(monkeypatch, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    opened = []

    class StandIn:
        def __init__(self, config, *, encoder, beside):
            opened.append((config, beside))

        async def generate(self, request):
            return SimpleNamespace(token_ids=(1,))

        async def aclose(self):
            pass

    monkeypatch.setattr(finding, "VllmEngine", StandIn)
    monkeypatch.setattr(gpu_sharing, "on_gpu", lambda: True)
    monkeypatch.setattr(gpu_sharing, "check_devices", lambda config: None)
    monkeypatch.setattr(gpu_sharing, "_gpu_bytes", lambda gpu: 80 * GIB)
    assert CHECKS["two-engines"](str(tmp_path)).right
    first, second = opened
    assert first == second
    config, beside = first
    assert config.memory_share < 0.5
    assert beside[0].startswith(str(tmp_path))


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


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("runner", "name"), [("V1", "scores-preempted"), ("V2", "constrained"), ("V2", "process")]
)
def test_the_checks_run_on_both_model_runners(tiny, runner, name):
    on_cpu = (sys.executable, str(RUNNERS / "on_cpu.py"), runner, "async")
    (outcome,) = run_checks([name], model=tiny, limit=250, notify=print, python=on_cpu)
    assert outcome.verdict == "right", outcome.reason
    assert outcome.figures["runner"] == runner
    if name == "scores-preempted":
        assert outcome.figures["way"] == "tail"
        assert outcome.figures["preempted"] > 0
        assert outcome.figures["nats_apart"] < 1e-4
        assert len(outcome.figures["gaps"]) == 7
    elif name == "process":
        assert outcome.figures["process"] == "its own"
        assert outcome.figures["scheduling"] == "asynchronous"
        assert outcome.figures["nats_apart"] < 1e-4
    else:
        assert 0 < outcome.figures["ms_of_masks_per_step"] < outcome.figures["ms_per_step"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(
    importlib.util.find_spec("torchvision") is None and not KEPT_APART.is_dir(),
    reason="no torchvision: run `make setup`",
)
def test_a_vision_model_needs_no_weights(monkeypatch):
    """The folder is made on the spot; a CPU gets a tiny one."""
    if importlib.util.find_spec("torchvision") is None:
        monkeypatch.setenv("PYTHONPATH", importing(VISION, KEPT_APART)["PYTHONPATH"])
    (outcome,) = run_checks(["vision-7b"], model="none", limit=250, notify=print)
    assert outcome.verdict == "right", outcome.reason
    read = [outcome.figures[f"{count} images"]["prompt_tokens"] for count in range(5)]
    assert len({more - less for less, more in pairwise(read)}) == 1  # all images are of one size
    assert outcome.figures["kv_tokens"] > 2048
