"""The parts of Table 8, by name: an agent is a row of them in `specs`.

requirements   analogy            RevisionByAnalogy (○)
               analogy_gathered   whatever was gathered is a resource, too
               analogy_ranked     and the model's log-probabilities propose more candidates
               analogy_refuting   and nothing is tried twice (XENON+)
               self_correction    the LLM predicts again (△)
               as_predicted       never revised (×)
               eight_of_everything  of every resource (ADAM)
actions        fam                Failure-aware Action Memory (○)
               self_reflection    the LLM reflects on failures (△)
               successes_only     what worked is reused (×)
               no_memory          the LLM is asked every time
goals          by_dex, by_dex_of_unrefuted, by_frontier, at_random

A saved file says by these names whose it is: they stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.choosing import (
    Asking,
    FailureAware,
    Forgetful,
    SelfReflecting,
    SuccessOnly,
)
from llm_planning.planners.xenon.goals import (
    dex,
    dex_of_unrefuted,
    less_explored_frontier,
    unobtained,
)
from llm_planning.planners.xenon.initial import Initial, predict_requirements
from llm_planning.planners.xenon.questions import Roles
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

if TYPE_CHECKING:
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.planners.xenon.goals import SelectGoal
    from llm_planning.planners.xenon.knowledge import Knowledge
    from llm_planning.planners.xenon.settings import LearningSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Learner(Asking[Roles]):
    """What the parts of one learning agent share.

    Attributes:
        knowledge: what the agent has learnt.
        settings: of the run.
    """

    knowledge: Knowledge
    settings: LearningSettings


def analogy(learner: Learner) -> DependencyStore:
    """XENON: similar items' requirements, or all that was used up."""
    return AnalogyStore(_analogy(learner))


def analogy_gathered(learner: Learner) -> DependencyStore:
    """XENON+, part 2: whatever was gathered from the world is a resource, too."""
    return AnalogyStore(gathering(_analogy(learner)))


def analogy_ranked(learner: Learner) -> DependencyStore:
    """XENON+, part 4: the model's log-probabilities propose more candidates."""
    return AnalogyStore(ranking(gathering(_analogy(learner)), learner.roles.rank))


def analogy_refuting(learner: Learner) -> DependencyStore:
    """XENON+: nothing is tried twice."""
    ranked = ranking(gathering(_analogy(learner)), learner.roles.rank)
    return RefutingStore(ranked, memory=learner.memory)


def self_correction(learner: Learner) -> DependencyStore:
    """SC: the LLM predicts again, told what failed."""
    return SelfCorrection(
        learner.knowledge, similar=learner.similar, correct=learner.roles.correct, k=learner.k
    )


def as_predicted(learner: Learner) -> DependencyStore:
    """DECKARD and RAND: never revised."""
    return DependencyStore(learner.knowledge)


def eight_of_everything(learner: Learner) -> DependencyStore:
    """ADAM: 8 of every resource."""
    return EightOfEverything(learner.knowledge, alpha_i=learner.settings.alpha_i)


def _analogy(learner: Learner) -> Analogy:
    return Analogy(knowledge=learner.knowledge, similar=learner.similar, scales=learner.settings)


def fam(asking: Asking[Roles]) -> ActionPolicy:
    """XENON: Failure-aware Action Memory."""
    return FailureAware(asking)


def self_reflection(asking: Asking[Roles]) -> ActionPolicy:
    """SC: the LLM reflects on failures."""
    return SelfReflecting(asking)


def successes_only(asking: Asking[Roles]) -> ActionPolicy:
    """ADAM and DECKARD: what worked is reused."""
    return SuccessOnly(asking)


def no_memory(asking: Asking[Roles]) -> ActionPolicy:
    """RAND: the LLM is asked every time."""
    return Forgetful(asking)


def by_dex(_: Learner) -> SelectGoal:
    """XENON: the easiest of the least explored frontier."""
    return dex


def by_dex_of_unrefuted(learner: Learner) -> SelectGoal:
    """XENON+: DEX among items that can be as believed."""
    return dex_of_unrefuted(learner.settings.c0)


def at_random(_: Learner) -> SelectGoal:
    """SC, ADAM and RAND: any item that was not obtained yet."""
    return unobtained


def by_frontier(learner: Learner) -> SelectGoal:
    """DECKARD: any of the little explored frontier."""
    return less_explored_frontier(learner.settings.c0)


async def predicted(learner: Learner) -> Initial:
    """Before it acts: the requirements of all items are predicted (Algorithm 2)."""
    return await predict_requirements(
        learner.knowledge,
        predict=learner.roles.predict,
        similar=learner.similar,
        k=learner.k,
        most=learner.settings.most,
    )


async def nothing_predicted(_: Learner) -> Initial:
    """ADAM: nothing is predicted."""
    return Initial()
