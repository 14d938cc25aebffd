"""Every question of a trace names the node that asked it, with four simulations in flight.

The scripted engines answer after times of their own, so that answers overtake each other. Prompts
hold the state or the way to it, and the tests compare that with the way to the node in the trace.
"""

import asyncio
import re
from random import Random

import pytest
from any_domain_worlds import run as run_anywhere
from llm_mcts_runs import run as run_at_home
from llm_mcts_runs import tiny_task
from runs import compact
from test_too_planner import (
    AXE,
    PLANKS,
    STICKS,
    SWORD,
    TABLE,
    WOOD,
    as_json,
    change,
    evaluation,
    history_of,
    last_message,
    option_of,
    plan,
    proposal,
)

from llm_planning.domain import Domain, Step
from llm_planning.experiments.ledger import repeatable_digest
from llm_planning.roles import Engines, metered
from llm_planning.roles.engines import TracingEngine
from llm_planning.search import Edge, Evaluation, Node, by_sums, search, select_by_ucb
from llm_planning.trace import recording
from llm_planning.trace_tree import IN_FULL, asking_about, asking_at
from llm_serving.request import Message, Request
from llm_serving.scripted import ScriptedEngine

WIDTH = 4
BIRCH = "mine 1 birch_log"


class Slow(ScriptedEngine):
    """A scripted engine whose scores take their time too."""

    def __init__(self, *arguments, seed=0, **options):
        self.draws = Random(seed)
        super().__init__(*arguments, delay=lambda _: self.pause(), **options)

    def pause(self):
        return self.draws.choice([0, 0.001, 0.003])

    async def score(self, request):
        await asyncio.sleep(self.pause())
        return await super().score(request)


class Mute(ScriptedEngine):
    """Its chat template leaves the user's text out."""

    def encode(self, prompt):
        kept = prompt if isinstance(prompt, str) else prompt[:1]
        return super().encode(kept)


async def test_a_template_without_the_users_text_is_traced():
    engine = one_engine(Mute({"judge": "yes"}))
    chat = (Message("system", "Answer."), Message("user", "Is it?"))
    with recording() as trace:
        await engine.generate(Request(prompt=chat, role="judge"))
    assert [event["text"] for event in of_type(trace, "prompt")] == ["Answer."]
    assert [event["tokens"] for event in of_type(trace, "prompt")] == [None]


def one_engine(engine):
    return metered(Engines(engine)).default


def of_type(trace, kind):
    return [event for event in trace.events if event["type"] == kind]


def ways(trace):
    """(tree, node) -> its actions from the first root on; (tree, edge) -> its action."""
    nodes, edges = {}, {}
    for event in trace.events:
        if event["type"] == "edges":
            for place, action in enumerate(event["actions"]):
                edges[event["tree"], f"{event['node']}.{place}"] = action
        elif event["type"] == "node":
            tree, edge = event["tree"], event["edge"]
            above = () if edge is None else nodes[tree, int(edge.split(".")[0])]
            way = () if edge is None else (*above, edges[tree, edge])
            nodes[tree, event["id"]] = way
    return nodes, edges


def text_of(question):
    return question["turns"][-1]["text"]


# --- planners ------------------------------------------------------------------------------------


def options_of(request):
    """Options with products of their own at each depth: the inventory says the way."""
    done = len(history_of(request))
    return ((WOOD, BIRCH), (STICKS, TABLE), (SWORD, AXE))[done]


def script(request):
    match request.role:
        case "propose":
            return proposal(*options_of(request))
        case "feasibility":
            return compact({"reason": "", "action_valid": option_of(request) != AXE})
        case "repair":
            return compact(as_json(PLANKS))
        case "dynamics":
            return change(gained=[{"item": option_of(request).split(" ")[2], "count": 1}])
        case "reward":
            return evaluation(Random(last_message(request)).randrange(10) / 10)
        case "termination":
            return compact({"done": False})
    raise AssertionError(request.role)


@pytest.mark.parametrize("width", [1, WIDTH])
async def test_questions_of_tree_of_options(width):
    draws = Random(0)
    with recording() as trace:
        await plan(
            script=script,
            delay=lambda _: draws.choice([0, 0.001, 0.003]),
            engines=Engines,
            width=width,
            iter=8,
            c=5.0,
        )
    nodes, edges = ways(trace)
    questions = of_type(trace, "role")
    roles = {"propose", "termination", "feasibility", "repair", "dynamics", "reward"}
    assert {question["role"] for question in questions} == roles
    searched = [question for question in questions if "node" in question]
    # The rest is asked when the plan is executed, after the search.
    assert searched == questions[: len(searched)]
    assert len(searched) > 40
    proposed_at = []
    for question in searched:
        way, text = nodes[question["tree"], question["node"]], text_of(question)
        if question["role"] == "propose":
            proposed_at.append(way)
        if question["role"] in {"propose", "feasibility", "repair", "reward"}:
            assert tuple(re.findall(r"^\d+\. ([a-z]+ \d+ \w+)$", text, re.MULTILINE)) == way
        held = way if question["role"] != "reward" else (*way, question["about"])
        products = {option.split(" ")[2] for option in held}
        inventory = re.search(r"^Inventory.*$", text, re.MULTILINE)[0]
        assert set(re.findall(r"'(\w+)': 1", inventory)) == products
        if question["role"] in {"propose", "termination"}:
            assert "about" not in question
            assert "edge" not in question
            continue
        assert question["about"] == re.search(r"^Option: (.*)$", text, re.MULTILINE)[1]
        if question["about"] == AXE:
            assert "edge" not in question
        else:
            assert edges[question["tree"], question["edge"]] == question["about"]
    # Rollouts stay in the tree: nodes at every depth were asked, each once.
    assert {len(way) for way in proposed_at} == {0, 1, 2}
    assert len(proposed_at) == len(set(proposed_at))


