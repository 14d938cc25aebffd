import asyncio
import gc
import pickle
import weakref
from random import Random

import pytest
from golden import golden
from search_worlds import exported

from llm_planning.domain import Step
from llm_planning.roles.engines import TracingEngine
from llm_planning.search import (
    Edge,
    Evaluation,
    Node,
    advance,
    by_sums,
    edges_below,
    search,
    select_by_puct,
)
from llm_planning.trace import recording, tracing
from llm_planning.trace_tree import IN_FULL
from llm_serving.errors import ServingError
from llm_serving.request import EncodedPrompt, Image, Message, Request, Sampling, ScoreRequest
from llm_serving.scripted import ScriptedEngine
from llm_serving.vllm_stats import EngineLoad

REWARDS = {"a": 2.0, "b": 4.0, "aa": 1.0}


class Words:
    """States are words, actions letters that are added to them; a leaf is worth 1."""

    def __init__(self, start=""):
        self.start = start

    def draw_root(self, walk):
        return self.start

    async def legal(self, state):
        return ("a", "b")

    async def expand(self, node, walk):
        return [Edge(letter, prior=0.5) for letter in "ab"]

    async def step(self, state, action, rng):
        word = state + action
        return Step(word, REWARDS.get(word, 0.0), text=f"you write {action}")

    async def evaluate(self, node, walk):
        return Evaluation(tail=1.0)


def least_visited(node, edges):
    return min(edges, key=lambda edge: edge.visits + edge.in_flight)


async def searched(root, model, *, simulations, select=least_visited, gamma=0.5, **options):
    await search(
        root, model, select=select, backup=by_sums(gamma=gamma), simulations=simulations, **options
    )
    return root


def of_type(trace, *types):
    return [event for event in trace.events if event["type"] in types]


def untimed(events):
    return [{key: value for key, value in event.items() if key != "at"} for event in events]


# --- the current trace ---------------------------------------------------------------------------


async def test_nothing_is_recorded_outside_of_recording():
    assert tracing() is None
    with recording() as outer:
        assert tracing() is outer
        with recording() as inner:
            assert tracing() is inner
        assert tracing() is outer
        with pytest.raises(ZeroDivisionError), recording():
            raise ZeroDivisionError
        assert tracing() is outer
    assert tracing() is None
    await searched(Node(), Words(), simulations=2)
    await TracingEngine(ScriptedEngine({"ask": "yes"})).generate(Request(prompt="?", role="ask"))
    assert outer.events == inner.events == []


async def test_trials_at_the_same_time_do_not_hear_each_other():
    engine = ScriptedEngine(
        lambda request: f"answer to {request.prompt}",
        delay=lambda _: draw.choice([0, 0.001, 0.002]),
    )
    draw = Random(0)

    class Asking(Words):
        def __init__(self, name):
            super().__init__()
            self.name = name
            self.engine = TracingEngine(engine)

        async def evaluate(self, node, walk):
            request = Request(prompt=f"{self.name} {walk.state}", role=self.name)
            return Evaluation(tail=float(len((await self.engine.generate(request)).text)))

    async def trial(name):
        with recording() as trace:
            await searched(Node(), Asking(name), simulations=12, width=4)
            trace.memory(f"{name} is done", kind="note")
            assert tracing() is trace
        return trace

    traces = await asyncio.gather(*map(trial, "xyz"))
    for name, trace in zip("xyz", traces, strict=True):
        questions = of_type(trace, "role")
        assert {question["role"] for question in questions} == {name}
        assert sorted(question["turns"][0]["text"] for question in questions) == sorted(
            request.prompt for request in engine.requests if request.role == name
        )
        assert [simulation["number"] for simulation in of_type(trace, "simulation")] == list(
            range(1, 13)
        )
        assert {event["tree"] for event in trace.events if "tree" in event} == {0}
        assert of_type(trace, "memory")[0]["text"] == f"{name} is done"
    assert tracing() is None


