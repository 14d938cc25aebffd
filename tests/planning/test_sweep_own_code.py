"""A user's own planner and domain, in a folder of their own: swept, killed, resumed, reported."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from catalogues import listed
from command_line import invoke, refused

from llm_planning.environments.catalogue import DOMAINS
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.grid_file import SweepConfigError
from llm_planning.experiments.ledger import LEDGER_FILE, Ledger
from llm_planning.experiments.local_pool import prepare_trial, run_trial
from llm_planning.experiments.sweep_files import Trust
from llm_planning.own_code import OwnCodeError
from llm_planning.registry import find_domain
from llm_planning.roles import Engines
from llm_serving.encoder_engine import EncoderEngine

TRUSTED = ("--trust", ".")

RULES = """
    def moved(place, action):
        return place + (1 if action == "right" else -1)
"""
WORLD = """
    from pathlib import Path

    from rules import moved

    from llm_planning import Domain, Step

    with Path(__file__).with_name("ran").open("a") as ran:
        ran.write("x")


    class Line(Domain[int, str]):
        \"\"\"A line to walk along.\"\"\"

        tasks = ("right", "left")

        def __init__(self, task: str = "right", length: int = 3, pause: float = 0.0) -> None:
            self.goal = f"go {length} to the {task}"
            self.end = length if task == "right" else -length
            self.pause = pause

        def start(self, seed):
            return 0

        def describe(self, state):
            return f"at {state}"

        def actions(self, state):
            return ("left", "right")

        def step(self, state, action, rng):
            place = moved(state, action)
            return Step(place, reward=float(place == self.end), done=place == self.end)


    class Needy(Line):
        def __init__(self, must):
            pass
"""
WALK = """
    import asyncio
    from random import Random

    from llm_planning import Outcome, planner
    from llm_planning.settings import Settings


    class Walking(Settings):
        stride: int = 1
        length: int = 50


    @planner("walk", summary="Walks at random.", settings=Walking)
    async def walk(run):
        world, settings, rng, plan = run.world, run.settings, Random(run.seed), []
        state, done = world.start(run.seed), False
        while not done and len(plan) < settings.length:
            plan.append(rng.choice(world.actions(state)))
            for _ in range(settings.stride):
                state, _, done, *_ = world.step(state, plan[-1], rng)
        await asyncio.sleep(world.pause)
        moves = {"moves": len(plan), "end": state}
        return Outcome(success=done, plan=tuple(plan), metrics=moves, trace={}, text="")
"""
SWEEP = """
    model: none
    planners: walk.py:walk
    domain: world.py:Line
    tasks: all
    seeds: 20
    settings: {stride: [1, 2], domain.length: 4, pause: 0.05}
"""


PLAIN = {"model": "none", "planners": "walk.py:walk", "domain": "world.py:Line", "tasks": "all"}


def load(**changes):
    """The sweep in the working directory; with changes, the plain one with these is put there."""
    if changes:
        Path("sweep.yaml").write_text(json.dumps(PLAIN | changes))
    return load_sweep("sweep.yaml", trust=Trust.of(["."]))


def write(folder, **files):
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem}.{suffix}").write_text(textwrap.dedent(text))


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The folder, which is the working directory."""
    folder = tmp_path / "mine"
    folder.mkdir()
    write(folder, rules_py=RULES, world_py=WORLD, walk_py=WALK, sweep_yaml=SWEEP)
    monkeypatch.chdir(folder)
    return folder


def command(*arguments):
    return [sys.executable, "-m", "llm_planning.cli", *map(str, arguments)]


def printed(*arguments, code=0):
    """What a command says that runs nobody's code: it may run in this process."""
    ended = invoke(*arguments)
    assert ended.exit_code == code, ended.output
    return ended.stdout if code == 0 else ended.stderr


