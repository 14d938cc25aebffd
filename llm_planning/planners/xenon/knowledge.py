"""Everything that an agent has learnt, and how experience enters it (XENON, Appendix C)."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 (pydantic reads it)
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.graph import NOTHING, DependencyGraph, aggregate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_planning.planners.xenon.questions import Failure

PICKAXES = ("wooden_pickaxe", "stone_pickaxe", "iron_pickaxe", "diamond_pickaxe")
"""From the lowest tier to the highest (Appendix C)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """What was believed of an item until something that it hangs on could not be had.

    Attributes:
        cause: what could not be had.
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
    """What failures have shown to be wrong; XENON+ alone takes note of it.

    Attributes:
        refuted: item -> inventories with which every action failed.
        withdrawn: item -> what was believed of it before.
        reviewed: how many items were obtained when all that is refuted was last revised.
    """

    refuted: dict[str, list[dict[str, int]]] = field(default_factory=dict)
    withdrawn: dict[str, Withdrawn] = field(default_factory=dict)
    reviewed: int = 0

    def refute(self, item: str, failures: Sequence[Failure]) -> None:
        """Takes note of what was at hand in each of some failures, by all actions, at an item."""
        inventories = [failure.inventory for failure in failures]
        least = {u: min(one.get(u, 0) for one in inventories) for u in inventories[0]}
        if not self.refutes(item, least):
            known = self.refuted.get(item, ())
            beyond = [one for one in known if not _covers(least, one)]
            self.refuted[item] = [*beyond, {u: n for u, n in least.items() if n}]

    def refutes(self, item: str, requirements: Mapping[str, int]) -> bool:
        """Whether these cannot be what an item requires: all actions failed with all of it."""
        return any(_covers(one, requirements) for one in self.refuted.get(item, ()))

    def forget(self, item: str) -> None:
        """Is told that the rule of an item has changed."""
        self.refuted.pop(item, None)
        self.withdrawn.pop(item, None)
        self.reviewed = 0


def _covers(inventory: Mapping[str, int], requirements: Mapping[str, int]) -> bool:
    """Whether an inventory has all that is required."""
    return all(inventory.get(u, 0) >= quantity for u, quantity in requirements.items())


@dataclass(slots=True)
class Knowledge:
    """What an agent knows; what it remembers of actions is in its action memory.

    Attributes:
        graph: Ĝ.
        demonstrated: items that a human-written plan obtained and the agent has not yet: what the
            plan says of them is believed until they fail.
        obtained: 𝒱, items that the agent obtained itself.
        consumed: the "resource" set, items used up in obtaining others.
        kept: items that were required and stayed, such as a crafting table.
        gathered: items obtained without using anything up.
        revisions: C(v); 1 where it is not listed.
        attempts: v -> how often it was the goal.
        setbacks: v -> how often it was given up because something failed that is known to work.
        refutations: what cannot be required.
    """

    graph: DependencyGraph
    demonstrated: set[str] = field(default_factory=set)
    obtained: set[str] = field(default_factory=set)
    consumed: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=lambda: set(PICKAXES))
    gathered: set[str] = field(default_factory=set)
    revisions: dict[str, int] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    setbacks: dict[str, int] = field(default_factory=dict)
    refutations: Refutations = field(default_factory=Refutations)

    def aggregated(self, goal: str, inventory: Mapping[str, int]) -> list[tuple[int, str]]:
        """((q_1, u_1), ..., (1, g)): what is still missing for a goal, requirements first."""
        return aggregate(self.graph, goal, inventory, kept=self.kept)

    @property
    def succeeded(self) -> set[str]:
        """Items whose requirements are vouched for, by experience or by a demonstration."""
        return self.obtained | self.demonstrated

    def revision_count(self, item: str) -> int:
        """C(v)."""
        return self.revisions.get(item, 1)

    def count_revision(self, item: str) -> int:
        """C(v) += 1; returns it."""
        self.revisions[item] = self.revision_count(item) + 1
        return self.revisions[item]

    def exploration_count(self, item: str) -> int:
        """How often an item was explored in vain: C(v), and attempts that came to nothing before v.

        With a perfect controller the latter do not happen, and this is C(v). With another, a goal
        whose materials cannot be gathered would otherwise be pursued for ever.
        """
        return self.revision_count(item) + self.setbacks.get(item, 0)

    def demonstrate(
        self, item: str, used: Mapping[str, int], *, makes: int, kept: set[str]
    ) -> None:
        """Takes note of an item that a human-written plan obtained.

        Args:
            item: v.
            used: R_exp(v).
            makes: how many one action gave.
            kept: what of `used` is still there.
        """
        if item not in self.demonstrated:
            self.demonstrated.add(item)
            self._observe(item, used, makes=makes, kept=kept)

    def obtain(self, item: str, used: Mapping[str, int], *, makes: int, kept: set[str]) -> None:
        """Takes note of an item that the agent obtained; the first time counts (Appendix C).

        Args:
            item: v.
            used: R_exp(v).
            makes: how many one action gave.
            kept: what of `used` is still there.
        """
        if item in self.obtained:
            return
        self.demonstrated.discard(item)
        self._drop_beliefs_against(item, used)
        self._observe(item, used, makes=makes, kept=kept)
        self.obtained.add(item)

    def forget(self, items: Iterable[str]) -> None:
        """Withdraws what was learnt about items whose rules are said to have changed (App. K.6)."""
        for item in items:
            self.obtained.discard(item)
            self.demonstrated.discard(item)
            self.revisions.pop(item, None)
            self.refutations.forget(item)

    def _observe(self, item: str, used: Mapping[str, int], *, makes: int, kept: set[str]) -> None:
        spent = used.keys() - kept
        self.graph.require(item, used, makes=makes)
        self.kept.update(kept)
        self.consumed.update(spent)
        if not spent:
            self.gathered.add(item)

    def _drop_beliefs_against(self, item: str, used: Mapping[str, int]) -> None:
        """Empties beliefs that experience contradicts: what was used cannot require the item.

        Everything used was obtained before, and so was all that it required when it was; only items
        that were not obtained, or whose rules have changed since, can stand in the way.
        """
        for u in used:
            for w in (u, *self.graph.ancestors(u)):
                if item in self.graph.requirements(w):
                    self.graph.require(w, NOTHING)


def experienced(
    used: Mapping[str, int], before: Mapping[str, int], after: Mapping[str, int]
) -> tuple[dict[str, int], set[str]]:
    """R_exp(v), and what of it stayed (Appendix C).

    The rule goes by what happened rather than by the verb: a perturbed recipe may be "mined".

    Args:
        used: what left the inventory, as `World.step` tells.
        before: the inventory before.
        after: the inventory afterwards.

    Returns:
        What was used; if nothing was, the highest-tier pickaxe at hand, or nothing without one. And
        the items of it that are still there as they were.
    """
    if used:
        return dict(used), {u for u in used if after.get(u, 0) >= before.get(u, 0)}
    for pickaxe in reversed(PICKAXES):
        if before.get(pickaxe, 0) > 0:
            return {pickaxe: 1}, {pickaxe}
    return {}, set()
