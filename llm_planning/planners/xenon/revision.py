"""Dependency stores: how the requirements of an item are revised when all its actions fail.

AnalogyStore       RevisionByAnalogy                   XENON          (Algorithm 3)
SelfCorrection     asks the LLM again                  SC             (Appendix J.1, Figure 9)
EightOfEverything  8 of every resource, never revised  ADAM           (Appendix J.1)
DependencyStore    never revised                       DECKARD, RAND

XENON+'s dependency store is in `refuting`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from llm_planning.planners.xenon.dependency_graph import NOTHING
from llm_planning.planners.xenon.knowledge import Knowledge, PartState
from llm_planning.planners.xenon.questions import CorrectionQuestion, Failure, RankingQuestion

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from llm_planning.planners.xenon.questions import Correct, Rank
    from llm_planning.planners.xenon.settings import LearningSettings
    from llm_planning.planners.xenon.similarity import Similar


@dataclass
class StoreState(PartState):
    """What every dependency store keeps.

    Attributes:
        unrevised: item -> failed attempts since it last succeeded or was revised.
    """

    unrevised: dict[str, list[Failure]] = field(default_factory=dict)


class DependencyStore:
    """Keeps Ĝ, and revises it when all actions fail at an item.

    This class leaves requirements as predicted (×), and only counts in C(v) that they failed.

    Attributes:
        state: what the store keeps of failures.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self.state = StoreState()

    async def review(self) -> None:
        """Revises Ĝ before the next goal is chosen."""

    def expect(self, goal: str) -> None:
        """Revises Ĝ before a goal is pursued."""

    def succeeded(self, item: str) -> None:
        """Forgets the failed attempts at an item that was obtained."""
        self.state.unrevised.pop(item, None)

    def failed(self, failure: Failure) -> None:
        """Keeps a failed attempt until its item succeeds or is revised."""
        self.state.unrevised.setdefault(failure.item, []).append(failure)

    async def revise(self, item: str) -> bool:
        """Revises the requirements of an item at which all actions failed.

        An item that the agent obtained itself keeps its requirements: they are known, so an
        imperfect controller has failed.

        Returns:
            Whether they were revised.
        """
        failures = self.state.unrevised.pop(item, [])
        if item in self._knowledge.obtained:
            return False
        await self._revise(item, failures)
        return True

    async def _revise(self, item: str, failures: Sequence[Failure]) -> None:  # noqa: ARG002
        """Revises the requirements of an item that was not obtained, and adds 1 to C(v).

        Args:
            item: v.
            failures: the failed attempts at v since its last revision, oldest first.
        """
        self._knowledge.count_revision(item)

    def forget(self, item: str) -> None:
        """Forgets the failed attempts at an item whose rule has changed."""
        self.state.unrevised.pop(item, None)


class EightOfEverything(DependencyStore):
    """Requires α_i of every resource for any item without experience (ADAM, Appendix J.1)."""

    def __init__(self, knowledge: Knowledge, *, alpha_i: int) -> None:
        super().__init__(knowledge)
        self._alpha_i = alpha_i

    def expect(self, goal: str) -> None:
        """Requires all resources known so far for the goal."""
        known = self._knowledge
        if goal not in known.succeeded:
            resources = _acyclic(known, goal, known.consumed)
            known.graph.require(goal, dict.fromkeys(resources, self._alpha_i))


@dataclass
class CorrectionState(StoreState):
    """What self-correction keeps in addition.

    Attributes:
        corrections: item -> how often the LLM corrected its requirements.
    """

    corrections: dict[str, int] = field(default_factory=dict)


