"""Tree of Options from scripted answers: golden trees, calls and their order."""

import asyncio
import json
import random
import re
from collections import Counter

import pytest

from llm_planning.environments.minecraft.domain import Minecraft
from llm_planning.planners.tree_of_options.baselines import SPECS
from llm_planning.planners.tree_of_options.settings import SearchSettings
from llm_planning.planners.tree_of_options.world import scalar_reward, weights
from llm_planning.roles import Engines
from llm_planning.specs import Problem
from llm_serving.errors import ServingError
from llm_serving.scripted import ScriptedEngine

TASK = "obtain-leather"
PLANNERS = {spec.name: spec for spec in SPECS}
PROBLEM = Problem(domain="minecraft", task=TASK, world=Minecraft(task=TASK))
SCORES = (
    "success_probability",
    "reward_estimate",
    "feasibility",
    "consistency",
    "relativity",
    "reachability",
    "task_specificity",
    "redundancy",
)

# r̂ of every path; the weights of SETTINGS make it reward_estimate alone.
WOOD, PLANKS = "mine 1 oak_log", "craft 4 oak_planks"
STICKS, TABLE = "craft 4 stick", "craft 1 crafting_table"
SWORD, AXE = "craft 1 wooden_sword", "craft 1 wooden_axe"
COW, PIG = "kill 1 cow", "kill 1 pig"
REWARDS = {
    (WOOD,): 0.6,
    (PLANKS,): 0.5,
    (WOOD, STICKS): 0.2,
    (WOOD, TABLE): 0.4,
    (WOOD, TABLE, SWORD): 0.8,
    (WOOD, TABLE, AXE): 0.1,
    (PLANKS, COW): 0.8,
    (PLANKS, PIG): 0.3,
}
SETTINGS = {
    "k": 2,
    "d": 3,
    "iter": 3,
    "gamma": 0.5,
    "c": 0.5,
    "primary_weight": 1.0,
    "moderate_weight": 0.0,
    "penalty_weight": 0.0,
}


def said(request):
    return request.prompt[-1].content


def option_of(request):
    return re.search(r"^Option: (.*)$", said(request), re.MULTILINE)[1]


def history_of(request):
    return tuple(re.findall(r"^\d+\. ([a-z]+ \d+ \w+)$", said(request), re.MULTILINE))


def as_json(option, **reason):
    verb, quantity, item = option.split(" ")
    return {**reason, "verb": verb, "quantity": int(quantity), "item": item}


def compact_json(value):
    return json.dumps(value, separators=(",", ":"))


def evaluation(reward_estimate=0.0, **others):
    scores = dict.fromkeys(SCORES, 0.0) | {"reward_estimate": reward_estimate} | others
    return compact_json(scores)


def proposal(*options):
    return compact_json({"options": [as_json(option, reasoning="because") for option in options]})


def change(**parts):
    keys = ("gained", "lost", "blocks", "entities", "equipped", "conditions")
    return compact_json({key: parts.get(key, []) for key in keys})


def world(request):
    """The scripted world: options by what was done, r̂ by path, done once leather is held."""
    match request.role:
        case "propose":
            return proposal(
                *(path[-1] for path in REWARDS if path[:-1] == history_of(request)),
            )
        case "feasibility":
            return compact_json({"reason": "", "action_valid": True})
        case "dynamics":
            item = option_of(request).split(" ")[2]
            item = {"cow": "leather", "pig": "porkchop"}.get(item, item)
            return change(gained=[{"item": item, "count": 1}])
        case "reward":
            return evaluation(REWARDS[(*history_of(request), option_of(request))])
        case "termination":
            return compact_json({"done": "'leather'" in said(request)})
    raise AssertionError(request.role)


async def plan(name="too", script=world, delay=None, seed=0, **settings):
    engine = ScriptedEngine(script, delay=delay)
    spec = PLANNERS[name]
    outcome = await spec.run(
        PROBLEM,
        engines=Engines(engine),
        settings=spec.settings.read(SETTINGS | settings),
        seed=seed,
    )
    return outcome, engine


def statistics(node, path=()):
    """Path -> (N, Q) of every edge of a trace, and of the root."""
    found = {} if path else {(): (node["visits"], node["value"])}
    for edge in node["edges"]:
        below = (*path, edge["option"])
        found[below] = (edge["visits"], edge["value"])
        found |= statistics(edge, below)
    return found


