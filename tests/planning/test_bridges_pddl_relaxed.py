"""Relaxed plans of PDDL problems, calculated by hand, and what planners make of them."""

from random import Random

import pytest
from pddl_pairs import BALLS, BLOCKS, GRIPPER, LAMPS, ROOM, TOWER

from llm_planning import open_engine, plan
from llm_planning.domain import Decomposes, DomainError
from llm_planning.roles.domain_rules import leading

pytest.importorskip("unified_planning")

from llm_planning.environments.bridges import pddl, pddl_plans
from llm_planning.environments.bridges.pddl import bridge
from llm_planning.environments.bridges.pddl_plans import Relaxation

TEA = """
(define (domain tea) (:requirements :strips :typing) (:types vessel)
  (:predicates (full ?v - vessel) (hot ?v - vessel) (tea ?v - vessel) (leaves) (gas))
  (:action fill :parameters (?v - vessel) :precondition () :effect (full ?v))
  (:action heat :parameters (?v - vessel) :precondition (and (full ?v) (gas)) :effect (hot ?v))
  (:action fetch :parameters () :precondition () :effect (leaves))
  (:action brew :parameters (?v - vessel) :precondition (and (hot ?v) (leaves))
    :effect (and (tea ?v) (not (leaves)) (not (hot ?v)))))
"""
CUP = """
(define (problem cup) (:domain tea) (:objects cup pot - vessel) (:init (gas)) (:goal (tea cup)))
"""
BOTH = CUP.replace("(tea cup)", "(and (tea cup) (tea pot))")
COVERED = """
(define (problem covered) (:domain blocks) (:objects a c d)
  (:init (handempty) (ontable a) (ontable c) (on d c) (clear a) (clear d)) (:goal (on a c)))
"""


@pytest.fixture
def opened(tmp_path):
    def open_(domain, problem, **settings):
        (tmp_path / "domain.pddl").write_text(domain)
        (tmp_path / "task.pddl").write_text(problem)
        spec = bridge(str(tmp_path))
        return spec.open("task", spec.settings.read(settings))

    return open_


def taken(world, *actions):
    state = world.start(0)
    for action in actions:
        step = world.step(state, action, Random(0))
        assert step.obstacle is None
        state = step.state
    return state


@pytest.mark.parametrize(
    ("problem", "lengths"),
    [
        # fill, heat, fetch, brew. What is done is no part any more.
        (CUP, {(): 4, ("fill cup",): 3, ("fetch",): 3, ("fill cup", "heat cup", "fetch"): 1}),
        # Leaves are fetched once, as nothing uses them up: 7, where the fewest actions are 8.
        (BOTH, {(): 7, ("fetch", "fill cup", "heat cup", "brew cup"): 4}),
        (CUP.replace("(gas)", ""), {(): None}),
    ],
)
def test_a_relaxed_plan_is_as_long_as_calculated_by_hand(problem, lengths, opened):
    world = opened(TEA, problem, score="relaxed-plan")
    relaxation = Relaxation(world._problem)
    assert {actions: relaxation.length(taken(world, *actions)) for actions in lengths} == lengths


@pytest.mark.parametrize(
    ("ways", "scores"),
    [
        # unstack, pick-up, stack; then a hand has to be free; then 2, 1 and 0 actions are left.
        (("unstack b a", "put-down b", "pick-up a", "stack a c"), [1 / 2, 1 / 2, 3 / 5, 3 / 4, 1]),
        (("pick-up c",), [1 / 2, 3 / 7]),
    ],
)
def test_a_score_by_relaxed_plans_is_half_at_the_start(ways, scores, opened):
    world = opened(BLOCKS, TOWER, score="relaxed-plan")
    states = [taken(world, *ways[:number]) for number in range(len(ways) + 1)]
    assert [world.score(state) for state in states] == scores
    shares = opened(BLOCKS, TOWER)
    assert [shares.score(state) for state in states] == [float(one == 1) for one in scores]


def test_a_state_without_a_relaxed_plan_is_worth_nothing(opened):
    world = opened(GRIPPER, BALLS.replace("(door west east) ", ""), score="relaxed-plan")
    assert world.score(world.start(0)) == 0.0


def test_what_has_to_be_false_and_conditions_of_effects_are_needs_as_well(opened):
    world = opened(LAMPS, ROOM)
    relaxation, start = Relaxation(world._problem), world.start(0)
    lamps = {(("lit", lamp), False) for lamp in ("master", "desk")}
    assert relaxation.goal == {(("lit", "big"), True), *lamps}
    # To press big lights it, if nothing else is lit.
    assert relaxation.length(start) == 1
    # To light the wired big, or to press a lamp again, a fan or a lamp has to be lit.
    branches = world._problem.branches("press desk")
    assert {(frozenset({(("lit", "desk"), True)}), frozenset({(("lit", "desk"), False)}))} < {
        (one.needs - {(("worn", "desk"), False)}, one.gives) for one in branches
    }
    wired = {(("lit", "master"), True), (("worn", "desk"), False)}
    assert [one.gives for one in branches if one.needs == wired] == [{(("lit", "master"), True)}]


