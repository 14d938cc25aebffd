"""Plan-and-Solve, which DRIP's paper calls CoT in Minecraft (Section 4.2.1).

One answer plans all steps, and they are carried out one by one. A step that is done only in part is
tried again; a step that fails is left, and the plan goes on. Nothing is planned anew.

Source: Wang et al., "Plan-and-Solve Prompting: Improving Zero-Shot Chain-of-Thought Reasoning by
Large Language Models" (2023).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from llm_planning.planners.tree_of_options.planner import chain_of_thought
from llm_planning.planners.tree_of_options.settings import PromptSettings

if TYPE_CHECKING:
    from llm_planning.outcome import Outcome
    from llm_planning.planners.tree_of_options.states import OptionDomain
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem


class PlanAndSolveSettings(PromptSettings):
    """Settings of Plan-and-Solve.

    Attributes:
        d: the most steps of the plan. The paper states none.
        tries: how often a step is tried. The paper's agents write the program of a step at most
            five times; every try counts as a step here.
    """

    d: int = Field(32, ge=1, le=32)
    tries: int = Field(5, ge=1)


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
        engines: answer the role `decompose`.
        settings: of the question and the tries.
        seed: of the start, the answer and the world.
    """
    return await chain_of_thought(
        problem, engines=engines, settings=settings, seed=seed, tries=settings.tries
    )
