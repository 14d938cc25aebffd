"""The parts of XENON against hand calculations (Sections 3 and 4, Appendices C, E, G)."""

from __future__ import annotations

import random

import numpy as np
import pytest
from xenon_builders import VERBS, agent

from llm_planning.planners.xenon.algorithm import Xenon
from llm_planning.planners.xenon.baselines import AnyGoal, Deckard
from llm_planning.planners.xenon.graph import (
    CyclicGraphError,
    DependencyGraph,
    aggregate,
    experienced,
)
from llm_planning.planners.xenon.memory import ActionMemory, Knowledge, Similar


def graph_of(**required):
    graph = DependencyGraph()
    for item, requirements in required.items():
        graph.add(item)
        graph.require(item, requirements)
    return graph


class Lettered:
    """An engine that embeds a name as the counts of its letters."""

    def __init__(self):
        self.asked = []

    async def embed(self, texts, *, role="embed"):
        self.asked.append(tuple(texts))
        rows = [[1e-3 + text.count(chr(97 + i)) for i in range(26)] for text in texts]
        return np.asarray(rows, np.float32)


# Ĝ ------------------------------------------------------------------------------------------------


def test_requirements_replace_all_incoming_edges():
    graph = graph_of(stick={"planks": 2})
    graph.require("stick", {"logs": 1}, makes=4)
    assert dict(graph.requirements("stick")) == {"logs": 1}
    assert (graph.makes("stick"), graph.makes("planks")) == (4, 1)
    assert list(graph.items) == ["stick", "planks", "logs"]


def test_a_cycle_is_refused_and_leaves_the_graph_alone():
    graph = graph_of(planks={"logs": 1}, stick={"planks": 2})
    for item, requirement, cyclic in (
        ("logs", "stick", True), ("logs", "logs", True), ("bowl", "stick", False),
    ):  # fmt: skip
        assert graph.makes_cycle(item, {requirement: 1}) is cyclic
    with pytest.raises(CyclicGraphError, match="logs would require itself"):
        graph.require("logs", {"stick": 1})
    assert not graph.requirements("logs")


def test_ancestors_and_descendants():
    graph = graph_of(planks={"logs": 1}, stick={"planks": 2}, torch={"stick": 1, "coals": 1})
    assert graph.ancestors("torch") == {"stick", "planks", "logs", "coals"}
    assert graph.descendants("planks") == ["stick", "torch"]
    assert graph.descendants("torch") == []


def test_n_true_counts_items_whose_edges_are_all_right():
    graph = graph_of(stick={"planks": 2}, chest={"planks": 9}, bowl={"planks": 3, "stick": 1})
    truth = {"stick": 2, "chest": 8, "bowl": 3, "torch": 1}
    assert graph.n_true({item: {"planks": count} for item, count in truth.items()}) == 1


# Aggregated requirements --------------------------------------------------------------------------


def test_aggregated_requirements_of_a_wooden_pickaxe():
    """3 planks + 2 sticks + a table of 4 planks: 9 planks, of which 4 come from a log."""
    graph = graph_of(
        planks={"logs": 1},
        stick={"planks": 2},
        crafting_table={"planks": 4},
        wooden_pickaxe={"planks": 3, "stick": 2, "crafting_table": 1},
    )
    graph.require("planks", {"logs": 1}, makes=4)
    graph.require("stick", {"planks": 2}, makes=4)
    plan = aggregate(graph, "wooden_pickaxe", {}, kept={"crafting_table"})
    assert {item: quantity for quantity, item in plan} == {
        "logs": 3,
        "planks": 9,
        "stick": 2,
        "crafting_table": 1,
        "wooden_pickaxe": 1,
    }
    order = [item for _, item in plan]
    assert order.index("logs") < order.index("planks") < order.index("stick")
    assert order[-1] == "wooden_pickaxe"


def test_what_is_held_is_not_gathered_again():
    graph = graph_of(stick={"planks": 2}, ladder={"stick": 7})
    plan = aggregate(graph, "ladder", {"stick": 5, "planks": 1, "ladder": 3})
    # 2 sticks are missing, and each is believed to take 2 planks; one more ladder is wanted.
    assert plan == [(3, "planks"), (2, "stick"), (1, "ladder")]


def test_kept_items_count_once_and_consumed_ones_add_up():
    graph = graph_of(a={"table": 1, "ore": 2}, b={"table": 1, "a": 3})
    assert aggregate(graph, "b", {}, kept={"table"}) == [
        (1, "table"),
        (6, "ore"),
        (3, "a"),
        (1, "b"),
    ]
    assert (4, "table") in aggregate(graph, "b", {})


# FAM ----------------------------------------------------------------------------------------------


def test_classification_follows_the_counts():
    """F >= S + x_0 is invalid; S > 0 and S > F - x_0 is valid (Section 4.2)."""
    memory = ActionMemory(VERBS, x0=2)
    memory.record("craft", "stick", False)
    assert memory.invalid("stick") == set()
    memory.record("craft", "stick", False)
    assert memory.invalid("stick") == {"craft"}
    assert memory.candidates("stick") == ("mine", "smelt")
    memory.record("mine", "stick", True)
    memory.record("mine", "stick", False)
    memory.record("mine", "stick", False)
    assert memory.valid("stick") == "mine"  # S=1 > F-x0=0
    memory.record("mine", "stick", False)
    assert memory.valid("stick") is None  # S=1 = F-x0
    assert memory.invalid("stick") == {"craft", "mine"}