async def test_golden_tree_of_the_equations():
    # Every iteration: wood, table, sword with r̂ = .6, .4, .8; γ = .5.
    # R of sword: .8; of table: .4 + .5 * .8 = .8; of wood: .6 + .5 * .8 = 1.
    # With Q = 0 before the first visit nothing else is ever tried: after two visits the bonus of
    # planks is .5 √ln 2 = .416, that of wood .5 √(ln 2 / 3) = .240 beside its Q of 1.
    outcome, _ = await plan()
    assert statistics(outcome.trace["tree"]) == {
        (): (3, pytest.approx(1.0)),
        (WOOD,): (3, pytest.approx(1.0)),
        (PLANKS,): (0, 0.0),
        (WOOD, STICKS): (0, 0.0),
        (WOOD, TABLE): (3, pytest.approx(0.8)),
        (WOOD, TABLE, SWORD): (3, pytest.approx(0.8)),
        (WOOD, TABLE, AXE): (0, 0.0),
    }
    assert outcome.plan == (WOOD, TABLE, SWORD)
    assert outcome.success is False


async def test_golden_tree_of_means_with_reward_as_first_play():
    # Iterations 1 and 2 walk wood, table, sword: R of sword .8, of table .8 / 1.5 = .5333, of wood
    # 1 / 1.75 = .5714. Iteration 2 meets N(root) = 1, so no bonus: wood .5714 against r̂ = .5.
    # Iteration 3: wood .5714 + .5 √(ln 2 / 3) = .8118, planks .5 + .5 √ln 2 = .9163. From planks
    # the rollout takes the cow (.8 before .3), whose state is terminal: R of the cow .8, of planks
    # (.5 + .5 * .8) / 1.5 = .6. The root's Q: (.5714 + .5714 + .6) / 3 = .5810.
    outcome, _ = await plan(**{"return": "mean", "first_play": "reward"})
    assert statistics(outcome.trace["tree"]) == {
        (): (3, pytest.approx((2 / 1.75 + 0.6) / 3)),
        (WOOD,): (2, pytest.approx(1 / 1.75)),
        (WOOD, STICKS): (0, 0.0),
        (WOOD, TABLE): (2, pytest.approx(0.8 / 1.5)),
        (WOOD, TABLE, SWORD): (2, pytest.approx(0.8)),
        (WOOD, TABLE, AXE): (0, 0.0),
        (PLANKS,): (1, pytest.approx(0.6)),
        (PLANKS, COW): (1, pytest.approx(0.8)),
        (PLANKS, PIG): (0, 0.0),
    }
    assert outcome.plan == (PLANKS, COW)
    # The model thought so; in the world there are no planks without logs, and no cow.
    assert outcome.success is False
    assert outcome.metrics == {
        "success_basis": "executed",
        "options_executed": 0,
        "first_failed": PLANKS,
        "first_obstacle": "needs 1 oak_log, has 0",
        "reward": 0.0,
        "predicted_success": True,
        "options_planned": 2,
        "nodes": 9,
        "expansions": 4,
        "dead_ends": 0,
        "depth": 3,
    }
    assert outcome.text.partition("\n\n")[0] == "\n".join(
        [
            "ROOT (N:3, Q:0.581)",
            "1. mine 1 oak_log (N:2, Q:0.571)",
            "1.1. craft 4 stick (N:0, Q:0.000)",
            "1.2. craft 1 crafting_table (N:2, Q:0.533)",
            "1.2.1. craft 1 wooden_sword (N:2, Q:0.800)",
            "1.2.2. craft 1 wooden_axe (N:0, Q:0.000)",
            "2. craft 4 oak_planks (N:1, Q:0.600)",
            "2.1. kill 1 cow (N:1, Q:0.800)",
            "2.2. kill 1 pig (N:0, Q:0.000)",
        ]
    )


