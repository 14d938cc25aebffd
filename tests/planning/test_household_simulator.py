"""The simulator does exactly what the rules do, in arrays and one by one."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from household_homes import flat, own_task

from llm_planning.environments.household.expert import Expert
from llm_planning.environments.household.rules import NOWHERE
from llm_planning.environments.household.simulator import Batch, Simulator

GOALS = (
    "the chicken in the oven",
    "two plates in the dishwasher, one plate on the kitchen table",
    "two plates in the dishwasher, one apple in the fridge, one towel on the bathroom counter",
)


def by_the_rules(rules, state, share):
    actions = rules.actions(state)
    return rules.after(state, actions[int(share * len(actions))])


def counted(rules, state):
    """A state as a batch has it: things that no goal names are counted."""
    named = range(rules.named)
    rows = (*state.places, state.held)
    return (
        state.room,
        state.at,
        state.opened | rules.always_seen,
        [sum(thing >= rules.named for thing in one) for one in rows],
        [[one.count(thing) for one in rows] for thing in named],
    )


def row_of(batch, rules, row):
    places = len(rules.home.places)
    at = int(batch.at[row])
    in_sight = sum(1 << place for place in range(places) if batch.in_sight[row, place])
    others = [*batch.others[row, :places].tolist(), int(batch.others_held[row])]
    named = [
        [*batch.named[thing, row, :places].tolist(), int(batch.held[thing, row])]
        for thing in range(rules.named)
    ]
    return int(batch.room[row]), NOWHERE if at == places else at, in_sight, others, named


def share_of(actions, rng):
    """A share that takes each verb about as often; most actions are walks."""
    if not actions:
        return rng.random()
    verb = rng.choice(sorted({one.verb for one in actions}))
    number = rng.choice([n for n, one in enumerate(actions) if one.verb == verb])
    return (number + rng.random()) / len(actions)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize(("home", "hands"), [("seen", 1), ("seen", 2), ("unseen", 1)])
def test_random_walks_are_those_of_the_rules(home, hands, goal):
    rules = own_task(home, goal, hands=hands, limit=10**6).rules
    simulator, rng = Simulator(rules), Random(7)
    states = [rules.start(rng) for _ in range(8)]
    batch = Batch(simulator, states)
    verbs = Counter()
    for _ in range(100):
        shares = [share_of(rules.actions(state), rng) for state in states]
        won = batch.step(np.array(shares))
        for row, (state, share) in enumerate(zip(states, shares, strict=True)):
            if not (actions := rules.actions(state)):
                continue
            verbs[actions[int(share * len(actions))].verb] += 1
            states[row] = after = by_the_rules(rules, state, share)
            assert simulator.step(state, share) == after
            assert row_of(batch, rules, row) == counted(rules, after)
            assert won[row] == rules.success(after)
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
        batch = Batch(simulator, [state], each=len(actions))
        won = batch.step(np.array(shares))
        for row, one in enumerate(actions):
            after = rules.after(state, one)
            assert simulator.step(state, shares[row]) == after
            assert row_of(batch, rules, row) == counted(rules, after)
            assert won[row] == rules.success(after)
        reached += won.sum()
        state = rules.after(state, action)
    assert reached == 1
    assert Batch(simulator, [task.start, state]).won().tolist() == [False, True]


@pytest.mark.parametrize("limit", [30, 9])
def test_rollouts_return_what_walks_by_the_rules_return(tmp_path, limit):
    rules = own_task(flat(tmp_path), "the apple on the table", limit=limit).rules
    simulator = Simulator(rules)
    states = [rules.start(Random(seed)) for seed in range(3)]
    states.append(states[0]._replace(steps=limit - 4))
    values = simulator.rollouts(
        states, each=40, depths=[20] * len(states), gamma=0.9, seeds=range(len(states))
    )
    assert values.shape == (4, 40)
    drawn = [np.random.default_rng(seed).random((20, 40)).T for seed in range(4)]
    for state, some, returns in zip(states, drawn, values, strict=True):
        for row, value in zip(some, returns, strict=True):
            expected, now = 0.0, state
            for number, share in enumerate(row):
                if not rules.actions(now):
                    break
                now = by_the_rules(rules, now, share)
                if rules.success(now):
                    expected = 0.9**number
            assert value == pytest.approx(expected)
    assert 0 < (values > 0).mean() < 0.9


def test_one_rollout_returns_what_its_walk_returns(tmp_path):
    rules = own_task(flat(tmp_path), "the apple on the table", limit=90).rules
    simulator = Simulator(rules)
    found = Counter()
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
        found[value > 0] += 1
    assert min(found[True], found[False]) > 5


def test_a_rollout_from_the_end_is_worth_nothing(tmp_path):
    rules = own_task(flat(tmp_path), "the apple on the table").rules
    simulator = Simulator(rules)
    start = rules.start(Random(1))
    late = start._replace(steps=30)
    assert simulator.rollouts([late], each=2, depths=[20], gamma=1, seeds=[1]).tolist() == [[0, 0]]
    assert simulator.rollout(late, depth=20, gamma=1.0, rng=Random(1)) == 0
    won = start._replace(places=((1,), (0, 0), (2,), (3,)))
    assert rules.success(won)
    assert simulator.rollouts([won], each=2, depths=[20], gamma=1, seeds=[1]).tolist() == [[0, 0]]
    assert simulator.rollout(won, depth=20, gamma=1.0, rng=Random(1)) == 0
