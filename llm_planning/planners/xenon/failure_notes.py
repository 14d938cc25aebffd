"""What an agent keeps of failures beside FAM: all of it in one place, so that it can be saved."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 (pydantic reads it)
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import ConfigDict

from llm_planning.planners.xenon.roles import Attempt  # noqa: TC001 (pydantic reads it)

if TYPE_CHECKING:
    from collections.abc import Sequence


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
class FailureNotes:
    """Failed attempts, and what was made of them.

    Attributes:
        unrevised: item -> failed attempts since its requirements were last reconsidered.
        in_vain: item -> how many attempts failed since one last succeeded or its requirements were
            last reconsidered; agents without FAM count this.
        unexplained: item -> failed attempts that were not reflected on yet.
        reasons: attempt, as `situation` writes it -> the reflection on it.
        analyses: item -> reflections, oldest first.
        corrections: item -> how often the LLM corrected its requirements.
        refuted: item -> inventories with which every action failed.
        withdrawn: item -> what was believed of it before.
        reviewed: how many items were obtained when all that is refuted was last revised.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    unrevised: dict[str, list[Attempt]] = field(default_factory=dict)
    in_vain: dict[str, int] = field(default_factory=dict)
    unexplained: dict[str, list[Attempt]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    analyses: dict[str, list[str]] = field(default_factory=dict)
    corrections: dict[str, int] = field(default_factory=dict)
    refuted: dict[str, list[dict[str, int]]] = field(default_factory=dict)
    withdrawn: dict[str, Withdrawn] = field(default_factory=dict)
    reviewed: int = 0

    def refute(self, item: str, failures: Sequence[Attempt]) -> None:
        """Takes note of what was at hand in each of some failures, by all actions, at an item."""
        inventories = [failure.inventory for failure in failures]
        least = {u: min(held.get(u, 0) for held in inventories) for u in inventories[0]}
        if not self.refutes(item, least):
            known = self.refuted.get(item, ())
            beyond = [held for held in known if not covers(least, held)]
            self.refuted[item] = [*beyond, {u: n for u, n in least.items() if n}]

    def refutes(self, item: str, requirements: Mapping[str, int]) -> bool:
        """Whether these cannot be what an item requires: all actions failed with all of it."""
        return any(covers(held, requirements) for held in self.refuted.get(item, ()))

    def forget(self, item: str) -> None:
        """Is told that the rule of an item has changed.

        Reflections and the count of corrections stay: nobody says that they no longer hold.
        """
        self.unrevised.pop(item, None)
        self.refuted.pop(item, None)
        self.withdrawn.pop(item, None)
        self.reviewed = 0


def covers(inventory: Mapping[str, int], requirements: Mapping[str, int]) -> bool:
    """Whether an inventory has all that is required."""
    return all(inventory.get(u, 0) >= quantity for u, quantity in requirements.items())


def situation(attempt: Attempt) -> str:
    """An attempt without what was held: the same action on the same belief has the same reason."""
    believed = sorted(f"{quantity} {u}" for u, quantity in attempt.believed.items())
    return f"{attempt.action} {attempt.item}: {', '.join(believed)}"
