"""Every planner that can be run by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from llm_planning.environments.minecraft.tasks import TASKS
from llm_planning.names import remedy
from llm_planning.planners.tree_of_options import baselines
from llm_planning.planners.tree_of_options.settings import (
    FeasibleSearchSettings,
    PromptSettings,
    SearchSettings,
)

if TYPE_CHECKING:
    from llm_planning.planners.outcome import Outcome
    from llm_planning.planners.settings import PlannerSettings
    from llm_planning.roles import Engines


class UnknownPlannerError(ValueError):
    """No planner has this name."""


class Run(Protocol):
    """Plans one task."""

    async def __call__(
        self,
        task: str,
        *,
        engines: Engines,
        settings: Any,  # noqa: ANN401  (an instance of the spec's own settings model)
        seed: int,
    ) -> Outcome:
        """Returns what came of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSpec:
    """One planner.

    Attributes:
        name: in kebab-case.
        summary: one line for a list.
        environment: where it plans.
        tasks: names of the tasks it can be given.
        settings: the model of its settings; `settings.read({...})` makes an instance.
        run: plans one task.
    """

    name: str
    summary: str
    environment: str
    tasks: tuple[str, ...]
    settings: type[PlannerSettings]
    run: Run


def _minecraft(name: str, summary: str, settings: type[PlannerSettings], run: Run) -> PlannerSpec:
    return PlannerSpec(
        name=name,
        summary=summary,
        environment="minecraft",
        tasks=tuple(TASKS),
        settings=settings,
        run=run,
    )


PLANNERS = {
    spec.name: spec
    for spec in (
        _minecraft(
            "too",
            "Tree of Options: MCTS over options that are checked, simulated and judged",
            FeasibleSearchSettings,
            baselines.SearchRun(baselines.tree_of_options),
        ),
        _minecraft(
            "too-no-wm",
            "ToO without its world model: the state stays the initial one",
            FeasibleSearchSettings,
            baselines.SearchRun(baselines.without_world_model),
        ),
        _minecraft(
            "too-no-fc",
            "ToO without its feasibility check: options are taken as proposed",
            SearchSettings,
            baselines.SearchRun(baselines.without_feasibility),
        ),
        _minecraft(
            "tot-mcts",
            "Tree of Thoughts with MCTS: neither world model nor feasibility check",
            SearchSettings,
            baselines.SearchRun(baselines.tot_mcts),
        ),
        _minecraft(
            "cot",
            "Chain of Thought: one answer breaks the goal down into options",
            PromptSettings,
            baselines.chain_of_thought,
        ),
    )
}
"""Every planner by name."""


def find_planner(name: str) -> PlannerSpec:
    """The planner of this name.

    Raises:
        UnknownPlannerError: there is none; the message proposes the nearest names.
    """
    try:
        return PLANNERS[name]
    except KeyError:
        raise UnknownPlannerError(f"unknown planner {name!r}; {remedy(name, PLANNERS)}") from None
