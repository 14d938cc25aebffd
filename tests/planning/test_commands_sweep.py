"""`llm-planning sweep`, on scripted answers."""

import csv
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from command_line import answer, refused
from command_line import invoke as command
from served_models import ONE_OPTION, serve

import llm_planning.commands.sweep_running as sweep_module
import llm_planning.experiments.scheduler as scheduler_module
from llm_planning.experiments import executors
from llm_planning.experiments.ledger import Ledger, LedgerError
from llm_planning.experiments.ray_pool import RayPool
from llm_planning.experiments.runs import field_values, read_runs
from llm_serving.errors import EngineStoppedError, UnknownModelError

SWEEP = """
name: small
planners: cot
tasks: [milk-a-cow, cook-meat]
seeds: 3
settings: {d: [2, 3]}
retries: 1
"""


@pytest.fixture
def served(monkeypatch, tmp_path):
    monkeypatch.setattr(scheduler_module, "RETRY_AFTER", 0.01)
    return serve(monkeypatch, tmp_path, {"decompose": ONE_OPTION})


@pytest.fixture
def file(served, tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SWEEP)
    return path


def invoke(*arguments):
    return command("sweep", *arguments)


def digest_of(folder):
    with Ledger.open(Path(folder)) as ledger:
        return ledger.content_digest()


def test_a_sweep_runs_and_its_results_are_shown_and_exported(served, file, tmp_path):
    result = invoke("run", file)
    assert result.exit_code == 0, result.output
    assert "small: all 12 trials finished; 12 done and 0 failed" in result.stdout
    state = answer("sweep", "status", "sweeps/small")
    assert (state["total"], state["done"], state["left"]) == (12, 12, 0)
    assert state["calls"] == 12
    report = answer("sweep", "report", "sweeps/small")
    assert [group["by"]["settings.d"] for group in report["groups"]] == [2, 3]
    assert [group["done"] for group in report["groups"]] == [6, 6]
    assert report["groups"][0]["calls"]["value"] == 1
    by_task = answer("sweep", "report", "sweeps/small", "--by", "task")
    assert [group["by"]["task"] for group in by_task["groups"]] == ["milk-a-cow", "cook-meat"]
    assert "milk-a-cow" in invoke("report", "sweeps/small", "--by", "task").stdout
    assert invoke("export", "sweeps/small", "--out", tmp_path / "all.csv").exit_code == 0
    with (tmp_path / "all.csv").open() as lines:
        assert len(list(csv.DictReader(lines))) == 12


def test_a_report_tells_the_model_and_the_rules_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "who.yaml"
    file.write_text(
        "{name: who, model: none, planners: {puct: {prior: uniform, simulations: 2, moves: 1}}, "
        "tasks: trap-door, seeds: 2, settings: {roles: [llm, rules]}}"
    )
    assert invoke("run", file).exit_code == 0
    groups = answer("sweep", "report", "sweeps/who")["groups"]
    by = [(group["by"]["settings.roles"], group["done"]) for group in groups]
    assert by == [("llm", 2), ("rules", 2)]
    with Ledger.open(tmp_path / "sweeps" / "who") as ledger:
        runs = read_runs(ledger)
    assert field_values("settings.roles", runs) == ("llm", "rules")
    assert len(runs.select({"settings.roles": ("llm",)}).done) == 2


def test_a_second_run_has_nothing_to_do_and_loads_no_model(served, file):
    assert invoke("run", file).exit_code == 0
    printed = answer("sweep", "run", file)
    assert (printed["total"], printed["kept"], printed["done"]) == (12, 12, 0)
    assert len(served.configs) == 1


def test_a_sweep_does_not_go_on_with_other_weights_in_the_model_s_folder(
    served, monkeypatch, tmp_path
):
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights of Monday")
    file = tmp_path / "small.yaml"
    file.write_text(f"{SWEEP}model: model\n")
    trusted = ("--trust", "model")
    record = Ledger.record

    def full_after_three(ledger, result, **how):
        if len(ledger.finished()) >= 3:
            raise LedgerError("the disk is full: free some space")
        record(ledger, result, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "record", full_after_three)
        assert invoke("run", file, *trusted).exit_code == 1
    (model / "model.safetensors").write_bytes(b"weights of Friday")
    line = refused("sweep", "resume", "sweeps/small", *trusted, code=1)
    assert "the model model is not the one of `taught_sha256`: its files have changed since" in line
    line = refused("sweep", "run", file, *trusted, code=1)
    assert "belongs to another sweep" in line
    (model / "model.safetensors").write_bytes(b"weights of Monday")
    assert answer("sweep", "resume", "sweeps/small", *trusted)["kept"] == 3


