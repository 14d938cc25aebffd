"""Action policies: how a subgoal gets its action, with FAM and without it.

FailureAware    reuses what worked, rules out what failed     XENON          (Algorithm 4)
SelfReflecting  tells the LLM why earlier attempts failed     SC             (Figure 12)
SuccessOnly     reuses what worked                            DECKARD, ADAM  (Table 8)
Forgetful       asks the LLM every time                       RAND
RandomFam       FAM, with draws in the place of the LLM       Random+FAM     (Figure 25)
Ucb             upper confidence bounds                       UCB            (Figure 25)
TrueActions     the valid action                              OracleActionPlanner (App. K.4)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from llm_planning.planners.xenon.knowledge import PartState
from llm_planning.planners.xenon.questions import ActionQuestion, Failure

if TYPE_CHECKING:
    from random import Random

    from llm_planning.environments.minecraft.rulebook import RuleBook
    from llm_planning.planners.xenon.asking import MinecraftAsking
    from llm_planning.planners.xenon.fam import ActionMemory
    from llm_planning.planners.xenon.questions import Choose
    from llm_planning.planners.xenon.similarity import Similar


class Chooses(Protocol):
    """Roles of which one chooses actions."""

    @property
    def choose(self) -> Choose:
        """The role that answers which action obtains an item."""
        ...


RolesT_co = TypeVar("RolesT_co", bound=Chooses, covariant=True)


class ActionPolicy(ABC):
    """Chooses the actions of subgoals. By default it learns nothing from their outcomes.

    Attributes:
        state: what the policy keeps of failures beside the action memory.
    """

    state: PartState = PartState()

    @abstractmethod
    async def choose(self, item: str) -> str:
        """Returns the action a of a subgoal (a, q, v)."""

    def succeeded(self, action: str, item: str) -> None:  # noqa: B027 - a default
        """Learns from a subgoal that was reached."""

    def failed(self, failure: Failure) -> None:  # noqa: B027 - a default
        """Learns from a subgoal that failed."""

    def exhausted(self, item: str) -> bool:  # noqa: ARG002 - a default
        """Whether the item's requirements are to be doubted, rather than its actions."""
        return False

    def forgive(self, item: str) -> None:  # noqa: B027 - a default
        """Forgets an item's failures, and keeps the action that worked."""

    def reset(self, item: str) -> None:
        """Begins to explore an item's actions afresh, with its revised requirements."""
        self.forgive(item)


class Remembering(ActionPolicy):
    """Counts successes and failures in FAM (Algorithm 1, lines 12 to 16)."""

    def __init__(self, memory: ActionMemory) -> None:
        self._memory = memory

    def succeeded(self, action: str, item: str) -> None:
        """Adds 1 to S(a, v)."""
        self._memory.record(action, item, True)

    def failed(self, failure: Failure) -> None:
        """Adds 1 to F(a, v)."""
        self._memory.record(failure.action, failure.item, False)

    def exhausted(self, item: str) -> bool:
        """Whether all actions are empirically invalid."""
        return self._memory.exhausted(item)

    def forgive(self, item: str) -> None:
        """Sets F(., v) to 0."""
        self._memory.forgive(item)

    def reset(self, item: str) -> None:
        """Sets M[v, .] to (0, 0)."""
        self._memory.reset(item)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(Generic[RolesT_co]):
    """What the policies that ask a model share.

    Attributes:
        memory: counts of successes, and with FAM of failures.
        similar: ranks items by their names.
        roles: who answers.
        k: K, number of examples in a question.
    """

    memory: ActionMemory
    similar: Similar
    roles: RolesT_co
    k: int

    async def one_of(
        self, options: tuple[str, ...], item: str, *, analyses: tuple[str, ...] = ()
    ) -> str:
        """Asks which option obtains an item, with the K most similar items as examples."""
        known = self.memory.known()
        alike = await self.similar.top(item, known, self.k)
        examples = tuple((u, known[u]) for u in alike)
        return await self.roles.choose(ActionQuestion(item, options, examples, analyses))


class FailureAware(Remembering):
    """Algorithm 4: step-by-step planning with FAM."""

    def __init__(self, asking: Shared[Chooses]) -> None:
        super().__init__(asking.memory)
        self._asking = asking

    async def choose(self, item: str) -> str:
        """Reuses the valid action, or asks for one that is not invalid."""
        reused = self._memory.valid(item)
        if reused is not None:
            return reused
        candidates = self._memory.candidates(item)
        if len(candidates) == 1:
            return candidates[0]
        return await self._asking.one_of(candidates, item)


@dataclass
class AttemptState(PartState):
    """What policies without FAM keep.

    Attributes:
        in_vain: item -> number of failed attempts since one last succeeded or its requirements were
            last reconsidered.
    """

    in_vain: dict[str, int] = field(default_factory=dict)


