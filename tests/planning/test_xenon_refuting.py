"""XENON+ tries nothing twice: how it revises Ĝ after all actions failed at an item."""

from __future__ import annotations

import random
from dataclasses import replace

from xenon_builders import VERBS, Alike, agent
from xenon_builders import failed as failure

from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.memory import ActionMemory, Knowledge
from llm_planning.planners.xenon.plus import Refutations, Withdrawn, XenonPlus


async def later_is_likelier(question):
    return [float(i) for i in range(len(question.candidates))]


def failed(item, **inventory):
    return [failure(item, action, **inventory) for action in VERBS]


def world(*items, memory=None):
    known = Knowledge(DependencyGraph(items))
    known.obtain("logs", {}, makes=1, kept=set())
    known.obtain("planks", {"logs": 1}, makes=4, kept=set())
    asks = {"rank": later_is_likelier}
    player = agent(XenonPlus, known, memory=memory, similar=Alike("nothing"), asks=asks, k=1)
    return known, player.refutations, player


async def revise(player, item, failures):
    for attempt in failures:
        player.failed(attempt)
    await player.revise(item)


def required(known, item):
    return dict(known.graph.requirements(item))


# What is refuted ----------------------------------------------------------------------------------


async def test_what_every_attempt_had_at_hand_is_refuted():
    _, refutations, player = world("pot")
    first, other = failed("pot", logs=3, planks=5)[0], failed("pot", logs=4, stick=1)[0]
    await revise(player, "pot", [first, other])
    assert refutations.refuted == {"pot": [{"logs": 3}]}
    assert refutations.refutes("pot", {"logs": 3})
    assert refutations.refutes("pot", {})
    assert not refutations.refutes("pot", {"logs": 4})
    assert not refutations.refutes("pot", {"logs": 3, "planks": 1})
    assert not refutations.refutes("bowl", {})


def test_smaller_inventories_are_not_kept_beside_larger_ones():
    refutations = Refutations()
    for inventory in ({"logs": 1}, {"planks": 2}, {"logs": 2, "stick": 1}, {"logs": 2}):
        refutations.refute("pot", inventory)
    assert refutations.refuted["pot"] == [{"planks": 2}, {"logs": 2, "stick": 1}]


def test_a_changed_rule_is_not_refuted():
    known, refutations, _ = world("pot")
    refutations.refute("pot", {"logs": 8})
    refutations.withdrawn["pot"] = withdrawn(known, "pot", cause="stick")
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
    known, refutations, player = world("pot")
    known.graph.require("pot", {"planks": 1})
    await revise(player, "pot", failed("pot", planks=6))
    assert (known.revision_count("pot"), required(known, "pot")) == (3, {"planks": 6, "logs": 6})
    await revise(player, "pot", failed("pot", planks=8, logs=8))
    assert (known.revision_count("pot"), required(known, "pot")) == (4, {"logs": 8, "planks": 6})
    assert refutations.refutes("pot", required(known, "pot"))
    await player.review()
    await player.review()
    assert known.revision_count("pot") == 4


async def test_an_item_does_not_wait_before_the_largest_quantities_were_proposed():
    """Both names are proposed at C = 3 already, six of each: seven logs and six planks refute that.

    At C = 4 the item is inadmissible, and eight logs are proposed.
    """
    known, refutations, player = world("pot", "lid")
    known.graph.require("pot", {"planks": 1})
    known.graph.require("lid", {"pot": 1})
    await revise(player, "pot", failed("pot", planks=6, logs=7))
    assert (known.revision_count("pot"), required(known, "pot")) == (4, {"logs": 8, "planks": 6})
    assert not refutations.refutes("pot", required(known, "pot"))


async def test_what_fam_holds_against_actions_goes_with_the_belief():
    """Failures of an old belief would soon rule out all actions for the present one."""
    memory = ActionMemory(VERBS, x0=2)
    known, refutations, player = world("stick", "sword", memory=memory)
    known.graph.require("stick", {"planks": 1})
    known.graph.require("sword", {"stick": 1})
    memory.record("craft", "sword", True)
    for action in VERBS:
        memory.record(action, "sword", False)
    player.held["sword"] = {}
    await revise(player, "stick", failed("stick", logs=8, planks=8))
    assert set(refutations.withdrawn) == {"sword"}
    assert memory.to_json() == {"successes": {"sword": {"craft": 1}}, "failures": {}}
    assert not player.held
    memory.record("mine", "sword", False)
    known.obtain("stick", {"planks": 9}, makes=1, kept=set())
    await player.review()
    assert required(known, "sword") == {"stick": 1}
    assert memory.failures("mine", "sword") == 0


