"""One simulation: what it draws, and what it walks."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from llm_planning.domain import A, S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.domain import Step
    from llm_planning.search.tree import Edge, Node


class Draws(Random):
    """The random generator of one simulation, which knows whether it was used.

    A step that draws nothing is certain, so no model has to declare which actions are
    deterministic. Seeding takes longer than a descent. It is put off until the first draw.

    Attributes:
        drawn: whether anything was drawn since this was last set to False.
    """

    def __init__(self) -> None:
        super().__init__(0)
        self.restart(0)

    def restart(self, seed: int) -> None:
        """Begins the draws of this seed, the same as those of `Random(seed)`."""
        self._due: int | None = seed
        self.drawn = False

    def random(self) -> float:
        """Uniform in [0, 1)."""
        self._begin()
        return super().random()

    def getrandbits(self, k: int, /) -> int:
        """Draws k random bits."""
        self._begin()
        return super().getrandbits(k)

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """Draws from N(mu, sigma²). The second number of a pair does not outlive its seed."""
        self._begin()
        return super().gauss(mu, sigma)

    def getstate(self) -> tuple[Any, ...]:
        """Returns the state for a copy. Copying counts as a draw."""
        self._begin()
        return super().getstate()

    def setstate(self, state: tuple[Any, ...]) -> None:
        """Takes the state of another generator over."""
        self._begin()
        super().setstate(state)

    def _begin(self) -> None:
        self.drawn = True
        if self._due is not None:
            seed, self._due = self._due, None
            self.seed(seed)


class Checkpoint(NamedTuple, Generic[S, A]):
    """A node as it was before a descent changed its edges, π or memo.

    Attributes:
        node: the node itself.
        priors: π of the edges that it had, shape [edges].
        memo: what the model kept there.
    """

    node: Node[S, A]
    priors: list[float]
    memo: Any

    @classmethod
    def of(cls, node: Node[S, A]) -> Checkpoint[S, A]:
        """Notes a node as it is now."""
        return cls(node, [edge.prior for edge in node.edges or ()], node.memo)

    def restore(self) -> None:
        """Removes edges that were added since, and restores π and the memo."""
        node = self.node
        edges = node.edges or []
        del edges[len(self.priors) :]
        for edge, p in zip(edges, self.priors, strict=True):
            edge.prior = p
        node.memo = self.memo


class Walk(Generic[S, A]):
    """One simulation, from its launch to its backup.

    Attributes:
        rng: its draws.
        limit: actions after which it ends; None for no limit.
        state: where it is; at first what the model drew.
        nodes: histories passed, the root first.
        edges: actions taken, shape [m].
        steps: what each of them did this time; rewards belong to the walk, shape [m].
        ended: whether the last step ended the episode or reached the depth limit.
        certain: whether the state is a function of the history: nothing was drawn so far, or what
            was drawn can be seen.
        tail: return from the last node on.
        note: what the evaluation hands to `on_backup`.
        memory: what the model wants to remember from the launch on; simulations in flight read it
            instead of what has changed since.
        launched: edges of the descent.
        grows: whether the descent ended at a node without edges.
        changed: nodes of which the descent asked the model, as they were before.
    """

    __slots__ = (
        "certain",
        "changed",
        "edges",
        "ended",
        "grows",
        "launched",
        "limit",
        "memory",
        "nodes",
        "note",
        "rng",
        "state",
        "steps",
        "tail",
    )

    state: S

    def __init__(self, root: Node[S, A], rng: Draws, limit: int | None) -> None:
        self.rng = rng
        self.limit = limit
        self.nodes = [root]
        self.edges: list[Edge[S, A]] = []
        self.steps: list[Step[S]] = []
        self.ended = limit == 0
        self.certain = True
        self.tail = 0.0
        self.note: Any = None
        self.memory: Any = None
        self.launched = 0
        self.grows = False
        self.changed: Sequence[Checkpoint[S, A]] = ()

    @property
    def depth(self) -> int:
        """Actions taken so far."""
        return len(self.edges)

    def go(self, edge: Edge[S, A], step: Step[S]) -> Node[S, A]:
        """Adds an action and follows what is seen of it."""
        # Most steps are certain and most nodes known: no call for them.
        node = edge.node if step is edge.step else None
        if node is None:
            node = edge.follow(step)
        self.edges.append(edge)
        self.steps.append(step)
        self.nodes.append(node)
        self.state = step.state
        self.ended = step.done or len(self.edges) == self.limit
        return node
