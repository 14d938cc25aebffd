"""Models that act without search: their policy alone, and ReAct's thought before every action."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from llm_planning.domain import settled
from llm_planning.execution import play
from llm_planning.planners.any_domain.decisions import ActionStatistics, Decision, episode_outcome
from llm_planning.planners.any_domain.wording import ActWording, Situation, Turn, seen
from llm_planning.priors import ROLE, PriorSettings, make_prior, prior_as_set
from llm_planning.search import argmax
from llm_planning.settings import EpisodeSettings
from llm_serving.answers import Constraint
from llm_serving.patterns import finite_regex
from llm_serving.request import Request, Sampling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from llm_planning.execution import Episode
    from llm_planning.outcome import Outcome
    from llm_planning.priors import Policy
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem

THINK = "think"
"""Under which the engine counts thoughts."""


# A second I could begin the sentence again, and outlines would take minutes to compile that.
_SENTENCE = finite_regex(r"I [^.!?I]{20,157}\.")
THOUGHT = Constraint(_SENTENCE.regex, _SENTENCE.max_bytes)
"""The language of one thought, 23 to 160 plain characters; JSON around it would cost tokens."""


class ActingSettings(PriorSettings, EpisodeSettings):
    """Settings of a model that acts.

    Attributes:
        prior_temperature: 1 leaves the model's distribution as it is.
    """

    prior_temperature: float | None = Field(1.0, gt=0.0, allow_inf_nan=False)


class PolicySettings(ActingSettings):
    """Settings of a policy.

    Attributes:
        choice: `argmax` takes the likeliest action, `sample` draws one from π, `majority` takes
            the most frequent of several answers, whatever `prior` says.
        samples: answers of `majority`.
    """

    choice: Literal["argmax", "sample", "majority"] = "argmax"
    samples: int = Field(10, ge=1)


class ReactSettings(ActingSettings):
    """Settings of ReAct.

    Attributes:
        temperature: of the thoughts; 0 is greedy.
    """

    temperature: float = Field(0.0, ge=0.0, allow_inf_nan=False)


async def llm_policy(
    problem: Problem[Any], *, engines: Engines, settings: PolicySettings, seed: int
) -> Outcome:
    """Takes the actions of the model's policy π(a|h).

    Args:
        problem: what to plan.
        engines: the role `prior` is asked.
        settings: of the policy.
        seed: of all draws.
    """
    prior = make_prior(
        "sample" if settings.choice == "majority" else settings.prior,
        engines.of(ROLE),
        wording=ActWording(problem.world),
        temperature=settings.prior_temperature,
        mixture=settings.prior_mixture,
        seed=seed,
        samples=settings.samples,
    )
    draws = Random(f"policy {seed}")

    def drawn(pi: Sequence[float]) -> int:
        return draws.choices(range(len(pi)), pi)[0]

    pick = drawn if settings.choice == "sample" else argmax
    return await _act(problem, prior, pick, settings=settings, seed=seed)


async def react(
    problem: Problem[Any], *, engines: Engines, settings: ReactSettings, seed: int
) -> Outcome:
    """Writes a thought, takes the likeliest action given it, sees what comes of it, and so on.

    Source: Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models" (2023).

    Args:
        problem: what to plan.
        engines: the roles `think` and `prior` are asked.
        settings: of thoughts and actions.
        seed: of all draws.
    """
    wording = ActWording(problem.world)
    prior = prior_as_set(settings, engines.of(ROLE), wording=wording, seed=seed)

    async def think(situation: Situation) -> str:
        answer = await engines.of(THINK).generate(
            Request(
                prompt=wording.think(situation),
                sampling=Sampling(temperature=settings.temperature, seed=seed),
                constraint=THOUGHT,
                role=THINK,
            )
        )
        return answer.text

    return await _act(problem, prior, argmax, think=think, settings=settings, seed=seed)


async def _act(
    problem: Problem[Any],
    prior: Policy[Situation],
    pick: Callable[[Sequence[float]], int],
    *,
    think: Callable[[Situation], Awaitable[str]] | None = None,
    settings: ActingSettings,
    seed: int,
) -> Outcome:
    """Plays an episode in which each action is picked by π, after a thought where there is any."""
    domain = problem.world
    decisions: list[Decision] = []

    async def choose(episode: Episode[Any, Any]) -> Any:  # noqa: ANN401 - an action of the domain
        actions = await settled(domain.actions(episode.state))
        if not actions:
            return None
        past = tuple(
            Turn(move.seen, str(move.action), decision.thought)
            for move, decision in zip(episode.moves, decisions, strict=True)
        )
        situation = Situation(past, episode.now, tuple(map(str, actions)))
        if think is not None:
            situation = replace(situation, thought=await think(situation))
        pi = await prior(situation)
        options = tuple(map(ActionStatistics, situation.actions, pi))
        decisions.append(Decision(options, situation.thought))
        return actions[pick(pi)]

    episode = await play(domain, choose, see=partial(seen, domain), moves=settings.moves, seed=seed)
    return await episode_outcome(
        problem, episode, decisions, settings=settings, seed=seed, metrics={}
    )
