"""FAM, the Failure-aware Action Memory (XENON, Section 4.2 and Algorithm 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Counts: TypeAlias = "dict[str, dict[str, int]]"


class ActionMemory:
    """FAM: the counts S(a, v) and F(a, v) of past subgoals, and which actions they rule out.

    Args:
        actions: 𝒜, in a fixed order.
        x0: x_0, failures beyond successes that make an action empirically invalid.
    """

    def __init__(self, actions: Sequence[str], *, x0: int) -> None:
        self.actions = tuple(actions)
        self.x0 = x0
        self._successes: Counts = {}
        self._failures: Counts = {}
        self._known: dict[str, str] = {}

    def record(self, action: str, item: str, success: bool) -> None:
        """S(a, v) += success, F(a, v) += ¬success (Algorithm 1, line 12)."""
        counts = (self._successes if success else self._failures).setdefault(item, {})
        counts[action] = counts.get(action, 0) + 1
        self._reconsider(item)

    def successes(self, action: str, item: str) -> int:
        """S(a, v)."""
        return self._successes.get(item, {}).get(action, 0)

    def failures(self, action: str, item: str) -> int:
        """F(a, v)."""
        return self._failures.get(item, {}).get(action, 0)

    def valid(self, item: str) -> str | None:
        """Returns the empirically valid action: S(a, v) > 0 and S(a, v) > F(a, v) - x0.

        The paper's rules reuse a valid action, so there is at most one. Of several, the one with
        the most successes counts, the first in 𝒜 of equals.
        """
        seen = self._successes.get(item, {})
        working = [
            action
            for action in self.actions
            if seen.get(action, 0) > max(0, self.failures(action, item) - self.x0)
        ]
        return max(working, key=lambda action: seen[action], default=None)

    def invalid(self, item: str) -> set[str]:
        """Returns the empirically invalid actions: F(a, v) >= S(a, v) + x0."""
        failed = self._failures.get(item, {})
        return {
            action
            for action, failures in failed.items()
            if failures >= self.successes(action, item) + self.x0
        }

    def candidates(self, item: str) -> tuple[str, ...]:
        """Returns 𝒜 without the invalid actions, or 𝒜 if none is left (Algorithm 4, line 17)."""
        invalid = self.invalid(item)
        return tuple(a for a in self.actions if a not in invalid) or self.actions

    def exhausted(self, item: str) -> bool:
        """Whether all actions are empirically invalid, so that the requirements must be wrong."""
        return len(self.invalid(item)) == len(self.actions)

    def known(self) -> Mapping[str, str]:
        """Returns item -> its empirically valid action, for all items that have one."""
        return self._known

    def reset(self, item: str) -> None:
        """Forgets an item, so that its actions are explored afresh (Algorithm 1, line 16)."""
        self._successes.pop(item, None)
        self._failures.pop(item, None)
        self._known.pop(item, None)

    def forgive(self, item: str) -> None:
        """Forgets an item's failures and keeps its successes."""
        self._failures.pop(item, None)
        self._reconsider(item)

    def to_json(self) -> dict[str, Counts]:
        """Returns both tables: item -> action -> count."""
        return {"successes": self._successes, "failures": self._failures}

    def restore(self, saved: Mapping[str, Counts]) -> None:
        """Replaces both tables by those that `to_json` gave.

        Raises:
            ValueError: they contain an action that is not in this memory's 𝒜.
        """
        counts = [*saved["successes"].values(), *saved["failures"].values()]
        strange = {action for one in counts for action in one} - {*self.actions}
        if strange:
            raise ValueError(f"actions {sorted(strange)} are not among {', '.join(self.actions)}")
        self._successes = {item: dict(counts) for item, counts in saved["successes"].items()}
        self._failures = {item: dict(counts) for item, counts in saved["failures"].items()}
        self._known = {}
        for item in self._successes:
            self._reconsider(item)

    def _reconsider(self, item: str) -> None:
        action = self.valid(item)
        if action is None:
            self._known.pop(item, None)
        else:
            self._known[item] = action
