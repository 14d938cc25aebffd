"""Long-horizon goal planning on the simulated controller (XENON, Section 5.3, Table 17).

                           graph                  actions         when the controller stalls
    plan-xenon             true, learned, first   FAM             reprompting (CRe)
    plan-xenon-no-cre      true, learned, first   FAM             nothing
    plan-xenon-no-actions  true, learned, first   successes only  nothing
    plan-oracle-actions    true                   the valid ones  reprompting, always right

"First" is the graph that human-written plans and the LLM's predictions give. One run is one episode
of one given goal, which ends when the goal is obtained; nothing is carried to the next.

Context-aware reprompting (Appendix H) gives a controller that got stuck another task, by two
questions instead of one: a vision model says what is to be seen, and a decision is made from text
alone. Whoever watches the controller asks them, and only after an interval in which the subgoal's
item was not obtained (here `SimulatedWorld` hands back after its `patience`).
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from llm_planning.environments.minecraft.controller import (
    LABEL,
    SimulatedWorld,
    planning_horizon,
)
from llm_planning.environments.minecraft.controller_data import PATIENCE
from llm_planning.environments.minecraft.goals import GOALS_67
from llm_planning.environments.minecraft.rulebook import game_rules
from llm_planning.environments.minecraft.text_world import TextWorld
from llm_planning.planners.xenon.benchmark import fixed, play
from llm_planning.planners.xenon.choosing import Asking, FailureAware, SuccessOnly, TrueActions
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.initial import PLANS, demonstrate, predict_requirements
from llm_planning.planners.xenon.knowledge import Knowledge
from llm_planning.planners.xenon.memory import ActionMemory
from llm_planning.planners.xenon.oracle_roles import prior_roles
from llm_planning.planners.xenon.questions import (
    Decide,
    Description,
    Intervention,
    StuckQuestion,
    compose,
)
from llm_planning.planners.xenon.saved import Saved
from llm_planning.planners.xenon.settings import FIRST, TRUTH
from llm_planning.planners.xenon.similarity import Similar
from llm_planning.roles import LlmRole, Role
from llm_serving.answers import constraint_of, parse
from llm_serving.request import Request, Sampling

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.outcome import Outcome
    from llm_planning.planners.xenon.agent import Reprompt
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.planners.xenon.questions import Roles
    from llm_planning.planners.xenon.settings import ControllerSettings, PlanningSettings
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem
    from llm_serving.engine import Engine
    from llm_serving.request import Image

PLANNING_TASKS = GOALS_67
"""The long-horizon benchmark (Table 10)."""

ObservationT = TypeVar("ObservationT")

_GREEDY = Sampling(temperature=0.0)


class Reprompter(Generic[ObservationT]):
    """Finds a temporary task for a controller.

    Args:
        caption: describes what the controller sees, in words (Figure 17, first step).
        decide: decides from the description.
    """

    def __init__(self, caption: Role[ObservationT, str], decide: Decide) -> None:
        self._caption = caption
        self._decide = decide

    async def consider(self, observation: ObservationT, *, task: str, goal_item: str) -> str | None:
        """Asks both questions.

        Args:
            observation: what the controller sees.
            task: its present prompt.
            goal_item: what it is to obtain.

        Returns:
            The task to do first; None if the present one is to go on, or if an intervention was
            called for without saying which.
        """
        caption = await self._caption(observation)
        decision = await self._decide(StuckQuestion(caption, task, goal_item))
        if not decision.need_intervention:
            return None
        return decision.task.strip() or None


class ImageCaption:
    """A vision model describes a picture.

    Args:
        engine: of a model that reads images.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._constraint = constraint_of(Description)

    async def __call__(self, observation: Image, /) -> str:
        """Asks the model.

        Raises:
            TooManyImagesError: the model's configuration allows no image.
        """
        system, user = compose("caption").messages({})
        completion = await self._engine.generate(
            Request(
                prompt=(system, replace(user, images=(observation,))),
                sampling=_GREEDY,
                constraint=self._constraint,
                role="caption",
            )
        )
        return parse(Description, completion.text).description


async def text_caption(observation: str, /) -> str:
    """The caption of a world without pictures: what it says about itself, on one line."""
    return " ".join(observation.split())


def decision(engines: Engines) -> Decide:
    """A language model decides."""
    return LlmRole(
        "intervene",
        prompt=compose("intervene"),
        answer=Intervention,
        engine=engines.of("intervene"),
        sampling=_GREEDY,
    )


def image_reprompter(engines: Engines) -> Reprompter[Image]:
    """CRe for a controller that sees pictures; a vision model captions them."""
    return Reprompter(ImageCaption(engines.of("caption")), decision(engines))


def text_reprompter(engines: Engines) -> Reprompter[str]:
    """CRe for a controller whose surroundings are told in words."""
    return Reprompter(text_caption, decision(engines))


def successes_taken_over(asking: Asking[Roles]) -> SuccessOnly:
    """FAM without what it knows of failures (Table 17)."""
    asking.memory.restore({**asking.memory.to_json(), "failures": {}})
    return SuccessOnly(asking)


def reprompting(world: SimulatedWorld, reprompter: Reprompter[str]) -> Reprompt:
    """While the controller is stuck, looks for another prompt (CRe).

    A controller that is freed goes on with the subgoal. One that is not is asked about again after
    each interval without progress, until the episode ends.

    Args:
        world: where, with a patience.
        reprompter: finds a temporary prompt.
    """

    async def reprompt(action: str, item: str) -> bool:
        stalled = world.stalled
        if stalled and await reprompter.consider(
            world.view(), task=f"{action} {item}", goal_item=item
        ):
            world.rescue()
        return stalled

    return reprompt


async def always_intervene(question: StuckQuestion, /) -> Intervention:  # noqa: ARG001
    """The decision of somebody who knows that the controller is stuck."""
    return Intervention(
        need_intervention=True, thoughts="The player is stuck.", task="get out of here"
    )


ALWAYS = Reprompter(text_caption, always_intervene)


async def plan_and_act(
    problem: Problem[Any],
    *,
    engines: Engines,
    settings: PlanningSettings,
    seed: int,
    actions: Callable[[Asking[Roles]], ActionPolicy],
    patience: int | None,
) -> Outcome:
    """XENON or an ablation plans and acts for one given goal, for one episode.

    Args:
        problem: its task is the goal item.
        engines: answer questions; the default one embeds names.
        settings: of the run.
        seed: of the oracle's errors and of the controller.
        actions: how actions are chosen.
        patience: steps without progress after which another prompt is looked for; None: a
            controller that stalls does so until the episode ends.

    Raises:
        UnknownGoalError: there is no such goal.
        SavedKnowledgeError: the file of a learned graph cannot be read.
    """
    text = TextWorld(game_rules())
    world = _simulated(text, problem.task, settings, seed, patience=patience)
    roles = prior_roles(settings.prior, text, engines, seed=seed)
    asking = Asking(
        memory=ActionMemory(text.verbs, x0=settings.x0),
        similar=Similar(engines.default),
        roles=roles,
        k=settings.k,
    )
    reprompter = text_reprompter(engines) if settings.prior == "model" else ALWAYS
    believed = await _believed(settings, asking, text, problem.task)
    return await play(
        problem.task,
        world,
        book=text.book,
        knowledge=believed,
        actions=actions(asking),
        reprompt=None if patience is None else reprompting(world, reprompter),
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
        reprompt=reprompting(world, ALWAYS),
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
    settings: PlanningSettings, asking: Asking[Roles], text: TextWorld, goal: str
) -> Knowledge | None:
    """What to plan with, None for the true graph; what is known of actions enters the memory."""
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
