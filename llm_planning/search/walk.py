"""One simulation: its random generator, and its walk through the tree."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from llm_planning.domain import A, S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.domain import Step
    from llm_planning.search.tree import Edge, Node


class TrackedRandom(Random):
    """The random generator of one simulation; it notices whether it is used.

    A step that draws nothing is certain, so no world has to declare which actions are
    deterministic. Seeding takes longer than a descent, so it waits until the first draw.

    Attributes:
        drawn: whether anything was drawn since this was last set to False.
    """

    def __init__(self) -> None:
        super().__init__(0)
        self.restart(0)

    def restart(self, seed: int) -> None:
        """Starts again with a seed. The draws are those of `Random(seed)`."""
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
        """Draws from N(mu, sigma²). A restart discards the second number of a pair."""
        self._begin()
        return super().gauss(mu, sigma)

    def getstate(self) -> tuple[Any, ...]:
        """Returns the state for a copy. Copying counts as a draw."""
        self._begin()
        return super().getstate()

    def setstate(self, state: tuple[Any, ...]) -> None:
        """Takes over the state of another generator."""
        self._begin()
        super().setstate(state)

    def twin(self) -> Random:
        """Makes a generator with the same draws to come, which is no draw."""
        drawn, twin = self.drawn, Random()
        twin.setstate(self.getstate())
        self.drawn = drawn
        return twin

    def _begin(self) -> None:
        self.drawn = True
        if self._due is not None:
            seed, self._due = self._due, None
            self.seed(seed)


class Checkpoint(NamedTuple, Generic[S, A]):
    """A node as it was before a simulation changed its edges, π or memo.

    Attributes:
        priors: π of the edges at that time, shape [edges].
        memo: the search model's notes at that time.
    """

    node: Node[S, A]
    priors: list[float]
    memo: Any

    @classmethod
    def of(cls, node: Node[S, A]) -> Checkpoint[S, A]:
        """Makes a checkpoint of a node as it is now."""
        return cls(node, [edge.prior for edge in node.edges or ()], node.memo)

    def restore(self) -> None:
        """Removes the edges added since, and restores π and the memo."""
        node = self.node
        edges = node.edges or []
        del edges[len(self.priors) :]
        for edge, p in zip(edges, self.priors, strict=True):
            edge.prior = p
        node.memo = self.memo


class Walk(Generic[S, A]):
    """One simulation, from its launch to its backup.

    Attributes:
        limit: actions after which it ends; None for no limit.
        state: the present state; at first the one from `draw_root`.
        nodes: histories passed, the root first.
        edges: actions taken, shape [m].
        steps: the steps of these actions in this walk, shape [m].
        trying: the action that is being simulated; None between steps.
        ended: whether the last step ended the episode or reached the depth limit.
        certain: whether the history determines the state: nothing was drawn so far, or the
            observations show all that was drawn.
        tail: return from the last node on.
        note: of the evaluation, for `on_backup`.
        memory: the search model's memory at the launch; later changes of it do not reach this walk.
        launched: number of edges of the descent.
        grows: whether the descent ended at a node without edges.
        changed: checkpoints of the nodes that the simulation changed, besides the one it expands.
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
        "trying",
    )

    state: S

    def __init__(self, root: Node[S, A], rng: TrackedRandom, limit: int | None) -> None:
        self.rng = rng
        self.limit = limit
        self.nodes = [root]
        self.edges: list[Edge[S, A]] = []
        self.steps: list[Step[S]] = []
        self.trying: Edge[S, A] | None = None
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
        """Adds an action, and goes on to the node of its outcome."""
        # Most steps are certain and most nodes exist: they need no call.
        node = edge.node if step is edge.step else None
        if node is None:
            node = edge.follow(step)
        self.edges.append(edge)
        self.steps.append(step)
        self.nodes.append(node)
        self.state = step.state
        self.ended = step.done or len(self.edges) == self.limit
        return node
