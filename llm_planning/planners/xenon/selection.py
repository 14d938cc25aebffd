"""Choosing actions with the true graph at hand: the runs of Figure 25 (XENON, Appendix K.10).

    select-xenon       FAM, and the LLM for what it does not know
    select-sc          the LLM, told why earlier attempts failed
    select-llm         the LLM, which remembers nothing
    select-random-fam  any action that has not repeatedly failed; what worked is reused
    select-ucb         UCB1 over the actions of each item, with the binary feedback as reward

Each run is one episode of one goal in the text world. Nothing is carried from one episode to the
next: a valid action must be found for every subgoal item within the episode. (The paper does not
say whether its 20 runs of a goal share a memory; here they are independent.)
"""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING, Any

from pydantic import Field

from llm_planning.environments.minecraft.goals import GOAL_GROUPS_67
from llm_planning.environments.minecraft.rulebook import game_rules
from llm_planning.environments.minecraft.text_world import TextWorld, action_set
from llm_planning.planners.xenon.benchmark import Repeat, play
from llm_planning.planners.xenon.choosing import Asking, Remembering
from llm_planning.planners.xenon.memory import ActionMemory
from llm_planning.planners.xenon.prior import prior_roles
from llm_planning.planners.xenon.settings import ActionSetSize, Prior  # noqa: TC001 (pydantic reads it)
from llm_planning.planners.xenon.similarity import Similar
from llm_planning.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llm_planning.outcome import Outcome
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.planners.xenon.roles import Roles
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem

SELECTION_TASKS = GOAL_GROUPS_67["Redstone"]
"""The goals of Figure 25."""

JUDGE = "text world"


class SelectionSettings(Settings):
    """Settings of every run.

    Attributes:
        verbs: size of the action set 𝒜.
        steps: horizon, in environment steps.
    """

    verbs: ActionSetSize = 3
    steps: int = Field(300, ge=1)


class UcbSettings(SelectionSettings):
    """Settings of UCB.

    Attributes:
        c: exploration weight.
    """

    c: float = Field(math.sqrt(2), ge=0.0, allow_inf_nan=False)


class MemorySettings(SelectionSettings):
    """Settings of a run with FAM.

    Attributes:
        x0: x_0, failures beyond successes that make an action invalid.
    """

    x0: int = Field(2, ge=1)


class AskingSettings(MemorySettings):
    """Settings of a run that asks.

    Attributes:
        k: K, similar items that serve as examples (key `K`).
        prior: who answers: the `model`, or an oracle that errs at the rates of `table12`.
    """

    k: int = Field(3, ge=1, validation_alias="K")
    prior: Prior = "model"


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


async def select_by_draws(
    problem: Problem[Any],
    *,
    engines: Engines,  # noqa: ARG001 - it asks nobody
    settings: SelectionSettings,
    seed: int,
    choosing: Callable[[TextWorld, Any, Random], ActionPolicy],
) -> Outcome:
    """Obtains one goal with the true graph, without asking anybody.

    Args:
        problem: its task is the goal item.
        engines: not asked.
        settings: of the run.
        seed: of the draws.
        choosing: how actions are chosen, in a world, with these settings and draws.

    Raises:
        UnknownGoalError: there is no such goal.
    """
    world = _world(settings)
    policy = choosing(world, settings, Random(f"actions {seed}"))
    return await _play(problem, world, policy, settings=settings, seed=seed)


def random_fam(world: TextWorld, settings: MemorySettings, rng: Random) -> RandomFam:
    """Random+FAM."""
    return RandomFam(ActionMemory(world.verbs, x0=settings.x0), rng=rng)


def ucb(world: TextWorld, settings: UcbSettings, rng: Random) -> Ucb:
    """UCB; counts alone are kept, so x_0 has no say."""
    return Ucb(ActionMemory(world.verbs, x0=1), c=settings.c, rng=rng)


async def select_by_asking(
    problem: Problem[Any],
    *,
    engines: Engines,
    settings: AskingSettings,
    seed: int,
    choosing: Callable[[Asking, Roles], ActionPolicy],
) -> Outcome:
    """Obtains one goal with the true graph, asking the model or an oracle.

    Args:
        problem: its task is the goal item.
        engines: answer questions; the default one embeds names.
        settings: of the run.
        seed: of the oracle's errors.
        choosing: how actions are chosen.

    Raises:
        UnknownGoalError: there is no such goal.
    """
    world = _world(settings)
    roles = prior_roles(settings.prior, world, engines, seed=seed)
    asking = Asking(
        memory=ActionMemory(world.verbs, x0=settings.x0),
        similar=Similar(engines.default),
        ask=roles.choose,
        k=settings.k,
    )
    policy = choosing(asking, roles)
    return await _play(problem, world, policy, settings=settings, seed=seed, oracles=roles.oracles)


async def _play(
    problem: Problem[Any],
    world: TextWorld,
    policy: ActionPolicy,
    *,
    settings: SelectionSettings,
    seed: int,
    oracles: Sequence[Mapping[str, object]] = (),
) -> Outcome:
    """One episode; the task is the goal item."""
    return await play(
        problem.task,
        world,
        book=world.book,
        actions=policy,
        execute=Repeat(world),
        until=settings.steps,
        judged_by=JUDGE,
        settings=settings,
        seed=seed,
        oracles=oracles,
    )


def _world(settings: SelectionSettings) -> TextWorld:
    return TextWorld(game_rules(), verbs=action_set(settings.verbs))
