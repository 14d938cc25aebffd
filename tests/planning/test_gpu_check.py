"""`gpu-check`: verdicts, reports, and the steps themselves on both of vLLM's model runners."""

import importlib.util
import json
import math
import signal
import subprocess
import sys
import tarfile
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import invoke
from importing import importing

import llm_kernels
from llm_kernels import topk_cosine
from llm_planning.commands import gpu_check as command
from llm_planning.gpu_check import checks, finding, report
from llm_planning.gpu_check.asked import apart
from llm_planning.gpu_check.card import exactness
from llm_planning.gpu_check.checks import CHECKS, PACKING
from llm_planning.gpu_check.report import (
    BENCHMARKS,
    STEPS,
    Outcome,
    exit_code,
    names_of_checks,
    run_checks,
)
from llm_planning.gpu_check.unweighted import TINY, package_words
from llm_serving import gpu_sharing, vllm_stats
from llm_serving.vllm_arguments import GIB, on_gpu
from llm_serving.vllm_stats import Cards

VISION = Path(__file__).parents[1] / "serving" / "vision"
KEPT_APART = Path(sys.prefix) / "vision"
RUNNERS = Path(__file__).parents[1] / "serving" / "runners"

CHILD = """
import json, os, subprocess, sys, tempfile, time
name = sys.argv[3]
def say(right, about="", reason="", **figures):
    found = {"right": right, "figures": figures, "reason": reason, "about": about}
    print(json.dumps(found), flush=True)
if name == "opens":
    print("noise")
    say(True, runner="V2")
elif name == "scores":
    second = os.environ.get("VLLM_USE_V2_MODEL_RUNNER")
    say(second != "1", second=second, reason="scores differ" if second == "1" else "")
elif name == "kernel":
    say(None, reason="no GPU")
elif name == "closes":
    print("loading", file=sys.stderr)
    sys.exit("the engine died")
elif name == "adapters":
    say(True)
    print("the driver died", file=sys.stderr)
    sys.exit(3)
elif name == "constrained":
    say(True, about="first", figure=1)
    say(False, about="second", reason="it does not match")
    print("worker", file=sys.stderr, flush=True)
    time.sleep(600)
else:
    open(os.path.join(tempfile.gettempdir(), "half"), "w").write("written")
    say(True, about="first", half=tempfile.gettempdir())
    print('{"about": "second", "ri', end="", flush=True)
    away = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
    print("worker", away.pid, os.environ["VLLM_LOGGING_STREAM"], file=sys.stderr, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def stand_in(tmp_path):
    """Takes the place of Python; its first arguments are `-m` and the module."""
    (tmp_path / "child.py").write_text(CHILD)
    return (sys.executable, str(tmp_path / "child.py"))


@pytest.fixture
def made(stand_in, tmp_path):
    """Runs steps with the stand-in; results lie in `out/deep`."""

    def run(*names, limit=250, notify=print, **options):
        return run_checks(
            names,
            model="m",
            out=tmp_path / "out/deep",
            limit=limit,
            notify=notify,
            python=stand_in,
            **options,
        )

    return run


@pytest.fixture
def over_once_said(monkeypatch, tmp_path):
    """A step's time is over as soon as it has said all that it says, however long that takes."""

    def now():
        said = any("worker" in log.read_text() for log in tmp_path.rglob("*.log"))
        return time.monotonic() + 1000 * said

    monkeypatch.setattr(report, "time", SimpleNamespace(monotonic=now, sleep=time.sleep))


def lines_of(folder):
    return [json.loads(line) for line in (folder / "gpu-check.jsonl").read_text().splitlines()]


