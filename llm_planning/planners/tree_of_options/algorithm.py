"""Tree of Options, Algorithm 1: Monte Carlo tree search over options (Section 3.1, Appendix A.6).

The numbers in the margin are the lines of the paper; k, L, iter, γ and w of line 1 are the settings
k, d (in `execution.option_settings`), iterations, gamma and c. SIMULATE is the loop that planners
share (`llm_planning.search`):

    8 to 14   a leaf: `expand` makes Ω(τ_l), `evaluate` is ROLLOUT; at an end, `evaluate` alone
    15, 16    N(τ_l) grows, `select_by_ucb` takes an option
    17, 18    the walk goes on to the child
    19, 20    `by_sums`: Q becomes the mean of R_i = Σ_j γ^(j-i) r̂, and N(τ_l, ω) grows

The last is Section 3.1 iv. As printed, R is the rollout's alone (lines 18 to 20), and nothing
increments the N(τ_l, ω) by which line 19 divides.

Algorithm 2 is `llm_planning.execution.options.Executing.execute`.

Depth is counted in options from the root and is at most d: Section 3.1 iii ends a rollout at L = d.
(The condition l ≤ L of lines 9 and 24 would let τ grow to L + 1 options, one more than the τ_L of
line 2.)

Ours: `width`, `return=mean`, `first_play`, `ends=kept`, and for traces and metrics `left_out`,
`dead_end` and `clipped`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from llm_planning.domain import A, S, Step
from llm_planning.execution.option_prompts import NOW, PREDICTED
from llm_planning.execution.options import Candidate, OptionState, tau_of
from llm_planning.execution.whole_plans import executed_plan, first_state
from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.outcome import node_json, tree_metrics
from llm_planning.planners.tree_of_options.roles import OptionQuestion
from llm_planning.planners.tree_of_options.settings import ROLES
from llm_planning.roles import gather
from llm_planning.search import (
    Checkpoint,
    Edge,
    Evaluation,
    Node,
    best_path,
    by_means,
    by_sums,
    format_tree,
    search,
    select_by_ucb,
)
from llm_planning.trace_tree import asking_about, asking_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from llm_planning.execution.options import OptionDomain
    from llm_planning.outcome import Outcome
    from llm_planning.planners.tree_of_options.settings import OptionSearchSettings
    from llm_planning.search import Walk
    from llm_planning.specs import Run

OptionNode: TypeAlias = "Node[SearchState[S, A], A]"
OptionEdge: TypeAlias = "Edge[SearchState[S, A], A]"
OptionWalk: TypeAlias = "Walk[SearchState[S, A], A]"

_BACKUPS = {"sum": by_sums, "mean": by_means}

PRIMARY = ("reward_estimate", "reachability", "relativity", "consistency")
MODERATE = ("feasibility", "success_probability", "task_specificity")
PENALTY = ("redundancy",)
"""The questions by the weight that they share (Appendix A.6 and Table 3).

