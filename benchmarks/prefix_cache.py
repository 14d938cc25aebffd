"""How much of its prompts one ToO plan computes: the paper's order of texts against ours.

What the prefix cache finds depends on tokens alone, so a one-layer model with random weights and
the bundled model's tokenizer answers here: it writes valid answers of any content in no time. The
plan is made once, with our order, and its answers are kept. Then the same plan is made in the
paper's order: every prompt is computed by the same engine, and the kept answers stand in for what
it would write, so both plans ask the same questions with the same texts.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bench_engine import copy_words, engine, forget, lengths
from harness import AnswersDifferError, Finding, parser, report

from llm_planning.running import plan
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from llm_serving.request import Completion, Prompt, Request
    from llm_serving.vllm_engine import VllmEngine

PLANNER, TASK = "too", "craft-a-compass"
SETTINGS = {"return": "mean", "first_play": "reward"}
"""k=3, d=12, iter=10 by default; as in A.7, since the literal equations walk one path only."""


class Answers:
    """The engine, keeping its answers by role in the order of asking."""

    def __init__(self, engine: VllmEngine) -> None:
        self.engine = engine
        self.identity = engine.identity
        self.by_role: dict[str, deque[asyncio.Future[Completion]]] = {}
        self.prompts: list[Prompt] = []

    async def generate(self, request: Request) -> Completion:
        """Asks the engine."""
        self.prompts.append(request.prompt)
        kept: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self.by_role.setdefault(request.role, deque()).append(kept)
        completion = await self.engine.generate(request)
        kept.set_result(completion)
        return completion


class Replay:
    """The engine reading every prompt, with kept answers in the place of its own."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.identity = answers.identity
        self.prompts: list[Prompt] = []

    async def generate(self, request: Request) -> Completion:
        """Computes the prompt and hands out the next answer of the role."""
        self.prompts.append(request.prompt)
        kept = self._answers.by_role[request.role].popleft().result()
        await self._answers.engine.generate(
            replace(request, constraint=None, sampling=Sampling(max_tokens=1))
        )
        return kept


def run(opened: VllmEngine, asked: Any, layout: str) -> tuple[Any, dict[str, float]]:  # noqa: ANN401
    """Plans once and counts what vLLM looked up and found."""
    forget(opened)
    before = opened.prefix_cache
    begun = time.perf_counter()
    outcome = asyncio.run(
        plan(PLANNER, TASK, engine=asked, settings={**SETTINGS, "layout": layout})
    )
    seconds = time.perf_counter() - begun
    stats = opened.prefix_cache
    queries, hits = stats.queries - before.queries, stats.hits - before.hits
    return outcome, {
        "prompt_tokens": queries,
        "computed": queries - hits,
        "hit_rate": hits / queries,
        "seconds": seconds,
        **lengths(opened, asked.prompts),
    }


def random_model(folder: Path) -> None:
    """Writes a one-layer Llama with the bundled model's tokenizer and random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=8192,
            **copy_words(folder),
        )
    ).save_pretrained(folder)


def main() -> None:
    """Compares the plans, then reports."""
    arguments = parser(__doc__).parse_args()
    with TemporaryDirectory() as folder:
        random_model(Path(folder))
        with engine(model=folder) as opened:
            measure(opened, as_json=arguments.json)


def measure(opened: VllmEngine, *, as_json: bool) -> None:
    """Makes the plan in both orders and reports."""
    answers = Answers(opened)
    ours, cached = run(opened, answers, "cached")
    theirs, paper = run(opened, Replay(answers), "paper")
    block = opened.block_size
    if ours.plan != theirs.plan or ours.text != theirs.text:
        raise AnswersDifferError("the two orders did not ask the same questions")
    findings = [
        Finding(
            label="prompt tokens computed in the paper's order over ours",
            measured=paper["computed"] / cached["computed"],
            unit="x",
            bound="at least",
            target=2,
            details={
                "block_size": block,
                "hit_rate_goal": 0.75,
                "calls": len(answers.prompts),
                **{f"ours_{key}": value for key, value in cached.items()},
                **{f"paper_{key}": value for key, value in paper.items()},
            },
        ),
    ]
    report("prefix_cache", findings, as_json=as_json)


if __name__ == "__main__":
    main()
