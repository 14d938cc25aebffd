"""What becomes of a requirement set that does not work: the dependency stores.

AnalogyStore      RevisionByAnalogy                    XENON          (Algorithm 3)
SelfCorrection    the LLM is asked again               SC             (Appendix J.1, Figure 9)
EightOfEverything 8 of every resource, never revised   ADAM           (Appendix J.1)
DependencyStore   stays as predicted                   DECKARD, RAND

`refuting` has the one of XENON+.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_planning.planners.xenon.graph import NOTHING
from llm_planning.planners.xenon.questions import CorrectionQuestion, RankingQuestion

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from llm_planning.planners.xenon.knowledge import Knowledge
    from llm_planning.planners.xenon.questions import Correct, Failure, Rank
    from llm_planning.planners.xenon.saved import Notes
    from llm_planning.planners.xenon.settings import LearningSettings
    from llm_planning.planners.xenon.similarity import Similar


class DependencyStore:
    """Keeps Ĝ, and changes it when told that an item cannot be obtained as believed.

    This one leaves requirement sets as predicted (×); C(v) counts how often they led nowhere.

    Args:
        knowledge: whose Ĝ.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._unrevised: dict[str, list[Failure]] = {}

    async def review(self) -> None:
        """Is told that the next goal is about to be chosen."""

    def expect(self, goal: str) -> None:
        """Is told which item is pursued next."""

    def succeeded(self, item: str) -> None:
        """Is told that an item was obtained."""
        self._unrevised.pop(item, None)

    def failed(self, failure: Failure) -> None:
        """Keeps a failed attempt until its item succeeds or is revised."""
        self._unrevised.setdefault(failure.item, []).append(failure)

    async def revise(self, item: str) -> None:
        """Reconsiders what an item is believed to require: all actions failed at it."""
        await self._revise(item, self._unrevised.pop(item, []))

    async def _revise(self, item: str, failures: Sequence[Failure]) -> None:  # noqa: ARG002
        """Reconsiders an item, and counts that in C(v).

        Args:
            item: v.
            failures: the attempts at it since the last time, oldest first.
        """
        self._knowledge.count_revision(item)

    def forget(self, item: str) -> None:
        """Is told that the rule of an item has changed."""
        self._unrevised.pop(item, None)

    def notes(self) -> Mapping[str, Any]:
        """What a saved file keeps of failures, by the names of `Notes`."""
        return {"unrevised": self._unrevised}

    def restore(self, notes: Notes) -> None:
        """Takes over what `notes` gave."""
        self._unrevised = notes.unrevised


class EightOfEverything(DependencyStore):
    """Any item without experience requires α_i of all resources (ADAM, Appendix J.1)."""

    def __init__(self, knowledge: Knowledge, *, alpha_i: int) -> None:
        super().__init__(knowledge)
        self._alpha_i = alpha_i

    def expect(self, goal: str) -> None:
        """Requires all resources known by now for the goal."""
        known = self._knowledge
        if goal not in known.succeeded:
            resources = _acyclic(known, goal, known.consumed)
            known.graph.require(goal, dict.fromkeys(resources, self._alpha_i))


class SelfCorrection(DependencyStore):
    """The LLM predicts anew, told what failed (△)."""

    def __init__(self, knowledge: Knowledge, *, similar: Similar, correct: Correct, k: int) -> None:
        super().__init__(knowledge)
        self._similar = similar
        self._correct = correct
        self._k = k
        self._corrections: dict[str, int] = {}

    async def _revise(self, item: str, failures: Sequence[Failure]) -> None:
        """Replaces R(v) by the new prediction; one that makes a cycle by nothing (App. E.2).

        What the agent obtained itself is not asked about, as in `AnalogyStore`.
        """
        known = self._knowledge
        if item in known.obtained:
            return
        known.count_revision(item)
        known.demonstrated.discard(item)
        self._corrections[item] = self._corrections.get(item, 0) + 1
        alike = await self._similar.top(item, known.succeeded, self._k)
        examples = [(u, known.graph.requirements(u)) for u in alike]
        predicted = await self._correct(
            CorrectionQuestion(item, examples, self._corrections[item], failures)
        )
        acyclic = not known.graph.makes_cycle(item, predicted)
        known.graph.require(item, predicted if acyclic else {})

    def notes(self) -> Mapping[str, Any]:
        """Failed attempts, and how often the LLM corrected each item's requirements."""
        return {**super().notes(), "corrections": self._corrections}

    def restore(self, notes: Notes) -> None:
        """Takes them over."""
        super().restore(notes)
        self._corrections = notes.corrections


# The parts of RevisionByAnalogy in which XENON+ differs from XENON --------------------------------

Resources: TypeAlias = "Callable[[Knowledge], set[str]]"


def consumed(known: Knowledge) -> set[str]:
    """The paper's "resource" set: items previously consumed for crafting other items."""
    return known.consumed


def consumed_or_gathered(known: Knowledge) -> set[str]:
    """XENON+'s: whatever was ever gathered from the world is a resource, used so far or not."""
    return known.consumed | (known.gathered & known.obtained)


