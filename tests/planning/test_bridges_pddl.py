"""Problems in PDDL as worlds, against unified-planning's own simulator and validator."""

import os
import sys
from itertools import pairwise
from random import Random

import pytest
from any_domain_worlds import run

from llm_planning import open_engine, plan
from llm_planning.domain import DomainError
from llm_planning.environments.blocksworld.domain import Blocksworld
from llm_planning.environments.blocksworld.generator import problems
from llm_planning.environments.blocksworld.pddl import write_problem
from llm_planning.execution.episode import execute

pytest.importorskip("unified_planning")

from pddl_pairs import (
    BALLS,
    BLOCKS,
    GOAL_FIRST,
    GRIPPER,
    PAIRS,
    ROADS,
    TOWER,
    TRIP,
    opened_from,
    written_in,
)
from unified_planning.engines import SequentialPlanValidator, UPSequentialSimulator
from unified_planning.io import PDDLReader

from llm_planning.environments.bridges import pddl_plans, pddl_problem
from llm_planning.environments.bridges.pddl_problem import PddlProblem
from llm_planning.environments.bridges.pddl_words import CallGrammar

needs_planner = pytest.mark.skipif(not pddl_plans.can_plan(), reason="needs Fast Downward")

written = pytest.fixture(written_in)
opened = pytest.fixture(opened_from)


@pytest.fixture(params=("blocks", "lamps", "roads"))
def world(request, opened):
    return opened(*PAIRS[request.param])


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_actions_and_states_are_those_of_unified_plannings_simulator(pair, written):
    ours = PddlProblem(*written(*pair).split(","))
    problem = PDDLReader().parse_problem_string(*pair)
    simulator = UPSequentialSimulator(problem)
    static = {fluent.name for fluent in problem.get_static_fluents()}
    for seed in range(3):
        draws = Random(seed)
        state, theirs = ours.start, simulator.get_initial_state()
        for _ in range(12):
            possible = {
                " ".join((action.name, *map(str, arguments))): (action, arguments)
                for action, arguments in simulator.get_applicable_actions(theirs)
            }
            assert ours.applicable(state) == tuple(possible)
            assert set(possible) <= set(ours.every_action())
            assert (not ours.open_goals(state)) == simulator.is_goal(theirs)
            if not possible:
                break
            chosen = draws.choice(list(possible))
            theirs = simulator.apply(theirs, *possible[chosen])
            state = ours.after(state, chosen)
            values = {
                (fluent.fluent().name, *map(str, fluent.args)): theirs.get_value(fluent)
                for fluent in problem.initial_values
                if fluent.fluent().name not in static
            }
            assert state.facts == {fact for fact, value in values.items() if value.is_true()}
            assert dict(state.numbers) == {
                fact: value.constant_value()
                for fact, value in values.items()
                if not value.is_bool_constant()
            }


@pytest.mark.parametrize("seed", range(2))
def test_our_blocksworld_agrees_with_its_pddl(seed, opened):
    (puzzle,) = problems({4: 1}, seed=seed)
    ours = Blocksworld(puzzle, rules="standard")
    theirs = opened(
        BLOCKS.replace("domain blocks", "domain blocksworld-4ops"), write_problem(puzzle)
    )
    draws, state, other = Random(seed), ours.start(0), theirs.start(0)
    for _ in range(15):
        actions = {str(action): action for action in ours.actions(state)}
        assert sorted(actions) == sorted(theirs.actions(other))
        assert ours.success(state) == theirs.success(other)
        if not actions:
            break
        chosen = draws.choice(sorted(actions))
        state = ours.step(state, actions[chosen], draws).state
        other = theirs.step(other, chosen, draws).state
        assert ("holding", state.held) in other.facts or state.held is None
        assert {fact[1:] for fact in other.facts if fact[0] == "on"} == {
            pair for pair in state.below.items() if pair[1] != "table"
        }


def test_a_goal_may_come_before_the_start(opened):
    assert GOAL_FIRST.index("(:goal") < GOAL_FIRST.index("(:init")
    world, other = opened(BLOCKS, GOAL_FIRST), opened(BLOCKS, TOWER)
    assert (world.goal, world.start(0)) == (other.goal, other.start(0))


TAKE = """
(define (domain take) (:requirements :adl) (:types thing)
  (:predicates (near ?x - thing) (have ?x - thing))
  (:action take :parameters (?x - thing) :precondition (near ?x)
    :effect (and (have ?x) (not (near ?x)))))
"""
CUP = """(define (problem cup) (:domain take) (:objects cup pot - thing) (:init (near cup))
  (:goal (have cup)))"""
