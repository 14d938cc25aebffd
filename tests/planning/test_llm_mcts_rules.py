"""The policy by rules: what an expert would do, with stated shares and errors that stay."""

from collections import Counter
from math import exp
from random import Random

import pytest
from household_homes import own_task, walk
from llm_mcts_runs import tiny_task

from llm_planning.environments.household.belief import Belief
from llm_planning.environments.household.expert import Expert
from llm_planning.environments.household.home import bundled_home
from llm_planning.environments.household.rules import NOWHERE, State
from llm_planning.environments.household.tasks import TaskMaker
from llm_planning.planners.llm_mcts.roles import (
    POLICY,
    BelievedChoice,
    best_action,
    likeliest,
    situation_of,
)
from llm_planning.roles import Oracle
from llm_planning.roles.oracles import Errors

ACTIONS = ("walk to the hall", "walk to the pear", "open the fridge", "grab the pear", "close it")
RIGHT = "open the fridge"


def choice(situation=0, *, actions=ACTIONS):
    return BelievedChoice(actions, RIGHT, ((situation,),))


def oracle(kind="systematic", rate=0.7, seed=1):
    return Oracle("prior", POLICY.rule, errors=Errors(rate=rate, kind=kind), seed=seed)


async def pi(asked, question):
    """Action -> π."""
    shares = [exp(logprob) for logprob in await asked(question)]
    assert sum(shares) == pytest.approx(1)
    return dict(zip(question.actions, shares, strict=True))


def wrong_one(policy):
    (wrong,) = [action for action, p in policy.items() if p == pytest.approx(0.7)] or [None]
    return wrong


# SHARES ------------------------------------------------------------------------------------------


async def test_where_the_oracle_is_right():
    policy = await pi(oracle(rate=1.0), choice())
    assert policy.pop(RIGHT) == pytest.approx(0.9)
    assert list(policy.values()) == pytest.approx([0.1 / 4] * 4)


async def test_where_the_oracle_is_wrong():
    policy = await pi(oracle(rate=0.0), choice())
    assert policy.pop(RIGHT) == pytest.approx(0.15)
    assert sorted(policy.values()) == pytest.approx([0.05, 0.05, 0.05, 0.7])


async def test_few_actions():
    both = (RIGHT, "walk to the hall")
    assert list((await pi(oracle(rate=1.0), choice(actions=both))).values()) == pytest.approx(
        [0.9, 0.1]
    )
    # .15 and .70 are all that there is.
    assert list((await pi(oracle(rate=0.0), choice(actions=both))).values()) == pytest.approx(
        [0.15 / 0.85, 0.7 / 0.85]
    )
    assert await pi(oracle(rate=0.0), choice(actions=(RIGHT,))) == {RIGHT: pytest.approx(1)}


async def test_a_right_action_that_is_not_among_those_asked_about():
    # Where the search tries fewer actions, the others share what is left.
    others = tuple(action for action in ACTIONS if action != RIGHT)
    policy = await pi(oracle(rate=1.0), choice(actions=others))
    assert list(policy.values()) == pytest.approx([1 / 4] * 4)


# ERRORS ------------------------------------------------------------------------------------------


async def test_wrong_actions_are_any_of_the_others():
    asked = oracle(rate=0.0)
    counts = Counter([wrong_one(await pi(asked, choice(index))) for index in range(2000)])
    assert counts.keys() == set(ACTIONS) - {RIGHT}
    assert min(counts.values()) > 400


async def test_other_actions_do_not_change_a_systematic_error():
    asked, compared = oracle(rate=0.0), 0
    more = ("walk to the hat", "grab the hat", "walk to the ball")
    for situation in range(60):
        wrong = wrong_one(await pi(asked, choice(situation)))
        with_more = wrong_one(await pi(asked, choice(situation, actions=(*more, *ACTIONS))))
        # An action that comes may be a worse one; one that goes leaves the worst where it was.
        assert with_more in {wrong, *more}
        compared += with_more == wrong
        for gone in set(ACTIONS) - {RIGHT, wrong}:
            fewer = tuple(action for action in ACTIONS if action != gone)
            assert wrong_one(await pi(asked, choice(situation, actions=fewer))) == wrong
    assert compared > 20


# WHAT IS RIGHT -----------------------------------------------------------------------------------

FRIDGE, TABLE, CHEST, BENCH = range(4)


def kitchen(rules, prior, **changes):
    """The belief of someone who has come into the kitchen and sees no pear."""
    state = State(0, NOWHERE, 0, (), ((0,), (), (), (1,)))._replace(**changes)
    return Belief.at_start(rules, [prior, (1.0,) * 4], rules.observe(state))


