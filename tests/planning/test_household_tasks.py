"""Tasks of five classes, the expert and its trajectories."""

import re
from collections import deque
from itertools import combinations, cycle
from random import Random
from statistics import mean

import pytest
from household_homes import FLAT, flat, own_task, walk

from llm_planning.domain import DomainError
from llm_planning.environments.household.expert import Expert
from llm_planning.environments.household.home import BUNDLED, bundled_home, read_home
from llm_planning.environments.household.tasks import (
    CLASSES,
    PROMPT_INSTANCES,
    TRAJECTORIES,
    TaskMaker,
    pairs_of,
    prompt_numbers,
    split_of,
    trajectories,
    trajectory,
)

EVALUATED = 80
"""Evaluation tasks of each class and home: 800 in all (Section 3.1)."""

MEANS = dict(zip(CLASSES, (7, 13, 7, 13, 19), strict=True))
"""Class -> the most actions that the expert may need on average."""


def test_what_is_trained():
    home = bundled_home("seen")
    split = split_of(home)
    pairs = pairs_of(home)
    assert set(split.pairs) < set(pairs)
    assert len(split.pairs) == pytest.approx(0.75 * len(pairs), abs=1)
    for part in (0, 1):
        assert {pair[part] for pair in split.pairs} == {pair[part] for pair in pairs}
    possible = [
        frozenset(both) for both in combinations(split.pairs, 2) if both[0][0] != both[1][0]
    ]
    assert split.compositions < set(possible)
    assert len(split.compositions) == pytest.approx(0.5 * len(possible), rel=0.03)


@pytest.mark.parametrize(("home", "name"), zip(cycle(BUNDLED), CLASSES, strict=False))
def test_a_class_is_what_appendix_a2_says(home, name):
    split = split_of(bundled_home("seen"))
    maker = TaskMaker(bundled_home(home))
    goals = set()
    for number in range(1, 41):
        goal = maker.task(name, number, seed=3).rules.goal
        pairs = [(wanted.thing, wanted.place) for wanted in goal]
        goals.add(frozenset(pairs))
        assert (
            len({wanted.thing for wanted in goal})
            == len(goal)
            == {"c": 2, "2": 2, "3": 3}.get(name[-1] if name.startswith("novel-c") else name[0], 1)
        )
        trained = [pair in split.pairs for pair in pairs]
        both = [frozenset(some) in split.compositions for some in combinations(pairs, 2)]
        assert not any(trained) if name == "novel-simple" else all(trained)
        assert all(both) if name == "comp" else not any(both)
        if name == "novel-simple":
            assert pairs[0][0] in {thing for thing, _ in split.pairs}
            assert pairs[0][1] in {place for _, place in split.pairs}
    assert len(goals) > 30


def test_tasks_are_drawn_one_by_one():
    maker = TaskMaker(bundled_home("unseen"))
    task = maker.task("comp", 7, seed=1)
    maker.task("comp", 6, seed=1)
    again = TaskMaker(bundled_home("unseen")).task("comp", 7, seed=1)
    assert (task.name, task.start, task.rules.goal) == (again.name, again.start, again.rules.goal)
    assert maker.task("comp", 7, seed=2).start != task.start
    assert maker.task("comp", 8, seed=1).start != task.start


def test_a_home_without_tasks_of_a_class_says_so(tmp_path):
    path = tmp_path / "home.yaml"
    path.write_text(FLAT.replace(", goals: [fridge, table, chest]", "").replace(", table]}", "]}"))
    maker = TaskMaker(read_home(str(path)))
    assert maker.task("simple", 1, seed=1).rules.goal
    with pytest.raises(DomainError, match=re.escape("has no tasks class=novel-comp-3: its goals")):
        maker.task("novel-comp-3", 1, seed=1)


def lengths(tasks):
    """Class -> lengths of the expert's ways, each of which reaches its goal within 30 steps."""
    steps = {}
    for task in tasks:
        way = trajectory(task)
        state = way.states[0]
        for expected, action in zip(way.states, way.actions, strict=True):
            assert state == expected
            state = task.rules.after(state, action)
        assert task.rules.success(state)
        assert len(way.actions) <= 30
        assert len(way.actions) == Expert(task.rules).length(task.start)
        steps.setdefault((task.name.split()[0], task.name.split()[1]), []).append(len(way.actions))
    return steps


@pytest.mark.parametrize("home", BUNDLED)
def test_the_expert_reaches_every_goal_in_few_steps(home):
    maker = TaskMaker(bundled_home(home))
    steps = lengths(maker.task(name, n, seed=5) for name in CLASSES for n in range(1, 21))
    for (_, name), some in steps.items():
        assert mean(some) <= MEANS[name]


@pytest.mark.slow
def test_the_expert_reaches_every_goal_of_the_evaluation():
    makers = [TaskMaker(bundled_home(home)) for home in BUNDLED]
    steps = lengths(
        maker.task(name, number, seed=1)
        for maker in makers
        for name in CLASSES
        for number in range(1, EVALUATED + 1)
    )
    assert len(steps) == 10
    for (_, name), some in steps.items():
        assert len(some) == EVALUATED
        assert mean(some) <= MEANS[name]


def fewest(rules, state):
    """The fewest actions to the goal, by breadth first."""
    waiting, known = deque([(state, 0)]), {state._replace(steps=0)}
    while waiting:
        state, length = waiting.popleft()
        if rules.success(state):
            return length
        for action in rules.actions(state):
            after = rules.after(state, action)._replace(steps=0)
            if after not in known:
                known.add(after)
                waiting.append((after, length + 1))
    raise AssertionError("the goal cannot be reached")


@pytest.mark.parametrize("hands", [1, 2])
@pytest.mark.parametrize(
    "goal", ["two apples in the fridge", "the apple on the table and the hat on the table"]
)
def test_no_plan_is_shorter_than_the_experts(tmp_path, goal, hands):
    rules = own_task(flat(tmp_path), goal, hands=hands).rules
    expert = Expert(rules)
    for seed in range(2):
        start = rules.start(Random(seed))
        for number, (state, _, _) in enumerate(walk(rules, start, steps=14, seed=seed)):
            if number % 6 == 0:
                assert expert.length(state) == len(expert.plan(state)) == fewest(rules, state)


def test_training_tasks_are_of_trained_pairs():
    split = split_of(bundled_home("seen"))
    for way in trajectories(seed=2, numbers=range(1, 41)):
        pairs = [(wanted.thing, wanted.place) for wanted in way.task.rules.goal]
        assert set(pairs) <= set(split.pairs)
        assert len(pairs) == 1 or frozenset(pairs) in split.compositions


def test_the_subset_for_prompts():
    numbers = prompt_numbers(seed=1)
    assert len(set(numbers)) == len(numbers) == PROMPT_INSTANCES
    assert 1 <= min(numbers) <= max(numbers) <= TRAJECTORIES
    assert numbers == prompt_numbers(seed=1) != prompt_numbers(seed=2)