class Letters(Domain):
    """A state is the word that was written; nothing is ever written twice."""

    goal = "Write a word."

    def start(self, seed):
        return ""

    def describe(self, state):
        return f"Written so far: <{state}>"

    def actions(self, state):
        return ["a", "b", "c"]

    def step(self, state, action, rng):
        return Step(state + action, reward=Random(state + action).random())


async def test_questions_of_puct_anywhere():
    engine = Slow({}, score=lambda text, choices: [-float(i) for i in range(len(choices))])
    with recording() as trace:
        outcome = await run_anywhere(
            "puct", Letters(), engine=one_engine(engine), simulations=40, width=WIDTH, moves=3
        )
    nodes, _ = ways(trace)
    questions = of_type(trace, "role")
    assert len(outcome.plan) == 3
    assert len(questions) > 20
    for question in questions:
        (written,) = re.findall(r"<(\w*)>", text_of(question))
        assert tuple(written) == nodes[question["tree"], question["node"]]
    asked_at = [question["node"] for question in questions]
    assert len(asked_at) == len(set(asked_at))


async def test_questions_of_llm_mcts(tmp_path):
    engine = Slow({}, score=lambda text, choices: [-float(i) for i in range(len(choices))])
    with recording() as trace:
        await run_at_home(
            "llm-mcts",
            tiny_task(tmp_path),
            engine=one_engine(engine),
            simulations=40,
            width=WIDTH,
            moves=3,
            ask="second",
            state_prior="exact",
        )
    nodes, _ = ways(trace)
    roots, done = {}, ()
    for event in trace.events:
        if event["type"] == "search":
            roots[event["tree"]] = done
        elif event["type"] == "execution":
            done = (*done, event["action"])
    policy = [question for question in of_type(trace, "role") if question["role"] == "prior"]
    assert len(policy) > 15
    assert len(roots) == 3
    for question in policy:
        way = (*roots[question["tree"]], *nodes[question["tree"], question["node"]])
        completed = re.search(r"^Completed actions: (.+)$", text_of(question), re.MULTILINE)
        assert (tuple(completed[1].split(", ")) if completed else ()) == way
    places = [question for question in of_type(trace, "role") if question["role"] == "position"]
    assert places
    assert all(place["simulation"] is None for place in places)
    assert not any({"tree", "node"} & place.keys() for place in places)


# --- the search core -----------------------------------------------------------------------------


class Asking:
    """States are words; every part of a simulation asks an engine with the word."""

    def __init__(self, engine, *, letters="ab", chance=False):
        self.engine = TracingEngine(engine)
        self.letters = letters
        self.chance = chance

    async def ask(self, role, word, letter=""):
        prompt = f"{role} <{word}> {letter}"
        await self.engine.generate(Request(prompt=prompt, role=role))

    async def draw_root(self, walk):
        await self.ask("draw", "")
        return ""

    async def legal(self, state):
        return tuple(self.letters)

    async def expand(self, node, walk):
        await self.ask("expand", walk.state)
        return [Edge(letter, prior=1 / len(self.letters)) for letter in self.letters]

    async def step(self, state, action, rng):
        await self.ask("step", state, action)
        seen = rng.choice("xy") if self.chance else None
        return Step(state + action + (seen or ""), observation=seen)

    async def evaluate(self, node, walk):
        await self.ask("evaluate", walk.state)
        return Evaluation(tail=Random(walk.state).random())


def slow(seed=0):
    return Slow(dict.fromkeys(("draw", "expand", "step", "evaluate"), "1"), seed=seed)


async def searched(model, *, simulations=40, root=None, **options):
    root = root or Node()
    options = {"width": WIDTH, "expand_at": "second", "max_depth": 5} | options
    rule = {"select": select_by_ucb(c=0.5), "backup": by_sums(gamma=0.9)}
    await search(root, model, simulations=simulations, **rule, **options)
    return root


