"""XENON+ tries nothing twice: how it revises Ĝ after all actions failed at an item."""

from __future__ import annotations

import random

from xenon_builders import VERBS, Alike
from xenon_builders import failed as failure

from llm_planning.planners.xenon.dependency_graph import DependencyGraph
from llm_planning.planners.xenon.fam import ActionMemory
from llm_planning.planners.xenon.goals import dex_of_unrefuted
from llm_planning.planners.xenon.knowledge import Knowledge, Refutations, Withdrawn
from llm_planning.planners.xenon.refuting import RefutingStore
from llm_planning.planners.xenon.revision import Analogy, gathering, ranking
from llm_planning.planners.xenon.settings import LearningSettings

SCALES = LearningSettings(c0=3, alpha_s=2, alpha_i=8, K=1)


async def later_is_likelier(question):
    return [float(i) for i in range(len(question.candidates))]


def failed(item, **inventory):
    return [failure(item, action, **inventory) for action in VERBS]


def world(*items, memory=None):
    known = Knowledge(DependencyGraph(items))
    known.obtain("logs", {}, makes=1, kept=set())
    known.obtain("planks", {"logs": 1}, makes=4, kept=set())
    analogy = gathering(Analogy(knowledge=known, similar=Alike("nothing"), scales=SCALES))
    store = RefutingStore(
        ranking(analogy, later_is_likelier), memory=memory or ActionMemory(VERBS, x0=2)
    )
    return known, known.refutations, store


async def revise(store, item, failures):
    for one in failures:
        store.failed(one)
    await store.revise(item)


def required(known, item):
    return dict(known.graph.requirements(item))


# What is refuted ----------------------------------------------------------------------------------


def test_what_every_attempt_had_at_hand_is_refuted():
    refutations = Refutations()
    one, other = failed("pot", logs=3, planks=5)[0], failed("pot", logs=4, stick=1)[0]
    refutations.refute("pot", [one, other])
    assert refutations.refuted == {"pot": [{"logs": 3}]}
    assert refutations.refutes("pot", {"logs": 3})
    assert refutations.refutes("pot", {})
    assert not refutations.refutes("pot", {"logs": 4})
    assert not refutations.refutes("pot", {"logs": 3, "planks": 1})
    assert not refutations.refutes("bowl", {})


def test_smaller_inventories_are_not_kept_beside_larger_ones():
    refutations = Refutations()
    for inventory in ({"logs": 1}, {"planks": 2}, {"logs": 2, "stick": 1}, {"logs": 2}):
        refutations.refute("pot", failed("pot", **inventory))
    assert refutations.refuted["pot"] == [{"planks": 2}, {"logs": 2, "stick": 1}]


def test_a_changed_rule_is_not_refuted():
    known, refutations, _ = world("pot")
    refutations.refute("pot", failed("pot", logs=8))
    refutations.withdraw("pot", withdrawn(known, "pot", cause="stick"))
    refutations.forget("pot")
    assert refutations == Refutations()


def withdrawn(known, item, *, cause):
    return Withdrawn(
        cause=cause,
        requirements=required(known, item),
        makes=1,
        revisions=known.revision_count(item),
        demonstrated=False,
    )


# Revision -----------------------------------------------------------------------------------------


async def test_revisions_that_propose_what_failed_are_passed_over():
    """Golden: the pot fails with six planks at hand, then with eight of both.

    C(pot) = 2 proposes α_s C = 4 of the likeliest item, planks, which is refuted; 3 proposes six of
    the two likeliest, which is not. After the second failure 4 proposes α_i = 8 of the resource,
    logs, and six planks: all there is, and refuted.
    """
    known, refutations, store = world("pot")
    known.graph.require("pot", {"planks": 1})
    await revise(store, "pot", failed("pot", planks=6))
    assert (known.revision_count("pot"), required(known, "pot")) == (3, {"planks": 6, "logs": 6})
    await revise(store, "pot", failed("pot", planks=8, logs=8))
    assert (known.revision_count("pot"), required(known, "pot")) == (4, {"logs": 8, "planks": 6})
    assert refutations.refutes("pot", required(known, "pot"))
    await store.review()
    await store.review()
    assert known.revision_count("pot") == 4


async def test_an_item_does_not_wait_before_the_largest_quantities_were_proposed():
    """Both names are proposed at C = 3 already, six of each: seven logs and six planks refute that.

    At C = 4 the item is inadmissible, and eight logs are proposed.
    """
    known, refutations, store = world("pot", "lid")
    known.graph.require("pot", {"planks": 1})
    known.graph.require("lid", {"pot": 1})
    await revise(store, "pot", failed("pot", planks=6, logs=7))
    assert (known.revision_count("pot"), required(known, "pot")) == (4, {"logs": 8, "planks": 6})
    assert not refutations.refutes("pot", required(known, "pot"))


