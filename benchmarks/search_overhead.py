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
from math import inf, isclose, log, sqrt
from operator import attrgetter
from time import perf_counter as wall_clock
from time import thread_time as clock
from typing import TYPE_CHECKING, Any

from harness import AnswersDifferError, Finding, medians, parser, report

from llm_planning.domain import Step
from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.tasks import TASKS
from llm_planning.execution.option_prompts import NOW
from llm_planning.execution.options import OptionState
from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.settings import FeasibleSearchSettings
from llm_planning.roles import Engines
from llm_planning.search import Edge, Evaluation, Node, by_means, edges_below, search, select_by_ucb
from llm_serving.dispatcher import Dispatcher
from llm_serving.engine import Engine
from llm_serving.request import Ability, Completion, ModelIdentity, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.search import Select, Walk
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
REWARD = attrgetter("first_play")
UCB: Select[int, int] = select_by_ucb(c=EXPLORATION)


def step(state: int, action: int) -> int:
    """The state that an action leads to."""
    return 3 * state + action + 1


def reward(state: int, action: int) -> float:
    """A fixed pseudo-random number in [0, 1) per edge."""
    return REWARDS[(3 * state + action + 1) * 2_654_435_761 % 8191]


def is_terminal(state: int) -> bool:
    """Whether a state is at the depth limit."""
    return state >= FIRST_TERMINAL


class Core:
    """The problem as the search core asks for it."""

    def draw_root(self, walk: Walk[int, int]) -> int:  # noqa: ARG002
        """Always the same."""
        return 0

    async def legal(self, state: int) -> Sequence[int]:  # noqa: ARG002
        """The same everywhere."""
        return ACTIONS

    async def expand(self, node: Node[int, int], walk: Walk[int, int]) -> list[Edge[int, int]]:  # noqa: ARG002
        """All actions, with their rewards."""
        return edges_of(walk.state)

    async def step(self, state: int, action: int, rng: random.Random) -> Step[int]:  # noqa: ARG002
        """The next state and the reward."""
        return step_of(state, action, reward(state, action))

    async def evaluate(self, node: Node[int, int], walk: Walk[int, int]) -> Evaluation[int, int]:
        """Follows the greatest reward to the depth limit; what it passes stays in the tree."""
        state = walk.state
        walked = []
        while not is_terminal(state):
            if node.edges is None:
                node.edges = edges_of(state)
            edge = max(node.edges, key=REWARD)
            edge.step = step_of(state, edge.action, edge.first_play)
            state = edge.step.state
            node = edge.follow(edge.step)
            walked.append(edge)
        return Evaluation(walked)


def edges_of(state: int) -> list[Edge[int, int]]:
    """All actions of a state, with their rewards."""
    return [Edge(action, first_play=reward(state, action)) for action in ACTIONS]


def step_of(state: int, action: int, known_reward: float) -> Step[int]:
    """What an action does."""
    following = step(state, action)
    return Step(following, known_reward, is_terminal(following))


def select_as_reasoners(node: Node[int, int], edges: Sequence[Edge[int, int]]) -> Edge[int, int]:
    """The peer's rule: the highest Q + c √(ln N(s) / max(1, N(s,a)))."""
    log_n = log(node.visits)
    best, highest = edges[0], -inf
    for edge in edges:
        visits = edge.visits
        q = edge.value if visits else edge.first_play
        score = q + EXPLORATION * sqrt(log_n / (visits or 1))
        if score > highest:
            best, highest = edge, score
    return best


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
    *,
    iterations: int,
    select: Select[int, int] = UCB,
    width: int = 1,
    on_backup: Callable[[object], None] | None = None,
) -> tuple[Node[int, int], float]:
    """Searches from a new root.

    Returns:
        The tree and the seconds taken.
    """
    root: Node[int, int] = Node()

    async def run() -> float:
        start = clock()
        await search(
            root,
            Core(),
            select=select,
            backup=by_means(gamma=1.0),
            simulations=iterations,
            width=width,
            on_backup=on_backup,
        )
        return clock() - start

    gc.collect()
    return root, asyncio.run(run())


