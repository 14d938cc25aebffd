"""Sweeps with models and settings of the command line in the place of the file's."""

import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import answer, invoke, refused
from report_ledgers import report_of, result_of, trial_of
from served_models import ONE_OPTION, serve

from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.instead import Change, Instead
from llm_planning.experiments.ledger import Ledger, LedgerError
from llm_planning.experiments.paper_report import EmptyReportError, as_json, markdown
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.sweep_files import SweepConfigError, find_sweep

MODEL = "qwen2.5-7b-instruct"
OTHER = "phi-4-mini-instruct"
BUNDLED = "smollm2-135m-instruct"
ASKED = Instead(model=MODEL)


def packaged(name, instead=ASKED):
    return load_sweep(find_sweep(name), instead=instead)


def models(sweep):
    return Counter(trial.model for trial in sweep.trials)


def planners(sweep, model):
    return {trial.planner for trial in sweep.trials if trial.model == model}


def test_every_row_that_a_model_answers_is_asked_of_the_named_one():
    plain, own = packaged("too/table1", Instead()), packaged("too/table1")
    assert own.name == f"too-table1-{MODEL}"
    assert models(own) == {MODEL: len(plain.trials)}
    assert {trial.key for trial in plain.trials}.isdisjoint(trial.key for trial in own.trials)
    assert [(t.planner, t.task, t.seed, t.settings) for t in own.trials] == [
        (t.planner, t.task, t.seed, t.settings) for t in plain.trials
    ]


def test_blocks_of_rules_stay_beside_blocks_that_name_their_own_model():
    """XENON's files say a model in every block; its oracle rows keep their keys."""
    plain, own = packaged("xenon/table12", Instead()), packaged("xenon/table12")
    assert models(own) == {"none": 15, MODEL: 30}
    ruled = [trial.key for trial in plain.trials if trial.model == "none"]
    assert ruled == [trial.key for trial in own.trials if trial.model == "none"]
    assert own.changes == (
        Change(what="model", before=BUNDLED, after=MODEL, planners=("xenon", "xenon-plus")),
    )


def test_a_file_that_cannot_replace_a_model_says_what_can(load):
    with pytest.raises(SweepConfigError, match=r"leave it out, and name yours by --model$"):
        load(one=f"{{extends: xenon/table12, model: {MODEL}}}")


def test_rules_are_replaced_where_the_command_line_says_so():
    asked = Instead(model=MODEL, settings={"roles": "llm", "interpretation": "asked"})
    own = packaged("llm_mcts/table1", asked)
    assert models(own) == {MODEL: 7000}
    assert {trial.settings["roles"] for trial in own.trials} == {"llm"}
    assert {trial.settings["interpretation"] for trial in own.trials} == {"asked"}
    assert [change.what for change in own.changes] == ["roles", "interpretation", "model"]


def test_who_asks_nobody_stays_what_it_is_and_is_told():
    own = packaged("mc_dml/table1")
    assert own.unasked == ("mc-dml-puct", "mc-dml-uct")
    (change,) = own.changes
    assert change.planners == ("mc-dml", "llm-agent", "reflection-agent")


@pytest.mark.parametrize(
    ("name", "instead", "words"),
    [
        (
            "llm_mcts/table1",
            ASKED,
            "llm_mcts/table1 asks no model, as rules answer goal, position, prior: add --set "
            "roles=llm, or run llm_mcts/table1-asked, or run llm_mcts/taught-table1",
        ),
        ("mc_dml/search", ASKED, "mc_dml/search asks no model, as its planners ask nothing"),
        ("too/table1", Instead(settings={"kk": "3"}), "--set kk: no planner of too/table1 has"),
        (
            "too/table1",
            Instead(settings={"max_context": "9"}),
            "--set max_context: no planner of too/table1 has this setting",
        ),
        (
            "llm_mcts/taught-table1",
            Instead(settings={"votes": "9"}),
            "--set votes: no planner of llm_mcts/taught-table1 reads this setting there",
        ),
        (
            "too/table1",
            Instead(settings={"k": "x"}),
            "--set k=x: planner tot-mcts: setting k='x' is not possible",
        ),
        (
            "matrix/models",
            Instead(settings={"execution": "alone"}),  # of too, which has more of them
            "--set execution=alone: planner drip: setting execution='alone' is not possible",
        ),
        (
            "too/table1",
            Instead(role_models={"dynamic": MODEL}),
            "--role-model dynamic: no planner of too/table1 asks this role; did you mean dynamics?",
        ),
    ],
)
def test_what_the_command_line_cannot_replace_is_refused(name, instead, words):
    with pytest.raises(SweepConfigError) as error:
        packaged(name, instead)
    assert words in str(error.value)