def test_all_invalid_is_exhausted_and_leaves_all_as_candidates():
    memory = ActionMemory(VERBS, x0=1)
    for action in VERBS:
        assert not memory.exhausted("stick")
        memory.record(action, "stick", False)
    assert memory.exhausted("stick")
    assert memory.candidates("stick") == VERBS
    memory.reset("stick")
    assert memory.invalid("stick") == set()


# Experience ---------------------------------------------------------------------------------------


def test_what_left_the_inventory_was_required():
    before = {"planks": 9, "stick": 2, "crafting_table": 1}
    after = {"planks": 6, "crafting_table": 1, "wooden_pickaxe": 1}
    used = {"planks": 3, "stick": 2, "crafting_table": 1}
    assert experienced(used, before, after) == (used, {"crafting_table"})


def test_mining_required_the_best_pickaxe_at_hand():
    held = {"wooden_pickaxe": 1, "stone_pickaxe": 1}
    assert experienced({}, held, held) == ({"stone_pickaxe": 1}, {"stone_pickaxe"})
    assert experienced({}, {"logs": 2}, {"logs": 3}) == ({}, set())


def test_the_first_experience_counts_and_ends_a_demonstration():
    known = Knowledge(DependencyGraph(["chest"]))
    known.demonstrate("chest", {"logs": 2, "crafting_table": 1}, makes=1, kept={"crafting_table"})
    assert known.demonstrated == {"chest"}
    assert known.consumed == {"logs"}
    known.obtain("chest", {"planks": 8}, makes=1, kept=set())
    known.obtain("chest", {"iron_ingot": 1}, makes=1, kept=set())
    assert dict(known.graph.requirements("chest")) == {"planks": 8}
    assert known.demonstrated == set()
    assert known.consumed == {"logs", "planks"}


def test_experience_beats_a_belief_that_contradicts_it():
    known = Knowledge(graph_of(planks={"stick": 1}))
    known.obtain("stick", {"planks": 2}, makes=4, kept=set())
    assert dict(known.graph.requirements("stick")) == {"planks": 2}
    assert not known.graph.requirements("planks")


def test_forgetting_withdraws_experience_and_keeps_the_belief():
    known = Knowledge(DependencyGraph())
    known.obtain("stick", {"planks": 2}, makes=4, kept=set())
    known.revisions["stick"] = 4
    known.forget(["stick", "never_seen"])
    assert known.obtained == set()
    assert known.revision_count("stick") == 1
    assert dict(known.graph.requirements("stick")) == {"planks": 2}


# Goals --------------------------------------------------------------------------------------------


def explorer():
    known = Knowledge(
        graph_of(
            planks={"logs": 1},
            stick={"planks": 2},
            chest={"planks": 8},
            torch={"stick": 1, "coals": 1},
        )
    )
    known.obtained |= {"logs", "planks"}
    return known


def test_the_frontier_needs_obtained_items_only():
    assert agent(known=explorer()).frontier() == ["stick", "chest", "coals"]


async def goals(known, kind=Xenon, *, seeds):
    return {
        await agent(kind, known, rng=random.Random(seed)).select_goal() for seed in range(seeds)
    }


async def test_dex_takes_the_least_revised_then_the_easiest():
    known = explorer()
    # D: stick and chest 1 + {planks, logs}; coals 1.
    assert await goals(known, seeds=1) == {"coals"}
    known.revisions["coals"] = 2
    assert await goals(known, seeds=20) == {"stick", "chest"}
    known.obtained |= {"stick", "chest", "coals", "torch"}
    assert await goals(known, seeds=1) == {None}


async def test_deckard_leaves_the_frontier_when_it_is_explored():
    known = explorer()
    assert await goals(known, Deckard, seeds=40) == {"stick", "chest", "coals"}
    known.revisions = {"stick": 4, "chest": 4, "coals": 4}
    chosen = await goals(known, Deckard, seeds=80)
    assert chosen == {"stick", "chest", "coals", "logs", "planks"}


async def test_random_goals_are_not_yet_obtained():
    chosen = await goals(explorer(), AnyGoal, seeds=60)
    assert chosen == {"stick", "chest", "coals", "torch"}


# Similarity ---------------------------------------------------------------------------------------


async def test_similar_items_come_in_order_and_are_embedded_once():
    engine = Lettered()
    similar = Similar(engine)
    among = ["iron_axe", "iron_hoe", "golden_sword"]
    assert await similar.top("iron_hook", among, 2) == ["iron_hoe", "iron_axe"]
    assert await similar.top("iron_hook", ["iron_hook", "golden_sword"], 2) == ["golden_sword"]
    assert sum(map(len, engine.asked)) == 4
    assert "iron hook" in engine.asked[0]