WRITTEN = {
    "a comment ends at a carriage return": (TAKE, CUP.replace("(:goal", "; to do\r(:goal")),
    "comments in another encoding": (
        TAKE,
        CUP.replace("(:goal", "; caf\xe9\n(:goal").encode("latin-1"),
    ),
    "other blanks": (TAKE.replace(" ", "\t"), CUP.replace(" ", "\f\v")),
    "a mark at the beginning": (b"\xef\xbb\xbf" + TAKE.encode(), b"\xef\xbb\xbf" + CUP.encode()),
    "the domain's name in capitals": (TAKE, CUP.replace("take", "TAKE")),
    "names of files with other letters": (
        TAKE.replace("domain take", "domain 3.5"),
        CUP.replace("domain take", "domain 3.5").replace("problem cup", "problem 1/2"),
    ),
    "sections in another order": (
        TAKE.replace("(:types thing)\n", "\n").replace("  (:action", "(:types thing)\n  (:action"),
        CUP.replace("(:init (near cup))", "").replace("(:objects", "(:init (near cup)) (:objects"),
    ),
    "empty sections": (TAKE.replace("(:types", "(:constants) (:functions) (:types"), CUP),
    "a type without a blank": (TAKE.replace("(?x - thing) :pre", "(?x -thing) :pre"), CUP),
    "objects without a type": (TAKE, CUP.replace("cup pot - thing", "cup pot - thing lid")),
    "a variable without a type": (TAKE.replace("(near ?x)\n", "(exists (?y) (near ?x))\n"), CUP),
    "a fact twice": (TAKE, CUP.replace("(near cup))", "(near cup) (near cup) (not (have cup)))")),
    "requirements of what is not there": (TAKE.replace(":adl", ":derived-predicates"), CUP),
}


def test_a_number_may_be_said_twice_in_other_digits(opened):
    twice = TRIP.replace("(:init", "(:init (= (length x y) 2.0) (= (length x y) 4/2)")
    assert opened(ROADS, twice).start(0) == opened(ROADS, TRIP).start(0)


@pytest.mark.parametrize("pair", WRITTEN.values(), ids=WRITTEN)
def test_the_same_problem_may_be_written_in_many_ways(pair, opened):
    plain, world = opened(TAKE, CUP), opened(*pair)
    assert (world.goal, world.start(0)) == (plain.goal, plain.start(0))
    assert world.actions(world.start(0)) == ("take cup",)
    assert world.judged(["take cup"]) == {"validated": True}


def test_a_fact_after_a_comment_that_a_carriage_return_ends_holds(opened):
    world = opened(TAKE, CUP.replace("(near cup)", "(near cup) ; the first\r(near pot)\n"))
    assert world.actions(world.start(0)) == ("take cup", "take pot")


def test_parameters_of_predicates_and_functions_may_have_one_name(opened):
    domain = """(define (domain d) (:predicates (rel ?x ?x ?x) (done ?x))
      (:functions (far ?x ?x) (total-cost))
      (:action mark :parameters (?a ?b) :precondition (rel ?a ?b ?a)
        :effect (and (done ?b) (increase (total-cost) (far ?a ?b)))))"""
    problem = """(define (problem p) (:domain d) (:objects a b)
      (:init (rel a b a) (= (far a b) 3)) (:goal (done b)) (:metric minimize (total-cost)))"""
    world = opened(domain, problem)
    assert world.actions(world.start(0)) == ("mark a b",)
    assert world.judged(["mark a b"]) == {"validated": True, "plan_cost": 3}


def test_an_action_without_parameters_needs_no_list_of_them(opened):
    domain = TAKE.replace(":parameters (?x - thing)", "").replace("?x)\n", "cup)\n")
    domain = domain.replace("(have ?x) (not (near ?x))", "(have cup) (not (near cup))")
    domain = domain.replace("(:predicates", "(:constants cup - thing) (:predicates")
    world = opened(domain, CUP.replace("cup pot -", "pot -"))
    assert world.actions(world.start(0)) == ("take",)


SPENDING = """(define (domain spend) (:predicates (p ?x) (q ?x))
  (:functions (price ?x) (total-cost) (joy))
  (:action buy :parameters (?x) :precondition (p ?x) :effect (and (q ?x) EFFECT)))"""
PURSE = """(define (problem purse) (:domain spend) (:objects a b)
  (:init (p a) (= (price a) 2)) (:goal (q a)) (:metric minimize (total-cost)))"""