def test_a_sweep_that_asks_no_model_names_those_of_its_own_table_alone(tmp_path, monkeypatch):
    """A name that only begins alike, such as table21 for table2, is of another table."""
    by_rules = "model: none, settings: {roles: rules}"
    ruled = f"{{planners: cot, domain: minecraft, tasks: cook-meat, {by_rules}}}"
    for name, text in (("table2", ruled), ("table2-asked", SWEEP), ("table21", SWEEP)):
        (tmp_path / f"{name}.yaml").write_text(text)
    named = {f"p/{file.stem}": file for file in tmp_path.iterdir()}
    monkeypatch.setattr("llm_planning.experiments.instead.packaged_sweeps", lambda: named)
    with pytest.raises(SweepConfigError, match=r"roles=llm, or run p/table2-asked$"):
        load_sweep(tmp_path / "table2.yaml", instead=ASKED)


def test_a_role_has_its_own_model_where_it_is_asked():
    own = packaged("too/table1", Instead(model=MODEL, role_models={"dynamics": OTHER}))
    assert own.name == f"too-table1-{MODEL}-dynamics-{OTHER}"
    assert {t.planner for t in own.trials if t.role_models} == {"too"}
    assert {tuple(t.role_models.items()) for t in own.trials if t.role_models} == {
        (("dynamics", OTHER),)
    }


def test_models_in_files_of_roles_are_replaced_and_rules_in_them_stay(load, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roles.yaml").write_text(f"dynamics: {{model: {OTHER}}}\nfeasibility: rules\n")
    load(one="{planners: too, tasks: cook-meat, settings: {roles: roles.yaml}}")
    instead = Instead(model=MODEL, role_models={"feasibility": OTHER})
    own = load_sweep("one.yaml", instead=instead)
    (trial,) = own.trials
    assert (trial.model, trial.role_models) == (MODEL, {"dynamics": MODEL})
    assert trial.engines.keys() == {MODEL}
    assert [(change.what, change.after) for change in own.changes] == [
        ("model", MODEL),
        ("model of dynamics", MODEL),
    ]


def test_a_clause_that_names_a_model_leaves_out_what_it_left_out_before(load, tmp_path):
    load(
        one=f"""
        {{planners: [too, cot], tasks: cook-meat, model: [{BUNDLED}, none, {OTHER}],
          settings: {{roles: llm}}, exclude: [{{model: [{BUNDLED}, none], planner: too}},
          {{model: none}}]}}
        """
    )
    own = load_sweep(tmp_path / "one.yaml", instead=ASKED)
    assert [(trial.planner, trial.model) for trial in own.trials] == [
        ("cot", MODEL),
        ("too", MODEL),
    ]


def test_a_setting_that_nothing_reads_any_more_is_left_out(load, tmp_path):
    text = "{planners: llm-mcts-policy, tasks: rearrange, settings: {choice: majority, votes: 3}}"
    load(one=text)
    own = load_sweep(tmp_path / "one.yaml", instead=Instead(settings={"choice": "argmax"}))
    (trial,) = own.trials
    default = load(
        other="{planners: llm-mcts-policy, tasks: rearrange, settings: {choice: argmax}}"
    )
    assert trial.settings == default.trials[0].settings
    assert [(change.what, change.before, change.after) for change in own.changes] == [
        ("choice", "majority", "argmax"),
        ("votes", "3", None),
    ]


def test_a_setting_of_the_oracle_is_left_out_where_the_model_is_asked():
    own = packaged("too/table1-oracles", Instead(model=MODEL, settings={"roles": "llm"}))
    assert models(own) == {MODEL: len(own.trials)}
    (left_out,) = (change for change in own.changes if change.after is None)
    assert (left_out.what, left_out.before) == ("rules_see", "imagined, anew, initial")


def test_a_setting_is_of_the_planners_that_read_it():
    own = packaged("too/table1", Instead(settings={"d": "9"}))
    assert {t.planner for t in own.trials if t.settings["d"] == 9} == {"cot", "tot-mcts", "too"}
    assert [(change.before, change.after, change.planners) for change in own.changes] == [
        ("32", "9", ("cot",)),
        ("12", "9", ("tot-mcts", "too")),
    ]


def test_the_source_of_such_a_sweep_gives_the_same_trials(tmp_path):
    own = packaged("too/table1", Instead(model=MODEL, settings={"k": "2", "return": "sum"}))
    again = tmp_path / "again.yaml"
    again.write_text(own.source)
    assert load_sweep(again).trials == own.trials
    assert json.loads(own.source)["name"] == own.name == f"too-table1-{MODEL}-k-2-return-sum"


def test_a_long_name_is_cut_and_still_tells_models_apart():
    names = {Instead(model=model * 30).name("small") for model in ("abcd", "abce")}
    assert [len(name) for name in names] == [100, 100]
    assert Instead(model="/models/My Model+students/a").name("small") == "small-a"
    assert Instead(model="mine.yaml").name("small") == "small-mine"


def test_a_packaged_sweep_is_extended_and_its_files_are_found_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("too/table1", "too/table1.yaml", "configs/too/table1.yaml")):
        Path(f"{number}.yaml").write_text(f"extends: {name}\nmodel: {MODEL}\n")
        assert models(load_sweep(f"{number}.yaml")) == {MODEL: 120}
    Path("own.yaml").write_text("extends: llm_mcts/table1\n")
    assert len(load_sweep("own.yaml").trials) == 7000
    Path("none.yaml").write_text("extends: too/tableau1.yaml\n")
    with pytest.raises(SweepConfigError, match=r"none.yaml: extends: too/tableau1.yaml: there is"):
        load_sweep("none.yaml")


