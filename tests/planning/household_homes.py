"""A small home for tests, and walks through homes."""

from dataclasses import replace
from random import Random

from llm_planning.environments.household.goals import read_goal
from llm_planning.environments.household.home import bundled_home, read_home
from llm_planning.environments.household.tasks import TaskMaker

FLAT = """\
rooms:
  kitchen: {containers: [fridge], surfaces: [table]}
  hall: {containers: [chest], surfaces: [bench]}
things:
  food: {names: [apple, pear], lie: {fridge: 3, table: 1, bench: 2}, goals: [fridge, table, chest]}
  rest: {names: [hat, ball], lie: {chest: 1, bench: 1}, goals: [bench, table]}
several: {apple: 2}
"""


def flat(folder):
    """The home of a file with the text `FLAT`."""
    return named("flat", FLAT, folder)


def named(name, text, folder):
    """The home of a file, by a name of its own: tasks are drawn by it, and folders change."""
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return replace(read_home(str(path)), name=name, trained_in=name)


def own_task(home, goal, *, number=1, **options):
    """A task with a goal in words, in a home or in a bundled one of this name."""
    home = bundled_home(home) if isinstance(home, str) else home
    return TaskMaker(home, **options).own_task(read_goal(goal, home), number, seed=1)


def walk(rules, state, *, steps, seed):
    """States of a random walk with their actions and the action that was taken."""
    rng = Random(seed)
    for _ in range(steps):
        if not (actions := rules.actions(state)):
            return
        action = rng.choice(actions)
        yield state, actions, action
        state = rules.after(state, action)


def following(rules, state, plan):
    """States of a plan, written as sentences, from the start to the end."""
    states = [state]
    for sentence in plan:
        action = next(action for action in rules.actions(states[-1]) if str(action) == sentence)
        states.append(rules.after(states[-1], action))
    return states
