"""How a subgoal gets its action: step-by-step planning with FAM, and without it.

FailureAware    FAM prunes what failed, reuses what worked    XENON          (Algorithm 4)
SelfReflecting  the LLM is told why earlier attempts failed   SC             (Figure 12)
SuccessOnly     what worked is reused                         DECKARD, ADAM  (Table 8)
Forgetful       the LLM is asked every time                   RAND
RandomFam       FAM, with draws in the place of the LLM       Random+FAM     (Figure 25)
Ucb             upper confidence bounds                       UCB            (Figure 25)
TrueActions     the valid action                              OracleActionPlanner (App. K.4)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from llm_planning.planners.xenon.questions import ActionQuestion

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from llm_planning.environments.minecraft.rulebook import RuleBook
    from llm_planning.planners.xenon.memory import ActionMemory
    from llm_planning.planners.xenon.questions import Choose, Failure, Roles
    from llm_planning.planners.xenon.saved import Notes
    from llm_planning.planners.xenon.similarity import Similar


class Chooses(Protocol):
    """Those among whom somebody chooses actions."""

    @property
    def choose(self) -> Choose:
        """Which action obtains an item."""
        ...


RolesT_co = TypeVar("RolesT_co", bound=Chooses, covariant=True)


class ActionPolicy(ABC):
    """Chooses actions; what it may learn from their outcomes is nothing unless it says so."""

    @abstractmethod
    async def choose(self, item: str) -> str:
        """The action a of a subgoal (a, q, v)."""

    def succeeded(self, action: str, item: str) -> None:  # noqa: B027 - nothing to learn is fine
        """Is told that a subgoal was reached."""

    def failed(self, failure: Failure) -> None:  # noqa: B027 - likewise
        """Is told that a subgoal failed."""

    def exhausted(self, item: str) -> bool:  # noqa: ARG002 - for those who override it
        """Whether it is time to doubt what the item requires rather than how it is obtained."""
        return False

    def reset(self, item: str) -> None:  # noqa: B027 - likewise
        """Explores an item's actions afresh."""

    def notes(self) -> Mapping[str, Any]:
        """What a saved file keeps of failures beside the memory, by the names of `Notes`."""
        return {}

    def restore(self, notes: Notes) -> None:  # noqa: B027 - likewise
        """Takes over what `notes` gave."""


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

    def failed(self, failure: Failure) -> None:
        """F(a, v) += 1."""
        self._memory.record(failure.action, failure.item, False)

    def exhausted(self, item: str) -> bool:
        """All actions are empirically invalid."""
        return self._memory.exhausted(item)

    def reset(self, item: str) -> None:
        """M[v, .] <- (0, 0)."""
        self._memory.reset(item)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking(Generic[RolesT_co]):
    """What the policies that ask share.

    Attributes:
        memory: counts of what worked, and of what failed with FAM.
        similar: ranks items by their names.
        roles: the planner LLM.
        k: K, examples it is given.
    """

    memory: ActionMemory
    similar: Similar
    roles: RolesT_co
    k: int

    async def one_of(
        self, options: tuple[str, ...], item: str, *, analyses: tuple[str, ...] = ()
    ) -> str:
        """Asks which of these actions obtains an item, with the K most similar as examples."""
        known = self.memory.known()
        alike = await self.similar.top(item, known, self.k)
        examples = tuple((u, known[u]) for u in alike)
        return await self.roles.choose(ActionQuestion(item, options, examples, analyses))


class FailureAware(Remembering):
    """Algorithm 4: step-by-step planning with FAM."""

    def __init__(self, asking: Asking[Chooses]) -> None:
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

    def __init__(self, asking: Asking[Chooses]) -> None:
        self._asking = asking
        self._memory = asking.memory
        self._in_vain: dict[str, int] = {}

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
        self._in_vain.pop(item, None)
        self._memory.record(action, item, True)

    def failed(self, failure: Failure) -> None:
        """Counts that something failed, whatever it was."""
        self._in_vain[failure.item] = self._in_vain.get(failure.item, 0) + 1

    def exhausted(self, item: str) -> bool:
        """x_0 |𝒜| attempts failed since the last revision."""
        most = self._memory.x0 * len(self._memory.actions)
        return self._in_vain.get(item, 0) >= most

    def reset(self, item: str) -> None:
        """Begins to count afresh; what worked once stays remembered."""
        self._in_vain.pop(item, None)

    def notes(self) -> Mapping[str, Any]:
        """How many attempts at each item failed since one last succeeded or it was reset."""
        return {"in_vain": self._in_vain}

    def restore(self, notes: Notes) -> None:
        """Takes them over."""
        self._in_vain = notes.in_vain