def test_events_of_a_thread_of_the_trial_are_the_trial_s():
    async def trial():
        with recording() as trace:
            await asyncio.to_thread(lambda: tracing().belief("it is night"))
        return trace

    assert untimed(asyncio.run(trial()).events) == [{"type": "belief", "belief": "it is night"}]


# --- golden traces -------------------------------------------------------------------------------


class Weather(Words):
    async def step(self, state, action, rng):
        seen = rng.choice(["sun", "rain"])
        return Step(state + action, observation=seen, text=f"{seen} today")


class Rollout(Words):
    async def evaluate(self, node, walk):
        if walk.depth:
            return Evaluation(note="nothing")
        edge = node.edges[1]
        edge.step = Step("b", 4.0)
        return Evaluation(edges=[edge], tail=2.0, note="went on")


def renewed(node, walk):
    if node.visits == 2:
        for edge, prior in zip(node.edges, (0.25, 0.75), strict=True):
            edge.prior = prior


async def questions(trace):
    engine = TracingEngine(
        ScriptedEngine(
            {"propose": ["find 1 cow", "dig"], "look": "a cow"},
            score=lambda _, choices: [-1.0] * len(choices),
        )
    )
    drawn = {"sampling": Sampling(temperature=0.5, seed=1), "role": "propose", "sample": 2}
    for goal in ("cook meat", "build"):
        prompt = (Message("system", "You plan."), Message("user", goal))
        await engine.generate(Request(prompt=prompt, **drawn))
    await engine.score(ScoreRequest(engine.encode("Next: "), ("wait", "dig"), role="prior"))
    await engine.score(ScoreRequest(EncodedPrompt((78,)), ("A",), kind="labels"))
    seen = Message("user", "What is this?", (Image(b"png"),))
    turns = (seen, Message("assistant", "A cow."), Message("user", "Sure?"))
    await engine.generate(Request(prompt=turns, role="look"))


async def what_planners_tell(trace):
    belief = {"cow": {"plains": 0.75}}
    trace.belief(belief)
    belief["pig"] = {}
    trace.memory("Take a torch.", kind="reflection")
    trace.execution("dig", reward=1.5, text="You dig.", obstacle="only 2 of 3", done=True)
    trace.execution(("go", "north"))


SCENES = {
    "four-simulations": lambda trace: searched(Node(), Words(), simulations=4),
    "drawn-outcomes": lambda trace: searched(Node(), Weather(), simulations=6),
    "rollout-in-the-tree": lambda trace: searched(Node(), Rollout(), simulations=2),
    "priors-anew": lambda trace: searched(Node(), Words(), simulations=3, before_select=renewed),
    "questions": questions,
    "what-planners-tell": what_planners_tell,
}


@pytest.mark.parametrize("case", golden("trace"))
async def test_golden_traces(case):
    with recording() as trace:
        await SCENES[case.run["scene"]](trace)
    events = untimed(trace.events)
    assert all(event.pop("seconds") >= 0.0 for event in events if event["type"] == "role")
    case.check(events)
    if case.run["scene"] != "questions":
        times = [event["at"] for event in trace.events]
        assert times == sorted(times)


# --- searches ------------------------------------------------------------------------------------


async def test_long_observations_say_that_they_were_cut():
    class Long(Words):
        async def step(self, state, action, rng):
            return Step(state + action, observation="x" * 5_000)

    with recording() as trace:
        await searched(Node(), Long(), simulations=2)
    assert of_type(trace, "node")[1]["observation"] == "x" * 1_000 + "…"


