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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_planning.environments.minecraft.book.rulebook import game_rules
from llm_planning.environments.minecraft.items.controller import (
    LABEL,
    SimulatedWorld,
    planning_horizon,
)
from llm_planning.environments.minecraft.items.controller_data import PATIENCE
from llm_planning.environments.minecraft.items.goals import GOALS_67
from llm_planning.planners.xenon.algorithm import Xenon
from llm_planning.planners.xenon.asking import MinecraftAsking, always_intervene
from llm_planning.planners.xenon.baselines import SuccessesOnly, TrueActions
from llm_planning.planners.xenon.given_goal import fixed_knowledge, play, true_knowledge
from llm_planning.planners.xenon.graph import (
    PLANS,
    DependencyGraph,
    demonstrate,
    predict_requirements,
)
from llm_planning.planners.xenon.memory import ActionMemory, Knowledge, Similar
from llm_planning.planners.xenon.roles import CAPTION, INTERVENE, StuckQuestion
from llm_planning.planners.xenon.saved import Saved
from llm_planning.planners.xenon.settings import (
    FIRST,
    TRUTH,
    PlanningSettings,
    RepromptingSettings,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from llm_planning.environments.minecraft.items.domain import ItemWorld
    from llm_planning.environments.minecraft.items.text_world import TextWorld
    from llm_planning.outcome import Outcome
    from llm_planning.planners.xenon.roles import Decide
    from llm_planning.planners.xenon.settings import ControllerSettings
    from llm_planning.roles import Asking
    from llm_planning.roles.seeing import See
    from llm_planning.specs import Run

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


@dataclass(frozen=True, kw_only=True)
class Reprompting(Xenon):
    """XENON with context-aware reprompting: a controller that is stuck gets another task.

    A freed controller goes on with the subgoal. Otherwise the check is repeated after each interval
    without progress until the episode ends.

    Attributes:
        world: the controller's world; it has a patience.
        caption: says in words what the controller sees.
        decide: finds a temporary task from that (Figure 17, second step).
    """

    world: SimulatedWorld
    caption: Caption
    decide: Decide

    async def tries_again(self, action: str, item: str) -> bool:
        """Whether the controller was stuck; frees it if another task is found."""
        stalled = self.world.stalled
        if stalled:
            question = StuckQuestion(await self.caption(), f"{action} {item}", item)
            if await self.decide(question):
                self.world.rescue()
        return stalled


@dataclass(frozen=True, kw_only=True)
class TrueReprompted(TrueActions, Reprompting):
    """OracleActionPlanner."""


@dataclass(frozen=True, kw_only=True)
class SuccessesTakenOver(SuccessesOnly):
    """Reuses the successes of a saved FAM, not its failures (Table 17)."""

    def __post_init__(self) -> None:
        self.memory.restore({**self.memory.to_json(), "failures": {}})


async def plan_and_act(run: Run[ItemWorld, PlanningSettings], *, agent: type[Xenon]) -> Outcome:
    """Plans and acts for one given goal in one episode, as XENON or an ablation.

    Args:
        run: its task is the goal item. Its settings are those of CRe if they say what it sees.
        agent: plans; with CRe it is `Reprompting`.

    Raises:
        SavedKnowledgeError: the file of the learned graph cannot be read.
    """
    goal, settings = run.task, run.settings
    text = run.world.text_world(run.world.rules(run.seed).book)
    reprompts = isinstance(settings, RepromptingSettings)
    world = _simulated(text, run, patience=PATIENCE if reprompts else None)
    unperturbed = run.world.text_world(game_rules())
    asking = MinecraftAsking(unperturbed, run.engines, settings, seed=run.seed)
    own: dict[str, Any] = {}
    if isinstance(settings, RepromptingSettings):
        caption = caption_of(world, asking, see=settings.see)
        own = {"world": world, "caption": caption, "decide": asking.of(INTERVENE)}
    memory, similar = ActionMemory(text.verbs, x0=settings.x0), Similar(run.engines.default)
    truth = true_knowledge(text.book, world.items, goal)
    believed = await _believed(settings, asking, memory, similar, goal)
    planner = agent(
        knowledge=believed or truth,
        memory=memory,
        similar=similar,
        roles=asking,
        k=settings.k,
        **own,
    )
    return await play(
        run,
        world,
        agent=planner,
        truth=truth,
        book=text.book,
        until=world.horizon,
        judged_by=LABEL,
        asking=asking,
    )


async def plan_with_true_actions(run: Run[ItemWorld, ControllerSettings]) -> Outcome:
    """OracleActionPlanner: carries out the correct plan, the upper bound (Appendix K.4)."""
    text = run.world.text_world(run.world.rules(run.seed).book)
    world = _simulated(text, run, patience=PATIENCE)
    truth = true_knowledge(text.book, world.items, run.task)
    # It asks nobody.
    asking = MinecraftAsking(text, run.engines, PlanningSettings.read({}), seed=run.seed)
    planner = TrueReprompted(
        knowledge=truth,
        memory=ActionMemory(text.verbs, x0=1),
        similar=Similar(run.engines.default),
        roles=asking,
        book=text.book,
        world=world,
        caption=in_words(world),
        decide=always_intervene,
    )
    return await play(
        run,
        world,
        agent=planner,
        truth=truth,
        book=text.book,
        until=world.horizon,
        judged_by=LABEL,
    )


def _simulated(
    text: TextWorld, run: Run[ItemWorld, ControllerSettings], *, patience: int | None
) -> SimulatedWorld:
    """Returns a world for a run's goal. Its random seed depends on the goal, not on the planner."""
    return SimulatedWorld(
        text,
        profile=run.settings.controller,
        horizon=planning_horizon(run.task),
        seed=zlib.crc32(f"{run.task} {run.seed}".encode()),
        patience=patience,
    )


async def _believed(
    settings: PlanningSettings,
    asking: MinecraftAsking,
    memory: ActionMemory,
    similar: Similar,
    goal: str,
) -> Knowledge | None:
    """Fills the action memory and returns the knowledge to plan with, None for the true graph."""
    if settings.graph not in {TRUTH, FIRST}:
        saved = Saved.load(Path(settings.graph))
        saved.recall(memory)
        return fixed_knowledge(saved.graph(), goal, saved.kept)
    known = Knowledge(DependencyGraph(GOALS_67))
    demonstrate(
        PLANS,
        asking.domain,
        knowledge=known,
        succeeded=lambda action, item: memory.record(action, item, True),
    )
    if settings.graph == TRUTH:
        return None
    await predict_requirements(
        known, predict=asking.predict, similar=similar, k=settings.k, most=settings.most
    )
    return fixed_knowledge(known.graph, goal, known.kept)
