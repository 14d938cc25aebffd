"""`llm-planning run`, on scripted answers."""

import contextlib
import json
import re

import pytest
from command_line import answer, refused
from command_line import invoke as command

from llm_planning import model_configs
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.trace_file import decode_trace, summary_of
from llm_planning.viewer.ending import broken_off
from llm_planning.worker_processes import WorkerLostError
from llm_serving.errors import EngineConfigError
from llm_serving.scripted import ScriptedEngine

OPTION = {"verb": "mine", "quantity": 3, "item": "oak_log"}
OTHER = {"verb": "craft", "quantity": 4, "item": "oak_planks"}
SCORES = dict.fromkeys(
    (
        *("success_probability", "reward_estimate", "feasibility", "consistency"),
        *("relativity", "reachability", "task_specificity", "redundancy"),
    ),
    0.5,
)
NOTHING = {key: [] for key in ("gained", "lost", "blocks", "entities", "equipped", "conditions")}


def compact(value):
    return json.dumps(value, separators=(",", ":"))


SCRIPT = {
    "propose": compact({"options": [{"reasoning": "r", **OPTION}, {"reasoning": "r", **OTHER}]}),
    "feasibility": compact({"reason": "fine", "action_valid": True}),
    "dynamics": compact(NOTHING),
    "reward": compact(SCORES),
    "termination": compact({"done": False}),
    "decompose": compact({"options": [{"reasoning": "r", **OPTION}]}),
}
RULES = ("--set", "roles=rules")
SMALL = ("--set", "k=2", "--set", "d=2", "--set", "iter=2")


@pytest.fixture
def opened(monkeypatch):
    """The engines that a command opened, each answering from the script."""
    engines = {}

    @contextlib.contextmanager
    def opener(names, *, cached):
        engines.update({name: ScriptedEngine(SCRIPT) for name in names})
        yield engines

    monkeypatch.setattr(model_configs, "open_engines", opener)
    return engines


def invoke(*arguments):
    return command("run", *arguments)


@pytest.mark.parametrize("planner", ["too", "react-action", "cot"])
def test_every_planner_reports_in_one_json_line(opened, monkeypatch, planner):
    settings = SMALL if "k" in PLANNERS[planner].settings.known_keys() else ("--set", "attempts=2")
    if planner == "react-action":
        monkeypatch.setitem(SCRIPT, "propose", SCRIPT["decompose"])
    report = answer("run", planner, "--task", "milk-a-cow", *settings)
    executed = {"executions"} if "executions" in report["metrics"] else set()
    about = {"planner", "domain", "task", "goal", "model", "oracles", "seconds", "usage", "verdict"}
    assert set(report) == about | {"success", "metrics", "plan", "steps", "text"} | executed
    assert report["plan"][0] == f"mine {1 if planner == 'react-action' else 3} oak_log"
    (engine,) = opened.values()
    total = report["usage"]["total"]
    assert set(total) == {"calls", "prompt_tokens", "cached_tokens", "completion_tokens"}
    assert total["calls"] == len(engine.requests) > 0
    assert total["calls"] == sum(role["calls"] for role in report["usage"]["roles"].values())


def test_people_see_the_goal_each_step_the_verdict_the_cost_and_who_answered(opened):
    result = invoke("too", *SMALL, "--model", "one")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[:2] == ["obtain-leather in minecraft, planned by too", "Goal: Obtain 1 leather."]
    assert next(line.split()[0] for line in lines if "mine 3 oak_log" in line) == "1."
    (verdict,) = (line for line in lines if line.startswith("The goal is not reached: "))
    assert f"{result.stdout.count(' oak_log  done')} steps" in verdict
    (cost,) = (line for line in lines if line.startswith("Cost: "))
    assert " calls, " in cost
    assert lines[-1].startswith("Answered by: one (")
    for hidden in ("ROOT", "success_basis", "prompt tokens"):
        assert hidden not in result.stdout