def lives(process):
    """Whether a process lives; nobody may have waited for one that has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_step_that_dies_or_hangs_ends_no_other(made, tmp_path):
    told = []
    names = ["opens", "scores", "scores-v2", "closes", "kernel", "adapters"]
    outcomes = made(*names, notify=told.append)
    verdicts = {outcome.name: outcome.verdict for outcome in outcomes}
    assert verdicts == {
        "opens": "right",
        "scores": "right",
        "scores-v2": "wrong",
        "closes": "failed",
        "kernel": "not run",
        "adapters": "failed",
    }
    assert exit_code(outcomes) == 1
    by_name = {outcome.name: outcome for outcome in outcomes}
    assert by_name["opens"].figures == {"runner": "V2"}
    assert by_name["opens"].printed == "noise"
    assert by_name["scores-v2"].reason == "scores differ"
    assert by_name["closes"].reason == "exit code 1\nloading\nthe engine died"
    assert by_name["adapters"].reason == "exit code 3\nthe driver died"
    assert by_name["kernel"].reason == "no GPU"
    assert len(told) == 2 * len(names)
    text = (tmp_path / "out/deep/gpu-check.txt").read_text()
    assert f"{'scores-v2':<31} wrong" in text
    kept = json.loads((tmp_path / "out/deep/gpu-check.json").read_text())
    assert [outcome["verdict"] for outcome in kept] == list(verdicts.values())


@pytest.mark.usefixtures("over_once_said")
def test_what_a_killed_step_has_said_is_kept_and_nothing_else_of_it(made, tmp_path):
    """Its processes are gone when the next step begins, though one of them left its group."""
    late, _ = made("machine", "opens")
    assert late.verdict == "failed"
    end, log = late.reason.splitlines()
    assert end == "not ended after 250 s"
    _, worker, stream = log.split()
    assert stream == "ext://sys.stderr"
    assert not lives(int(worker))
    assert not Path(late.figures["first"]["half"]).exists()
    assert late.printed == '{"about": "second", "ri'
    out = tmp_path / "out/deep"
    assert (out / "machine.log").read_text().startswith("worker")
    said, ended, *_ = lines_of(out)
    assert (said["step"], said["about"], said["right"]) == ("machine", "first", True)
    assert (ended["step"], ended["verdict"]) == ("machine", "failed")


@pytest.mark.usefixtures("over_once_said")
def test_a_wrong_answer_stays_one_where_its_step_is_killed(made):
    (outcome,) = made("constrained")
    assert outcome.verdict == "wrong"
    assert outcome.reason.startswith("second: it does not match\nnot ended after 250 s")
    assert outcome.figures == {"first": {"figure": 1}, "second": {}}


def test_the_time_for_all_cuts_a_step_off_and_leaves_the_rest(made, monkeypatch, tmp_path):
    monkeypatch.setattr(report, "_LEAST", 1)
    begun = time.monotonic()
    outcomes = made("machine", "scores-v2", limit=900, minutes=3 / 60)
    assert time.monotonic() - begun >= 3
    cut, rest = outcomes
    assert (cut.verdict, rest.verdict) == ("cut off", "not run")
    assert rest.reason == "the time for all was up"
    assert exit_code(outcomes) == 0
    ends = [line["verdict"] for line in lines_of(tmp_path / "out/deep") if "verdict" in line]
    assert ends == ["cut off", "not run"]


def test_a_step_has_its_share_of_the_time_for_all(made, monkeypatch):
    """What was compiled is packed at the end, whatever the steps before it took."""
    given = {}

    def outcome(running, seconds, *, cut):
        given[running.name] = seconds, cut
        return Outcome(name=running.name, verdict="right")

    monkeypatch.setattr(report._Running, "outcome", outcome)
    made("machine", "engine-7b", PACKING, limit=900, minutes=3)
    kept = STEPS[PACKING].seconds
    assert given["machine"] == (STEPS["machine"].seconds, False)
    left, cut = given["engine-7b"]
    assert cut
    assert 0 < left < 180 - kept
    assert given[PACKING] == (kept, False)
    made("engine-7b", limit=7)
    assert given["engine-7b"] == (7, False)


def test_results_are_whole_while_the_command_runs(stand_in, tmp_path):
    """Whoever kills it in the middle has everything that was found before."""
    out = tmp_path / "out"
    program = (
        "import sys; from pathlib import Path\n"
        "from llm_planning.gpu_check.report import run_checks\n"
        "run_checks(['opens', 'machine'], model='m', out=Path(sys.argv[1]), limit=60,"
        " notify=print, python=sys.argv[2:])"
    )
    child = subprocess.Popen([sys.executable, "-c", program, out, *stand_in])
    try:
        deadline = time.monotonic() + 60
        log = out / "machine.log"
        while not (log.exists() and log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        worker = int(log.read_text().split()[1])
        child.send_signal(signal.SIGINT)
        child.wait(120)
    finally:
        child.kill()
        child.wait()
    assert not lives(worker)
    (first,) = json.loads((out / "gpu-check.json").read_text())
    assert first["verdict"] == "right"
    assert "opens" in (out / "gpu-check.txt").read_text()
    assert [line["step"] for line in lines_of(out)] == ["opens", "opens", "machine"]


def test_answers_come_before_speed():
    quick, whole = names_of_checks(quick=True), names_of_checks(quick=False)
    scripts = {name for name in whole if name.startswith("benchmark-")}
    assert set(whole) - set(quick) == scripts
    assert {f"benchmark-{name}" for name in BENCHMARKS} < scripts
    assert [name for name in whole if name in quick] == quick
    assert whole[:4] == ["machine", "kernel", "benchmark-similarity_gpu", "engine-7b"]
    assert quick[quick.index("scores") :][:3] == ["scores", "scores-v1", "scores-v2"]
    assert whole[-1] == PACKING
    assert {STEPS[name].check for name in quick} == {*CHECKS, PACKING}
    for name in scripts:
        script = f"{STEPS[name].script}.py"
        assert (Path(__file__).parents[2] / "benchmarks" / script).is_file()


def test_benchmarks_import_their_neighbours_and_their_tables_are_kept(tmp_path, monkeypatch):
    """The command keeps every Python below it from importing from a script's folder."""
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    monkeypatch.setattr(report, "_FOLDER", tmp_path)
    (tmp_path / "harness.py").write_text("def table():\n    return 'N  ms\\n10  3'\n")
    for name, ratio in (("batching", 2.5), ("similarity_gpu", None)):
        (tmp_path / f"{name}.py").write_text(
            "import json, sys\nfrom harness import table\nprint(table())\n"
            "if '--lines' in sys.argv:\n"
            "    with open(sys.argv[sys.argv.index('--lines') + 1], 'a') as lines:\n"
            "        print(json.dumps({'size': 3}), file=lines)\n"
            f"print(json.dumps({{'ratio': {ratio}, 'options': sys.argv[1:]}}))\n"
        )
    batching, kernels, gone = run_checks(
        ["benchmark-batching", "benchmark-similarity_gpu", "benchmark-masks"],
        model="m",
        out=tmp_path / "out",
        limit=40,
        notify=print,
    )
    assert batching.verdict == "right", batching.reason
    assert batching.figures == {"ratio": 2.5, "options": ["--json"]}
    assert batching.printed == "N  ms\n10  3"
    assert (kernels.verdict, kernels.reason) == ("not run", "nothing was measured here")
    assert kernels.figures["options"][:3] == ["--json", "--seconds", "20"]
    assert str(tmp_path / "out" / "similarity.json") in kernels.figures["options"]
    assert gone.verdict == "not run"
    assert "    N  ms\n    10  3\n" in (tmp_path / "out/gpu-check.txt").read_text()
    said = [line for line in lines_of(tmp_path / "out") if line.get("size") == 3]
    assert [line["step"] for line in said] == ["benchmark-similarity_gpu"]