class SelfCorrection(DependencyStore):
    """Has the LLM predict anew, told what failed (△)."""

    def __init__(self, knowledge: Knowledge, *, similar: Similar, correct: Correct, k: int) -> None:
        super().__init__(knowledge)
        self._similar = similar
        self._correct = correct
        self._k = k
        self.state: CorrectionState = CorrectionState()

    async def _revise(self, item: str, failures: Sequence[Failure]) -> None:
        """Replaces R(v) by a new prediction, or by nothing if it makes a cycle (App. E.2)."""
        known = self._knowledge
        known.count_revision(item)
        known.demonstrated.discard(item)
        corrections = self.state.corrections
        corrections[item] = corrections.get(item, 0) + 1
        alike = await self._similar.top(item, known.succeeded, self._k)
        examples = [(u, known.graph.requirements(u)) for u in alike]
        predicted = await self._correct(
            CorrectionQuestion(item, examples, corrections[item], failures)
        )
        acyclic = not known.graph.makes_cycle(item, predicted)
        known.graph.require(item, predicted if acyclic else {})


# Where RevisionByAnalogy differs between XENON and XENON+ -----------------------------------------

Resources: TypeAlias = "Callable[[Knowledge], set[str]]"


def consumed(known: Knowledge) -> set[str]:
    """Returns XENON's "resource" set: the items consumed so far in crafting others."""
    return known.consumed


def consumed_or_gathered(known: Knowledge) -> set[str]:
    """Returns XENON+'s resources: the items consumed or gathered from the world so far."""
    return known.consumed | (known.gathered & known.obtained)


def is_admissible(known: Knowledge, u: str, inadmissible: AbstractSet[str]) -> bool:  # noqa: ARG001
    """Whether XENON may propose an item as a requirement: it is not inadmissible."""
    return u not in inadmissible


def needs_admissible(known: Knowledge, u: str, inadmissible: AbstractSet[str]) -> bool:
    """Whether XENON+ may: the item was obtained, or neither it nor an ancestor is inadmissible."""
    return u in known.obtained or inadmissible.isdisjoint((u, *known.graph.ancestors(u)))


def vouched_for(analogy: Analogy, item: str) -> set[str]:  # noqa: ARG001 - one signature
    """Returns XENON's items that keep their requirements when an ancestor is revised."""
    return analogy.knowledge.succeeded


def vouched_for_at_first(analogy: Analogy, item: str) -> set[str]:
    """Returns XENON+'s: obtained items, and at first demonstrated ones.

    An item on the way to most others may not be obtainable as demonstrated. All that was shown
    beyond it then depends on it, and so do the items believed to require that. Only the item itself
    would be left to try, although it may require one of these. So after 2 c_0 revisions of the item
    demonstrations are doubted, too.
    """
    known = analogy.knowledge
    patient = known.revision_count(item) <= 2 * analogy.scales.c0
    return known.succeeded if patient else known.obtained