def test_another_sweep_s_folder_is_refused(served, file, tmp_path):
    assert invoke("run", file).exit_code == 0
    other = tmp_path / "other.yaml"
    other.write_text(SWEEP.replace("seeds: 3", "seeds: 4"))
    line = refused("sweep", "run", other, code=1)
    assert "belongs to another sweep, and a folder holds one: " in line
    assert "0 of its 12 trials are not in this one, and 4 of this one's 16 are not in it; " in line
    assert "name another folder with --out (" in line
    assert "sweep resume" not in line
    assert len(served.configs) == 1
    # Elsewhere, only what is new is asked.
    assert answer("sweep", "run", other, "--out", "more")["done"] == 16
    assert served.asked == 16


def test_what_cannot_go_on_is_not_told_to_go_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roles.yaml").write_text("prior: rules\n")
    (tmp_path / "who.yaml").write_text(
        "{name: who, model: none, planners: puct, tasks: trap-door, "
        "settings: {roles: roles.yaml, simulations: 2, moves: 1}}"
    )
    assert invoke("run", "who.yaml").exit_code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    line = refused("sweep", "resume", "../sweeps/who", code=1)
    assert line.endswith(
        "run it from the folder where the sweep began, or restore it; 1 of 1 trials are recorded"
    )
    monkeypatch.chdir(tmp_path)
    assert answer("sweep", "resume", "sweeps/who")["kept"] == 1


def test_with_the_cache_a_sweep_run_twice_is_identical_and_asks_nothing(served, file):
    assert invoke("run", file, "--out", "one").exit_code == 0
    first = served.asked
    assert invoke("run", file, "--out", "two").exit_code == 0
    assert served.asked == first > 0
    assert digest_of("one") == digest_of("two")
    assert invoke("run", file, "--out", "three", "--no-cache").exit_code == 0
    assert served.asked == first + 12


def test_models_take_turns(served, file, tmp_path):
    file.write_text(SWEEP + "model: [smollm2-135m-instruct, qwen2.5-7b-instruct]\n")
    assert answer("sweep", "run", file, "--no-cache")["done"] == 24
    assert len(served.configs) == 2
    assert [len(engine.requests) for engine in served.engines] == [12, 12]
    with Ledger.open(tmp_path / "sweeps" / "small") as ledger:
        (provenance,) = ledger.provenances.values()
    assert set(provenance["models"]) == {"smollm2-135m-instruct", "qwen2.5-7b-instruct"}


def test_failing_trials_are_told_and_stop_nothing(served, file):
    def cows_fail(request):
        if "ilk" in request.prompt[-1].content:
            raise ValueError("no cow")
        return ONE_OPTION

    served.script = cows_fail
    result = invoke("run", file, "--no-cache")
    assert result.exit_code == 0, result.output
    assert "6 done and 6 failed" in result.stdout
    state = answer("sweep", "status", "sweeps/small")
    assert state["errors"] == {"ValueError: no cow": 6}
    assert "6 x ValueError: no cow" in invoke("status", "sweeps/small").stdout
    assert served.asked == 6 + 2 * 6


def test_an_engine_that_dies_leaves_what_had_ended(served, file):
    def fifth_kills(request):
        if served.asked >= 5:
            raise EngineStoppedError("the engine died: out of paper")
        return ONE_OPTION

    served.script = fifth_kills
    result = invoke("run", file, "--no-cache", "--concurrency", "1")
    assert result.exit_code == 1
    assert "out of paper" in result.stderr
    going_on = "4 of 12 trials are recorded; to go on: llm-planning sweep resume sweeps/small\n"
    assert result.stderr.endswith(going_on)
    served.script = {"decompose": ONE_OPTION}
    assert invoke("resume", "sweeps/small", "--no-cache").exit_code == 0
    assert served.asked == 5 + 8


def test_a_full_disk_ends_the_sweep_and_says_what_is_kept(served, file, monkeypatch):
    record = Ledger.record

    def full_after_three(ledger, result, **how):
        if len(ledger.finished()) >= 3:
            raise LedgerError("the disk is full: free some space")
        record(ledger, result, **how)

    monkeypatch.setattr(Ledger, "record", full_after_three)
    result = invoke("run", file, "--no-cache")
    assert result.exit_code == 1
    assert "error: the disk is full" in result.stderr
    assert "3 of 12 trials are recorded" in result.stderr
    monkeypatch.setattr(Ledger, "record", record)
    assert answer("sweep", "resume", "sweeps/small", "--no-cache")["kept"] == 3


def test_a_dry_run_lists_and_records_nothing(served, file, tmp_path):
    printed = answer("sweep", "run", file, "--dry-run")
    assert printed["total"] == len(printed["trials"]) == 12
    assert printed["kinds"] == [
        {"planner": "cot", "d": 2, "tasks": 2, "trials": 6},
        {"planner": "cot", "d": 3, "tasks": 2, "trials": 6},
    ]
    assert not served.configs
    assert not (tmp_path / "sweeps").exists()


