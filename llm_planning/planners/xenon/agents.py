"""XENON, what it is compared with, and its ablations: each a composition (Tables 1, 5 and 8).

                          requirements      actions            goals
    xenon                 analogy           FAM                DEX
    sc                    self-correction   self-reflection    any unobtained
    adam                  8 x resources     successes only     any unobtained
    deckard               as predicted      successes only     frontier, then obtained
    rand                  as predicted      none               any unobtained
    xenon-self-actions         analogy           self-reflection    DEX     (Table 5, row 2)
    xenon-no-actions           analogy           successes only     DEX     (row 3)
    xenon-self-dependencies    self-correction   FAM                DEX     (row 4)
    xenon-no-dependencies      as predicted      FAM                DEX     (row 5)
    xenon-no-correction        as predicted      successes only     DEX     (row 6)

XENON+ is XENON with the names of the world known, whatever was gathered taken as a resource, the
model's answers held to known names, its log-probabilities over them asked for more candidates, and
nothing tried twice; `xenon-names`, `xenon-names-mined`, `xenon-names-mined-closed` and
`xenon-names-mined-closed-ranked` add these one after the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

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
from llm_planning.planners.xenon.refuting import RefutingStore
from llm_planning.planners.xenon.revision import (
    AnalogyStore,
    EightOfEverything,
    RankedAnalogyStore,
    Revising,
    Scales,
    SelfCorrection,
    StaticStore,
    consumed,
    consumed_or_gathered,
)

if TYPE_CHECKING:
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.planners.xenon.failure_notes import FailureNotes
    from llm_planning.planners.xenon.goals import SelectGoal
    from llm_planning.planners.xenon.knowledge import Knowledge
    from llm_planning.planners.xenon.memory import ActionMemory
    from llm_planning.planners.xenon.roles import Roles
    from llm_planning.planners.xenon.settings import LearningSettings
    from llm_planning.planners.xenon.similarity import Similar


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredients:
    """What the parts of one agent share.

    Attributes:
        knowledge: what the agent has learnt.
        memory: its action memory.
        notes: what it keeps of failures beside that.
        similar: ranks items by their names.
        roles: whom it asks.
        settings: of the run.
    """

    knowledge: Knowledge
    memory: ActionMemory
    notes: FailureNotes
    similar: Similar
    roles: Roles
    settings: LearningSettings

    @property
    def asking(self) -> Asking:
        """What policies that ask for actions share."""
        return Asking(
            memory=self.memory,
            similar=self.similar,
            ask=self.roles.choose,
            k=self.settings.k,
            notes=self.notes,
        )

    def revising(self, resources: Callable[[Knowledge], set[str]]) -> Revising:
        """What stores that revise by analogy share."""
        given = self.settings
        return Revising(
            knowledge=self.knowledge,
            similar=self.similar,
            scales=Scales(c0=given.c0, alpha_s=given.alpha_s, alpha_i=given.alpha_i, k=given.k),
            resources=resources,
        )


Guess: TypeAlias = Callable[[Ingredients], Awaitable[Initial]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """An agent, as a row of Table 8.

    Attributes:
        dependencies: keeps and revises Ĝ.
        actions: chooses actions and learns from outcomes.
        goals: chooses goals.
        guess: fills Ĝ before the agent acts.
        held: whether answers are held to known names.
    """

    dependencies: Callable[[Ingredients], StaticStore]
    actions: Callable[[Ingredients], ActionPolicy]
    goals: Callable[[Ingredients], SelectGoal]
    guess: Guess
    held: bool = False

    @property
    def described(self) -> list[str]:
        """The names of its parts."""
        parts = (self.dependencies, self.actions, self.goals)
        return [*(part.__name__ for part in parts), *(["held"] if self.held else [])]


# Dependencies -------------------------------------------------------------------------------------


def analogy(given: Ingredients) -> AnalogyStore:
    """○: RevisionByAnalogy."""
    return AnalogyStore(given.revising(consumed))


def analogy_gathered(given: Ingredients) -> AnalogyStore:
    """RevisionByAnalogy with whatever was gathered as a resource."""
    return AnalogyStore(given.revising(consumed_or_gathered))


def analogy_ranked(given: Ingredients) -> RankedAnalogyStore:
    """The same, with candidates by log-probability."""
    return RankedAnalogyStore(given.revising(consumed_or_gathered), rank=given.roles.rank)


def analogy_refuting(given: Ingredients) -> RefutingStore:
    """The same, and nothing is tried twice."""
    return RefutingStore(
        given.revising(consumed_or_gathered),
        rank=given.roles.rank,
        memory=given.memory,
        notes=given.notes,
    )


def self_correction(given: Ingredients) -> SelfCorrection:
    """△: the LLM predicts again."""
    return SelfCorrection(
        given.knowledge,
        similar=given.similar,
        correct=given.roles.correct,
        k=given.settings.k,
        notes=given.notes,
    )


def as_predicted(given: Ingredients) -> StaticStore:
    """×: never revised."""
    return StaticStore(given.knowledge)


def eight_of_everything(given: Ingredients) -> EightOfEverything:
    """8 x resources."""
    return EightOfEverything(given.knowledge, alpha_i=given.settings.alpha_i)


# Actions ------------------------------------------------------------------------------------------


def fam(given: Ingredients) -> FailureAware:
    """○: Failure-aware Action Memory."""
    return FailureAware(given.asking)


def self_reflection(given: Ingredients) -> SelfReflecting:
    """△: the LLM reflects on failures."""
    return SelfReflecting(given.asking, analyse=given.roles.analyse)


def successes_only(given: Ingredients) -> SuccessOnly:
    """×: what worked is reused."""
    return SuccessOnly(given.asking)


def no_memory(given: Ingredients) -> Forgetful:
    """None: the LLM is asked every time."""
    return Forgetful(given.asking)


# Goals, and what is guessed beforehand ------------------------------------------------------------


def by_dex(given: Ingredients) -> SelectGoal:
    """Difficulty-based exploration."""
    return dex


def by_dex_of_unrefuted(given: Ingredients) -> SelectGoal:
    """DEX among what was not refuted."""
    return dex_of_unrefuted(given.notes, c0=given.settings.c0)


def at_random(given: Ingredients) -> SelectGoal:
    """Any item that was not obtained."""
    return unobtained


def by_frontier(given: Ingredients) -> SelectGoal:
    """DECKARD's frontier, and obtained items when that is explored."""
    return less_explored_frontier(given.settings.c0)