SWEEP = "{name: small, planners: [cot, uct], domain: minecraft, tasks: cook-meat, seeds: 2}"


@pytest.fixture
def served(monkeypatch, tmp_path):
    (tmp_path / "small.yaml").write_text(SWEEP)
    return serve(monkeypatch, tmp_path, {"decompose": ONE_OPTION})


def test_what_is_replaced_is_printed_and_models_never_share_a_folder(served, tmp_path):
    run = ("sweep", "run", "small.yaml", "--set", "d=3")
    ended = invoke(*run, "--model", MODEL)
    assert ended.exit_code == 0, ended.output
    assert ended.stderr.splitlines()[:4] == [
        f"small-{MODEL}-d-3 differs from its file:",
        "d: 3 instead of 32 (cot)",
        f"model: {MODEL} instead of {BUNDLED} (cot)",
        "as in the file, since no model is asked: uct",
    ]
    assert {config.model for config in served.configs} == {"Qwen/Qwen2.5-7B-Instruct"}
    assert answer(*run, "--model", MODEL)["kept"] == 4
    assert answer(*run, "--model", OTHER)["kept"] == 0
    folders = sorted(path.name for path in (tmp_path / "sweeps").iterdir())
    assert folders == [f"small-{OTHER}-d-3", f"small-{MODEL}-d-3"]
    mixed = invoke(*run, "--model", OTHER, "--out", f"sweeps/small-{MODEL}-d-3")
    assert mixed.exit_code == 1
    assert "belongs to another sweep, and a folder holds one" in mixed.stderr


def test_the_command_line_vouches_for_the_models_that_it_names(served, tmp_path):
    model = tmp_path / "weights"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "mine.yaml").write_text("model: weights\nmax_batch: 8\n")
    for named in ("weights", "mine.yaml"):
        printed = answer("sweep", "run", "small.yaml", "--model", named)
        assert (printed["name"], printed["done"]) == (f"small-{named.split('.')[0]}", 4)
    with Ledger.open(tmp_path / "sweeps" / "small-mine") as ledger:
        assert {trial.model for trial in ledger.trials} == {"mine.yaml"}
    assert "--trust weights" in refused("sweep", "resume", "sweeps/small-mine")


TABLE = """
title: Who plans
columns: [{key: calls, label: calls, measure: {mean: calls}}]
rows:
  - {label: asked, where: {planner: cot, model: taught}, published: {calls: 2}}
  - {label: ruled, where: {planner: cot, model: none}}
compare:
  - {column: calls, first: {model: taught}, second: {model: none}}
"""


