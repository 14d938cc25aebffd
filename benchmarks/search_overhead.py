"""What the search core itself costs, with evaluations that answer at once.

Three actions, depth 12. The peer, llm-reasoners, runs the same search on the same problem: its
selection rule is handed to the core, both trees are compared node by node, and only then are the
two timed. A second peer, treequest, runs its own search beside them. Seconds are those the thread
spent computing, so what else the machine does counts little.
"""

from __future__ import annotations

import asyncio
import gc
import random
from functools import partial
from importlib.util import find_spec
from math import isclose, log, sqrt
from time import perf_counter as wall_clock
from time import thread_time as clock
from typing import TYPE_CHECKING, Any

from harness import AnswersDifferError, Finding, medians, parser, report

from llm_planning.environments.minecraft.tasks import find_task
from llm_planning.planners.tree_of_options.prompts import Questions
from llm_planning.planners.tree_of_options.settings import FeasibleSearchSettings
from llm_planning.roles import Engines
from llm_planning.search import (
    Node,
    Rollout,
    mean_returns,
    preorder,
    reward_first,
    search,
    select_by_ucb,
    ucb,
)
from llm_serving.dispatcher import Dispatcher
from llm_serving.request import Completion, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.search.selection import UcbRule
    from llm_serving.request import Request

ACTIONS = (0, 1, 2)
DEPTH = 12
EXPLORATION = 0.7
ITERATIONS = 1_000
MANY_ITERATIONS = 10_000
REPEATS = 5
CALLS = 2_048
ASKERS = 32
ANSWER = Completion(text='{"done":false}', token_ids=(), finish="stop", usage=Usage())
FEW_ITERATIONS = 300

# States are the nodes of a complete ternary tree, numbered level by level; depth 12 starts here.
FIRST_TERMINAL: int = (3**DEPTH - 1) // 2
_draw = random.Random(0)
REWARDS = [_draw.random() for _ in range(8191)]


def step(state: int, action: int) -> int:
    """The state that an action leads to."""
    return 3 * state + action + 1


def reward(state: int, action: int) -> float:
    """A fixed pseudo-random number in [0, 1) per edge."""
    return REWARDS[(3 * state + action + 1) * 2_654_435_761 % 8191]


def is_terminal(state: int) -> bool:
    """Whether a state is at the depth limit."""
    return state >= FIRST_TERMINAL


async def simulate(leaf: Node[int]) -> Rollout[int]:
    """Expands the leaf and follows the greatest reward to the depth limit."""
    walked = []
    node = leaf
    while not is_terminal(node.payload):
        state = node.payload
        for action in ACTIONS:
            node.add_child(step(state, action), reward=reward(state, action))
        node = max(node.children, key=_reward_of)
        walked.append(node)
    return Rollout(walked)


def _reward_of(node: Node[int]) -> float:
    return node.reward


def rap_uct(q: Sequence[float], n: Sequence[int], parent_n: int, c: float) -> list[float]:
    """The peer's rule: Q + c √(ln N(s) / max(1, N(s,a)))."""
    log_n = log(parent_n)
    return [q_i + c * sqrt(log_n / max(1, n_i)) for q_i, n_i in zip(q, n, strict=True)]


class RapProblem:
    """The problem as llm-reasoners asks for it: a world model and a search configuration."""

    def init_state(self) -> int:
        """The root."""
        return 0

    def step(self, state: int, action: int) -> tuple[int, dict[str, Any]]:
        """The next state, and nothing to pass on to the reward."""
        return step(state, action), {}

    def is_terminal(self, state: int) -> bool:
        """Whether a state is at the depth limit."""
        return is_terminal(state)

    def get_actions(self, state: int) -> Sequence[int]:  # noqa: ARG002
        """The same everywhere."""
        return ACTIONS

    def fast_reward(self, state: int, action: int) -> tuple[float, dict[str, Any]]:
        """The reward, known before the step."""
        return reward(state, action), {}

    def reward(self, state: int, action: int) -> tuple[float, dict[str, Any]]:
        """The reward, once more after the step."""
        return reward(state, action), {}


