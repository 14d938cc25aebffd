"""PUCT and UCT in any domain: known, random, hidden and awaited worlds, checked by hand."""

import json
import re
from math import log
from pathlib import Path
from random import Random

import numpy as np
import pytest
from any_domain_worlds import (
    PLANNERS,
    AsyncCorridor,
    Corridor,
    Doors,
    Guarded,
    Lottery,
    Tiger,
    hanoi,
    model_of,
    run,
    walk_at,
)

from llm_planning import open_engine, plan
from llm_planning.domain import Domain, DomainError, Step
from llm_planning.execution.episode import execute
from llm_planning.planners.any_domain.search_agents import best_edge
from llm_planning.search import (
    Edge,
    Node,
    by_sums,
    expanded,
    search,
    select_by_puct,
)
from llm_planning.trace import recording
from llm_serving.scripted import ScriptedEngine


def scores(text, choices):
    """Prefers the first action: 0.7 of two, and the others share the rest."""
    return [log(0.7), *[log(0.3 / max(1, len(choices) - 1))] * (len(choices) - 1)]


# EVERY PLANNER ------------------------------------------------------------------------------------

SETTINGS = {"simulations": 20, "moves": 3, "c": 5.0}
WORLDS = {
    "doors": Doors,
    "corridor": lambda: Corridor(3),
    "lottery": Lottery,
    "tiger": Tiger,
    "hanoi": lambda: hanoi(2),
    "gate": Guarded,
}
GOLDEN = Path(__file__).parents[1] / "golden" / "any_domain" / "games.json"


def an_engine():
    return ScriptedEngine({"think": "I want to look behind the next door."}, score=scores)


def run_small(planner, world, engine):
    keys = PLANNERS[planner].settings.known_keys()
    given = {key: value for key, value in SETTINGS.items() if key in keys}
    return run(planner, world, engine=engine, **given)


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("world", WORLDS)
async def test_every_planner_plays_as_it_always_did(planner, world):
    engine = an_engine()
    outcome = await run_small(planner, WORLDS[world](), engine)
    golden = json.loads(GOLDEN.read_text("utf-8"))[planner][world]
    assert outcome.text.splitlines() == golden["text"]
    assert list(outcome.plan) == golden["plan"]
    assert outcome.metrics == golden["metrics"]
    assert len(engine.scored) == golden["asked"]
    assert len(outcome.plan) <= SETTINGS["moves"]
    # No simulation reads what is really behind a door.
    prompts = "".join(prompt for prompt, _ in engine.scored)
    assert not any(word in prompts for word in ("The tiger is", "really", "arrow"))


@pytest.mark.parametrize("planner", PLANNERS)
async def test_awaited_methods_change_nothing(planner):
    plain, awaited = [
        await run_small(planner, world(4), an_engine()) for world in (Corridor, AsyncCorridor)
    ]
    assert plain.success
    assert (plain.text, plain.trace) == (awaited.text, awaited.trace)


@pytest.mark.parametrize("planner", PLANNERS)
async def test_a_start_without_actions(planner):
    class Stuck(Corridor):
        def actions(self, state):
            return []

    outcome = await run_small(planner, Stuck(), an_engine())
    assert (outcome.success, outcome.plan) == (None, ())
    assert outcome.metrics.get("simulations", 0) == 0
    assert outcome.text == "the-task: the goal is not judged after 0 moves, reward 0"
    assert outcome.verdict.startswith("No action is possible any more, and nothing tells")


# A GAME BY HAND -----------------------------------------------------------------------------------

# Four simulations by hand, π = 0.7, 0.3 and c = 1. The first goes left, where π is highest: Q = 0.
# With N = 1 in all, left has 0.7 / 2 and right 0.3: left again. With N = 2, left has 0.7 √2 / 3 =
# 0.33 and right 0.3 √2 = 0.42: right, and Q = 1. With N = 3, left has 0.7 √3 / 3 = 0.40 and right
# more than 1: right.
GAME = """\
1. open right (reward 1)
                      Q  prior       N
   open right     1.000   0.30       2
   open left      0.000   0.70       2

the-task: the goal is reached after 1 moves, reward 1"""