PRICE = "(increase (total-cost) (price ?x))"
COSTS = {
    "no price of what cannot be bought, nothing said of the start": (PRICE, "", 2),
    "a start of its own": (PRICE, "(= (total-cost) 5)", 7),
    "two prices": (f"{PRICE} {PRICE} (increase (total-cost) 3)", "", 7),
    "a price for each object": (
        "(forall (?y) (increase (total-cost) (price ?y)))",
        "(= (price b) 6)",
        8,
    ),
    "a price with a condition": ("(when (q ?x) (increase (total-cost) 4))", "", 0),
}


@pytest.mark.parametrize(("effect", "said", "cost"), COSTS.values(), ids=COSTS)
def test_what_a_plan_costs(effect, said, cost, opened):
    problem = PURSE.replace("(:init", f"(:init {said}")
    world = opened(SPENDING.replace("EFFECT", effect), problem)
    assert world.step(world.start(0), "buy a", Random(0)).done
    assert world.judged(["buy a"]) == {"validated": True, "plan_cost": cost}
    assert world.judged([]) == {"validated": False}


METRICS = {
    "(:metric minimize total-cost)": {"validated": True, "plan_cost": 2},
    "(:metric maximize (price a))": {"validated": True},
    "(:metric minimize (total-time))": {"validated": True},
    "(:metric minimize (price b))": {},
}


@pytest.mark.parametrize(("metric", "expected"), METRICS.items(), ids=METRICS)
def test_a_metric_that_is_no_cost_takes_nothing_from_a_plan(metric, expected, opened):
    problem = PURSE.replace("(:metric minimize (total-cost))", metric)
    world = opened(SPENDING.replace("EFFECT", PRICE), problem)
    assert world.judged(["buy a"]) == expected


def test_a_goal_that_asks_for_a_value_that_is_not_there_is_not_validated(opened):
    problem = PURSE.replace("(:goal (q a))", "(:goal (and (q a) (or (q a) (< (joy) 1))))")
    world = opened(SPENDING.replace("EFFECT", PRICE), problem)
    assert world.step(world.start(0), "buy a", Random(0)).done
    assert world.judged(["buy a"]) == {}


@needs_planner
def test_costs_that_are_given_for_existing_roads_only_are_planned_with(opened):
    domain = ROADS.replace("(>= (fuel ?v) (length ?p ?q))", "").replace(
        "(decrease (fuel ?v) (length ?p ?q))", ""
    )
    domain = domain[: domain.index("(:action fill")] + ")"
    world = opened(domain, TRIP.replace("(= (fuel van1) 3)", ""))
    drives = ("drive van1 x y", "drive van1 y z")
    assert world.advise(world.start(0)) == drives
    assert world.traits() == {"optimum": 2}
    assert world.judged(drives) == {"validated": True, "plan_cost": 6}


def walk(world, seed, steps=10):
    draws, state = Random(seed), world.start(0)
    for _ in range(steps):
        actions = world.actions(state)
        if not actions:
            return
        action = draws.choice(actions)
        step = world.step(state, action, Random(seed))
        yield state, actions, action, step
        state = step.state


def test_the_contract_of_a_domain_is_kept(world):
    assert world.goal
    assert not world.success(world.start(0))
    for state, actions, action, step in walk(world, 1):
        before = world.describe(state)
        assert isinstance(hash(state), int)
        assert len(set(actions)) == len(actions)
        assert all(world.feasible(state, action) is None for action in actions)
        assert 0.0 <= world.score(state) < 1.0
        assert world.step(state, action, Random(7)) == step
        assert (world.describe(state), world.actions(state)) == (before, actions)
        assert step.obstacle is None
        assert step.done == world.success(step.state) == (step.reward == 1.0)
        assert world.describe(step.state)
        for option in actions:
            assert world.grammar.read(world.grammar.write(option)) == option
    assert list(walk(world, 2)) == list(walk(world, 2))


def test_the_words_of_a_problem(opened):
    world = opened(ROADS, TRIP)
    start = world.start(0)
    assert world.goal == "Reach a state in which this holds: at van1 z."
    assert world.describe(start) == "at van1 x\nfuel van1 = 3"
    assert "road x y, road y x, road y z" in world.about
    assert "length x y = 2, length y x = 1, length y z = 4" in world.about
    assert (
        "drive v (van), p (place), q (place). Needs: at v p; road p q; length p q <= fuel v. Then: "
        "at v q; not at v p; fuel v shrinks by length p q. It costs length p q."
    ) in world.about
    assert world.actions(start) == ("drive van1 x y",)
    after = world.step(start, "drive van1 x y", Random(0)).state
    filled = world.step(after, "fill van1", Random(0)).state
    assert world.describe(filled) == "at van1 y\nfuel van1 = 5.5"
    lamps = opened(*PAIRS["lamps"])
    assert lamps.goal.endswith("holds: lit big and (for every d (lamp): not lit d).")
    assert lamps.describe(lamps.start(0)) == "Nothing holds."
    assert "lit e if wired d e and lit master, for every e (device)" in lamps.about
    assert "for some d (fan): lit d; lit master or worn master" in lamps.about


