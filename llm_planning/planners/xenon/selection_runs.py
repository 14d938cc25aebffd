"""Choosing actions with the true graph at hand: the runs of Figure 25 (XENON, Appendix K.10).

    select-xenon       FAM, and the LLM for what it does not know
    select-sc          the LLM, told why earlier attempts failed
    select-llm         the LLM, which remembers nothing
    select-random-fam  FAM, and a uniform draw
    select-ucb         UCB1

Each run is one episode of one goal in the text world. Nothing is carried from one episode to the
next: a valid action must be found for every subgoal item within the episode. (The paper does not
say whether its 20 runs of a goal share a memory; here they are independent.)
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, Field

from llm_planning.environments.minecraft.goals import GOAL_GROUPS_67
from llm_planning.environments.minecraft.text_world import TextWorld
from llm_planning.environments.minecraft.verbs import action_set
from llm_planning.planners.xenon.benchmark import Repeat, play
from llm_planning.planners.xenon.choosing import Asking, FailureAware, Forgetful, SelfReflecting
from llm_planning.planners.xenon.learning import game_rules
from llm_planning.planners.xenon.memory import ActionMemory
from llm_planning.planners.xenon.prior import prior_roles
from llm_planning.planners.xenon.selection import RandomFam, Ucb
from llm_planning.planners.xenon.settings import Prior  # noqa: TC001 (pydantic reads it)
from llm_planning.planners.xenon.similarity import Similar
from llm_planning.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.outcome import Outcome
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.planners.xenon.roles import Roles
    from llm_planning.registry import Problem
    from llm_planning.roles import Engines

SELECTION_TASKS = GOAL_GROUPS_67["Redstone"]
"""The goals of Figure 25."""

JUDGE = "text world"


def _size(verbs: int) -> int:
    return len(action_set(verbs))


SettingsT = TypeVar("SettingsT", bound="SelectionSettings")


class SelectionSettings(Settings):
    """Settings of every run.

    Attributes:
        verbs: size of the action set 𝒜.
        steps: horizon, in environment steps.
    """

    verbs: Annotated[int, AfterValidator(_size)] = 3
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


def random_fam(world: TextWorld, settings: MemorySettings, rng: random.Random) -> RandomFam:
    """Random+FAM."""
    return RandomFam(ActionMemory(world.verbs, x0=settings.x0), rng=rng)


def ucb(world: TextWorld, settings: UcbSettings, rng: random.Random) -> Ucb:
    """UCB; counts alone are kept, so x_0 has no say."""
    return Ucb(ActionMemory(world.verbs, x0=1), c=settings.c, rng=rng)


class DrawingRun(Generic[SettingsT]):
    """Obtains one goal with the true graph, without asking anybody.

    Args:
        choosing: how actions are chosen.
    """

    def __init__(
        self, choosing: Callable[[TextWorld, SettingsT, random.Random], ActionPolicy]
    ) -> None:
        self._choosing = choosing

    async def __call__(
        self,
        problem: Problem[Any],
        *,
        engines: Engines,  # noqa: ARG002 - it asks nobody
        settings: SettingsT,
        seed: int,
    ) -> Outcome:
        """Plans and acts for one episode; the task is the goal item.

        Raises:
            UnknownGoalError: there is no such goal.
        """
        world = _world(settings)
        policy = self._choosing(world, settings, random.Random(f"actions {seed}"))
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
        )


def xenon(asking: Asking, roles: Roles) -> FailureAware:  # noqa: ARG001 - asked of every way
    """The LLM with FAM."""
    return FailureAware(asking)


def self_correction(asking: Asking, roles: Roles) -> SelfReflecting:
    """The LLM that reflects on its failures."""
    return SelfReflecting(asking, analyse=roles.analyse)


def without_memory(asking: Asking, roles: Roles) -> Forgetful:  # noqa: ARG001 - asked of every way
    """The LLM alone."""
    return Forgetful(asking)


class AskingRun:
    """Obtains one goal with the true graph, asking the model or an oracle.

    Args:
        choosing: how actions are chosen.
    """

    def __init__(self, choosing: Callable[[Asking, Roles], ActionPolicy]) -> None:
        self._choosing = choosing

    async def __call__(
        self, problem: Problem[Any], *, engines: Engines, settings: AskingSettings, seed: int
    ) -> Outcome:
        """Plans and acts for one episode; the task is the goal item.

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
        return await play(
            problem.task,
            world,
            book=world.book,
            actions=self._choosing(asking, roles),
            execute=Repeat(world),
            until=settings.steps,
            judged_by=JUDGE,
            settings=settings,
            seed=seed,
            oracles=roles.oracles,
        )


def _world(settings: SelectionSettings) -> TextWorld:
    return TextWorld(game_rules(), verbs=action_set(settings.verbs))
