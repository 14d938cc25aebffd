"""Drawn homes: what they have, and what they keep from lessons."""

from itertools import combinations
from random import Random

import pytest

from llm_planning.environments.household import drawn, tasks
from llm_planning.environments.household.drawn import (
    CONTAINERS,
    HOMES,
    ROOMS,
    SURFACES,
    THINGS,
    drawn_home,
    drawn_task,
)
from llm_planning.environments.household.expert import Expert
from llm_planning.environments.household.home import bundled_home
from llm_planning.environments.household.names import unique_name
from llm_planning.environments.household.tasks import pairs_of, split_of
from llm_planning.planners.llm_mcts import exercises
from llm_planning.planners.llm_mcts.exercises import (
    GoalExercises,
    PolicyExercises,
    PositionExercises,
)
from llm_planning.planners.llm_mcts.positions import KNOWN


def places(home):
    return {place.name for place in home.places}


def taught_tasks(count):
    """Drawn tasks as lessons have them."""
    for seed in range(count):
        rng = Random(seed)
        yield drawn_task(drawn_home(rng.randrange(HOMES)), rng.randint(1, 3), rng)


def test_the_homes_of_this_project_have_the_same_names():
    """So no name can be held out of lessons; pairs and laws are."""
    seen, unseen = map(bundled_home, ("seen", "unseen"))
    assert set(seen.things) == set(unseen.things)
    assert places(seen) == places(unseen)
    assert set(seen.rooms) == set(unseen.rooms)
    assert seen.law != unseen.law


def test_the_words_are_new_and_used_as_something_of_the_seen_home():
    seen = bundled_home("seen")
    others = [
        *ROOMS,
        *CONTAINERS,
        *SURFACES,
        *(name for names in THINGS.values() for name in names),
    ]
    old = {*seen.rooms, *places(seen), *seen.things, *(thing for thing, _ in KNOWN)}
    assert len({*map(unique_name, others)}) == len(others)
    assert not {*map(unique_name, others)} & {*map(unique_name, old)}
    assert {*CONTAINERS.values(), *SURFACES.values()} == places(seen)


def test_every_home_is_another_one_and_none_is_bundled():
    known = places(bundled_home("seen"))
    homes = [drawn_home(number) for number in range(HOMES)]
    assert len({(home.rooms, home.places, home.law) for home in homes}) == HOMES
    for home in homes:
        assert known - places(home)
        assert places(home) - known
        assert all(sum(weight > 0 for weight in law) >= 3 for law in home.law)


def test_what_is_held_out_in_the_seen_home_is_wanted_nowhere():
    seen = bundled_home("seen")
    split = split_of(seen)
    names = {*seen.things, *places(seen)}
    held_out = {*pairs_of(seen)} - {*split.pairs}
    new = 0
    for task in taught_tasks(400):
        pairs = [(wanted.thing, wanted.place) for wanted in task.rules.goal]
        assert not held_out & {*pairs}
        for both in combinations(pairs, 2):
            known = {name for pair in both for name in pair} <= names
            assert not known or frozenset(both) in split.compositions
            new += not known
    assert new > 100


def test_every_task_can_be_solved_in_time():
    for task in taught_tasks(200):
        assert 1 < Expert(task.rules).length(task.start) <= 25


def test_nothing_of_the_unseen_home_is_read_for_lessons(monkeypatch):
    def seen_only(name):
        assert name == "seen"
        return bundled_home(name)

    for module in (drawn, tasks, exercises):
        monkeypatch.setattr(module, "bundled_home", seen_only)
    for kept in (drawn.drawn_home, drawn._taught_pairs, drawn._of_seen, exercises._maker):
        kept.cache_clear()
    makers = (PolicyExercises(), GoalExercises(), PositionExercises())
    made = [len(maker.make(Random(n), held_out=False)) for n in range(20) for maker in makers]
    assert min(made) >= 1
    with pytest.raises(AssertionError):
        PositionExercises().make(Random(1), held_out=True)


@pytest.mark.parametrize("problem_seed", [7, 101])
def test_no_problem_of_a_table_is_a_lesson(problem_seed):
    maker = tasks.TaskMaker(bundled_home("seen"))
    problems = {
        (task.rules.goal, task.start.places)
        for name in tasks.CLASSES
        for task in (maker.task(name, number, seed=problem_seed) for number in range(1, 101))
    }
    taught = set()
    for number in range(300):
        task, kinds = exercises._task(Random(number), held_out=False)
        if kinds["home"] == "seen":
            taught.add((task.rules.goal, task.start.places))
    assert len(taught) > 60
    assert not problems & taught
