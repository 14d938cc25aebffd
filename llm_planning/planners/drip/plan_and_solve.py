"""Plan-and-Solve, which DRIP's paper calls CoT in Minecraft (Section 4.2.1).

One answer plans all steps, and they are carried out one by one. A step that is done only in part is
tried again; a step that fails is left, and the plan goes on. Nothing is planned anew.

Source: Wang et al., "Plan-and-Solve Prompting: Improving Zero-Shot Chain-of-Thought Reasoning by
Large Language Models" (2023).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_planning.execution.episode import execute, told_milestones
from llm_planning.outcome import Outcome
from llm_planning.planners.drip.actuator import demand_primitives
from llm_planning.planners.tree_of_options.planner import executed_plan, first_state
from llm_planning.planners.tree_of_options.roles import OptionRoles

if TYPE_CHECKING:
    from llm_planning.execution.episode import Execution
    from llm_planning.planners.drip.settings import PlanAndSolveSettings
    from llm_planning.planners.tree_of_options.states import OptionDomain
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem


async def plan_and_solve(
    problem: Problem[OptionDomain[Any, Any]],
    *,
    engines: Engines,
    settings: PlanAndSolveSettings,
    seed: int,
) -> Outcome:
    """Plans by one answer, as CoT does, and carries its steps out with several tries each.

    Args:
        problem: its domain has a `grammar`.
        engines: answer the role `decompose`, and what is asked about programs.
        settings: of the question and the tries.
        seed: of the start, the answer and the world.

    Raises:
        SettingsError: the domain has no control primitives for skills or programs.
    """
    demand_primitives(problem.world, settings)
    ask: OptionRoles[Any, Any] = OptionRoles(problem.world, engines, settings, seed=seed)
    steps = await ask.decompose()(await first_state(problem.world, seed))
    plan = [step.proposed for step in steps]
    told = [f"{i}. {one.proposed} ({one.reasoning})" for i, one in enumerate(steps, start=1)]
    reasons = [{"option": str(one.proposed), "reasoning": one.reasoning} for one in steps]
    if settings.execution != "direct":
        return await executed_plan(
            plan,
            problem,
            ask,
            settings.of_execution(settings.d),
            metrics={},
            trace={"steps": reasons},
            text="\n".join(told),
        )
    execution = await execute(problem.world, plan, seed=seed, tries=settings.tries)
    return Outcome(
        success=execution.success,
        plan=tuple(map(str, plan)),
        metrics={**execution.metrics(), "options_planned": len(plan)},
        trace={
            "task": problem.task,
            "goal": problem.world.goal,
            "seed": seed,
            "settings": settings.to_json(),
            "steps": reasons,
            "oracles": ask.oracles,
            "execution": execution.to_json(),
        },
        text="\n".join(told) + f"\n\n{_verdict(execution)}",
    )


def _verdict(execution: Execution[Any, Any]) -> str:
    """Says for people whether the plan reached the goal, and which option failed first."""
    lines = [f"carried out: the goal is {'reached' if execution.success else 'not reached'}"]
    failed = execution.first_failed
    if failed is not None:
        lines.append(f"first option that failed: {failed.action} ({failed.step.obstacle})")
    lines += told_milestones(execution.milestones)
    return "\n".join(lines)
