"""Searches before every real move: PUCT with a language model's prior, and UCT, which asks nobody.

The tree is kept from move to move. An action is simulated with draws of the search's own; what then
really happens is drawn from a stream that no simulation sees.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

from pydantic import Field

from llm_planning.domain import Step, settled
from llm_planning.execution import Episode
from llm_planning.planners.any_domain.decisions import decision_of, episode_outcome
from llm_planning.planners.any_domain.domain_model import DomainModel
from llm_planning.planners.any_domain.wording import ActWording, Turn, seen
from llm_planning.priors import ROLE, PriorSettings, make_prior
from llm_planning.search import (
    Node,
    advance,
    by_sums,
    search,
    select_by_puct,
    select_by_uct,
)
from llm_planning.settings import Settings
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from llm_planning.domain import Domain, History
    from llm_planning.outcome import Outcome
    from llm_planning.planners.any_domain.domain_model import AskPrior
    from llm_planning.roles import Engines
    from llm_planning.search import Edge, Select
    from llm_planning.specs import Problem

_BELIEVED = 100
"""States that are drawn from a belief for a trace, which tells how often each came."""

_LONGEST_STATE = 200
"""Characters told of each of them."""

_LEAST = 1e-9
"""The least weight of an edge that is drawn by π: where π is 0 for all of them, all are equal."""


class EpisodeSettings(Settings):
    """Settings of whoever acts in a domain.

    Attributes:
        moves: most real moves.
    """

    moves: int = Field(50, ge=1)


class SearchSettings(EpisodeSettings):
    """Settings of a search.

    Attributes:
        simulations: before every move; those of the tree that is kept come on top.
        c: exploration weight, in units of the return.
        gamma: discount factor γ.
        depth: actions from the root after which a simulation ends; where the domain has a score,
            the score ends it instead.
        width: simulations in flight at once; 1 is the sequential algorithm.
    """

    simulations: int = Field(100, ge=1)
    c: float = Field(1.0, ge=0.0, allow_inf_nan=False)
    gamma: float = Field(0.95, ge=0.0, le=1.0)
    depth: int = Field(20, ge=1)
    width: int = Field(1, ge=1)


class PuctSettings(PriorSettings, SearchSettings):
    """Settings of PUCT."""


async def puct(
    problem: Problem[Any], *, engines: Engines, settings: PuctSettings, seed: int
) -> Outcome:
    """Selects by Q + c π √N(h) / (1 + N(h, a)), with π by a language model.

    Args:
        problem: what to plan.
        engines: the role `prior` is asked, unless the prior is uniform.
        settings: of the search and of the prior.
        seed: of all draws.
    """
    if settings.prior == "uniform":
        prior = None
    else:
        prior = make_prior(
            settings.prior,
            engines.of(ROLE),
            wording=ActWording(problem.world),
            temperature=settings.prior_temperature,
            mixture=settings.prior_mixture,
            seed=seed,
        )
    select: Select[Any, Any] = select_by_puct(c=settings.c)
    return await _search_and_act(problem, prior, select, settings=settings, seed=seed)


async def uct(
    problem: Problem[Any],
    *,
    engines: Engines,  # noqa: ARG001 - nobody is asked
    settings: SearchSettings,
    seed: int,
) -> Outcome:
    """Selects by Q + c √(ln N(h) / N(h, a)).

    Args:
        problem: what to plan.
        engines: of no use.
        settings: of the search.
        seed: of all draws.
    """
    select: Select[Any, Any] = select_by_uct(c=settings.c)
    return await _search_and_act(problem, None, select, settings=settings, seed=seed)


async def _search_and_act(
    problem: Problem[Any],
    prior: AskPrior | None,
    select: Select[Any, Any],
    *,
    settings: SearchSettings,
    seed: int,
) -> Outcome:
    """Searches, does the best action for real, keeps the tree below it, and so on."""
    domain = problem.world
    episode = await Episode.begin(domain, seed=seed)
    rng = Random(f"search {seed}")
    root: Node[Any, Any] = Node()
    past: list[Turn] = []
    now = await seen(domain, Step(episode.state))
    decisions = []
    while not episode.over and len(episode.moves) < settings.moves:
        history = tuple((move.action, move.step.seen) for move in episode.moves)
        await _tell_belief(domain, history, seed=seed)
        model = DomainModel(
            domain,
            state=episode.state,
            history=history,
            past=tuple(past),
            now=now,
            prior=prior,
            gamma=settings.gamma,
            depth=settings.depth,
        )
        await search(
            root,
            model,
            select=select,
            backup=by_sums(gamma=settings.gamma),
            simulations=settings.simulations,
            width=settings.width,
            max_depth=settings.depth if getattr(domain, "score", None) is None else None,
            # At width 1 the tree is that of `first`, and states that are met once ask nobody.
            expand_at="second",
            rng=rng,
        )
        edge = best_edge(root, rng)
        if edge is None:
            break
        decisions.append(decision_of(root))
        step = await episode.act(edge.action)
        past.append(Turn(now, str(edge.action)))
        now = await seen(domain, step)
        root = advance(root, edge.action, step)
    return await episode_outcome(
        problem,
        episode,
        decisions,
        settings=settings,
        seed=seed,
        metrics={"simulations": settings.simulations * len(decisions)},
    )


async def _tell_belief(domain: Domain[Any, Any], history: History, *, seed: int) -> None:
    """Tells the trace what may be the state: description -> how many of `_BELIEVED` draws.

    The draws come from a stream of their own, so that a trace changes nothing.
    """
    belief, trace = getattr(domain, "belief", None), tracing()
    if belief is None or trace is None:
        return
    rng = Random(f"belief {seed} {len(history)}")
    drawn = [await settled(belief(history, rng)) for _ in range(_BELIEVED)]
    told = [(await settled(domain.describe(state)))[:_LONGEST_STATE] for state in drawn]
    trace.belief(dict(Counter(told).most_common()))


def best_edge(root: Node[Any, Any], rng: Random) -> Edge[Any, Any] | None:
    """The visited edge of the highest Q, and of equals one that is drawn by π.

    Where nothing of value was found, the highest π alone would lead round in circles.

    Args:
        root: that was searched.
        rng: of the draw.

    Returns:
        The edge; None if no action is possible.
    """
    tried = [edge for edge in root.edges or () if edge.visits]
    if not tried:
        return None
    best = max(edge.value for edge in tried)
    equals = [edge for edge in tried if edge.value == best]
    return rng.choices(equals, [max(edge.prior, _LEAST) for edge in equals])[0]
