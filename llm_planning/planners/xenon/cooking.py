"""TextWorld Cooking: runs of many episodes, knowledge kept between them (Appendix A, Table 6)."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from llm_kernels.files import at_home
from llm_planning.environments.cooking.games import GameSpec, open_kitchens
from llm_planning.environments.cooking.kitchen import CookingWorld
from llm_planning.environments.cooking.recipes import ACTIONS
from llm_planning.outcome import Outcome
from llm_planning.planners.xenon.cooking_agents import (
    Cook,
    CookingEpisode,
    CookingKnowledge,
    Counted,
    cook,
    model_roles,
    oracle_roles,
)
from llm_planning.planners.xenon.memory import ActionMemory
from llm_planning.planners.xenon.saved import Record
from llm_planning.planners.xenon.similarity import Similar
from llm_planning.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from llm_planning.environments.cooking.kitchen import Kitchen
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.planners.xenon.cooking_agents import PredictedTools
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem

COOKING_TASKS = ("cook-a-meal",)
"""What the cooking planners can be asked for."""

WARM_UP = 10
"""Episodes after which an agent is expected to have learnt."""

EXTENDABLE = ("episodes", "save")
"""Settings that may be others when a saved run goes on."""


class CookingSettings(Settings):
    """Settings of a run of episodes.

    Attributes:
        episodes: of a run; the paper's has 100.
        max_steps: timesteps of an episode; the paper's has 50.
        games: different games, with seeds from 1; every run plays all of them in turn, in an order
            drawn by its seed.
        ingredients: of each recipe: 3 make a plan of 8 subgoals. The paper does not say how many.
        prior: who predicts tools and executable actions: the `model`, or an `oracle` that errs.
        accuracy: how often an oracle's answer is right; without effect on the model's.
        k: K, similar cookbook actions that serve as examples (key `K`).
        save: file to which the run goes after each episode, and from which a run that was stopped
            goes on exactly; nowhere if empty.
    """

    episodes: int = Field(100, ge=1)
    max_steps: int = Field(50, ge=1)
    games: int = Field(20, ge=1)
    ingredients: int = Field(3, ge=1, le=5)
    prior: Literal["model", "oracle"] = "model"
    accuracy: float = Field(0.6, ge=0.0, le=1.0)
    k: int = Field(3, ge=0, validation_alias="K")
    save: str = ""


class XenonCookingSettings(CookingSettings):
    """Settings of a run of XENON.

    Attributes:
        x0: failures beyond the successes that make an action empirically invalid.
    """

    x0: int = Field(2, ge=1)


class SavedRun(Record):
    """A run on disk.

    Attributes:
        questions: that the agent asked so far.
        episodes: finished so far.
        knowledge: of tools, after the last of them.
    """

    FORMAT = 2

    questions: int = Field(ge=0)
    episodes: list[CookingEpisode]
    knowledge: CookingKnowledge

    @property
    def finished(self) -> int:
        """Episodes so far."""
        return len(self.episodes)


async def cook_meals(
    problem: Problem[Any],
    *,
    engines: Engines,
    settings: CookingSettings,
    seed: int,
    planner: str,
    tools: Callable[[Cook], PredictedTools],
    actions: Callable[[Cook], ActionPolicy],
    kitchens_of: Callable[[Sequence[GameSpec]], Awaitable[list[Kitchen]]] = open_kitchens,
) -> Outcome:
    """Lets one agent play all episodes of one run.

    All that decides what an agent does next is in its knowledge and its action memory, so any of
    them can be stopped and go on.

    Args:
        problem: its task is one of `COOKING_TASKS`.
        engines: answer questions; the default one embeds names.
        settings: of the run.
        seed: of the order of games, the oracle's draws and the agent's.
        planner: its name.
        tools: predicts and revises tools.
        actions: chooses and learns executable actions.
        kitchens_of: opens the games.

    Raises:
        SettingsError: the folder to save in is missing.
        CookingError: TextWorld is missing, or a game cannot be made or played.
        SavedKnowledgeError: the saved run cannot be written, cannot be read or is another one.
    """
    run = {
        "planner": planner,
        "task": problem.task,
        "model": engines.name,
        "seed": seed,
        **{k: v for k, v in settings.to_json().items() if k not in EXTENDABLE},
    }
    path, saved = Path(at_home(settings.save)), None
    if settings.save:
        saved = SavedRun.resume(path, run, episodes=settings.episodes)
    specs = [
        GameSpec(seed=number, ingredients=settings.ingredients)
        for number in game_order(settings.games, settings.episodes, seed)
    ]
    kitchens = await kitchens_of(specs)
    roles = (
        model_roles(engines)
        if settings.prior == "model"
        else oracle_roles(accuracy=settings.accuracy, seed=seed)
    )
    asked = Counted(roles.predict), Counted(roles.choose)
    # The others do not count failures against an action.
    x0 = settings.x0 if isinstance(settings, XenonCookingSettings) else 1
    agent = Cook(
        memory=ActionMemory(ACTIONS, x0=x0),
        similar=Similar(engines.default),
        roles=replace(roles, predict=asked[0], choose=asked[1]),
        k=settings.k,
        knowledge=saved.knowledge if saved else CookingKnowledge(),
        seed=seed,
    )
    episodes: list[CookingEpisode] = []
    if saved:
        saved.recall(agent.memory)
        episodes.extend(saved.episodes)
    before = saved.questions if saved else 0

    def questions() -> int:
        return before + sum(role.calls for role in asked)

    store, policy = tools(agent), actions(agent)
    for number in range(len(episodes), settings.episodes):
        kitchen = kitchens[number % len(kitchens)]
        world = CookingWorld(kitchen, max_steps=settings.max_steps)
        episodes.append(await cook(world, knowledge=agent.knowledge, tools=store, actions=policy))
        if settings.save:
            SavedRun.write(
                path,
                agent.memory,
                run=run,
                questions=questions(),
                episodes=list(map(asdict, episodes)),
                knowledge=asdict(agent.knowledge),
            )
        # Remembered answers need no waiting and would keep every other trial waiting.
        await asyncio.sleep(0)
    return _outcome(
        episodes,
        agent,
        questions=questions(),
        header={
            "task": problem.task,
            "seed": seed,
            "settings": settings.to_json(),
            "oracles": list(roles.oracles),
        },
    )


def game_order(games: int, episodes: int, seed: int) -> list[int]:
    """The games of a run in the order in which they are played, again and again.

    Args:
        games: how many there are, numbered from 1.
        episodes: games beyond that many are left out.
        seed: of the run.
    """
    numbers = list(range(1, games + 1))
    Random(f"{seed}/games").shuffle(numbers)
    return numbers[:episodes]


def statistics(episodes: Sequence[CookingEpisode]) -> dict[str, Any]:
    """What a run of episodes amounts to.

    Returns:
        success_rate: share of all episodes that succeeded.
        success_rate_after_10: share of those after the tenth; None without any.
        steps_per_success: mean timesteps of the successful ones; None without any.
        first_success: number of the first successful one, from 1; None without any.
        steps, refused: timesteps of all episodes, and those whose subgoal was refused.
    """
    won = [episode.success for episode in episodes]
    after = won[WARM_UP:]
    return {
        "success_rate": fmean(won),
        "success_rate_after_10": fmean(after) if after else None,
        "steps_per_success": (
            fmean(len(episode.steps) for episode in episodes if episode.success)
            if any(won)
            else None
        ),
        "first_success": won.index(True) + 1 if any(won) else None,
        "steps": sum(len(episode.steps) for episode in episodes),
        "refused": sum(not step.success for episode in episodes for step in episode.steps),
    }


def _outcome(
    episodes: Sequence[CookingEpisode],
    agent: Cook,
    *,
    questions: int,
    header: Mapping[str, Any],
) -> Outcome:
    """The outcome of a run: it succeeded if every episode after the tenth did."""
    numbers = statistics(episodes)
    known, learnt = agent.knowledge, agent.memory.known()
    after = numbers["success_rate_after_10"]
    return Outcome(
        success=None if after is None else after == 1.0,
        plan=tuple(
            f"{step.action} {step.ingredient} with {step.tool}"
            for step in episodes[-1].steps
            if step.success
        ),
        metrics={
            "success_basis": "every meal after the tenth episode eaten in the game",
            **numbers,
            "episodes": len(episodes),
            "questions": questions,
            "revisions": known.revisions,
            "learnt": len(learnt),
        },
        trace={
            **header,
            "episodes": list(map(asdict, episodes)),
            "knowledge": {**asdict(known), "memory": agent.memory.to_json()},
        },
        text="\n".join(
            (
                f"meals eaten in {len(episodes)} episodes, ten by ten: {_by_tens(episodes)}",
                *(f"{v}: {action} with {known.tools[v]}" for v, action in sorted(learnt.items())),
            )
        ),
    )


def _by_tens(episodes: Sequence[CookingEpisode]) -> str:
    tens = (episodes[i : i + WARM_UP] for i in range(0, len(episodes), WARM_UP))
    return " ".join(str(sum(episode.success for episode in ten)) for ten in tens)