async def predicted(given: Ingredients) -> Initial:
    """The requirements of all items are predicted (Algorithm 2)."""
    return await predict_requirements(
        given.knowledge,
        predict=given.roles.predict,
        similar=given.similar,
        k=given.settings.k,
        most=given.settings.most,
    )


async def nothing(given: Ingredients) -> Initial:
    """Nothing is predicted."""
    return Initial({}, (), ())


XENON = Composition(dependencies=analogy, actions=fam, goals=by_dex, guess=predicted)

AGENTS = {
    "xenon": XENON,
    "sc": Composition(
        dependencies=self_correction, actions=self_reflection, goals=at_random, guess=predicted
    ),
    "adam": Composition(
        dependencies=eight_of_everything, actions=successes_only, goals=at_random, guess=nothing
    ),
    "deckard": Composition(
        dependencies=as_predicted, actions=successes_only, goals=by_frontier, guess=predicted
    ),
    "rand": Composition(
        dependencies=as_predicted, actions=no_memory, goals=at_random, guess=predicted
    ),
    "xenon-self-actions": replace(XENON, actions=self_reflection),
    "xenon-no-actions": replace(XENON, actions=successes_only),
    "xenon-self-dependencies": replace(XENON, dependencies=self_correction),
    "xenon-no-dependencies": replace(XENON, dependencies=as_predicted),
    "xenon-no-correction": replace(XENON, dependencies=as_predicted, actions=successes_only),
}
"""The agents of the paper by planner name."""

MINED = replace(XENON, dependencies=analogy_gathered)
CLOSED = replace(MINED, held=True)
RANKED = replace(CLOSED, dependencies=analogy_ranked)

INFORMED_AGENTS = {
    "xenon-names": XENON,
    "xenon-names-mined": MINED,
    "xenon-names-mined-closed": CLOSED,
    "xenon-names-mined-closed-ranked": RANKED,
    "xenon-plus": replace(RANKED, dependencies=analogy_refuting, goals=by_dex_of_unrefuted),
}
"""XENON+ and its ablation; these are told all names unless the settings say otherwise."""