def core_seconds(*, iterations: int, select: Select[int, int] = UCB, width: int = 1) -> float:
    """Seconds of one search."""
    return run_core(iterations=iterations, select=select, width=width)[1]


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
        cum_reward=lambda rewards: sum(rewards) / len(rewards),
        output_strategy="last_iter",
    )
    gc.collect()
    start = clock()
    result = mcts(problem, problem)
    return result.tree_state, clock() - start


def compare_trees(ours: Node[int, int], theirs: Any) -> None:  # noqa: ANN401
    """Checks that both trees have the same edges, with the same N, Q and rewards.

    The root has no edge, and so no Q to compare: the peer's counts a reward of 0 that leads to it.

    Raises:
        AnswersDifferError: they have not.
    """
    pairs: list[tuple[Node[int, int] | None, Any, str]] = [(ours, theirs, "")]
    while pairs:
        node, peer, path = pairs.pop()
        edges = (node and node.edges) or []
        children = peer.children or []
        if len(edges) != len(children):
            msg = f"{path or 'root'}: {len(edges)} edges here, {len(children)} in llm-reasoners"
            raise AnswersDifferError(msg)
        for edge, child in zip(edges, children, strict=True):
            here = f"{path}{edge.action}"
            visits = len(child.cum_rewards)
            value = sum(child.cum_rewards) / visits if visits else 0.0
            if (
                edge.visits != visits
                or edge.first_play != child.reward
                or not isclose(edge.value, value, abs_tol=1e-9)
            ):
                msg = (
                    f"{here}: N, Q and r are {edge.visits}, {edge.value}, {edge.first_play} here "
                    f"and {visits}, {value}, {child.reward} in llm-reasoners"
                )
                raise AnswersDifferError(msg)
            pairs.append((edge.node, child, here))


def beside_reasoners() -> Finding:
    """Time per iteration of llm-reasoners over the core's, on equal trees."""
    finding = partial(
        Finding,
        label="llm-reasoners / search core, time per iteration",
        unit="x",
        bound="at least",
        target=6.0,
    )
    if find_spec("reasoners") is None:
        remedy = "pip install --no-deps llm-reasoners==1.0.2 tqdm (it imports torch, transformers)"
        return finding(measured=None, details={"missing": remedy})
    root, _ = run_core(iterations=ITERATIONS, select=select_as_reasoners)
    compare_trees(root, run_reasoners()[0])
    seconds = medians(
        {
            "core": partial(core_seconds, iterations=ITERATIONS, select=select_as_reasoners),
            "reasoners": lambda: run_reasoners()[1],
        },
        repeats=REPEATS,
    )
    edges = sum(1 for _ in edges_below(root))
    return finding(
        measured=seconds["reasoners"] / seconds["core"],
        details={
            "iterations": ITERATIONS,
            "core_us": seconds["core"] / ITERATIONS * 1e6,
            "llm_reasoners_us": seconds["reasoners"] / ITERATIONS * 1e6,
            "edges_added_per_iteration": edges / ITERATIONS,
            "edges_compared": edges,
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
    times: list[float] = []
    root, _ = run_core(iterations=MANY_ITERATIONS, on_backup=lambda _: times.append(clock()))
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
            "edges_at_10000": sum(1 for _ in edges_below(root)),
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

    def wake(self) -> None:
        """No step waits."""

    def close(self) -> None:
        """Nothing is held."""


class InstantEngine(Engine):
    """The real dispatcher and its thread over an engine that answers at once."""

    identity = ModelIdentity(name="instant", revision="1", dtype="none")
    abilities: frozenset[Ability] = frozenset({"regex"})

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
    questions: OptionAsking[Any, Any] = OptionAsking(
        Minecraft(),
        Engines(engine),
        FeasibleSearchSettings(),
        seed=0,
    )
    role = questions.of(questions.roles.termination(NOW))
    task = TASKS["cook-meat"]
    start = OptionState(task.goal, task.start, Minecraft().describe(task.start))

    async def ask() -> None:
        await role(start)

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
    # First, since the modules that the peer imports are traversed by the garbage collector too.
    grown = growth()
    findings = [beside_reasoners(), grown, role_call()]
    report("search_overhead", findings, as_json=arguments.json)


if __name__ == "__main__":
    main()
