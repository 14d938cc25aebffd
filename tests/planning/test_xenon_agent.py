"""The loop of XENON (Algorithm 1) and its beginning (Algorithm 2), step by step."""

from __future__ import annotations

import pytest
from xenon_builders import LOGS, PLANKS, TRACES, VERBS, agent, book_of, failed

from llm_planning.environments.minecraft.book.rulebook import ItemRule, RuleBook
from llm_planning.environments.minecraft.items.text_world import TextWorld
from llm_planning.planners.xenon.graph import (
    PLANS,
    DependencyGraph,
    HumanPlan,
    PlanFailedError,
    demonstrate,
)
from llm_planning.planners.xenon.memory import ActionMemory, Knowledge

BOOK = book_of(
    LOGS,
    PLANKS,
    ItemRule(item="bowl", action="craft", consumed={"planks": 3}),
    ItemRule(item="pot", action="smelt", consumed={"planks": 6}),
)


class Logged:
    """A text world that records all attempts."""

    def __init__(self, world):
        self._world = world
        self.log = []
        self.items, self.verbs = world.items, world.verbs

    steps = property(lambda self: self._world.steps)
    inventory = property(lambda self: self._world.inventory)

    def step(self, action, item):
        used = self._world.step(action, item)
        self.log.append(f"{action} {item}{'' if used is not None else ' fails'}")
        return used


def answering(answers):
    """Answers each item from its list, left to right; records its questions."""
    asked = []

    async def choose(question):
        asked.append((question.item, question.options))
        return answers[question.item].pop(0)

    return choose, asked


def xenon(known, answers, *, x0):
    choose, asked = answering(answers)
    return agent(known=known, x0=x0, asks={"choose": choose}), asked


async def test_golden_trace():
    """A pot of 6 planks, believed to be one plank, from the first step to the last.

    C(pot) goes 2, 3 (what similar items need: logs, 2 C(pot) of them), then 4 and 5 (8 of every
    resource; planks are one only after the bowl was made). The bowl, which was believed to need a
    pot, is freed when the pot becomes inadmissible.
    """
    known = Knowledge(DependencyGraph(["logs", "planks", "bowl", "pot"]))
    known.graph.require("planks", {"logs": 1})
    known.graph.require("pot", {"planks": 1})
    known.graph.require("bowl", {"planks": 3, "pot": 1})
    answers = {
        "logs": ["mine"],
        "planks": ["smelt", "craft"],
        "pot": ["craft", "mine"] * 5,
        "bowl": ["craft"],
    }
    player, asked = xenon(known, answers, x0=1)
    world = Logged(TextWorld(BOOK, goals=["bowl", "pot"], verbs=VERBS))
    pursued = []
    await player.learn(world, until=100, watch=pursued.append)
    assert world.log == TRACES["pot"]
    assert known.revisions == {"pot": 5, "bowl": 2}
    assert dict(known.graph.requirements("pot")) == {"planks": 6}
    assert dict(known.graph.requirements("bowl")) == {"planks": 3}
    learnt = {"logs": "mine", "planks": "craft", "bowl": "craft", "pot": "smelt"}
    assert player.memory.known() == learnt
    # With one action left no question is asked.
    assert [options for item, options in asked if item == "pot"] == [VERBS, ("mine", "smelt")] * 5
    goals = [plans[0].missing[-1][1] for plans in pursued]
    assert goals == ["logs", "planks", "pot", "pot", "pot", "bowl", "pot", "pot"]
    # Each plan but the last of a goal ends with a failure; three lose the pot before a revision.
    assert [len(plans) for plans in pursued] == [1, 2, 3, 3, 3, 1, 3, 3]
    assert all(not plan.tried[-1].reached for plans in pursued for plan in plans[:-1])


async def test_the_end_of_the_time_is_no_failure():
    known = Knowledge(DependencyGraph(["logs"]))
    player, _ = xenon(known, {"logs": ["mine"] * 3}, x0=2)
    world = Logged(TextWorld(BOOK, goals=["bowl"], verbs=VERBS))
    known.graph.require("planks", {"logs": 9})
    await player.learn(world, until=4, watch=lambda _: None)
    assert world.log == ["mine logs"] * 4
    assert player.memory.failures("mine", "logs") == 0