@pytest.mark.parametrize(
    ("returns", "first_play"), [("sum", "reward"), ("mean", "zero"), ("sum", "zero")]
)
async def test_other_rules_stay_on_the_first_path(returns, first_play):
    outcome, _ = await plan(**{"return": returns, "first_play": first_play})
    visits = {path: n for path, (n, _) in statistics(outcome.trace["tree"]).items() if n}
    assert visits == {(): 3, (WOOD,): 3, (WOOD, TABLE): 3, (WOOD, TABLE, SWORD): 3}


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("rules", [("sum", "zero"), ("mean", "reward")])
async def test_same_tree_at_any_delay(width, rules):
    settings = {"width": width, "iter": 6, "return": rules[0], "first_play": rules[1]}
    immediate, _ = await plan(**settings)
    for seed in range(3):
        rng = random.Random(seed)
        delayed, _ = await plan(delay=lambda _, rng=rng: rng.choice([0, 0.001, 0.003]), **settings)
        assert delayed == immediate


async def test_repeated_run_is_equal():
    first, _ = await plan(seed=3)
    second, _ = await plan(seed=3)
    assert first == second


async def test_trace_is_json_and_tells_why():
    outcome, _ = await plan(**{"return": "mean", "first_play": "reward"}, seed=11)
    trace = json.loads(json.dumps(outcome.trace))
    assert trace["task"] == TASK
    assert trace["seed"] == 11
    assert trace["settings"]["iter"] == 3
    assert trace["settings"]["return"] == "mean"
    cow = trace["tree"]["edges"][1]["edges"][0]
    assert cow["scores"]["reward_estimate"] == 0.8
    assert "{'oak_planks': 1, 'leather': 1}" in cow["state"]
    assert cow["done"] is True
    assert cow["candidate"] == {
        "option": COW,
        "proposed": COW,
        "reasoning": "because",
        "obstacle": None,
    }


async def test_calls_of_one_iteration():
    # Expanded: root, wood, (wood, table); asked for termination: the three nodes walked.
    _, engine = await plan(iter=1)
    assert {role: usage.calls for role, usage in engine.counters.roles.items()} == {
        "propose": 3,
        "feasibility": 6,
        "dynamics": 6,
        "reward": 6,
        "termination": 3,
    }


async def test_termination_is_asked_once_a_node_and_never_of_the_root():
    # Iterations 2 and 3 end at a leaf at depth d, which was asked in iteration 1.
    _, engine = await plan(iter=3)
    assert engine.counters.roles["termination"].calls == 3
    # No inventory is empty: every state asked about is behind an option.
    asked = [said(request) for request in engine.requests if request.role == "termination"]
    assert not [text for text in asked if "Inventory (0/36)" in text]


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("too", {"propose": 2, "feasibility": 4, "dynamics": 4, "reward": 4, "termination": 2}),
        ("too-no-wm", {"propose": 2, "feasibility": 4, "reward": 4, "termination": 2}),
        ("too-no-fc", {"propose": 2, "dynamics": 4, "reward": 4, "termination": 2}),
        ("tot-mcts", {"propose": 2, "reward": 4, "termination": 2}),
    ],
)
async def test_calls_of_the_ablations(name, calls):
    outcome, engine = await plan(name, iter=1, d=2)
    assert {role: usage.calls for role, usage in engine.counters.roles.items()} == calls
    assert outcome.plan == (WOOD, TABLE)


@pytest.mark.parametrize("name", ["too-no-wm", "tot-mcts"])
async def test_without_world_model_every_question_sees_the_start_and_the_options(name):
    outcome, engine = await plan(name, iter=1, d=2)
    assert all("Inventory (0/36): {}" in said(request) for request in engine.requests)
    assert all("at the start" in said(request) for request in engine.requests)
    termination = [request for request in engine.requests if request.role == "termination"]
    assert [history_of(request) for request in termination] == [(WOOD,), (WOOD, TABLE)]
    tree = outcome.trace["tree"]
    deepest = tree["edges"][0]["edges"][1]
    assert deepest["state"] == str(PROBLEM.world.start(0))


async def test_world_model_asks_as_its_equations_say():
    _, engine = await plan(iter=1, d=2)
    by_role = {
        role: [r for r in engine.requests if r.role == role] for role in engine.counters.roles
    }
    # Equation 1: the state and the option; equation 4: the state.
    assert not any("Goal:" in said(r) or history_of(r) for r in by_role["dynamics"])
    assert not any(history_of(r) for r in by_role["termination"])
    # The reward judges the predicted state: the option's own product is in it.
    for request in by_role["reward"]:
        assert f"'{option_of(request).split(' ')[2]}': 1" in said(request)
        assert "predicted after the option" in said(request)


