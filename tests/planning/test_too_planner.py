"""Tree of Options from scripted answers: golden trees, calls and their order."""

import random
import re
from collections import Counter
from dataclasses import asdict, replace
from functools import partial

import pytest
from golden import golden
from option_worlds import option
from runs import compact, run_in

from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.state import Change
from llm_planning.execution.whole_plans import first_state
from llm_planning.planners.tree_of_options.algorithm import (
    Memo,
    TreeOfOptions,
    scalar_reward,
    weights,
)
from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.outcome import node_json
from llm_planning.planners.tree_of_options.settings import (
    FeasibleSearchSettings,
    OptionSearchSettings,
)
from llm_planning.planners.tree_of_options.specs import SPECS
from llm_planning.roles import Engines, metered
from llm_planning.search import Node
from llm_serving.errors import ServingError
from llm_serving.scripted import ScriptedEngine

TASK = "obtain-leather"
PLANNERS = {spec.name: spec for spec in SPECS}
WORLD = Minecraft(task=TASK)
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


def last_message(request):
    return request.prompt[-1].content


def option_of(request):
    return re.search(r"^Option: (.*)$", last_message(request), re.MULTILINE)[1]


def history_of(request):
    return tuple(re.findall(r"^\d+\. ([a-z]+ \d+ \w+)$", last_message(request), re.MULTILINE))


def as_json(option, **reason):
    verb, quantity, item = option.split(" ")
    return {**reason, "verb": verb, "quantity": int(quantity), "item": item}


def evaluation(reward_estimate=0.0, **others):
    scores = dict.fromkeys(SCORES, 0.0) | {"reward_estimate": reward_estimate} | others
    return compact(scores)


def proposal(*options):
    return compact({"options": [as_json(option, reasoning="because") for option in options]})


def change(**parts):
    keys = ("gained", "lost", "blocks", "entities", "equipped", "conditions")
    return compact({key: parts.get(key, []) for key in keys})


def world(request):
    """The scripted world: options by the options done, r̂ by path, and done with leather."""
    match request.role:
        case "propose":
            return proposal(*(path[-1] for path in REWARDS if path[:-1] == history_of(request)))
        case "feasibility":
            return compact({"reason": "", "action_valid": True})
        case "dynamics":
            item = option_of(request).split(" ")[2]
            item = {"cow": "leather", "pig": "porkchop"}.get(item, item)
            return change(gained=[{"item": item, "count": 1}])
        case "reward":
            return evaluation(REWARDS[(*history_of(request), option_of(request))])
        case "termination":
            return compact({"done": "'leather'" in last_message(request)})
    raise AssertionError(request.role)


def with_obstacles(prerequisites):
    """The scripted world in which some options are infeasible: option -> its prerequisite."""

    def script(request):
        option = option_of(request) if "Option: " in last_message(request) else None
        match request.role:
            case "feasibility" if option in prerequisites:
                return compact({"reason": f"no {option} yet", "action_valid": False})
            case "repair":
                assert f"Why it cannot be done: no {option} yet" in last_message(request)
                return compact(as_json(prerequisites[option]))
            case "reward":
                return evaluation(REWARDS.get((*history_of(request), option), 0.9))
            case "decompose":
                return proposal("find 1 cow", COW)
        return world(request)

    return script


def with_false_ends(script, askings):
    """A script in which states seem terminal at first: inventory -> so many askings say done."""
    left = Counter(askings)

    def falsely(request):
        if request.role == "termination":
            for inventory in +left:
                if f": {inventory}" in last_message(request):
                    left[inventory] -= 1
                    return compact({"done": True})
        return script(request)

    return falsely


async def plan(name="too", script=world, delay=None, seed=0, engines=Engines, **settings):
    engine = ScriptedEngine(script, delay=delay)
    spec = PLANNERS[name]
    own = {} if name == "cot" else SETTINGS
    run = run_in(WORLD, spec.settings.read(own | settings), task=TASK, seed=seed)
    return await spec.run(replace(run, engines=metered(engines(engine)))), engine


def endless(request):
    """Three options anywhere, scored by their paths; nothing is ever an end."""
    match request.role:
        case "propose":
            return proposal(WOOD, PLANKS, STICKS)
        case "reward":
            path = (*history_of(request), option_of(request))
            return evaluation(random.Random(repr(path)).choice([0.5, 0.6, 0.7]))
        case "termination":
            return compact({"done": False})
    return world(request)


def calls_of(engine):
    return Counter(request.role for request in engine.requests)