def test_a_dry_run_shows_settings_of_many_planners_in_one_column(served, tmp_path):
    grids = [
        {"planners": {"cot": {"d": [2, 3]}}},
        {"planners": {"puct": {"simulations": [20, 30], "moves": [7, 8]}}},
    ]
    asked = {"model": "none", "settings": {"roles": "rules"}}
    sweep = {**asked, "domain": "minecraft", "tasks": "milk-a-cow", "grids": grids}
    (tmp_path / "wide.yaml").write_text(json.dumps(sweep))
    result = invoke("run", str(tmp_path / "wide.yaml"), "--dry-run")
    assert result.exit_code == 0, result.output
    head, *rows = (row for row in result.stdout.splitlines() if row[0] in "┃│")
    assert head.replace("┃", " ").split() == ["planner", "settings", "tasks", "trials"]
    assert [row.split("│")[2].strip() for row in rows[:3]] == [
        "d=2",
        "d=3",
        "moves=7, simulations=20",
    ]


def test_deterministic_without_such_kernels_is_one_question_at_a_time(served, file, monkeypatch):
    monkeypatch.setattr(executors, "use_invariant_kernels", lambda: False)
    assert invoke("run", file, "--out", "one").exit_code == 0
    result = invoke("run", file, "--out", "two", "--deterministic")
    assert result.exit_code == 0, result.output
    assert [config.max_batch for config in served.configs] == [64, 1]
    assert served.forgotten == 12
    assert len(served.engines[1].requests) == 12
    with Ledger.open(Path("two")) as ledger:
        (provenance,) = ledger.provenances.values()
    assert provenance["deterministic"] is True


def test_deterministic_with_such_kernels_keeps_the_batch(served, file, monkeypatch):
    monkeypatch.setattr(executors, "use_invariant_kernels", lambda: True)
    assert invoke("run", file, "--deterministic").exit_code == 0
    assert [config.max_batch for config in served.configs] == [64]
    assert served.forgotten == 0


def test_what_does_not_exist_is_explained(served, file):
    assert "--executor ray" in refused("sweep", "run", file, "--ray-workers", "2")
    assert invoke("run", file).exit_code == 0
    assert "task" in refused("sweep", "report", "sweeps/small", "--by", "tasc")


@pytest.mark.parametrize("command", ["status", "resume", "report"])
def test_a_folder_without_a_ledger_is_named(served, tmp_path, command):
    assert "nowhere" in refused("sweep", command, tmp_path / "nowhere", code=1)
    assert not (tmp_path / "nowhere").exists()


def test_a_model_that_does_not_exist_leaves_no_ledger(served, file, monkeypatch, tmp_path):
    def unknown(name, config):
        raise UnknownModelError(f"no model {name}")

    monkeypatch.setattr(sweep_module, "identify", unknown)
    assert "no model smollm2-135m-instruct" in refused("sweep", "run", file, code=1)
    assert not (tmp_path / "sweeps").exists()


@pytest.mark.parametrize(
    ("number", "on_sigint"),
    [
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_IGN),
    ],
    ids=["ctrl-c", "sigterm", "sigterm-in-the-background"],
)
def test_an_interrupted_sweep_leaves_cleanly_and_goes_on(served, file, number, on_sigint):
    served.delay = lambda request: 0.0 if served.asked <= 4 else 60.0

    def interrupt():
        while served.asked < 8:
            time.sleep(0.01)
        time.sleep(0.1)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt, daemon=True)
    before = signal.signal(signal.SIGINT, on_sigint)
    try:
        thread.start()
        result = invoke("run", file, "--no-cache", "--concurrency", "4")
    finally:
        signal.signal(signal.SIGINT, before)
    thread.join()
    assert result.exit_code == 130, result.output
    assert "4 of 12 trials are recorded" in result.stderr
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    served.delay = None
    assert answer("sweep", "resume", "sweeps/small", "--no-cache")["kept"] == 4


def test_ray_workers_open_what_this_process_would(served, file, monkeypatch):
    """The recipe that goes to the workers survives pickling; here it is followed on the spot."""
    opened, worker = {}, ExitStack()

    async def open_here(*, recipe, **options):
        opened.update(options)
        return worker.enter_context(pickle.loads(pickle.dumps(recipe))())

    monkeypatch.setattr(RayPool, "open", open_here)
    arguments = ("--executor", "ray", "--ray-workers", "2", "--concurrency", "3", "--no-cache")
    with worker:
        assert answer("sweep", "run", file, *arguments)["done"] == 12
    assert (opened["workers"], opened["address"], opened["cpus_per_worker"]) == (2, None, 8)


def test_the_sweep_commands_start_without_torch():
    heavy = "{'torch', 'vllm', 'transformers', 'ray', 'scipy', 'matplotlib'}"
    code = (
        "import sys, llm_planning.commands.sweep_running, llm_planning.experiments.scheduler; "
        f"print({heavy} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
