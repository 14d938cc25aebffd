"""What the file of a sweep may make us open: nothing that the user does not name as well."""

import json

import numpy as np
import pytest
from command_line import invoke, refused

from llm_kernels import EmbeddingIndex
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.sweep_files import SweepConfigError, Trust, UntrustedError
from llm_planning.experiments.trial import Trial
from llm_planning.own_code import own_source

CODE = """
from pathlib import Path

Path("ran").touch()

from llm_planning import Outcome, planner


@planner("mine", roles=[])
async def mine(run):
    return Outcome(success=None)
"""


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """Writes a sweep's file and returns its name; the working directory is a stranger's folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(CODE)
    (tmp_path / "weights").mkdir()
    (tmp_path / "mine.yaml").write_text("model: ./weights")

    def grid(**keys):
        (tmp_path / "sweep.yaml").write_text(
            json.dumps({"model": "none", "planners": "uct", "tasks": "cook-meat"} | keys)
        )
        return "sweep.yaml"

    return grid


@pytest.mark.parametrize(
    ("keys", "where", "remedy"),
    [
        ({"planners": "evil.py:mine"}, "planners: evil.py:mine runs code", "evil.py"),
        ({"grids": [{"domain": "./evil.py:World"}]}, "grids[0].domain: ./evil.py:World", "evil.py"),
        ({"model": "weights"}, "the model weights is a folder", "weights"),
        ({"model": "mine.yaml"}, "the model ./weights is a folder", "./weights"),
        ({"planners": "too", "role_models": {"dynamics": "weights"}}, "the model weights", "weigh"),
        (
            {
                "planners": "xenon",
                "domain": "minecraft-goals",
                "tasks": "all",
                "settings": {"save": "~/.profile"},
            },
            "the setting save=~/.profile writes a file",
            "'~/.profile'",
        ),
        (
            {
                "domain": "gymnasium",
                "tasks": "FrozenLake-v1",
                "settings": {"words": "evil.py"},
            },
            "the setting words=evil.py runs code",
            "evil.py",
        ),
        ({"model": "evil/model"}, "the model evil/model does not come with", "evil/model"),
        ({"model": "-e;rm"}, "the model -e;rm does not come with", "'-e;rm'"),
    ],
)
def test_what_only_a_file_asks_for_is_refused(grid, tmp_path, keys, where, remedy):
    path = grid(**keys)
    with pytest.raises(SweepConfigError) as caught:
        load_sweep(path)
    message = str(caught.value)
    assert message.startswith("sweep.yaml: ")
    assert where in message
    assert f"--trust {remedy}" in message.replace(f"{tmp_path}/", "")
    assert not (tmp_path / "ran").exists()


def test_what_a_parent_of_the_file_names_is_refused_too(grid, tmp_path):
    (tmp_path / "child.yaml").write_text(f"extends: {grid(planners='evil.py:mine')}")
    with pytest.raises(SweepConfigError, match="runs code"):
        load_sweep("child.yaml")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("vouched", ["evil.py", ".", "link.py"])
def test_what_the_user_names_is_run(grid, tmp_path, vouched):
    (tmp_path / "link.py").symlink_to("evil.py")
    trust = Trust.of([vouched])
    path = grid(planners="evil.py:mine", domain="minecraft", seeds=2)
    assert len(load_sweep(path, trust=trust).trials) == 2
    assert (tmp_path / "ran").exists()


def test_trust_in_one_thing_is_no_trust_in_another(grid):
    trust = Trust.of(["weights"])
    assert load_sweep(grid(model="weights"), trust=trust).trials
    with pytest.raises(SweepConfigError, match="runs code"):
        load_sweep(grid(planners="evil.py:mine"), trust=trust)


@pytest.mark.usefixtures("grid")
def test_the_trials_of_a_ledger_are_asked_the_same(tmp_path):
    plain = Trial(planner="uct", domain="minecraft", task="cook-meat", model="none")
    named = {
        "engines": {
            "a": {"model": "smollm2-135m-instruct"},
            "b": {"model": "Qwen/Qwen2.5-7B-Instruct"},
        }
    }
    Trust().check_trials([plain, Trial(**plain.to_json() | named)])
    for fields in (
        {"planner": "evil.py:mine"},
        {"domain": f"{tmp_path}/evil.py:World"},
        {"engines": {"smollm2-135m-instruct": {"model": "weights"}}},
        {"settings": {"save": "here.json"}},
        {"settings": {"domain.words": f"{tmp_path}/evil.py"}},
        {"engines": {"a": {"model": "evil/model"}}},
    ):
        trial = Trial(**plain.to_json() | fields)
        with pytest.raises(UntrustedError, match="--trust"):
            Trust().check_trials([plain, trial])
        Trust.of([tmp_path, "evil/model"]).check_trials([plain, trial])


@pytest.mark.usefixtures("grid")
@pytest.mark.parametrize("turned", [1, -1])
def test_no_trial_vouches_for_another(tmp_path, turned):
    """Names of engines, planners and domains are one thing, what they mean another."""
    plain = {"planner": "uct", "domain": "minecraft", "task": "cook-meat", "model": "none"}
    fine = {"model": "smollm2-135m-instruct"}
    for first, second in (
        ({"engines": {"evil.py:mine": fine}}, {"planner": "evil.py:mine"}),
        ({"engines": {"evil.py:World": fine}}, {"domain": "evil.py:World"}),
        ({"engines": {"m": fine}}, {"engines": {"m": {"model": "weights"}}}),
        ({"planner": "m"}, {"engines": {"m": {"model": "weights"}}}),
    ):
        trials = [Trial(**plain | fields) for fields in (first, second)][::turned]
        with pytest.raises(UntrustedError):
            Trust().check_trials(trials)


def test_what_a_vouched_file_imports_lies_beside_itself(grid, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "plan.py").write_text("import helper\n" + CODE)
    (mine / "helper.py").write_text("")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "plan.py").symlink_to(mine / "plan.py")
    (theirs / "helper.py").write_text("open('theirs-ran', 'w')")
    path = grid(planners="theirs/plan.py:mine", domain="minecraft")
    assert load_sweep(path, trust=Trust.of(["mine/plan.py"])).trials
    assert not (tmp_path / "theirs-ran").exists()


@pytest.mark.parametrize("empty", ["", " "])
def test_nothing_vouches_for_nothing(grid, empty):
    with pytest.raises(SweepConfigError, match="runs code"):
        load_sweep(grid(planners="evil.py:mine"), trust=Trust.of([empty]))


def test_an_empty_trust_is_refused(grid):
    assert "--trust" in refused("sweep", "run", grid(planners="evil.py:mine"), "--trust", "")


def test_a_folder_does_not_pass_for_a_model_of_the_hub(grid, tmp_path):
    (tmp_path / "Qwen" / "Qwen2.5-VL-7B-Instruct").mkdir(parents=True)
    with pytest.raises(SweepConfigError, match="is a folder"):
        load_sweep(grid(model="Qwen/Qwen2.5-VL-7B-Instruct"))


@pytest.mark.usefixtures("grid")
def test_a_received_ledger_is_not_resumed_with_code_of_its_own(tmp_path):
    source = own_source("evil.py:mine").sha256
    trial = Trial(
        planner="evil.py:mine", domain="minecraft", task="cook-meat", model="none", source=source
    )
    sweep = {"name": "theirs", "retries": 0, "trials": [trial.to_json()]}
    Ledger.create(tmp_path / "theirs", sweep, {}).close()
    before = (tmp_path / "theirs" / "ledger.sqlite").read_bytes()
    assert "evil.py:mine runs code" in refused("sweep", "resume", "theirs")
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "theirs" / "ledger.sqlite").read_bytes() == before


@pytest.mark.usefixtures("grid")
def test_a_file_of_roles_does_not_choose_a_folder(tmp_path):
    (tmp_path / "roles.yaml").write_text("dynamics: {model: ./weights}")
    message = refused("run", "too", "--model", "none", "--set", "roles=roles.yaml")
    assert "--role-model dynamics=./weights" in message


def test_an_index_does_not_choose_its_encoder(tmp_path):
    theirs = tmp_path / "encoder"
    theirs.mkdir()
    (theirs / "config.json").write_text("{}")
    (theirs / "modules.json").write_text(
        json.dumps([{"idx": 0, "name": "0", "path": "", "type": "custom.Evil"}])
    )
    (theirs / "custom.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: ...")
    index = EmbeddingIndex(
        2, metadata={"encoder": {"name": str(theirs), "revision": "r"}, "field": None}
    )
    index.add(["a"], np.array([[1.0, 0.0]], np.float32), [None])
    index.save(tmp_path / "theirs")
    search = "index", "search", tmp_path / "theirs", "text"
    assert "if you trust it, name it with --model: {'name': '" in refused(*search, code=1)
    assert invoke(*search, "--model", theirs).exit_code == 1
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("model", ["students/half-0/adapter", "./students", "/no/where"])
def test_a_folder_that_is_missing_is_not_to_be_trusted_but_made(grid, model):
    with pytest.raises(SweepConfigError) as caught:
        load_sweep(grid(model=model))
    assert str(caught.value).endswith(
        f"the model {model} is a folder that does not exist: make it first, or run this from the "
        "folder that has it"
    )


def test_what_may_be_a_folder_or_of_the_hub_is_told_as_both(grid):
    with pytest.raises(SweepConfigError, match="program and is no folder here, and only a file"):
        load_sweep(grid(model="iterated/adapter"))
