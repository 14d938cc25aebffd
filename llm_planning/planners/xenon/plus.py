"""XENON+ (ours): it knows all names, asks which are likely, and tries nothing twice.

`Ranked` is XENON+ without the last: the planner `xenon-plus-a4`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.algorithm import Xenon
from llm_planning.planners.xenon.graph import NOTHING
from llm_planning.planners.xenon.roles import RankingQuestion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from llm_planning.planners.xenon.asking import MinecraftAsking
    from llm_planning.planners.xenon.roles import Failure


@dataclass(frozen=True, kw_only=True)
class Ranked(Xenon):
    """XENON that counts what was gathered as a resource, and proposes what a model finds likely.

    An item on the way to most others may not be obtainable as demonstrated. All that was shown
    beyond it then depends on it, and so do the items believed to require that. Only the item itself
    would be left to try, although it may require one of these. So after 2 c_0 revisions of the item
    demonstrations are doubted, too.
    """

    roles: MinecraftAsking

    def resources(self) -> set[str]:
        """Returns the items consumed or gathered from the world so far."""
        known = self.knowledge
        return known.consumed | (known.gathered & known.obtained)

    def admissible(self, item: str) -> bool:
        """Whether an item may be proposed: it and its ancestors are not inadmissible."""
        known = self.knowledge
        if item in known.obtained:
            return True
        needed = (item, *known.graph.ancestors(item))
        return all(Xenon.admissible(self, u) for u in needed)

    def vouched_for(self, item: str) -> set[str]:
        """Returns the obtained items, and at first the demonstrated ones."""
        known = self.knowledge
        patient = known.revision_count(item) <= 2 * self.c0
        return known.succeeded if patient else known.obtained

    async def analogous(self, item: str) -> dict[str, int]:
        """Returns what similar items required, and what is likely."""
        required, kept = await super().analogous(item), self.knowledge.kept
        likely = await self.likely(item, required)
        return required | {u: 1 if u in kept else n for u, n in likely.items()}

    async def everything(self, item: str) -> dict[str, int]:
        """Returns α_i of every resource, and what is likely."""
        required = dict.fromkeys(self.possible(item, self.general()), self.alpha_i)
        return {**required, **await self.likely(item, required)}

    def general(self) -> set[str]:
        """Returns the resources that an inadmissible item requires."""
        return self.resources()

    async def likely(self, item: str, required: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the likeliest obtained items, K more with every revision.

        Similar items propose only what they required. Resources are only what was gathered or used
        up so far. An item may require something else.
        """
        known = self.knowledge
        others = [u for u in self.possible(item, known.obtained) if u not in required]
        if not others:
            return NOTHING
        scores = await self.roles.rank(RankingQuestion(item, tuple(others)))
        best = sorted(zip(scores, others, strict=True), key=lambda pair: -pair[0])
        count = self.k * (known.revision_count(item) - 1)
        amount = self.alpha_s * min(known.revision_count(item), self.c0)
        return {u: amount for _, u in best[:count]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """The belief about an item that was withdrawn because one of its ancestors failed.

    Attributes:
        cause: the ancestor that could not be obtained.
        requirements: R(v).
        makes: how many one action was believed to give.
        revisions: C(v).
        demonstrated: whether a human-written plan had shown it.
    """

    cause: str
    requirements: Mapping[str, int]
    makes: int
    revisions: int
    demonstrated: bool


@dataclass(slots=True)
class Refutations:
    """What XENON+ refuted or withdrew.

    Attributes:
        refuted: item -> inventories with which every action failed.
        withdrawn: item -> the belief that was withdrawn.
        reviewed: number of items obtained when refuted beliefs were last revised.
    """

    refuted: dict[str, list[dict[str, int]]] = field(default_factory=dict)
    withdrawn: dict[str, Withdrawn] = field(default_factory=dict)
    reviewed: int = 0

    def refute(self, item: str, least: Mapping[str, int]) -> None:
        """Notes what all failed attempts at an item had at hand.

        An older refuted inventory is dropped if the new one includes it.
        """
        if not self.refutes(item, least):
            known = self.refuted.get(item, ())
            beyond = [inventory for inventory in known if not _covers(least, inventory)]
            self.refuted[item] = [*beyond, {u: n for u, n in least.items() if n}]

    def refutes(self, item: str, requirements: Mapping[str, int]) -> bool:
        """Whether all actions failed at an item although the inventory met these requirements."""
        return any(_covers(inventory, requirements) for inventory in self.refuted.get(item, ()))

    def begin_review(self, obtained: int) -> bool:
        """Notes the number of obtained items; returns whether it differs from the last review's."""
        due = obtained != self.reviewed
        self.reviewed = obtained
        return due

    def take_back(self, obtained: Collection[str]) -> dict[str, Withdrawn]:
        """Removes and returns the beliefs whose cause was obtained or is no longer refuted."""
        back = {
            v: belief
            for v, belief in self.withdrawn.items()
            if belief.cause in obtained or belief.cause not in self.refuted
        }
        for v in back:
            del self.withdrawn[v]
        return back

    def forget(self, item: str) -> None:
        """Forgets what was refuted or withdrawn of an item whose rule has changed."""
        self.refuted.pop(item, None)
        self.withdrawn.pop(item, None)
        self.reviewed = 0


def _covers(inventory: Mapping[str, int], requirements: Mapping[str, int]) -> bool:
    """Whether an inventory meets these requirements."""
    return all(inventory.get(u, 0) >= quantity for u, quantity in requirements.items())


@dataclass(frozen=True, kw_only=True)
class XenonPlus(Ranked):
    """RevisionByAnalogy that learns from the inventory when all actions failed.

    If all actions fail at an item, all requirements that the inventory met are refuted.

    - If a revision proposes refuted requirements, the next revision follows at once, without a step
      in the world. This ends when the requirements are not refuted, or when all obtained items are
      proposed in the quantities of an inadmissible item. Then the item waits until another item is
      obtained.
    - A waiting item requires an item not obtained yet, or larger quantities than are proposed. What
      it requires cannot require it in turn. So all items believed to depend on it are revised, even
      if a human-written plan showed them.
    - This is only a suspicion. The old beliefs are kept, and believed again once the waiting item
      is obtained or its rule has changed.
    - If all requirements that could be tried are refuted, larger quantities are asked for. In a
      world without chance, trying again teaches nothing, and the quantities are all that is left to
      doubt. They grow without end, so every quantity is reached.
    - Failures count against the belief that they were made with: FAM forgets them with it.

    Attributes:
        refutations: what was refuted or withdrawn.
        held: item -> the least that all attempts had at hand that failed since it last succeeded or
            was revised.
    """

    refutations: Refutations = field(default_factory=Refutations)
    held: dict[str, Mapping[str, int]] = field(default_factory=dict)

    # Goals ----------------------------------------------------------------------------------------

    async def select_goal(self) -> str | None:
        """Reviews what is believed, and chooses by DEX among what is not refuted."""
        await self.review()
        return await super().select_goal()

    def frontier(self) -> list[str]:
        """Returns the items of F whose requirements are not refuted, or F if all are."""
        f = super().frontier()
        return [v for v in f if not self.is_refuted(v)] or f

    def explored(self, item: str) -> int:
        """Counts an item whose belief was withdrawn as explored 2 c_0 times more.

        What is proposed instead is less likely than the old belief, which may come back.
        """
        return super().explored(item) + 2 * self.c0 * (item in self.refutations.withdrawn)

    async def review(self) -> None:
        """After a success, restores withdrawn beliefs and revises refuted ones.

        If nothing is left to try, it asks for larger quantities.
        """
        known, refutations = self.knowledge, self.refutations
        if refutations.begin_review(len(known.obtained)):
            for v, before in refutations.take_back(known.obtained).items():
                self._believe_again(v, before)
            for v in [*known.graph.items]:
                if v not in known.obtained:
                    await self._go_beyond(v)
        # The revision of one item may propose refuted requirements for another.
        if self._nothing_left():
            for v in super().frontier():
                await self._go_beyond(v)
        if self._nothing_left():
            for v in super().frontier():
                self._ask_for_more(v)

    # Outcomes -------------------------------------------------------------------------------------

    def succeeded(self, action: str, item: str) -> None:
        """Adds 1 to S(a, v), and forgets what failed."""
        super().succeeded(action, item)
        self.held.pop(item, None)

    def failed(self, failure: Failure) -> None:
        """Adds 1 to F(a, v), and keeps what was at hand."""
        super().failed(failure)
        now = failure.inventory
        before = self.held.get(failure.item, now)
        self.held[failure.item] = {u: min(n, now.get(u, 0)) for u, n in before.items()}

    def forgive(self, item: str) -> None:
        """Forgets what failed."""
        super().forgive(item)
        self.held.pop(item, None)

    def forget(self, items: Iterable[str]) -> None:
        """Forgets what was learnt about items whose rules have changed."""
        super().forget(items)
        for item in items:
            self.refutations.forget(item)
            self.held.pop(item, None)

    # Revision -------------------------------------------------------------------------------------

    async def revise(self, item: str) -> None:
        """Repeats RevisionByAnalogy until the requirements are not refuted."""
        self.refutations.refute(item, self.held.pop(item, NOTHING))
        await super().revise(item)
        await self._go_beyond(item)

    async def revise_once(self, item: str, revised: list[str]) -> None:
        """Keeps the old belief of what depends on the revised item, and forgets its failures."""
        if revised:
            self._withdraw(item, cause=revised[0])
        self.forgive(item)
        await super().revise_once(item, revised)

    def vouched_for(self, item: str) -> set[str]:
        """Returns the obtained items, and the demonstrated ones unless the item waits."""
        known = self.knowledge
        waits = self.is_refuted(item) and self._all_proposed(item)
        return known.obtained if waits else known.succeeded

    def general(self) -> set[str]:
        """Returns the obtained resources.

        A resource that requires the item would keep it out of the frontier for ever.
        """
        return self.resources() & self.knowledge.obtained

    def is_refuted(self, item: str) -> bool:
        """Whether what an item is believed to require was refuted."""
        return self.refutations.refutes(item, self.knowledge.graph.requirements(item))

    async def _go_beyond(self, item: str) -> None:
        while self.is_refuted(item) and not self._all_proposed(item):
            await super().revise(item)
        graph = self.knowledge.graph
        if self.is_refuted(item) and graph.descendants(item, sparing=self.vouched_for(item)):
            await super().revise(item)

    def _all_proposed(self, item: str) -> bool:
        known = self.knowledge
        inadmissible = known.revision_count(item) > self.c0
        proposed = known.graph.requirements(item).keys()
        return inadmissible and proposed >= {*self.possible(item, known.obtained)}

    def _nothing_left(self) -> bool:
        return all(map(self.is_refuted, super().frontier()))

    def _ask_for_more(self, item: str) -> None:
        graph = self.knowledge.graph
        while self.is_refuted(item):
            required = graph.requirements(item)
            more = self._more(required)
            if more == required:
                return
            graph.require(item, more)

    def _more(self, required: Mapping[str, int]) -> dict[str, int]:
        """Returns the next larger quantities: the largest of all, then twice as many resources.

        Resources cost less to gather. Without a resource the quantities stay as they are.
        """
        most = max(required.values(), default=0)
        if any(quantity < most for quantity in required.values()):
            return dict.fromkeys(required, most)
        resources = self.resources()
        return {u: 2 * most if u in resources else most for u in required}

    def _withdraw(self, item: str, *, cause: str) -> None:
        """Keeps the belief about an item unless an older one is kept."""
        known, graph = self.knowledge, self.knowledge.graph
        before = Withdrawn(
            cause=cause,
            requirements=dict(graph.requirements(item)),
            makes=graph.makes(item),
            revisions=known.revision_count(item),
            demonstrated=item in known.demonstrated,
        )
        self.refutations.withdrawn.setdefault(item, before)

    def _believe_again(self, item: str, before: Withdrawn) -> None:
        known, required = self.knowledge, before.requirements
        if (
            item in known.obtained
            or self.refutations.refutes(item, required)
            or known.graph.makes_cycle(item, required)
        ):
            return
        self.forgive(item)
        known.graph.require(item, required, makes=before.makes)
        known.revisions[item] = before.revisions
        if before.demonstrated:
            known.demonstrated.add(item)
