"""What a trace costs: runs that ask a model, and searches that ask nobody.

The first run is like Tree of Options: a node's expansion asks for proposals, then about each of
them whether it is feasible, where it leads and what it is worth. A script answers after 10 ms, as
few language models do; wall-clock seconds count. The second is PUCT on three actions and depth 12,
without any question; seconds that the thread spent computing count. Both arms must grow equal trees
and get equal answers before they are timed.
"""

from __future__ import annotations

import asyncio
import gc
import random
from contextlib import nullcontext
from functools import partial
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any, TypeAlias

from harness import AnswersDifferError, Finding, medians, parser, report

from llm_planning.domain import Step
from llm_planning.roles.engines import TracingEngine
from llm_planning.search import (
    Edge,
    Evaluation,
    Node,
    advance,
    by_sums,
    edges_below,
    search,
    select_by_puct,
    select_by_ucb,
)
from llm_planning.trace import Trace, recording
from llm_planning.trace_file import encode_trace
from llm_serving.request import Message, Request
from llm_serving.scripted import ScriptedEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.search import Walk
    from llm_serving.engine import Engine

MOST = 1.03
"""With a trace over without."""

REPEATS = 15
DELAY = 0.01
ITERATIONS = 10
OPTIONS = 3
DEPTH = 12
SAID = "The inventory, what is near and what was done so far. " * 40

FIRST_TERMINAL: int = (3**DEPTH - 1) // 2
_draw = random.Random(0)
REWARDS = [_draw.random() for _ in range(8191)]


def reward(state: int) -> float:
    """A fixed pseudo-random number in [0, 1) per state."""
    return REWARDS[state * 2_654_435_761 % 8191]


Statistics: TypeAlias = "list[tuple[int, object, int, float]]"
"""Depth, action, N and Q of every edge."""


