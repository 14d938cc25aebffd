"""MC-DML, its ablations and its baselines that search, each a composition (Table 3).

                        π          H                   ℳ_i      ℳ_c    selection
    mc-dml              LLM        d_min, ..., d_max   1 turn   k      eq. 3
    mc-dml-no-dp        LLM        depth               1 turn   k      eq. 3
    mc-dml-no-mc-dp     LLM        depth               1 turn   none   eq. 3
    mc-dml-no-mc-mi-dp  LLM        depth               none     none   eq. 3
    puct                uniform    d_min, ..., d_max   none     none   eq. 2
    uct                 none       d_min, ..., d_max   none     none   eq. 1

The baselines search as deep as MC-DML does, so that they differ in their policy alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from llm_planning.environments.textgame.opening import open_game
from llm_planning.planners.mc_dml.episode import format_decisions, play
from llm_planning.planners.mc_dml.first_move import first_move_metrics
from llm_planning.planners.mc_dml.outcome import Spent, game_outcome
from llm_planning.planners.mc_dml.priors import make_prior
from llm_planning.planners.mc_dml.reflection import LlmReflection
from llm_planning.planners.mc_dml.roles import uniform_prior
from llm_planning.planners.mc_dml.search import Agent
from llm_planning.planners.mc_dml.settings import (
    DynamicDepthSettings,
    FixedDepthSettings,
    LlmFixedSettings,
    McDmlSettings,
    PlainSettings,
    PriorSettings,
    ReflectionSettings,
    ReflectiveFixedSettings,
    SearchSettings,
)
from llm_planning.search import select_by_puct, select_by_uct

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.planners.mc_dml.priors import LlmPrior
    from llm_planning.planners.mc_dml.search import Select
    from llm_planning.planners.outcome import Outcome
    from llm_planning.roles import Engines
    from llm_serving.engine import Engine

SettingsT = TypeVar("SettingsT", bound=SearchSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition(Generic[SettingsT]):
    """A search, as a row of the table above.

    Attributes:
        policy: makes the language model's prior of an engine and a seed; None for the uniform one.
        depths: H, one after the other.
        past: turns of ℳ_i before o_t.
        k: most reflections in ℳ_c; with 0, nobody reflects.
        select: makes the selection rule of a constant C.
    """

    policy: Callable[[Engine, SettingsT, int], LlmPrior] | None
    depths: Callable[[SettingsT], tuple[int, ...]]
    past: int
    k: Callable[[SettingsT], int]
    select: Callable[[float], Select]


def llm(engine: Engine, settings: PriorSettings, seed: int) -> LlmPrior:
    """π by the language model."""
    return make_prior(settings.prior, engine, temperature=settings.prior_temperature, seed=seed)


def growing(settings: DynamicDepthSettings) -> tuple[int, ...]:
    """DP: d_min, then Δd more each time, and d_max at last."""
    return (*range(settings.d_min, settings.d_max, settings.delta_d), settings.d_max)


def fixed(settings: FixedDepthSettings) -> tuple[int, ...]:
    """Without DP."""
    return (settings.depth,)


def up_to_k(settings: ReflectionSettings) -> int:
    """With ℳ_c."""
    return settings.k


def none(settings: SearchSettings) -> int:  # noqa: ARG001 - there is nothing to set
    """Without ℳ_c."""
    return 0


def by_puct(c: float) -> Select:
    """Eqs. 2 and 3."""
    return select_by_puct(c=c)


def by_uct(c: float) -> Select:
    """Eq. 1."""
    return select_by_uct(c=c)


MC_DML: Composition[McDmlSettings] = Composition(
    policy=llm, depths=growing, past=1, k=up_to_k, select=by_puct
)
WITHOUT_DP: Composition[ReflectiveFixedSettings] = Composition(
    policy=llm, depths=fixed, past=1, k=up_to_k, select=by_puct
)
WITHOUT_MC_DP: Composition[LlmFixedSettings] = Composition(
    policy=llm, depths=fixed, past=1, k=none, select=by_puct
)
WITHOUT_MC_MI_DP = replace(WITHOUT_MC_DP, past=0)
PUCT: Composition[PlainSettings] = Composition(
    policy=None, depths=growing, past=0, k=none, select=by_puct
)
UCT = replace(PUCT, select=by_uct)


class TextGameRun(Generic[SettingsT]):
    """Lets a search play a game once.

    Args:
        composition: which search.
    """

    def __init__(self, composition: Composition[SettingsT]) -> None:
        self._composition = composition

    async def __call__(
        self, task: str, *, engines: Engines, settings: SettingsT, seed: int
    ) -> Outcome:
        """Plays.

        Args:
            task: name of a game or of a kind of games.
            engines: `options` is the policy, and reflects.
            settings: of the game and of the search.
            seed: of rollouts and of draws between equal actions.

        Raises:
            TextGameError: the game cannot be made, opened or played.
            ServingError: the engine failed.
        """
        part = self._composition
        game = await open_game(task, settings)
        spent = Spent()
        policy = part.policy and part.policy(engines.options, settings, seed)
        k = part.k(settings)
        agent = Agent(
            prior=spent.timed_prior(policy) if policy else uniform_prior,
            past=part.past,
            reflect=spent.timed_reflect(LlmReflection(engines.options)) if k else None,
            k=k,
            select=part.select(settings.exploration(game.name)),
            depths=part.depths(settings),
            gamma=settings.gamma,
            simulations_per_action=settings.simulations_per_action,
            width=settings.width,
        )
        episode, decisions = await play(game, agent, moves=settings.moves, seed=seed)
        spent.simulations = sum(decision.simulations for decision in decisions)
        spent.reflections = sum(len(decision.reflections) for decision in decisions)
        spent.priors = policy.questions if policy else 0
        outcome = game_outcome(
            game,
            episode,
            spent=spent,
            header={"task": task, "seed": seed, "settings": settings.to_json()},
            decisions=[decision.to_json() for decision in decisions],
            text=format_decisions(episode.turns, decisions),
        )
        if not decisions:
            return outcome
        first = await first_move_metrics(game, decisions[0].root, executed=episode.turns[0].action)
        return replace(outcome, metrics={**outcome.metrics, **first})
