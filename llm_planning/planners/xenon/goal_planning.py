"""Long-horizon goal planning on the simulated controller (XENON, Section 5.3, Table 17).

                           graph                  actions         when the controller stalls
    plan-xenon             true, learned, first   FAM             reprompting (CRe)
    plan-xenon-no-cre      true, learned, first   FAM             nothing
    plan-xenon-no-actions  true, learned, first   successes only  nothing
    plan-oracle-actions    true                   the valid ones  reprompting, always right

"First" is the graph that human-written plans and the LLM's predictions give. One run is one episode
of one given goal, which ends when the goal is obtained; nothing is carried to the next.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from llm_planning.environments.minecraft.controller import (
    LABEL,
    SimulatedWorld,
    planning_horizon,
)
from llm_planning.environments.minecraft.controller_data import PATIENCE
from llm_planning.environments.minecraft.goals import GOALS_67
from llm_planning.environments.minecraft.text_world import TextWorld
from llm_planning.planners.xenon.answers import Intervention
from llm_planning.planners.xenon.benchmark import Graph, Repeat, play
from llm_planning.planners.xenon.choosing import ActionPolicy, Asking, FailureAware, SuccessOnly
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.initial import demonstrate, predict_requirements
from llm_planning.planners.xenon.knowledge import Knowledge
from llm_planning.planners.xenon.learning import game_rules
from llm_planning.planners.xenon.memory import ActionMemory
from llm_planning.planners.xenon.plans import PLANS
from llm_planning.planners.xenon.prior import prior_roles
from llm_planning.planners.xenon.reprompting import Reprompter, text_caption, text_reprompter
from llm_planning.planners.xenon.saved import Saved
from llm_planning.planners.xenon.settings import Prior  # noqa: TC001 (pydantic reads it)
from llm_planning.planners.xenon.similarity import Similar
from llm_planning.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.environments.minecraft.rulebook import RuleBook
    from llm_planning.outcome import Outcome
    from llm_planning.planners.xenon.reprompting import StuckQuestion
    from llm_planning.planners.xenon.roles import Predict
    from llm_planning.registry import Problem
    from llm_planning.roles import Engines

PLANNING_TASKS = GOALS_67
"""The long-horizon benchmark (Table 10)."""

TRUTH = "truth"
FIRST = "initial"


class ControllerSettings(Settings):
    """Settings of every run.

    Attributes:
        controller: who carries subgoals out, and in which world.
    """

    controller: Literal["minerl", "minerl-standard", "mineflayer"] = "minerl"


class PlanningSettings(ControllerSettings):
    """Settings of XENON and its ablations.

    Attributes:
        graph: what to plan with: `truth` (XENON*), `initial` (nothing was learnt yet), or the file
            that a learning run saved, whose action memory is taken over with it.
        prior: who is asked: the `model`, or an oracle that errs at the rates of `table12` and
            always sees that a controller is stuck.
        x0: x_0, failures beyond successes that make an action invalid.
        k: K, similar items that serve as examples (key `K`).
        most: items whose requirements are asked for with graph=initial.
    """

    graph: str = Field(TRUTH, min_length=1)
    prior: Prior = "model"
    x0: int = Field(2, ge=1)
    k: int = Field(3, ge=1, validation_alias="K")
    most: int = Field(300, ge=1)


def successes_only(asking: Asking) -> SuccessOnly:
    """FAM without what it knows of failures (Table 17)."""
    asking.memory.restore({**asking.memory.to_json(), "failures": {}})
    return SuccessOnly(asking)


class TrueActions(ActionPolicy):
    """Always chooses the valid action (OracleActionPlanner, Appendix K.4).

    Args:
        book: the rules.
    """

    def __init__(self, book: RuleBook) -> None:
        self._book = book

    async def choose(self, item: str) -> str:
        """The action of the item's rule."""
        return self._book.rule(item).action


class Reprompted(Repeat):
    """Repeats an action; while the controller is stuck, looks for another prompt (CRe).

    A controller that is freed goes on with the subgoal. One that is not is asked about again after
    each interval without progress, until the episode ends.

    Args:
        world: where, with a patience.
        reprompter: finds a temporary prompt.
    """

    def __init__(self, world: SimulatedWorld, reprompter: Reprompter[str]) -> None:
        super().__init__(world)
        self._stalling = world
        self._reprompter = reprompter

    async def goes_on(self, action: str, item: str) -> bool:
        """Whether the attempt failed for a stall only."""
        world = self._stalling
        if world.stalled:
            task = f"{action} {item}"
            if await self._reprompter.consider(world.view(), task=task, goal_item=item):
                world.rescue()
            return True
        return False