@pytest.mark.parametrize("case", golden("too"))
async def test_golden_plans(case):
    """Whole outcomes, with the options left out and the number of questions to each role."""
    run = dict(case.run)
    script = with_obstacles(run.pop("infeasible_options", {}))
    script = with_false_ends(script, run.pop("false_ends", {}))
    outcome, engine = await plan(run.pop("planner"), script, **run)
    case.check({"calls": calls_of(engine), **asdict(outcome), "unrepeatable": None})


PAPER = {"k": 3, "d": 12, "iter": 10, "gamma": 0.95, "c": 0.7}


@pytest.mark.parametrize(
    ("reading", "nodes"),
    [
        ({"return": "sum", "first_play": "zero"}, 12),
        ({"return": "mean", "first_play": "reward"}, 103),
    ],
)
async def test_900_calls_need_more_than_the_literal_reading_asks(reading, nodes):
    """Table 2 has 900 calls a plan. At Table 3's settings the literal reading grows one path.

    A node takes 11 calls (12 with a repair): one proposal, three verdicts, states and rewards each,
    and whether it is the end.
    """
    outcome, engine = await plan(script=endless, **PAPER, **reading)
    assert outcome.metrics["expansions"] == nodes
    calls = calls_of(engine)
    assert calls["propose"] == nodes
    assert {calls[role] for role in ("feasibility", "dynamics", "reward")} == {3 * nodes}
    assert (calls.total() > 900) == (nodes > 12)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("rules", [("sum", "zero"), ("mean", "reward"), ("sum", "zero", "ends")])
async def test_same_tree_at_any_delay(width, rules):
    settings = {"width": width, "iter": 6, "return": rules[0], "first_play": rules[1]}
    ends = {"{'oak_log': 1}": 1, "{'oak_planks': 1}": 2} if "ends" in rules else {}

    async def planned(delay=None):
        outcome, _ = await plan(script=with_false_ends(world, ends), delay=delay, **settings)
        return outcome

    immediate = await planned()
    assert await planned() == immediate
    for seed in range(3):
        rng = random.Random(seed)
        assert await planned(lambda _, rng=rng: rng.choice([0, 0.001, 0.003])) == immediate


async def test_a_false_end_stays_where_verdicts_are_kept():
    falsely = {"{'oak_log': 1}": 1}
    kept, engine = await plan(script=with_false_ends(world, falsely), ends="kept")
    assert (kept.plan, calls_of(engine)["termination"]) == ((WOOD,), 1)
    asked, _ = await plan(script=with_false_ends(world, falsely))
    assert asked.plan == (WOOD, TABLE, SWORD)


@pytest.mark.parametrize("width", [1, 3])
async def test_an_end_that_was_opened_again_is_undone_with_its_simulation(width):
    broken = True

    def script(request):
        if broken and request.role == "dynamics" and option_of(request) == SWORD:
            raise ServingError("out of order")
        return world(request)

    def searching(script, **settings):
        ends = with_false_ends(script, {"{'oak_log': 1}": 1})
        settings = FeasibleSearchSettings.read(SETTINGS | settings)
        ask = OptionAsking(WORLD, Engines(ScriptedEngine(ends)), settings, seed=0)
        return TreeOfOptions(start, ask, settings)

    start = await first_state(WORLD, 0)
    before = await searching(world, iter=1).search()
    root = Node()
    root.memo = Memo(done=False)
    model = searching(script, width=width)
    with pytest.raises(ServingError):
        await model.search(root)
    wood = root.edges[0].node
    assert (wood.edges, wood.memo.done, root.visits) == ([], True, 1)
    assert node_json(root) == node_json(before)
    broken = False
    await model.search(root)
    assert [edge.action for edge in wood.edges] == [option(STICKS), option(TABLE)]
    assert root.visits == 4


@pytest.mark.parametrize("name", ["too-no-wm", "tot-mcts"])
async def test_without_world_model_every_question_sees_the_start_and_the_options(name):
    _, engine = await plan(name, iter=1, d=2)
    assert all("Inventory (0/36): {}" in last_message(request) for request in engine.requests)
    assert all("at the start" in last_message(request) for request in engine.requests)
    termination = [request for request in engine.requests if request.role == "termination"]
    assert [history_of(request) for request in termination] == [(WOOD,), (WOOD, TABLE)]