def test_a_prediction_is_the_change_of_the_facts(world):
    model = world.state_model
    for state, _, _, step in walk(world, 3):
        predicted, refused = model.read(state, model.write(state, step.state))
        assert (predicted.facts, refused) == (step.state.facts, {})
        assert not world.falls_short(predicted, step.state)


def test_what_is_impossible_in_a_prediction_is_counted(opened):
    world = opened(*PAIRS["gripper"])
    start = world.start(0)
    prediction = {
        "holds": [("robot", ["east"]), ("robot", ["b1"]), ("lies", ["b1"])],
        "ends": [("robot", ["west"]), ("robot", ["east"])],
    }
    predicted, refused = world.state_model.read(start, world.state_model.answer(**prediction))
    assert predicted.facts == start.facts - {("robot", "west")} | {("robot", "east")}
    assert refused == {"robot east": 1, "robot b1": 1, "lies b1": 1}
    assert world.falls_short(predicted, start)
    with pytest.raises(ValueError, match="Input should be 'robot'"):
        world.state_model.answer(holds=[("door", ["east", "west"])], ends=[])


def test_a_world_may_have_numbers_alone(opened):
    world = opened(
        "(define (domain count) (:functions (n))"
        " (:action up :parameters () :effect (increase (n) 2)))",
        "(define (problem four) (:domain count) (:init (= (n) 0)) (:goal (= (n) 4)))",
    )
    state = world.start(0)
    assert (world.describe(state), world.grammar.instruction) == (
        "n = 0",
        "An option is one of: up.",
    )
    first = world.step(state, "up", Random(0)).state
    assert world.step(first, "up", Random(0)).done
    assert world.state_model.read(state, world.state_model.answer(holds=[], ends=[])) == (state, {})


def test_what_needs_a_number_that_is_undefined_is_impossible(opened):
    world = opened(ROADS, TRIP.replace("(= (length y z) 4)", "").replace("(= (fuel van1) 3)", ""))
    start = world.start(0)
    assert world.actions(start) == ()
    assert world.feasible(start, "drive van1 x y") == "it needs: length x y <= fuel van1"
    assert world.feasible(start, "swap van1 van1") == "its effects contradict each other"
    assert world.step(start, "fill van1", Random(0)).obstacle == "it needs: fuel van1 < 2"


def test_what_is_impossible_changes_nothing_and_says_why(opened):
    world = opened(*PAIRS["gripper"])
    start = world.start(0)
    for action, why in {
        "drop b1 east left": "it needs: holds left b1; robot east",
        "go west west": "it needs: door west west",
        "pick west b1 left": "'west' is no ball of this problem",
        "go west": "go takes 2 arguments, not 1",
        "fly": "there is no action 'fly'; known: drop, go, pick",
        "": "there is no action ''",
    }.items():
        step = world.step(start, action, Random(0))
        assert why in step.obstacle
        assert (step.state, step.reward, step.done) == (start, 0.0, False)
    after = world.step(start, "pick b1 west left", Random(0)).state
    assert "it needs: empty left" in world.feasible(after, "pick b2 west left")
    lamps = opened(*PAIRS["lamps"])
    assert lamps.feasible(lamps.start(0), "swap desk desk") == "it needs: not desk = desk; lit desk"


def validated(world, actions):
    problem = world._problem.model
    lines = "\n".join(f"({action})" for action in actions)
    with SequentialPlanValidator() as validator:
        return bool(validator.validate(problem, PDDLReader().parse_plan_string(problem, lines)))


async def test_a_search_solves_a_gripper_problem_and_the_validator_accepts_its_plan(opened):
    world = opened(*PAIRS["gripper"])
    outcome = await run("uct", world, simulations=150)
    assert outcome.success
    assert validated(world, outcome.plan)
    assert not validated(world, outcome.plan[:-1])
    assert world.judged(outcome.plan) == {"validated": True}
    assert world.judged(outcome.plan[:-1]) == {"validated": False}


def test_costs_are_those_of_the_plan(opened):
    world = opened(*PAIRS["roads"])
    drives = ["drive van1 x y", "drive van1 y z", "fill van1", "drive van1 y z"]
    assert world.judged(drives) == {"validated": True, "plan_cost": 2 + 3 + 4}


