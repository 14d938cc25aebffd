"""Long-horizon goal planning on the simulated controller (XENON, Section 5.3, Table 17).

                           graph                    actions         when the controller is stuck
    plan-xenon             true, learned, initial   FAM             reprompting (CRe)
    plan-xenon-no-cre      true, learned, initial   FAM             nothing
    plan-xenon-no-actions  true, learned, initial   successes only  nothing
    plan-oracle-actions    true                     the valid ones  reprompting, always right

The initial graph is that of the human-written plans and the LLM's predictions. One run is one
episode of one given goal, and ends when the goal is obtained.

Context-aware reprompting (CRe, Appendix H) gives a controller that is stuck another task. It asks
two questions: a vision model describes what the controller sees, and a language model decides from
this text. It asks only after an interval without the subgoal's item: `SimulatedWorld` ends a step
after its `patience`.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_planning.environments.minecraft.controller import (
    LABEL,
    SimulatedWorld,
    planning_horizon,
)
from llm_planning.environments.minecraft.controller_data import PATIENCE
from llm_planning.environments.minecraft.goals import GOALS_67
from llm_planning.environments.minecraft.rulebook import game_rules
from llm_planning.environments.minecraft.text_world import TextWorld
from llm_planning.planners.xenon.action_policies import (
    FailureAware,
    SuccessOnly,
    TrueActions,
)
from llm_planning.planners.xenon.asking import always_intervene
from llm_planning.planners.xenon.dependency_graph import DependencyGraph
from llm_planning.planners.xenon.given_goal import fixed, play
from llm_planning.planners.xenon.graph_initialization import (
    PLANS,
    demonstrate,
    predict_requirements,
)
from llm_planning.planners.xenon.knowledge import Knowledge
from llm_planning.planners.xenon.parts import shared_for_one_goal
from llm_planning.planners.xenon.questions import StuckQuestion
from llm_planning.planners.xenon.roles import CAPTION, INTERVENE
from llm_planning.planners.xenon.saved import Saved
from llm_planning.planners.xenon.settings import FIRST, TRUTH, RepromptingSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from llm_planning.outcome import Outcome
    from llm_planning.planners.xenon.action_policies import ActionPolicy, Shared
    from llm_planning.planners.xenon.agent import Reprompt
    from llm_planning.planners.xenon.asking import MinecraftAsking
    from llm_planning.planners.xenon.questions import Decide
    from llm_planning.planners.xenon.settings import ControllerSettings, PlanningSettings
    from llm_planning.roles import Asking, Engines
    from llm_planning.roles.seeing import See
    from llm_planning.specs import Problem

PLANNING_TASKS = GOALS_67
"""The long-horizon benchmark (Table 10)."""

Caption: TypeAlias = "Callable[[], Awaitable[str]]"
"""Says in words what a controller sees at this moment."""


def in_words(world: SimulatedWorld) -> Caption:
    """Says what a controller sees in the world's own words."""

    async def words() -> str:
        return world.view()

    return words


def caption_of(world: SimulatedWorld, asking: Asking, *, see: See) -> Caption:
    """Says in words what a controller sees (Figure 17, first step).

    Args:
        world: of the controller.
        asking: answers `caption` by a model that reads images, unless only words are shown.
        see: `words` takes the world's own sentence, `picture` what a vision model says of its
            picture, and `both` one after the other.
    """
    if see == "words":
        return in_words(world)
    described = asking.of(CAPTION)

    async def picture() -> str:
        return await described(world.draw())

    async def both() -> str:
        return f"{world.view()} {await picture()}"

    return picture if see == "picture" else both


def successes_taken_over(asking: Shared[MinecraftAsking]) -> SuccessOnly:
    """Makes the policy that reuses the successes of a saved FAM, not its failures (Table 17)."""
    asking.memory.restore({**asking.memory.to_json(), "failures": {}})
    return SuccessOnly(asking)


