"""Agents that act without search: the model's policy alone, and ReAct.

ReAct asks for a thought before every action.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from llm_planning.domain_calls import actions_of
from llm_planning.execution.decisions import ActionStatistics, Decision, episode_outcome
from llm_planning.execution.episode import play_decided
from llm_planning.planners.any_domain.roles import ActAsking, Situation, Turn, seen
from llm_planning.search import argmax

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.execution.episode import Episode
    from llm_planning.outcome import Outcome
    from llm_planning.planners.any_domain.settings import (
        ActingSettings,
        PolicySettings,
        ReactSettings,
    )
    from llm_planning.priors import Policy
    from llm_planning.roles import Role
    from llm_planning.specs import Run


async def llm_policy(run: Run[Any, PolicySettings]) -> Outcome:
    """Acts by the model's policy π(a|h)."""
    settings = run.settings
    ask = ActAsking(run.world, run.engines, settings, seed=run.seed, see=settings.see)
    prior_settings = settings
    if settings.choice == "majority":
        prior_settings = settings.model_copy(update={"prior": "sample"})
    prior = ask.prior(prior_settings, samples=settings.samples)
    draws = Random(f"policy {run.seed}")

    def drawn(pi: Sequence[float]) -> int:
        return draws.choices(range(len(pi)), pi)[0]

    pick = drawn if settings.choice == "sample" else argmax
    return await _act(run, ask, prior, pick)


async def react(run: Run[Any, ReactSettings]) -> Outcome:
    """Before every move, writes a thought and takes the action that is likeliest given it.

    Source: Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models" (2023).
    """
    settings = run.settings
    ask = ActAsking(run.world, run.engines, settings, seed=run.seed, see=settings.see)
    prior = ask.prior(settings)
    think = ask.think(temperature=settings.temperature)
    return await _act(run, ask, prior, argmax, think=think)


async def _act(
    run: Run[Any, ActingSettings],
    ask: ActAsking,
    prior: Policy[Situation],
    pick: Callable[[Sequence[float]], int],
    *,
    think: Role[Situation, str] | None = None,
) -> Outcome:
    """Plays an episode: asks for π before every move, and picks the action from it.

    Args:
        pick: maps π, shape [actions], to the index of the action to take.
        think: writes the thought before an action; None for no thoughts.
    """
    domain = run.world

    async def decide(
        episode: Episode[Any, Any], decisions: Sequence[Decision]
    ) -> tuple[Any, Decision] | None:
        actions = await actions_of(domain, episode.state)
        if not actions:
            return None
        past = tuple(
            Turn(move.seen, str(move.action), decision.thought)
            for move, decision in zip(episode.moves, decisions, strict=True)
        )
        situation = Situation(past, episode.now, tuple(map(str, actions)), state=episode.state)
        if think is not None:
            situation = replace(situation, thought=await think(situation))
        pi = await prior(situation)
        options = tuple(map(ActionStatistics, situation.actions, pi))
        return actions[pick(pi)], Decision(options, situation.thought)

    episode, decisions = await play_decided(
        domain, decide, see=partial(seen, domain), moves=run.settings.moves, seed=run.seed
    )
    return await episode_outcome(run, episode, decisions, metrics={}, oracles=ask.oracles)