@dataclass(frozen=True, slots=True, kw_only=True)
class Analogy:
    """RevisionByAnalogy (Section 4.1, Algorithm 3).

    The paper leaves some things open. Here an item that requires v is never proposed for v, so that
    Ĝ stays acyclic. An inadmissible item is never proposed, so that its descendants lose their
    dependency on it. An obtained or demonstrated item is not revised with its ancestors, and
    neither are items that depend on the ancestors through it only. One call revises no item twice.

    Attributes:
        knowledge: its Ĝ is revised.
        similar: ranks items by their names.
        scales: c_0, α_s, α_i and K (Table 7).
        resources: returns the "resource" set.
        general: returns the resources that an inadmissible item requires.
        admissible: tells whether an item may be proposed, given the inadmissible ones.
        spared: returns the items that are not revised with an ancestor.
        rank: log-probabilities of items as requirements; None in XENON.
        before: is told each item about to be revised, and the ancestor that caused it, if any.
    """

    knowledge: Knowledge
    similar: Similar
    scales: LearningSettings
    resources: Resources = consumed
    general: Resources = consumed
    admissible: Callable[[Knowledge, str, AbstractSet[str]], bool] = is_admissible
    spared: Callable[[Analogy, str], set[str]] = vouched_for
    rank: Rank | None = None
    before: Callable[[str, str | None], None] | None = None

    async def revise(self, item: str) -> None:
        """RevisionByAnalogy(Ĝ, v, C, c_0, α_s, α_i)."""
        await self._revise(item, [])

    async def _revise(self, item: str, revised: list[str]) -> None:
        known, scales = self.knowledge, self.scales
        if self.before is not None:
            self.before(item, revised[0] if revised else None)
        revised.append(item)
        known.demonstrated.discard(item)
        if known.count_revision(item) <= scales.c0:
            known.graph.require(item, await self.analogous(item))
            return
        descendants = known.graph.descendants(item, sparing=self.spared(self, item))
        known.graph.require(item, await self.everything(item))
        for w in descendants:
            if w not in revised:
                await self._revise(w, revised)

    async def analogous(self, item: str) -> Mapping[str, int]:
        """Returns R(v) of a less-tried item: what similar items required (Case 2)."""
        known, scales = self.knowledge, self.scales
        alike = await self.similar.top(item, known.succeeded, scales.k)
        candidates = dict.fromkeys(u for w in alike for u in known.graph.requirements(w))
        resources = self.resources(known)
        amount = scales.alpha_s * known.revision_count(item)
        required = {u: amount if u in resources else 1 for u in self.possible(item, candidates)}
        likely = await self._likely(item, required)
        return required | {u: 1 if u in known.kept else n for u, n in likely.items()}

    async def everything(self, item: str) -> Mapping[str, int]:
        """Returns R(v) of an inadmissible item: α_i of every resource (Case 1)."""
        resources = self.possible(item, self.general(self.knowledge))
        required = dict.fromkeys(resources, self.scales.alpha_i)
        return {**required, **await self._likely(item, required)}

    async def _likely(self, item: str, required: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the likeliest obtained items, K more with every revision (XENON+).

        Similar items propose only what they required. Resources are only what was gathered or used
        up so far. An item may require something else.
        """
        if self.rank is None:
            return NOTHING
        known, scales = self.knowledge, self.scales
        others = [u for u in self.possible(item, known.obtained) if u not in required]
        if not others:
            return NOTHING
        scores = await self.rank(RankingQuestion(item, tuple(others)))
        best = sorted(zip(scores, others, strict=True), key=lambda pair: -pair[0])
        count = scales.k * (known.revision_count(item) - 1)
        amount = scales.alpha_s * min(known.revision_count(item), scales.c0)
        return {u: amount for _, u in best[:count]}

    def possible(self, item: str, candidates: Collection[str]) -> list[str]:
        """Returns the candidates that may be proposed for an item, in the order of V̂."""
        known, c0 = self.knowledge, self.scales.c0
        inadmissible = {
            u for u in known.graph.items if u not in known.obtained and known.revision_count(u) > c0
        }
        return [
            u for u in _acyclic(known, item, candidates) if self.admissible(known, u, inadmissible)
        ]


def gathering(analogy: Analogy) -> Analogy:
    """Returns the same with XENON+'s resources."""
    return replace(analogy, resources=consumed_or_gathered, general=consumed_or_gathered)


def ranking(analogy: Analogy, rank: Rank) -> Analogy:
    """Returns the same that also proposes what the model thinks likely (XENON+)."""
    return replace(analogy, admissible=needs_admissible, spared=vouched_for_at_first, rank=rank)


class AnalogyStore(DependencyStore):
    """RevisionByAnalogy (○)."""

    def __init__(self, analogy: Analogy) -> None:
        super().__init__(analogy.knowledge)
        self._analogy = analogy

    async def _revise(self, item: str, failures: Sequence[Failure]) -> None:  # noqa: ARG002
        await self._analogy.revise(item)


def _acyclic(known: Knowledge, item: str, candidates: Collection[str]) -> list[str]:
    """Returns the candidates that do not require the item, in the order of V̂."""
    return [
        u for u in known.graph.items if u in candidates and not known.graph.makes_cycle(item, (u,))
    ]
