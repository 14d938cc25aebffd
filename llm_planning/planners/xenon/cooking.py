"""TextWorld Cooking: runs of many episodes, knowledge kept between them (Appendix A, Table 6)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from pydantic import Field

from llm_planning.environments.cooking.games import GameSpec, open_kitchens
from llm_planning.environments.cooking.kitchen import CookingWorld
from llm_planning.names import remedy
from llm_planning.planners.outcome import Outcome
from llm_planning.planners.settings import PlannerSettings
from llm_planning.planners.xenon import cooking_agents
from llm_planning.planners.xenon.cooking_knowledge import CookingKnowledge
from llm_planning.planners.xenon.cooking_oracle import OracleAction, OracleTool
from llm_planning.planners.xenon.cooking_roles import CookingRoles, Counted, LlmAction, LlmTool
from llm_planning.planners.xenon.cooking_saved import episodes_json, load_run, save_run
from llm_planning.planners.xenon.similarity import Similar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from llm_planning.environments.cooking.kitchen import Kitchen
    from llm_planning.planners.xenon.cooking_agents import CookingAgent, Episode
    from llm_planning.roles import Engines
    from llm_serving.engine import Engine

COOKING_TASKS = ("cook-a-meal",)
"""What the cooking planners can be asked for."""

WARM_UP = 10
"""Episodes after which an agent is expected to have learnt."""

EXTENDABLE = ("episodes", "save")
"""Settings that may be others when a saved run goes on."""


class UnknownCookingTaskError(ValueError):
    """No cooking task has this name."""


class CookingSettings(PlannerSettings):
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


SettingsT = TypeVar("SettingsT", bound=CookingSettings)
SettingsT_contra = TypeVar("SettingsT_contra", bound=CookingSettings, contravariant=True)


class Assemble(Protocol[SettingsT_contra]):
    """Puts an agent together that knows nothing yet."""

    def __call__(
        self, roles: CookingRoles, settings: SettingsT_contra, *, similar: Similar, seed: int
    ) -> CookingAgent:
        """Returns the agent."""
        ...


def xenon(
    roles: CookingRoles, settings: XenonCookingSettings, *, similar: Similar, seed: int
) -> CookingAgent:
    """XENON with nothing learnt."""
    known = CookingKnowledge.empty(x0=settings.x0)
    return cooking_agents.xenon(known, roles, similar=similar, k=settings.k, seed=seed)


def self_correction(
    roles: CookingRoles,
    settings: CookingSettings,
    *,
    similar: Similar,
    seed: int,  # noqa: ARG001 - all of its draws are its roles'
) -> CookingAgent:
    """SC with nothing learnt."""
    known = CookingKnowledge.empty()
    return cooking_agents.self_correction(known, roles, similar=similar, k=settings.k)


def deckard(
    roles: CookingRoles,
    settings: CookingSettings,
    *,
    similar: Similar,
    seed: int,  # noqa: ARG001 - all of its draws are its roles'
) -> CookingAgent:
    """DECKARD with nothing learnt."""
    known = CookingKnowledge.empty()
    return cooking_agents.deckard(known, roles, similar=similar, k=settings.k)


class CookingRun(Generic[SettingsT]):
    """Lets one agent play its episodes.

    All that decides what an agent does next is in its `CookingKnowledge`, so any of them can be
    stopped and go on.

    Args:
        name: of the planner.
        assemble: which agent.
        kitchens: opens the games.
    """

    def __init__(
        self,
        name: str,
        assemble: Assemble[SettingsT],
        *,
        kitchens: Callable[[Sequence[GameSpec]], Awaitable[list[Kitchen]]] = open_kitchens,
    ) -> None:
        self._name = name
        self._assemble = assemble
        self._open_kitchens = kitchens

    async def __call__(
        self, task: str, *, engines: Engines, settings: SettingsT, seed: int
    ) -> Outcome:
        """Plays all episodes of one run.

        Args:
            task: one of `COOKING_TASKS`.
            engines: `options` is the planner LLM, and embeds names.
            settings: of the run.
            seed: of the order of games, the oracle's draws and the agent's.

        Raises:
            UnknownCookingTaskError: there is no such task.
            SettingsError: the folder to save in is missing.
            CookingError: TextWorld is missing, a game cannot be made or played, or the saved run
                cannot be written, cannot be read or is another one.
        """
        if task not in COOKING_TASKS:
            raise UnknownCookingTaskError(
                f"unknown cooking task {task!r}; {remedy(task, COOKING_TASKS)}"
            )
        run = self._run(task, engines, settings, seed)
        saved = None
        if settings.save:
            saved = load_run(Path(settings.save), run, episodes=settings.episodes)
        specs = [
            GameSpec(seed=number, ingredients=settings.ingredients)
            for number in game_order(settings.games, settings.episodes, seed)
        ]
        kitchens = await self._open_kitchens(specs)
        predict, choose = _prior(engines.options, settings, seed)
        asked = Counted(predict), Counted(choose)
        agent = self._assemble(
            CookingRoles(predict=asked[0], choose=asked[1]),
            settings,
            similar=Similar(engines.options),
            seed=seed,
        )
        episodes: list[Episode] = []
        before = 0
        if saved is not None:
            episodes, before = saved.played(), saved.questions
            agent.knowledge.restore(saved.knowledge)

        def questions() -> int:
            return before + sum(role.calls for role in asked)

        for number in range(len(episodes), settings.episodes):
            kitchen = kitchens[number % len(kitchens)]
            episodes.append(await agent.cook(CookingWorld(kitchen, max_steps=settings.max_steps)))
            if settings.save:
                known, path = agent.knowledge, Path(settings.save)
                save_run(path, run, episodes, known, questions=questions())
            # Remembered answers need no waiting and would keep every other trial waiting.
            await asyncio.sleep(0)
        return _outcome(
            episodes,
            agent.knowledge,
            questions=questions(),
            header={"task": task, "seed": seed, "settings": settings.to_json()},
        )

    def _run(
        self, task: str, engines: Engines, settings: SettingsT, seed: int
    ) -> dict[str, object]:
        """What the agent's doings depend on, by name."""
        return {
            "planner": self._name,
            "task": task,
            "model": engines.options.identity.name,
            "seed": seed,
            **{k: v for k, v in settings.to_json().items() if k not in EXTENDABLE},
        }


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


