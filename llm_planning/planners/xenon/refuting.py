"""Revision that learns from what was at hand when all actions failed (XENON+, ours)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.goals import frontier
from llm_planning.planners.xenon.knowledge import Withdrawn
from llm_planning.planners.xenon.revision import DependencyStore, consumed_or_gathered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.planners.xenon.knowledge import Knowledge
    from llm_planning.planners.xenon.memory import ActionMemory
    from llm_planning.planners.xenon.questions import Failure
    from llm_planning.planners.xenon.revision import Analogy


class RefutingStore(DependencyStore):
    """RevisionByAnalogy that tries nothing twice.

    If all actions fail at an item, no requirements that the inventory met can be the right ones.

    - A revision that proposes such requirements is followed by the next one at once, without a step
      in the world, until they go beyond or all that was ever obtained is proposed in the quantities
      of an inadmissible item. Then the item waits until something else is obtained.
    - What waits needs something that was not obtained yet, or more of something than is ever
      proposed; and what it needs cannot in turn need it. So whatever is believed to depend on it is
      revised, even what a human-written plan showed.
    - But that is a suspicion only. What was believed of those items is kept, and believed again
      once the item is obtained after all, or its rule has changed.
    - If everything that could be tried is refuted, more is asked for: in a world that always obeys,
      trying again what failed teaches nothing, and what is left is that something is needed in
      larger quantities than are proposed. They grow without end, so every quantity is reached.
    - Failures count against the belief that they were made with: FAM forgets them with it.

    An inadmissible item is tried with what was obtained: a resource that can only be had by way of
    the item would keep it out of the frontier for ever.

    Args:
        analogy: proposes what to require.
        memory: FAM.
    """

    def __init__(self, analogy: Analogy, *, memory: ActionMemory) -> None:
        super().__init__(analogy.knowledge)
        self._analogy = replace(
            analogy,
            general=_obtained_resources,
            spared=lambda _, item: self._spared(item),
            before=self._before,
        )
        self._memory = memory

    async def review(self) -> None:
        """Believes again what no longer waits, and revises what is refuted, after any success.

        If nothing is left to try, more is asked for.
        """
        known, refutations = self._knowledge, self._knowledge.refutations
        if len(known.obtained) != refutations.reviewed:
            refutations.reviewed = len(known.obtained)
            for v, before in [*refutations.withdrawn.items()]:
                if before.cause in known.obtained or before.cause not in refutations.refuted:
                    del refutations.withdrawn[v]
                    self._believe_again(v, before)
            for v in [*known.graph.items]:
                if v not in known.obtained:
                    await self._go_beyond(v)
        # What another item's revision proposed may be refuted already, and others not proposed yet.
        if self._nothing_left():
            for v in frontier(known):
                await self._go_beyond(v)
        if self._nothing_left():
            for v in frontier(known):
                self._ask_for_more(v)

    async def _revise(self, item: str, failures: Sequence[Failure]) -> None:
        """RevisionByAnalogy, repeated until something is proposed that was not refuted."""
        if item not in self._knowledge.obtained:
            self._knowledge.refutations.refute(item, failures)
            await self._analogy.revise(item)
            await self._go_beyond(item)

    def _spared(self, item: str) -> set[str]:
        """What was obtained; what was only demonstrated, too, until the item has to wait."""
        known = self._knowledge
        waits = self._refuted(item) and self._all_proposed(item)
        return known.obtained if waits else known.succeeded

    async def _go_beyond(self, item: str) -> None:
        while self._refuted(item) and not self._all_proposed(item):
            await self._analogy.revise(item)
        graph = self._knowledge.graph
        if self._refuted(item) and graph.descendants(item, sparing=self._spared(item)):
            await self._analogy.revise(item)

    def _nothing_left(self) -> bool:
        return all(self._refuted(v) for v in frontier(self._knowledge))

    def _ask_for_more(self, item: str) -> None:
        graph = self._knowledge.graph
        while self._refuted(item):
            required = graph.requirements(item)
            more = self._more(required)
            if more == required:
                return
            graph.require(item, more)

    def _more(self, required: Mapping[str, int]) -> dict[str, int]:
        """The next larger quantities: as many of each as of any, then twice as many resources.

        Resources are the cheaper half. The same quantities if nothing required is a resource.
        """
        most = max(required.values(), default=0)
        if any(quantity < most for quantity in required.values()):
            return dict.fromkeys(required, most)
        resources = self._analogy.resources(self._knowledge)
        return {u: 2 * most if u in resources else most for u in required}

    def _before(self, item: str, cause: str | None) -> None:
        if cause is not None:
            self._withdraw(item, cause=cause)
        self._begin_anew(item)

    def _refuted(self, item: str) -> bool:
        known = self._knowledge
        return known.refutations.refutes(item, known.graph.requirements(item))

    def _all_proposed(self, item: str) -> bool:
        known = self._knowledge
        inadmissible = known.revision_count(item) > self._analogy.scales.c0
        proposed = known.graph.requirements(item).keys()
        return inadmissible and proposed >= {*self._analogy.possible(item, known.obtained)}

    def _begin_anew(self, item: str) -> None:
        self._memory.forgive(item)
        self._unrevised.pop(item, None)

    def _withdraw(self, item: str, *, cause: str) -> None:
        known, graph = self._knowledge, self._knowledge.graph
        before = Withdrawn(
            cause=cause,
            requirements=dict(graph.requirements(item)),
            makes=graph.makes(item),
            revisions=known.revision_count(item),
            demonstrated=item in known.demonstrated,
        )
        known.refutations.withdrawn.setdefault(item, before)

    def _believe_again(self, item: str, before: Withdrawn) -> None:
        known, required = self._knowledge, before.requirements
        if (
            item in known.obtained
            or known.refutations.refutes(item, required)
            or known.graph.makes_cycle(item, required)
        ):
            return
        self._begin_anew(item)
        known.graph.require(item, required, makes=before.makes)
        known.revisions[item] = before.revisions
        if before.demonstrated:
            known.demonstrated.add(item)


def _obtained_resources(known: Knowledge) -> set[str]:
    return consumed_or_gathered(known) & known.obtained
