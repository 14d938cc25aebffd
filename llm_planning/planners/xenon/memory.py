"""What an agent remembers: of items (Appendix C), of actions (FAM, Section 4.2), of names."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias, overload

from llm_kernels.index import EmbeddingIndex
from llm_planning.planners.xenon.graph import NOTHING, PICKAXES, DependencyGraph, aggregate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from llm_serving.engine import Engine

Counts: TypeAlias = "dict[str, dict[str, int]]"


class Prefix(Sequence[str]):
    """All that a list which only grows holds now, without a copy of it.

    At the horizon of Table 2 an untaught SC fails 700,000 times at one item, and each question is
    asked with all reflections on it.
    """

    __slots__ = ("_growing", "_length")

    def __init__(self, growing: Sequence[str]) -> None:
        self._growing = growing
        self._length = len(growing)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(map(self._growing.__getitem__, range(self._length)[index]))
        return self._growing[range(self._length)[index]]


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
        setbacks: v -> how often the agent gave it up because an obtained item failed.
    """

    graph: DependencyGraph
    demonstrated: set[str] = field(default_factory=set)
    obtained: set[str] = field(default_factory=set)
    consumed: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=lambda: set(PICKAXES))
    gathered: set[str] = field(default_factory=set)
    revisions: dict[str, int] = field(default_factory=dict)
    setbacks: dict[str, int] = field(default_factory=dict)

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

    def demonstrate(
        self, item: str, used: Mapping[str, int], *, makes: int, kept: set[str]
    ) -> None:
        """Takes note of an item that a human-written plan obtained.

        Args:
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
        """Returns 𝒜 without invalid actions, or 𝒜 if none is left (Algorithm 4, lines 16 to 18)."""
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
        strange = {action for by_action in counts for action in by_action} - {*self.actions}
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


ROLE = "similarity"


class Similar:
    """Ranks item names by their similarity to one of them.

    Each name is embedded once. A ranking is kept until new names come: an agent asks for the
    neighbours of the same few items thousands of times.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._index: EmbeddingIndex | None = None
        self._learning = asyncio.Lock()
        self._names: set[str] = set()
        self._rankings: dict[str, tuple[str, ...]] = {}

    async def learn(self, names: Iterable[str]) -> None:
        """Embeds the names that are new, in one batch."""
        # Sorted, because the order of a set differs between processes.
        wanted = sorted({name for name in names if name not in self._names})
        if not wanted:
            return
        async with self._learning:
            index = self._index
            # Another call may have embedded some of them while this one waited.
            new = [name for name in wanted if name not in self._names]
            if not new:
                return
            # A sentence encoder knows words, not identifiers.
            vectors = await self._engine.embed([name.replace("_", " ") for name in new], role=ROLE)
            if index is None:
                index = self._index = EmbeddingIndex(vectors.shape[1])
            index.add(new, vectors)
            self._names.update(new)
            self._rankings.clear()

    async def top(self, item: str, among: Collection[str], k: int) -> list[str]:
        """Returns the k most similar items, most similar first."""
        await self.learn((item, *among))
        index = self._index
        if index is None or k < 1:
            return []
        if item not in self._rankings:
            matches = index.search(index.vector(item), len(index))
            self._rankings[item] = tuple(match.key for match in matches if match.key != item)
        return list(islice((name for name in self._rankings[item] if name in among), k))
