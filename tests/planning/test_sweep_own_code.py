"""A user's own planner and domain, in a folder of their own: swept, killed, resumed, reported."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
from catalogues import listed
from command_line import answer, invoke, refused

from llm_planning.environments.catalogue import DOMAINS
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.ledger import LEDGER_FILE, Ledger
from llm_planning.experiments.local_pool import LocalPool, prepare_trial, run_trial
from llm_planning.experiments.sweep_files import SweepConfigError, Trust
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


def command(*arguments, module="llm_planning.cli"):
    return [sys.executable, "-m", module, *map(str, arguments)]


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
    import asyncio
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


    class PanicException(BaseException):
        pass


    class Mute(BaseException):
        def __str__(self):
            raise PanicException


    class Any(world.Line):
        def step(self, state, action, rng):
            raise self.error

        def __init__(self, task: str = "right", which: str = "panic"):
            super().__init__(task)
            self.error = {
                "panic": PanicException("index out of bounds"),
                "mute": Mute(),
                "closed": GeneratorExit("closed"),
                "cancelled": asyncio.CancelledError("not by us"),
                "group": BaseExceptionGroup("two", [PanicException("one"), ValueError()]),
                "nothing": StopIteration(),
                "interrupted": BaseExceptionGroup("two", [KeyboardInterrupt()]),
            }[which]


    class Cancelling(world.Line):
        def step(self, state, action, rng):
            asyncio.current_task().cancel()
            return super().step(state, action, rng)
"""