def test_a_run_that_no_goal_judges_has_a_verdict_in_words_and_a_long_goal_is_cut(opened):
    arguments = ("adam", *RULES, "--set", "steps=60")
    short = invoke(*arguments).stdout
    whole = invoke(*arguments, "-v").stdout
    assert re.search(r"\d of 67 goals are obtained; the needs of \d+ are known rightly\.\n", short)
    assert " ... (-v shows all)\n" in short
    assert "compass" in whole.split("step 0")[0]
    assert "compass" not in short.split("step 0")[0]
    assert all(len(line) <= 80 for line in short.splitlines())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("drip budget=3", "3 steps, ran out of budget (3)"),
        ("drip max_depth=1", "ran out of depth (1)"),
        ("puct moves=3 --task trap-door", "3 steps, ran out of moves (3)"),
        ("mc-dml moves=3 --task trap-door", "3 steps, 25 of 100 points, ran out of moves (3)"),
        ("react-action --task craft-a-diamond-pickaxe", "30 steps, ran out of attempts (30)"),
    ],
)
def test_a_limit_that_ended_a_run_is_named(line, reason):
    words = re.sub(r"(\S+=\S+)", r"--set \1", line).split()
    report = answer("run", *words, *RULES, "--model", "none")
    assert report["verdict"] == f"The goal is not reached: {reason}."


def test_a_world_that_ends_by_itself_ran_out_of_nothing():
    home = ("--domain", "household", "--set", "limit=6", "--set", "sight=full", "--model", "none")
    report = answer("run", "uct", *home, "--set", "moves=6", "--set", "simulations=2")
    assert re.fullmatch(
        r"The goal is not reached: 6 steps, the fewest are 6, "
        r"\d\.\d\d% of the actions were tried: raise simulations\.",
        report["verdict"],
    )


def test_a_limit_is_named_beside_wrong_answers(tmp_path):
    (tmp_path / "wrong.yaml").write_text("decompose: {rate: 0}\njudge: rules\napply: rules\n")
    problem = ("--domain", "blocksworld", "--task", "section-4.1.4", "--model", "none")
    wrong = ("--set", f"roles={tmp_path / 'wrong.yaml'}", "--set", "budget=2")
    assert answer("run", "drip", *problem, *wrong)["verdict"].endswith(
        ", ran out of budget (2), wrong answers of decompose: 3; without errors put-down c undid "
        "stack c b."
    )


def test_more_is_seen_when_asked_for(opened):
    result = invoke("too", *SMALL, "-v")
    assert result.exit_code == 0, result.output
    for part in ("ROOT (N:2", "Goal: ", "Cost: ", "success_basis: executed", "prompt tokens"):
        assert result.stdout.count(part) == 1
    assert re.search(r"propose +. +2 ", result.stdout)


@pytest.mark.parametrize(
    ("arguments", "step", "verdict"),
    [
        (("walkthrough", "--task", "trap-door"), "The lantern burns", "6 steps, 100 of 100 points"),
        (("llm-policy", "--domain", "travel", *RULES), "You land in", "reached: 2 steps, the few"),
        (("drip", "--domain", "blocksworld", *RULES), "  done", "The goal is reached: "),
    ],
)
def test_what_the_world_said_of_each_step_stands_there_once(arguments, step, verdict):
    report = answer("run", *arguments, "--model", "none")
    printed = invoke(*arguments, "--model", "none").stdout
    assert step in printed
    assert verdict in printed
    assert "Cost: no model was asked" in printed
    for number, taken in enumerate(report["steps"], start=1):
        assert printed.count(f" {number}. {taken['action']}") == 1


def test_who_asks_nobody_loads_no_model(opened):
    for planner in ("uct", "mc-dml-uct"):
        report = answer("run", planner, "--domain", "blocksworld", "--set", "moves=1")
        assert (report["model"], list(opened)) == ("none", ["none"])
        opened.clear()


def test_two_models_share_the_roles(opened):
    others = [f"--role-model={role}=two" for role in ("dynamics", "reward", "termination")]
    report = answer("run", "too", *SMALL, "--model", "one", *others)
    roles = {name: {request.role for request in opened[name].requests} for name in opened}
    assert roles == {
        "one": {"propose", "feasibility"},
        "two": {"dynamics", "reward", "termination"},
    }
    calls = sum(len(engine.requests) for engine in opened.values())
    assert report["usage"]["total"]["calls"] == calls


def test_a_trace_is_written_whole(opened, tmp_path):
    path = tmp_path / "trace.jsonl"
    assert invoke("too", *SMALL, "--trace", str(path), "--seed", "3").exit_code == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    header = lines[0]
    assert (header["type"], header["planner"], header["seed"]) == ("header", "too", 3)
    assert (header["domain"], header["task"]) == ("minecraft", "obtain-leather")
    asked = {line["role"] for line in lines if line["type"] == "role"}
    assert asked == {"propose", "feasibility", "dynamics", "reward", "termination"}
    assert [line["value"] for line in lines if line.get("key") == "seed"] == [3]
    assert list(tmp_path.iterdir()) == [path]