class Asking:
    """Tree of Options in outline: whatever is known of an option is asked for.

    Args:
        engine: who answers.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def draw_root(self, walk: Walk[str, int]) -> str:  # noqa: ARG002
        """The known state."""
        return ""

    async def legal(self, state: str) -> Sequence[int]:  # noqa: ARG002
        """Never asked: no step draws anything."""
        return range(OPTIONS)

    async def expand(self, node: Node[str, int], walk: Walk[str, int]) -> list[Edge[str, int]]:  # noqa: ARG002
        """Proposes options, and asks about all of them at once."""
        await self._ask("propose", walk.state)
        return list(await asyncio.gather(*(self._option(walk.state, i) for i in range(OPTIONS))))

    async def step(self, state: str, action: int, rng: random.Random) -> Step[str]:  # noqa: ARG002
        """Never asked: every edge has its step."""
        return Step(f"{state}{action}")

    async def evaluate(self, node: Node[str, int], walk: Walk[str, int]) -> Evaluation[str, int]:  # noqa: ARG002
        """Only what is on the edges counts."""
        return Evaluation()

    async def _option(self, state: str, option: int) -> Edge[str, int]:
        following = f"{state}{option}"
        await self._ask("feasibility", following)
        await self._ask("dynamics", following)
        worth = float(await self._ask("reward", following))
        return Edge(option, first_play=worth, step=Step(following, worth))

    async def _ask(self, role: str, state: str) -> str:
        system = Message("system", f"{role}: {SAID}")
        user = Message("user", f"{SAID}\nOptions so far: {state}")
        answer = await self._engine.generate(Request(prompt=(system, user), role=role))
        return answer.text


class Counting:
    """A complete ternary tree, its states numbered level by level; a leaf is rolled out."""

    def draw_root(self, walk: Walk[int, int]) -> int:  # noqa: ARG002
        """The known state."""
        return 0

    async def legal(self, state: int) -> Sequence[int]:  # noqa: ARG002
        """The same everywhere."""
        return range(3)

    async def expand(self, node: Node[int, int], walk: Walk[int, int]) -> list[Edge[int, int]]:  # noqa: ARG002
        """Edges that are all alike."""
        return [Edge(action, prior=1 / 3) for action in range(3)]

    async def step(self, state: int, action: int, rng: random.Random) -> Step[int]:  # noqa: ARG002
        """Down the tree."""
        following = 3 * state + action + 1
        return Step(following, reward(following), done=following >= FIRST_TERMINAL)

    async def evaluate(self, node: Node[int, int], walk: Walk[int, int]) -> Evaluation[int, int]:  # noqa: ARG002
        """The sum of five rewards."""
        state = walk.state
        total = 0.0
        for _ in range(5):
            state = 3 * state + walk.rng.randrange(3) + 1
            total += reward(state)
        return Evaluation(tail=total)


def ask(*, traced: bool, delay: float) -> tuple[Statistics, Trace | None, float, float]:
    """One run that asks.

    Returns:
        The tree, its trace, and the seconds of the wall clock and of this thread.
    """
    answers = ScriptedEngine(
        lambda request: str(reward(hash_of(str(request.prompt)))),
        delay=(lambda _: delay) if delay else None,
    )
    root: Node[str, int] = Node()
    gc.collect()
    with recording() if traced else nullcontext() as trace:
        wall, own = perf_counter(), thread_time()
        asyncio.run(
            search(
                root,
                Asking(TracingEngine(answers)),
                select=select_by_ucb(c=1.0),
                backup=by_sums(gamma=0.9),
                simulations=ITERATIONS,
            )
        )
        if trace is not None:
            encode_trace({}, events=trace.events)
        wall, own = perf_counter() - wall, thread_time() - own
    return statistics(root), trace, wall, own


def statistics(root: Node[Any, int]) -> Statistics:
    """What the search found out."""
    return [(depth, edge.action, edge.visits, edge.value) for depth, edge in edges_below(root)]


def hash_of(text: str) -> int:
    """The same in every process."""
    return int.from_bytes(text.encode()[-8:], "big")


def count(
    *, decisions: int, simulations: int, traced: bool
) -> tuple[Statistics, Trace | None, float]:
    """Decisions in a row, each with a search on what is left of the tree.

    Returns:
        The last tree, its trace, and the seconds of this thread, those of encoding left out.
    """

    async def run() -> Node[int, int]:
        root: Node[int, int] = Node()
        for decision in range(decisions):
            if decision:
                best = max(root.edges or (), key=lambda edge: edge.visits)
                root = advance(root, best.action, best.step or Step(0))
            await search(
                root,
                Counting(),
                select=select_by_puct(c=1.0),
                backup=by_sums(gamma=0.95),
                simulations=simulations,
            )
        return root

    gc.collect()
    with recording() if traced else nullcontext() as trace:
        begun = thread_time()
        root = asyncio.run(run())
        seconds = thread_time() - begun
    return statistics(root), trace, seconds


def same(plain: object, traced: object, what: str) -> None:
    """Checks that both arms computed the same.

    Raises:
        AnswersDifferError: they did not.
    """
    if plain != traced:
        raise AnswersDifferError(f"{what}: the tree is another one with a trace")


def asking() -> Finding:
    """A run that asks a model, encoding included."""
    plain, _, *_ = ask(traced=False, delay=0.0)
    traced, trace, *_ = ask(traced=True, delay=0.0)
    same(plain, traced, "asking")
    questions = sum(event["type"] == "role" for event in trace.events) if trace else 0
    waiting = medians(
        {
            "plain": lambda: ask(traced=False, delay=DELAY)[2],
            "traced": lambda: ask(traced=True, delay=DELAY)[2],
        },
        repeats=REPEATS,
    )
    computing = medians(
        {
            "plain": lambda: ask(traced=False, delay=0.0)[3],
            "traced": lambda: ask(traced=True, delay=0.0)[3],
        },
        repeats=REPEATS,
    )
    return Finding(
        label="a run that asks, answers after 10 ms: with a trace / without",
        measured=waiting["traced"] / waiting["plain"],
        unit="x",
        bound="at most",
        target=MOST,
        details={
            "questions": questions,
            "seconds_without": waiting["plain"],
            "own_us_per_question": (computing["traced"] - computing["plain"]) / questions * 1e6,
            "us_per_question_of_the_script": computing["plain"] / questions * 1e6,
        },
    )


def counting(*, decisions: int, simulations: int) -> Finding:
    """A search that asks nobody; what encoding adds later is among the details."""
    run = partial(count, decisions=decisions, simulations=simulations)
    plain, _, _ = run(traced=False)
    traced, trace, _ = run(traced=True)
    same(plain, traced, f"{decisions} x {simulations}")
    events = trace.events if trace else []
    arms: dict[str, Callable[[], float]] = {
        "plain": lambda: run(traced=False)[2],
        "traced": lambda: run(traced=True)[2],
        "encoding": partial(encoding, events),
    }
    seconds = medians(arms, repeats=REPEATS)
    total = decisions * simulations
    return Finding(
        label=f"simulations that ask nobody, {decisions} x {simulations:,}: with a trace / without",
        measured=seconds["traced"] / seconds["plain"],
        unit="x",
        bound="at most",
        target=MOST,
        details={
            f"us_per_simulation_{decisions}x{simulations}": seconds["plain"] / total * 1e6,
            f"us_more_{decisions}x{simulations}": (seconds["traced"] - seconds["plain"])
            / total
            * 1e6,
            f"us_of_encoding_{decisions}x{simulations}": seconds["encoding"] / total * 1e6,
            f"told_{decisions}x{simulations}": sum(
                event["type"] == "simulation" for event in events
            ),
            f"bytes_{decisions}x{simulations}": len(encode_trace({}, events=events)),
        },
    )


def encoding(events: list[dict[str, Any]]) -> float:
    """Seconds of this thread that encoding takes."""
    begun = thread_time()
    encode_trace({}, events=events)
    return thread_time() - begun


def main() -> None:
    """Runs the comparison and prints it."""
    arguments = parser(__doc__).parse_args()
    findings = [
        asking(),
        counting(decisions=1, simulations=20_000),
        counting(decisions=20, simulations=1_000),
        counting(decisions=1, simulations=1_000),
    ]
    report("tracing", findings, as_json=arguments.json)


if __name__ == "__main__":
    main()
