"""ReAct over options and over actions (Section 4.1): they propose in the real state, and act.

Both see what the world said of each option before. They end when the world is won, or the attempts
are used up: nobody is asked whether the goal is reached.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.executing import Executing
from llm_planning.planners.tree_of_options.planner import outcome_of
from llm_planning.planners.tree_of_options.policies import Verbs, policies_of
from llm_planning.planners.tree_of_options.prompts import NOW

if TYPE_CHECKING:
    from llm_planning.outcome import Outcome
    from llm_planning.planners.tree_of_options.settings import ExecutionSettings
    from llm_planning.planners.tree_of_options.states import OptionDomain
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem


async def react_option(
    problem: Problem[OptionDomain[Any, Any]],
    *,
    engines: Engines,
    settings: ExecutionSettings,
    seed: int,
) -> Outcome:
    """ReAct-Option: proposes one option and executes it (Algorithm 2), in turn."""
    ask: OptionAsking[Any, Any] = OptionAsking(problem.world, engines, settings, seed=seed)
    propose = ask.propose(1, NOW)
    policies = await policies_of(problem.world, ask, settings)
    executed = []
    for number in range(settings.executions):
        run = await Executing.begin(problem, policies, settings, seed=seed, number=number)
        planned = 0
        while run.goes_on:
            for candidate in await propose(await run.state()):
                await run.execute(candidate.proposed, planned)
                planned += 1
        executed.append(await run.recorded())
    done = [attempt.option for attempt in executed[0].attempts if attempt.m == 1]
    return outcome_of(done, problem, ask, executed, policies, metrics={}, trace={}, text="")


async def react_action(
    problem: Problem[OptionDomain[Any, Any]],
    *,
    engines: Engines,
    settings: ExecutionSettings,
    seed: int,
) -> Outcome:
    """ReAct-Action: proposes one action of the smallest kind and takes it, in turn.

    Every action is an attempt. There is no in-option policy, so nothing is refined.
    """
    units: Any = problem.world
    units = units.in_units()
    alone = settings.model_copy(update={"refinements": 1})
    ask: OptionAsking[Any, Any] = OptionAsking(units, engines, alone, seed=seed)
    propose = ask.propose(1, NOW)
    policies: Verbs[Any, Any] = Verbs(ask)
    small = replace(problem, world=units)
    executed = []
    for number in range(settings.executions):
        run = await Executing.begin(small, policies, alone, seed=seed, number=number)
        while run.goes_on:
            for candidate in await propose(await run.state()):
                await run.execute(units.unit(candidate.proposed), len(run.attempts))
        executed.append(await run.recorded())
    done = [attempt.option for attempt in executed[0].attempts]
    return outcome_of(done, small, ask, executed, policies, metrics={}, trace={}, text="")
