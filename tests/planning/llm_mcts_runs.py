"""A tiny home for the planners of LLM-MCTS, and how these are run."""

from household_homes import named, own_task
from runs import run_in

from llm_planning.environments.household.domain import Household
from llm_planning.planners.llm_mcts.settings import HomeSettings
from llm_planning.planners.llm_mcts.specs import SPECS

PLANNERS = {spec.name: spec for spec in SPECS if issubclass(spec.settings, HomeSettings)}

TINY = """\
rooms:
  kitchen: {containers: [fridge], surfaces: [table]}
  hall: {containers: [chest], surfaces: [bench]}
things:
  food: {names: [pear], lie: {fridge: 3, bench: 2, chest: 1}, goals: [table]}
  rest: {names: [hat], lie: {fridge: 1, bench: 1}, goals: [table]}
"""
"""Two rooms of two places, a pear that the goal wants, and a hat that it does not."""


def tiny(folder):
    return named("tiny", TINY, folder)


def tiny_task(folder, goal="the pear on the table", *, number=1, **options):
    return own_task(tiny(folder), goal, number=number, **options)


def the_pear_in_the_chest(folder):
    """A task of which the agent begins in the kitchen."""
    tasks = (tiny_task(folder, number=number) for number in range(1, 200))
    return next(task for task in tasks if 0 in task.start.places[2] and task.start.room == 0)


async def run(name, world, *, engine=None, seed=0, **settings):
    """An episode; `world` may be a task, in a home that is not seen whole."""
    if not hasattr(world, "first_belief"):
        world = Household(world)
    spec = PLANNERS[name]
    given = spec.settings.read(settings)
    where = {"domain": "household", "task": "rearrange"}
    return await spec.run(run_in(world, given, engine, **where, seed=seed))


def statistics(outcome):
    """Of each decision: action -> N, Q and π."""
    return [
        {
            option["action"]: (option.get("N"), option.get("Q"), option["prior"])
            for option in move["options"]
        }
        for move in outcome.trace["moves"]
    ]
