"""The same mistake ends every command with the same exit code, before a model is opened."""

import json

import pytest
from command_line import invoke

from llm_planning import model_configs
from llm_planning.commands import run as run_module

FILES = {
    "broken.yaml": "model: [\n",
    "odd.yaml": "modell: x\n",
    "impossible.yaml": "model: smollm2-135m-instruct\ncontext: -5\n",
    "fails.py": "1 / 0\n",
    "syntax.py": "def\n",
    "half.py": "from llm_planning import Domain\nclass Half(Domain):\n    goal = 'x'\n",
    "domain.pddl": "(define (domain d))",
}

MODELS = {
    "": 2,
    "nofile.yaml": 2,
    "broken.yaml": 2,
    "odd.yaml": 2,
    "impossible.yaml": 2,
    "none+adapter": 2,
    "nothing": 1,
    "nobody/nothing": 1,
    "./nofolder": 1,
    "./empty": 1,
    "smollm2-135m-instruct+nothing": 1,
    "smollm2-135m-instruct+./empty": 1,
}
"""A model's name -> the exit code: 2 where it says something impossible, 1 where it is missing."""

DOMAINS = {
    "nodomain": 2,
    "nofile.py:X": 2,
    "fails.py:X": 2,
    "syntax.py:X": 2,
    "half.py:Nope": 2,
    "half.py:FILES": 2,
    "half.py:Half": 2,
    "gymnasium:Nope-v0": 2,
    "openspiel:nope": 2,
    "pddl:domain.pddl,nofile.pddl": 2,
}

WORLDS = {
    "household home=nohome.yaml": 1,
    "household home=odd.yaml": 1,
    "household limit=1": 2,
    "textgame game=nofile.z5": 1,
    "textgame game=fails.py": 1,
    "gymnasium:Pendulum-v1": 1,
}
"""A domain and its settings -> the exit code at opening: 2 where a setting is impossible, 1 where a
file or the world will not do."""


def sweep(*, model="none", domain="textgame", settings=None, planner="puct"):
    """The command of a sweep of one planner in one world."""
    named = {"name": "one", "model": model, "domain": domain, "tasks": "all", "seeds": 1}
    grid = {**named, "planners": [planner], "settings": settings or {}}
    if domain == "textgame":
        grid["tasks"] = "trap-door"
    trusted = [name for known in (FILES, MODELS) for name in (*known, "nofile.py") if name]
    with open("sweep.yaml", "w", encoding="utf-8") as file:
        json.dump(grid, file)
    return ["sweep", "run", "sweep.yaml", *(f"--trust={name}" for name in trusted)]


@pytest.fixture(autouse=True)
def _files(tmp_path, monkeypatch):
    """A folder with the files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)


def ended(*arguments):
    """The exit code; the command says why in one line and prints nothing."""
    result = invoke(*arguments)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    return result.exit_code


@pytest.mark.parametrize("model", MODELS)
def test_the_same_model_ends_every_command_alike(model):
    measure = ("roles", "measure", "blocksworld", "--questions", "2", "--ledger", "ledger")
    codes = {
        "run": ended("run", "puct", "--model", model),
        "role": ended("run", "puct", "--model", "none", "--role-model", f"prior={model}"),
        "sweep": ended(*sweep(model=model)),
        "measure": ended(*measure, "--model", model),
    }
    assert codes == dict.fromkeys(codes, MODELS[model])


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_same_domain_ends_every_command_alike(domain):
    codes = {
        "run": ended("run", "puct", "--domain", domain),
        "list": ended("run", "puct", "--list", "--domain", domain),
        "sweep": ended(*sweep(domain=domain)),
        "measure": ended("roles", "measure", domain, "--model", "none", "--ledger", "ledger"),
        "distill": ended("distill", domain, "--out", "out", "--batches", "1"),
        "export": ended("distill", domain, "--export", "questions.jsonl"),
    }
    assert codes == dict.fromkeys(codes, DOMAINS[domain])


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("model", ["none", "smollm2-135m-instruct"])
def test_a_world_that_cannot_be_opened_ends_run_and_sweep_alike(monkeypatch, world, model):
    if model != "none":  # then nothing may be opened
        monkeypatch.setattr(run_module, "_open_engines", None)
        monkeypatch.setattr(model_configs, "serve", None)
    domain, *given = world.split()
    pairs = [f"--set={pair}" for pair in given]
    settings = dict(pair.split("=") for pair in given)
    run = ["run", "uct", "--domain", domain, *pairs] + (["--model", model] if model else [])
    assert ended(*run) == WORLDS[world]
    assert (
        ended(*sweep(model=model, domain=domain, settings=settings, planner="uct"))
        == (WORLDS[world])
    )


MIXED = """
from llm_planning import Domain, Step
from llm_planning.domain import DomainError


class Mixed(Domain):
    goal = "Go."
    tasks = ("odd", "plain")

    def __init__(self, task="odd", wall=False):
        if task == "odd" or wall:
            raise DomainError(f"no door leads to {task}")

    def start(self, seed):
        return 0

    def describe(self, state):
        return "here"

    def actions(self, state):
        return ["go"]

    def step(self, state, action, rng):
        return Step(1, done=True)
"""


@pytest.mark.parametrize("leaving", ["sys.exit(3)", "raise Panic('index')"])
def test_a_world_that_leaves_python_fails_its_own_trials_alone(tmp_path, leaving):
    begun = "import sys\nclass Panic(BaseException): pass\n"
    raises = 'raise DomainError(f"no door leads to {task}")'
    assert raises in MIXED
    (tmp_path / "mixed.py").write_text(begun + MIXED.replace(raises, leaving))
    grid = {"model": "none", "domain": "mixed.py:Mixed", "tasks": "all", "planners": ["uct"]}
    grid |= {"name": "one", "seeds": 1, "retries": 0}
    (tmp_path / "sweep.yaml").write_text(json.dumps(grid))
    result = invoke("sweep", "run", "sweep.yaml", "--trust", "mixed.py")
    assert "1 done and 1 failed" in result.stdout


def test_a_task_that_cannot_be_opened_fails_its_own_trials_alone(tmp_path):
    (tmp_path / "mixed.py").write_text(MIXED)
    grid = {"model": "none", "domain": "mixed.py:Mixed", "tasks": "all", "planners": ["uct"]}
    (tmp_path / "sweep.yaml").write_text(json.dumps({**grid, "name": "one", "seeds": 2}))
    result = invoke("sweep", "run", "sweep.yaml", "--trust", "mixed.py", "--out", "out")
    assert result.exit_code == 0
    assert "2 done and 2 failed" in result.stdout
    settings = {"settings": {"domain.wall": [False, True]}}
    (tmp_path / "sweep.yaml").write_text(json.dumps({**grid, **settings, "name": "two"}))
    assert ended("sweep", "run", "sweep.yaml", "--trust", "mixed.py", "--out", "new") == 1
    assert not (tmp_path / "new").exists()
