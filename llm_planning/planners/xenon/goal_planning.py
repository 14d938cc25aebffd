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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import Field

from llm_planning.environments.minecraft.controller import (
    LABEL,
    SimulatedWorld,
    group_of,
    planning_horizon,
)
from llm_planning.environments.minecraft.controller_data import PATIENCE
from llm_planning.environments.minecraft.goals import GOALS_67
from llm_planning.environments.minecraft.text_world import TextWorld
from llm_planning.planners.settings import PlannerSettings
from llm_planning.planners.xenon.answers import Intervention
from llm_planning.planners.xenon.benchmark import (
    Graph,
    Repeat,
    episode_outcome,
    obtain,
    prior_roles,
    true_graph,
)
from llm_planning.planners.xenon.choosing import FailureAware, SuccessOnly
from llm_planning.planners.xenon.failure_notes import FailureNotes
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.initial import demonstrate, predict_requirements
from llm_planning.planners.xenon.knowledge import Knowledge
from llm_planning.planners.xenon.learning import game_rules
from llm_planning.planners.xenon.memory import ActionMemory
from llm_planning.planners.xenon.plans import PLANS
from llm_planning.planners.xenon.reprompting import Reprompter, text_caption, text_reprompter
from llm_planning.planners.xenon.saved import load_saved
from llm_planning.planners.xenon.settings import Prior  # noqa: TC001 (pydantic reads it)
from llm_planning.planners.xenon.similarity import Similar

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.environments.minecraft.rulebook import RuleBook
    from llm_planning.planners.outcome import Outcome
    from llm_planning.planners.xenon.benchmark import Execute
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.planners.xenon.roles import Attempt, Roles
    from llm_planning.roles import Engines

PLANNING_TASKS = GOALS_67
"""The long-horizon benchmark (Table 10)."""

TRUTH = "truth"
FIRST = "initial"


class ControllerSettings(PlannerSettings):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a planner is made of.

    Attributes:
        memory: what is known of actions.
        similar: ranks items by their names.
        roles: whom it asks.
        k: K.
    """

    memory: ActionMemory
    similar: Similar
    roles: Roles
    k: int


def fam(given: Given) -> FailureAware:
    """Step-by-step planning with FAM."""
    return FailureAware(given.memory, similar=given.similar, ask=given.roles.choose, k=given.k)


def successes_only(given: Given) -> SuccessOnly:
    """FAM without what it knows of failures (Table 17)."""
    given.memory.restore({**given.memory.to_json(), "failures": {}})
    return SuccessOnly(
        given.memory,
        similar=given.similar,
        ask=given.roles.choose,
        k=given.k,
        notes=FailureNotes(),
    )


class TrueActions:
    """Always chooses the valid action (OracleActionPlanner, Appendix K.4).

    Args:
        book: the rules.
    """

    def __init__(self, book: RuleBook) -> None:
        self._book = book

    async def choose(self, item: str, quantity: int) -> str:  # noqa: ARG002 - asked of every policy
        """The action of the item's rule."""
        return self._book.rule(item).action

    def succeeded(self, action: str, item: str) -> None:
        """Nothing to learn."""

    def failed(self, attempt: Attempt) -> None:
        """Nothing to learn."""

    def exhausted(self, item: str) -> bool:  # noqa: ARG002 - asked of every policy
        """Never."""
        return False

    def reset(self, item: str) -> None:
        """Nothing to forget."""


class Reprompted:
    """Repeats an action; while the controller is stuck, looks for another prompt (CRe).

    A controller that is freed goes on with the subgoal. One that is not is asked about again after
    each interval without progress, until the episode ends.

    Args:
        world: where, with a patience.
        reprompter: finds a temporary prompt.
    """

    def __init__(self, world: SimulatedWorld, reprompter: Reprompter[str]) -> None:
        self._world = world
        self._reprompter = reprompter

    async def __call__(self, action: str, quantity: int, item: str, *, until: int) -> bool:
        """Repeats it until the quantity is held or an attempt fails that did not stall."""
        world = self._world
        target = world.inventory.get(item, 0) + quantity
        while world.inventory.get(item, 0) < target:
            if world.steps >= until:
                return False
            if world.step(action, item) is None:
                if not world.stalled:
                    return False
                other = await self._reprompter.consider(
                    world.view(), task=f"{action} {item}", goal_item=item
                )
                if other is not None:
                    world.rescue()
        return True


async def always_intervene(*, caption: str, task: str, goal_item: str) -> Intervention:  # noqa: ARG001
    """The decision of somebody who knows that the controller is stuck."""
    return Intervention(
        need_intervention=True, thoughts="The player is stuck.", task="get out of here"
    )