@pytest.mark.parametrize("width", [1, 4])
async def test_every_id_is_told_before_it_is_used(width):
    class Chance(Words):
        async def evaluate(self, node, walk):
            await asyncio.sleep(0)
            return Evaluation(tail=Random(walk.state).random())

    with recording() as trace:
        root = await searched(
            Node(),
            Chance(),
            simulations=300,
            width=width,
            select=select_by_puct(c=1.0),
            max_depth=6,
        )
        following = advance(root, "a", root.edges[0].step)
        await searched(following, Chance("a"), simulations=100, width=width, max_depth=6)
    nodes, edges = set(), {None}
    for event in trace.events:
        if event["type"] == "node":
            assert event["edge"] in edges
            assert event["id"] not in nodes
            nodes.add(event["id"])
        elif event["type"] == "edges":
            assert event["node"] in nodes
            edges.update(f"{event['node']}.{place}" for place in range(len(event["actions"])))
        elif event["type"] == "simulation":
            assert nodes.issuperset(event["nodes"])
            assert edges.issuperset(event["edges"])
            assert len(event["nodes"]) == len(event["edges"]) + 1
            assert len({*map(len, (event[key] for key in ("edges", "rewards", "N", "Q")))}) == 1
    assert {event["tree"] for event in trace.events} == {0}


async def test_simulations_that_are_left_out_are_counted():
    with recording() as trace:
        root = await searched(Node(), Words(), simulations=1_000)
    numbers = [simulation["number"] for simulation in of_type(trace, "simulation")]
    assert numbers == [
        *range(1, IN_FULL + 1),
        *range(136, 257, 8),
        *range(272, 513, 16),
        *range(544, 1_001, 32),
    ]
    (decision,) = of_type(trace, "decision")
    assert (decision["simulations"], decision["left_out"]) == (1_000, 1_000 - len(numbers))
    assert decision["N"] == [edge.visits for edge in root.edges]
    assert decision["Q"] == [edge.value for edge in root.edges]


async def test_a_run_without_questions_is_told_in_less_and_less_detail():
    class Asking(Words):
        engine = TracingEngine(ScriptedEngine({"value": "1"}))

        asks = True

        async def evaluate(self, node, walk):
            if self.asks:
                self.asks = False
                await self.engine.generate(Request(prompt="?", role="value"))
            return Evaluation()

    async def left_of(model):
        with recording() as trace:
            for _ in range(3):
                await searched(Node(), model, simulations=IN_FULL)
        return [IN_FULL - decision["left_out"] for decision in of_type(trace, "decision")]

    assert await left_of(Asking()) == [IN_FULL] * 3
    # From 128 on every 8th; from 256 on every 16th; the first of a search always.
    assert await left_of(Words()) == [IN_FULL, 16, 8]


async def test_a_search_goes_on_in_its_tree():
    root = Node()
    with recording() as trace:
        await searched(root, Words(), simulations=5)
        await searched(root, Words(), simulations=1)
        after_a = advance(root, "a", root.edges[0].step)
        await searched(after_a, Words("a"), simulations=3)
        # No simulation of the second tree was ever at this node: the step makes it.
        unseen = advance(after_a, "b", Step("ab", observation="fog"))
        await searched(unseen, Words("ab"), simulations=1)
        await searched(Node(), Words(), simulations=1)
    searches = of_type(trace, "search")
    assert [(search["tree"], search["root"]) for search in searches] == [
        *((0, 0), (0, 0), (0, 1)),
        (0, len({node["id"] for node in of_type(trace, "node") if node["tree"] == 0}) - 1),
        (1, 0),
    ]
    assert [decision["simulations"] for decision in of_type(trace, "decision")] == [5, 1, 3, 1, 1]
    ids = [(node["tree"], node["id"]) for node in of_type(trace, "node")]
    assert len(set(ids)) == len(ids)


async def test_what_a_real_step_leaves_behind_is_not_kept():
    class Known:
        """A memo that the test looks for after a real step."""

    class Keeping(Words):
        async def expand(self, node, walk):
            node.memo = Known()
            return await super().expand(node, walk)

    with recording():
        root = await searched(Node(), Keeping(), simulations=9)
        left = weakref.ref(next(iter(root.edges[1].outcomes.values())).memo)
        kept = weakref.ref(next(iter(root.edges[0].outcomes.values())).memo)
        following = advance(root, "a", root.edges[0].step)
        del root
        gc.collect()
        assert left() is not None
        await searched(following, Keeping("a"), simulations=1)
        gc.collect()
        assert left() is None
        assert kept() is not None
    del following
    gc.collect()
    assert kept() is None