async def test_a_golden_game_of_puct():
    engine = ScriptedEngine({}, score=scores)
    outcome = await run("puct", Doors(), engine=engine, simulations=4, prior="exact", gamma=1.0)
    assert outcome.text == GAME
    assert (outcome.success, outcome.plan) == (True, ("open right",))
    assert outcome.metrics == {
        "success_basis": "executed",
        "options_executed": 1,
        "first_failed": None,
        "first_obstacle": None,
        "reward": 1.0,
        "moves": 1,
        "simulations": 4,
    }
    (move,) = outcome.trace["moves"]
    assert move == {
        "action": "open right",
        "reward": 1.0,
        "text": "A prize!",
        "obstacle": None,
        "options": [
            {"action": "open left", "Q": 0.0, "prior": pytest.approx(0.7), "N": 2},
            {"action": "open right", "Q": 1.0, "prior": pytest.approx(0.3), "N": 2},
        ],
    }
    facts = {key: outcome.trace[key] for key in ("task", "goal", "seed", "success", "ended")}
    assert facts == {
        "task": "the-task",
        "goal": "Win the prize.",
        "seed": 0,
        "success": True,
        "ended": True,
    }


async def test_a_prior_is_asked_once_for_each_state_that_is_entered_twice():
    def forward(text, choices):
        return [0.0, -9.0]

    engine = ScriptedEngine({}, score=forward)
    outcome = await run("puct", Corridor(4), engine=engine, simulations=30, depth=6)
    assert outcome.plan == ("forward",) * 3
    rooms = [prompt.split("Now:\n")[1].split("\n")[0] for prompt, _ in engine.scored]
    assert sorted(rooms) == ["room 0", "room 1", "room 2"]


async def test_the_mixture_reaches_the_tree():
    engine = ScriptedEngine({}, score=scores)
    outcome = await run("puct", Doors(), engine=engine, simulations=1, prior_mixture=0.5)
    options = outcome.trace["moves"][0]["options"]
    assert [option["prior"] for option in options] == pytest.approx([0.6, 0.4])


# WORLDS -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
async def test_uct_solves_the_towers_without_a_model(seed):
    world = hanoi(3)
    outcome = await run("uct", world, seed=seed)
    assert outcome.success
    assert 7 <= len(outcome.plan) <= 12
    pegs = world.start(0)
    for action in outcome.plan:
        pegs = world.step(pegs, action, None).state
    assert pegs == "CCC"


async def test_an_awaited_belief_changes_nothing():
    class AsyncTiger(Tiger):
        async def belief(self, history, rng):
            return super().belief(history, rng)

    options = {"c": 100.0, "simulations": 200, "depth": 6, "seed": 3}
    plain, awaited = [await run("uct", world(), **options) for world in (Tiger, AsyncTiger)]
    assert plain.plan
    assert (plain.text, plain.trace) == (awaited.text, awaited.trace)


async def test_the_trace_tells_what_is_believed_before_each_move():
    options = {"c": 100.0, "simulations": 200, "depth": 6, "moves": 2, "seed": 1}
    unseen = await run("uct", Tiger(), **options)
    with recording() as trace:
        outcome = await run("uct", Tiger(), **options)
    assert outcome.text == unseen.text
    assert (outcome.plan[0], len(outcome.plan)) == ("listen", 2)
    kinds = [event["type"] for event in trace.events]
    lasting = [kind for kind in kinds if kind in {"belief", "search", "execution"}]
    assert lasting == ["belief", "search", "execution"] * 2
    first, second = [event["belief"] for event in trace.events if event["type"] == "belief"]
    # b(left) is 0.5, and then 0.85 or 0.15; of 100 draws, 4 standard deviations are 20 and 14.3.
    assert 30 <= first["The tiger is left."] <= 70
    assert sorted(first) == ["The tiger is left.", "The tiger is right."]
    assert 71 <= max(second.values()) <= 99
    for belief in (first, second):
        assert sum(belief.values()) == 100
    with recording() as trace:
        await run("uct", Doors(), simulations=5)
    assert "belief" not in {event["type"] for event in trace.events}


async def test_simulations_in_flight_change_nothing_but_the_tree():
    for planner in ("uct", "puct"):
        engine = ScriptedEngine({}, score=scores, delay=lambda request: 0.001)
        outcome = await run(planner, Corridor(5), engine=engine, simulations=60, width=8)
        again = await run(planner, Corridor(5), engine=engine, simulations=60, width=8)
        assert outcome.success
        assert outcome.text == again.text


async def test_the_value_of_a_lottery():
    """Q of the gamble is a mean of draws: 3 ± 4 standard errors of √21 / √N; that of 4 is exact.

    UCT keeps both scores equal: 4 + 10 √(ln 4000 / N) of the one, Q + 10 √(ln 4000 / N) of the
    other.
    """
    outcome = await run("uct", Lottery(), simulations=4000, c=10.0)
    assert outcome.plan == ("take",)
    gamble, take = outcome.trace["moves"][0]["options"]
    assert take["Q"] == pytest.approx(4.0)
    assert abs(gamble["Q"] - 3.0) < 4 * 21**0.5 / gamble["N"] ** 0.5
    root = log(4000) ** 0.5
    level = 4.0 + 10 * root / take["N"] ** 0.5
    assert gamble["N"] == pytest.approx((10 * root / (level - gamble["Q"])) ** 2, rel=0.02)