class CarriedOut(Protocol):
    """Who looks after the controller."""

    def __call__(
        self, simulated: Callable[..., SimulatedWorld], reprompter: Reprompter[str]
    ) -> tuple[SimulatedWorld, Execute]:
        """Makes a world and what carries subgoals out in it.

        Args:
            simulated: the world, but for its `patience`.
            reprompter: finds a temporary prompt.
        """
        ...


def reprompted(
    simulated: Callable[..., SimulatedWorld], reprompter: Reprompter[str]
) -> tuple[SimulatedWorld, Execute]:
    """With context-aware reprompting."""
    world = simulated(patience=PATIENCE)
    return world, Reprompted(world, reprompter)


def left_alone(
    simulated: Callable[..., SimulatedWorld],
    reprompter: Reprompter[str],  # noqa: ARG001 - nobody is asked
) -> tuple[SimulatedWorld, Execute]:
    """Without: a controller that stalls does so until the episode ends."""
    world = simulated(patience=None)
    return world, Repeat(world)


class PlanningRun:
    """XENON or an ablation plans and acts for one given goal.

    Args:
        actions: how actions are chosen.
        carried_out: who looks after the controller.
    """

    def __init__(
        self, *, actions: Callable[[Given], ActionPolicy], carried_out: CarriedOut
    ) -> None:
        self._actions = actions
        self._carried_out = carried_out

    async def __call__(
        self, task: str, *, engines: Engines, settings: PlanningSettings, seed: int
    ) -> Outcome:
        """Plans and acts for one episode.

        Args:
            task: the goal item.
            engines: answer questions and embed names; only the first is asked.
            settings: of the run.
            seed: of the oracle's errors and of the controller.

        Raises:
            UnknownGoalError: there is no such goal.
            SavedKnowledgeError: the file of a learned graph cannot be read.
        """
        engine = engines.options
        text = TextWorld(game_rules())
        simulated = _simulated(text, task, settings, seed)
        given = Given(
            memory=ActionMemory(text.verbs, x0=settings.x0),
            similar=Similar(engine),
            roles=prior_roles(settings.prior, text, engine, seed=seed),
            k=settings.k,
        )
        truth = true_graph(text.book, text.items)
        graph = await _believed(settings, given, text, truth)
        world, execute = self._carried_out(
            simulated,
            text_reprompter(engine)
            if settings.prior == "model"
            else Reprompter(text_caption, always_intervene),
        )
        episode = await obtain(
            task,
            world,
            graph=graph,
            truth=truth,
            actions=self._actions(given),
            execute=execute,
            until=world.horizon,
        )
        return episode_outcome(
            episode,
            book=text.book,
            judged_by=LABEL,
            settings=settings,
            seed=seed,
            metrics={"group": group_of(task)},
        )


async def plan_with_true_actions(
    task: str,
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
    truth = true_graph(text.book, text.items)
    world, execute = reprompted(
        _simulated(text, task, settings, seed), Reprompter(text_caption, always_intervene)
    )
    episode = await obtain(
        task,
        world,
        graph=truth,
        truth=truth,
        actions=TrueActions(text.book),
        execute=execute,
        until=world.horizon,
    )
    return episode_outcome(
        episode,
        book=text.book,
        judged_by=LABEL,
        settings=settings,
        seed=seed,
        metrics={"group": group_of(task)},
    )


def _simulated(
    text: TextWorld, goal: str, settings: ControllerSettings, seed: int
) -> Callable[..., SimulatedWorld]:
    """A world for one goal; its luck is another for every goal, the same for every planner."""
    return partial(
        SimulatedWorld,
        text,
        profile=settings.controller,
        horizon=planning_horizon(goal),
        seed=zlib.crc32(f"{goal} {seed}".encode()),
    )


async def _believed(
    settings: PlanningSettings, given: Given, text: TextWorld, truth: Graph
) -> Graph:
    """The graph to plan with; what is known of actions along with it enters the memory."""
    if settings.graph not in {TRUTH, FIRST}:
        saved = load_saved(Path(settings.graph))
        saved.recall(given.memory)
        learned = saved.knowledge()
        return Graph(learned.graph, learned.kept)
    known = Knowledge(DependencyGraph(GOALS_67))
    demonstrate(PLANS, text, knowledge=known, actions=fam(given))
    if settings.graph == TRUTH:
        return truth
    await predict_requirements(
        known,
        predict=given.roles.predict,
        similar=given.similar,
        k=given.k,
        most=settings.most,
    )
    return Graph(known.graph, known.kept)


plan_xenon = PlanningRun(actions=fam, carried_out=reprompted)
plan_xenon_no_cre = PlanningRun(actions=fam, carried_out=left_alone)
plan_xenon_no_actions = PlanningRun(actions=successes_only, carried_out=left_alone)
