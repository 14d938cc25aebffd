"""Every planner that can be run by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from llm_planning.environments.minecraft.goals import GOAL_SETS
from llm_planning.environments.minecraft.tasks import TASKS
from llm_planning.environments.textgame.opening import GAME_TASKS
from llm_planning.names import remedy
from llm_planning.planners.mc_dml import agents as mc_dml
from llm_planning.planners.mc_dml import playing, walkthrough
from llm_planning.planners.mc_dml.settings import (
    LlmFixedSettings,
    McDmlSettings,
    PlainSettings,
    ReflectiveFixedSettings,
)
from llm_planning.planners.tree_of_options import baselines
from llm_planning.planners.tree_of_options.settings import (
    FeasibleSearchSettings,
    PromptSettings,
    SearchSettings,
)
from llm_planning.planners.xenon import cooking, goal_planning, selection_runs
from llm_planning.planners.xenon.agents import AGENTS, INFORMED_AGENTS
from llm_planning.planners.xenon.learning import LearningRun
from llm_planning.planners.xenon.settings import InformedSettings, LearningSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def _cooking(name: str, summary: str, settings: type[PlannerSettings], run: Run) -> PlannerSpec:
    return PlannerSpec(
        name=name,
        summary=summary,
        environment="cooking",
        tasks=cooking.COOKING_TASKS,
        settings=settings,
        run=run,
    )


_LEARNERS = {
    "xenon": "XENON: requirements revised by analogy, actions by failures, goals by difficulty",
    "sc": "LLM self-correction of requirements and actions",
    "adam": "ADAM: every unknown item requires 8 of all resources",
    "deckard": "DECKARD: requirements as predicted, successful actions kept",
    "rand": "RAND: requirements as predicted, no memory, random goals",
    "xenon-self-actions": "XENON with LLM self-correction of actions",
    "xenon-no-actions": "XENON without correction of actions",
    "xenon-self-dependencies": "XENON with LLM self-correction of requirements",
    "xenon-no-dependencies": "XENON without correction of requirements",
    "xenon-no-correction": "XENON without any correction",
    "xenon-names": "XENON that knows the names of all items",
    "xenon-names-mined": "the same, and whatever was gathered counts as a resource",
    "xenon-names-mined-closed": "the same, and the model's answers are held to known names",
    "xenon-names-mined-closed-ranked": "the same, with candidates by log-probability",
    "xenon-plus": "XENON+: the same, and nothing is tried twice",
}


def _learners() -> Iterator[PlannerSpec]:
    for name, composition in (AGENTS | INFORMED_AGENTS).items():
        yield PlannerSpec(
            name=name,
            summary=_LEARNERS[name],
            environment="minecraft",
            tasks=tuple(GOAL_SETS),
            settings=InformedSettings if name in INFORMED_AGENTS else LearningSettings,
            run=LearningRun(composition),
        )


_SELECTORS = tuple(
    PlannerSpec(
        name=name,
        summary=f"{summary}, given an oracle graph",
        environment="minecraft",
        tasks=selection_runs.SELECTION_TASKS,
        settings=settings,
        run=selection_runs.SelectionRun(select),
    )
    for name, summary, settings, select in (
        (
            "select-xenon",
            "actions by the LLM, without those that failed",
            selection_runs.AskingSettings,
            selection_runs.xenon,
        ),
        (
            "select-random-fam",
            "random actions, without those that failed",
            selection_runs.MemorySettings,
            selection_runs.random_fam,
        ),
        (
            "select-ucb",
            "actions by upper confidence bounds",
            selection_runs.UcbSettings,
            selection_runs.ucb,
        ),
        (
            "select-sc",
            "actions by the LLM, told why it failed",
            selection_runs.AskingSettings,
            selection_runs.self_correction,
        ),
        (
            "select-llm",
            "actions by the LLM, without memory",
            selection_runs.AskingSettings,
            selection_runs.without_memory,
        ),
    )
)

_GOAL_PLANNERS = tuple(
    PlannerSpec(
        name=name,
        summary=f"{summary}, on a simulated controller",
        environment="minecraft",
        tasks=goal_planning.PLANNING_TASKS,
        settings=settings,
        run=run,
    )
    for name, summary, settings, run in (
        (
            "plan-xenon",
            "one goal by XENON's step-by-step planning",
            goal_planning.PlanningSettings,
            goal_planning.plan_xenon,
        ),
        (
            "plan-xenon-no-cre",
            "the same without context-aware reprompting",
            goal_planning.PlanningSettings,
            goal_planning.plan_xenon_no_cre,
        ),
        (
            "plan-xenon-no-actions",
            "the same without correction of actions either",
            goal_planning.PlanningSettings,
            goal_planning.plan_xenon_no_actions,
        ),
        (
            "plan-oracle-actions",
            "OracleActionPlanner: one goal by the true rules",
            goal_planning.ControllerSettings,
            goal_planning.plan_with_true_actions,
        ),
    )
)

_PLAYERS = tuple(
    PlannerSpec(
        name=name,
        summary=summary,
        environment="textgame",
        tasks=GAME_TASKS,
        settings=settings,
        run=run,
    )
    for name, summary, settings, run in (
        (
            "mc-dml",
            "MC-DML: tree search with an LLM policy that remembers and reflects",
            McDmlSettings,
            mc_dml.TextGameRun(mc_dml.MC_DML),
        ),
        (
            "mc-dml-no-dp",
            "MC-DML without dynamic pruning: one search depth",
            ReflectiveFixedSettings,
            mc_dml.TextGameRun(mc_dml.WITHOUT_DP),
        ),
        (
            "mc-dml-no-mc-dp",
            "the same without cross-trial memory either",
            LlmFixedSettings,
            mc_dml.TextGameRun(mc_dml.WITHOUT_MC_DP),
        ),
        (
            "mc-dml-no-mc-mi-dp",
            "the same without in-trial memory either",
            LlmFixedSettings,
            mc_dml.TextGameRun(mc_dml.WITHOUT_MC_MI_DP),
        ),
        (
            "puct",
            "PUCT with a uniform policy",
            PlainSettings,
            mc_dml.TextGameRun(mc_dml.PUCT),
        ),
        (
            "uct",
            "UCT: tree search without a policy",
            PlainSettings,
            mc_dml.TextGameRun(mc_dml.UCT),
        ),
        (
            "llm-agent",
            "LLM agent: every move by the LLM policy, no search",
            playing.LlmAgentSettings,
            playing.llm_agent,
        ),
        (
            "reflection-agent",
            "Reflection agent: rounds of the same, with a reflection after each",
            playing.ReflectionAgentSettings,
            playing.reflection_agent,
        ),
        (
            "walkthrough",
            "the game's own walkthrough, replayed for its statistics",
            walkthrough.WalkthroughSettings,
            walkthrough.play_walkthrough,
        ),
    )
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
        *_learners(),
        *_SELECTORS,
        *_GOAL_PLANNERS,
        *_PLAYERS,
        _cooking(
            "xenon-cooking",
            "XENON in TextWorld Cooking: a tool for each direction of the cookbook, and FAM",
            cooking.XenonCookingSettings,
            cooking.xenon_cooking,
        ),
        _cooking(
            "sc-cooking",
            "LLM self-correction in TextWorld Cooking",
            cooking.CookingSettings,
            cooking.sc_cooking,
        ),
        _cooking(
            "deckard-cooking",
            "DECKARD in TextWorld Cooking: nothing is corrected",
            cooking.CookingSettings,
            cooking.deckard_cooking,
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
