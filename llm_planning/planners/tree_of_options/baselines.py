"""ToO, its ablations and the baselines that only plan, each a composition of roles.

    too        proposals checked    states predicted     MCTS
    too-no-wm  proposals checked    s_0 and the options  MCTS
    too-no-fc  proposals as given   states predicted     MCTS
    tot-mcts   proposals as given   s_0 and the options  MCTS
    cot        one answer decomposes the goal

Source: Sections 4.1 (baselines) and 4.4 (ablations).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from llm_planning.environments.minecraft.tasks import find_task
from llm_planning.planners.tree_of_options.generator import Drop, OptionGenerator, Repair, unchecked
from llm_planning.planners.tree_of_options.planner import TreeOfOptions
from llm_planning.planners.tree_of_options.prompts import NOW, PREDICTED, START, Questions
from llm_planning.planners.tree_of_options.report import list_outcome, tree_outcome
from llm_planning.planners.tree_of_options.settings import SearchSettings
from llm_planning.planners.tree_of_options.trajectory import Trajectory
from llm_planning.planners.tree_of_options.world import Predicted, WorldModel, unpredicted

if TYPE_CHECKING:
    from llm_planning.planners.outcome import Outcome
    from llm_planning.planners.tree_of_options.generator import Check
    from llm_planning.planners.tree_of_options.settings import (
        FeasibleSearchSettings,
        PromptSettings,
    )
    from llm_planning.roles import Engines

SettingsT = TypeVar("SettingsT", bound=SearchSettings)
SettingsT_contra = TypeVar("SettingsT_contra", bound=SearchSettings, contravariant=True)


class Assemble(Protocol[SettingsT_contra]):
    """Puts a search together from its roles."""

    def __call__(self, engines: Engines, settings: SettingsT_contra, *, seed: int) -> TreeOfOptions:
        """Returns the search, which can plan any number of tasks."""
        ...


def tree_of_options(
    engines: Engines, settings: FeasibleSearchSettings, *, seed: int
) -> TreeOfOptions:
    """ToO: option generator with feasibility check, world model, MCTS."""
    ask = Questions(engines, settings, seed=seed)
    generator = OptionGenerator(ask.propose(settings.k, NOW), _check(ask, settings, NOW))
    return TreeOfOptions(generator=generator, world=_predicting(ask), settings=settings)


def without_world_model(
    engines: Engines, settings: FeasibleSearchSettings, *, seed: int
) -> TreeOfOptions:
    """ToO w/o WM: nodes are [s_0, ω_1, ..., ω_i]; every question sees s_0 and the options done."""
    ask = Questions(engines, settings, seed=seed)
    generator = OptionGenerator(ask.propose(settings.k, START), _check(ask, settings, START))
    return TreeOfOptions(generator=generator, world=_imagining(ask), settings=settings)


def without_feasibility(engines: Engines, settings: SearchSettings, *, seed: int) -> TreeOfOptions:
    """ToO w/o FC: every proposed option expands the tree."""
    ask = Questions(engines, settings, seed=seed)
    generator = OptionGenerator(ask.propose(settings.k, NOW), unchecked)
    return TreeOfOptions(generator=generator, world=_predicting(ask), settings=settings)


def tot_mcts(engines: Engines, settings: SearchSettings, *, seed: int) -> TreeOfOptions:
    """ToT-MCTS: neither states nor checks; proposals, rewards and MCTS."""
    ask = Questions(engines, settings, seed=seed)
    generator = OptionGenerator(ask.propose(settings.k, START), unchecked)
    return TreeOfOptions(generator=generator, world=_imagining(ask), settings=settings)


class SearchRun(Generic[SettingsT]):
    """Plans one task with a search.

    Args:
        assemble: which search.
    """

    def __init__(self, assemble: Assemble[SettingsT]) -> None:
        self._assemble = assemble

    async def __call__(
        self, task: str, *, engines: Engines, settings: SettingsT, seed: int
    ) -> Outcome:
        """Plans.

        Args:
            task: name of a Minecraft task.
            engines: the option generation model and the world model.
            settings: of the search.
            seed: makes the proposer's draws repeatable.

        Raises:
            UnknownTaskError: there is no such task.
        """
        objective = find_task(task)
        search = self._assemble(engines, settings, seed=seed)
        root = await search.plan(Trajectory(objective.goal, objective.start))
        return tree_outcome(root, task=objective, settings=settings, seed=seed)


async def chain_of_thought(
    task: str, *, engines: Engines, settings: PromptSettings, seed: int
) -> Outcome:
    """CoT: one answer breaks the goal down into at most d options, from the initial state.

    Raises:
        UnknownTaskError: there is no such task.
    """
    objective = find_task(task)
    decompose = Questions(engines, settings, seed=seed).decompose()
    answer = await decompose(goal=objective.goal, state=objective.start)
    return list_outcome(
        [(str(step.option()), step.reasoning) for step in answer.options],
        task=objective,
        settings=settings,
        seed=seed,
    )


def _check(ask: Questions, settings: FeasibleSearchSettings, moment: str) -> Check:
    feasibility = ask.feasibility(moment)
    if settings.infeasible == "drop":
        return Drop(feasibility)
    return Repair(feasibility, ask.repair(moment))


def _predicting(ask: Questions) -> WorldModel:
    return WorldModel(
        dynamics=Predicted(ask.dynamics()),
        reward=ask.reward(PREDICTED),
        termination=ask.termination(),
    )


def _imagining(ask: Questions) -> WorldModel:
    return WorldModel(
        dynamics=unpredicted,
        reward=ask.reward(START),
        termination=ask.termination_from_start(),
    )
