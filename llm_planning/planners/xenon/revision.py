"""What becomes of a requirement set that does not work: four dependency stores.

AnalogyStore      RevisionByAnalogy                    XENON      (Algorithm 3)
SelfCorrection    the LLM is asked again               SC         (Appendix J.1, Figure 9)
EightOfEverything 8 of every resource, never revised   ADAM       (Appendix J.1)
StaticStore       stays as predicted                   DECKARD, RAND
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.roles import CorrectionQuestion, RankingQuestion

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from llm_planning.planners.xenon.failure_notes import FailureNotes
    from llm_planning.planners.xenon.knowledge import Knowledge
    from llm_planning.planners.xenon.roles import Attempt, Correct, Rank
    from llm_planning.planners.xenon.settings import LearningSettings
    from llm_planning.planners.xenon.similarity import Similar


class StaticStore:
    """Keeps Ĝ, and changes it when told that an item cannot be obtained as believed.

    This one leaves requirement sets as predicted (×); C(v) counts how often they led nowhere.

    Args:
        knowledge: whose Ĝ.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    async def review(self) -> None:
        """Is told that the next goal is about to be chosen."""

    def expect(self, goal: str) -> None:
        """Is told which item is pursued next."""

    async def revise(self, item: str, failures: Sequence[Attempt]) -> None:  # noqa: ARG002
        """Reconsiders what an item is believed to require, and counts that in C(v).

        Args:
            item: v.
            failures: the attempts at it since the last time, oldest first.
        """
        known = self._knowledge
        known.revisions[item] = known.revision_count(item) + 1


class EightOfEverything(StaticStore):
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