def statistics(episodes: Sequence[Episode]) -> dict[str, Any]:
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


def _prior(
    engine: Engine, settings: CookingSettings, seed: int
) -> tuple[LlmTool, LlmAction] | tuple[OracleTool, OracleAction]:
    if settings.prior == "model":
        return LlmTool(engine), LlmAction(engine)
    accuracy = settings.accuracy
    return OracleTool(accuracy=accuracy, seed=seed), OracleAction(accuracy=accuracy, seed=seed)


def _outcome(
    episodes: Sequence[Episode],
    known: CookingKnowledge,
    *,
    questions: int,
    header: dict[str, Any],
) -> Outcome:
    """The outcome of a run: it succeeded if every episode after the tenth did."""
    numbers = statistics(episodes)
    learnt = known.memory.known()
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
            "episodes": episodes_json(episodes),
            "knowledge": known.to_json(),
        },
        text="\n".join(
            (
                f"meals eaten in {len(episodes)} episodes, ten by ten: {_by_tens(episodes)}",
                *(f"{v}: {action} with {known.tools[v]}" for v, action in sorted(learnt.items())),
            )
        ),
    )


def _by_tens(episodes: Sequence[Episode]) -> str:
    tens = (episodes[i : i + WARM_UP] for i in range(0, len(episodes), WARM_UP))
    return " ".join(str(sum(episode.success for episode in ten)) for ten in tens)


xenon_cooking = CookingRun("xenon-cooking", xenon)
"""`xenon-cooking`."""

sc_cooking = CookingRun("sc-cooking", self_correction)
"""`sc-cooking`."""

deckard_cooking = CookingRun("deckard-cooking", deckard)
"""`deckard-cooking`."""
