"""Exact log-probabilities of action strings: what scoring costs beside bare forwards.

8 states x 15 multi-token actions, each with its terminator. Bare forwards answer prompts that share
nothing with one token each, as many prompt tokens as the scoring computes. Before anything is
timed, some states are scored by plain `prompt_logprobs` and all of them by the trie, and the scores
are the same. Plain `prompt_logprobs` switches vLLM's prefix cache off, so it computes every prompt
again for every action.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from bench_engine import engine, engine_parser, forget, lengths, plain_scores, timed, together
from harness import AnswersDifferError, Finding, medians, report

from llm_serving.request import Message
from llm_serving.scoring import trie_scores
from llm_serving.vllm_adapter import VllmJob, sampling_params
from llm_serving.vllm_engine import AGREEMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from llm_serving.scoring import Way
    from llm_serving.vllm_engine import VllmEngine

STATES, REPEATS = 8, 3
PLAIN_STATES = 2
"""So many are scored plainly, which takes longest."""
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

T = TypeVar("T")
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
    """The first states, one request per action, as vLLM offers it.

    Returns:
        log-probabilities, shape [states][actions], and the number of tokens computed.
    """
    rows = await together(
        [
            plain_scores(engine, engine.encode(prompt), ACTIONS)
            for prompt in prompts()[:PLAIN_STATES]
        ]
    )
    return [scores for scores, _ in rows], sum(count for _, count in rows)


async def bare(engine: VllmEngine, tokens: int) -> int:
    """Prompts as long as ours, none of which begins like another one, answered with a token each.

    Args:
        engine: with an empty prefix cache.
        tokens: of all prompts.

    Returns:
        the number of tokens computed.
    """
    rng = random.Random(0)
    words = engine.encode(prompts()[0]).token_ids
    lengths = [len(words)] * (tokens // len(words)) + [tokens % len(words)]
    params = (
        sampling_params(
            temperature=0.0,
            top_p=1.0,
            max_tokens=1,
            seed=None,
            stop=(),
            regex=None,
            ends=engine.ends,
        )
        for _ in lengths
    )
    results = await together(
        [
            engine.submit(VllmJob(tuple(rng.sample(words, length)), (), each))
            for length, each in zip(lengths, params, strict=True)
            if length
        ]
    )
    return sum(result.prompt_tokens - result.cached_tokens for result in results)


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

        def run(work: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, float]:
            forget(opened)
            return timed(work())

        def ask() -> Coroutine[Any, Any, tuple[Scores, int]]:
            return ours(opened, opened.fast_scores)

        (scores, computed), _ = run(ask)
        (by_plain, plain_computed), plain_seconds = run(lambda: plain(opened))
        (by_trie, trie_computed), trie_seconds = run(lambda: ours(opened, trie_scores))
        gaps = {"plain": _gap(by_plain, scores[:PLAIN_STATES]), "trie": _gap(by_trie, scores)}
        if max(gaps.values()) > AGREEMENT[opened.identity.dtype]:
            raise AnswersDifferError(f"nats apart: {gaps}")
        bare_computed, _ = run(lambda: bare(opened, computed))
        if bare_computed != computed:
            raise AnswersDifferError(f"{bare_computed} tokens were computed, not {computed}")
        seconds = medians(
            {"ours": lambda: run(ask)[1], "bare": lambda: run(lambda: bare(opened, computed))[1]},
            repeats=REPEATS,
        )
        (_, computed_long), _ = run(lambda: ours(opened, opened.fast_scores, walks=LONG_WALKS))
        forwards = {
            walks: sum(len(opened.encode(prompt).token_ids) for prompt in prompts(walks=walks))
            for walks in (12, LONG_WALKS)
        }
        sizes = lengths(opened, prompts())
    seconds_a_state = {
        "ours": seconds["ours"] / STATES,
        "plain": plain_seconds / PLAIN_STATES,
        "trie": trie_seconds / STATES,
    }
    findings = [
        Finding(
            label="tokens computed a second, exact scoring over bare forwards of as many",
            measured=seconds["bare"] / seconds["ours"],
            unit="x",
            bound="at least",
            target=0.6,
            details={
                **{f"ms_a_state_{name}": value * 1e3 for name, value in seconds_a_state.items()},
                "tokens_a_second": computed / seconds["ours"],
                "tokens_a_second_bare": computed / seconds["bare"],
                **{f"gap_nats_{name}": gap for name, gap in gaps.items()},
                "dtype": opened.identity.dtype,
                "way": opened.fast_scores.__name__,
                "block_size": opened.block_size,
                "states": STATES,
                "actions": len(ACTIONS),
                **sizes,
            },
        ),
        Finding(
            label="tokens computed over one forward of each prompt",
            measured=computed / forwards[12],
            unit="x",
            bound="at most",
            target=1.81,
            details={
                "tokens_computed": computed,
                "plain": plain_computed / forwards[12] * STATES / PLAIN_STATES,
                "trie": trie_computed / forwards[12],
                "long_prompt_tokens": forwards[LONG_WALKS] // STATES,
                "long": computed_long / forwards[LONG_WALKS],
            },
        ),
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
