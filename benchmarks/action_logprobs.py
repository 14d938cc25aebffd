"""Exact log-probabilities of action strings: both of ours beside plain `prompt_logprobs`.

8 states x 15 multi-token actions, each with its terminator. Plain `prompt_logprobs` switches
vLLM's prefix cache off, so it computes every prompt again for every action. All three give the same
numbers, or nothing is timed.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeAlias

from bench_engine import engine, engine_parser, forget, lengths, plain_scores, together
from harness import AnswersDifferError, Finding, medians, report

from llm_serving.request import Message
from llm_serving.scoring import trie_scores
from llm_serving.vllm_engine import AGREEMENT

if TYPE_CHECKING:
    from llm_serving.scoring import Way
    from llm_serving.vllm_engine import VllmEngine

STATES, REPEATS = 8, 3
LONG_WALKS = 60
"""Walks that make a prompt of 1,000 tokens."""
ROOMS = ("cellar", "kitchen", "attic", "forest", "temple", "gallery", "canyon", "shore")
ACTIONS = (
    "open the trap door", "open the trap", "take the brass lamp", "light the brass lamp",
    "go north", "go south", "go east", "go down the stairs", "eat the hot pepper sandwich",
    "unlock the grating with the skeleton key", "read the leaflet in the mailbox",
    "put the jewelled egg in the trophy case", "attack the troll with the sword",
    "climb the tree", "examine the painting on the wall",
)  # fmt: skip

Scores: TypeAlias = list[list[float]]


def prompts(*, walks: int = 12) -> list[tuple[Message, ...]]:
    """One state of a text game each; 12 walks make the length that a planner's prompts have."""
    rules = (
        "You play a text adventure. Every turn you choose one action that leads to more points. "
    )
    past = "You walked on, looked around, and found nothing of use so far. " * walks
    return [
        (
            Message("system", rules * 4),
            Message("user", f"{past}You are in the {room}. A lamp hangs here. What do you do?"),
        )
        for room in ROOMS
    ]


async def plain(engine: VllmEngine) -> tuple[Scores, int]:
    """One request per action, as vLLM offers it.

    Returns:
        log-probabilities, shape [states][actions], and the number of tokens computed.
    """
    rows = await together(
        [plain_scores(engine, engine.encode(prompt), ACTIONS) for prompt in prompts()]
    )
    return [scores for scores, _ in rows], sum(count for _, count in rows)


async def ours(engine: VllmEngine, way: Way, *, walks: int = 12) -> tuple[Scores, int]:
    """All states at once, the actions of each by one of the exact strategies; as `plain`."""
    sequences = [engine.own_tokens(action) for action in ACTIONS]
    scored = await asyncio.gather(
        *(
            way(engine.submit, engine.encode(prompt), sequences, ends=engine.ends)
            for prompt in prompts(walks=walks)
        )
    )
    computed = sum(
        result.prompt_tokens - result.cached_tokens
        for scores in scored
        for result in scores.results
    )
    return [scores.logprobs for scores in scored], computed


def main() -> None:
    """Compares the numbers, then measures and reports."""
    arguments = engine_parser(__doc__).parse_args()
    with engine(model=arguments.model, dtype=arguments.dtype) as opened:
        arms = {
            "plain": lambda: plain(opened),
            "tail": lambda: ours(opened, opened.fast_scores),
            "trie": lambda: ours(opened, trie_scores),
        }
        scores: dict[str, Scores] = {}
        computed: dict[str, int] = {}

        def run(name: str) -> float:
            forget(opened)
            begun = time.perf_counter()
            scores[name], computed[name] = asyncio.run(arms[name]())
            return time.perf_counter() - begun

        first = {name: run(name) for name in arms}
        gaps = {name: _gap(scores["plain"], scores[name]) for name in ("tail", "trie")}
        if max(gaps.values()) > AGREEMENT[opened.identity.dtype]:
            raise AnswersDifferError(f"nats apart from prompt_logprobs: {gaps}")
        seconds = {"plain": first["plain"]} | medians(
            {name: (lambda name=name: run(name)) for name in ("tail", "trie")}, repeats=REPEATS
        )
        sizes = lengths(opened, prompts())
        forget(opened)
        _, computed_long = asyncio.run(ours(opened, opened.fast_scores, walks=LONG_WALKS))
        forwards = {
            walks: sum(len(opened.encode(prompt).token_ids) for prompt in prompts(walks=walks))
            for walks in (12, LONG_WALKS)
        }
    findings = [
        Finding(
            label="tail scoring over plain prompt_logprobs",
            measured=seconds["plain"] / seconds["tail"],
            unit="x",
            bound="at least",
            target=25,
            details={
                **{f"seconds_{name}": value for name, value in seconds.items()},
                **{f"gap_nats_{name}": gap for name, gap in gaps.items()},
                "trie_over_plain": seconds["plain"] / seconds["trie"],
                **{f"tokens_computed_{name}": count for name, count in computed.items()},
                "computed_over_one_forward": computed["tail"] / forwards[12],
                "long_prompt_tokens": forwards[LONG_WALKS] // STATES,
                "long_computed_over_one_forward": computed_long / forwards[LONG_WALKS],
                "dtype": opened.identity.dtype,
                "way": opened.fast_scores.__name__,
                "block_size": opened.block_size,
                "states": STATES,
                "actions": len(ACTIONS),
                **sizes,
            },
        )
    ]
    report("action_logprobs", findings, as_json=arguments.json)


def _gap(scores: Scores, other: Scores) -> float:
    return max(
        abs(a - b)
        for row, others in zip(scores, other, strict=True)
        for a, b in zip(row, others, strict=True)
    )


if __name__ == "__main__":
    main()