@pytest.mark.parametrize(
    ("verdicts", "passed"),
    [
        ({"process": "right", "scores": "right", "kernel": "not run"}, True),
        ({"engine-135m-process": "right", "process": "cut off"}, True),
        ({"process": "right", "scores": "wrong"}, False),
        ({"process": "failed"}, False),
        ({"process": "cut off"}, None),
        ({"scores": "right"}, None),
    ],
)
def test_a_gpu_that_has_passed_is_remembered(monkeypatch, verdicts, passed):
    kept = []
    outcomes = [Outcome(name=name, verdict=verdict) for name, verdict in verdicts.items()]
    monkeypatch.setattr(report, "remember_check", lambda *, passed: kept.append(passed))
    monkeypatch.setattr(report, "on_gpu", lambda: False)
    report.remember(outcomes)
    assert kept == [], "a CPU needs no record"
    monkeypatch.setattr(report, "on_gpu", lambda: True)
    report.remember(outcomes)
    assert kept == ([] if passed is None else [passed])


@pytest.mark.parametrize(
    ("scores", "nats"),
    [([-1.0, -2.0], 0.5), ([-1.0, math.nan], None), ([-1.0, -math.inf], None)],
)
def test_a_score_that_is_no_number_is_no_agreement(scores, nats):
    assert apart(scores, [-1.0, -2.5]) == nats


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
    assert "--only speed: no such step; there are machine, kernel" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--limit", "0"), "--limit"),
        (("--model", ""), "it is empty"),
        (("--only", ""), "--only : no such step"),
        (("--minutes", "0"), "--minutes"),
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


