"""The baselines that plan in one answer, from the initial state alone. Nothing is planned anew.

    drip-cot        Chain of Thought in Blocksworld (Section 4.1.2): the plan is judged as DRIP's
                    own, carried out whole
    plan-and-solve  what the paper calls CoT in Minecraft (Section 4.2.1): steps are carried out in
                    turn; one that is done only in part is tried again, one that fails is left

Source: Wang et al., "Plan-and-Solve Prompting: Improving Zero-Shot Chain-of-Thought Reasoning by
Large Language Models" (2023).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_planning.execution.episode import execute, told_milestones
from llm_planning.execution.option_roles import PlanAsking
from llm_planning.execution.whole_plans import executed_plan, first_state
from llm_planning.outcome import Outcome
from llm_planning.planners.drip.actuator import demand_primitives
from llm_planning.planners.drip.outcome import carried_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.execution.episode import Execution
    from llm_planning.execution.options import Candidate, OptionDomain
    from llm_planning.planners.drip.settings import OneAnswerSettings, PlanAndSolveSettings
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem


async def chain_of_thought(
    problem: Problem[OptionDomain[Any, Any]],
    *,
    engines: Engines,
    settings: OneAnswerSettings,
    seed: int,
) -> Outcome:
    """CoT: plans by one answer, and carries all of it out, also beyond the goal."""
    ask: PlanAsking[Any, Any] = PlanAsking(problem.world, engines, settings, seed=seed)
    steps = await ask.decompose()(await first_state(problem.world, seed))
    plan = [step.proposed for step in steps]
    return _outcome(problem, ask, steps, await carried_out(problem.world, plan, seed=seed))


async def plan_and_solve(
    problem: Problem[OptionDomain[Any, Any]],
    *,
    engines: Engines,
    settings: PlanAndSolveSettings,
    seed: int,
) -> Outcome:
    """Plans by one answer, and carries its steps out with several tries each.

    Raises:
        SettingsError: the domain has no control primitives for skills or programs.
    """
    demand_primitives(problem.world, settings)
    ask: PlanAsking[Any, Any] = PlanAsking(problem.world, engines, settings, seed=seed)
    steps = await ask.decompose()(await first_state(problem.world, seed))
    plan = [step.proposed for step in steps]
    if settings.execution != "direct":
        return await executed_plan(
            plan,
            problem,
            ask,
            settings.of_execution(settings.d),
            metrics={},
            trace={"steps": _reasons(steps)},
            text=_told(steps),
        )
    execution = await execute(problem.world, plan, seed=seed, tries=settings.tries)
    return _outcome(problem, ask, steps, execution)


def _outcome(
    problem: Problem[Any],
    ask: PlanAsking[Any, Any],
    steps: Sequence[Candidate[Any]],
    execution: Execution[Any, Any],
) -> Outcome:
    return Outcome(
        success=execution.success,
        plan=tuple(str(step.proposed) for step in steps),
        metrics={**execution.metrics(), "options_planned": len(steps)},
        trace={
            "task": problem.task,
            "goal": problem.world.goal,
            "seed": ask.seed,
            "settings": ask.settings.to_json(),
            "steps": _reasons(steps),
            "oracles": ask.oracles,
            "execution": execution.to_json(),
        },
        text=f"{_told(steps)}\n\n{_verdict(execution)}",
    )


def _reasons(steps: Sequence[Candidate[Any]]) -> list[dict[str, str]]:
    return [{"option": str(one.proposed), "reasoning": one.reasoning} for one in steps]


def _told(steps: Sequence[Candidate[Any]]) -> str:
    return "\n".join(
        f"{i}. {one.proposed} ({one.reasoning})" for i, one in enumerate(steps, start=1)
    )


def _verdict(execution: Execution[Any, Any]) -> str:
    """Says for people whether the plan reached the goal, and which option failed first."""
    lines = [f"carried out: the goal is {'reached' if execution.success else 'not reached'}"]
    failed = execution.first_failed
    if failed is not None:
        lines.append(f"first option that failed: {failed.action} ({failed.step.obstacle})")
    lines += told_milestones(execution.milestones)
    return "\n".join(lines)
