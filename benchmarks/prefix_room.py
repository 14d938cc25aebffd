"""Trials whose histories grow beyond the prefix cache: all at once, and by turns (`PrefixRoom`).

Each of eight trials asks six times which of three actions is next. Every question begins with all
that the trial asked before. Answers are compared before anything is timed.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeAlias

from harness import AnswersDifferError, Finding, medians, parser, report

from llm_planning.experiments.prefix_room import PrefixRoom
from llm_planning.roles import Engines
from llm_serving.config import EngineConfig
from llm_serving.request import Message, ScoreRequest
from llm_serving.vllm_engine import VllmEngine

if TYPE_CHECKING:
    from llm_serving.engine import Engine

TRIALS, TURNS, TOLERANCE, REPEATS = 8, 6, 1e-3, 1
GIB = 0.09
"""Of the KV cache: some 2,100 tokens of this model in float32."""

ACTIONS = ("go north", "open the door", "wait")

Answers: TypeAlias = list[list[tuple[float, ...]]]


async def trial(engine: Engine, number: int) -> list[tuple[float, ...]]:
    """The log-probabilities of the actions, turn after turn; shape [turns][actions]."""
    messages = [Message("system", f"You are player {number} of a text game. Name one action.")]
    found = []
    for turn in range(TURNS):
        seen = f"Turn {turn}: room {(7 * number + turn) % 31} of {31 + number} is dark and wet. "
        messages.append(Message("user", f"{seen * 4}What do you do?"))
        scores = await engine.score(ScoreRequest(prompt=tuple(messages), choices=ACTIONS))
        found.append(scores.logprobs)
        messages.append(Message("assistant", ACTIONS[(number + turn) % len(ACTIONS)]))
    return found


async def at_once(engine: VllmEngine) -> Answers:
    """All trials ask whenever they want to."""
    return await asyncio.gather(*(trial(engine, number) for number in range(TRIALS)))


async def in_turn(engine: VllmEngine) -> Answers:
    """Those that began first ask, as many as the cache has room for."""
    room = PrefixRoom(engine.load().cache_tokens)

    async def paced(number: int) -> list[tuple[float, ...]]:
        with room.trial(Engines(engine)) as engines:
            return await trial(engines.default, number)

    return await asyncio.gather(*(paced(number) for number in range(TRIALS)))


def main() -> None:
    """Compares the numbers, then measures and reports."""
    arguments = parser(__doc__).parse_args()
    opened = VllmEngine(
        EngineConfig(model="smollm2-135m-instruct", dtype="float32", context=1024, kv_cache_gib=GIB)
    )
    arms = {"at once": at_once, "in turn": in_turn}
    answers: dict[str, Answers] = {}
    computed: dict[str, int] = {}

    def run(name: str) -> float:
        asyncio.run(opened.forget_prefixes())
        before, begun = opened.load(), time.perf_counter()
        answers[name] = asyncio.run(arms[name](opened))
        seconds, after = time.perf_counter() - begun, opened.load()
        read, cached = (
            getattr(after, key) - getattr(before, key) for key in ("prompt_tokens", "cached_tokens")
        )
        computed[name] = read - cached
        return seconds

    try:
        for name in arms:
            run(name)
        gap = max(
            abs(a - b)
            for one, other in zip(answers["at once"], answers["in turn"], strict=True)
            for first, second in zip(one, other, strict=True)
            for a, b in zip(first, second, strict=True)
        )
        if gap > TOLERANCE:
            raise AnswersDifferError(f"nats apart: {gap}")
        seconds = medians({name: lambda name=name: run(name) for name in arms}, repeats=REPEATS)
        held = opened.load().cache_tokens
    finally:
        opened.close()
    finding = Finding(
        label="seconds of trials that ask at once over those of trials in turn",
        measured=seconds["at once"] / seconds["in turn"],
        unit="x",
        bound="at least",
        target=2,
        details={
            **{f"seconds, {name}": value for name, value in seconds.items()},
            **{f"tokens computed, {name}": count for name, count in computed.items()},
            "tokens that the cache holds": held,
            "gap in nats": gap,
        },
    )
    report("prefix_room", [finding], as_json=arguments.json)


if __name__ == "__main__":
    main()
