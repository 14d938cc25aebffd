"""Traces of trials in the ledger: what the digest covers, and what it leaves out."""

import asyncio
import copy
import gzip
import hashlib
import json
import re
import time
from pathlib import Path
from random import Random

import pytest
from ledger_samples import PROVENANCE, result_of, sweep_of_seeds, trial_number

from llm_planning.domain import Step
from llm_planning.experiments.ledger import Ledger, LedgerError, repeatable_digest
from llm_planning.planners.drip.tree import ReasoningTree
from llm_planning.planners.xenon.notes import Belief, GraphNotes
from llm_planning.roles.engines import TracingEngine
from llm_planning.search import Edge, Evaluation, Node, by_sums, search, select_by_puct
from llm_planning.trace import recording
from llm_planning.trace_file import decode_trace, encode_trace, outcome_json, summary_of
from llm_serving.request import Message, Request, ScoreRequest
from llm_serving.scripted import ScriptedEngine
from llm_serving.vllm_stats import EngineLoad


class Gauge:
    def __init__(self, batch):
        self._batch = batch

    def load(self):
        return EngineLoad(running=self._batch, waiting=0, capacity=9, preempted=0, kv_usage=0.0)


class Asking:
    """Every value is a question; the value of a state depends on the state and on the script."""

    def __init__(self, engine, name):
        self.engine, self.name = engine, name

    def draw_root(self, walk):
        return self.name

    async def legal(self, state):
        return ("a", "b")

    async def expand(self, node, walk):
        return [Edge(letter, prior=0.5) for letter in "ab"]

    async def step(self, state, action, rng):
        return Step(state + action, rng.random(), observation=rng.choice("xy"))

    async def evaluate(self, node, walk):
        request = Request(
            prompt=(Message("system", f"Values of {self.name}."), Message("user", walk.state)),
            role="value",
        )
        return Evaluation(tail=float((await self.engine.generate(request)).text))


async def lived(*, delays, worth=0.5, batch=4):
    """A trial of every kind of event: two searches at once, whose answers take random times."""
    draw = Random(delays)
    script = {"value": lambda request: str(worth * len(request.prompt[1].content))}
    answers = ScriptedEngine(
        script,
        delay=lambda _: draw.choice([0.0, 0.001, 0.003]),
        score=lambda _, choices: [-1.0] * len(choices),
    )
    engine = TracingEngine(answers)

    async def searched(name):
        await asyncio.sleep(draw.choice([0.0, 0.002]))
        root = Node()
        for _ in range(2):
            await search(
                root,
                Asking(engine, name),
                select=select_by_puct(c=1.0),
                backup=by_sums(gamma=0.9),
                simulations=10,
                width=3,
                max_depth=4,
                rng=Random(7),
            )

    with recording(gauges=[Gauge(batch)]) as trace:
        trace.belief({"cow": {"plains": 1.0}})
        await asyncio.gather(searched("p"), searched("q"))
        trace.memory("Do not dig down.", kind="reflection")
        ReasoningTree("cook meat")
        GraphNotes(
            lambda: iter([("stick", Belief({"planks": 2}, "craft", True, 1))])
        ).trace_changes()
        trace.execution("a", reward=1.0, text="done")
        await engine.score(ScoreRequest("Next: ", ("a", "b"), role="prior"))
    return trace.events


def lines_of(events):
    outcome = outcome_json(
        success=True,
        plan=("dig",),
        metrics={"reward": 1.0, "saved": len(events)},
        unrepeatable={"saved"},
        seconds=time.perf_counter(),
    )
    content = encode_trace(
        {"goal": "cook meat"}, events=events, header={"seed": 0}, outcome=outcome
    )
    return decode_trace(content)


@pytest.fixture(scope="module")
def lines_once():
    return lines_of(asyncio.run(lived(delays=1)))


@pytest.fixture
def lines(lines_once):
    """The lines of a trial, to be changed."""
    return copy.deepcopy(lines_once)


def test_the_documentation_shows_every_type_with_its_fields(lines):
    def forms(lines):
        return {(line["type"], line.get("asked")): set(line) for line in lines}

    text = (Path(__file__).parents[2] / "docs" / "trace-format.md").read_text("utf-8")
    blocks = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    documented = forms(json.loads(line) for block in blocks for line in block.splitlines())
    real = forms(lines)
    assert documented.keys() == real.keys()
    assert {"planner", "domain", "task", "seed"} <= documented.pop(("header", None))
    del real["header", None]
    assert documented == real


