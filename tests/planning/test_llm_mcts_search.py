"""LLM-MCTS's search in a home: histories, values, rollouts. `tests/references` has Algorithm 1."""

from collections import defaultdict, deque
from random import Random

import pytest
from household_homes import named, own_task
from llm_mcts_runs import run, tiny_task

from llm_planning.domain import Step
from llm_planning.environments.household.belief import Belief
from llm_planning.environments.household.expert import Expert
from llm_planning.environments.household.rules import NOWHERE, State
from llm_planning.planners.llm_mcts.algorithm import Tree
from llm_planning.planners.llm_mcts.plus import GoalRegression, by_regret
from llm_planning.planners.llm_mcts.roles import Past, best_action, likeliest
from llm_planning.search import (
    Edge,
    Node,
    TrackedRandom,
    Walk,
    by_sums,
    edges_below,
    search,
    select_by_puct,
)

GAMMA, R = 0.95, 10.0

# HISTORIES ---------------------------------------------------------------------------------------

FRIDGE, TABLE, CHEST, BENCH = range(4)
PEAR, HAT = range(2)


def in_the_kitchen(pear, hat=BENCH, *, opened=0, steps=0):
    """The agent in the kitchen, close to nothing; where the pear and the hat are."""
    places = [[], [], [], []]
    places[pear].append(PEAR)
    places[hat].append(HAT)
    return State(0, NOWHERE, opened, (), tuple(map(tuple, places)), steps)


def home_model(rules, states, **changes):
    """A search of a home in which the states are drawn in turn."""
    drawn = iter(states * 1000)
    first = states[0]
    parts = {
        "draw": lambda rng: next(drawn) if rng.random() < 1 else None,
        "actions": rules.actions,
        "past": Past((), "", Belief.of_state(rules, first)),
        "policy": None,
        "see": rules.observe,
        "rollout": GoalRegression(Expert(rules), rules, gamma=GAMMA),
        "depth": 20,
        "reward": R,
    }
    return Tree(rules=rules, **{**parts, **changes})


async def searched(model, *, simulations=60, select=None, backup=None, **options):
    root = Node()
    await search(
        root,
        model,
        select=select or select_by_puct(c=8.0),
        backup=backup or by_sums(gamma=GAMMA),
        simulations=simulations,
        **{"max_depth": 20, "expand_at": "second", "rng": Random(1), **options},
    )
    return root


@pytest.mark.parametrize("goal", ["the pear on the table", "the pear in the fridge"])
async def test_a_belief_in_the_goals_place_does_not_end_a_plan(tmp_path, goal):
    # The agent is in the hall, so the fridge and the table are not seen, and the prior has all its
    # weight where the goal wants the pear.
    rules = tiny_task(tmp_path, goal).rules
    wanted = rules.wanted[0][1]
    state = in_the_kitchen(CHEST)._replace(room=1)
    prior = [tuple(float(place == wanted) for place in range(4)), (1.0,) * 4]
    belief = Belief.at_start(rules, prior, rules.observe(state))
    expert = Expert(rules)
    value = GoalRegression(expert, rules, gamma=GAMMA)
    assert belief.probabilities(PEAR)[wanted] == 0
    assert best_action(belief, expert) is not None
    assert not rules.success(likeliest(belief, expert))
    for seed in range(20):
        drawn = belief.draw(Random(seed))
        assert rules.actions(drawn)
        assert 0 < value.of(drawn) < 1
    task = tiny_task(tmp_path, goal)
    for name in ("llm-mcts", "llm-mcts-plus"):
        outcome = await run(name, task, roles="rules", simulations=20, moves=3)
        assert outcome.plan


# VALUES ------------------------------------------------------------------------------------------


def distances(rules, state):
    """State -> the fewest actions to the goal, of all states that can be reached, breadth first."""
    after, waiting = {}, [state._replace(steps=0)]
    before = defaultdict(list)
    while waiting:
        state = waiting.pop()
        if state not in after:
            after[state] = [rules.after(state, a)._replace(steps=0) for a in rules.actions(state)]
            waiting += after[state]
            for following in after[state]:
                before[following].append(state)
    steps = {state: 0 for state in after if rules.success(state)}
    nearest = deque(steps)
    while nearest:
        state = nearest.popleft()
        for previous in before[state]:
            if previous not in steps:
                steps[previous] = steps[state] + 1
                nearest.append(previous)
    assert steps.keys() == after.keys()
    return steps


@pytest.mark.parametrize(
    ("goal", "hands"),
    [
        ("the pear on the table", 1),
        ("the pear on the table and the hat in the chest", 1),
        ("the pear on the table and the hat in the chest", 2),
        ("the pear in the fridge", 2),
    ],
)
def test_goal_regression_is_the_shortest_way(tmp_path, goal, hands):
    task = tiny_task(tmp_path, goal, hands=hands)
    rules = task.rules
    value = GoalRegression(Expert(rules), rules, gamma=GAMMA)
    steps = distances(rules, task.start)
    assert len(steps) > 400
    for state, n in steps.items():
        if n:
            assert value.of(state) == pytest.approx(GAMMA ** (n - 1))
            # With n actions left there is time enough, with n - 1 there is not.
            assert value.of(state._replace(steps=rules.limit - n)) > 0
            assert value.of(state._replace(steps=rules.limit - n + 1)) == 0


