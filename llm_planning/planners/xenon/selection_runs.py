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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Generic, Protocol, TypeVar

from pydantic import AfterValidator, Field

from llm_planning.environments.minecraft.controller import group_of
from llm_planning.environments.minecraft.goals import GOAL_GROUPS_67
from llm_planning.environments.minecraft.text_world import TextWorld
from llm_planning.environments.minecraft.verbs import action_set
from llm_planning.planners.settings import PlannerSettings
from llm_planning.planners.xenon.benchmark import (
    Repeat,
    episode_outcome,
    obtain,
    prior_roles,
    true_graph,
)
from llm_planning.planners.xenon.choosing import FailureAware, Forgetful, SelfReflecting
from llm_planning.planners.xenon.failure_notes import FailureNotes
from llm_planning.planners.xenon.learning import game_rules
from llm_planning.planners.xenon.memory import ActionMemory
from llm_planning.planners.xenon.selection import RandomFam, Ucb
from llm_planning.planners.xenon.settings import Prior  # noqa: TC001 (pydantic reads it)
from llm_planning.planners.xenon.similarity import Similar

if TYPE_CHECKING:
    from llm_planning.planners.outcome import Outcome
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.roles import Engines
    from llm_serving.engine import Engine

SELECTION_TASKS = GOAL_GROUPS_67["Redstone"]
"""The goals of Figure 25."""


def _size(verbs: int) -> int:
    return len(action_set(verbs))


SettingsT = TypeVar("SettingsT", bound="SelectionSettings")
SettingsT_contra = TypeVar("SettingsT_contra", bound="SelectionSettings", contravariant=True)


class SelectionSettings(PlannerSettings):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a way of choosing can be made of.

    Attributes:
        world: with the action set.
        engine: answers questions and embeds names.
        seed: of every draw.
    """

    world: TextWorld
    engine: Engine
    seed: int

    @property
    def rng(self) -> random.Random:
        """Draws of a policy."""
        return random.Random(f"actions {self.seed}")


class Choosing(Protocol[SettingsT_contra]):
    """Puts a way of choosing together."""

    def __call__(self, given: Given, settings: SettingsT_contra) -> ActionPolicy:
        """Returns it, with nothing learnt yet."""
        ...


def random_fam(given: Given, settings: MemorySettings) -> RandomFam:
    """Random+FAM."""
    return RandomFam(ActionMemory(given.world.verbs, x0=settings.x0), rng=given.rng)


def ucb(given: Given, settings: UcbSettings) -> Ucb:
    """UCB; counts alone are kept, so x_0 has no say."""
    return Ucb(ActionMemory(given.world.verbs, x0=1), c=settings.c, rng=given.rng)


def xenon(given: Given, settings: AskingSettings) -> FailureAware:
    """The LLM with FAM."""
    roles = prior_roles(settings.prior, given.world, given.engine, seed=given.seed)
    memory = ActionMemory(given.world.verbs, x0=settings.x0)
    return FailureAware(memory, similar=Similar(given.engine), ask=roles.choose, k=settings.k)


def self_correction(given: Given, settings: AskingSettings) -> SelfReflecting:
    """The LLM that reflects on its failures."""
    roles = prior_roles(settings.prior, given.world, given.engine, seed=given.seed)
    return SelfReflecting(
        ActionMemory(given.world.verbs, x0=settings.x0),
        similar=Similar(given.engine),
        ask=roles.choose,
        analyse=roles.analyse,
        k=settings.k,
        notes=FailureNotes(),
    )


def without_memory(given: Given, settings: AskingSettings) -> Forgetful:
    """The LLM alone."""
    roles = prior_roles(settings.prior, given.world, given.engine, seed=given.seed)
    return Forgetful(
        ActionMemory(given.world.verbs, x0=settings.x0),
        similar=Similar(given.engine),
        ask=roles.choose,
        k=settings.k,
        notes=FailureNotes(),
    )


class SelectionRun(Generic[SettingsT]):
    """Obtains one goal with the true graph.

    Args:
        choosing: how actions are chosen.
    """

    def __init__(self, choosing: Choosing[SettingsT]) -> None:
        self._choosing = choosing

    async def __call__(
        self, task: str, *, engines: Engines, settings: SettingsT, seed: int
    ) -> Outcome:
        """Plans and acts for one episode.

        Args:
            task: the goal item.
            engines: answer questions and embed names; only the first is asked.
            settings: of the run.
            seed: of every draw.

        Raises:
            UnknownGoalError: there is no such goal.
        """
        group = group_of(task)
        book = game_rules()
        world = TextWorld(book, verbs=action_set(settings.verbs))
        truth = true_graph(book, world.items)
        given = Given(world=world, engine=engines.options, seed=seed)
        episode = await obtain(
            task,
            world,
            graph=truth,
            truth=truth,
            actions=self._choosing(given, settings),
            execute=Repeat(world),
            until=settings.steps,
        )
        return episode_outcome(
            episode,
            book=book,
            judged_by="text world",
            settings=settings,
            seed=seed,
            metrics={"group": group},
        )