def test_an_answer_is_not_lost_with_its_trace(opened, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("llm_planning.trace_file.write_trace", full)
    result = invoke("too", *SMALL, "--trace", str(tmp_path / "trace.jsonl"), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["plan"][0] == "mine 3 oak_log"
    (line,) = result.stderr.splitlines()
    assert "trace.jsonl cannot be written" in line
    assert "No space left" in line


def test_code_of_the_user_s_own_that_fails_is_told_with_its_place(opened, tmp_path):
    own = tmp_path / "mine.py"
    own.write_text(
        "from llm_planning import planner\n"
        "@planner('mine')\n"
        "async def mine(run):\n"
        "    return 1 / 0\n"
    )
    line = refused("run", f"{own}:mine", "--task", "milk-a-cow", code=1)
    assert line == f"error: {own}, line 4: ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tooo",), "too"),
        ((), "too"),
        (("too", "--task", "milk-a-cov"), "milk-a-cow"),
        (("too", "--set", "gama=0.9"), "gamma"),
        (("too", "--set", "k=0"), "k='0'"),
        (("too", "--set", "k"), "key=value"),
        (("too", "--set", "k=2", "--set", "k=3"), "twice"),
        (("too", "--trace", "nowhere/at/all.json"), "missing"),
        (("too", "--trace", "."), "is a folder"),
        (
            ("cot", "--role-model", "dynamics=two"),
            "cot has no such role; known: code, complete, decompose",
        ),
        (("cot", "--domain", "minecaft"), "minecraft"),
        (("cot", "--domain", "mine.py"), "unknown domain 'mine.py'; write mine.py:NAME"),
        (("cot", "--set", "roles=nowhere.yaml"), "neither llm nor rules"),
    ],
)
def test_a_wrong_name_costs_nothing_and_is_explained(opened, arguments, message):
    assert message in refused("run", *arguments)
    assert not opened


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--task", "zork1"), 1, "set games=FOLDER"),
        (("--task", "simple", "--set", "level=9"), 2, "levels of simple are 1 to 3"),
    ],
)
def test_a_game_that_cannot_be_opened_is_one_line(opened, arguments, code, message):
    assert message in refused("run", "puct", *arguments, code=code)


def test_a_game_that_fails_while_it_is_played_is_one_line(opened, monkeypatch):
    async def fail(self, snapshot):
        raise WorkerLostError("the worker is gone")

    monkeypatch.setattr(TrapDoor, "valid_actions", fail)
    line = refused("run", "puct", "--task", "trap-door", "--set", "remember=off", code=1)
    assert line == "error: the worker is gone"


@pytest.mark.parametrize(
    ("file", "code", "message"),
    [("missing/known.json", 2, "missing is missing"), ("known.json", 1, "known.json")],
)
@pytest.mark.parametrize("planner", ["xenon", "xenon-cooking"])
def test_a_file_to_save_in_that_will_not_do(opened, tmp_path, planner, file, code, message):
    (tmp_path / "known.json").write_text("{")
    assert message in refused("run", planner, "--set", f"save={tmp_path / file}", code=code)
    assert (tmp_path / "known.json").read_text() == "{"


def test_no_model_is_asked_for_in_pythons_word():
    run = "run", "walkthrough", "--task", "trap-door"
    first, second = (answer(*run, "--model", name) for name in ("none", "None"))
    assert first["plan"] == second["plan"]


def test_an_unknown_model_is_named():
    run = "run", "too", *SMALL, "--model", "smollm3-135m-instruct", "--no-cache"
    assert "smollm2-135m-instruct" in refused(*run, code=1)


def test_lists():
    planners = answer("run", "--list")
    assert {row["name"] for row in planners} == set(PLANNERS)
    rows = answer("run", "too", "--list")
    assert {"kind": "setting", "name": "gamma", "default": "0.95"} in rows
    assert sum(row["kind"] == "task of minecraft" for row in rows) == 9
    assert "milk-a-cow" in invoke("too", "--list").stdout
    # What is filled in is nothing to set; a trial's key still has it.
    assert not any(row["name"] == "roles_sha256" for row in rows)
    assert {"kind": "setting", "name": "roles", "default": "llm"} in rows