def is_admissible(known: Knowledge, u: str, inadmissible: AbstractSet[str]) -> bool:  # noqa: ARG001
    """The paper's candidates for what an item requires: any but the inadmissible."""
    return u not in inadmissible


def needs_admissible(known: Knowledge, u: str, inadmissible: AbstractSet[str]) -> bool:
    """XENON+'s: nor does a candidate that was not obtained depend on an inadmissible item."""
    return u in known.obtained or inadmissible.isdisjoint((u, *known.graph.ancestors(u)))


def vouched_for(analogy: Analogy, item: str) -> set[str]:  # noqa: ARG001 - the item does not matter
    """The paper's items that keep their requirements when an ancestor is revised."""
    return analogy.knowledge.succeeded


def vouched_for_at_first(analogy: Analogy, item: str) -> set[str]:
    """XENON+'s: what was obtained; what was only demonstrated, too, until that leads nowhere.

    If an item on the way to most others cannot be had as demonstrated, all that was shown beyond it
    depends on it, and so does whatever is believed to need that: only the item itself is then left
    to try, though it may require one of those.
    """
    known = analogy.knowledge
    patient = known.revision_count(item) <= 2 * analogy.scales.c0
    return known.succeeded if patient else known.obtained


@dataclass(frozen=True, slots=True, kw_only=True)
class Analogy:
    """RevisionByAnalogy (Section 4.1, Algorithm 3).

    What the paper leaves open: an item that requires v itself is never proposed for v, so that Ĝ
    stays acyclic, nor is an inadmissible one, so that the descendants of such an item really lose
    their dependency on it. What was obtained or demonstrated is not revised with its ancestors, nor
    what depends on them only through it: its requirements are vouched for. And no item is revised
    twice by one call.

    Attributes:
        knowledge: what is revised.
        similar: ranks items by their names.
        scales: c_0, α_s, α_i and K (Table 7).
        resources: the "resource" set at this moment.
        general: the resources that an inadmissible item requires.
        admissible: whether an item may be proposed, given the inadmissible ones.
        spared: items that are not revised with an ancestor, nor what needs it through them only.
        rank: log-probabilities of items as requirements; XENON does without.
        before: is told of each item about to be revised, and of the ancestor that caused it if any.
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
        """R(v) of a less-tried item: what similar items required (Case 2)."""
        known, scales = self.knowledge, self.scales
        alike = await self.similar.top(item, known.succeeded, scales.k)
        candidates = dict.fromkeys(u for w in alike for u in known.graph.requirements(w))
        resources = self.resources(known)
        amount = scales.alpha_s * known.revision_count(item)
        required = {u: amount if u in resources else 1 for u in self.possible(item, candidates)}
        likely = await self._likely(item, required)
        return required | {u: 1 if u in known.kept else n for u, n in likely.items()}

    async def everything(self, item: str) -> Mapping[str, int]:
        """R(v) of an inadmissible item: α_i of every resource (Case 1)."""
        resources = self.possible(item, self.general(self.knowledge))
        required = dict.fromkeys(resources, self.scales.alpha_i)
        return {**required, **await self._likely(item, required)}

    async def _likely(self, item: str, required: Mapping[str, int]) -> Mapping[str, int]:
        """The obtained items that the model thinks likeliest, K more with every revision (XENON+).

        Similar items can only propose what they required themselves, and the resources lack
        whatever was neither gathered nor used up yet.
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
        """Candidates that may be proposed for an item, in the order of V̂."""
        known, c0 = self.knowledge, self.scales.c0
        inadmissible = {
            u for u in known.graph.items if u not in known.obtained and known.revision_count(u) > c0
        }
        return [
            u for u in _acyclic(known, item, candidates) if self.admissible(known, u, inadmissible)
        ]


def gathering(analogy: Analogy) -> Analogy:
    """The same with XENON+'s resources."""
    return replace(analogy, resources=consumed_or_gathered, general=consumed_or_gathered)


def ranking(analogy: Analogy, rank: Rank) -> Analogy:
    """The same that also tries what the model thinks likely (XENON+)."""
    return replace(
        analogy,
        admissible=needs_admissible,
        spared=vouched_for_at_first,
        rank=rank,
    )


class AnalogyStore(DependencyStore):
    """RevisionByAnalogy (○).

    What the agent obtained itself is not revised: its requirements are known, and it is an
    imperfect controller that failed.
    """

    def __init__(self, analogy: Analogy) -> None:
        super().__init__(analogy.knowledge)
        self._analogy = analogy

    async def _revise(self, item: str, failures: Sequence[Failure]) -> None:  # noqa: ARG002
        if item not in self._knowledge.obtained:
            await self._analogy.revise(item)


def _acyclic(known: Knowledge, item: str, candidates: Collection[str]) -> list[str]:
    """Candidates that do not require the item themselves, in the order of V̂."""
    return [
        u for u in known.graph.items if u in candidates and not known.graph.makes_cycle(item, (u,))
    ]