Of the moderate ones A.6 names feasibility only, as an example; the other two are our choice.
"""


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
    """Notes at a node of the tree.

    Attributes:
        done: whether ŝ_i is terminal; None before the question is asked.
        dead_end: whether no proposed option gave an edge.
        left_out: candidates without an edge: dropped infeasible options, and repetitions.
    """

    done: bool | None = None
    dead_end: bool = False
    left_out: list[Candidate[A]] = field(default_factory=list)


class TreeOfOptions(Generic[S, A]):
    """Algorithm 1, without chance.

    The candidates of a node are a set, as in lines 25 and 26: Q(τ, ω) and N(τ, ω) belong to an
    option. So equal candidates have one edge, even if only a repair makes them equal.

    Args:
        start: τ_0. Nobody asks whether it is terminal (line 5).

    Attributes:
        moment: of the state in a question about τ.
        judged: of the state in a question for a reward.
    """

    moment = NOW
    judged = PREDICTED

    def __init__(
        self,
        start: OptionState[S, A],
        ask: OptionAsking[S, A],
        settings: Any,  # noqa: ANN401 - an ablation reads fewer settings
    ) -> None:
        self.settings = settings
        self._domain = ask.domain
        self._start = SearchState(start)
        self._role = ask.by_name(self.roles(), settings.k, moment=self.moment, judged=self.judged)

    def roles(self) -> Sequence[str]:
        """The roles that are asked."""
        dropped = {"repair"} if self.settings.infeasible == "drop" else set()
        return [role for role in ROLES if role not in dropped]

    async def search(self, root: OptionNode[S, A] | None = None) -> OptionNode[S, A]:
        """SEARCH: runs the iterations and returns the root; line 7 is `tree_of_options`.

        Args:
            root: the tree of an earlier search that is gone on with; None for a new one.
        """
        settings = self.settings
        if root is None:
            root = Node()
            root.memo = Memo(done=False)  # 5
        await search(
            root,
            self,
            select=select_by_ucb(c=settings.c),  # 16
            backup=_BACKUPS[settings.return_](gamma=settings.gamma),  # 19, 32
            simulations=settings.iterations,  # 4
            width=settings.width,
        )
        return root

    def draw_root(self, walk: OptionWalk[S, A]) -> SearchState[S, A]:  # noqa: ARG002
        """τ_0."""
        return self._start  # 5

    async def expand(
        self, node: OptionNode[S, A], walk: OptionWalk[S, A]
    ) -> Sequence[OptionEdge[S, A]]:
        """Makes Ω(τ_l) of a leaf."""
        return await self.options(node, walk.state, walk.depth)  # 11, 12, 25, 26, 28 to 31

    async def evaluate(
        self, node: OptionNode[S, A], walk: OptionWalk[S, A]
    ) -> Evaluation[SearchState[S, A], A]:
        """ROLLOUT: follows argmax r̂ until ŝ is terminal, or to depth d.

        The walked edges stay in the tree with their siblings (Appendix A.7).
        """
        if self.settings.ends == "asked":
            await self._ask_again(node, walk)  # 5, 18
        walked: list[OptionEdge[S, A]] = []  # 23
        while node.edges:  # 24
            edge = max(node.edges, key=lambda edge: _certain(edge).reward)  # 27, eq. 5
            walked.append(edge)  # 33; the backup sums (32)
            step = _certain(edge)
            node = edge.follow(step)  # 31
            with asking_at(node):
                node.edges = await self.options(node, step.state, walk.depth + len(walked))
        return Evaluation(walked)  # 35

    async def _ask_again(self, node: OptionNode[S, A], walk: OptionWalk[S, A]) -> None:
        """Asks a simulation that came back to an end whether it is one.

        The verdict ended one rollout, where `done` is local (line 30). Line 5 begins with False,
        and line 18 passes that on.
        """
        came_back = not walk.grows and walk.depth < self.settings.d
        if came_back and node.memo.done:
            walk.changed = (*walk.changed, Checkpoint.of(node))
            node.memo = Memo()
            node.edges = await self.options(node, walk.state, walk.depth)

    async def options(
        self, node: OptionNode[S, A], here: SearchState[S, A], depth: int
    ) -> list[OptionEdge[S, A]]:
        """Makes Ω(τ_i): edges for the candidates that pass, with their states and rewards.

        Each candidate passes check (eq. 3), dynamics (eq. 1) and reward (eq. 6) without waiting for
        the others: argmax r̂ needs all of them. The edges are in the order of the proposal (eq. 2).
        A node without edges is a dead end.
        """
        if node.memo is None:
            node.memo = Memo()
        memo: Memo[A] = node.memo
        if memo.done is None:
            memo.done = await self._role["termination"](here.tau)  # 30, eq. 4
        if memo.done or depth >= self.settings.d:  # 24
            return []
        steps: dict[A, Step[SearchState[S, A]]] = {}
        claimed: set[A] = set()

        async def consider(proposed: Candidate[A]) -> Sequence[Candidate[A]]:
            with asking_about(proposed.proposed):
                options, obstacle = await self.check(here.tau, proposed.proposed)  # 26
            new = [option for option in dict.fromkeys(options) if option not in claimed]
            claimed.update(new)
            predictions = await gather(self.imagine(here.tau, option) for option in new)  # 28, 29
            steps.update(zip(new, predictions, strict=True))
            return [
                replace(proposed, option=option, obstacle=obstacle) for option in options or (None,)
            ]

        memo.left_out = []
        first: dict[A, Candidate[A]] = {}
        for proposed in await self.propose(here.tau):  # 25
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

    async def propose(self, tau: OptionState[S, A]) -> Sequence[Candidate[A]]:
        """Names candidates ω̃ (line 25, eq. 2)."""
        candidates: Sequence[Candidate[A]] = await self._role["propose"](tau)
        return candidates

    async def check(self, tau: OptionState[S, A], option: A) -> tuple[Sequence[A], str | None]:
        """Drops an infeasible ω̃ (line 26), or puts a prerequisite in its place (eq. 3).

        The prerequisite itself is not checked.

        Returns:
            The options that expand the tree, and the obstacle of ω̃, or None.
        """
        question = OptionQuestion(tau, option)
        obstacle: str | None = (await self._role["feasibility"](question)).obstacle
        if obstacle is None:
            return (option,), None
        if self.settings.infeasible == "drop":
            return (), obstacle
        return (await self._role["repair"](replace(question, obstacle=obstacle)),), obstacle

    async def imagine(self, tau: OptionState[S, A], option: A) -> Step[SearchState[S, A]]:
        """Predicts the state after an option, then scores the option by it."""
        with asking_about(option):
            after, clipped = await self.predict(tau, option)
            judged = OptionQuestion(replace(after, options=tau.options), option, before=tau)
            scores: Mapping[str, float] = await self._role["reward"](judged)
        reward = scalar_reward(scores, weights(self.settings))  # 29
        return Step(SearchState(after, Candidate(option, option), scores, clipped), reward)

    async def predict(
        self, tau: OptionState[S, A], option: A
    ) -> tuple[OptionState[S, A], Mapping[str, int]]:
        """Predicts ŝ_{i+1} (line 28, eq. 1).

        Returns:
            τ_{i+1}, and item -> count that ω takes away but the state does not have.
        """
        prediction = await self._role["dynamics"](OptionQuestion(tau, option))  # 28
        after = await tau_of(self._domain, prediction.state, (*tau.options, option))  # 31
        return after, prediction.clipped

    async def step(
        self,
        state: SearchState[S, A],
        action: A,
        rng: Random,  # noqa: ARG002
    ) -> Step[SearchState[S, A]]:
        """See `imagine`."""
        return await self.imagine(state.tau, action)

    async def legal(self, state: SearchState[S, A]) -> Sequence[A]:
        """Raises an error: every edge is legal, because options determine the predicted state."""
        raise RuntimeError(f"ToO draws nothing, but a state was drawn after: {state.tau.history}")


def weights(settings: OptionSearchSettings) -> dict[str, float]:
    """c_q of every question q (eq. 6)."""
    return {
        **dict.fromkeys(PRIMARY, settings.primary_weight),
        **dict.fromkeys(MODERATE, settings.moderate_weight),
        **dict.fromkeys(PENALTY, settings.penalty_weight),
    }


def scalar_reward(scores: Mapping[str, float], c: Mapping[str, float]) -> float:
    """r̂ = Σ_q c_q r_q (line 29, eq. 6)."""
    return sum(c_q * scores[q] for q, c_q in c.items())


def _certain(edge: OptionEdge[S, A]) -> Step[SearchState[S, A]]:
    if edge.step is None:
        raise RuntimeError(f"{edge!r} was made without a prediction")
    return edge.step


async def tree_of_options(
    run: Run[OptionDomain[Any, Any], OptionSearchSettings],
    *,
    algorithm: type[TreeOfOptions[Any, Any]] = TreeOfOptions,
) -> Outcome:
    """Searches, and executes the path of argmax Q from the root (line 7).

    Args:
        run: its world has a `grammar`, and a `state_model` for the world model.
        algorithm: the search, or an ablation of it.
    """
    settings, seed = run.settings, run.seed
    ask: OptionAsking[Any, Any] = OptionAsking(run.world, run.engines, settings, seed=seed)
    start = await first_state(run.world, seed)
    root = await algorithm(start, ask, settings).search()
    path = best_path(root)  # 7
    last = path[-1].node if path else None
    return await executed_plan(
        [edge.action for edge in path],
        run,
        ask,
        settings,
        metrics={
            "predicted_success": last is not None and last.memo.done is True,
            **tree_metrics(root),
        },
        trace={"tree": {"visits": root.visits, "value": root.value, **node_json(root)}},
        text=format_tree(root),
    )
