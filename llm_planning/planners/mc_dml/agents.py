"""MC-DML, its ablations and its baselines, each a composition of the same parts (Table 3).

                        π          H                   ℳ_i      ℳ_c    selection
    mc-dml              LLM        d_min, ..., d_max   1 turn   k      eq. 3
    mc-dml-no-dp        LLM        depth               1 turn   k      eq. 3
    mc-dml-no-mc-dp     LLM        depth               1 turn   none   eq. 3
    mc-dml-no-mc-mi-dp  LLM        depth               none     none   eq. 3
    mc-dml-puct         uniform    d_min, ..., d_max   none     none   eq. 2
    mc-dml-uct          none       d_min, ..., d_max   none     none   eq. 1

The baselines search as deep as MC-DML does, so that they differ in their policy alone. What an
agent has no setting for, it does without.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from llm_planning.domain import Need
from llm_planning.planners.mc_dml.episode import first_move_metrics, format_decisions, play
from llm_planning.planners.mc_dml.outcome import Spent, game_outcome
from llm_planning.planners.mc_dml.playing import (
    LlmAgentSettings,
    ReflectionAgentSettings,
    llm_agent,
    reflection_agent,
)
from llm_planning.planners.mc_dml.prompts import Questions
from llm_planning.planners.mc_dml.reflection import LlmReflection
from llm_planning.planners.mc_dml.search import Agent
from llm_planning.planners.mc_dml.settings import (
    FixedDepthSettings,
    McDmlSettings,
    PrunedSettings,
    ReflectionSettings,
    ReflectiveFixedSettings,
)
from llm_planning.planners.mc_dml.walkthrough import play_walkthrough
from llm_planning.planners.mc_dml.worlds import as_text_game
from llm_planning.priors import PriorSettings, make_prior
from llm_planning.search import select_by_puct, select_by_uct
from llm_planning.settings import NoSettings
from llm_planning.specs import PlannerSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from llm_planning.environments.textgame.game import Transition
    from llm_planning.outcome import Outcome
    from llm_planning.roles import Engines
    from llm_planning.search import Select
    from llm_planning.settings import Settings
    from llm_planning.specs import Problem, Run

SearchSettings: TypeAlias = PrunedSettings | FixedDepthSettings

UNIFORM = PriorSettings.read({"prior": "uniform"})
"""π of those who have no setting for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRun:
    """Lets a search play a game once; the rest of the table's row is in the settings.

    Attributes:
        past: turns of ℳ_i before o_t.
        select: makes the selection rule of a constant C.
    """

    past: int
    select: Callable[[float], Select[Transition, str]]

    async def __call__(
        self,
        problem: Problem[Any],
        *,
        engines: Engines,
        settings: SearchSettings,
        seed: int,
    ) -> Outcome:
        """Plays.

        Args:
            problem: a text game, or any domain that is told as one.
            engines: who answers `prior` and `reflection`.
            settings: of the search.
            seed: of rollouts and of draws between equal actions.

        Raises:
            DomainError: the world hides its state.
            TextGameError: the game cannot be played.
            ServingError: the engine failed.
        """
        world = as_text_game(problem)
        spent = Spent()
        asked = settings if isinstance(settings, PriorSettings) else UNIFORM
        prior = make_prior(
            asked.prior,
            engines.of("prior"),
            wording=Questions(),
            temperature=asked.prior_temperature,
            mixture=asked.prior_mixture,
            seed=seed,
        )
        agent = Agent(
            prior=prior if asked.prior == "uniform" else spent.timed(prior),
            past=self.past,
            reflect=spent.timed(LlmReflection(engines.of("reflection"))),
            k=settings.k if isinstance(settings, ReflectionSettings) else 0,
            select=self.select(settings.exploration(world.name)),
            depths=settings.depths,
            gamma=settings.gamma,
            simulations_per_action=settings.simulations_per_action,
            width=settings.width,
        )
        episode, decisions = await play(world, agent, moves=settings.moves, seed=seed)
        spent.simulations = sum(decision.simulations for decision in decisions)
        spent.reflections = sum(len(decision.reflections) for decision in decisions)
        spent.priors = prior.questions
        outcome = game_outcome(
            world,
            episode,
            spent=spent,
            header={"task": problem.task, "seed": seed, "settings": settings.to_json()},
            decisions=[decision.to_json() for decision in decisions],
            text=format_decisions(episode.turns, decisions),
        )
        if not decisions:
            return outcome
        first = await first_move_metrics(
            world, decisions[0].root, executed=episode.turns[0].action, seed=seed
        )
        return replace(outcome, metrics={**outcome.metrics, **first})


def by_puct(c: float) -> Select[Transition, str]:
    """Eqs. 2 and 3."""
    return select_by_puct(c=c)


def by_uct(c: float) -> Select[Transition, str]:
    """Eq. 1."""
    return select_by_uct(c=c)


def _spec(
    name: str,
    summary: str,
    settings: type[Settings],
    run: Run,
    *,
    roles: tuple[str, ...] = (),
    needs: tuple[Need, ...] = (),
) -> PlannerSpec:
    return PlannerSpec(
        name=name,
        summary=summary,
        paper="MC-DML",
        settings=settings,
        run=run,
        roles=roles,
        needs=needs,
    )


SPECS: tuple[PlannerSpec, ...] = (
    _spec(
        "mc-dml",
        "MC-DML: tree search with an LLM policy that remembers and reflects",
        McDmlSettings,
        SearchRun(past=1, select=by_puct),
        roles=("prior", "reflection"),
    ),
    _spec(
        "mc-dml-no-dp",
        "MC-DML without dynamic pruning: one search depth",
        ReflectiveFixedSettings,
        SearchRun(past=1, select=by_puct),
        roles=("prior", "reflection"),
    ),
    _spec(
        "mc-dml-no-mc-dp",
        "MC-DML without dynamic pruning and cross-trial memory",
        FixedDepthSettings,
        SearchRun(past=1, select=by_puct),
        roles=("prior",),
    ),
    _spec(
        "mc-dml-no-mc-mi-dp",
        "MC-DML without dynamic pruning and without memory of any kind",
        FixedDepthSettings,
        SearchRun(past=0, select=by_puct),
        roles=("prior",),
    ),
    _spec(
        "mc-dml-puct",
        "PUCT with a uniform policy, as deep as MC-DML",
        PrunedSettings,
        SearchRun(past=0, select=by_puct),
    ),
    _spec(
        "mc-dml-uct",
        "UCT, as deep as MC-DML: tree search without a policy",
        PrunedSettings,
        SearchRun(past=0, select=by_uct),
    ),
    _spec(
        "llm-agent",
        "LLM agent: every move drawn from the LLM policy, no search",
        LlmAgentSettings,
        llm_agent,
        roles=("prior",),
    ),
    _spec(
        "reflection-agent",
        "Reflection agent: rounds of the LLM agent, with a reflection after each",
        ReflectionAgentSettings,
        reflection_agent,
        roles=("prior", "reflection"),
    ),
    _spec(
        "walkthrough",
        "a text game's own walkthrough, replayed for its statistics",
        NoSettings,
        play_walkthrough,
        needs=(Need("walkthrough", "knows how its games are won"),),
    ),
)
