"""TextWorld Cooking: runs of many episodes, with what was learnt kept (Appendix A, Table 6)."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import Field

from llm_base.files import at_home
from llm_planning.environments.cooking.recipes import ACTIONS
from llm_planning.outcome import Outcome
from llm_planning.planners.xenon.asking import CookingAsking
from llm_planning.planners.xenon.cooking_agent import (
    Cook,
    CookingEpisode,
    CookingKnowledge,
    DeckardCook,
    ScCook,
    XenonCook,
    cook,
    notes_on_tools,
)
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.memory import ActionMemory, Knowledge, Similar
from llm_planning.planners.xenon.saved import Record, SavedKnowledgeError, run_of
from llm_planning.planners.xenon.settings import XenonCookingSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.environments.cooking.domain import Cooking
    from llm_planning.planners.xenon.settings import CookingSettings
    from llm_planning.specs import Run

COOKS: Mapping[str, type[Cook]] = {
    "xenon-cooking": XenonCook,
    "sc-cooking": ScCook,
    "deckard-cooking": DeckardCook,
}
"""Name -> the agent that saved files mean by it."""

WARM_UP = 10
"""Number of episodes in which an agent is expected to learn."""


class SavedRun(Record):
    """A run on disk.

    Attributes:
        questions: number of questions that the agent asked so far.
        knowledge: of tools, after the last episode.
    """

    FORMAT = 2

    questions: int = Field(ge=0)
    episodes: list[CookingEpisode]
    knowledge: CookingKnowledge


async def cook_meals(run: Run[Cooking, CookingSettings], *, planner: str) -> Outcome:
    """Lets one agent play all episodes of one run.

    What an agent does next depends only on its knowledge and its action memory. So a stopped run
    can go on.

    Args:
        run: its games are played in turn, in an order drawn by its seed.
        planner: one of `COOKS`.

    Raises:
        SettingsError: the folder of the setting `save` is missing.
        CookingError: TextWorld is missing, or a game cannot be made or played.
        SavedKnowledgeError: the saved file cannot be read or written, or is of another run.
    """
    engines, settings, seed = run.engines, run.settings, run.seed
    world = run.world
    identity = run_of(
        settings, world.settings, planner=planner, task=run.task, model=engines.name, seed=seed
    )
    path, saved = Path(at_home(settings.save)), None
    if settings.save:
        saved = SavedRun.of(path, identity)
    if saved and len(saved.episodes) > settings.episodes:
        raise SavedKnowledgeError(
            f"{path} holds {len(saved.episodes)} episodes, more than episodes={settings.episodes}: "
            "name another file"
        )
    meals = await world.meals(seed, settings.episodes)
    roles = CookingAsking(engines, settings, seed=seed)
    # Only XENON counts failures against an action.
    x0 = settings.x0 if isinstance(settings, XenonCookingSettings) else 1
    known, memory = saved.knowledge if saved else CookingKnowledge(), ActionMemory(ACTIONS, x0=x0)
    agent = COOKS[planner](
        knowledge=Knowledge(DependencyGraph()),
        memory=memory,
        similar=Similar(engines.default),
        roles=roles,
        k=settings.k,
        known=known,
        seed=seed,
        notes=notes_on_tools(known, memory),
    )
    episodes: list[CookingEpisode] = []
    if saved:
        saved.recall(agent.memory)
        episodes.extend(saved.episodes)
    before = saved.questions if saved else 0

    def questions() -> int:
        return before + roles.asked.total()

    for number in range(len(episodes), settings.episodes):
        meal = meals[number % len(meals)]
        episodes.append(await cook(world, meal, agent=agent, max_steps=settings.max_steps))
        if settings.save:
            SavedRun.write(
                path,
                agent.memory,
                run=identity,
                questions=questions(),
                episodes=list(map(asdict, episodes)),
                knowledge=asdict(known),
            )
        # Without it, a run whose answers need no waiting would block all other trials.
        await asyncio.sleep(0)
    return _outcome(
        episodes,
        agent,
        questions=questions(),
        header={**run.header, "oracles": roles.oracles},
    )


def statistics(episodes: Sequence[CookingEpisode]) -> dict[str, Any]:
    """Returns the metrics of a run.

    Returns:
        success_rate: share of the episodes that succeeded.
        success_rate_after_10: the same share after the tenth episode; None up to ten episodes.
        steps_per_success: mean timesteps of the successful episodes; None if none succeeded.
        first_success: number of the first successful episode, from 1; None if none succeeded.
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
    """Returns the outcome of a run, a success if every episode after the tenth succeeded."""
    numbers = statistics(episodes)
    known, learnt = agent.known, agent.memory.known()
    after = numbers["success_rate_after_10"]
    eaten = sum(episode.success for episode in episodes)
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
        verdict=(
            f"The meal is eaten in {eaten} of {len(episodes)} games; the last has "
            f"{len(episodes[-1].steps)} steps."
        ),
    )


def _by_tens(episodes: Sequence[CookingEpisode]) -> str:
    tens = (episodes[i : i + WARM_UP] for i in range(0, len(episodes), WARM_UP))
    return " ".join(str(sum(episode.success for episode in ten)) for ten in tens)
