"""ToO, its ablations and the baselines that only plan, each a composition of roles.

    too        proposals checked    states predicted     MCTS
    too-no-wm  proposals checked    s_0 and the options  MCTS
    too-no-fc  proposals as given   states predicted     MCTS
    tot-mcts   proposals as given   s_0 and the options  MCTS
    cot        one answer decomposes the goal

Source: Sections 4.1 (baselines) and 4.4 (ablations). Each plans on predictions; the plan is then
carried out in the domain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_planning.domain import settled
from llm_planning.execution import execute
from llm_planning.planners.tree_of_options.planner import TreeOfOptions
from llm_planning.planners.tree_of_options.questions import NOW, PREDICTED, START, Questions
from llm_planning.planners.tree_of_options.report import list_outcome, tree_outcome
from llm_planning.planners.tree_of_options.settings import (
    ROLES,
    FeasibleSearchSettings,
    PromptSettings,
    SearchSettings,
)
from llm_planning.planners.tree_of_options.trajectory import Trajectory
from llm_planning.planners.tree_of_options.world import (
    MODELS_STATE,
    NAMES_OPTIONS,
    Drop,
    Predicted,
    Repair,
    unchecked,
    unpredicted,
)
from llm_planning.specs import PlannerSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.outcome import Outcome
    from llm_planning.planners.tree_of_options.world import Check, OptionDomain
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem, Run

    Ask = Questions[Any, Any]
    Compose = Callable[[Ask, OptionDomain[Any, Any], Any], TreeOfOptions[Any, Any]]


def tree_of_options(
    ask: Ask, domain: OptionDomain[Any, Any], settings: FeasibleSearchSettings
) -> TreeOfOptions[Any, Any]:
    """ToO: proposals with a feasibility check, world model, MCTS."""
    return TreeOfOptions(
        propose=ask.propose(settings.k, NOW),
        check=_checked(ask, settings, NOW),
        dynamics=Predicted(domain, ask.dynamics()),
        reward=ask.reward(PREDICTED),
        termination=ask.termination(NOW),
        settings=settings,
    )


def without_world_model(
    ask: Ask,
    domain: OptionDomain[Any, Any],  # noqa: ARG001 - nothing is described
    settings: FeasibleSearchSettings,
) -> TreeOfOptions[Any, Any]:
    """ToO w/o WM: nodes are [s_0, ω_1, ..., ω_i]; every question sees s_0 and the options done."""
    return TreeOfOptions(
        propose=ask.propose(settings.k, START),
        check=_checked(ask, settings, START),
        dynamics=unpredicted,
        reward=ask.reward(START),
        termination=ask.termination(START),
        settings=settings,
    )


def without_feasibility(
    ask: Ask, domain: OptionDomain[Any, Any], settings: SearchSettings
) -> TreeOfOptions[Any, Any]:
    """ToO w/o FC: every proposed option expands the tree."""
    return TreeOfOptions(
        propose=ask.propose(settings.k, NOW),
        check=unchecked,
        dynamics=Predicted(domain, ask.dynamics()),
        reward=ask.reward(PREDICTED),
        termination=ask.termination(NOW),
        settings=settings,
    )


def tot_mcts(
    ask: Ask,
    domain: OptionDomain[Any, Any],  # noqa: ARG001 - nothing is described
    settings: SearchSettings,
) -> TreeOfOptions[Any, Any]:
    """ToT-MCTS: neither states nor checks; proposals, rewards and MCTS."""
    return TreeOfOptions(
        propose=ask.propose(settings.k, START),
        check=unchecked,
        dynamics=unpredicted,
        reward=ask.reward(START),
        termination=ask.termination(START),
        settings=settings,
    )


def _checked(ask: Ask, settings: FeasibleSearchSettings, moment: str) -> Check[Any, Any]:
    feasibility = ask.feasibility(moment)
    if settings.infeasible == "drop":
        return Drop(feasibility)
    return Repair(feasibility, ask.repair(moment))


def searching(compose: Compose) -> Run:
    """A planner that searches as composed, and carries its plan out."""

    async def run(
        problem: Problem[OptionDomain[Any, Any]],
        *,
        engines: Engines,
        settings: SearchSettings,
        seed: int,
    ) -> Outcome:
        domain = problem.world
        ask: Ask = Questions(domain, engines, settings, seed=seed)
        root = await compose(ask, domain, settings).plan(await _start(domain, seed))
        outcome = tree_outcome(root, problem=problem, settings=settings, seed=seed)
        return outcome.carried_out(
            await execute(domain, outcome.actions, seed=seed), oracles=ask.oracles
        )

    return run


async def chain_of_thought(
    problem: Problem[OptionDomain[Any, Any]],
    *,
    engines: Engines,
    settings: PromptSettings,
    seed: int,
) -> Outcome:
    """CoT: one answer breaks the goal down into at most d options, from the initial state."""
    domain = problem.world
    ask: Ask = Questions(domain, engines, settings, seed=seed)
    candidates = await ask.decompose()(await _start(domain, seed))
    outcome = list_outcome(candidates, problem=problem, settings=settings, seed=seed)
    return outcome.carried_out(
        await execute(domain, outcome.actions, seed=seed), oracles=ask.oracles
    )


async def _start(domain: OptionDomain[Any, Any], seed: int) -> Trajectory[Any, Any]:
    state = await settled(domain.start(seed))
    return Trajectory(domain.goal, state, await settled(domain.describe(state)))


_ASKED = tuple(role for role in ROLES if role != "decompose")

SPECS = (
    PlannerSpec(
        name="too",
        summary="Tree of Options: MCTS over options that are checked, simulated and judged",
        paper="Tree of Options",
        settings=FeasibleSearchSettings,
        run=searching(tree_of_options),
        roles=_ASKED,
        needs=(NAMES_OPTIONS, MODELS_STATE),
    ),
    PlannerSpec(
        name="too-no-wm",
        summary="Tree of Options without its world model: the state stays the initial one",
        paper="Tree of Options",
        settings=FeasibleSearchSettings,
        run=searching(without_world_model),
        roles=tuple(role for role in _ASKED if role != "dynamics"),
        needs=(NAMES_OPTIONS,),
    ),
    PlannerSpec(
        name="too-no-fc",
        summary="Tree of Options without its feasibility check: options are taken as proposed",
        paper="Tree of Options",
        settings=SearchSettings,
        run=searching(without_feasibility),
        roles=("propose", "dynamics", "reward", "termination"),
        needs=(NAMES_OPTIONS, MODELS_STATE),
    ),
    PlannerSpec(
        name="tot-mcts",
        summary="Tree of Thoughts with MCTS: neither world model nor feasibility check",
        paper="Tree of Options",
        settings=SearchSettings,
        run=searching(tot_mcts),
        roles=("propose", "reward", "termination"),
        needs=(NAMES_OPTIONS,),
    ),
    PlannerSpec(
        name="cot",
        summary="Chain of Thought: one answer breaks the goal down into options",
        paper="Tree of Options",
        settings=PromptSettings,
        run=chain_of_thought,
        roles=("decompose",),
        needs=(NAMES_OPTIONS,),
    ),
)