async def test_cot_asks_once():
    answer = compact_json(
        {
            "options": [
                as_json("find 1 cow", reasoning="cows drop leather"),
                as_json(COW, reasoning="kill it"),
            ]
        }
    )
    engine = ScriptedEngine({"decompose": answer})
    spec = PLANNERS["cot"]
    outcome = await spec.run(
        PROBLEM, engines=Engines(engine), settings=spec.settings.read({"d": 4}), seed=5
    )
    assert outcome.plan == ("find 1 cow", "kill 1 cow")
    assert outcome.metrics["success_basis"] == "executed"
    assert outcome.metrics["options_planned"] == 2
    assert outcome.trace["steps"][0] == {"option": "find 1 cow", "reasoning": "cows drop leather"}
    said = outcome.text.partition("\n\n")[0]
    assert said == "1. find 1 cow (cows drop leather)\n2. kill 1 cow (kill it)"
    (request,) = engine.requests
    assert request.sampling.temperature == 0.2
    assert request.sampling.seed == 5
    assert "At most 4 options" in request.prompt[0].content


async def test_engines_and_sampling_of_each_role():
    options, model = ScriptedEngine(world), ScriptedEngine(world)
    spec = PLANNERS["too"]
    await spec.run(
        PROBLEM,
        engines=Engines(options, dict.fromkeys(("dynamics", "reward", "termination"), model)),
        settings=spec.settings.read(SETTINGS),
        seed=9,
    )
    assert set(options.counters.roles) == {"propose", "feasibility"}
    assert set(model.counters.roles) == {"dynamics", "reward", "termination"}
    for request in (*options.requests, *model.requests):
        if request.role == "propose":
            assert (request.sampling.temperature, request.sampling.seed) == (0.2, 9)
        else:
            assert request.sampling.temperature == 0.0


def with_obstacles(obstacles, prerequisites):
    """The scripted world in which some options are infeasible."""

    def script(request):
        if request.role == "feasibility" and option_of(request) in obstacles:
            return compact_json({"reason": f"no {option_of(request)} yet", "action_valid": False})
        if request.role == "repair":
            assert f"Why it cannot be done: no {option_of(request)} yet" in said(request)
            return compact_json(as_json(prerequisites[option_of(request)]))
        if request.role == "reward":
            return evaluation(REWARDS.get((*history_of(request), option_of(request)), 0.9))
        return world(request)

    return script


async def test_infeasible_option_is_repaired_without_a_second_check():
    script = with_obstacles({PLANKS}, {PLANKS: "mine 2 birch_log"})
    outcome, engine = await plan(script=script, iter=1, d=1)
    assert [child["option"] for child in outcome.trace["tree"]["edges"]] == [
        WOOD,
        "mine 2 birch_log",
    ]
    assert outcome.trace["tree"]["edges"][1]["candidate"] == {
        "option": "mine 2 birch_log",
        "proposed": PLANKS,
        "reasoning": "because",
        "obstacle": f"no {PLANKS} yet",
    }
    calls = {role: usage.calls for role, usage in engine.counters.roles.items()}
    assert (calls["feasibility"], calls["repair"], calls["dynamics"]) == (2, 1, 2)


async def test_infeasible_option_is_dropped():
    script = with_obstacles({PLANKS}, {})
    outcome, engine = await plan(script=script, iter=1, d=1, infeasible="drop")
    tree = outcome.trace["tree"]
    assert [child["option"] for child in tree["edges"]] == [WOOD]
    assert tree["left_out"] == [
        {
            "option": None,
            "proposed": PLANKS,
            "reasoning": "because",
            "obstacle": f"no {PLANKS} yet",
        }
    ]
    calls = {role: usage.calls for role, usage in engine.counters.roles.items()}
    assert (calls["feasibility"], calls["dynamics"]) == (2, 1)


async def test_node_without_feasible_options_is_a_dead_end():
    script = with_obstacles({STICKS, TABLE}, {})
    outcome, engine = await plan(script=script, iter=4, infeasible="drop")
    # Iteration 1 ends at wood with R = .6; nobody asks there again.
    assert outcome.trace["tree"]["edges"][0]["value"] == pytest.approx(0.6)
    assert outcome.trace["tree"]["edges"][0]["visits"] == 4
    assert outcome.metrics["dead_ends"] == 1
    assert outcome.plan == (WOOD,)
    assert engine.counters.roles["propose"].calls == 2


