"""Everything that an agent has learnt, and how experience enters it (XENON, Appendix C)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.graph import NOTHING, DependencyGraph

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PICKAXES = ("wooden_pickaxe", "stone_pickaxe", "iron_pickaxe", "diamond_pickaxe")
"""From the lowest tier to the highest (Appendix C)."""


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

    @property
    def succeeded(self) -> set[str]:
        """Items whose requirements are vouched for, by experience or by a demonstration."""
        return self.obtained | self.demonstrated

    def revision_count(self, item: str) -> int:
        """C(v)."""
        return self.revisions.get(item, 1)

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
