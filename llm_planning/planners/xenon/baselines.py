"""XENON's ablations and baselines (Tables 5 and 8), and the action policies of Figure 25.

Each changes one part of XENON. Combined, they make the paper's agents:

    SelfReflection   tells the LLM why earlier attempts failed   (△, Figure 12)
    SuccessesOnly    reuses what worked, rules nothing out       (×)
    Forgetful        asks the LLM every time
    SelfCorrection   has the LLM predict requirements anew       (△, Appendix J.1, Figure 9)
    AsPredicted      never revises requirements                  (×)
    AnyGoal          any item not obtained yet                   (Appendix J.1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.algorithm import Xenon
from llm_planning.planners.xenon.graph import NOTHING, Initial
from llm_planning.planners.xenon.memory import Prefix
from llm_planning.planners.xenon.roles import ActionQuestion, CorrectionQuestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.minecraft.book.rulebook import RuleBook
    from llm_planning.environments.minecraft.items.text_world import World
    from llm_planning.planners.xenon.algorithm import Plan
    from llm_planning.planners.xenon.asking import MinecraftAsking
    from llm_planning.planners.xenon.roles import Failure, Predict

# Actions ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SuccessesOnly(Xenon):
    """Reuses the actions that worked, and counts no failures of an action.

    An item's requirements are doubted after x_0 |𝒜| failed attempts, the most that FAM needs to
    rule out all actions.

    Attributes:
        in_vain: item -> number of failed attempts since one last succeeded or its requirements were
            last reconsidered.
    """

    in_vain: dict[str, int] = field(default_factory=dict)

    async def select_action(self, item: str) -> str:
        """Reuses the action that worked, or asks."""
        reused = self.memory.known().get(item)
        if reused is not None:
            return reused
        return await self.ask(item, self.memory.actions, await self.analyses(item))

    async def analyses(self, item: str) -> Sequence[str]:  # noqa: ARG002 - subclasses read it
        """Returns what the question tells of earlier failures; here nothing."""
        return ()

    def succeeded(self, action: str, item: str) -> None:
        """Remembers the action for the item."""
        self.in_vain.pop(item, None)
        super().succeeded(action, item)

    def failed(self, failure: Failure) -> None:
        """Counts a failed attempt at the item, by any action."""
        self.in_vain[failure.item] = self.in_vain.get(failure.item, 0) + 1

    def all_invalid(self, item: str) -> bool:
        """Whether x_0 |𝒜| attempts failed since the last revision."""
        return self.in_vain.get(item, 0) >= self.memory.x0 * len(self.memory.actions)

    def reset(self, item: str) -> None:
        """Begins to count failures afresh, and keeps the action that worked."""
        self.in_vain.pop(item, None)

    def forgive(self, item: str) -> None:
        """Does the same."""
        self.in_vain.pop(item, None)


@dataclass(frozen=True, kw_only=True)
class SelfReflection(SuccessesOnly):
    """Has the LLM reflect on failures, and tells it its reflections in later questions.

    Attributes:
        unexplained: item -> failed attempts without a reflection yet.
        reasons: a failure without its inventory -> the reflection on it.
        explained: item -> reflections, oldest first.
    """

    roles: MinecraftAsking
    unexplained: dict[str, list[Failure]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    explained: dict[str, list[str]] = field(default_factory=dict)

    async def analyses(self, item: str) -> Sequence[str]:
        """Reflects on the item's new failures; returns all reflections on it, oldest first."""
        done = self.explained.setdefault(item, [])
        for failure in self.unexplained.pop(item, []):
            same = _without_inventory(failure)
            if same not in self.reasons:
                self.reasons[same] = await self.roles.analyse(failure)
            done.append(self.reasons[same])
        return Prefix(done)

    def failed(self, failure: Failure) -> None:
        """Keeps the attempt to reflect on, and forgets the item's remembered success."""
        super().failed(failure)
        self.memory.reset(failure.item)
        self.unexplained.setdefault(failure.item, []).append(failure)


def _without_inventory(failure: Failure) -> str:
    """Returns the action, the item and the belief: failures that share these share a reflection."""
    believed = sorted(f"{quantity} {u}" for u, quantity in failure.believed.items())
    return f"{failure.action} {failure.item}: {', '.join(believed)}"


@dataclass(frozen=True, kw_only=True)
class Forgetful(SuccessesOnly):
    """Asks the LLM every time, without examples."""

    async def select_action(self, item: str) -> str:
        """Asks."""
        return await self.roles.choose(ActionQuestion(item, self.memory.actions))

    def succeeded(self, action: str, item: str) -> None:  # noqa: ARG002
        """Begins to count the item's failures afresh, and remembers no action."""
        self.in_vain.pop(item, None)


@dataclass(frozen=True, kw_only=True)
class RandomFam(Xenon):
    """Random+FAM: Algorithm 4 with a uniform draw in the place of the LLM."""

    async def select_action(self, item: str) -> str:
        """Reuses the valid action, or draws one that is not invalid."""
        return self.memory.valid(item) or self.rng.choice(self.memory.candidates(item))