@needs_planner
async def test_rules_know_a_plan_and_the_optimum(opened):
    for name, optimum in {"gripper": 5, "blocks": 4, "lamps": None}.items():
        world = opened(*PAIRS[name])
        assert world.traits() == ({} if optimum is None else {"optimum": optimum})
        state, advised = world.start(0), []
        while rest := world.advise(state):
            assert len(advised) < 20
            advised.append(rest[0])
            state = world.step(state, rest[0], Random(0)).state
        assert world.success(state)
        assert validated(world, advised)
        assert (await execute(world, advised, seed=0)).success


@needs_planner
def test_an_action_may_be_called_as_a_predicate_is(opened):
    world = opened(
        GRIPPER.replace("(robot ?r - room)", "(robot ?r - room) (go ?r)").replace(
            "(and (robot ?r) (door", "(and (go ?r) (robot ?r) (door"
        ),
        BALLS.replace("(:init", "(:init (go west) (go east)"),
    )
    start = world.start(0)
    assert world.actions(start)[:2] == ("go west east", "pick b1 west left")
    assert validated(world, world.advise(start))


@needs_planner
async def test_rules_answer_in_a_models_place(opened):
    world = opened(*PAIRS["gripper"])
    with open_engine("none") as engine:
        outcome = await plan("react", world, engine=engine, settings={"roles": "rules"})
    assert outcome.success
    assert validated(world, outcome.plan)
    assert outcome.metrics["validated"]


@needs_planner
def test_nothing_of_the_planner_lies_in_the_working_directory(opened, tmp_path, monkeypatch):
    world = opened(*PAIRS["gripper"])
    # Fast Downward could not write a file of this name here.
    (tmp_path / "work" / "output.sas").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    for module in ("translate", "driver"):
        (tmp_path / "work" / f"{module}.py").write_text("raise SystemExit(1)")
    assert len(world.advise(world.start(0))) == 5
    # As `llm-planning` has it for all processes that it starts.
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    assert world.traits() == {"optimum": 5}
    assert sorted(os.listdir()) == ["driver.py", "output.sas", "translate.py"]


@needs_planner
def test_advice_says_why_there_is_none(opened):
    unreachable = BALLS.replace("(door west east) ", "")
    world = opened(GRIPPER, unreachable)
    with pytest.raises(DomainError, match="finds no plan in 10 seconds: unsolvable"):
        world.advise(world.start(0))
    assert world.traits() == {}
    roads = opened(*PAIRS["roads"])
    with pytest.raises(DomainError, match=r"Fast Downward does not know .*numeric"):
        roads.advise(roads.start(0))


def test_without_a_planner_advice_says_how_to_install_it(opened, monkeypatch):
    world = opened(*PAIRS["gripper"])
    monkeypatch.setitem(sys.modules, "up_fast_downward", None)
    assert world.traits() == {}
    with pytest.raises(DomainError, match=r"Fast Downward: pip install 'llm-planning\[worlds\]'"):
        world.advise(world.start(0))


def test_many_objects_are_joined_not_listed(opened):
    # There are 10^10 ways to choose five rooms.
    rooms = [f"r{number}" for number in range(100)]
    chain = " ".join(f"(door {room} {following})" for room, following in pairwise(rooms))
    far = """(:action jump :parameters (?a ?b ?c ?d ?e - room)
      :precondition (and (robot ?a) (door ?a ?b) (door ?b ?c) (door ?c ?d) (door ?d ?e))
      :effect (and (robot ?e) (not (robot ?a)))))"""
    text = BALLS.replace("(door west east) (door east west)", chain)
    text = text.replace("west east", " ".join(rooms)).replace("west", "r0").replace("east", "r9")
    world = opened(GRIPPER.rstrip()[:-1] + far, text)
    start = world.start(0)
    assert "jump r0 r1 r2 r3 r4" in world.actions(start)
    assert len(world.actions(start)) == 1 + 2 * 2 + 1
    step = world.step(start, "jump r0 r1 r2 r3 r4", Random(0))
    assert ("robot", "r4") in step.state.facts
    assert isinstance(world.grammar, CallGrammar)
    assert world.grammar.read({"action": "go", "arguments": ["r0", "r1"]}) == "go r0 r1"


def test_a_problem_with_too_many_actions_is_refused(opened, monkeypatch):
    monkeypatch.setattr(pddl_problem, "MOST_MATCHES", 3)
    with pytest.raises(
        DomainError, match=r"the action pick can be tried in more than 3 ways: .*few"
    ):
        opened(*PAIRS["gripper"])
