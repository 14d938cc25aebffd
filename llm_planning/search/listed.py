"""A search among the actions that a world lists, where a prior says which of them is likely."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic

from llm_planning.domain import A, S
from llm_planning.search.tree import Edge, Node

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from random import Random

    from llm_planning.domain import Step
    from llm_planning.search.driver import Evaluation
    from llm_planning.search.walk import Walk


class ListedActions(ABC, Generic[S, A]):
    """A `SearchModel` whose edges are the actions that are possible in a state, each with its π."""

    @abstractmethod
    def draw_root(self, walk: Walk[S, A]) -> S | Awaitable[S]:
        """See `SearchModel`."""

    @abstractmethod
    async def legal(self, state: S) -> Sequence[A]:
        """Returns the actions that are possible in a state."""

    @abstractmethod
    async def step(self, state: S, action: A, rng: Random) -> Step[S]:
        """See `SearchModel`."""

    @abstractmethod
    async def evaluate(self, node: Node[S, A], walk: Walk[S, A]) -> Evaluation[S, A]:
        """See `SearchModel`."""

    async def pi(
        self,
        node: Node[S, A],  # noqa: ARG002 - for those who note what they asked
        walk: Walk[S, A],  # noqa: ARG002 - the history that others ask about
        actions: Sequence[A],
    ) -> Sequence[float]:
        """Returns π, shape [actions]: uniform, unless a subclass asks."""
        return [1.0 / len(actions)] * len(actions)

    async def expand(self, node: Node[S, A], walk: Walk[S, A]) -> Sequence[Edge[S, A]]:
        """Makes edges for the actions that the node lacks, and asks anew for π of all its edges.

        An expanded node gets more edges only if a drawn state allows more actions.
        """
        known = node.edges or []
        old = [edge.action for edge in known]
        new = [action for action in await self.legal(walk.state) if action not in old]
        if not new:
            return ()
        edges = [*known, *map(Edge, new)]
        await self.ask(node, walk, edges)
        return edges[len(known) :]

    async def ask(self, node: Node[S, A], walk: Walk[S, A], edges: Sequence[Edge[S, A]]) -> None:
        """Asks for π of a node's edges."""
        pi = await self.pi(node, walk, [edge.action for edge in edges])
        for edge, p in zip(edges, pi, strict=True):
            edge.prior = p