async def test_real_chance_does_not_depend_on_the_search():
    """The same action meets the same luck, however much was simulated before it."""

    class Must(Lottery):
        def actions(self, state):
            return super().actions(state)[:1]

    won = {
        n: [(await run("uct", Must(), simulations=n, seed=s)).metrics["reward"] for s in range(30)]
        for n in (1, 17)
    }
    assert won[1] == won[17]
    assert set(won[1]) == {0.0, 10.0}


async def test_the_tiger():
    """The exact policy: a door is opened as soon as two growls more came from the other one."""
    for seed in range(10):
        lived = []

        class Lived(Tiger):
            def step(self, state, action, rng, lived=lived):
                step = super().step(state, action, rng)
                if state.startswith("really"):
                    lived.append((action, step.observation))
                return step

        outcome = await run("uct", Lived(), seed=seed, c=100.0, simulations=2000, depth=6, moves=20)
        more = 0
        for action, observation in lived:
            assert action == {-2: "open left", 2: "open right"}.get(more, "listen")
            more += {"heard left": 1, "heard right": -1}.get(observation, 0)
        assert outcome.success == (lived[-1][1] == "safe")


async def test_no_simulation_sees_what_is_really_there():
    simulated = []

    class Watched(Tiger):
        def step(self, state, action, rng):
            simulated.append(state)
            return super().step(state, action, rng)

    outcome = await run("uct", Watched(), c=100.0, simulations=50, depth=6)
    real = [state for state in simulated if state.startswith("really")]
    assert len(real) == len(outcome.plan)
    assert set(simulated) - set(real) == {"left", "right"}


async def test_a_prior_over_hidden_states_is_told_the_history_alone():
    def listen(text, choices):
        return [-5.0 if choice != "listen" else 0.0 for choice in choices]

    engine = ScriptedEngine({}, score=listen)
    await run("puct", Tiger(), engine=engine, simulations=60, c=100.0, depth=4, moves=2)
    assert engine.scored
    assert not any("The tiger is" in prompt for prompt, _ in engine.scored)
    first, *later = [prompt for prompt, _ in engine.scored]
    assert "What happened before" not in first
    assert "Now:" not in first
    pasts = {prompt.split("before:\n")[1].split("Possible")[0] for prompt in later}
    assert "> listen\n\nNow:\nheard left\n\n" in pasts
    assert "> listen\nheard right\n> listen\n\nNow:\nheard left\n\n" in pasts


async def test_the_tree_is_kept_from_move_to_move():
    """Where everything is certain, what was simulated below the move is not simulated again."""
    world = Corridor(4)
    outcome = await run("uct", world, simulations=40, depth=6)
    n = [sum(option["N"] for option in move["options"]) for move in outcome.trace["moves"]]
    assert outcome.plan == ("forward",) * 3
    assert n[0] == 40
    below = [
        next(option["N"] for option in move["options"] if option["action"] == "forward")
        for move in outcome.trace["moves"]
    ]
    # The visit that added a node did not go on from it.
    assert n[1:] == [40 + below[0] - 1, 40 + below[1] - 1]


async def test_where_nothing_was_found_a_move_is_drawn_by_the_prior():
    """Two simulations find no reward: forward is drawn with 0.7, 140 ± 4 √42 of 200 times."""
    engine = ScriptedEngine({}, score=scores)
    moves = [
        (await run("puct", Corridor(), engine=engine, simulations=9, c=9, depth=2, moves=1, seed=s))
        for s in range(200)
    ]
    assert all(option["N"] for option in moves[0].trace["moves"][0]["options"])
    assert 114 <= sum(outcome.plan == ("forward",) for outcome in moves) <= 166


def test_a_prior_of_zero_can_still_be_drawn():
    root = expanded([Edge("a"), Edge("b")])
    assert best_edge(root, Random(0)) is None
    root.edges[1].visits = 1
    assert best_edge(root, Random(0)).action == "b"
    root.edges[0].visits = 1
    assert {best_edge(root, Random(seed)).action for seed in range(9)} == {"a", "b"}
    root.edges[0].value = 0.5
    assert {best_edge(root, Random(seed)).action for seed in range(9)} == {"a"}


# THE MODEL ALONE ----------------------------------------------------------------------------------


