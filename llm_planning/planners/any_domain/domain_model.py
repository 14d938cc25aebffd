"""A domain as the search sees it: simulations from its known state, or from its belief."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol

from llm_planning.domain import A, S, observed, settled
from llm_planning.planners.any_domain.wording import Situation, Turn, seen
from llm_planning.search import Edge, Evaluation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from random import Random

    from llm_planning.domain import Domain, History, Step
    from llm_planning.search import Node, Walk


class AskPrior(Protocol):
    """Who is asked how promising actions are."""

    async def __call__(self, question: Situation) -> Sequence[float]:
        """Returns π, shape [actions], not negative, sum 1."""
        ...


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
        prior: AskPrior | None,
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