@pytest.mark.parametrize(
    ("domain", "error"),
    [
        ("failing.py:Broken", "failing.py, line 8: KeyError: "),
        ("failing.py:Odd", "rules.py, line 3: TypeError: "),
        ("failing.py:Leaving", "failing.py, line 18: SystemExit: 0"),
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
    assert kept == "failing.py, line 18: RuntimeError: SystemExit: 0"


@pytest.mark.parametrize(
    ("which", "error"),
    [
        ("panic", "PanicException: index out of bounds"),
        ("mute", "Mute"),
        ("closed", "GeneratorExit: closed"),
        ("cancelled", "CancelledError: not by us"),
        ("group", "BaseExceptionGroup: two (2 sub-exceptions), the first PanicException: one"),
        ("nothing", "StopIteration"),
    ],
)
@pytest.mark.parametrize("width", [1, 2])
def test_an_error_that_is_no_exception_is_kept_as_any_other(mine, which, error, width):
    # Not what an earlier test has run in this process.
    write(mine, failing_py=FAILING + f"\n    # {which}, {width}\n")
    settings = {"domain.which": which, "width": width}
    trial = load(planners="uct", domain="failing.py:Any", seeds=1, settings=settings).trials[0]
    kept = asyncio.run(run_trial(trial, Engines(EncoderEngine())))
    assert (kept.status, kept.error) == ("failed", f"failing.py, line 32: {error}")
    chosen = (f"--set=domain.which={which}", f"--set=width={width}")
    line = refused("run", "uct", "--domain", "failing.py:Any", *chosen, "--model=none", code=1)
    assert line == f"error: failing.py, line 32: {error}"


def test_a_world_that_cancels_its_own_task_has_failed(mine):
    write(mine, failing_py=FAILING)
    load(planners="uct", domain="failing.py:Cancelling", seeds=2, retries=0)
    said = printed("sweep", "run", "sweep.yaml", *TRUSTED)
    assert "all 4 trials finished; 0 done and 4 failed" in said
    refused("run", "uct", "--domain", "failing.py:Cancelling", "--model=none", code=1)


def test_ctrl_c_in_a_group_of_errors_ends_a_sweep(mine):
    write(mine, failing_py=FAILING + "\n    # interrupted\n")
    load(planners="uct", domain="failing.py:Any", settings={"domain.which": "interrupted"})
    assert printed("sweep", "run", "sweep.yaml", *TRUSTED, code=130).startswith("interrupted; 0 of")


def test_the_end_of_a_sweep_counts_what_is_recorded(mine, monkeypatch):
    def lost(self, trial):
        if trial.task == "left":
            raise asyncio.CancelledError  # nobody cancelled it
        return run_trial(trial, Engines(EncoderEngine()))

    monkeypatch.setattr(LocalPool, "run", lost)
    load(seeds=2)
    line = printed("sweep", "run", "sweep.yaml", *TRUSTED, code=1)
    assert line == (
        "error: the sweep ended, but 2 of 4 trials left no result; 2 of 4 trials are recorded; "
        "to go on: llm-planning sweep resume sweeps/sweep\n"
    )


def test_a_metric_whose_reading_fails_is_no_end_of_the_sweep(mine):
    lazy = """
        from llm_planning import Outcome, planner

        class Lazy(dict):
            def __init__(self):
                super().__init__(cost=1)

            def items(self):
                raise OSError("gone")

        @planner("walk", summary="Leaves a metric that cannot be read.")
        async def walk(run):
            return Outcome(success=True, plan=(), metrics={"lazy": Lazy()}, trace={}, text="")
    """
    write(mine, lazy_py=lazy)
    load(planners="lazy.py:walk", seeds=1, retries=0)
    assert "0 done and 2 failed" in printed("sweep", "run", "sweep.yaml", *TRUSTED)
    (reason,) = answer("sweep", "status", "sweeps/sweep")["errors"]
    assert "left a result that cannot be kept (OSError: gone)" in reason


def test_a_world_that_closes_standard_output_loses_no_trial(mine):
    closing = """
        import sys
        import world

        class Closing(world.Line):
            def start(self, seed):
                sys.stdout.close()
                return 0
    """
    write(mine, closing_py=closing)
    load(planners="uct", domain="closing.py:Closing", seeds=2, settings={"simulations": 2})
    line = printed_by_process("sweep", "run", "sweep.yaml", *TRUSTED, code=1)
    assert line == "error: standard output cannot be written: it is closed\n"
    assert answer("sweep", "status", "sweeps/sweep")["finished"] == 4


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


CARRY = """
    from llm_planning import Domain, Step

    THINGS = frozenset({"apple", "book", "cup", "dish", "egg", "fork", "glove"})


    class Carry(Domain):
        goal = "Carry three things."

        def start(self, seed):
            return frozenset()

        def describe(self, held):
            return f"You hold {', '.join(held) or 'nothing'}."

        def actions(self, held):
            return list(THINGS - held) if len(held) < 5 else []

        def step(self, held, action, rng):
            return Step(held | {action}, done=len(held) == 4)
"""


def test_a_command_plans_the_same_each_time_though_a_world_lists_a_set(mine):
    write(mine, carry_py=CARRY)
    load(planners="uct", domain="carry.py:Carry", settings={"simulations": 2})
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    plans = []
    starts = [("llm_planning.cli", {}), ("llm_planning", {"PYTHONHASHSEED": ""})]
    for module, environment in [*starts, ("llm_planning", {"PYTHONHASHSEED": "5"})]:
        out = mine / f"out{len(plans)}"
        ended = subprocess.run(
            command("sweep", "run", "sweep.yaml", *TRUSTED, "--out", out, module=module),
            env={**inherited, **environment},
            capture_output=True,
            check=False,
        )
        assert ended.returncode == 0
        with Ledger.open(out) as ledger:
            plans.append([row.result.plan for row in ledger.rows()])
            (made,) = ledger.provenances.values()
        assert made["hash_seed"] == (environment.get("PYTHONHASHSEED") or "0")
    assert plans[0] == plans[1]
    assert len({plans[0][0], plans[2][0]}) == 2


READING = """
    import importlib
    import json
    import subprocess
    from pathlib import Path

    import world

    HERE = Path(__file__).parent
    LENGTH = int((HERE / "length.txt").read_text())
    later = importlib.import_module("later")


    class Reading(world.Line):
        def __init__(self, task: str = "right", pause: float = 0.0):
            super().__init__(task, length=LENGTH)
            table = HERE / "tables" / f"{task}.json"
            self.table = json.loads(table.read_text()) if table.exists() else None

        def start(self, seed):
            for name in ("log", "made"):
                with open(name, "a") as file:
                    file.write("x")
                (HERE / name).read_text()
            subprocess.run(["sh", "-c", "date +%N > theirs"])
            (HERE / "theirs").read_text()
            return 0
"""


@pytest.fixture
def reading(mine):
    """A world that reads files when it is imported, constructed and begun."""
    (mine / "tables").mkdir()
    write(mine, reading_py=READING, later_py="X = 1", length_txt="3", log_txt="")
    for name in ("log", "made", "theirs"):
        (mine / name).write_text("of an earlier run")
    for task in ("right", "left"):
        (mine / "tables" / f"{task}.json").write_text("[1]")
    load(domain="reading.py:Reading", seeds=1, retries=0)
    time.sleep(0.02)  # a file system may keep time in steps of some milliseconds
    return mine


def test_a_ledger_has_results_of_one_content_of_each_file_that_its_code_reads(reading):
    printed_by_process("sweep", "run", "sweep.yaml", *TRUSTED)
    folder = reading / "sweeps" / "sweep"
    with Ledger.open(folder) as ledger:
        files = {row.result.trial.task: row.result.files for row in ledger.rows()}
    first = {"length.txt", "later.py"}
    for task in ("right", "left"):
        read = {name for name, sha256 in files[task].items() if sha256}
        assert read == {*first, f"tables/{task}.json"}
        assert files[task].keys() - read == {"log", "made"}
    for name in ("length.txt", "later.py", "tables/left.json"):
        path = reading / name
        before = path.read_text()
        path.write_text(f"{before} ")
        for again in (("run", "sweep.yaml"), ("resume", folder)):
            line = printed("sweep", *again, *TRUSTED, code=1)
            assert line.startswith(
                f"error: {name} is not what it was when the sweep began: put it back, or begin the "
                "sweep anew in another folder; 2 of 2 trials are recorded"
            )
        path.write_text(before)
    assert "all 2 trials finished" in printed("sweep", "resume", folder, *TRUSTED)


def test_a_file_that_is_read_later_must_not_change_while_the_sweep_runs(reading):
    engines = Engines(EncoderEngine())
    right, left = load().trials
    first = asyncio.run(run_trial(right, engines))
    assert first.files.keys() >= {"length.txt", "tables/right.json"}
    (reading / "tables" / "right.json").write_text("[2]")
    again = asyncio.run(run_trial(right, engines))
    assert again.files["tables/right.json"] != first.files["tables/right.json"]
    with Ledger.create(reading / "out", load().to_json(), {}) as ledger:
        ledger.record(first, attempt=1, final=True)
        with pytest.raises(OwnCodeError, match=r"^tables/right\.json is not what it was"):
            ledger.record(replace(again, trial=left), attempt=1, final=True)
        assert len(ledger.finished()) == 1


LEARNING = """
    import os
    from pathlib import Path

    import world

    NOTES = Path(__file__).with_name("notes.txt")


    class Learning(world.Line):
        def start(self, seed):
            notes = NOTES.read_text()
            if {when}:
                {write}
            NOTES.read_text()
            return 0
"""
WRITES = {
    "plainly": "NOTES.write_text(notes + 'x')",
    "safely": "Path('notes.new').write_text(notes + 'x'); os.replace('notes.new', NOTES)",
}


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("when", ["True", "seed == 1"])
def test_a_file_that_the_code_itself_writes_may_change(mine, when, how):
    write(mine, learning_py=LEARNING.format(when=when, write=WRITES[how]), notes_txt="old")
    load(domain="learning.py:Learning", tasks="right", seeds=3, retries=0, planners="uct")
    time.sleep(0.02)  # a file system may keep time in steps of some milliseconds
    run = ("sweep", "run", "sweep.yaml", *TRUSTED, "--out", "out", "--concurrency", "1")
    assert invoke(*run).exit_code == 0
    assert (mine / "notes.txt").read_text() != "old"
    with Ledger.open(mine / "out") as ledger:
        read = [row.result.files.get("notes.txt") for row in ledger.rows()]
        assert ledger.files["notes.txt"] is None
    assert [bool(sha256) for sha256 in read] == [when != "True", False, False]
    assert "all 3 trials finished" in printed("sweep", "resume", "out", *TRUSTED)


def test_a_module_that_python_compiles_when_it_is_read_is_not_written(mine, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    lazy = LEARNING.format(when="False", write="pass").replace("import os", "import importlib")
    lazy = lazy.replace("notes = NOTES.read_text()", "importlib.import_module('lately')")
    write(mine, lazily_py=lazy, lately_py="X = 1", notes_txt="old")
    load(domain="lazily.py:Learning", tasks="right", seeds=1, planners="uct")
    time.sleep(0.02)  # a file system may keep time in steps of some milliseconds
    assert invoke("sweep", "run", "sweep.yaml", *TRUSTED, "--out", "out").exit_code == 0
    assert list((mine / "__pycache__").glob("lately.*"))
    with Ledger.open(mine / "out") as ledger:
        assert all(ledger.files[name] for name in ("lately.py", "notes.txt"))


def test_code_is_run_anew_when_what_it_read_has_changed(reading):
    engines = Engines(EncoderEngine())
    first = asyncio.run(run_trial(load().trials[0], engines))
    (reading / "length.txt").write_text("5")
    time.sleep(0.02)
    again = asyncio.run(run_trial(load().trials[0], engines))
    ends = [abs(result.metrics["end"]) for result in (first, again)]
    assert ends == [3, 5]
    assert first.files["length.txt"] != again.files["length.txt"]
