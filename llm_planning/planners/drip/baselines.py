"""The baselines of the paper: ReAct, and two that plan in one answer, from the initial state alone.

    drip-react      a thought and an action in turn (Section 4.1.2), on the state that the actuator
                    gives. A model writes an action of the domain's language, and the role `apply`
                    acts, as for DRIP. The goal is tested, as Section 4.2.1 does in Minecraft;
                    with `end=said` the model says the end instead. (`react` of every domain
                    chooses among listed actions, in the real world.)
    drip-cot        Chain of Thought in Blocksworld (Section 4.1.2): the plan is judged as DRIP's
                    own, carried out whole
    plan-and-solve  what the paper calls CoT in Minecraft (Section 4.2.1): steps are carried out in
                    turn; one that is done only in part is tried again, one that fails is left

Source: Wang et al., "Plan-and-Solve Prompting: Improving Zero-Shot Chain-of-Thought Reasoning by
Large Language Models" (2023).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_planning.domain_calls import settled
from llm_planning.execution.episode import execute, milestone_lines
from llm_planning.execution.option_roles import PlanAsking
from llm_planning.execution.whole_plans import executed_plan, written_plan
from llm_planning.outcome import Outcome
from llm_planning.planners.drip.acting import Acting, demand_primitives, ending_of
from llm_planning.planners.drip.outcome import Planned, carried_out, outcome_of
from llm_planning.planners.drip.roles import END, NextAction

if TYPE_CHECKING:
    from llm_planning.execution.episode import Execution
    from llm_planning.execution.option_settings import OneAnswerSettings
    from llm_planning.execution.options import OptionDomain
    from llm_planning.execution.whole_plans import WrittenPlan
    from llm_planning.planners.drip.acting import Ending
    from llm_planning.planners.drip.roles import DripDomain
    from llm_planning.planners.drip.settings import PlanAndSolveSettings, ReactSettings
    from llm_planning.specs import Run


async def react(run: Run[DripDomain[Any, Any], ReactSettings]) -> Outcome:
    """ReAct with an actuator."""

    async def planned(run: Run[DripDomain[Any, Any], ReactSettings]) -> Planned[Any, Any]:
        acting = await Acting.begin(run)
        ending = await ending_of(_react(acting, run.settings))
        return Planned(acting, acting.plan, ending)

    return await outcome_of(run, planned)


async def _react(acting: Acting[Any, Any], settings: ReactSettings) -> Ending:
    """Acts until the end is said or tested, and says why it stopped."""
    act = acting.asking.of(acting.roles.act(reason=settings.reason))
    history: list[str] = []

    async def reached() -> bool:
        return bool(await settled(acting.domain.success(acting.state)))

    tested = settings.end == "tested"
    for _ in range(settings.moves):
        if tested and await reached():
            return "goal"
        here = await acting.described()
        actions = await act(NextAction(acting.domain.goal, acting.state, here, tuple(history)))
        if not actions:
            if not tested:
                return "goal"
            # Or a model that answers greedily would be asked the same until the last move.
            history.append(f"{END} (the goal is not reached)")
        for action in actions:
            done = await acting.apply(action)
            history.append(f"{action}" if done else f"{action} (impossible)")
    return "goal" if tested and await reached() else "moves"


async def chain_of_thought(run: Run[OptionDomain[Any, Any], OneAnswerSettings]) -> Outcome:
    """CoT: plans by one answer, and carries all of it out, also beyond the goal."""
    ask: PlanAsking[Any, Any] = PlanAsking(run.world, run.engines, run.settings, seed=run.seed)
    plan = await written_plan(ask)
    return _outcome(run, ask, plan, await carried_out(run.world, plan.options, seed=run.seed))


async def plan_and_solve(run: Run[OptionDomain[Any, Any], PlanAndSolveSettings]) -> Outcome:
    """Plans by one answer, and carries its steps out with several tries each.

    Raises:
        SettingsError: the domain has no control primitives for skills or programs.
    """
    world, settings, seed = run.world, run.settings, run.seed
    demand_primitives(world, settings)
    ask: PlanAsking[Any, Any] = PlanAsking(world, run.engines, settings, seed=seed)
    plan = await written_plan(ask)
    if settings.execution == "direct":
        tried = await execute(world, plan.options, seed=seed, tries=settings.tries)
        return _outcome(run, ask, plan, tried)
    execution = settings.of_execution(settings.d)
    extras = {"trace": {"steps": plan.to_json()}, "text": str(plan)}
    return await executed_plan(plan.options, run, ask, execution, **extras)


def _outcome(
    run: Run[Any, OneAnswerSettings],
    ask: PlanAsking[Any, Any],
    plan: WrittenPlan[Any],
    execution: Execution[Any, Any],
) -> Outcome:
    lines = [f"carried out: the goal is {'reached' if execution.success else 'not reached'}"]
    if (failed := execution.first_failed) is not None:
        lines.append(f"first option that failed: {failed.action} ({failed.step.obstacle})")
    return Outcome(
        success=execution.success,
        plan=tuple(map(str, plan.options)),
        metrics={**execution.metrics(), "options_planned": len(plan.steps)},
        trace={
            **run.header,
            "steps": plan.to_json(),
            "oracles": ask.oracles,
            "execution": execution.to_json(),
        },
        text="\n".join([f"{plan}\n", *lines, *milestone_lines(execution.milestones)]),
    )
