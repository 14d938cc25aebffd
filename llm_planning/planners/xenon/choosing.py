"""How a subgoal gets its action: step-by-step planning with FAM, and without it.

FailureAware    FAM prunes what failed, reuses what worked    XENON          (Algorithm 4)
SelfReflecting  the LLM is told why earlier attempts failed   SC             (Figure 12)
SuccessOnly     what worked is reused                         DECKARD, ADAM  (Table 8)
Forgetful       the LLM is asked every time                   RAND
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from llm_planning.planners.xenon.failure_notes import situation

if TYPE_CHECKING:
    from llm_planning.planners.xenon.failure_notes import FailureNotes
    from llm_planning.planners.xenon.memory import ActionMemory
    from llm_planning.planners.xenon.roles import AnalyseFailure, Attempt, ChooseAction
    from llm_planning.planners.xenon.similarity import Similar


class ActionPolicy(Protocol):
    """Chooses actions and learns from their outcomes."""

    async def choose(self, item: str, quantity: int) -> str:
        """The action a of the subgoal (a, q, v)."""
        ...

    def succeeded(self, action: str, item: str) -> None:
        """Is told that a subgoal was reached."""
        ...

    def failed(self, attempt: Attempt) -> None:
        """Is told that a subgoal failed."""
        ...

    def exhausted(self, item: str) -> bool:
        """Whether it is time to doubt what the item requires rather than how it is obtained."""
        ...

    def reset(self, item: str) -> None:
        """Explores an item's actions afresh."""
        ...


class Remembering:
    """Lines 12 to 16 of Algorithm 1: both outcomes count, and all actions can be ruled out.

    Args:
        memory: FAM.
    """

    def __init__(self, memory: ActionMemory) -> None:
        self._memory = memory

    def succeeded(self, action: str, item: str) -> None:
        """S(a, v) += 1."""
        self._memory.record(action, item, True)

    def failed(self, attempt: Attempt) -> None:
        """F(a, v) += 1."""
        self._memory.record(attempt.action, attempt.item, False)

    def exhausted(self, item: str) -> bool:
        """All actions are empirically invalid."""
        return self._memory.exhausted(item)

    def reset(self, item: str) -> None:
        """M[v, .] <- (0, 0)."""
        self._memory.reset(item)


class FailureAware(Remembering):
    """Algorithm 4: step-by-step planning with FAM.

    Args:
        memory: FAM.
        similar: ranks items by their names.
        ask: the planner LLM.
        k: K, examples it is given.
    """

    def __init__(
        self, memory: ActionMemory, *, similar: Similar, ask: ChooseAction, k: int
    ) -> None:
        super().__init__(memory)
        self._similar = similar
        self._ask = ask
        self._k = k

    async def choose(self, item: str, quantity: int) -> str:
        """Reuses the valid action, or asks for one that has not repeatedly failed."""
        reused = self._memory.valid(item)
        if reused is not None:
            return reused
        candidates = self._memory.candidates(item)
        if len(candidates) == 1:
            return candidates[0]
        known = self._memory.known()
        alike = await self._similar.top(item, known, self._k)
        return await self._ask(
            item,
            quantity=quantity,
            examples=[(u, known[u]) for u in alike],
            options=candidates,
            analyses=(),
        )


class SuccessOnly:
    """Remembers what worked; no failure is held against an action.

    Without failures nothing tells when an item's requirements are to be doubted. It is then done
    after as many failures as FAM needs at most to rule out all actions, x_0 |𝒜|.

    Args:
        memory: of successes.
        similar: ranks items by their names.
        ask: the planner LLM.
        k: examples it is given.
        notes: counts failures.
    """

    def __init__(
        self,
        memory: ActionMemory,
        *,
        similar: Similar,
        ask: ChooseAction,
        k: int,
        notes: FailureNotes,
    ) -> None:
        self._memory = memory
        self._similar = similar
        self._ask = ask
        self._k = k
        self._in_vain = notes.in_vain

    async def choose(self, item: str, quantity: int) -> str:
        """Reuses what worked, or asks."""
        known = self._memory.known()
        if item in known:
            return known[item]
        alike = await self._similar.top(item, known, self._k)
        return await self._ask(
            item,
            quantity=quantity,
            examples=[(u, known[u]) for u in alike],
            options=self._memory.actions,
            analyses=await self.analyses(item),
        )

    async def analyses(self, item: str) -> tuple[str, ...]:  # noqa: ARG002
        """What is known of earlier failures: nothing."""
        return ()

    def succeeded(self, action: str, item: str) -> None:
        """Keeps the action for the item."""
        self._in_vain.pop(item, None)
        self._memory.record(action, item, True)

    def failed(self, attempt: Attempt) -> None:
        """Counts that something failed, whatever it was."""
        self._in_vain[attempt.item] = self._in_vain.get(attempt.item, 0) + 1

    def exhausted(self, item: str) -> bool:
        """x_0 |𝒜| attempts failed since the last revision."""
        return self._in_vain.get(item, 0) >= self._memory.x0 * len(self._memory.actions)

    def reset(self, item: str) -> None:
        """Begins to count afresh; what worked once stays remembered."""
        self._in_vain.pop(item, None)


class SelfReflecting(SuccessOnly):
    """The LLM reflects on what failed, and reads its reflections when it is asked again (△).

    Args:
        memory: of successes.
        similar: ranks items by their names.
        ask: the planner LLM.
        analyse: explains a failure.
        k: examples it is given.
        notes: keeps failures and reflections.
    """

    def __init__(
        self,
        memory: ActionMemory,
        *,
        similar: Similar,
        ask: ChooseAction,
        analyse: AnalyseFailure,
        k: int,
        notes: FailureNotes,
    ) -> None:
        super().__init__(memory, similar=similar, ask=ask, k=k, notes=notes)
        self._analyse = analyse
        self._notes = notes

    async def analyses(self, item: str) -> tuple[str, ...]:
        """All reflections on an item, oldest first; made when they are first needed."""
        notes = self._notes
        done = notes.analyses.setdefault(item, [])
        for attempt in notes.unexplained.pop(item, []):
            same = situation(attempt)
            if same not in notes.reasons:
                notes.reasons[same] = await self._analyse(attempt)
            done.append(notes.reasons[same])
        return tuple(done)

    def failed(self, attempt: Attempt) -> None:
        """Keeps the attempt to reflect on; a remembered success that failed is not reused."""
        super().failed(attempt)
        self._memory.reset(attempt.item)
        self._notes.unexplained.setdefault(attempt.item, []).append(attempt)


class Forgetful(SuccessOnly):
    """Asks every time (RAND)."""

    def succeeded(self, action: str, item: str) -> None:  # noqa: ARG002
        """Remembers nothing but that the item's requirements will do."""
        self._in_vain.pop(item, None)

    async def choose(self, item: str, quantity: int) -> str:
        """Asks."""
        return await self._ask(
            item, quantity=quantity, examples=(), options=self._memory.actions, analyses=()
        )