@dataclass(frozen=True, kw_only=True)
class Ucb(Xenon):
    """UCB1 (Auer, Cesa-Bianchi, Fischer 2002), a bandit for each item.

    An action that was not tried yet comes first. Then comes the action with the highest

        S(a, v) / n + c sqrt(ln N(v) / n)

    where n = S(a, v) + F(a, v), and N(v) is the sum of n over all actions. Ties are broken
    uniformly at random. The paper states neither formula nor constant.

    Attributes:
        c: exploration weight; sqrt(2) in UCB1.
    """

    c: float = math.sqrt(2)

    async def select_action(self, item: str) -> str:
        """Returns the action with the highest upper confidence bound."""
        scores = self.scores(item)
        best = max(scores.values())
        return self.rng.choice([action for action, score in scores.items() if score == best])

    def scores(self, item: str) -> dict[str, float]:
        """Returns action -> its upper confidence bound, infinite if it was not tried."""
        memory = self.memory
        tried = {a: memory.successes(a, item) + memory.failures(a, item) for a in memory.actions}
        total = sum(tried.values())
        return {
            a: memory.successes(a, item) / n + self.c * math.sqrt(math.log(total) / n)
            if n
            else math.inf
            for a, n in tried.items()
        }

    def all_invalid(self, item: str) -> bool:  # noqa: ARG002 - an override
        """Returns False: a bandit rules no action out."""
        return False


@dataclass(frozen=True, kw_only=True)
class TrueActions(Xenon):
    """Always chooses the valid action (OracleActionPlanner, Appendix K.4)."""

    book: RuleBook

    async def select_action(self, item: str) -> str:
        """Returns the action of the item's rule."""
        return self.book.rule(item).action


# Requirements -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AsPredicted(Xenon):
    """Leaves requirements as predicted, and only counts in C(v) that they failed."""

    async def revise(self, item: str) -> None:
        """Adds 1 to C(v)."""
        self.knowledge.count_revision(item)


@dataclass(frozen=True, kw_only=True)
class SelfCorrection(Xenon):
    """Has the LLM predict anew, told what failed.

    Attributes:
        unrevised: item -> failed attempts since it last succeeded or was revised.
        corrections: item -> how often the LLM corrected its requirements.
    """

    roles: MinecraftAsking
    unrevised: dict[str, list[Failure]] = field(default_factory=dict)
    corrections: dict[str, int] = field(default_factory=dict)

    async def revise(self, item: str) -> None:
        """Replaces R(v) by a new prediction, or by nothing if it makes a cycle (App. E.2)."""
        known = self.knowledge
        failures = self.unrevised.pop(item, [])
        known.count_revision(item)
        known.demonstrated.discard(item)
        self.corrections[item] = asking = self.corrections.get(item, 0) + 1
        alike = await self.similar.top(item, known.succeeded, self.k)
        examples = [(u, known.graph.requirements(u)) for u in alike]
        predicted = await self.roles.correct(CorrectionQuestion(item, examples, asking, failures))
        acyclic = not known.graph.makes_cycle(item, predicted)
        known.graph.require(item, predicted if acyclic else NOTHING)

    def succeeded(self, action: str, item: str) -> None:
        """Forgets the failed attempts."""
        super().succeeded(action, item)
        self.unrevised.pop(item, None)

    def failed(self, failure: Failure) -> None:
        """Keeps the failed attempt."""
        super().failed(failure)
        self.unrevised.setdefault(failure.item, []).append(failure)

    def reset(self, item: str) -> None:
        """Forgets the failed attempts."""
        super().reset(item)
        self.unrevised.pop(item, None)

    def forgive(self, item: str) -> None:
        """Forgets the failed attempts."""
        super().forgive(item)
        self.unrevised.pop(item, None)


# The agents of Tables 5 and 8 ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AnyGoal(Xenon):
    """Chooses any item not obtained yet, uniformly."""

    async def select_goal(self) -> str | None:
        """Draws one."""
        known = self.knowledge
        missing = [v for v in known.graph.items if v not in known.obtained]
        return self.rng.choice(missing) if missing else None


@dataclass(frozen=True, kw_only=True)
class NoCorrection(AsPredicted, SuccessesOnly):
    """XENON without any correction."""


@dataclass(frozen=True, kw_only=True)
class Sc(AnyGoal, SelfCorrection, SelfReflection):
    """SC: requirements and actions corrected by the LLM itself."""


@dataclass(frozen=True, kw_only=True)
class Rand(AnyGoal, AsPredicted, Forgetful):
    """RAND: requirements as predicted, no memory."""


@dataclass(frozen=True, kw_only=True)
class Deckard(NoCorrection):
    """DECKARD: goes on with the frontier, then with what it knows."""

    async def select_goal(self) -> str | None:
        """Chooses any of {v in F | C(v) <= c_0}, or else any obtained or frontier item."""
        f = self.frontier()
        fresh = [v for v in f if self.explored(v) <= self.c0]
        items = fresh or sorted({*self.knowledge.obtained, *f})
        return self.rng.choice(items) if items else None


@dataclass(frozen=True, kw_only=True)
class Adam(AnyGoal, NoCorrection):
    """ADAM: predicts nothing, and requires α_i of every resource for an unknown goal."""

    async def initialise(self, predict: Predict, *, most: int) -> Initial:  # noqa: ARG002
        """Predicts nothing."""
        return Initial()

    async def pursue(self, goal: str, world: World, *, until: int) -> list[Plan]:
        """Requires all resources known so far for the goal, and pursues it."""
        known = self.knowledge
        if goal not in known.succeeded:
            resources = known.graph.without_cycle(goal, known.consumed)
            known.graph.require(goal, dict.fromkeys(resources, self.alpha_i))
        return await super().pursue(goal, world, until=until)
