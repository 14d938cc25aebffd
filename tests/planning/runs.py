"""A planner's run in a world that a test made."""

from llm_planning.roles import Engines, metered
from llm_planning.specs import Run


def run_in(world, settings, engine=None, *, domain="test", task="test", seed=0):
    return Run(
        domain=domain,
        task=task,
        world=world,
        engines=metered(Engines(engine)) if engine else Engines(engine),
        settings=settings,
        seed=seed,
    )