def test_a_domain_lists_the_planners_that_fit_it():
    rows = answer("run", "--list", "--domain", "multiplication")
    assert {row["domains"] for row in rows} == {"multiplication"}
    names = {row["name"] for row in rows}
    assert {"uct", "l-model-multiplication"} <= names
    assert not {"too", "drip", "l-model"} & names
    assert "did you mean multiplication" in refused("run", "--list", "--domain", "multiplicatio")


def test_what_packages_announce_is_listed(tmp_path, monkeypatch):
    (tmp_path / "their.dist-info").mkdir()
    (tmp_path / "their.dist-info" / "METADATA").write_text("Name: their\nVersion: 1\n")
    (tmp_path / "their.dist-info" / "entry_points.txt").write_text(
        "[llm_planning.planners]\nstroll = their_things:stroll\nlost = their_things:lost\n"
        "[llm_planning.domains]\nhall = their_things:Hall\nbare = their_things:stroll\n"
    )
    (tmp_path / "their_things.py").write_text(
        "from llm_planning import Domain, planner\n"
        "class Hall(Domain):\n    tasks = ('north',)\n"
        "    start = describe = actions = step = None\n"
        "    def __init__(self, doors=2): pass\n"
        "@planner('theirs')\nasync def stroll(run):\n"
        "    'Walks about.'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    listed = invoke("--list", "--json")
    assert listed.exit_code == 0
    rows = {row["name"]: row for row in json.loads(listed.stdout)}
    assert set(rows) == {*PLANNERS, "stroll"}
    assert rows["stroll"]["summary"] == "Walks about."
    ours = "textgame, minecraft, blocksworld, household, travel, multiplication, minecraft-goals"
    everywhere = f"{ours}, minecraft-items, cooking, hall"
    assert rows["stroll"]["domains"] == rows["uct"]["domains"] == everywhere
    assert rows["too"]["domains"] == "minecraft, blocksworld, travel"
    assert "not listed: lost (their_things:lost of their 1) fails: Attrib" in listed.stderr
    assert "not listed: bare (their_things:stroll of their 1) is not a domain" in listed.stderr
    assert "stroll" in invoke("--list").stdout
    rows = answer("run", "stroll", "--list")
    assert {"kind": "task of hall", "name": "north", "default": ""} in rows
    assert {"kind": "setting in hall", "name": "doors", "default": "2"} in rows
    rows = answer("run", "uct", "--domain", "hall", "--list")
    assert {"kind": "setting", "name": "doors", "default": "2"} in rows
    assert "stroll" in invoke().stderr


HIDING = """
from llm_planning import Domain, Step

class Door(Domain):
    goal = "Go out."

    def start(self, seed):
        return "in"

    def describe(self, state):
        return state

    def actions(self, state):
        return ["go"] if state == "in" else []

    def step(self, state, action, rng):
        return Step("out", reward=1.0, done=True)

class Hiding(Door):
    def observe(self, state):
        return "fog"

class Believing(Hiding):
    def belief(self, history, rng):
        return "in"
"""


@pytest.mark.parametrize(
    ("name", "planner", "noted"),
    [
        ("Hiding", "uct", True),
        ("Door", "uct", False),
        ("Believing", "uct", False),
        ("Hiding", "llm-policy", False),
    ],
)
def test_where_a_search_sees_what_a_world_hides_a_note_says_so(tmp_path, name, planner, noted):
    path = tmp_path / "hiding_doors.py"
    path.write_text(HIDING)
    result = invoke(planner, "--domain", f"{path}:{name}", "--model", "none")
    note = "note: the search sees what `observe` hides, as the world has no `belief`"
    assert (note in result.stderr) is noted


# --- a run that is broken off ---------------------------------------------------------------------

FAILED = "mine.py, line 23: LookupError: no way"

FAILING = """
import os, signal
from llm_planning import Domain, Step

class Line(Domain):
    goal = "Reach 9."

    def __init__(self, ends: str = "error"):
        self.ends = ends

    def start(self, seed):
        return 0

    def describe(self, state):
        return f"At {state}."

    def actions(self, state):
        return ["on"]

    def step(self, state, action, rng):
        if state == 3:
            if self.ends == "error":
                raise LookupError("no way")
            os.kill(os.getpid(), getattr(signal, self.ends))
        return Step(state + 1, done=state == 8)
"""


@pytest.mark.parametrize(
    ("ends", "code", "said", "raised"),
    [
        (
            "error",
            1,
            FAILED,
            f"llm_planning.own_code.OwnCodeError: {FAILED}",
        ),
        ("SIGINT", 130, "interrupted; what was done until then is in trace.jsonl", "interrupted"),
        ("SIGTERM", 130, "interrupted; what was done until then is in trace.jsonl", "interrupted"),
    ],
)
def test_a_run_that_is_broken_off_keeps_its_trace(tmp_path, monkeypatch, ends, code, said, raised):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FAILING)
    (tmp_path / "trace.jsonl").write_text("an earlier one")
    settings = ("--set", f"ends={ends}", "--set", "simulations=100000", "--trace", "trace.jsonl")
    ended = invoke("uct", "--domain", "mine.py:Line", "--model", "none", *settings)
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert ended.stderr.splitlines()[-1].removeprefix("error: ") == said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py", "trace.jsonl"]
    lines = decode_trace((tmp_path / "trace.jsonl").read_bytes())
    assert lines[0]["planner"] == "uct"
    assert "decision" in {line["type"] for line in lines}
    assert "outcome" not in {line["type"] for line in lines}
    assert broken_off(summary_of(lines)) == f"The run was broken off: {raised}"


