"""The examples: they run as scripts, and they do what they say."""

import importlib
import json
import runpy
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import log
from pathlib import Path

import pytest
from importing import importing

import llm_planning
from llm_planning import plan
from llm_planning.registry import find_domain, find_planner
from llm_serving.engine import MeteredEngine
from llm_serving.errors import ServingError
from llm_serving.request import Message, Request
from llm_serving.scripted import ScriptedEngine

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


@pytest.fixture(autouse=True)
def found(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.fixture
def hanoi():
    return importlib.import_module("own_domain").Hanoi


def to_the_right(text, choices):
    """Likes to put discs on peg C."""
    return [log(0.6) if choice.endswith("C") else log(0.2) for choice in choices]


# ALL OF THEM --------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_runs_as_a_script(script, monkeypatch, capsys):
    @contextmanager
    def open_engine(model):
        assert model == "smollm2-135m-instruct"
        yield ScriptedEngine({}, score=to_the_right)

    monkeypatch.setattr(llm_planning, "open_engine", open_engine)
    monkeypatch.setattr(sys, "argv", [str(script)])
    result = runpy.run_path(str(script), run_name="__main__")["outcome"]
    assert result.success
    assert result.plan[-1] == "move disc 1 to peg C"
    assert result.text in capsys.readouterr().out


def test_the_examples_are_these():
    assert [script.stem for script in SCRIPTS] == ["own_domain", "own_engine", "own_planner"]


# A DOMAIN -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("discs", "shortest"), [(1, 1), (2, 3), (3, 7), (4, 15)])
def test_the_towers_are_those_of_hanoi(hanoi, discs, shortest):
    """All 3^n positions can be reached; the goal takes 2^n - 1 moves."""
    world = hanoi(discs)
    distance = {world.start(0): 0}
    frontier = [world.start(0)]
    while frontier:
        reached = []
        for state in frontier:
            for action in world.actions(state):
                step = world.step(state, action, None)
                assert step.done == (step.reward == 1.0) == (step.state == "C" * discs)
                moved = [(a, b) for a, b in zip(state, step.state, strict=True) if a != b]
                assert len(moved) == 1
                disc = int(action.split()[2]) - 1
                assert not {state[disc], step.state[disc]} & set(state[:disc])
                if step.state not in distance:
                    distance[step.state] = distance[state] + 1
                    reached.append(step.state)
        frontier = reached
    assert len(distance) == 3**discs
    assert distance["C" * discs] == shortest
    # From a corner, as many positions at each distance as its binary digits allow.
    levels = Counter(distance.values())
    assert [levels[i] for i in range(4)] == {1: [1, 2, 0, 0]}.get(discs, [1, 2, 2, 4])


def test_the_towers_are_described(hanoi):
    assert hanoi(3).describe("CBA") == (
        "Peg A, from the top: [3]\nPeg B, from the top: [2]\nPeg C, from the top: [1]"
    )
    assert "Peg B, from the top: empty" in hanoi(3).describe("AAA")


def test_the_command_line_finds_domain_and_planner(monkeypatch):
    monkeypatch.chdir(EXAMPLES.parent)
    domain = find_domain("examples/own_domain.py:Hanoi")
    assert (domain.tasks, domain.settings.known_keys()) == (("hanoi",), ("discs",))
    planner = find_planner("examples/own_planner.py:beam")
    assert (planner.settings.known_keys(), planner.roles) == (("width", "depth"), ("likely",))
    assert planner.summary.startswith("Keeps the likeliest")


@pytest.mark.slow
async def test_the_bundled_model_guides_a_search_to_the_goal(engine, hanoi):
    outcome = await plan("puct", hanoi(discs=3), engine=engine)
    assert outcome.success
    assert outcome.metrics["success_basis"] == "executed"
    assert 7 <= len(outcome.plan) <= 12


# A PLANNER ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_beam_that_holds_every_state_finds_the_shortest_plan(engine, hanoi):
    """Up to distance 6 there are at most 4 positions at each distance, the width of the beam."""
    beam = importlib.import_module("own_planner").beam
    outcome = await plan(beam, hanoi(discs=3), engine=engine)
    assert (outcome.success, len(outcome.plan)) == (True, 7)


async def test_a_beam_of_one_follows_the_likeliest_action(hanoi):
    beam = importlib.import_module("own_planner").beam
    engine = MeteredEngine(ScriptedEngine({}, score=to_the_right))
    outcome = await plan(beam, hanoi(discs=3), engine=engine, settings={"width": 1, "depth": 2})
    assert outcome.success is False
    assert outcome.plan == ("move disc 1 to peg C", "move disc 2 to peg B")
    assert engine.usage.keys() == {"likely"}


# AN ENGINE ----------------------------------------------------------------------------------------


def test_the_engine_needs_no_model():
    """Nothing heavy is imported, so a student's laptop starts it at once."""
    code = (
        "import runpy, sys; sys.argv = ['own_engine.py'];"
        f"runpy.run_path({str(EXAMPLES / 'own_engine.py')!r}, run_name='__main__');"
        "print({'torch', 'vllm', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=importing(EXAMPLES),
    )
    assert done.stdout.endswith("reward 1\nset()\n")


class Chat(BaseHTTPRequestHandler):
    """An OpenAI-compatible server that always means the last label of the list."""

    asked: list

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, body["model"]))
        listed = body["messages"][-1]["content"].split("Possible actions:\n")[1].split("\n\n")[0]
        label = listed.splitlines()[-1].partition(":")[0]
        reply = {"choices": [{"message": {"role": "assistant", "content": f"Say {label}."}}]}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())

    def log_message(self, *_):
        pass


async def test_a_remote_engine_answers_over_http(hanoi):
    own_engine = importlib.import_module("own_engine")
    Chat.asked = []
    server = HTTPServer(("127.0.0.1", 0), Chat)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        service = own_engine.http_service(f"http://127.0.0.1:{server.server_port}/v1", "some-model")
        outcome = await plan(
            "llm-policy",
            hanoi(discs=1),
            engine=own_engine.ChatEngine(service),
            settings={"choice": "majority", "samples": 3, "moves": 5},
        )
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert (outcome.success, outcome.plan) == (True, ("move disc 1 to peg C",))
    assert Chat.asked == [("/v1/chat/completions", "some-model")] * 3


async def test_an_engine_that_never_answers_says_what_it_was_told(hanoi):
    own_engine = importlib.import_module("own_engine")
    asked = []

    async def mumbling(chat):
        asked.append(chat)
        return "Well, 12 is no answer."

    with pytest.raises(ServingError, match="no answer to 'prior' is in 'Well, 12"):
        await plan(
            "llm-policy",
            hanoi(discs=1),
            engine=own_engine.ChatEngine(mumbling),
            settings={"choice": "majority", "samples": 1},
        )
    assert len(asked) == 3


async def test_an_engine_without_log_probabilities_says_what_to_do(hanoi):
    own_engine = importlib.import_module("own_engine")
    engine = own_engine.ChatEngine(own_engine.scripted_service)
    with pytest.raises(ServingError, match="set prior to sample or verbal"):
        await plan("puct", hanoi(), engine=engine)


async def test_free_text_is_taken_as_it_is():
    own_engine = importlib.import_module("own_engine")

    async def two_lines(chat):
        return "First.\nSecond."

    engine = own_engine.ChatEngine(two_lines)
    message = Message("user", "Speak.")
    answer = await engine.generate(Request(prompt=(message,), role="talk"))
    assert answer.text == "First.\nSecond."
    assert answer.usage.calls == 1