class SuccessOnly(ActionPolicy):
    """Reuses the actions that worked, and counts no failures of an action.

    An item's requirements are doubted after x_0 |𝒜| failed attempts, the most that FAM needs to
    rule out all actions.
    """

    def __init__(self, asking: Shared[Chooses]) -> None:
        self._asking = asking
        self._memory = asking.memory
        self.state: AttemptState = AttemptState()

    async def choose(self, item: str) -> str:
        """Reuses the action that worked, or asks."""
        reused = self._memory.known().get(item)
        if reused is not None:
            return reused
        analyses = await self.analyses(item)
        return await self._asking.one_of(self._memory.actions, item, analyses=analyses)

    async def analyses(self, item: str) -> tuple[str, ...]:  # noqa: ARG002
        """Returns what the question tells of earlier failures; here nothing."""
        return ()

    def succeeded(self, action: str, item: str) -> None:
        """Remembers the action for the item."""
        self.state.in_vain.pop(item, None)
        self._memory.record(action, item, True)

    def failed(self, failure: Failure) -> None:
        """Counts a failed attempt at the item, by any action."""
        in_vain = self.state.in_vain
        in_vain[failure.item] = in_vain.get(failure.item, 0) + 1

    def exhausted(self, item: str) -> bool:
        """Whether x_0 |𝒜| attempts failed since the last revision."""
        most = self._memory.x0 * len(self._memory.actions)
        return self.state.in_vain.get(item, 0) >= most

    def forgive(self, item: str) -> None:
        """Begins to count failures afresh, and keeps the action that worked."""
        self.state.in_vain.pop(item, None)


@dataclass
class ReflectionState(AttemptState):
    """What self-reflection keeps in addition.

    Attributes:
        unexplained: item -> failed attempts without a reflection yet.
        reasons: a failure without its inventory -> the reflection on it.
        analyses: item -> reflections, oldest first.
    """

    unexplained: dict[str, list[Failure]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    analyses: dict[str, list[str]] = field(default_factory=dict)


class SelfReflecting(SuccessOnly):
    """Has the LLM reflect on failures, and tells it its reflections in later questions (△).

    Args:
        asking: its roles also explain failures.
    """

    def __init__(self, asking: Shared[MinecraftAsking]) -> None:
        super().__init__(asking)
        self._analyse = asking.roles.analyse
        self.state: ReflectionState = ReflectionState()

    async def analyses(self, item: str) -> tuple[str, ...]:
        """Reflects on the item's new failures; returns all reflections on it, oldest first."""
        state = self.state
        done = state.analyses.setdefault(item, [])
        for failure in state.unexplained.pop(item, []):
            same = _without_inventory(failure)
            if same not in state.reasons:
                state.reasons[same] = await self._analyse(failure)
            done.append(state.reasons[same])
        return tuple(done)

    def failed(self, failure: Failure) -> None:
        """Keeps the attempt to reflect on, and forgets the item's remembered success."""
        super().failed(failure)
        self._memory.reset(failure.item)
        self.state.unexplained.setdefault(failure.item, []).append(failure)


def _without_inventory(failure: Failure) -> str:
    """Returns the action, the item and the belief: failures that share these share a reflection."""
    believed = sorted(f"{quantity} {u}" for u, quantity in failure.believed.items())
    return f"{failure.action} {failure.item}: {', '.join(believed)}"


class Forgetful(SuccessOnly):
    """Asks the LLM every time (RAND)."""

    def succeeded(self, action: str, item: str) -> None:  # noqa: ARG002
        """Begins to count the item's failures afresh, and remembers no action."""
        self.state.in_vain.pop(item, None)

    async def choose(self, item: str) -> str:
        """Asks, without examples."""
        return await self._asking.roles.choose(ActionQuestion(item, self._memory.actions))


class RandomFam(Remembering):
    """Random+FAM: Algorithm 4 with a uniform draw in the place of the LLM."""

    def __init__(self, memory: ActionMemory, *, rng: Random) -> None:
        super().__init__(memory)
        self._rng = rng

    async def choose(self, item: str) -> str:
        """Reuses the valid action, or draws one that is not invalid."""
        return self._memory.valid(item) or self._rng.choice(self._memory.candidates(item))


class Ucb(Remembering):
    """UCB1 (Auer, Cesa-Bianchi, Fischer 2002), a bandit for each item.

    An action that was not tried yet comes first. Then comes the action with the highest

        S(a, v) / n + c sqrt(ln N(v) / n)

    where n = S(a, v) + F(a, v), and N(v) is the sum of n over all actions. Ties are broken
    uniformly at random. The paper states neither formula nor constant.

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
        """Returns the action with the highest upper confidence bound."""
        scores = self.scores(item)
        best = max(scores.values())
        return self._rng.choice([action for action, score in scores.items() if score == best])

    def scores(self, item: str) -> dict[str, float]:
        """Returns action -> its upper confidence bound, infinite if it was not tried."""
        memory = self._memory
        tried = {a: memory.successes(a, item) + memory.failures(a, item) for a in memory.actions}
        total = sum(tried.values())
        return {
            a: memory.successes(a, item) / n + self._c * math.sqrt(math.log(total) / n)
            if n
            else math.inf
            for a, n in tried.items()
        }

    def exhausted(self, item: str) -> bool:  # noqa: ARG002 - an override
        """Returns False: a bandit rules no action out."""
        return False


class TrueActions(ActionPolicy):
    """Always chooses the valid action (OracleActionPlanner, Appendix K.4)."""

    def __init__(self, book: RuleBook) -> None:
        self._book = book

    async def choose(self, item: str) -> str:
        """Returns the action of the item's rule."""
        return self._book.rule(item).action
