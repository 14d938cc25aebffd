"""Tree of Options: Monte Carlo tree search over options (Section 3.1, Algorithm 1).

SEARCH and SIMULATE (lines 3 to 21) are `llm_planning.search.search`. This module has ToO's own
parts: how a node gets its options (lines 25, 26 and 28 to 31), and ROLLOUT, which follows the best.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from llm_planning.domain import A, S, Step
from llm_planning.planners.tree_of_options.imagining import following
from llm_planning.planners.tree_of_options.prompts import NOW, PREDICTED, START
from llm_planning.planners.tree_of_options.states import Candidate, OptionQuestion, OptionState
from llm_planning.roles import gather
from llm_planning.search import (
    Checkpoint,
    Edge,
    Evaluation,
    Node,
    by_means,
    by_sums,
    search,
    select_by_ucb,
)
from llm_planning.trace_tree import asking_about, asking_at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from random import Random

    from llm_planning.planners.tree_of_options.asking import OptionAsking
    from llm_planning.planners.tree_of_options.settings import (
        FeasibleSearchSettings,
        OptionSearchSettings,
    )
    from llm_planning.search import Walk

Dynamics: TypeAlias = (
    "Callable[[OptionQuestion[S, A]], Awaitable[tuple[OptionState[S, A], Mapping[str, int]]]]"
)
"""Maps τ_i and ω to τ_{i+1}, and to the item -> count that ω takes away but the state lacks."""

Check: TypeAlias = "Callable[[OptionQuestion[S, A]], Awaitable[tuple[Sequence[A], str | None]]]"
"""Maps τ and ω̃ to the options that expand the tree, and to the obstacle of ω̃, or None."""

Propose: TypeAlias = "Callable[[OptionState[S, A]], Awaitable[Sequence[Candidate[A]]]]"
"""Maps τ to candidates ω̃."""

OptionNode: TypeAlias = "Node[SearchState[S, A], A]"
OptionEdge: TypeAlias = "Edge[SearchState[S, A], A]"
OptionWalk: TypeAlias = "Walk[SearchState[S, A], A]"

_BACKUPS = {"sum": by_sums, "mean": by_means}

PRIMARY = ("reward_estimate", "reachability", "relativity", "consistency")
MODERATE = ("feasibility", "success_probability", "task_specificity")
PENALTY = ("redundancy",)
"""The questions by the weight that they share (Appendix A.6 and Table 3)."""


def weights(settings: OptionSearchSettings) -> dict[str, float]:
    """c_q of every question q (eq. 6)."""
    return {
        **dict.fromkeys(PRIMARY, settings.primary_weight),
        **dict.fromkeys(MODERATE, settings.moderate_weight),
        **dict.fromkeys(PENALTY, settings.penalty_weight),
    }


def scalar_reward(scores: Mapping[str, float], c: Mapping[str, float]) -> float:
    """r̂ = Σ_q c_q r_q (eq. 6)."""
    return sum(c_q * scores[q] for q, c_q in c.items())


def predicted(ask: OptionAsking[S, A]) -> Dynamics[S, A]:
    """Dynamics in which a role predicts ŝ_{i+1} (eq. 1)."""
    predict = ask.of(ask.roles.dynamics())

    async def dynamics(
        question: OptionQuestion[S, A],
    ) -> tuple[OptionState[S, A], Mapping[str, int]]:
        return await following(predict, ask.domain, question.tau, question.option)

    return dynamics


def unpredicted(ask: OptionAsking[S, A]) -> Dynamics[S, A]:  # noqa: ARG001 - asks no role
    """Dynamics of nodes [s_0, ω_1, ..., ω_i], as in ToT (Section 4.4)."""

    async def dynamics(
        question: OptionQuestion[S, A],
    ) -> tuple[OptionState[S, A], Mapping[str, int]]:
        tau, option = question.tau, question.option
        return replace(tau, options=(*tau.options, option), since=(*tau.since, option)), {}

    return dynamics


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldModel:
    """How a planner knows the states after the first option.

    Attributes:
        dynamics: makes the dynamics of a run.
        moment: the moment of the state in a question about τ.
        judged: the moment of the state in a question for a reward.
    """

    dynamics: Callable[[OptionAsking[Any, Any]], Dynamics[Any, Any]]
    moment: str
    judged: str


WORLD_MODEL = WorldModel(dynamics=predicted, moment=NOW, judged=PREDICTED)
NO_WORLD_MODEL = WorldModel(dynamics=unpredicted, moment=START, judged=START)


def checked(ask: OptionAsking[S, A], settings: FeasibleSearchSettings, moment: str) -> Check[S, A]:
    """A check that drops an infeasible ω̃ (line 26), or replaces it by a prerequisite (eq. 3).

    The prerequisite itself is not checked.
    """
    feasibility, repair = ask.of(ask.roles.feasibility(moment)), None
    if settings.infeasible == "repair":
        repair = ask.of(ask.roles.repair(moment))

    async def check(question: OptionQuestion[S, A]) -> tuple[Sequence[A], str | None]:
        obstacle = (await feasibility(question)).obstacle
        if obstacle is None:
            return (question.option,), None
        if repair is None:
            return (), obstacle
        return (await repair(replace(question, obstacle=obstacle)),), obstacle

    return check


def beside(
    ask: OptionAsking[S, A],
    settings: FeasibleSearchSettings,  # noqa: ARG001
    moment: str,
) -> Check[S, A]:
    """A check that keeps an infeasible ω̃ and puts its prerequisite beside it (ToO+)."""
    feasibility, repair = ask.of(ask.roles.feasibility(moment)), ask.of(ask.roles.repair(moment))

    async def check(question: OptionQuestion[S, A]) -> tuple[Sequence[A], str | None]:
        obstacle = (await feasibility(question)).obstacle
        if obstacle is None:
            return (question.option,), None
        prerequisite = await repair(replace(question, obstacle=obstacle))
        return (question.option, prerequisite), obstacle

    return check


def unchecked(
    ask: OptionAsking[S, A],  # noqa: ARG001 - asks no role
    settings: OptionSearchSettings,  # noqa: ARG001
    moment: str,  # noqa: ARG001
) -> Check[S, A]:
    """A check that takes every option as it is proposed."""

    async def check(question: OptionQuestion[S, A]) -> tuple[Sequence[A], str | None]:
        return (question.option,), None

    return check


@dataclass(frozen=True, slots=True)
class SearchState(Generic[S, A]):
    """A state of the search: τ_i, with the candidate and the scores of ω_i.

    Attributes:
        tau: τ_i.
        candidate: of ω_i; None at the root.
        scores: r_q(τ_{i-1}, ω_i) by question; empty at the root.
        clipped: item -> count that ω_i takes away but the state does not have.
    """

    tau: OptionState[S, A]
    candidate: Candidate[A] | None = None
    scores: Mapping[str, float] = field(default_factory=dict, hash=False)
    clipped: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(slots=True)
class Memo(Generic[A]):
    """ToO's notes at a node of the tree.

    Attributes:
        done: whether ŝ_i is terminal; None before the question is asked.
        dead_end: whether no proposed option gave an edge.
        left_out: candidates without an edge: dropped infeasible options, and repetitions.
    """

    done: bool | None = None
    dead_end: bool = False
    left_out: list[Candidate[A]] = field(default_factory=list)


class TreeOfOptions(Generic[S, A]):
    """ToO as a `SearchModel` without chance.

    Depth is counted in options from the root and is at most d: Section 3.1 iii ends a rollout at
    L = d. (The condition l ≤ L of Algorithm 1 would let τ grow to L + 1 options, one more than the
    τ_L that the algorithm returns.)

    The candidates of a node are a set, as in Algorithm 1: Q(τ, ω) and N(τ, ω) belong to an option.
    So equal candidates have one edge, even if only a repair makes them equal.

    Args:
        start: τ_0. ToO does not ask whether it is terminal (Algorithm 1, line 5).
        ask: makes the roles.
        settings: of the search.
        world_model: `WORLD_MODEL` or `NO_WORLD_MODEL`.
        check: `checked`, `beside` or `unchecked`.
        propose: names candidates; by default the role, which names k.
    """

    def __init__(
        self,
        start: OptionState[S, A],
        ask: OptionAsking[S, A],
        settings: Any,  # noqa: ANN401 - the check says which settings it reads
        *,
        world_model: WorldModel = WORLD_MODEL,
        check: Callable[[OptionAsking[S, A], Any, str], Check[S, A]] = checked,
        propose: Propose[S, A] | None = None,
    ) -> None:
        self.settings: OptionSearchSettings = settings
        self._start = SearchState(start)
        self._propose = propose or ask.propose(settings.k, world_model.moment)
        self._check = check(ask, settings, world_model.moment)
        self._dynamics: Dynamics[S, A] = world_model.dynamics(ask)
        self._reward = ask.of(ask.roles.reward(world_model.judged))
        self._termination = ask.of(ask.roles.termination(world_model.moment))
        self._asks_again = self.settings.ends == "asked"

    async def search(self, root: OptionNode[S, A] | None = None) -> OptionNode[S, A]:
        """SEARCH (lines 3 to 6): runs the iterations and returns the root.

        Args:
            root: the tree of an earlier search that is gone on with; None for a new one.
        """
        settings = self.settings
        if root is None:
            root = Node()
            root.memo = Memo(done=False)
        await search(
            root,
            self,
            select=select_by_ucb(c=settings.c),
            backup=_BACKUPS[settings.return_](gamma=settings.gamma),
            simulations=settings.iterations,
            width=settings.width,
        )
        return root

    def draw_root(self, walk: OptionWalk[S, A]) -> SearchState[S, A]:  # noqa: ARG002
        """τ_0."""
        return self._start

    async def legal(self, state: SearchState[S, A]) -> Sequence[A]:
        """Raises an error: every edge is legal, because options determine the predicted state."""
        raise RuntimeError(f"ToO draws nothing, but a state was drawn after: {state.tau.history}")

    async def expand(
        self, node: OptionNode[S, A], walk: OptionWalk[S, A]
    ) -> Sequence[OptionEdge[S, A]]:
        """Makes Ω(τ_l) of a leaf (line 11)."""
        return await self.options(node, walk.state, walk.depth)

    async def evaluate(
        self, node: OptionNode[S, A], walk: OptionWalk[S, A]
    ) -> Evaluation[SearchState[S, A], A]:
        """ROLLOUT (lines 22 to 35): follows argmax r̂ until ŝ is terminal, or to depth d.

        The walked edges stay in the tree with their siblings (Appendix A.7). A verdict that ŝ is
        terminal ends one rollout; a simulation that comes back there asks anew (lines 5, 18 and 30
        pass no `done` on), unless `ends` is `kept`.
        """
        came_back = not walk.grows and walk.depth < self.settings.d
        if came_back and node.memo.done and self._asks_again:
            walk.changed = (*walk.changed, Checkpoint.of(node))
            node.memo = Memo()
            node.edges = await self.options(node, walk.state, walk.depth)
        walked: list[OptionEdge[S, A]] = []
        while node.edges:
            edge = max(node.edges, key=_reward_of)  # eq. 5
            walked.append(edge)
            step = _certain(edge)
            node = edge.follow(step)
            with asking_at(node):
                node.edges = await self.options(node, step.state, walk.depth + len(walked))
        return Evaluation(walked)

    async def step(
        self,
        state: SearchState[S, A],
        action: A,
        rng: Random,  # noqa: ARG002
    ) -> Step[SearchState[S, A]]:
        """Predicts what an option does; see `predict`."""
        return await self.predict(state, action)

    async def predict(self, here: SearchState[S, A], option: A) -> Step[SearchState[S, A]]:
        """Predicts the state after an option (eq. 1), then scores the option by it (eq. 6)."""
        tau = here.tau
        with asking_about(option):
            after, clipped = await self._dynamics(OptionQuestion(tau, option))
            judged = replace(after, options=tau.options)
            scores = await self._reward(OptionQuestion(judged, option, before=tau))
        reached = SearchState(after, Candidate(option, option), scores, clipped)
        return Step(reached, scalar_reward(scores, weights(self.settings)))

    async def options(
        self, node: OptionNode[S, A], here: SearchState[S, A], depth: int
    ) -> list[OptionEdge[S, A]]:
        """Makes Ω(τ_i): edges for the candidates that pass, with their states and rewards.

        Each candidate passes check (eq. 3), dynamics (eq. 1) and reward (eq. 6) without waiting for
        the others. The edges are in the order of the proposal (eq. 2). A node without edges is a
        dead end.
        """
        if node.memo is None:
            node.memo = Memo()
        memo: Memo[A] = node.memo
        if memo.done is None:
            memo.done = await self._termination(here.tau)  # line 30
        if memo.done or depth >= self.settings.d:
            return []
        steps: dict[A, Step[SearchState[S, A]]] = {}
        claimed: set[A] = set()

        async def consider(proposed: Candidate[A]) -> Sequence[Candidate[A]]:
            with asking_about(proposed.proposed):
                found, obstacle = await self._check(OptionQuestion(here.tau, proposed.proposed))
            new = [option for option in dict.fromkeys(found) if option not in claimed]
            claimed.update(new)
            predictions = await gather(self.predict(here, option) for option in new)
            steps.update(zip(new, predictions, strict=True))
            return [replace(proposed, option=one, obstacle=obstacle) for one in found or (None,)]

        memo.left_out = []
        first: dict[A, Candidate[A]] = {}
        for proposed in await self._propose(here.tau):  # line 25
            if first.setdefault(proposed.proposed, proposed) is not proposed:
                memo.left_out.append(proposed)
        edges = []
        for candidate in chain.from_iterable(await gather(map(consider, first.values()))):
            step = None if candidate.option is None else steps.pop(candidate.option, None)
            if candidate.option is None or step is None:
                memo.left_out.append(candidate)
                continue
            step = step._replace(state=replace(step.state, candidate=candidate))
            first_play = step.reward if self.settings.first_play == "reward" else 0.0
            edges.append(Edge(candidate.option, first_play=first_play, step=step))
        memo.dead_end = not edges
        return edges


def _certain(edge: OptionEdge[S, A]) -> Step[SearchState[S, A]]:
    if edge.step is None:
        raise RuntimeError(f"{edge!r} was made without a prediction")
    return edge.step


def _reward_of(edge: OptionEdge[S, A]) -> float:
    return _certain(edge).reward
