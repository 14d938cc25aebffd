"""The simulator does exactly what the rules do, action by action."""

from collections import Counter
from random import Random

import pytest
from household_homes import flat, own_task

from llm_planning.environments.household.expert import Expert
from llm_planning.environments.household.simulator import Simulator

GOALS = (
    "the chicken in the oven",
    "two plates in the dishwasher, one plate on the kitchen table",
    "two plates in the dishwasher, one apple in the fridge, one towel on the bathroom counter",
)


def by_the_rules(rules, state, share):
    actions = rules.actions(state)
    return rules.after(state, actions[int(share * len(actions))])


def share_of(actions, rng):
    """A share that takes each verb about as often; most actions are walks."""
    if not actions:
        return rng.random()
    verb = rng.choice(sorted({action.verb for action in actions}))
    number = rng.choice([n for n, action in enumerate(actions) if action.verb == verb])
    return (number + rng.random()) / len(actions)


@pytest.mark.parametrize(
    ("home", "hands", "goal"),
    [("seen", 1, GOALS[0]), ("seen", 2, GOALS[2]), ("unseen", 1, GOALS[1])],
)
def test_random_walks_are_those_of_the_rules(home, hands, goal):
    rules = own_task(home, goal, hands=hands, limit=10**6).rules
    simulator, rng = Simulator(rules), Random(7)
    states = [rules.start(rng) for _ in range(8)]
    verbs = Counter()
    for _ in range(100):
        shares = [share_of(rules.actions(state), rng) for state in states]
        for row, (state, share) in enumerate(zip(states, shares, strict=True)):
            if not (actions := rules.actions(state)):
                continue
            verbs[actions[int(share * len(actions))].verb] += 1
            states[row] = after = by_the_rules(rules, state, share)
            assert simulator.step(state, share) == after
    assert min(verbs.values()) > 5
    assert len(verbs) == 5


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("hands", [1, 2])
def test_every_action_of_states_on_the_way_to_the_goal(goal, hands):
    task = own_task("seen", goal, hands=hands)
    rules, state = task.rules, task.start
    simulator, reached = Simulator(rules), 0
    for action in Expert(rules).plan(state):
        actions = rules.actions(state)
        shares = [(number + 0.5) / len(actions) for number in range(len(actions))]
        for share, listed in zip(shares, actions, strict=True):
            after = rules.after(state, listed)
            assert simulator.step(state, share) == after
            reached += rules.success(after)
        state = rules.after(state, action)
    assert reached == 1


def test_one_rollout_returns_what_its_walk_returns(tmp_path):
    rules = own_task(flat(tmp_path), "the apple on the table", limit=90).rules
    simulator = Simulator(rules)
    returns = Counter()
    for seed in range(60):
        state = rules.start(Random(seed))
        value = simulator.rollout(state, depth=80, gamma=0.9, rng=Random(seed))
        rng, expected = Random(seed), 0.0
        for number in range(80):
            state = by_the_rules(rules, state, rng.random())
            if rules.success(state):
                expected = 0.9**number
                break
        assert value == pytest.approx(expected)
        returns[value > 0] += 1
    assert min(returns[True], returns[False]) > 5


def test_a_rollout_from_the_end_is_worth_nothing(tmp_path):
    rules = own_task(flat(tmp_path), "the apple on the table").rules
    simulator = Simulator(rules)
    start = rules.start(Random(1))
    late = start._replace(steps=30)
    assert simulator.rollout(late, depth=20, gamma=1.0, rng=Random(1)) == 0
    won = start._replace(places=((1,), (0, 0), (2,), (3,)))
    assert rules.success(won)
    assert simulator.rollout(won, depth=20, gamma=1.0, rng=Random(1)) == 0