async def always_intervene(question: StuckQuestion, /) -> Intervention:  # noqa: ARG001
    """The decision of somebody who knows that the controller is stuck."""
    return Intervention(
        need_intervention=True, thoughts="The player is stuck.", task="get out of here"
    )


ALWAYS = Reprompter(text_caption, always_intervene)


class PlanningRun:
    """XENON or an ablation plans and acts for one given goal.

    Args:
        actions: how actions are chosen.
        patience: steps without progress after which another prompt is looked for; None: a
            controller that stalls does so until the episode ends.
    """

    def __init__(self, *, actions: Callable[[Asking], ActionPolicy], patience: int | None) -> None:
        self._actions = actions
        self._patience = patience

    async def __call__(
        self, problem: Problem[Any], *, engines: Engines, settings: PlanningSettings, seed: int
    ) -> Outcome:
        """Plans and acts for one episode.

        Args:
            problem: its task is the goal item.
            engines: answer questions; the default one embeds names.
            settings: of the run.
            seed: of the oracle's errors and of the controller.

        Raises:
            UnknownGoalError: there is no such goal.
            SavedKnowledgeError: the file of a learned graph cannot be read.
        """
        text = TextWorld(game_rules())
        world = _simulated(text, problem.task, settings, seed, patience=self._patience)
        roles = prior_roles(settings.prior, text, engines, seed=seed)
        asking = Asking(
            memory=ActionMemory(text.verbs, x0=settings.x0),
            similar=Similar(engines.default),
            ask=roles.choose,
            k=settings.k,
        )
        reprompter = text_reprompter(engines) if settings.prior == "model" else ALWAYS
        believed = await _believed(settings, asking, roles.predict, text)
        return await play(
            problem.task,
            world,
            book=text.book,
            graph=believed,
            actions=self._actions(asking),
            execute=Repeat(world) if self._patience is None else Reprompted(world, reprompter),
            until=world.horizon,
            judged_by=LABEL,
            settings=settings,
            seed=seed,
            oracles=roles.oracles,
        )


async def plan_with_true_actions(
    problem: Problem[Any],
    *,
    engines: Engines,  # noqa: ARG001 - it asks nobody
    settings: ControllerSettings,
    seed: int,
) -> Outcome:
    """OracleActionPlanner: the correct plan for every goal, the upper bound (Appendix K.4).

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
        execute=Reprompted(world, ALWAYS),
        until=world.horizon,
        judged_by=LABEL,
        settings=settings,
        seed=seed,
    )


def _simulated(
    text: TextWorld, goal: str, settings: ControllerSettings, seed: int, *, patience: int | None
) -> SimulatedWorld:
    """A world for one goal; its luck is another for every goal, the same for every planner."""
    return SimulatedWorld(
        text,
        profile=settings.controller,
        horizon=planning_horizon(goal),
        seed=zlib.crc32(f"{goal} {seed}".encode()),
        patience=patience,
    )


async def _believed(
    settings: PlanningSettings, asking: Asking, predict: Predict, text: TextWorld
) -> Graph | None:
    """The graph to plan with, None for the true one; what is known of actions enters the memory."""
    if settings.graph not in {TRUTH, FIRST}:
        saved = Saved.load(Path(settings.graph))
        saved.recall(asking.memory)
        learned = saved.knowledge()
        return Graph(learned.graph, learned.kept)
    known = Knowledge(DependencyGraph(GOALS_67))
    demonstrate(PLANS, text, knowledge=known, actions=FailureAware(asking))
    if settings.graph == TRUTH:
        return None
    await predict_requirements(
        known, predict=predict, similar=asking.similar, k=asking.k, most=settings.most
    )
    return Graph(known.graph, known.kept)


plan_xenon = PlanningRun(actions=FailureAware, patience=PATIENCE)
plan_xenon_no_cre = PlanningRun(actions=FailureAware, patience=None)
plan_xenon_no_actions = PlanningRun(actions=successes_only, patience=None)