def check(trace, *, chance=False):
    """Compares the word in every prompt with the way to the question's node."""
    nodes, edges = ways(trace)
    lines = {node["id"]: node for node in of_type(trace, "node")}
    for question in of_type(trace, "role"):
        word, letter = re.search(r"<(\w*)> (\w?)", text_of(question)).groups()
        way = list(nodes[question["tree"], question["node"]])
        if chance:
            above, seen = question["node"], []
            while lines[above]["edge"] is not None:
                seen.append(lines[above]["observation"])
                above = int(lines[above]["edge"].split(".")[0])
            way = [a + b for a, b in zip(way, reversed(seen), strict=True)]
        assert "".join(way) == word
        if question["role"] == "step":
            assert edges[question["tree"], question["edge"]] == question["about"] == letter
            assert question["edge"].split(".")[0] == str(question["node"])
        else:
            assert not {"about", "edge"} & question.keys()


@pytest.mark.parametrize("width", [1, WIDTH])
@pytest.mark.parametrize("expand_at", ["first", "second"])
@pytest.mark.parametrize("chance", [False, True])
async def test_every_part_of_a_simulation(width, expand_at, chance):
    with recording() as trace:
        await searched(Asking(slow(), chance=chance), width=width, expand_at=expand_at)
    check(trace, chance=chance)
    asked = of_type(trace, "role")
    assert {question["role"] for question in asked} == {"draw", "expand", "step", "evaluate"}
    # With one node that is being expanded, a descent starts again: it asks twice.
    drawn = [question["simulation"] for question in asked if question["role"] == "draw"]
    assert set(drawn) == set(range(1, 41))
    assert (len(drawn) > 40) == (width > 1)


async def test_a_simulation_that_asked_always_has_a_line():
    with recording() as trace:
        await searched(Asking(slow()), simulations=IN_FULL + 40, max_depth=8)
    check(trace)
    numbers = [simulation["number"] for simulation in of_type(trace, "simulation")]
    assert numbers == list(range(1, IN_FULL + 41))
    assert of_type(trace, "decision")[0]["left_out"] == 0


async def test_another_search_counts_its_own_simulations():
    engine = slow()
    with recording() as trace:
        root = await searched(Asking(engine), simulations=6)
        await searched(Asking(engine), simulations=6, root=root)
        await searched(Asking(engine), simulations=6)
        await one_engine(engine).generate(Request(prompt="draw <> ", role="draw"))
    *inside, outside = of_type(trace, "role")
    assert outside["simulation"] is None
    assert not {"tree", "node"} & outside.keys()
    assert {question["tree"] for question in inside} == {0, 1}
    assert {question["simulation"] for question in inside} == set(range(1, 7))
    trace.events.remove(outside)
    check(trace)


async def test_a_search_within_a_search():
    engine = slow()
    inner = Asking(engine)

    class Outer(Asking):
        async def evaluate(self, node, walk):
            with asking_at(node), asking_about("z"):
                await searched(inner, simulations=3)
            return await super().evaluate(node, walk)

    with recording() as trace:
        await searched(Outer(engine), simulations=4, width=1)
    outer = [question for question in of_type(trace, "role") if question["tree"] == 0]
    assert [question["role"] for question in outer].count("evaluate") == 4
    check(trace)


async def test_nodes_that_a_walk_has_yet_to_reach():
    class Rollout(Asking):
        async def evaluate(self, node, walk):
            edge = node.edges[1]
            edge.step = Step(walk.state + "b")
            below = edge.follow(edge.step)
            with asking_at(below), asking_about("z"):
                await self.ask("evaluate", walk.state + "b")
            await self.ask("evaluate", walk.state)
            return Evaluation(edges=[edge])

    with recording() as trace:
        await searched(Rollout(slow()), simulations=3, width=1, expand_at="first")
    about = [question for question in of_type(trace, "role") if question.get("about") == "z"]
    assert len(about) == 3
    for question in about:
        assert "edge" not in question
        del question["about"]
    check(trace)


async def test_questions_of_simulations_that_were_cancelled():
    class Failing(Asking):
        async def evaluate(self, node, walk):
            await super().evaluate(node, walk)
            if walk.state == "bb":
                raise ValueError("no bb")
            return Evaluation(tail=1.0)

    with recording() as trace, pytest.raises(ValueError, match="no bb"):
        await searched(Failing(slow()), expand_at="first")
    questions = of_type(trace, "role")
    assert all(question["tree"] == 0 and question["simulation"] for question in questions)
    numbers = {simulation["number"] for simulation in of_type(trace, "simulation")}
    lost = [question for question in questions if "node" not in question]
    assert lost
    assert not numbers & {question["simulation"] for question in lost}
    for question in lost:
        trace.events.remove(question)
    for question in of_type(trace, "role"):
        if question["role"] == "step" and "edge" not in question:
            trace.events.remove(question)
    check(trace)


async def test_who_asked_is_no_part_of_what_repeats():
    async def digest(seed):
        with recording() as trace:
            await searched(Asking(slow(seed)))
        return repeatable_digest(trace.events)

    assert len({await digest(seed) for seed in range(3)}) == 1