def test_what_comes_before_a_subtask_brings_about_what_it_needs(opened):
    world = opened(TEA, BOTH)
    start = world.start(0)
    assert isinstance(world, Decomposes)
    assert world.decompose(start, None) == ("brew cup", "brew pot")
    assert world.decompose(start, "brew cup") == ("heat cup", "fetch")
    assert world.decompose(start, "heat cup") == ("fill cup",)
    assert world.decompose(start, "fill cup") == ()
    assert world.decompose(taken(world, "fetch"), "brew cup") == ("heat cup",)
    assert world.decompose(taken(world, "fetch", "fill cup", "heat cup"), "brew cup") == ()


def test_what_another_would_have_to_give_up_again_comes_later(opened):
    # With a in the hand, d could not be taken off c.
    world = opened(BLOCKS, COVERED)
    assert world.decompose(world.start(0), "stack a c") == ("unstack d c", "pick-up a")
    # With a on b, b could not be moved.
    tower = opened(BLOCKS, TOWER.replace("(on a c)", "(on a b) (on b c)"))
    assert tower.decompose(tower.start(0), None) == ("stack b c", "stack a b")


def test_a_subtask_is_judged_by_what_it_is_for(opened):
    world = opened(TEA, BOTH)
    start, fetched = world.start(0), taken(world, "fetch")
    verdicts = {
        ("fetch", "brew cup"): "true",
        ("brew cup", None): "false",
        ("heat cup", "brew cup"): "false",
        # Nothing that a cup of tea needs; then it counts what it brings about.
        ("fill cup", None): "true",
    }
    assert {key: world.judge(start, *key).verdict for key in verdicts} == verdicts
    assert world.judge(fetched, "fetch", "brew pot").verdict == "done"
    assert world.judge(taken(world, "fill cup"), "fill cup", None).verdict == "done"
    assert world.judge(start, "brew cup", None).reason == "it needs: hot cup; leaves"
    # That the leaves are used up is not what one brews for.
    assert world.judge(start, "brew pot", "heat cup").verdict == "false"
    assert world.judge(start, "drink cup", None).reason.startswith("there is no action 'drink'")


@pytest.mark.parametrize(
    ("planner", "problem", "settings", "length"),
    [
        ("drip", CUP, {}, 4),
        # The leaves of the pot are used up by the cup; Algorithm 1 does not fetch them again.
        ("drip", BOTH, {}, None),
        ("drip", BOTH, {"reading": "redo"}, 8),
        ("drip-plus", BOTH, {}, 8),
    ],
)
async def test_drip_plans_by_rules(planner, problem, settings, length, opened):
    world = opened(TEA, problem)
    with open_engine("none") as engine:
        outcome = await plan(planner, world, engine=engine, settings={"roles": "rules", **settings})
    assert outcome.success == outcome.metrics["validated"] == (length is not None)
    assert length is None or len(outcome.plan) == length


@pytest.mark.skipif(not pddl_plans.can_plan(), reason="needs Fast Downward")
@pytest.mark.parametrize("planner", ["too", "mc-dml"])
async def test_planners_of_other_papers_plan_by_rules(planner, opened):
    world = opened(TEA, CUP)
    with open_engine("none") as engine:
        outcome = await plan(planner, world, engine=engine, settings={"roles": "rules"})
    assert outcome.success
    assert outcome.metrics["validated"]


@pytest.mark.skipif(not pddl_plans.can_plan(), reason="needs Fast Downward")
def test_fast_downward_is_asked_once_if_an_advice_works_in_another_order(opened, monkeypatch):
    world, asked = opened(TEA, BOTH), []
    monkeypatch.setattr(pddl, "plan_of", lambda *how: asked.append(how) or pddl_plans.plan_of(*how))
    way = world.advise(world.start(0))
    assert len(way) == 8
    right = leading(world, world.start(0), world.actions(world.start(0)), seed=0)
    # Whichever cup is made first, leaves are fetched for each.
    assert right == ("fill cup", "fill pot", "fetch")
    assert len(asked) == 1
    for first in right:
        state = taken(world, first)
        rest = list(way)
        rest.remove(first)
        assert sorted(world.advise(state)) == sorted(rest)


def test_too_many_actions_for_relaxed_plans_are_refused(opened, monkeypatch):
    monkeypatch.setattr(pddl_plans, "MOST_ACTIONS", 6)
    world = opened(TEA, BOTH)
    assert world.score(world.start(0)) == 0
    with pytest.raises(DomainError, match="more than 6 actions, too many for relaxed plans: choos"):
        world.decompose(world.start(0), None)