async def test_root_without_feasible_options_plans_nothing():
    script = with_obstacles({WOOD, PLANKS}, {})
    outcome, engine = await plan(script=script, infeasible="drop")
    assert outcome.plan == ()
    assert outcome.success is False
    assert outcome.text.startswith("ROOT (N:3, Q:0.000)\n\n")
    assert engine.counters.roles["propose"].calls == 1


async def test_equal_candidates_are_one_edge():
    # Both proposals are repaired to what the other, or nobody, proposed: one edge, one valuation.
    script = with_obstacles({PLANKS}, {PLANKS: WOOD})
    for first_slow in (False, True):

        def delay(request, slow=first_slow):
            return 0.01 if request.role == "feasibility" and slow == (WOOD in said(request)) else 0

        outcome, engine = await plan(script=script, iter=1, d=1, delay=delay)
        tree = outcome.trace["tree"]
        assert [child["candidate"]["proposed"] for child in tree["edges"]] == [WOOD]
        assert [left["proposed"] for left in tree["left_out"]] == [PLANKS]
        assert engine.counters.roles["dynamics"].calls == 1


async def test_equal_proposals_are_checked_once():
    def script(request):
        return proposal(WOOD, WOOD) if request.role == "propose" else world(request)

    outcome, engine = await plan(script=script, iter=1, d=1)
    assert len(outcome.trace["tree"]["edges"]) == 1
    assert [left["proposed"] for left in outcome.trace["tree"]["left_out"]] == [WOOD]
    assert engine.counters.roles["feasibility"].calls == 1


async def test_candidates_do_not_wait_for_each_other():
    def delay(request):
        return 0.02 if request.role == "feasibility" and option_of(request) == WOOD else 0

    outcome, engine = await plan(iter=1, d=1, delay=delay)
    asked = [
        (request.role, option_of(request))
        for request in engine.requests
        if request.role not in ("propose", "termination")
    ]
    # Both are checked at once; planks are valued while wood is still being checked.
    assert asked == [
        ("feasibility", WOOD),
        ("feasibility", PLANKS),
        ("dynamics", PLANKS),
        ("reward", PLANKS),
        ("dynamics", WOOD),
        ("reward", WOOD),
    ]
    # The children are in the order of the proposal all the same.
    assert [child["option"] for child in outcome.trace["tree"]["edges"]] == [
        WOOD,
        PLANKS,
    ]


async def test_concurrent_plans_do_not_mix():
    engine = ScriptedEngine(world, delay=lambda _: 0.001)
    spec = PLANNERS["too"]
    settings = spec.settings.read(SETTINGS)
    outcomes = await asyncio.gather(
        *(spec.run(PROBLEM, engines=Engines(engine), settings=settings, seed=0) for _ in range(8))
    )
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert engine.counters.roles["propose"].calls == 8 * 3


async def test_error_of_the_engine_reaches_the_caller_unchanged():
    def script(request):
        if request.role == "dynamics":
            raise ServingError("out of order")
        return world(request)

    for width in (1, 2):
        with pytest.raises(ServingError, match="out of order"):
            await plan(script=script, width=width)


def test_reward_weights_by_hand():
    scores = {
        "success_probability": 0.5,
        "reward_estimate": 0.2,
        "feasibility": 0.9,
        "consistency": 0.4,
        "relativity": 0.8,
        "reachability": 0.6,
        "task_specificity": 1.0,
        "redundancy": 0.3,
    }
    # 1.2 (.2 + .6 + .8 + .4) + 1.0 (.9 + .5 + 1.0) - .3 = 2.4 + 2.4 - .3
    assert scalar_reward(scores, weights(SearchSettings())) == pytest.approx(4.5)
    best = dict.fromkeys(scores, 1.0) | {"redundancy": 0.0}
    assert scalar_reward(best, weights(SearchSettings())) == pytest.approx(7.8)
    assert Counter(weights(SearchSettings()).values()) == {1.2: 4, 1.0: 3, -1.0: 1}
