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

from collections.abc import Awaitable, Callable, Mapping
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
    SelectGoal,
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
    SelfCorrection,
    StaticStore,
    consumed,
    consumed_or_gathered,
)

if TYPE_CHECKING:
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.planners.xenon.failure_notes import FailureNotes
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
        return Revising(
            knowledge=self.knowledge,
            similar=self.similar,
            scales=self.settings,
            resources=resources,
        )


DEPENDENCIES: Mapping[str, Callable[[Ingredients], StaticStore]] = {
    # ○: RevisionByAnalogy; with whatever was gathered as a resource; with candidates by
    # log-probability; and nothing is tried twice.
    "analogy": lambda given: AnalogyStore(given.revising(consumed)),
    "analogy_gathered": lambda given: AnalogyStore(given.revising(consumed_or_gathered)),
    "analogy_ranked": lambda given: RankedAnalogyStore(
        given.revising(consumed_or_gathered), rank=given.roles.rank
    ),
    "analogy_refuting": lambda given: RefutingStore(
        given.revising(consumed_or_gathered),
        rank=given.roles.rank,
        memory=given.memory,
        notes=given.notes,
    ),
    # △: the LLM predicts again.
    "self_correction": lambda given: SelfCorrection(
        given.knowledge,
        similar=given.similar,
        correct=given.roles.correct,
        k=given.settings.k,
        notes=given.notes,
    ),
    # ×: never revised.
    "as_predicted": lambda given: StaticStore(given.knowledge),
    "eight_of_everything": lambda given: EightOfEverything(
        given.knowledge, alpha_i=given.settings.alpha_i
    ),
}
"""What keeps and revises Ĝ."""

ACTIONS: Mapping[str, Callable[[Ingredients], ActionPolicy]] = {
    # ○: Failure-aware Action Memory; △: the LLM reflects on failures; ×: what worked is reused;
    # none: the LLM is asked every time.
    "fam": lambda given: FailureAware(given.asking),
    "self_reflection": lambda given: SelfReflecting(given.asking, analyse=given.roles.analyse),
    "successes_only": lambda given: SuccessOnly(given.asking),
    "no_memory": lambda given: Forgetful(given.asking),
}
"""What chooses actions and learns from outcomes."""

GOALS: Mapping[str, Callable[[Ingredients], SelectGoal]] = {
    "by_dex": lambda _: dex,
    "by_dex_of_unrefuted": lambda given: dex_of_unrefuted(given.notes, c0=given.settings.c0),
    "at_random": lambda _: unobtained,
    "by_frontier": lambda given: less_explored_frontier(given.settings.c0),
}
"""What chooses goals."""

Guess: TypeAlias = Callable[[Ingredients], Awaitable[Initial]]


async def predicted(given: Ingredients) -> Initial:
    """The requirements of all items are predicted (Algorithm 2)."""
    return await predict_requirements(
        given.knowledge,
        predict=given.roles.predict,
        similar=given.similar,
        k=given.settings.k,
        most=given.settings.most,
    )


async def nothing(_: Ingredients) -> Initial:
    """Nothing is predicted."""
    return Initial({}, (), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """An agent, as a row of Table 8.

    Attributes:
        dependencies: key of `DEPENDENCIES`.
        actions: key of `ACTIONS`.
        goals: key of `GOALS`.
        guess: fills Ĝ before the agent acts.
        held: whether answers are held to known names.
    """

    dependencies: str
    actions: str
    goals: str
    guess: Guess = predicted
    held: bool = False

    @property
    def described(self) -> list[str]:
        """The names of its parts."""
        return [self.dependencies, self.actions, self.goals, *(["held"] if self.held else [])]


XENON = Composition(dependencies="analogy", actions="fam", goals="by_dex")

AGENTS = {
    "xenon": XENON,
    "sc": Composition(dependencies="self_correction", actions="self_reflection", goals="at_random"),
    "adam": Composition(
        dependencies="eight_of_everything",
        actions="successes_only",
        goals="at_random",
        guess=nothing,
    ),
    "deckard": Composition(
        dependencies="as_predicted", actions="successes_only", goals="by_frontier"
    ),
    "rand": Composition(dependencies="as_predicted", actions="no_memory", goals="at_random"),
    "xenon-self-actions": replace(XENON, actions="self_reflection"),
    "xenon-no-actions": replace(XENON, actions="successes_only"),
    "xenon-self-dependencies": replace(XENON, dependencies="self_correction"),
    "xenon-no-dependencies": replace(XENON, dependencies="as_predicted"),
    "xenon-no-correction": replace(XENON, dependencies="as_predicted", actions="successes_only"),
}
"""The agents of the paper by planner name."""

MINED = replace(XENON, dependencies="analogy_gathered")
CLOSED = replace(MINED, held=True)
RANKED = replace(CLOSED, dependencies="analogy_ranked")

INFORMED_AGENTS = {
    "xenon-names": XENON,
    "xenon-names-mined": MINED,
    "xenon-names-mined-closed": CLOSED,
    "xenon-names-mined-closed-ranked": RANKED,
    "xenon-plus": replace(RANKED, dependencies="analogy_refuting", goals="by_dex_of_unrefuted"),
}
"""XENON+ and its ablation; these are told all names unless the settings say otherwise."""
