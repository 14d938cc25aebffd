"""What an agent has learnt, and how experience enters it (XENON, Appendix C)."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 (pydantic reads it)
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.dependency_graph import NOTHING, DependencyGraph, aggregate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from llm_planning.planners.xenon.questions import Failure

PICKAXES = ("wooden_pickaxe", "stone_pickaxe", "iron_pickaxe", "diamond_pickaxe")
"""From the lowest tier to the highest (Appendix C)."""


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


@dataclass
class PartState:
    """What one part of an agent keeps of failures; the part alone changes it.

    A part declares its fields in a subclass. Saved files contain the fields under their names.
    `saved.Notes` lists the subclasses.
    """

    def restore(self, notes: PartState) -> None:
        """Takes its own fields from the joined states of all parts."""
        for own in fields(self):
            setattr(self, own.name, getattr(notes, own.name))


@dataclass
class Refutations(PartState):
    """What XENON+ refuted or withdrew. Its goal selector reads this, too.

    Attributes:
        refuted: item -> inventories with which every action failed.
        withdrawn: item -> the belief that was withdrawn.
        reviewed: number of items obtained when refuted beliefs were last revised.
    """

    refuted: dict[str, list[dict[str, int]]] = field(default_factory=dict)
    withdrawn: dict[str, Withdrawn] = field(default_factory=dict)
    reviewed: int = 0

    def refute(self, item: str, failures: Sequence[Failure]) -> None:
        """Notes what the inventories of these failures, by all actions, had in common.

        An older refuted inventory is dropped if the new one includes it.
        """
        inventories = [failure.inventory for failure in failures]
        least = {u: min(one.get(u, 0) for one in inventories) for u in inventories[0]}
        if not self.refutes(item, least):
            known = self.refuted.get(item, ())
            beyond = [one for one in known if not _covers(least, one)]
            self.refuted[item] = [*beyond, {u: n for u, n in least.items() if n}]

    def refutes(self, item: str, requirements: Mapping[str, int]) -> bool:
        """Whether all actions failed at an item although the inventory met these requirements."""
        return any(_covers(one, requirements) for one in self.refuted.get(item, ()))

    def withdraw(self, item: str, belief: Withdrawn) -> None:
        """Keeps the belief about an item unless an older one is kept."""
        self.withdrawn.setdefault(item, belief)

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


@dataclass(slots=True)
class Knowledge:
    """What an agent knows of items; what it knows of actions is in its action memory.

    Attributes:
        graph: Ĝ.
        demonstrated: items that a human-written plan obtained and the agent did not. It believes
            what the plan shows until they fail.
        obtained: 𝒱, items that the agent obtained itself.
        consumed: the "resource" set, items used up in obtaining others.
        kept: items that were required and stayed, such as a crafting table.
        gathered: items obtained without using anything up.
        revisions: v -> C(v); 1 for an item that is not listed.
        attempts: v -> how often it was the goal.
        setbacks: v -> how often the agent gave it up because an obtained item failed.
        refutations: what XENON+ refuted or withdrew.
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
        """Returns ((q_1, u_1), ..., (1, g)), what a goal still takes, requirements first."""
        return aggregate(self.graph, goal, inventory, kept=self.kept)

    @property
    def succeeded(self) -> set[str]:
        """The items whose requirements experience or a demonstration has shown."""
        return self.obtained | self.demonstrated

    def revision_count(self, item: str) -> int:
        """Returns C(v)."""
        return self.revisions.get(item, 1)

    def count_revision(self, item: str) -> int:
        """Adds 1 to C(v) and returns it."""
        self.revisions[item] = self.revision_count(item) + 1
        return self.revisions[item]

    def exploration_count(self, item: str) -> int:
        """Returns how often an item was explored in vain: C(v) plus its setbacks.

        Setbacks happen with an imperfect controller only. Without them, the agent would pursue for
        ever a goal whose materials it cannot gather.
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
            kept: items of `used` that stayed.
        """
        if item not in self.demonstrated:
            self.demonstrated.add(item)
            self._observe(item, used, makes=makes, kept=kept)

    def obtain(self, item: str, used: Mapping[str, int], *, makes: int, kept: set[str]) -> None:
        """Takes note of an item that the agent obtained for the first time (Appendix C).

        Args:
            item: v; nothing changes if it was obtained before.
            used: R_exp(v).
            makes: how many one action gave.
            kept: items of `used` that stayed.
        """
        if item in self.obtained:
            return
        self.demonstrated.discard(item)
        self._drop_beliefs_against(item, used)
        self._observe(item, used, makes=makes, kept=kept)
        self.obtained.add(item)

    def forget(self, items: Iterable[str]) -> None:
        """Forgets what was learnt about items whose rules have changed (Appendix K.6)."""
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
        """Empties beliefs that experience contradicts: no item that was used requires this item.

        Every used item was obtained before, with all that it required then. So such a belief can
        only be about an item that was not obtained, or whose rule has changed since.
        """
        for u in used:
            for w in (u, *self.graph.ancestors(u)):
                if item in self.graph.requirements(w):
                    self.graph.require(w, NOTHING)


def experienced(
    used: Mapping[str, int], before: Mapping[str, int], after: Mapping[str, int]
) -> tuple[dict[str, int], set[str]]:
    """Returns R_exp(v), and which of its items stayed (Appendix C).

    The rule depends on what happened, not on the verb: a perturbed recipe may be "mined".

    Args:
        used: items used and their quantities, as `World.step` returns them.
        before: the inventory before.
        after: the inventory afterwards.

    Returns:
        The used items. If there are none, the highest-tier pickaxe in the inventory, if any. And
        those of these items of which the inventory has lost none.
    """
    if used:
        return dict(used), {u for u in used if after.get(u, 0) >= before.get(u, 0)}
    for pickaxe in reversed(PICKAXES):
        if before.get(pickaxe, 0) > 0:
            return {pickaxe: 1}, {pickaxe}
    return {}, set()