def reported(folder, *named, table=TABLE):
    results = [result_of(replace(trial_of("cot", seed=0), model=name)) for name in named]
    return report_of(folder, table, results)


def test_a_report_names_the_model_that_stands_for_the_table_s_own(tmp_path):
    own = reported(tmp_path, "mine", "none")
    assert [len(line.runs.done) for line in own.lines] == [1, 1]
    assert own.lines[0].fields == {"planner": "cot", "model": "mine"}
    assert own.differences[0].difference.estimate.n == 1
    text = markdown(own, sweep="s", verbose=False)
    assert "\nModel: mine (1 run); no model (1 run), in the place of taught.\n" in text
    values = as_json(own)
    assert (values["models"], values["stands_for"]) == ({"mine": 1, "none": 1}, "taught")


@pytest.mark.parametrize("named", [("taught", "other"), ("mine", "other", "none")])
def test_no_model_stands_for_another_where_there_are_several(tmp_path, named):
    table = TABLE.replace("rows:", "rows:\n  - {label: all, where: {planner: cot}}")
    own = reported(tmp_path, *named, table=table)
    assert own.stands_for == ""
    assert len(own.lines[1].runs.done) == named.count("taught")


def test_a_table_that_names_several_models_stays_what_it_says(tmp_path):
    table = TABLE.replace("model: none", "model: untaught")
    with pytest.raises(EmptyReportError):
        reported(tmp_path, "mine", table=table)


SMALL = {
    "too/table1": ("k=1", "d=2", "iter=1", "executions=1"),
    "drip/table1-asked": ("roles=llm", "budget=2", "moves=1", "d=1", "decompositions=1", "most=2"),
    "llm_mcts/table1-asked": ("simulations=1", "moves=1"),
    "mc_dml/table4": ("simulations_per_action=1",),
    "xenon/table12": ("steps=3",),
}
"""A sweep of each paper -> settings by which a trial takes seconds."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_each_paper_s_table_runs_with_a_model_in_an_empty_folder(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))
    settings = [part for pair in SMALL[name] for part in ("--set", pair)]
    asked = ("--model", "smollm2-135m-minecraft")
    told = answer("sweep", "run", name, *asked, *settings, "--forecast", "--samples", "3")
    assert told["name"].startswith(f"{name.replace('/', '-').replace('_', '-')}-smollm2-135m-minec")
    assert (told["failed"], told["done"], told["left"]) == ({}, 3, told["total"] - 3)
    assert told["questions"]["value"] > 0
    assert told["seconds"]["value"] > 0
    state = answer("sweep", "status", told["folder"])
    assert (state["done"], state["calls"] > 0) == (3, True)
    paper, table = name.split("/")
    table = table if table in find_paper(paper).tables() else table.removesuffix("-asked")
    if table in find_paper(paper).tables():
        report = invoke("report", "paper", paper, table, "--from", told["folder"])
        assert report.exit_code == 0, report.output
        assert "smollm2-135m-minecraft (" in report.stdout


def test_a_killed_sweep_goes_on_where_the_same_options_say_so(tmp_path):
    (tmp_path / "games.yaml").write_text(
        "{planners: uct, tasks: trap-door, model: none, seeds: 12, settings: {simulations: 9}}"
    )
    options = ("games.yaml", "--set", "simulations=1500", "--no-cache", "--concurrency", "1")
    command = (sys.executable, "-m", "llm_planning", "sweep", "run", *options)
    folder = tmp_path / "sweeps" / "games-simulations-1500"
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        while not recorded(folder):
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        process.kill()
    kept = recorded(folder)
    with chdir(tmp_path):
        told = answer("sweep", "run", *options, "--forecast")
        assert (told["ran"], told["total"]) == (max(0, 2 - len(kept)), 12)
        ended = answer("sweep", "run", *options)
    assert (ended["kept"], ended["total"]) == (max(2, len(kept)), 12)
    assert kept <= recorded(folder)
    assert len(recorded(folder)) == 12
    with Ledger.open(folder) as ledger:
        assert {trial.settings["simulations"] for trial in ledger.trials} == {1500}


def recorded(folder):
    """Keys of the trials in a ledger that another process may be making."""
    try:
        with Ledger.open(folder) as ledger:
            return ledger.finished()
    except LedgerError:
        return frozenset()