def test_results_of_an_earlier_check_stay(tmp_path):
    (tmp_path / "gpu-check.jsonl").write_text("nine minutes")
    result = invoke("gpu-check", "--only", "machine", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "has the results of an earlier check: name another folder" in result.stderr
    assert [path.read_text() for path in tmp_path.iterdir()] == ["nine minutes"]


def test_the_command_ends_by_what_the_steps_found(monkeypatch, tmp_path):
    """Standard output has the report; --minutes and --limit reach the steps."""
    given = {}

    def run(names, *, out, **options):
        given.update(options, names=names)
        outcomes = [Outcome(name="machine", verdict="wrong", reason="no driver")]
        out.mkdir()
        report.write_report(outcomes, out)
        return outcomes

    monkeypatch.setattr(report, "run_checks", run)
    options = ("--only", "machine", "--minutes", "9", "--limit", "100", "--model", "random")
    result = invoke(
        command.gpu_check.__name__.replace("_", "-"), *options, "--out", str(tmp_path / "o")
    )
    assert result.exit_code == 1
    assert "    no driver\n" in result.stdout
    chosen = {key: given[key] for key in ("names", "minutes", "limit", "model")}
    assert chosen == {"names": ["machine"], "minutes": 9, "limit": 100, "model": "random"}


@pytest.mark.slow
def test_a_random_model_is_made_once(monkeypatch, tmp_path):
    """Its path does not change: by that vLLM finds what it has compiled."""
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    monkeypatch.setattr(checks, "SMOLLM2", TINY.without_images())
    folder = Path(checks.made("random"))
    weights = folder / "model.safetensors"
    assert weights.stat().st_size > 10_000
    written = weights.stat().st_mtime_ns
    assert checks.made("random") == str(folder)
    assert weights.stat().st_mtime_ns == written
    assert checks.made("mine") == "mine"


@pytest.mark.skipif(on_gpu(), reason="there are cards")
def test_cards_are_watched_by_the_busiest_of_them(monkeypatch):
    monkeypatch.setattr(vllm_stats, "EVERY", 0.001)
    cards = Cards()  # without a GPU there is none
    with cards.watched() as looks:
        pass
    assert (looks, cards.free_gib(), cards.held()) == ([], None, (0.0, 0.0))
    cards._handles = [3, 5]
    cards._nvml = SimpleNamespace(
        nvmlDeviceGetUtilizationRates=lambda card: SimpleNamespace(gpu=10 * card),
        nvmlDeviceGetMemoryInfo=lambda card: SimpleNamespace(free=card * GIB),
    )
    with cards.watched() as looks:
        while not looks:
            time.sleep(0.001)
    assert set(looks) == {0.5}
    assert cards.free_gib() == 3


def test_words_of_a_model_without_weights_come_from_this_package(tmp_path):
    words = package_words(3000)
    assert words.get_vocab_size() == 3000
    text = "You plan in Minecraft. Which options lead to an iron pickaxe?"
    ids = words.encode(text).ids
    assert words.decode(ids) == text
    assert len(ids) < len(text) / 3
    assert package_words(TINY.words).get_vocab_size() == TINY.words


def test_what_was_compiled_is_packed_whole(monkeypatch, tmp_path):
    (tmp_path / "vllm" / "torch_compile_cache" / "abc").mkdir(parents=True)
    (tmp_path / "vllm" / "torch_compile_cache" / "abc" / "graph.py").write_text("compiled")
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path / "vllm"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "nothing"))
    out = tmp_path / "out"
    (outcome,) = run_checks([PACKING], model="none", out=out, limit=100, notify=print)
    assert outcome.verdict == "right"
    assert outcome.reason == f"triton-cache: nothing was compiled in {tmp_path / 'nothing'}"
    with tarfile.open(out / "vllm-torch-compile-cache.tar.gz") as archive:
        assert "torch_compile_cache/abc/graph.py" in archive.getnames()
    assert not list(out.glob("triton*"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("runner", "name"), [("V1", "scores-preempted"), ("V2", "constrained"), ("V2", "process")]
)
def test_the_checks_run_on_both_model_runners(tiny, tmp_path, runner, name):
    on_cpu = (sys.executable, str(RUNNERS / "on_cpu.py"), runner, "async")
    (outcome,) = run_checks(
        [name], model=tiny, out=tmp_path, limit=800, notify=print, python=on_cpu
    )
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


EVERYTHING = {
    "opened",
    "scores",
    "constrained JSON",
    "Tree of Options",
    "prefix cache",
    "scoring speed",
    "requests in flight",
    "pictures",
    "closed",
}
"""What one engine is asked."""


@pytest.fixture
def images(monkeypatch):
    """Lets processes import torchvision, from where it is kept apart."""
    if importlib.util.find_spec("torchvision") is None:
        if not KEPT_APART.is_dir():
            pytest.skip("no torchvision: run `make setup`")
        monkeypatch.setenv("PYTHONPATH", importing(VISION, KEPT_APART)["PYTHONPATH"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_engine_is_asked_everything(images, monkeypatch, tmp_path):
    """A model without weights to fetch; a CPU gets a tiny one, with pictures."""
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))
    (outcome,) = run_checks(
        ["engine-7b"], model="none", out=tmp_path / "out", limit=800, notify=print
    )
    assert outcome.verdict == "right", outcome.reason
    found = outcome.figures
    assert set(found) == EVERYTHING
    right = {row["about"]: row["right"] for row in lines_of(tmp_path / "out") if "about" in row}
    assert {about for about, each in right.items() if each is None} == {
        "scoring speed",
        "requests in flight",
        "closed",
    }
    assert False not in right.values()
    assert found["opened"]["nats_of_tokens"] > 0.5
    assert found["opened"]["kv_tokens"] > 2048
    read = [found["pictures"][f"{count} images"]["prompt_tokens"] for count in range(5)]
    assert len({more - less for less, more in pairwise(read)}) == 1  # all images are of one size
    cache = found["prefix cache"]
    assert cache["on"]["computed"] < cache["off"]["computed"]
    assert cache["nats_apart"] < 0.01
    assert cache["prompts"] == found["Tree of Options"]["questions"] > 2
    assert found["scoring speed"]["computed"] > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_core_in_a_process_of_its_own_answers_everything_too(monkeypatch, tmp_path):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))
    (outcome,) = run_checks(
        ["engine-135m-process"], model="none", out=tmp_path, limit=800, notify=print
    )
    assert outcome.verdict == "right", outcome.reason
    assert set(outcome.figures) == EVERYTHING - {"pictures"}
    assert outcome.figures["opened"]["process"] == "its own"