class Ladder(Domain):
    """One action, a reward of 1 for each rung; from an odd start, down is possible too."""

    goal = "Climb."

    def start(self, seed):
        return 0

    def describe(self, state):
        return str(state)

    def actions(self, state):
        return ["up", "down"] if state % 2 else ["up"]

    def step(self, state, action, rng):
        return Step(state + 2, reward=1.0)


class Scored(Ladder):
    def score(self, state):
        return 100.0 + state


async def test_a_rollout_is_discounted_and_ends_at_the_depth():
    model = model_of(Ladder())
    for steps, value in ((0, 1.75), (1, 1.5), (3, 0.0), (5, 0.0)):
        leaf = await model.evaluate(Node(), walk_at(0, steps=steps))
        assert (leaf.tail, leaf.edges) == (value, ())


async def test_a_score_stands_in_for_the_rollout():
    leaf = await model_of(Scored()).evaluate(Node(), walk_at(7))
    assert leaf.tail == 107.0


async def test_a_score_is_asked_beyond_the_depth():
    """A search that never scored the last state would not see that forward is better."""

    class Far(Corridor):
        def score(self, state):
            return state / 100

    outcome = await run("uct", Far(50), simulations=60, depth=1, moves=1, c=0.05)
    assert outcome.plan == ("forward",)
    options = {option["action"]: option["Q"] for option in outcome.trace["moves"][0]["options"]}
    assert options["forward"] > 0.02


async def test_actions_that_are_missing_join_those_that_are_known():
    asked = []

    async def prior(question):
        asked.append(question.actions)
        return {1: [1.0], 2: [0.75, 0.25]}[len(question.actions)]

    model = model_of(Ladder(), prior=prior)
    node = expanded(await model.expand(Node(), walk_at(2)))
    assert [(edge.action, edge.prior) for edge in node.edges] == [("up", 1.0)]
    new = await model.expand(node, walk_at(3, node=node))
    assert [(edge.action, edge.prior) for edge in new] == [("down", 0.25)]
    assert node.edges[0].prior == 0.75
    assert asked == [("up",), ("up", "down")]


@pytest.mark.parametrize("width", [1, 3])
async def test_what_a_failed_simulation_made_of_known_priors_is_undone(width):
    """The third simulation finds `down` possible too, and π of `up` changes; then it fails."""
    roots = iter([2, 2, 3, 3, 3])

    class Falling(Ladder):
        def belief(self, history, rng):
            rng.random()
            return next(roots)

        def step(self, state, action, rng):
            if state == 3:
                raise OSError("the ladder broke")
            return Step(state + 2, reward=1.0, done=True, observation="up")

    async def prior(question):
        return {1: [1.0], 2: [0.75, 0.25]}[len(question.actions)]

    root = Node()
    with pytest.raises(OSError, match="the ladder broke"):
        await search(
            root,
            model_of(Falling(), prior=prior),
            select=select_by_puct(c=1.0),
            backup=by_sums(gamma=1.0),
            simulations=5,
            width=width,
        )
    assert next(roots) == 3
    assert [(edge.action, edge.prior) for edge in root.edges] == [("up", 1.0)]


async def test_a_state_with_nothing_new_asks_no_model():
    model = model_of(Ladder(), prior=None)
    node = expanded(await model.expand(Node(), walk_at(3)))
    assert [edge.prior for edge in node.edges] == [0.5, 0.5]
    assert await model.expand(node, walk_at(2, node=node)) == ()


class Told(Corridor):
    """A corridor whose steps a test changes."""

    def __init__(self, told):
        super().__init__(rooms=4)
        self.told = told

    def step(self, state, action, rng):
        return self.told(super().step(state, action, rng))


class Awaited(Told):
    async def step(self, state, action, rng):
        return super().step(state, action, rng)


NO_STEPS = [
    (tuple, r"\(1, 0\.0, False, .*, not a Step: "),
    (lambda step: None, "None, not a Step: "),
    (lambda step: step._replace(reward=None), "None, not a finite number, as the reward"),
    (lambda step: step._replace(reward="won"), "'won', not a finite number, as the reward"),
    (lambda step: step._replace(reward=float("nan")), "nan, not a finite number, as the reward"),
    (lambda step: step._replace(reward=10**400), "1000.*, not a number of at most 1e300 in size,"),
    (lambda step: step._replace(reward=np.array([1.0])), r"array\(.*, not a finite number, as the"),
    (lambda step: step._replace(done="no"), "'no', not True or False, as the done"),
    (lambda step: step._replace(text=5), "5, not a text, as the text"),
    (lambda step: step._replace(obstacle=False), "False, not a text or None, as the obstacle"),
]


