"""Beliefs about where things are: hand calculations, and walks in which they must hold."""

from collections import Counter
from random import Random

import pytest
from household_homes import flat, following, own_task, walk

from llm_planning.environments.household.belief import Belief
from llm_planning.environments.household.domain import Household
from llm_planning.environments.household.rules import NOWHERE, State
from llm_planning.environments.household.tasks import Task

PRIOR = ((4.0, 2.0, 1.0, 1.0),) * 4


@pytest.fixture
def kitchen(tmp_path):
    """The agent in the kitchen: the pear is in the fridge, both apples are in the chest."""
    rules = own_task(flat(tmp_path), "two apples in the fridge").rules
    apple, pear, hat, ball = range(4)
    assert rules.things == ("apple", "pear", "hat", "ball")
    return rules, State(0, NOWHERE, 0, (), ((pear,), (hat,), (apple, apple), (ball,)))


def believed(rules, states):
    first, *others = map(rules.observe, states)
    belief = Belief.at_start(rules, PRIOR, first)
    for other in others:
        belief = belief.after(other)
    return belief


def test_what_is_not_seen_is_elsewhere(kitchen):
    rules, state = kitchen
    belief = believed(rules, [state])
    # The table is seen, and no apple begins in the fridge: chest and bench are left, 1 to 1.
    assert belief.seen == (None, (2,), None, None)
    assert belief.hidden == (0, 0, 1, 3)
    assert belief.probabilities(0) == pytest.approx((0, 0, 1 / 2, 1 / 2))
    # The pear may be in the fridge: 4, 1 and 1.
    assert belief.probabilities(1) == pytest.approx((4 / 6, 0, 1 / 6, 1 / 6))


def test_what_was_seen_stays_where_it_was(kitchen):
    rules, state = kitchen
    plan = ["walk to the fridge", "open the fridge", "walk to the hall", "walk to the chest"]
    belief = believed(rules, following(rules, state, plan))
    assert belief.seen == ((1,), (2,), None, (3,))
    assert belief.opened == 1
    assert belief.steps == 4
    assert belief.hidden == (0, 0)
    assert belief.probabilities(0) == (0, 0, 1, 0)
    assert belief.draw(Random(1)) == State(1, 2, 1, (), ((1,), (2,), (0, 0), (3,)), 4)


def test_what_was_closed_is_believed_to_be_closed(kitchen):
    rules, state = kitchen
    plan = ["walk to the fridge", "open the fridge", "close the fridge"]
    states = following(rules, state, plan)
    opened, closed = believed(rules, states[:-1]), believed(rules, states)
    assert (opened.opened, closed.opened) == (1, 0)
    # What was seen inside is known, but it has to be opened to be had.
    assert closed.seen[0] == (1,)
    drawn = closed.filled(Random(1)).draw(Random(2))
    assert drawn.opened == 0
    assert [str(action) for action in rules.actions(drawn)] == [
        str(action) for action in rules.actions(states[-1])
    ]
    # Elsewhere it stays closed: nobody else opens it.
    away = closed.after(rules.observe(following(rules, states[-1], ["walk to the hall"])[-1]))
    assert away.opened == 0


def test_a_prior_without_weight_left_is_even(kitchen):
    rules, state = kitchen
    belief = Belief.at_start(rules, ((4.0, 2.0, 0.0, 0.0),) * 4, rules.observe(state))
    assert belief.probabilities(0) == pytest.approx((0, 0, 1 / 2, 1 / 2))


def test_states_are_drawn_with_their_probabilities(kitchen):
    rules, state = kitchen
    belief = believed(rules, [state]).filled(Random(2))
    rng = Random(3)
    drawn = Counter(belief.draw(rng).places for _ in range(4000))
    both = {
        number: sum(count for places, count in drawn.items() if places[2].count(0) == number)
        for number in range(3)
    }
    assert both[0] == pytest.approx(1000, abs=120)
    assert both[1] == pytest.approx(2000, abs=140)
    # What no goal names is drawn once.
    assert len({tuple(tuple(t for t in place if t) for place in places) for places in drawn}) == 1


def test_a_drawn_state_has_seen_what_the_agent_saw():
    rules = own_task("unseen", "two plates in the dishwasher and an apple in the fridge").rules
    prior = ((1.0,) * len(rules.home.places),) * len(rules.things)
    rng = Random(1)
    for seed in range(4):
        states = [state for state, _, _ in walk(rules, rules.start(rng), steps=30, seed=seed)]
        belief = Belief.at_start(rules, prior, rules.observe(states[0]))
        for state in states:
            belief = belief if state is states[0] else belief.after(rules.observe(state))
            full = belief.filled(Random(seed))
            for drawn in (full.draw(rng), full.draw(rng)):
                assert rules.observe(drawn) == rules.observe(state)
                assert rules.observe(drawn).shown == rules.observe(state).shown
                assert (drawn.opened, drawn.steps) == (state.opened, state.steps)
                assert rules.actions(drawn) == rules.actions(state)
                things = sorted(thing for place in (drawn.held, *drawn.places) for thing in place)
                assert things == sorted(t for t, n in enumerate(rules.number) for _ in range(n))
            # Where things of the goal truly are never counts as impossible.
            for place, things in enumerate(state.places):
                for thing in set(things) & set(belief.hidden):
                    if thing < rules.named and belief.seen[place] is None:
                        assert belief.probabilities(thing)[place] > 0


def test_a_household_draws_from_its_belief(kitchen):
    rules, state = kitchen
    task = Task(name="kitchen", rules=rules, start=state)
    uniform, law = Household(task), Household(task, belief="law")
    # Fridge, chest and bench are unseen. By the law a pear lies there with weights 3, 0 and 2.
    assert uniform.believed(()).probabilities(1) == pytest.approx((1 / 3, 0, 1 / 3, 1 / 3))
    assert law.believed(()).probabilities(1) == pytest.approx((3 / 5, 0, 0, 2 / 5))
    history, walked = (), state
    for sentence in ("walk to the fridge", "open the fridge"):
        action = next(action for action in uniform.actions(walked) if str(action) == sentence)
        step = uniform.step(walked, action, Random(0))
        history, walked = (*history, (action, step.observation)), step.state
    drawn = [uniform.belief(history, Random(seed)) for seed in range(20)]
    assert {state.places[0] for state in drawn} == {(1,)}
    assert {state.places[2].count(0) for state in drawn} == {0, 1, 2}
    assert {state.places[2].count(3) + state.places[3].count(3) for state in drawn} == {1}
    assert {state.steps for state in drawn} == {2}
    assert uniform.belief((), Random(1)).steps == 0