def reprompting(world: SimulatedWorld, caption: Caption, decide: Decide) -> Reprompt:
    """Returns a check that gives a controller another task while it is stuck (CRe).

    A freed controller goes on with the subgoal. Otherwise the check is repeated after each interval
    without progress until the episode ends.

    Args:
        world: the controller's world; it has a patience.
        caption: says in words what the controller sees.
        decide: finds a temporary task from that (Figure 17, second step).
    """

    async def reprompt(action: str, item: str) -> bool:
        stalled = world.stalled
        if stalled and await decide(StuckQuestion(await caption(), f"{action} {item}", item)):
            world.rescue()
        return stalled

    return reprompt


async def plan_and_act(
    problem: Problem[Any],
    *,
    engines: Engines,
    settings: PlanningSettings,
    seed: int,
    actions: Callable[[Shared[MinecraftAsking]], ActionPolicy],
    patience: int | None,
) -> Outcome:
    """Plans and acts for one given goal in one episode, as XENON or an ablation.

    Args:
        problem: its task is the goal item.
        engines: answer questions; the default one embeds names.
        settings: of the run.
        seed: of the oracle's errors and of the controller.
        actions: makes the action policy.
        patience: steps without progress after which CRe looks for another task; None: a stuck
            controller stays so until the episode ends.

    Raises:
        UnknownGoalError: there is no such goal.
        SavedKnowledgeError: the file of the learned graph cannot be read.
    """
    text = TextWorld(game_rules())
    world = _simulated(text, problem.task, settings, seed, patience=patience)
    shared = shared_for_one_goal(settings, text, engines, seed=seed)
    asking, reprompt = shared.roles, None
    if patience is not None:
        see = settings.see if isinstance(settings, RepromptingSettings) else "words"
        reprompt = reprompting(world, caption_of(world, asking, see=see), asking.of(INTERVENE))
    believed = await _believed(settings, shared, text, problem.task)
    return await play(
        problem.task,
        world,
        book=text.book,
        knowledge=believed,
        actions=actions(shared),
        reprompt=reprompt,
        until=world.horizon,
        judged_by=LABEL,
        settings=settings,
        seed=seed,
        asking=asking,
    )


async def plan_with_true_actions(
    problem: Problem[Any],
    *,
    engines: Engines,  # noqa: ARG001 - it asks no model
    settings: ControllerSettings,
    seed: int,
) -> Outcome:
    """OracleActionPlanner: carries out the correct plan, the upper bound (Appendix K.4).

    Raises:
        UnknownGoalError: there is no such goal.
    """
    text = TextWorld(game_rules())
    world = _simulated(text, problem.task, settings, seed, patience=PATIENCE)
    return await play(
        problem.task,
        world,
        book=text.book,
        actions=TrueActions(text.book),
        reprompt=reprompting(world, in_words(world), always_intervene),
        until=world.horizon,
        judged_by=LABEL,
        settings=settings,
        seed=seed,
    )


def _simulated(
    text: TextWorld, goal: str, settings: ControllerSettings, seed: int, *, patience: int | None
) -> SimulatedWorld:
    """Returns a world for one goal. Its random seed depends on the goal, not on the planner."""
    return SimulatedWorld(
        text,
        profile=settings.controller,
        horizon=planning_horizon(goal),
        seed=zlib.crc32(f"{goal} {seed}".encode()),
        patience=patience,
    )


async def _believed(
    settings: PlanningSettings, asking: Shared[MinecraftAsking], text: TextWorld, goal: str
) -> Knowledge | None:
    """Fills the action memory and returns the knowledge to plan with, None for the true graph."""
    if settings.graph not in {TRUTH, FIRST}:
        saved = Saved.load(Path(settings.graph))
        saved.recall(asking.memory)
        learned = saved.knowledge()
        return fixed(learned.graph, goal, learned.kept)
    known = Knowledge(DependencyGraph(GOALS_67))
    demonstrate(PLANS, text, knowledge=known, actions=FailureAware(asking))
    if settings.graph == TRUTH:
        return None
    await predict_requirements(
        known,
        predict=asking.roles.predict,
        similar=asking.similar,
        k=asking.k,
        most=settings.most,
    )
    return fixed(known.graph, goal, known.kept)