@pytest.mark.parametrize("world", [Told, Awaited])
@pytest.mark.parametrize(("told", "message"), NO_STEPS)
async def test_what_is_no_step_is_said_of_the_world(world, told, message):
    message = rf"^{world.__name__}\.step returned {message}"
    with pytest.raises(DomainError, match=message):
        await run("uct", world(told), simulations=5)
    with pytest.raises(DomainError, match=message):
        await execute(world(told), ["forward"], seed=0)


@pytest.mark.parametrize("score", [None, "high", float("inf")])
async def test_what_is_no_score_is_said_of_the_world(score):
    class Valued(Corridor):
        def score(self, state):
            return score

    with pytest.raises(DomainError, match=rf"^Valued\.score returned {score!r}, not a finite"):
        await run("uct", Valued(), simulations=5)


@pytest.mark.parametrize("moves", [1, 3])
async def test_states_that_are_not_hashable_are_refused_at_the_first_step(moves):
    world = Told(lambda step: step._replace(state=Room(step.state)))
    with pytest.raises(DomainError, match="of 'forward' cannot be told apart"):
        await run("uct", world, simulations=5, moves=moves)
    assert world.simulated <= 7  # the first steps are taken again


async def test_numbers_of_numpy_are_python_s_in_a_step():
    world = Told(
        lambda step: step._replace(reward=np.float32(step.reward), done=np.bool_(step.done))
    )
    outcome = await run("uct", world, simulations=30)
    assert outcome.success
    assert type(outcome.metrics["reward"]) is float
    json.dumps(outcome.trace)


@pytest.mark.parametrize(
    ("method", "value", "says"),
    [
        ("success", "no", "True, False or None"),
        ("describe", None, "a text"),
        ("observe", 5, "a text"),
        ("milestones", None, "a mapping"),
        ("rollout", None, "a finite number"),
        ("rollout", float("nan"), "a finite number"),
        ("traits", None, "a mapping"),
        ("traits", {"optimum": {1, 2}}, "a mapping"),
        ("traits", {"width": float("nan")}, "a mapping"),
        ("traits", {1: 2}, "a mapping"),
        ("traits", {"optimum": "three"}, "a mapping"),
        ("milestones", {1: True}, "a mapping from names to True or False"),
        ("milestones", {"half": float("nan")}, "a mapping from names to True or False"),
        ("actions", None, "a sequence of actions"),
        ("actions", "ud", "a sequence of actions"),
        ("actions", {"forward"}, "a sequence of actions"),
        ("actions", ["forward", "forward"], "actions of which each has its own text"),
        ("actions", ["forward", " "], "actions that all have a text"),
        ("actions", [object()], "actions that have a text"),
        ("actions", [lambda: "forward"], "actions that have a text"),
    ],
)
async def test_what_a_method_may_not_return_is_said_of_the_world(method, value, says):
    kind = type("Odd", (Corridor,), {method: lambda *_, **__: value})
    with (
        open_engine("none") as engine,
        pytest.raises(DomainError, match=rf"^Odd\.{method} returned .*, not {says}"),
    ):
        await plan("uct", kind(), engine=engine, settings={"simulations": 5})


@pytest.mark.parametrize("value", [{"optimum": np.int64(3)}, {"cost": float("inf")}, None, 1 / 3])
async def test_a_plan_that_cannot_be_judged_is_not_lost(value):
    class Odd(Corridor):
        def judged(self, actions):
            if isinstance(value, float):
                raise ZeroDivisionError("no way")
            return value

    with open_engine("none") as engine:
        outcome = await plan("uct", Odd(3), engine=engine, settings={"simulations": 20})
    assert (outcome.success, outcome.plan) == (True, ("forward", "forward"))
    assert re.match(
        r"DomainError: Odd\.judged returned|Zero.*: no way", outcome.metrics["judging_failed"]
    )


async def test_what_a_world_calls_as_a_planner_does_keeps_both():
    class Named(Corridor):
        def traits(self):
            return {"reward": 7, "moves": 2, "width": 1}

        def judged(self, actions):
            return {"simulations": "many", "width": 2}

    with open_engine("none") as engine:
        outcome = await plan("uct", Named(3), engine=engine, settings={"simulations": 20})
    metrics = outcome.metrics
    assert (metrics["reward"], metrics["domain.reward"]) == (1.0, 7)
    assert (metrics["moves"], metrics["width"], "domain.moves" in metrics) == (2, 1, False)
    assert metrics["judged.width"] == 2
    assert (metrics["simulations"], metrics["domain.simulations"]) == (40, "many")


class Room(int):
    __hash__ = None