async def test_the_trace_of_one_recording_is_not_the_next_one_s():
    root = Node()
    with recording() as first:
        await searched(root, Words(), simulations=2)
    with recording() as second:
        await searched(root, Words(), simulations=2)
    assert len(of_type(first, "search")) == 1
    assert len(of_type(second, "search")) == 1
    assert of_type(second, "node")[0]["id"] == 0
    assert [simulation["number"] for simulation in of_type(second, "simulation")] == [1, 2]


async def test_a_search_that_fails_is_told_up_to_there():
    class Failing(Words):
        async def evaluate(self, node, walk):
            if walk.state == "b":
                raise ValueError("no b")
            return Evaluation(tail=1.0)

    with recording() as trace, pytest.raises(ValueError, match="no b"):
        await searched(Node(), Failing(), simulations=9)
    (decision,) = of_type(trace, "decision")
    assert (decision["simulations"], decision["N"]) == (2, [1, 0])


@pytest.mark.parametrize("width", [1, 5])
async def test_a_search_does_the_same_whether_or_not_it_is_told(width):
    seen = []
    options = {"simulations": 300, "width": width, "max_depth": 5}
    plain = await searched(Node(), Words(), **options, on_backup=seen.append)
    hooks = []
    with recording():
        traced = await searched(Node(), Words(), **options, on_backup=hooks.append)
    assert exported(traced) == exported(plain)
    assert len(seen) == len(hooks) == 300
    assert sum(1 for _ in edges_below(plain)) > 50


# --- questions -----------------------------------------------------------------------------------


class Full:
    """An engine that reports its load."""

    def __init__(self):
        self.looks = 0

    def load(self):
        self.looks += 1
        return EngineLoad(running=12, waiting=3, capacity=64, preempted=0, kv_usage=0.5)


async def test_the_texts_of_encoded_prompts_are_remembered_for_a_while():
    engine = TracingEngine(ScriptedEngine({}, score=lambda _, choices: [0.0]))
    with recording() as trace:
        old, *_, new = [engine.encode(f"prompt {number}") for number in range(200)]
        for prompt in (old, new):
            await engine.score(ScoreRequest(prompt, ("x",)))
    assert [event["turns"] for event in trace.events] == [
        [],
        [{"role": None, "text": "prompt 199"}],
    ]


async def test_an_engine_that_cannot_encode_has_no_fixed_tokens():
    class Remote(ScriptedEngine):
        def encode(self, prompt):
            if isinstance(prompt, tuple):
                raise ServingError("this engine does not tokenize chats")
            return super().encode(prompt)

        async def generate(self, request):
            flat = "".join(message.content for message in request.prompt)
            return await super().generate(Request(prompt=flat, role=request.role))

    prompt = (Message("system", "You plan."), Message("user", "Go."))
    with recording() as trace:
        await TracingEngine(Remote({"x": "y"})).generate(Request(prompt=prompt, role="x"))
    assert of_type(trace, "prompt")[0]["tokens"] is None


async def test_the_load_of_the_engines_is_looked_at_now_and_then():
    full = Full()
    engine = TracingEngine(ScriptedEngine({"x": "y"}))
    with recording(gauges=[full]) as trace:
        for _ in range(50):
            await engine.generate(Request(prompt="?", role="x"))
    (load,) = untimed(of_type(trace, "load"))
    assert load == {"type": "load", "batch": 12, "waiting": 3, "capacity": 64}
    assert full.looks == 1


async def test_events_can_go_to_another_process():
    with recording() as trace:
        await searched(Node(), Words(), simulations=3)
    assert pickle.loads(pickle.dumps(trace.events)) == trace.events