def run_core(
    *, iterations: int, rule: UcbRule = ucb, width: int = 1
) -> tuple[Node[int], list[float]]:
    """Searches from a new root.

    Returns:
        The tree, and the clock before the first iteration and after each.
    """
    root = Node(0)
    times: list[float] = []

    async def run() -> None:
        times.append(clock())
        await search(
            root,
            select=select_by_ucb(c=EXPLORATION, first_play=reward_first, rule=rule),
            simulate=simulate,
            returns=partial(mean_returns, gamma=1.0),
            iterations=iterations,
            width=width,
            on_iteration=lambda _: times.append(clock()),
        )

    gc.collect()
    asyncio.run(run())
    return root, times


def core_seconds(*, iterations: int, rule: UcbRule = ucb, width: int = 1) -> float:
    """Seconds of one search."""
    _, times = run_core(iterations=iterations, rule=rule, width=width)
    return times[-1] - times[0]


def run_reasoners() -> tuple[Any, float]:
    """Searches with llm-reasoners.

    Returns:
        Its root and the seconds taken.
    """
    from reasoners.algorithm.mcts import MCTS

    problem = RapProblem()
    mcts = MCTS(
        w_exp=EXPLORATION,
        depth_limit=DEPTH,
        n_iters=ITERATIONS,
        cum_reward=_mean,
        output_strategy="last_iter",
    )
    gc.collect()
    start = clock()
    result = mcts(problem, problem)
    return result.tree_state, clock() - start


def _mean(rewards: Sequence[float]) -> float:
    return sum(rewards) / len(rewards)


def compare_trees(ours: Node[int], theirs: Any) -> None:  # noqa: ANN401
    """Checks that both trees have the same edges, with the same N, Q and rewards.

    The root has no edge, and so no Q to compare: the peer's counts a reward of 0 that leads to it.

    Raises:
        AnswersDifferError: they have not.
    """
    pairs = [(ours, theirs)]
    while pairs:
        node, peer = pairs.pop()
        visits = len(peer.cum_rewards)
        value = sum(peer.cum_rewards) / visits if visits else 0.0
        children = peer.children or []
        if (
            node.visits != visits
            or len(node.children) != len(children)
            or node.reward != peer.reward
            or not (node is ours or isclose(node.value, value, abs_tol=1e-9))
        ):
            msg = (
                f"state {node.payload} at depth {node.depth}: N, Q, r and edges are {node.visits}, "
                f"{node.value}, {node.reward}, {len(node.children)} here and {visits}, {value}, "
                f"{peer.reward}, {len(children)} in llm-reasoners"
            )
            raise AnswersDifferError(msg)
        pairs.extend(zip(node.children, children, strict=True))


def beside_reasoners() -> Finding:
    """Time per iteration of llm-reasoners over the core's, on equal trees."""
    finding = partial(
        Finding,
        label="llm-reasoners / search core, time per iteration",
        unit="x",
        bound="at least",
        target=2.0,
    )
    if find_spec("reasoners") is None:
        remedy = "pip install --no-deps llm-reasoners==1.0.2 tqdm (it imports torch, transformers)"
        return finding(measured=None, details={"missing": remedy})
    root, _ = run_core(iterations=ITERATIONS, rule=rap_uct)
    compare_trees(root, run_reasoners()[0])
    seconds = medians(
        {
            "core": partial(core_seconds, iterations=ITERATIONS, rule=rap_uct),
            "reasoners": lambda: run_reasoners()[1],
        },
        repeats=REPEATS,
    )
    nodes = sum(1 for _ in preorder(root))
    return finding(
        measured=seconds["reasoners"] / seconds["core"],
        details={
            "iterations": ITERATIONS,
            "core_us": seconds["core"] / ITERATIONS * 1e6,
            "llm_reasoners_us": seconds["reasoners"] / ITERATIONS * 1e6,
            "nodes_added_per_iteration": (nodes - 1) / ITERATIONS,
            "nodes_compared": nodes,
        },
    )


def growth() -> Finding:
    """Time per iteration at 10,000 iterations over that at 1,000.

    The arms take equally long, ten short searches beside a long one, so that slow and fast spells
    of the machine weigh on both alike.
    """
    searches = MANY_ITERATIONS // ITERATIONS
    seconds = medians(
        {
            "few": lambda: sum(core_seconds(iterations=ITERATIONS) for _ in range(searches)),
            "many": partial(core_seconds, iterations=MANY_ITERATIONS),
            "wide": partial(core_seconds, iterations=ITERATIONS, width=16),
        },
        repeats=REPEATS,
    )
    few = seconds["few"] / searches / ITERATIONS
    many = seconds["many"] / MANY_ITERATIONS
    root, times = run_core(iterations=MANY_ITERATIONS)
    return Finding(
        label="search core, time per iteration: 10,000 iterations / 1,000",
        measured=many / few,
        unit="x",
        bound="at most",
        target=1.2,
        details={
            "us_at_1000": few * 1e6,
            "us_at_10000": many * 1e6,
            "us_of_the_last_1000_of_10000": (times[-1] - times[-1_001]) / 1_000 * 1e6,
            "us_at_1000_with_width_16": seconds["wide"] / ITERATIONS * 1e6,
            "nodes_at_10000": sum(1 for _ in preorder(root)),
            **treequest_details(),
        },
    )