async def test_an_item_waits_until_something_else_is_obtained():
    known, refutations, player = world("pot", "clay")
    known.graph.require("pot", {"planks": 1})
    known.revisions["pot"] = 3
    await revise(player, "pot", failed("pot", planks=8, logs=8))
    await player.review()
    assert refutations.refutes("pot", required(known, "pot"))
    known.obtain("clay", {}, makes=1, kept=set())
    await player.review()
    assert required(known, "pot") == {"logs": 8, "clay": 8, "planks": 6}
    assert not refutations.refutes("pot", required(known, "pot"))


async def test_an_inadmissible_item_is_not_tried_with_what_was_never_obtained():
    """Cobblestone is a resource, since a plan used it up, but the agent cannot obtain it."""
    known, _, player = world("pot")
    known.demonstrate("cobblestone", {}, makes=1, kept=set())
    known.demonstrate("furnace", {"cobblestone": 8}, makes=1, kept=set())
    known.revisions["pot"] = 3
    await revise(player, "pot", failed("pot", planks=1))
    assert required(known, "pot") == {"logs": 8, "planks": 6}


async def test_what_was_obtained_is_not_revised():
    known, refutations, player = world("pot")
    for attempt in failed("planks", logs=9) * 2:
        await player.learn_from(attempt.action, "planks", attempt)
    assert required(known, "planks") == {"logs": 1}
    assert not refutations.refuted


async def test_when_nothing_is_left_to_try_more_is_asked_for():
    """Golden: as many of each as of any, then twice the resources (logs), and so on.

    A pot of nine planks is out of reach of α_i = 8 of a resource and α_s c_0 = 6 of anything else.
    """
    known, _, player = world("pot")
    known.revisions["pot"] = 3
    asked = [{"logs": 8, "planks": 6}]
    for _ in range(3):
        await revise(player, "pot", failed("pot", **asked[-1]))
        await player.review()
        asked.append(required(known, "pot"))
    assert asked[1:] == [
        {"logs": 8, "planks": 8},
        {"logs": 16, "planks": 8},
        {"logs": 16, "planks": 16},
    ]


async def test_more_is_not_asked_for_while_something_else_can_be_tried():
    known, refutations, player = world("pot", "clay")
    known.revisions["pot"] = 3
    await revise(player, "pot", failed("pot", logs=8, planks=8))
    await player.review()
    assert required(known, "pot") == {"logs": 8, "planks": 6}
    refutations.refute("clay", {})
    known.revisions["clay"] = 3
    await player.review()
    assert required(known, "clay") == {"logs": 8, "planks": 6}  # not proposed before
    assert required(known, "pot") == {"logs": 8, "planks": 6}
    await revise(player, "clay", failed("clay", logs=8, planks=6))
    await player.review()
    assert required(known, "clay") == {"logs": 8, "planks": 8}
    assert required(known, "pot") == {"logs": 16, "planks": 8}


async def test_where_nothing_was_obtained_there_is_nothing_to_ask_more_of():
    known, refutations, player = world("pot")
    known.forget(("logs", "planks"))
    for item in ("logs", "planks", "pot"):
        known.revisions[item] = 4
        known.graph.require(item, {})
        refutations.refute(item, {})
    await player.review()
    assert [required(known, item) for item in ("logs", "planks", "pot")] == [{}, {}, {}]


# Beliefs that are withdrawn, and believed again ---------------------------------------------------


def stuck_world():
    """A stick needs a chest, which seems to need an axe, which needs a stick."""
    known, refutations, player = world("stick", "chest", "sword")
    known.demonstrate("stick", {"planks": 2}, makes=4, kept=set())
    known.demonstrate("axe", {"stick": 2, "planks": 3}, makes=2, kept=set())
    known.graph.require("chest", {"axe": 1})
    known.graph.require("sword", {"stick": 1})
    return known, refutations, player