def printed_by_process(*arguments, code=0):
    done = subprocess.run(command(*arguments), capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def times_run(folder):
    return len((folder / "ran").read_text())


@pytest.mark.kills
def test_it_is_swept_killed_resumed_and_reported_by_commands_alone(mine):
    sweep = subprocess.Popen(
        command("sweep", "run", "sweep.yaml", "--no-cache", "--concurrency", "2", *TRUSTED),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    folder = mine / "sweeps" / "sweep"
    deadline = time.monotonic() + 120
    finished = 0
    while finished < 7:
        assert sweep.poll() is None, "the sweep ended too soon"
        assert time.monotonic() < deadline
        time.sleep(0.05)
        if (folder / LEDGER_FILE).exists():
            with Ledger.open(folder) as ledger:
                finished = len(ledger.finished())
    os.kill(sweep.pid, signal.SIGKILL)
    sweep.wait()

    ran = times_run(mine)
    status = json.loads(printed("sweep", "status", folder, "--json"))
    assert (status["total"], status["failed"]) == (80, 0)
    kept = status["done"]
    assert 7 <= kept < 80
    printed("sweep", "report", folder)
    printed("sweep", "export", folder, "--out", mine / "part.csv")
    none = printed("report", "paper", "too", "table2", "--from", folder, code=1)
    assert "its planners are walk.py:walk" in none
    assert times_run(mine) == ran, "reading a ledger must not run the user's code"

    # What is resumed is what was begun.
    write(mine, rules_py=RULES + "\n    # edited\n")
    stopped = printed_by_process("sweep", "resume", folder, "--no-cache", *TRUSTED, code=1)
    assert "world.py is not what it was when the sweep began" in stopped
    assert f"{kept} of 80 trials are recorded" in stopped
    assert times_run(mine) == ran, "what has changed must not be run"
    write(mine, rules_py=RULES)

    resumed = json.loads(
        printed_by_process("sweep", "resume", folder, "--no-cache", *TRUSTED, "--json")
    )
    assert (resumed["kept"], resumed["done"], resumed["failed"]) == (kept, 80 - kept, 0)
    report = json.loads(printed("sweep", "report", folder, "--by", "stride", "--json"))
    assert [(group["by"]["settings.stride"], group["done"]) for group in report["groups"]] == [
        (1, 40),
        (2, 40),
    ]
    with Ledger.open(folder) as ledger:
        rows = list(ledger.rows())
    assert len({row.key for row in rows}) == len(rows) == 80
    results = [row.result for row in rows]
    for result in results:
        trial = result.trial
        assert (trial.planner, trial.domain) == ("walk.py:walk", "world.py:Line")
        side = 1 if trial.task == "right" else -1
        assert result.success == (result.metrics["end"] == 4 * side)
        assert (trial.settings["length"], trial.settings["domain.length"]) == (50, 4)
    assert any(result.success for result in results)


def test_an_edit_of_what_the_code_imports_makes_other_trials(mine):
    def keys():
        return {trial.key for trial in load().trials}

    first = keys()
    assert len(first) == 80
    write(mine, rules_py=RULES + "\n    # edited\n")
    assert not keys() & first
    write(mine, rules_py=RULES)
    assert keys() == first


async def test_a_trial_runs_the_code_that_its_sweep_began_with(mine):
    trial = load().trials[0]
    engines = Engines(EncoderEngine())
    assert (await run_trial(trial, engines)).status == "done"
    # What runs is loaded; an edit while it runs does no harm.
    write(mine, walk_py=WALK + "\n    # edited\n")
    assert (await run_trial(trial, engines)).status == "done"
    edited = load().trials[0]
    write(mine, walk_py=WALK)
    with pytest.raises(OwnCodeError, match=r"/walk\.py is not what it was when the sweep began"):
        await run_trial(edited, engines)


FAILING = """
    import world


    class Broken(world.Line):
        def step(self, state, action, rng):
            return {}[action]


    class Odd(world.Line):
        def start(self, seed):
            return None


    class Leaving(world.Line):
        def step(self, state, action, rng):
            raise SystemExit(0)
"""


@pytest.mark.parametrize(
    ("domain", "error"),
    [
        ("failing.py:Broken", "failing.py, line 7: KeyError: "),
        ("failing.py:Odd", "rules.py, line 3: TypeError: "),
        ("failing.py:Leaving", "failing.py, line 17: SystemExit: 0"),
    ],
)
def test_an_error_of_one_s_own_code_is_kept_with_its_place(mine, domain, error):
    write(mine, failing_py=FAILING)
    trial = load(planners="uct", domain=domain, seeds=1).trials[0]
    kept = asyncio.run(run_trial(trial, Engines(EncoderEngine()))).error
    assert kept.startswith(error)
    line = refused("run", "uct", "--domain", domain, "--model", "none", code=1)
    assert line == f"error: {kept}"


def test_a_world_that_exits_in_a_task_of_its_own_ends_no_command(mine):
    write(mine, failing_py=FAILING + "\n    # apart from what an earlier test has run\n")
    trial = load(
        planners="uct", domain="failing.py:Leaving", seeds=1, settings={"width": 2}
    ).trials[0]
    kept = asyncio.run(run_trial(trial, Engines(EncoderEngine()))).error
    assert kept == "failing.py, line 17: RuntimeError: SystemExit: 0"


@pytest.mark.parametrize("changed", ["world.py", "walk.py", "rules.py"])
async def test_what_has_changed_is_refused_before_it_runs(mine, changed):
    # Not what an earlier test has run in this process.
    write(mine, rules_py=RULES + f"\n    # {changed}\n")
    trial = load().trials[0]
    (mine / "ran").unlink()
    marking = '__import__("pathlib").Path("changed-ran").touch()\n'
    (mine / changed).write_text(marking + (mine / changed).read_text())
    file = "walk" if changed == "walk.py" else "world"
    with pytest.raises(OwnCodeError, match=rf"/{file}\.py is not what it was"):
        await run_trial(trial, Engines(EncoderEngine()))
    assert not (mine / "changed-ran").exists()
    assert not (mine / "ran").exists(), "the other file is not run either"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"planners": "gone.py:walk"}, ["planners.'gone.py:walk'", "gone.py cannot be read"]),
        ({"domain": "world.py:Needy"}, ["domain: ", "give the parameter 'must'", "a default"]),
        ({"tasks": "up"}, ["tasks: unknown task 'up' of world.py:Line", "known: left, right"]),
        ({"settings": {"strid": 1}}, ["settings.strid", "did you mean stride"]),
        ({"settings": {"domain.length": "x"}}, ["settings.domain.length: 'x' is not possible"]),
        (
            {"settings": {"pause": 1.0, "domain.pause": 2.0}},
            ["'domain.pause' is given twice", "keep one"],
        ),
    ],
)
def test_what_is_wrong_with_it_is_said_in_one_line(mine, changes, expected):
    with pytest.raises(SweepConfigError) as caught:
        load(**changes)
    message = str(caught.value)
    assert message.startswith("sweep.yaml: ")
    assert message.isprintable()
    for part in expected:
        assert part in message


def test_a_task_of_two_domains_needs_the_domain(mine, monkeypatch):
    line = find_domain("world.py:Line")
    for name in ("near", "far"):
        listed(monkeypatch, DOMAINS, name, line)
    monkeypatch.delitem(PLAIN, "domain")
    with pytest.raises(SweepConfigError, match=r"tasks: the task 'right' is in the domains .*name"):
        load(tasks=["right"])
    assert len(load(tasks=["right"], domain="near").trials) == 1
    with pytest.raises(SweepConfigError, match=r"tasks: planner .* plans in .*: say which by"):
        load(tasks="all")


def test_domains_are_swept_like_anything_else(mine):
    write(mine, more_py=WORLD.replace("Line", "Long"))
    trials = load(
        domain=["world.py:Line", "more.py:Long"],
        tasks=["left"],
        seeds=2,
        exclude={"domain": "more.py:Long", "seed": 1},
    ).trials
    assert [(trial.domain, trial.seed) for trial in trials] == [
        ("world.py:Line", 0),
        ("world.py:Line", 1),
        ("more.py:Long", 0),
    ]
    assert prepare_trial(trials[-1]).domain.name == "more.py:Long"
    assert trials[0].source != trials[-1].source