def treequest_details() -> dict[str, Any]:
    """Time per iteration of treequest's standard MCTS, in its default mode and in place."""
    if find_spec("treequest") is None:
        return {"treequest_missing": "pip install llm-planning[bench]"}
    return {
        **_treequest_times("treequest", {}),
        **_treequest_times("treequest_inplace", {"inplace": True}),
    }


def _treequest_times(name: str, options: dict[str, Any]) -> dict[str, float]:
    from treequest import StandardMCTS

    mcts: Any = StandardMCTS(samples_per_action=1, exploration_weight=EXPLORATION)
    generate = {str(action): _treequest_step(action) for action in ACTIONS}
    tree = mcts.init_tree()
    gc.collect()
    times = [clock()]
    for _ in range(ITERATIONS):
        tree = mcts.step(tree, generate, **options)
        times.append(clock())
    few = (times[FEW_ITERATIONS] - times[0]) / FEW_ITERATIONS
    many = (times[ITERATIONS] - times[0]) / ITERATIONS
    return {f"{name}_us_at_300": few * 1e6, f"{name}_us_at_1000": many * 1e6}


def _treequest_step(action: int) -> Callable[[int | None], tuple[int, float]]:
    def generate(state: int | None) -> tuple[int, float]:
        return step(state or 0, action), reward(state or 0, action)

    return generate


class InstantCore:
    """An engine core that finishes every job at its next step."""

    def __init__(self) -> None:
        self._tickets: list[int] = []

    def add(self, ticket: int, job: Request) -> None:  # noqa: ARG002
        """Takes a job."""
        self._tickets.append(ticket)

    def abort(self, tickets: Sequence[int]) -> None:
        """Drops jobs."""
        self._tickets = [ticket for ticket in self._tickets if ticket not in tickets]

    def step(self) -> list[tuple[int, Completion]]:
        """Finishes everything."""
        done, self._tickets = self._tickets, []
        return [(ticket, ANSWER) for ticket in done]

    def close(self) -> None:
        """Nothing is held."""


class InstantEngine:
    """The real dispatcher and its thread over an engine that answers at once."""

    def __init__(self) -> None:
        self.dispatcher: Dispatcher[Request, Completion, InstantCore] = Dispatcher(
            InstantCore, name="instant-step"
        )

    async def generate(self, request: Request) -> Completion:
        """One trip to the stepping thread and back."""
        return await self.dispatcher.submit(request)


def role_call() -> Finding:
    """Microseconds per awaited call of a ToO role: template, request, dispatcher, answer model."""
    engine = InstantEngine()
    role = Questions(
        Engines.both(engine),  # type: ignore[arg-type]
        FeasibleSearchSettings(),
        seed=0,
    ).termination()
    start = find_task("cook-meat").start

    async def ask() -> None:
        await role(goal="Cook 1 beef.", state=start, history="none")

    def asked_by(askers: int) -> float:
        async def several() -> None:
            for _ in range(CALLS // askers):
                await asyncio.gather(*(ask() for _ in range(askers)))

        begun = wall_clock()
        asyncio.run(several())
        return (wall_clock() - begun) / CALLS * 1e6

    asked_by(1)
    micros = medians(
        {"together": partial(asked_by, ASKERS), "alone": partial(asked_by, 1)}, repeats=REPEATS
    )
    engine.dispatcher.close()
    return Finding(
        label="one awaited role call through the dispatcher",
        measured=micros["together"],
        unit="µs",
        bound="at most",
        target=100,
        details={"askers_at_once": ASKERS, "us_with_one_asker": micros["alone"]},
    )


def main() -> None:
    """Measures and reports."""
    arguments = parser(__doc__).parse_args()
    findings = [beside_reasoners(), growth(), role_call()]
    report("search_overhead", findings, as_json=arguments.json)


if __name__ == "__main__":
    main()
