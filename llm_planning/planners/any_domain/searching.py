"""Searches before every real move: PUCT with a language model's prior, and UCT, which asks nobody.

The tree is kept from move to move. An action is simulated with draws of the search's own; what then
really happens is drawn from a stream that no simulation sees.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Generic

from pydantic import Field

from llm_planning.domain import A, S, observed, settled
from llm_planning.execution import play
from llm_planning.planners.any_domain.decisions import (
    Decision,
    episode_outcome,
    statistics_of,
    visited,
)
from llm_planning.planners.any_domain.wording import ActWording, Situation, Turn, seen
from llm_planning.priors import ROLE, PriorSettings, prior_as_set
from llm_planning.search import (
    Edge,
    Evaluation,
    Node,
    advance,
    by_sums,
    search,
    select_by_puct,
    select_by_uct,
)
from llm_planning.settings import EpisodeSettings
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from llm_planning.domain import Domain, History, Step
    from llm_planning.execution import Episode
    from llm_planning.outcome import Outcome
    from llm_planning.priors import Policy
    from llm_planning.roles import Engines
    from llm_planning.search import Select, Walk
    from llm_planning.specs import Problem

_BELIEVED = 100
"""States that are drawn from a belief for a trace, which tells how often each came."""

_LONGEST_STATE = 200
"""Characters told of each of them."""

_LEAST = 1e-9
"""The least weight of an edge that is drawn by π: where π is 0 for all of them, all are equal."""


class UctSettings(EpisodeSettings):
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


class PuctSettings(PriorSettings, UctSettings):
    """Settings of a search with a prior."""


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
    wording = ActWording(problem.world)
    prior = prior_as_set(settings, engines.of(ROLE), wording=wording, seed=seed)
    asked = None if settings.prior == "uniform" else prior
    select: Select[Any, Any] = select_by_puct(c=settings.c)
    return await _search_and_act(problem, asked, select, settings=settings, seed=seed)


async def uct(
    problem: Problem[Any],
    *,
    engines: Engines,  # noqa: ARG001 - nobody is asked
    settings: UctSettings,
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
    prior: Policy[Situation] | None,
    select: Select[Any, Any],
    *,
    settings: UctSettings,
    seed: int,
) -> Outcome:
    """Searches, does the best action for real, keeps the tree below it, and so on."""
    domain = problem.world
    rng = Random(f"search {seed}")
    root: Node[Any, Any] = Node()
    decisions: list[Decision] = []

    async def choose(episode: Episode[Any, Any]) -> Any:  # noqa: ANN401 - an action of the domain
        nonlocal root
        if episode.moves:
            last = episode.moves[-1]
            root = advance(root, last.action, last.step)
        history = tuple((move.action, move.step.seen) for move in episode.moves)
        await _tell_belief(domain, history, seed=seed)
        model = DomainModel(
            domain,
            state=episode.state,
            history=history,
            past=tuple(Turn(move.seen, str(move.action)) for move in episode.moves),
            now=episode.now,
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
            return None
        decisions.append(Decision(statistics_of(root)))
        return edge.action

    episode = await play(domain, choose, see=partial(seen, domain), moves=settings.moves, seed=seed)
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
    tried = visited(root)
    if not tried:
        return None
    best = max(edge.value for edge in tried)
    equals = [edge for edge in tried if edge.value == best]
    return rng.choices(equals, [max(edge.prior, _LEAST) for edge in equals])[0]


class DomainModel(Generic[S, A]):
    """A `search.Model` over a domain's own dynamics.

    A domain with a belief is searched as a POMDP: simulations begin in states drawn from it, and
    a prior is told what was done and seen, never the state. Elsewhere the state is known, and a
    prior is told what an agent sees of it, without how it came about: it is asked once for each.

    Args:
        domain: whose dynamics are simulated.
        state: where the episode stands; not looked at where there is a belief.
        history: (action, observation) pairs of the episode.
        past: the same in words.
        now: what is seen at present.
        prior: asked for π; None for the uniform one.
        gamma: γ of the rollouts.
        depth: actions from the root after which a rollout ends.
    """

    def __init__(
        self,
        domain: Domain[S, A],
        *,
        state: S,
        history: History,
        past: tuple[Turn, ...],
        now: str,
        prior: Policy[Situation] | None,
        gamma: float,
        depth: int,
    ) -> None:
        self._domain = domain
        self._state = state
        self._history = history
        self._past = past
        self._now = now
        self._prior = prior
        self._gamma = gamma
        self._depth = depth
        self._belief: Any = getattr(domain, "belief", None)
        self._score: Any = getattr(domain, "score", None)

    def draw_root(self, walk: Walk[S, A]) -> S | Awaitable[S]:
        """The known state, or s ~ b(history)."""
        if self._belief is None:
            return self._state
        drawn: S | Awaitable[S] = self._belief(self._history, walk.rng)
        return drawn

    async def legal(self, state: S) -> Sequence[A]:
        """The domain's actions."""
        return await settled(self._domain.actions(state))

    async def step(self, state: S, action: A, rng: Random) -> Step[S]:
        """The domain's step."""
        return await settled(self._domain.step(state, action, rng))

    async def expand(self, node: Node[S, A], walk: Walk[S, A]) -> Sequence[Edge[S, A]]:
        """Edges for the actions that the node lacks; π is asked anew over old and new ones.

        A node gets further actions only where a state is drawn in which more is possible.
        """
        known = node.edges or []
        old = [edge.action for edge in known]
        new = [action for action in await self.legal(walk.state) if action not in old]
        if not new:
            return ()
        edges = [*known, *map(Edge, new)]
        for edge, p in zip(edges, await self._pi(walk, [*old, *new]), strict=True):
            edge.prior = p
        return edges[len(known) :]

    async def evaluate(self, node: Node[S, A], walk: Walk[S, A]) -> Evaluation[S, A]:  # noqa: ARG002
        """The domain's score of the state; without one, a rollout with uniform actions."""
        if self._score is not None:
            return Evaluation(tail=await settled(self._score(walk.state)))
        domain, rng, state = self._domain, walk.rng, walk.state
        value = 0.0
        weight = 1.0
        for _ in range(self._depth - walk.depth):
            actions = await settled(domain.actions(state))
            if not actions:
                break
            action = actions[int(rng.random() * len(actions))]
            step = await settled(domain.step(state, action, rng))
            value += weight * step.reward
            weight *= self._gamma
            if step.done:
                break
            state = step.state
        return Evaluation(tail=value)

    async def _pi(self, walk: Walk[S, A], actions: list[A]) -> Sequence[float]:
        if self._prior is None:
            return [1.0 / len(actions)] * len(actions)
        names = tuple(map(str, actions))
        if self._belief is None:
            shown = await observed(self._domain, walk.state)
            return await self._prior(Situation((), shown, names))
        turns = list(self._past)
        now = self._now
        for edge, step in zip(walk.edges, walk.steps, strict=True):
            turns.append(Turn(now, str(edge.action)))
            now = await seen(self._domain, step)
        return await self._prior(Situation(tuple(turns), now, names))