class SelfReflecting(SuccessOnly):
    """The LLM reflects on what failed, and reads its reflections when it is asked again (△).

    Args:
        asking: explains failures, too.
    """

    def __init__(self, asking: Asking[Roles]) -> None:
        super().__init__(asking)
        self._analyse = asking.roles.analyse
        self._unexplained: dict[str, list[Failure]] = {}
        self._reasons: dict[str, str] = {}
        self._analyses: dict[str, list[str]] = {}

    async def analyses(self, item: str) -> tuple[str, ...]:
        """All reflections on an item, oldest first; made when they are first needed."""
        done = self._analyses.setdefault(item, [])
        for failure in self._unexplained.pop(item, []):
            same = _situation(failure)
            if same not in self._reasons:
                self._reasons[same] = await self._analyse(failure)
            done.append(self._reasons[same])
        return tuple(done)

    def failed(self, failure: Failure) -> None:
        """Keeps the attempt to reflect on; a remembered success that failed is not reused."""
        super().failed(failure)
        self._memory.reset(failure.item)
        self._unexplained.setdefault(failure.item, []).append(failure)

    def notes(self) -> Mapping[str, Any]:
        """Failures that were not reflected on yet, and all reflections."""
        return {
            **super().notes(),
            "unexplained": self._unexplained,
            "reasons": self._reasons,
            "analyses": self._analyses,
        }

    def restore(self, notes: Notes) -> None:
        """Takes them over."""
        super().restore(notes)
        self._unexplained = notes.unexplained
        self._reasons = notes.reasons
        self._analyses = notes.analyses


def _situation(failure: Failure) -> str:
    """A failure without what was held: the same action on the same belief has the same reason."""
    believed = sorted(f"{quantity} {u}" for u, quantity in failure.believed.items())
    return f"{failure.action} {failure.item}: {', '.join(believed)}"


class Forgetful(SuccessOnly):
    """Asks every time (RAND)."""

    def succeeded(self, action: str, item: str) -> None:  # noqa: ARG002
        """Remembers nothing but that the item's requirements will do."""
        self._in_vain.pop(item, None)

    async def choose(self, item: str) -> str:
        """Asks, without examples."""
        return await self._asking.roles.choose(ActionQuestion(item, self._memory.actions))


class RandomFam(Remembering):
    """Random+FAM: Algorithm 4 with a uniform draw in the place of the LLM.

    Args:
        memory: FAM.
        rng: draws.
    """

    def __init__(self, memory: ActionMemory, *, rng: Random) -> None:
        super().__init__(memory)
        self._rng = rng

    async def choose(self, item: str) -> str:
        """Reuses the valid action, or draws one of those that are not invalid."""
        return self._memory.valid(item) or self._rng.choice(self._memory.candidates(item))


class Ucb(Remembering):
    """UCB1 (Auer, Cesa-Bianchi, Fischer 2002), a bandit for each item.

    An action that was not tried yet comes first. Then, with n = S(a, v) + F(a, v) and N(v) the sum
    of n over all actions, the action with the highest

        S(a, v) / n + c sqrt(ln N(v) / n)

    Ties are broken uniformly at random. The paper states neither formula nor constant.

    Args:
        memory: counts S and F; its classification into valid and invalid is not used.
        c: exploration weight; sqrt(2) in UCB1.
        rng: breaks ties.
    """

    def __init__(self, memory: ActionMemory, *, c: float, rng: Random) -> None:
        super().__init__(memory)
        self._c = c
        self._rng = rng

    async def choose(self, item: str) -> str:
        """The action with the highest upper confidence bound."""
        scores = self.scores(item)
        best = max(scores.values())
        return self._rng.choice([action for action, score in scores.items() if score == best])

    def scores(self, item: str) -> dict[str, float]:
        """Action -> its upper confidence bound; infinite if it was not tried."""
        memory = self._memory
        tried = {a: memory.successes(a, item) + memory.failures(a, item) for a in memory.actions}
        total = sum(tried.values())
        return {
            a: memory.successes(a, item) / n + self._c * math.sqrt(math.log(total) / n)
            if n
            else math.inf
            for a, n in tried.items()
        }

    def exhausted(self, item: str) -> bool:  # noqa: ARG002 - asked of every policy
        """Never: a bandit rules nothing out."""
        return False


class TrueActions(ActionPolicy):
    """Always chooses the valid action (OracleActionPlanner, Appendix K.4).

    Args:
        book: the rules.
    """

    def __init__(self, book: RuleBook) -> None:
        self._book = book

    async def choose(self, item: str) -> str:
        """The action of the item's rule."""
        return self._book.rule(item).action
