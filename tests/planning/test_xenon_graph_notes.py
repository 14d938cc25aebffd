"""What XENON's agents leave in a trace: every subgoal, and Ĝ whenever it changes."""

import json

import pytest
from command_line import invoke
from cooking_kitchens import PAPER_KITCHENS, sticky
from xenon_builders import LOGS, PLANKS, VERBS, agent, book_of

from llm_planning.environments.minecraft.book.rulebook import ItemRule
from llm_planning.environments.minecraft.items.text_world import TextWorld
from llm_planning.planners.xenon.algorithm import Xenon
from llm_planning.planners.xenon.baselines import AsPredicted, Rand
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.memory import ActionMemory, Knowledge
from llm_planning.planners.xenon.notes import Belief, GraphNotes, notes_on
from llm_planning.roles import Engines
from llm_planning.running import prepare
from llm_planning.trace import recording
from llm_serving.scripted import ScriptedEngine

BOOK = book_of(LOGS, PLANKS, ItemRule(item="bowl", action="craft", consumed={"logs": 6}))


def lines(events, kind):
    return [
        {key: value for key, value in event.items() if key not in {"type", "at"}}
        for event in events
        if event["type"] == kind
    ]


def graphs(events):
    return [line["items"] for line in lines(events, "graph")]


def known(item, requires, known, action=None):
    return {item: {"requires": requires, "action": action, "known": known}}


def test_a_belief_is_told_when_it_changes_and_only_then():
    now = {}
    notes = GraphNotes(lambda: iter(now.items()))
    beliefs = [
        Belief({"planks": 2}, None, False, 1),
        Belief({"planks": 2}, None, False, 1),
        Belief({"planks": 2}, None, False, 2),
        Belief({"planks": 2}, None, False, 3),
        Belief({"logs": 1}, None, False, 4),
        Belief({"logs": 3}, "craft", True, 4),
        # Its rule has changed, and the agent has forgotten what it learnt.
        Belief({"logs": 3}, None, False, 1),
        Belief({"logs": 3}, None, False, 2),
    ]
    changes = []
    for belief in beliefs:
        now["stick"] = belief
        with recording() as trace:
            notes.trace_changes()
        changes.append([line["stick"] for line in graphs(trace.events)])
    assert [
        [(note["requires"], note["action"], note["known"]) for note in some] for some in changes
    ] == [
        [({"planks": 2}, None, "predicted")],
        [],
        [({"planks": 2}, None, "wrong")],
        [],
        [({"logs": 1}, None, "predicted")],
        [({"logs": 3}, "craft", "learnt")],
        [({"logs": 3}, None, "predicted")],
        [({"logs": 3}, None, "wrong")],
    ]


def test_without_a_trace_nothing_is_noted():
    knowledge = Knowledge(DependencyGraph(["logs"]))
    notes = notes_on(knowledge, ActionMemory(VERBS, x0=1))
    notes.trace_changes()
    with recording() as trace:
        notes.trace_changes()
        notes.trace_changes()
    assert graphs(trace.events) == [known("logs", {}, "predicted")]


def test_other_requirements_of_as_many_items_are_noted():
    knowledge = Knowledge(DependencyGraph(["logs", "planks"]))
    notes = notes_on(knowledge, ActionMemory(VERBS, x0=1))
    with recording() as trace:
        for quantity in (1, 2):
            knowledge.graph.require("planks", {"logs": quantity})
            notes.trace_changes()
    assert graphs(trace.events)[1] == known("planks", {"logs": 2}, "predicted")


def agent_on(believed, answers, *, kind=Xenon):
    """An agent whose actions are scripted, and its world of logs, planks and bowls."""

    async def choose(question):
        return answers[question.item].pop(0)

    memory = ActionMemory(VERBS, x0=1)
    notes = notes_on(believed, memory)
    player = agent(kind, believed, memory=memory, asks={"choose": choose}, notes=notes)
    return player, TextWorld(BOOK, goals=["planks", "bowl"], verbs=VERBS)


async def test_a_learning_agent_leaves_its_subgoals_and_its_graph():
    believed = Knowledge(DependencyGraph(["logs", "planks", "bowl"]))
    believed.graph.require("planks", {"logs": 1})
    believed.graph.require("bowl", {"planks": 1})
    answers = {"logs": ["mine"], "planks": ["smelt", "craft"], "bowl": ["craft", "mine"] * 3}
    player, world = agent_on(believed, answers)
    with recording() as trace:
        await player.learn(world, until=50, watch=lambda _: None)
    steps = lines(trace.events, "execution")
    keys = ("action", "text", "obstacle", "done")
    assert [tuple(step[key] for key in keys) for step in steps[:4]] == [
        ("mine 1 logs", "1 logs after 1 steps, for logs", None, False),
        ("smelt 1 planks", "0 planks after 2 steps, for planks", "the attempt failed", False),
        ("craft 1 planks", "4 planks after 3 steps, for planks", None, False),
        ("craft 1 bowl", "0 bowl after 4 steps, for bowl", "the attempt failed", False),
    ]
    first, *later = graphs(trace.events)
    assert first == {
        **known("logs", {}, "predicted"),
        **known("planks", {"logs": 1}, "predicted"),
        **known("bowl", {"planks": 1}, "predicted"),
    }
    assert later[:2] == [
        known("logs", {}, "learnt", "mine"),
        known("planks", {"logs": 1}, "learnt", "craft"),
    ]
    # All actions fail at a bowl of logs, so it gets other requirements; at last it is obtained.
    assert [graph["bowl"]["known"] for graph in later[2:]] == ["predicted"] * (len(later) - 3) + [
        "learnt"
    ]
    assert len(later) > 3
    assert later[-1] == known("bowl", {"logs": 6}, "learnt", "craft")


