"""The parts of an agent by name (Table 8). `specs` combines them.

Saved files contain the names of an agent's parts. Do not rename them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.action_policies import (
    FailureAware,
    Forgetful,
    SelfReflecting,
    Shared,
    SuccessOnly,
)
from llm_planning.planners.xenon.asking import MinecraftAsking
from llm_planning.planners.xenon.fam import ActionMemory
from llm_planning.planners.xenon.goals import (
    dex,
    dex_of_unrefuted,
    less_explored_frontier,
    unobtained,
)
from llm_planning.planners.xenon.graph_initialization import Initial, predict_requirements
from llm_planning.planners.xenon.refuting import RefutingStore
from llm_planning.planners.xenon.revision import (
    Analogy,
    AnalogyStore,
    DependencyStore,
    EightOfEverything,
    SelfCorrection,
    gathering,
    ranking,
)
from llm_planning.planners.xenon.similarity import Similar

if TYPE_CHECKING:
    from llm_planning.environments.minecraft.text_world import TextWorld
    from llm_planning.planners.xenon.action_policies import ActionPolicy
    from llm_planning.planners.xenon.goals import SelectGoal
    from llm_planning.planners.xenon.knowledge import Knowledge
    from llm_planning.planners.xenon.settings import (
        AskingSettings,
        LearningSettings,
        PlanningSettings,
    )
    from llm_planning.roles import Engines


@dataclass(frozen=True, slots=True, kw_only=True)
class Learner(Shared[MinecraftAsking]):
    """What the parts of one learning agent share.

    Attributes:
        knowledge: what the agent has learnt.
        settings: of the run.
    """

    knowledge: Knowledge
    settings: LearningSettings


# Required items -----------------------------------------------------------------------------------


def analogy(learner: Learner) -> DependencyStore:
    """XENON (○): requires what similar items required, or all that was used up."""
    return AnalogyStore(_analogy(learner))


def analogy_gathered(learner: Learner) -> DependencyStore:
    """XENON+, part 2: an item gathered from the world is a resource, too."""
    return AnalogyStore(gathering(_analogy(learner)))


def analogy_ranked(learner: Learner) -> DependencyStore:
    """XENON+, part 4: the model's log-probabilities propose more candidates."""
    return AnalogyStore(_ranked(learner))


def analogy_refuting(learner: Learner) -> DependencyStore:
    """XENON+: tries nothing twice."""
    return RefutingStore(_ranked(learner), memory=learner.memory)


def self_correction(learner: Learner) -> DependencyStore:
    """SC (△): the LLM predicts again, told what failed."""
    return SelfCorrection(
        learner.knowledge, similar=learner.similar, correct=learner.roles.correct, k=learner.k
    )


def as_predicted(learner: Learner) -> DependencyStore:
    """DECKARD and RAND (×): requirements are never revised."""
    return DependencyStore(learner.knowledge)


def eight_of_everything(learner: Learner) -> DependencyStore:
    """ADAM: requires 8 of every resource."""
    return EightOfEverything(learner.knowledge, alpha_i=learner.settings.alpha_i)


def _analogy(learner: Learner) -> Analogy:
    return Analogy(knowledge=learner.knowledge, similar=learner.similar, scales=learner.settings)


def _ranked(learner: Learner) -> Analogy:
    return ranking(gathering(_analogy(learner)), learner.roles.rank)


# Actions ------------------------------------------------------------------------------------------


def fam(asking: Shared[MinecraftAsking]) -> ActionPolicy:
    """XENON (○): Failure-aware Action Memory."""
    return FailureAware(asking)


def self_reflection(asking: Shared[MinecraftAsking]) -> ActionPolicy:
    """SC (△): the LLM reflects on failures."""
    return SelfReflecting(asking)


def successes_only(asking: Shared[MinecraftAsking]) -> ActionPolicy:
    """ADAM and DECKARD (×): reuses what worked."""
    return SuccessOnly(asking)


def no_memory(asking: Shared[MinecraftAsking]) -> ActionPolicy:
    """RAND: asks the LLM every time."""
    return Forgetful(asking)


# Goals --------------------------------------------------------------------------------------------


def by_dex(_: Learner) -> SelectGoal:
    """XENON: the easiest item of the least explored frontier."""
    return dex


def by_dex_of_unrefuted(learner: Learner) -> SelectGoal:
    """XENON+: DEX among the items whose requirements are not refuted."""
    return dex_of_unrefuted(learner.settings.c0)


def at_random(_: Learner) -> SelectGoal:
    """SC, ADAM and RAND: any item not obtained yet."""
    return unobtained


def by_frontier(learner: Learner) -> SelectGoal:
    """DECKARD: any item of the less explored frontier."""
    return less_explored_frontier(learner.settings.c0)


# Initial beliefs ----------------------------------------------------------------------------------


async def predicted(learner: Learner) -> Initial:
    """Predicts the requirements of all items before the agent acts (Algorithm 2)."""
    return await predict_requirements(
        learner.knowledge,
        predict=learner.roles.predict,
        similar=learner.similar,
        k=learner.k,
        most=learner.settings.most,
    )


async def nothing_predicted(_: Learner) -> Initial:
    """ADAM: predicts nothing."""
    return Initial()


# Given goals --------------------------------------------------------------------------------------


def shared_for_one_goal(
    settings: AskingSettings | PlanningSettings, world: TextWorld, engines: Engines, *, seed: int
) -> Shared[MinecraftAsking]:
    """Returns what the action policies of an agent with one given goal share.

    Args:
        settings: of the run.
        world: of the unperturbed rules.
        engines: the models; the default one embeds names.
        seed: of draws and errors.
    """
    return Shared(
        memory=ActionMemory(world.verbs, x0=settings.x0),
        similar=Similar(engines.default),
        roles=MinecraftAsking(world, engines, settings, seed=seed),
        k=settings.k,
    )