async def test_the_digest_is_the_same_whatever_the_timing():
    runs = [lines_of(await lived(delays=seed, batch=seed)) for seed in range(12)]
    assert len({repeatable_digest(lines) for lines in runs}) == 1
    # They differ in the order of the answers, and in the order of the trees.
    orders = {
        tuple(line["turns"][0]["text"] for line in lines if line["type"] == "role")
        for lines in runs
    }
    firsts = {
        next(line["turns"][0]["text"] for line in lines if line["type"] == "role")[0]
        for lines in runs
    }
    assert len(orders) > 1
    assert firsts == {"p", "q"}


def test_the_digest_leaves_out_caches(lines):
    digest = repeatable_digest(lines)
    for line in lines:
        if line["type"] == "role":
            line.update(cached_tokens=7, replayed=1, seconds=99.0)
    assert repeatable_digest(lines) == digest


def changed(type_, **fields):
    def change(lines):
        next(line for line in lines if line["type"] == type_).update(fields)

    return change


@pytest.mark.parametrize(
    "change",
    [
        changed("header", seed=1),
        changed("summary", value="dig"),
        changed("role", answer="3.0"),
        changed("role", role="other"),
        changed("prompt", text="Another."),
        changed("edges", priors=[0.4, 0.6]),
        changed("simulation", tail=9.0),
        changed("simulation", N=[99]),
        changed("node", text="Other words."),
        changed("decision", value=9.0),
        changed("belief", belief="none"),
        changed("memory", text="Dig down."),
        changed("execution", obstacle="no room"),
        lambda lines: lines.pop(next(i for i, x in enumerate(lines) if x["type"] == "role")),
        lambda lines: lines.insert(3, lines[3]),
    ],
)
def test_the_digest_holds_everything_else(lines, change):
    digest = repeatable_digest(lines)
    change(lines)
    assert repeatable_digest(lines) != digest


def test_the_digest_holds_the_order_within_a_tree(lines):
    digest = repeatable_digest(lines)
    first, other = [i for i, x in enumerate(lines) if x["type"] == "simulation" and x["tree"] == 0][
        :2
    ]
    lines[first], lines[other] = lines[other], lines[first]
    assert repeatable_digest(lines) != digest


async def test_ledgers_of_the_same_answers_have_the_same_digest(tmp_path):
    digests = []
    for number, options in enumerate(({"delays": 1}, {"delays": 2, "batch": 9}, {"worth": 0.25})):
        result = result_of(trial_number(0), events=await lived(**{"delays": 3, **options}))
        with Ledger.create(tmp_path / str(number), sweep_of_seeds(1), PROVENANCE) as ledger:
            ledger.record(result, attempt=1, final=True)
            digests.append(ledger.content_digest())
            (row,) = ledger.rows()
            events = ledger.read_events(row)
            assert events[0]["planner"] == "too"
            assert events[1 : len(result.events) + 1] == result.events
            assert summary_of(ledger.read_events(row))["goal"] == "cook meat"
            content = gzip.decompress(row.trace.read_bytes())
            assert row.trace_sha256 == hashlib.sha256(content).hexdigest()
    assert digests[0] == digests[1] != digests[2]


async def test_a_trial_that_says_nothing_of_itself_keeps_its_events(tmp_path):
    with Ledger.create(tmp_path / "s", sweep_of_seeds(2), PROVENANCE) as ledger:
        events = await lived(delays=1)
        ledger.record(result_of(trial_number(0), trace={}, events=events), attempt=1, final=True)
        ledger.record(result_of(trial_number(1), trace={}), attempt=1, final=True)
        traced, silent = ledger.rows()
        assert len(ledger.read_events(traced)) == len(events) + 3
        assert summary_of(ledger.read_events(traced)) == {}
        assert (silent.trace, ledger.read_events(silent)) == (None, [])


def test_a_digest_needs_the_traces(tmp_path):
    with Ledger.create(tmp_path / "s", sweep_of_seeds(1), PROVENANCE) as ledger:
        ledger.record(result_of(trial_number(0)), attempt=1, final=True)
        (row,) = ledger.rows()
        row.trace.unlink()
        with pytest.raises(LedgerError, match="cannot be read"):
            ledger.content_digest()