async def fail_until_exhausted(memory, item, *, known):
    """Every action fails twice as the actions of an agent do."""
    player = agent(known=known, memory=memory)
    ended = [
        await player.learn_from(action, item, failed(item, action))
        for action in ("mine", "craft", "smelt") * 2
    ]
    assert ended == [False] * 5 + [True]


async def test_what_worked_is_forgotten_with_a_revision_only():
    """An obtained item is not revised, so its failures are the controller's (Algorithm 1, 16)."""
    known = Knowledge(DependencyGraph(["logs", "bowl"]), obtained={"logs"})
    for item, remembered in (("logs", "mine"), ("bowl", None)):
        memory = ActionMemory(VERBS, x0=2)
        memory.record("mine", item, True)
        memory.record("mine", item, False)
        await fail_until_exhausted(memory, item, known=known)
        assert memory.valid(item) == remembered
        assert memory.successes("mine", item) == (remembered is not None)
        assert not memory.exhausted(item)
        assert known.revision_count(item) == (1 if remembered else 2)


# The beginning ------------------------------------------------------------------------------------


def test_the_three_plans_demonstrate_what_the_paper_lists():
    known = Knowledge(DependencyGraph())
    memory = ActionMemory(VERBS, x0=2)
    world = TextWorld(RuleBook.load(), goals=["diamond", "iron_sword", "golden_sword"], verbs=VERBS)
    succeeded = agent(known=known, memory=memory).succeeded
    demonstrate(PLANS, world, knowledge=known, succeeded=succeeded)
    assert known.demonstrated == {
        *("logs", "planks", "stick", "crafting_table", "wooden_pickaxe", "cobblestone", "furnace"),
        *("stone_pickaxe", "iron_ore", "iron_ingot", "iron_pickaxe", "iron_sword", "diamond"),
        *("gold_ore", "gold_ingot", "golden_sword"),
    }
    assert known.obtained == set()
    assert dict(known.graph.requirements("diamond")) == {"iron_pickaxe": 1}
    assert dict(known.graph.requirements("furnace")) == {"cobblestone": 8, "crafting_table": 1}
    assert known.kept >= {"crafting_table", "furnace"}
    assert memory.valid("iron_ingot") == "smelt"


def test_a_plan_that_fails_names_its_step():
    plan = HumanPlan("bowl", (("mine", "logs", 1), ("smelt", "planks", 3)))
    world = TextWorld(BOOK, goals=["bowl"], verbs=VERBS)
    player = agent()
    with pytest.raises(PlanFailedError, match="plan for bowl fails at smelt planks"):
        demonstrate([plan], world, knowledge=player.knowledge, succeeded=player.succeeded)


async def predicted(answers, items, *, most=100, demonstrated=()):
    known = Knowledge(DependencyGraph(items))
    for item, used in demonstrated:
        known.demonstrate(item, used, makes=1, kept=set())
    asked = []

    async def predict(question):
        asked.append((question.item, tuple(question.examples)))
        return answers.get(question.item, {})

    initial = await agent(known=known, k=2).initialise(predict, most=most)
    return known, initial, asked


async def test_a_prediction_that_makes_a_cycle_becomes_nothing():
    known, initial, _ = await predicted(
        {"planks": {"stick": 1}, "stick": {"planks": 2, "glue": 1}}, ["planks", "stick"]
    )
    assert dict(known.graph.requirements("planks")) == {"stick": 1}
    assert not known.graph.requirements("stick")
    assert initial.cyclic == ("stick",)
    assert "glue" in known.graph
    assert initial.predicted["stick"] == {"planks": 2, "glue": 1}


async def test_hallucination_without_end_is_bounded():
    answers = {f"thing_{i}": {f"thing_{i + 1}": 1} for i in range(100)}
    known, initial, asked = await predicted(answers, ["thing_0"], most=5)
    assert len(asked) == 5
    assert initial.unasked == ("thing_5",)
    assert not known.graph.requirements("thing_5")