async def test_world_model_asks_as_its_equations_say():
    _, engine = await plan(iter=1, d=2)
    by_role = {role: [r for r in engine.requests if r.role == role] for role in calls_of(engine)}
    # Equation 1: the state and the option; equation 4: the state.
    assert not any("Goal:" in last_message(r) or history_of(r) for r in by_role["dynamics"])
    assert not any(history_of(r) for r in by_role["termination"])
    # The reward judges the predicted state: the option's own product is in it.
    for request in by_role["reward"]:
        assert f"'{option_of(request).split(' ')[2]}': 1" in last_message(request)
        assert "predicted after the option" in last_message(request)


@pytest.mark.parametrize(("name", "settings"), [("too", {}), ("cot", {"d": 4})])
async def test_engines_and_sampling_of_each_role(name, settings):
    other = ScriptedEngine(world)
    roles = dict.fromkeys(("dynamics", "reward", "termination"), other)
    _, engine = await plan(
        name, with_obstacles({}), engines=partial(Engines, by_role=roles), seed=9, **settings
    )
    own = {"propose", "feasibility"} if name == "too" else {"decompose"}
    assert set(calls_of(engine)) == own
    assert set(calls_of(other)) == (set(roles) if name == "too" else set())
    for request in (*engine.requests, *other.requests):
        if request.role in {"propose", "decompose"}:
            assert (request.sampling.temperature, request.sampling.seed) == (0.2, 9)
        else:
            assert request.sampling.temperature == 0.0
    if name == "cot":
        assert "At most 4 options" in engine.requests[0].prompt[0].content


@pytest.mark.parametrize("first_slow", [False, True])
async def test_equal_candidates_are_one_edge(first_slow):
    # Both proposals become the same option; which of them is checked first must not matter.
    def delay(request):
        return 0.01 * (
            request.role == "feasibility" and first_slow == (WOOD in last_message(request))
        )

    outcome, engine = await plan(script=with_obstacles({PLANKS: WOOD}), iter=1, d=1, delay=delay)
    tree = outcome.trace["tree"]
    assert [child["candidate"]["proposed"] for child in tree["edges"]] == [WOOD]
    assert [left["proposed"] for left in tree["left_out"]] == [PLANKS]
    assert calls_of(engine)["dynamics"] == 1


async def test_equal_proposals_are_checked_once():
    def script(request):
        return proposal(WOOD, WOOD) if request.role == "propose" else world(request)

    outcome, engine = await plan(script=script, iter=1, d=1)
    assert len(outcome.trace["tree"]["edges"]) == 1
    assert [left["proposed"] for left in outcome.trace["tree"]["left_out"]] == [WOOD]
    assert calls_of(engine)["feasibility"] == 1


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
    assert [child["option"] for child in outcome.trace["tree"]["edges"]] == [WOOD, PLANKS]


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
    assert scalar_reward(scores, weights(OptionSearchSettings())) == pytest.approx(4.5)
    best = dict.fromkeys(scores, 1.0) | {"redundancy": 0.0}
    assert scalar_reward(best, weights(OptionSearchSettings())) == pytest.approx(7.8)
    assert Counter(weights(OptionSearchSettings()).values()) == {1.2: 4, 1.0: 3, -1.0: 1}


@pytest.mark.parametrize(
    ("see", "in_words", "pictures"), [("words", True, 0), ("picture", False, 1), ("both", True, 1)]
)
async def test_the_world_model_alone_is_shown_the_state(see, in_words, pictures):
    _, engine = await plan(iter=1, d=2, see=see)
    asked = [request for request in engine.requests if request.role == "dynamics"]
    assert len(asked) == 4
    start = WORLD.draw(WORLD.start(0))
    assert asked[0].prompt[-1].images == (start,) * pictures
    assert all(len(request.prompt[-1].images) == pictures for request in asked)
    for words in ("Inventory (", "Biome: "):
        assert all((words in last_message(request)) is in_words for request in asked)
    assert all(
        ("is what the picture shows" in last_message(request)) is not in_words for request in asked
    )
    others = [request for request in engine.requests if request.role != "dynamics"]
    assert not any(message.images for request in others for message in request.prompt)


async def test_the_pictures_of_a_tree_are_those_of_its_states():
    _, engine = await plan(iter=3, see="picture")
    start = WORLD.start(0)
    predicted = start.apply(Change(gained={"oak_log": 1}))
    pictures = [
        request.prompt[-1].images[0] for request in engine.requests if request.role == "dynamics"
    ]
    assert pictures[0] == WORLD.draw(start)
    assert WORLD.draw(predicted) in pictures
    assert WORLD.draw(start) != WORLD.draw(predicted)