async def test_an_agent_that_revises_nothing_knows_that_its_belief_is_wrong():
    believed = Knowledge(DependencyGraph(["bowl"]))
    player, world = agent_on(believed, {"bowl": [*VERBS]}, kind=AsPredicted)
    with recording() as trace:
        await player.learn(world, until=len(VERBS), watch=lambda _: None)
    assert graphs(trace.events) == [known("bowl", {}, "predicted"), known("bowl", {}, "wrong")]
    assert [step["done"] for step in lines(trace.events, "execution")] == [False, False, True]


async def test_the_end_of_the_time_is_another_obstacle_than_a_failure():
    believed = Knowledge(DependencyGraph(["logs"]))
    player, world = agent_on(believed, {"logs": ["mine"]}, kind=Rand)
    believed.graph.require("planks", {"logs": 3})
    believed.obtained.add("logs")
    with recording() as trace:
        await player.pursue("planks", world, until=2)
    (step,) = lines(trace.events, "execution")
    assert step["action"] == "mine 3 logs"
    assert (step["text"], step["obstacle"], step["done"]) == (
        "2 logs after 2 steps, for planks",
        "the episode ended",
        True,
    )


@pytest.mark.parametrize("planner", ["select-xenon", "plan-xenon", "plan-oracle-actions"])
def test_a_given_goal_leaves_its_subgoals_and_no_graph(planner, tmp_path):
    path = tmp_path / "trace.jsonl"
    task = "piston" if planner == "select-xenon" else "stick"
    result = invoke("run", planner, "--model", "none", "--task", task, "--json", "--trace", path)
    assert result.exit_code == 0, result.output
    events = [json.loads(line) for line in path.read_text().splitlines()]
    steps = lines(events, "execution")
    plan = json.loads(result.stdout)["plan"]
    assert [step["action"] for step in steps if step["obstacle"] is None] == plan
    assert plan
    assert steps[-1]["action"].endswith(f" 1 {task}")
    assert graphs(events) == []


async def test_a_cook_leaves_its_directions_and_its_tools(tmp_path):
    given = {"roles": sticky(tmp_path, 0.0), "episodes": 4, "games": 2, "K": 0}
    prepared = prepare("xenon-cooking", domain=PAPER_KITCHENS, settings=given)
    with recording() as trace:
        outcome = await prepared.run(Engines(ScriptedEngine({})), 0)
    steps = lines(trace.events, "execution")
    tried = [step for episode in outcome.trace["episodes"] for step in episode["steps"]]
    assert [step["action"] for step in steps] == [
        f"{action} {ingredient} with {tool}" for _, ingredient, action, tool, _ in tried
    ]
    assert [step["reward"] for step in steps] == [float(done) for *_, done in tried]
    assert [step["obstacle"] for step in steps] == [
        None if done else f"it does not {v} the {ingredient}" for v, ingredient, _, _, done in tried
    ]
    assert sum(step["done"] for step in steps) == 4
    # The lines, one after the other, make what the agent knows in the end.
    final = {}
    for items in graphs(trace.events):
        final |= items
    tools = outcome.trace["knowledge"]["tools"]
    assert {v: belief["requires"] for v, belief in final.items()} == {
        v: {t: 1} for v, t in tools.items()
    }
    assert {belief["known"] for belief in final.values()} <= {"predicted", "learnt"}
    assert any(belief["known"] == "learnt" for belief in final.values())


def test_the_lines_make_the_graph_that_the_summary_has(tmp_path):
    path = tmp_path / "trace.jsonl"
    options = ("--set", "steps=400", "--set", "requirements=3", "--json", "--trace", path)
    assert invoke("run", "xenon-plus", "--model", "none", *options).exit_code == 0
    events = [json.loads(line) for line in path.read_text().splitlines()]
    summary = {line["key"]: line["value"] for line in lines(events, "summary")}
    final = {}
    for items in graphs(events):
        final |= items
    assert {v: belief["requires"] for v, belief in final.items()} == summary["graph"]
    learnt = {v for v, belief in final.items() if belief["known"] == "learnt"}
    assert learnt >= set(summary["obtained"])
    assert len(learnt) > len(summary["demonstrated"])
