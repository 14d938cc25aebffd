"""How a subgoal gets its action: step-by-step planning with FAM, and without it.

FailureAware    FAM prunes what failed, reuses what worked    XENON          (Algorithm 4)
SelfReflecting  the LLM is told why earlier attempts failed   SC             (Figure 12)
SuccessOnly     what worked is reused                         DECKARD, ADAM  (Table 8)
Forgetful       the LLM is asked every time                   RAND
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.failure_notes import FailureNotes, situation
from llm_planning.planners.xenon.roles import ActionQuestion

if TYPE_CHECKING:
    from llm_planning.planners.xenon.memory import ActionMemory
    from llm_planning.planners.xenon.roles import Analyse, Attempt, Choose
    from llm_planning.planners.xenon.similarity import Similar


class ActionPolicy(ABC):
    """Chooses actions; what it may learn from their outcomes is nothing unless it says so."""

    @abstractmethod
    async def choose(self, item: str) -> str:
        """The action a of a subgoal (a, q, v)."""

    def succeeded(self, action: str, item: str) -> None:  # noqa: B027 - nothing to learn is fine
        """Is told that a subgoal was reached."""

    def failed(self, attempt: Attempt) -> None:  # noqa: B027 - likewise
        """Is told that a subgoal failed."""

    def exhausted(self, item: str) -> bool:  # noqa: ARG002 - for those who override it
        """Whether it is time to doubt what the item requires rather than how it is obtained."""
        return False

    def reset(self, item: str) -> None:  # noqa: B027 - likewise
        """Explores an item's actions afresh."""


class Remembering(ActionPolicy):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What the policies that ask share.

    Attributes:
        memory: counts of what worked, and of what failed with FAM.
        similar: ranks items by their names.
        ask: the planner LLM.
        k: K, examples it is given.
        notes: what is kept of failures beside the memory.
    """

    memory: ActionMemory
    similar: Similar
    ask: Choose
    k: int
    notes: FailureNotes = field(default_factory=FailureNotes)

    async def one_of(
        self, options: tuple[str, ...], item: str, *, analyses: tuple[str, ...] = ()
    ) -> str:
        """Asks which of these actions obtains an item, with the K most similar as examples."""
        known = self.memory.known()
        alike = await self.similar.top(item, known, self.k)
        examples = tuple((u, known[u]) for u in alike)
        return await self.ask(ActionQuestion(item, options, examples, analyses))


class FailureAware(Remembering):
    """Algorithm 4: step-by-step planning with FAM."""

    def __init__(self, asking: Asking) -> None:
        super().__init__(asking.memory)
        self._asking = asking

    async def choose(self, item: str) -> str:
        """Reuses the valid action, or asks for one that has not repeatedly failed."""
        reused = self._memory.valid(item)
        if reused is not None:
            return reused
        candidates = self._memory.candidates(item)
        return (
            candidates[0] if len(candidates) == 1 else await self._asking.one_of(candidates, item)
        )


class SuccessOnly(ActionPolicy):
    """Remembers what worked; no failure is held against an action.

    Without failures nothing tells when an item's requirements are to be doubted. It is then done
    after as many failures as FAM needs at most to rule out all actions, x_0 |𝒜|.
    """

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._memory = asking.memory
        self._notes = asking.notes

    async def choose(self, item: str) -> str:
        """Reuses what worked, or asks."""
        reused = self._memory.known().get(item)
        if reused is not None:
            return reused
        analyses = await self.analyses(item)
        return await self._asking.one_of(self._memory.actions, item, analyses=analyses)

    async def analyses(self, item: str) -> tuple[str, ...]:  # noqa: ARG002
        """What is known of earlier failures: nothing."""
        return ()

    def succeeded(self, action: str, item: str) -> None:
        """Keeps the action for the item."""
        self._notes.in_vain.pop(item, None)
        self._memory.record(action, item, True)

    def failed(self, attempt: Attempt) -> None:
        """Counts that something failed, whatever it was."""
        in_vain = self._notes.in_vain
        in_vain[attempt.item] = in_vain.get(attempt.item, 0) + 1

    def exhausted(self, item: str) -> bool:
        """x_0 |𝒜| attempts failed since the last revision."""
        most = self._memory.x0 * len(self._memory.actions)
        return self._notes.in_vain.get(item, 0) >= most

    def reset(self, item: str) -> None:
        """Begins to count afresh; what worked once stays remembered."""
        self._notes.in_vain.pop(item, None)


class SelfReflecting(SuccessOnly):
    """The LLM reflects on what failed, and reads its reflections when it is asked again (△).

    Args:
        asking: keeps failures and reflections in its notes.
        analyse: explains a failure.
    """

    def __init__(self, asking: Asking, *, analyse: Analyse) -> None:
        super().__init__(asking)
        self._analyse = analyse

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
        self._notes.in_vain.pop(item, None)

    async def choose(self, item: str) -> str:
        """Asks, without examples."""
        return await self._asking.ask(ActionQuestion(item, self._memory.actions))
