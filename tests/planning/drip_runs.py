"""Blocks and runs for the tests of DRIP."""

from dataclasses import replace

import runs
from runs import run_in

from llm_planning.environments.blocksworld.blocks import TABLE, BlockAction, Blocks, Goal, Puzzle
from llm_planning.environments.blocksworld.domain import Blocksworld
from llm_planning.planners.drip.specs import SPECS
from llm_planning.trace import recording

PLANNERS = {spec.name: spec for spec in SPECS}


def below(text):
    """Block -> what it stands on, in towers such as "c-b a", each from its top."""
    return {
        block: under
        for tower in text.split()
        for block, under in zip(tower.split("-"), [*tower.split("-")[1:], TABLE], strict=True)
    }


def state(text):
    return Blocks.of(below(text))


def blocks(start, goal, *, kind=Blocksworld):
    """The world with these towers at the start and in the goal, which asks nothing of the table."""
    wanted = [pair for pair in sorted(below(goal).items()) if pair[1] != TABLE]
    return kind(Puzzle("test", state(start), Goal(tuple(wanted))))


def action(text):
    """The action of a text such as "stack a b"."""
    verb, *names = text.replace("unstack blocks", "unstack_blocks").split()
    return BlockAction(verb.replace("_", " "), *names)


FIGURE_3 = blocks("y-b-r o", "y-r-o")
"""The example of Figures 3 and 4: yellow on blue on red; orange."""

SECTION_4_1_4 = blocks("c-b-d-a-j-h-e-g-f-i", "g-f-i-c-b-d-a-j-h")
"""The state in which the published method fails."""


async def run(name, world, *, seed=0, engine=None, roles="rules", **settings):
    spec = PLANNERS[name]
    given = spec.settings.read({"roles": str(roles), **settings})
    return await spec.run(run_in(world, given, engine, domain="blocksworld", seed=seed))


async def run_with_events(name, world, **settings):
    """A run and the events of its tree: number, subtask, verdict, status and places in the plan."""
    with recording() as trace:
        outcome = await run(name, world, **settings)
    return outcome, [
        (event["id"], event["subtask"], event["verdict"], event["status"], event["steps"])
        for event in trace.events
        if event["type"] == "subtask"
    ]


def roles_file(folder, **roles):
    """A file of roles; rules answer those that it does not name."""
    return runs.roles_file(folder, "decompose", "judge", "apply", "act", **roles)


def renamed(world, **changes):
    """A copy of a world with other attributes or methods."""
    copy = type(world)(replace(world.puzzle))
    for name, value in changes.items():
        setattr(copy, name, value)
    return copy