@pytest.mark.parametrize(
    ("prior", "action"),
    [
        ((3.0, 0.0, 2.0, 2.0), "walk to the fridge"),
        ((1.0, 0.0, 1.0, 2.0), "walk to the hall"),
        # Of equals the one with the shorter way: the fridge is here.
        ((2.0, 0.0, 2.0, 2.0), "walk to the fridge"),
        # Weight where the goal wants the pear is none.
        ((1.0, 9.0, 2.0, 0.0), "walk to the hall"),
    ],
)
def test_the_expert_looks_where_the_thing_is_likeliest(tmp_path, prior, action):
    rules = tiny_task(tmp_path).rules
    assert str(best_action(kitchen(rules, prior), Expert(rules))) == action


def test_what_was_seen_counts_more_than_the_prior(tmp_path):
    rules = tiny_task(tmp_path).rules
    belief = kitchen(rules, (0.0, 0.0, 0.0, 1.0), at=FRIDGE, opened=1)
    assert belief.hidden == (1,)
    assert str(best_action(belief, Expert(rules))) == "grab the pear"


def test_several_hidden_things_are_all_where_they_are_likeliest(tmp_path):
    goal = "the pear on the table and the hat on the table"
    rules = tiny_task(tmp_path, goal).rules
    expert = Expert(rules)
    # Both may be in the fridge or in the chest; one way serves for both.
    belief = Belief.at_start(
        rules, [(1.0, 0.0, 1.0, 0.0)] * 2, rules.observe(State(0, NOWHERE, 0, (), ((), (), (), ())))
    )
    filled = likeliest(belief, expert)
    assert filled.places == ((0, 1), (), (), ())
    alike = [
        belief.certain.with_thing(0, place).with_thing(1, other)
        for place in (FRIDGE, CHEST)
        for other in (FRIDGE, CHEST)
    ]
    assert expert.length(filled) == min(map(expert.length, alike))


@pytest.mark.parametrize("home", ["seen", "unseen"])
@pytest.mark.parametrize("known", ["law", "uniform"])
def test_who_follows_the_right_actions_reaches_every_goal(home, known):
    # Who knows no places has to look into many.
    maker = TaskMaker(bundled_home(home), limit=30 if known == "law" else 40)
    for name in ("simple", "novel-comp-3"):
        for number in range(1, 7):
            task = maker.task(name, number, seed=4)
            rules, expert = task.rules, Expert(task.rules)
            even = ((1.0,) * len(rules.home.places),) * len(rules.things)
            state = task.start
            belief = Belief.at_start(
                rules, rules.law if known == "law" else even, rules.observe(state)
            )
            while not rules.ended(state):
                action = best_action(belief, expert)
                assert action in rules.actions(state)
                assert action in rules.useful(state)
                state = rules.after(state, action)
                belief = belief.after(rules.observe(state))
            assert rules.success(state)


# SITUATIONS --------------------------------------------------------------------------------------


def test_situations_are_what_an_oracle_may_depend_on(tmp_path):
    task = own_task("seen", "two apples in the fridge and a book on the sofa")
    rules = task.rules
    facts_of = {}
    for seed in range(20):
        states = [
            state for state, *_ in walk(rules, rules.start(Random(seed)), steps=25, seed=seed)
        ]
        belief = Belief.at_start(rules, rules.law, rules.observe(states[0]))
        for state in states:
            belief = belief if state is states[0] else belief.after(rules.observe(state))
            where = {
                (place, thing): things.count(thing)
                for place, things in enumerate(belief.seen)
                for thing in things or ()
                if thing < rules.named
            }
            facts = (
                *(state.room, state.at, state.held, belief.opened, belief.unseen),
                tuple(sorted(where.items())),
            )
            assert facts_of.setdefault(situation_of(belief), facts) == facts
    assert len(facts_of) == len(set(facts_of.values())) > 200


def test_things_that_no_goal_names_are_no_part_of_a_situation(tmp_path):
    rules = tiny_task(tmp_path).rules
    states = [
        State(0, NOWHERE, 0, (), ((), tuple([1] * here), (0,), tuple([1] * (1 - here))))
        for here in (0, 1)
    ]
    first, second = (Belief.at_start(rules, rules.law, rules.observe(state)) for state in states)
    assert first.now.shown != second.now.shown
    assert situation_of(first) == situation_of(second)


def test_tasks_of_one_seed_err_by_themselves(tmp_path):
    state = State(0, NOWHERE, 0, (), ((0,), (), (), (1,)))
    pear, hat = (
        tiny_task(tmp_path, f"the {thing} on the table").rules for thing in ("pear", "hat")
    )
    first, second = (
        Belief.at_start(rules, rules.law, rules.observe(state)) for rules in (pear, hat)
    )
    assert situation_of(first) != situation_of(second)