async def test_all_that_depends_on_what_waits_is_revised_and_believed_again():
    known, refutations, player = stuck_world()
    await revise(player, "stick", failed("stick", logs=8, planks=8))
    assert refutations.refutes("stick", required(known, "stick"))
    assert {v: before.cause for v, before in refutations.withdrawn.items()} == dict.fromkeys(
        ("axe", "chest", "sword"), "stick"
    )
    for item in ("axe", "chest", "sword"):
        assert "stick" not in required(known, item)
    assert known.demonstrated == set()
    known.obtain("chest", {"planks": 8}, makes=1, kept=set())
    await player.review()
    assert "chest" in required(known, "stick")
    known.obtain("stick", {"chest": 1}, makes=1, kept=set())
    await player.review()
    assert required(known, "axe") == {"stick": 2, "planks": 3}
    assert known.graph.makes("axe") == 2
    assert known.demonstrated == {"axe"}
    assert required(known, "sword") == {"stick": 1}
    assert known.revision_count("sword") == 1
    assert required(known, "chest") == {"planks": 8}  # experience stands
    assert not refutations.withdrawn


async def test_what_was_demonstrated_stands_as_long_as_there_is_something_to_try():
    known, refutations, player = stuck_world()
    for _ in range(4):
        await revise(player, "stick", failed("stick", planks=1))
    assert not refutations.refutes("stick", required(known, "stick"))
    assert required(known, "axe") == {"stick": 2, "planks": 3}
    assert "axe" in known.demonstrated


async def test_a_withdrawn_belief_that_was_refuted_since_is_not_believed_again():
    known, refutations, player = stuck_world()
    await revise(player, "stick", failed("stick", logs=8, planks=8))
    known.obtain("stick", {"logs": 2}, makes=1, kept=set())
    refutations.refute("sword", {"stick": 3})
    before = required(known, "sword")
    await player.review()
    assert before == {"planks": 4}  # what was proposed when the belief was withdrawn
    assert required(known, "sword") == before
    assert "sword" not in refutations.withdrawn


async def test_a_withdrawn_belief_that_would_make_a_cycle_is_not_believed_again():
    known, refutations, player = stuck_world()
    await revise(player, "stick", failed("stick", logs=8, planks=8))
    known.obtain("sword", {"logs": 1}, makes=1, kept=set())
    known.obtain("stick", {"axe": 1}, makes=1, kept=set())
    await player.review()
    assert "stick" not in required(known, "axe")
    assert "axe" not in refutations.withdrawn


async def test_a_rule_that_changes_ends_the_suspicion_against_it():
    known, refutations, player = stuck_world()
    await revise(player, "stick", failed("stick", logs=8, planks=8))
    await player.review()
    assert refutations.withdrawn
    player.forget(("stick",))
    await player.review()
    assert not refutations.withdrawn
    assert required(known, "axe") == {"stick": 2, "planks": 3}
    assert "axe" in known.demonstrated


# Goals --------------------------------------------------------------------------------------------


async def test_goals_are_unrefuted_and_what_was_withdrawn_counts_as_explored_more():
    known, refutations, player = world("pot", "bowl", "lid")

    async def goal(seed=0):
        """As DEX chooses without a review."""
        return await super(XenonPlus, replace(player, rng=random.Random(seed))).select_goal()

    for v in ("pot", "bowl", "lid"):
        known.graph.require(v, {"planks": 1})
    known.revisions.update(bowl=2, lid=3)
    assert await goal() == "pot"
    refutations.refute("pot", {"planks": 1})
    assert await goal() == "bowl"
    refutations.withdrawn["bowl"] = withdrawn(known, "bowl", cause="stick")
    assert await goal() == "lid"
    refutations.refute("lid", {"planks": 1})
    assert await goal() == "bowl"
    refutations.refute("bowl", {"planks": 1})
    assert await goal() == "pot"  # fewest revisions
    known.obtain("lid", {"planks": 1}, makes=1, kept=set())
    refutations.refuted.clear()
    known.revisions.update(pot=8, bowl=2)
    assert {await goal(seed) for seed in range(20)} == {"pot", "bowl"}  # 8 and 2 + 2 c_0
    known.revisions["pot"] = 9
    assert await goal() == "bowl"
    known.obtained.update(("pot", "bowl"))
    assert await goal() is None