async def test_what_fam_holds_against_actions_goes_with_the_belief():
    """Failures of an old belief would soon rule out all actions for the present one."""
    memory = ActionMemory(VERBS, x0=2)
    known, refutations, store = world("stick", "sword", memory=memory)
    known.graph.require("stick", {"planks": 1})
    known.graph.require("sword", {"stick": 1})
    memory.record("craft", "sword", True)
    for action in VERBS:
        memory.record(action, "sword", False)
    for one in failed("sword"):
        store.failed(one)
    await revise(store, "stick", failed("stick", logs=8, planks=8))
    assert set(refutations.withdrawn) == {"sword"}
    assert memory.to_json() == {"successes": {"sword": {"craft": 1}}, "failures": {}}
    assert not store.state.unrevised
    memory.record("mine", "sword", False)
    known.obtain("stick", {"planks": 9}, makes=1, kept=set())
    await store.review()
    assert required(known, "sword") == {"stick": 1}
    assert memory.failures("mine", "sword") == 0


async def test_an_item_waits_until_something_else_is_obtained():
    known, refutations, store = world("pot", "clay")
    known.graph.require("pot", {"planks": 1})
    known.revisions["pot"] = 3
    await revise(store, "pot", failed("pot", planks=8, logs=8))
    await store.review()
    assert refutations.refutes("pot", required(known, "pot"))
    known.obtain("clay", {}, makes=1, kept=set())
    await store.review()
    assert required(known, "pot") == {"logs": 8, "clay": 8, "planks": 6}
    assert not refutations.refutes("pot", required(known, "pot"))


async def test_an_inadmissible_item_is_not_tried_with_what_was_never_obtained():
    """Cobblestone is a resource, since a plan used it up, but the agent cannot obtain it."""
    known, _, store = world("pot")
    known.demonstrate("cobblestone", {}, makes=1, kept=set())
    known.demonstrate("furnace", {"cobblestone": 8}, makes=1, kept=set())
    known.revisions["pot"] = 3
    await revise(store, "pot", failed("pot", planks=1))
    assert required(known, "pot") == {"logs": 8, "planks": 6}


async def test_what_was_obtained_is_not_revised():
    known, refutations, store = world("pot")
    await revise(store, "planks", failed("planks", logs=9))
    assert required(known, "planks") == {"logs": 1}
    assert not refutations.refuted


async def test_when_nothing_is_left_to_try_more_is_asked_for():
    """Golden: as many of each as of any, then twice the resources (logs), and so on.

    A pot of nine planks is out of reach of α_i = 8 of a resource and α_s c_0 = 6 of anything else.
    """
    known, _, store = world("pot")
    known.revisions["pot"] = 3
    asked = [{"logs": 8, "planks": 6}]
    for _ in range(3):
        await revise(store, "pot", failed("pot", **asked[-1]))
        await store.review()
        asked.append(required(known, "pot"))
    assert asked[1:] == [
        {"logs": 8, "planks": 8},
        {"logs": 16, "planks": 8},
        {"logs": 16, "planks": 16},
    ]


async def test_more_is_not_asked_for_while_something_else_can_be_tried():
    known, refutations, store = world("pot", "clay")
    known.revisions["pot"] = 3
    await revise(store, "pot", failed("pot", logs=8, planks=8))
    await store.review()
    assert required(known, "pot") == {"logs": 8, "planks": 6}
    refutations.refute("clay", failed("clay"))
    known.revisions["clay"] = 3
    await store.review()
    assert required(known, "clay") == {"logs": 8, "planks": 6}  # not proposed before
    assert required(known, "pot") == {"logs": 8, "planks": 6}
    await revise(store, "clay", failed("clay", logs=8, planks=6))
    await store.review()
    assert required(known, "clay") == {"logs": 8, "planks": 8}
    assert required(known, "pot") == {"logs": 16, "planks": 8}


async def test_where_nothing_was_obtained_there_is_nothing_to_ask_more_of():
    known, refutations, store = world("pot")
    known.forget(("logs", "planks"))
    for item in ("logs", "planks", "pot"):
        known.revisions[item] = 4
        known.graph.require(item, {})
        refutations.refute(item, failed(item))
    await store.review()
    assert [required(known, item) for item in ("logs", "planks", "pot")] == [{}, {}, {}]


# Beliefs that are withdrawn, and believed again ---------------------------------------------------