TWO_APPLES = """\
rooms:
  kitchen: {containers: [fridge], surfaces: [table]}
  hall: {containers: [chest], surfaces: [bench]}
things:
  food: {names: [apple, pear], lie: {fridge: 1, bench: 1}, goals: [table]}
several: {apple: 2}
"""


def test_goal_regression_with_two_hands_full_of_one_thing(tmp_path):
    goal = "the apple in the chest and the pear on the table"
    home = named("two", TWO_APPLES, tmp_path)
    task = own_task(home, goal, hands=2)
    value = GoalRegression(Expert(task.rules), task.rules, gamma=GAMMA)
    for state, n in distances(task.rules, task.start).items():
        if n:
            assert value.of(state) == pytest.approx(GAMMA ** (n - 1))


def walked(rewards, returns, backup, *, states):
    """Backs walks of one action up: shape [walks]."""
    edge, root = Edge("a"), Node()
    for reward, tail, (before, after) in zip(rewards, returns, states, strict=True):
        walk = Walk(root, TrackedRandom(), None)
        walk.memory = before
        walk.go(edge, Step(after, reward, observation=()))
        walk.tail = tail
        root.visits += 1
        edge.visits += 1
        backup(walk)
    return edge, root


def test_regret_by_hand(tmp_path):
    rules = tiny_task(tmp_path).rules
    value = GoalRegression(Expert(rules), rules, gamma=GAMMA)
    # The pear is on the bench: hall, pear, grab, kitchen, table, put. V = γ^5.
    # In the chest: hall, chest, open, grab, kitchen, table, put. V = γ^6.
    # In the fridge: fridge, open, grab, table, put. V = γ^4. Walking to the hall costs two more.
    bench, chest, fridge = (in_the_kitchen(place) for place in (BENCH, CHEST, FRIDGE))
    assert [value.of(state) for state in (bench, chest, fridge)] == [GAMMA**5, GAMMA**6, GAMMA**4]
    hall = next(action for action in rules.actions(bench) if str(action) == "walk to the hall")
    pairs = [(state, rules.after(state, hall)) for state in (bench, chest, fridge)]
    tails = [R * value.of(after) for _, after in pairs]
    assert tails == pytest.approx([R * GAMMA**n for n in (4, 5, 5)])
    edge, root = walked([0, 0, 0], tails, by_regret(value, gamma=GAMMA, reward=R), states=pairs)
    # Two of three went the right way.
    assert edge.value == pytest.approx(R * (GAMMA**6 - GAMMA**4) / 3)
    # The value of the root has no control variate.
    assert root.value == pytest.approx(R * (GAMMA**5 + GAMMA**6 + GAMMA**6) / 3)


async def test_a_regret_is_never_above_0(tmp_path):
    rules = tiny_task(tmp_path).rules
    value = GoalRegression(Expert(rules), rules, gamma=GAMMA)
    backup = by_regret(value, gamma=GAMMA, reward=R)
    for states in ([in_the_kitchen(CHEST)], [in_the_kitchen(CHEST), in_the_kitchen(FRIDGE)]):
        for late in (0, 20):
            drawn = [state._replace(steps=late) for state in states]
            root = await searched(
                home_model(rules, drawn), simulations=300, backup=backup, max_depth=None
            )
            values = [edge.value for _, edge in edges_below(root) if edge.visits]
            assert max(values) <= 1e-12
            # Somewhere it is best to go the right way, and nothing is lost.
            assert max(values) == pytest.approx(0)
            assert min(values) < -0.1


def test_regrets_rank_actions_as_mean_returns_do(tmp_path):
    """By exact expectation over all drawn states, the difference is the same for all actions."""
    rules = tiny_task(tmp_path).rules
    value = GoalRegression(Expert(rules), rules, gamma=GAMMA)
    belief = Belief.at_start(rules, rules.law, rules.observe(in_the_kitchen(CHEST)))
    drawn = [
        (p, belief.certain.with_thing(PEAR, place))
        for place, p in enumerate(belief.probabilities(PEAR))
        if p
    ]
    assert len(drawn) == 3
    assert sum(p for p, _ in drawn) == pytest.approx(1)
    differences = []
    for action in rules.useful(belief.certain):
        mean = regret = 0.0
        for p, state in drawn:
            after = rules.after(state, action)
            tail = R * value.of(after)
            statistics, root = walked([0], [tail], by_sums(gamma=GAMMA), states=[(state, after)])
            mean += p * statistics.value
            other, _ = walked(
                [0], [tail], by_regret(value, gamma=GAMMA, reward=R), states=[(state, after)]
            )
            regret += p * other.value
            assert root.value == statistics.value
        differences.append(mean - regret)
    assert len(differences) >= 3
    assert differences == pytest.approx([differences[0]] * len(differences))
    assert differences[0] == pytest.approx(sum(p * R * value.of(state) for p, state in drawn))