def test_an_error_of_the_trace_does_not_hide_that_of_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FAILING)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("llm_planning.trace_file.write_trace", full)
    ended = invoke("uct", "--domain", "mine.py:Line", "--model", "none", "--trace", "t.jsonl")
    note, error = ended.stderr.splitlines()
    assert "t.jsonl cannot be written" in note
    assert error == f"error: {FAILED}"


# --- before a model is opened ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("llm-mcts", "--set", "home=nohome.yaml"), 1, "home=nohome.yaml is neither"),
        (("llm-mcts", "--set", "goal=put the moon on the bed"), 1, "moon"),
        (("llm-mcts", "--set", "limit=1"), 2, "limit=1 is not possible"),
        (("mc-dml", "--set", "game=nofile.z5"), 1, "nofile.z5 does not exist"),
        (("puct", "--domain", "openspiel:kuhn_poker"), 1, "hides something"),
        (("puct", "--domain", "gymnasium:Pendulum-v1"), 1, "cannot be listed"),
        (("react", "--set", "temperature=3"), 2, "temperature='3' is not possible"),
        (("llm-mcts", "--set", "position_temperature=2.5"), 2, "position_temperature='2.5'"),
        (("l-policy", "--set", "temperature=9"), 2, "temperature='9' is not possible"),
        (("too", "--model", "impossible.yaml"), 2, "`context` = -5"),
        (("too", "--role-model", "propose=impossible.yaml"), 2, "`context` = -5"),
    ],
)
def test_what_is_wrong_is_told_before_a_model_is_opened(
    opened, tmp_path, monkeypatch, arguments, code, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "impossible.yaml").write_text("model: smollm2-135m-instruct\ncontext: -5\n")
    assert message in refused("run", *arguments, code=code)
    assert not opened


def test_a_model_that_cannot_be_opened_leaves_an_earlier_trace(tmp_path, monkeypatch):
    trace = tmp_path / "trace.jsonl"
    trace.write_text("an earlier one")

    @contextlib.contextmanager
    def failing(names, *, cached):
        raise EngineConfigError("no such model")
        yield

    monkeypatch.setattr(model_configs, "open_engines", failing)
    arguments = (*SMALL, "--model", "smollm2-135m-instruct", "--trace", trace)
    assert "no such model" in refused("run", "too", *arguments, code=1)
    assert trace.read_text() == "an earlier one"


def test_a_run_that_asks_nobody_opens_no_model(opened):
    named = answer("run", "walkthrough", "--task", "trap-door", "--model", "smollm2-135m-instruct")
    assert not opened
    assert named["success"]


def test_a_world_that_cannot_be_opened_costs_no_trace(tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text("as it was")
    given = ("--domain", "household", "--model", "none", "--set", "home=nohome.yaml")
    ended = invoke("llm-mcts-policy", *given, "--set", "roles=rules", "--trace", trace)
    assert ended.exit_code == 1
    assert trace.read_text() == "as it was"