class SelfCorrection(StaticStore):
    """The LLM predicts anew, told what failed (△)."""

    def __init__(
        self,
        knowledge: Knowledge,
        *,
        similar: Similar,
        correct: Correct,
        k: int,
        notes: FailureNotes,
    ) -> None:
        super().__init__(knowledge)
        self._similar = similar
        self._correct = correct
        self._k = k
        self._corrections = notes.corrections

    async def revise(self, item: str, failures: Sequence[Attempt]) -> None:
        """Replaces R(v) by the new prediction; one that makes a cycle by nothing (App. E.2).

        What the agent obtained itself is not asked about, as in `AnalogyStore`.
        """
        known = self._knowledge
        if item in known.obtained:
            return
        await super().revise(item, failures)
        known.demonstrated.discard(item)
        self._corrections[item] = self._corrections.get(item, 0) + 1
        alike = await self._similar.top(item, known.succeeded, self._k)
        examples = [(u, known.graph.requirements(u)) for u in alike]
        predicted = await self._correct(
            CorrectionQuestion(item, examples, self._corrections[item], failures)
        )
        acyclic = not known.graph.makes_cycle(item, predicted)
        known.graph.require(item, predicted if acyclic else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Revising:
    """What the stores that revise by analogy share.

    Attributes:
        knowledge: what is revised.
        similar: ranks items by their names.
        scales: c_0, α_s, α_i and K (Table 7).
        resources: the "resource" set at this moment.
    """

    knowledge: Knowledge
    similar: Similar
    scales: LearningSettings
    resources: Callable[[Knowledge], set[str]]


class AnalogyStore(StaticStore):
    """RevisionByAnalogy (○; Section 4.1, Algorithm 3).

    What the paper leaves open: an item that requires v itself is never proposed for v, so that Ĝ
    stays acyclic, nor is an inadmissible one, so that the descendants of such an item really lose
    their dependency on it. What was obtained or demonstrated is not revised with its ancestors, nor
    what depends on them only through it: its requirements are vouched for. And no item is revised
    twice by one call.
    """

    def __init__(self, given: Revising) -> None:
        super().__init__(given.knowledge)
        self._similar = given.similar
        self._scales = given.scales
        self._resources = given.resources

    async def revise(self, item: str, failures: Sequence[Attempt]) -> None:  # noqa: ARG002
        """RevisionByAnalogy(Ĝ, v, C, c_0, α_s, α_i).

        What the agent obtained itself is not revised: its requirements are known, and it is an
        imperfect controller that failed.
        """
        if item not in self._knowledge.obtained:
            await self._revise(item, [])

    async def _revise(self, item: str, revised: list[str]) -> None:
        known, scales = self._knowledge, self._scales
        revised.append(item)
        known.demonstrated.discard(item)
        known.revisions[item] = known.revision_count(item) + 1
        if known.revisions[item] <= scales.c0:
            known.graph.require(item, await self.analogous(item))
            return
        descendants = known.graph.descendants(item, sparing=self.spared(item))
        known.graph.require(item, await self.everything(item))
        for w in descendants:
            if w not in revised:
                await self._revise(w, revised)

    async def analogous(self, item: str) -> Mapping[str, int]:
        """R(v) of a less-tried item: what similar items required (Case 2)."""
        known, scales = self._knowledge, self._scales
        alike = await self._similar.top(item, known.succeeded, scales.k)
        candidates = dict.fromkeys(u for w in alike for u in known.graph.requirements(w))
        resources = self._resources(known)
        amount = scales.alpha_s * known.revision_count(item)
        return {u: amount if u in resources else 1 for u in self.possible(item, candidates)}

    def spared(self, item: str) -> set[str]:  # noqa: ARG002 - for those who override it
        """Items that are not revised with an ancestor, nor what needs it through them only."""
        return self._knowledge.succeeded

    async def everything(self, item: str) -> Mapping[str, int]:
        """R(v) of an inadmissible item: α_i of every resource (Case 1)."""
        resources = self.possible(item, self._resources(self._knowledge))
        return dict.fromkeys(resources, self._scales.alpha_i)

    def possible(self, item: str, candidates: Collection[str]) -> list[str]:
        """Candidates that may be proposed for an item, in the order of V̂."""
        known, c0 = self._knowledge, self._scales.c0
        return [
            u
            for u in _acyclic(known, item, candidates)
            if u in known.obtained or known.revision_count(u) <= c0
        ]


class RankedAnalogyStore(AnalogyStore):
    """RevisionByAnalogy that also tries what the model thinks likely (XENON+).

    Similar items can only propose what they required themselves, and the resources lack whatever
    was neither gathered nor used up yet. To both are added the obtained items that the model gives
    the highest log-probability, K more of them with every revision.

    Args:
        given: what is revised, and by what.
        rank: log-probabilities of items as requirements.
    """

    def __init__(self, given: Revising, *, rank: Rank) -> None:
        super().__init__(given)
        self._rank = rank

    async def analogous(self, item: str) -> Mapping[str, int]:
        """R(v) of a less-tried item: what similar items required, and the likeliest others."""
        kept = self._knowledge.kept
        likely = await self._likely(item, required := await super().analogous(item))
        return {**required, **{u: 1 if u in kept else n for u, n in likely.items()}}

    async def everything(self, item: str) -> Mapping[str, int]:
        """R(v) of an inadmissible item: every resource, and the likeliest others."""
        required = await super().everything(item)
        return {**required, **await self._likely(item, required)}

    def spared(self, item: str) -> set[str]:
        """What was obtained; what was only demonstrated, too, until that led nowhere for long.

        If an item on the way to most others cannot be had as demonstrated, all that was shown
        beyond it depends on it, and so does whatever is believed to need that: only the item
        itself is then left to try, though it may require one of those.
        """
        known = self._knowledge
        patient = known.revision_count(item) <= 2 * self._scales.c0
        return known.succeeded if patient else known.obtained

    def possible(self, item: str, candidates: Collection[str]) -> list[str]:
        """Candidates for an item that neither are nor depend on what is inadmissible."""
        known, c0 = self._knowledge, self._scales.c0
        hopeless = {
            u for u in known.graph.items if u not in known.obtained and known.revision_count(u) > c0
        }
        return [
            u
            for u in super().possible(item, candidates)
            if u in known.obtained or hopeless.isdisjoint(known.graph.ancestors(u))
        ]

    async def _likely(self, item: str, required: Mapping[str, int]) -> Mapping[str, int]:
        known, scales = self._knowledge, self._scales
        others = [u for u in self.possible(item, known.obtained) if u not in required]
        if not others:
            return {}
        scores = await self._rank(RankingQuestion(item, tuple(others)))
        best = sorted(zip(scores, others, strict=True), key=lambda pair: -pair[0])
        count = scales.k * (known.revision_count(item) - 1)
        amount = scales.alpha_s * min(known.revision_count(item), scales.c0)
        return {u: amount for _, u in best[:count]}


def consumed(known: Knowledge) -> set[str]:
    """The paper's "resource" set: items previously consumed for crafting other items."""
    return known.consumed


def consumed_or_gathered(known: Knowledge) -> set[str]:
    """XENON+'s: whatever was ever gathered from the world is a resource, used so far or not."""
    return known.consumed | (known.gathered & known.obtained)


def _acyclic(known: Knowledge, item: str, candidates: Collection[str]) -> list[str]:
    """Candidates that do not require the item themselves, in the order of V̂."""
    return [
        u for u in known.graph.items if u in candidates and not known.graph.makes_cycle(item, (u,))
    ]