def stuck_world():
    """A stick needs a chest, which seems to need an axe, which needs a stick."""
    known, refutations, store = world("stick", "chest", "sword")
    known.demonstrate("stick", {"planks": 2}, makes=4, kept=set())
    known.demonstrate("axe", {"stick": 2, "planks": 3}, makes=2, kept=set())
    known.graph.require("chest", {"axe": 1})
    known.graph.require("sword", {"stick": 1})
    return known, refutations, store


async def test_all_that_depends_on_what_waits_is_revised_and_believed_again():
    known, refutations, store = stuck_world()
    await revise(store, "stick", failed("stick", logs=8, planks=8))
    assert refutations.refutes("stick", required(known, "stick"))
    assert {v: before.cause for v, before in refutations.withdrawn.items()} == dict.fromkeys(
        ("axe", "chest", "sword"), "stick"
    )
    for item in ("axe", "chest", "sword"):
        assert "stick" not in required(known, item)
    assert known.demonstrated == set()
    known.obtain("chest", {"planks": 8}, makes=1, kept=set())
    await store.review()
    assert "chest" in required(known, "stick")
    known.obtain("stick", {"chest": 1}, makes=1, kept=set())
    await store.review()
    assert required(known, "axe") == {"stick": 2, "planks": 3}
    assert known.graph.makes("axe") == 2
    assert known.demonstrated == {"axe"}
    assert required(known, "sword") == {"stick": 1}
    assert known.revision_count("sword") == 1
    assert required(known, "chest") == {"planks": 8}  # experience stands
    assert not refutations.withdrawn


async def test_what_was_demonstrated_stands_as_long_as_there_is_something_to_try():
    known, refutations, store = stuck_world()
    for _ in range(4):
        await revise(store, "stick", failed("stick", planks=1))
    assert not refutations.refutes("stick", required(known, "stick"))
    assert required(known, "axe") == {"stick": 2, "planks": 3}
    assert "axe" in known.demonstrated


async def test_a_withdrawn_belief_that_was_refuted_since_is_not_believed_again():
    known, refutations, store = stuck_world()
    await revise(store, "stick", failed("stick", logs=8, planks=8))
    known.obtain("stick", {"logs": 2}, makes=1, kept=set())
    refutations.refute("sword", failed("sword", stick=3))
    before = required(known, "sword")
    await store.review()
    assert before == {"planks": 4}  # what was proposed when the belief was withdrawn
    assert required(known, "sword") == before
    assert "sword" not in refutations.withdrawn


async def test_a_withdrawn_belief_that_would_make_a_cycle_is_not_believed_again():
    known, refutations, store = stuck_world()
    await revise(store, "stick", failed("stick", logs=8, planks=8))
    known.obtain("sword", {"logs": 1}, makes=1, kept=set())
    known.obtain("stick", {"axe": 1}, makes=1, kept=set())
    await store.review()
    assert "stick" not in required(known, "axe")
    assert "axe" not in refutations.withdrawn


async def test_a_rule_that_changes_ends_the_suspicion_against_it():
    known, refutations, store = stuck_world()
    await revise(store, "stick", failed("stick", logs=8, planks=8))
    await store.review()
    assert refutations.withdrawn
    known.forget(("stick",))
    await store.review()
    assert not refutations.withdrawn
    assert required(known, "axe") == {"stick": 2, "planks": 3}
    assert "axe" in known.demonstrated


# Goals --------------------------------------------------------------------------------------------


def goal(known):
    return dex_of_unrefuted(3)(known, random.Random(0))


def test_goals_are_unrefuted_and_what_was_withdrawn_counts_as_explored_more():
    known, refutations, _ = world("pot", "bowl", "lid")
    for v in ("pot", "bowl", "lid"):
        known.graph.require(v, {"planks": 1})
    known.revisions.update(bowl=2, lid=3)
    assert goal(known) == "pot"
    refutations.refute("pot", failed("pot", planks=1))
    assert goal(known) == "bowl"
    refutations.withdraw("bowl", withdrawn(known, "bowl", cause="stick"))
    assert goal(known) == "lid"
    refutations.refute("lid", failed("lid", planks=1))
    assert goal(known) == "bowl"
    refutations.refute("bowl", failed("bowl", planks=1))
    assert goal(known) == "pot"  # fewest revisions
    known.obtain("lid", {"planks": 1}, makes=1, kept=set())
    refutations.refuted.clear()
    known.revisions.update(pot=8, bowl=2)
    assert goal(known) in {"pot", "bowl"}  # 8 and 2 + 2 c_0
    known.revisions["pot"] = 9
    assert goal(known) == "bowl"
    known.obtained.update(("pot", "bowl"))
    assert goal(known) is None
