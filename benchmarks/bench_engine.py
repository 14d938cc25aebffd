"""The engine that the benchmarks on the bundled model share, and what they ask it."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from harness import parser

from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.tasks import TASKS
from llm_planning.execution.option_prompts import NOW, PREDICTED
from llm_planning.execution.options import OptionState
from llm_planning.gpu_check.finding import set_vllm_arguments
from llm_planning.gpu_check.unweighted import SEVEN_BILLION
from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.roles import OptionQuestion
from llm_planning.planners.tree_of_options.settings import FeasibleSearchSettings
from llm_planning.roles import Engines
from llm_serving.config import EngineConfig
from llm_serving.models import resolve
from llm_serving.scoring import plain_scores as scored_plainly
from llm_serving.vllm_arguments import on_gpu
from llm_serving.vllm_engine import VllmEngine

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Iterator, Sequence

    from llm_serving.config import StructuredBackend
    from llm_serving.engine import Engine
    from llm_serving.request import EncodedPrompt, Message

T = TypeVar("T")
MODEL = "smollm2-135m-instruct"
SEVEN_B = "7b-unweighted"
"""Qwen2.5-VL-7B's text layers with random weights, and the bundled model's words."""

OPTIONS = (
    Option("mine", 3, "oak_log"),
    Option("craft", 4, "oak_planks"),
    Option("craft", 4, "stick"),
    Option("craft", 1, "wooden_pickaxe"),
    Option("mine", 8, "cobblestone"),
    Option("craft", 1, "furnace"),
    Option("mine", 3, "iron_ore"),
    Option("smelt", 3, "iron_ore"),
)


def engine_parser(description: str | None) -> argparse.ArgumentParser:
    """Command line of a benchmark whose engine may be another one."""
    result = parser(description)
    result.add_argument("--model", default=MODEL, help=f"a model, or {SEVEN_B}; default: {MODEL}")
    result.add_argument(
        "--dtype",
        default="auto" if on_gpu() else "float32",
        help="of the weights; default: auto on a GPU, else float32, where batch shapes tip no tie",
    )
    return result


@contextmanager
def engine(
    backend: StructuredBackend = "outlines", *, model: str = MODEL, dtype: str = "float32"
) -> Iterator[VllmEngine]:
    """A model without a response cache."""
    with TemporaryDirectory() as folder:
        if model == SEVEN_B:
            write_seven_b(Path(folder))
            set_vllm_arguments(load_format="dummy")
            model = folder
        opened = VllmEngine(
            EngineConfig.model_validate(
                {"model": model, "dtype": dtype, "context": 8192, "structured_backend": backend}
            )
        )
        try:
            yield opened
        finally:
            opened.close()


def copy_words(folder: Path) -> dict[str, Any]:
    """Copies the bundled model's tokenizer; returns what its configuration says of tokens."""
    bundled = resolve(MODEL).path
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(bundled / name, folder / name)
    given = json.loads((bundled / "config.json").read_text(encoding="utf-8"))
    return {key: given[key] for key in ("vocab_size", "bos_token_id", "eos_token_id")}


def write_seven_b(folder: Path) -> None:
    """Writes everything of a model but its weights."""
    from safetensors.numpy import save_file
    from transformers import Qwen2Config

    sizes = {key: value for key, value in SEVEN_BILLION.text.items() if key != "rope_parameters"}
    config = Qwen2Config(**copy_words(folder) | sizes | {"tie_word_embeddings": False})
    config.architectures = ["Qwen2ForCausalLM"]
    config.save_pretrained(folder)
    save_file({}, folder / "model.safetensors")


def option_states(count: int) -> list[OptionState[Any, Any]]:
    """So many different τ: the eight tasks after 0, 1, 2, ... options."""
    tasks = list(TASKS.values())
    return [
        OptionState(
            tasks[i % len(tasks)].goal,
            tasks[i % len(tasks)].start,
            options=OPTIONS[: i // len(tasks)],
        )
        for i in range(count)
    ]


def role_calls(engine: Engine, role: str, count: int) -> list[Awaitable[object]]:
    """So many different questions of one ToO role, at the paper's k; nobody is asked yet."""
    settings = FeasibleSearchSettings()
    ask: OptionAsking[Any, Any] = OptionAsking(Minecraft(), Engines(engine), settings, seed=0)
    taus = option_states(count)
    considered = [
        OptionQuestion(tau, OPTIONS[i % len(OPTIONS)], "something is missing")
        for i, tau in enumerate(taus)
    ]
    asked = ask.by_name([role], settings.k, moment=NOW, judged=PREDICTED)[role]
    about = taus if role in {"propose", "termination"} else considered
    return [asked(question) for question in about]


def timed(work: Awaitable[T]) -> tuple[T, float]:
    """Runs a coroutine; returns its result and its seconds."""

    async def run() -> tuple[T, float]:
        begun = time.perf_counter()
        result = await work
        return result, time.perf_counter() - begun

    return asyncio.run(run())


async def together(work: Sequence[Awaitable[T]]) -> list[T]:
    """Awaits everything at the same moment."""
    return list(await asyncio.gather(*work))


async def in_turn(work: Sequence[Awaitable[T]]) -> list[T]:
    """Awaits one after the other."""
    return [await call for call in work]


async def plain_scores(
    engine: VllmEngine, prompt: EncodedPrompt, choices: Sequence[str]
) -> tuple[list[float], int]:
    """One request per choice with `prompt_logprobs`, as vLLM offers it.

    They switch vLLM's prefix cache off, so the prompt is computed again for every choice.

    Returns:
        log-probabilities of the choices with their terminators, shape [choices], and the number of
        tokens computed.
    """
    sequences = [engine.own_tokens(choice, behind=prompt.token_ids) for choice in choices]
    scored = await scored_plainly(engine.submit, prompt, sequences, ends=engine.ends)
    return scored.logprobs, sum(result.prompt_tokens for result in scored.results)


def forget(engine: VllmEngine) -> None:
    """Empties the prefix cache before an arm."""
    if not asyncio.run(engine.forget_prefixes()):
        raise RuntimeError("requests in flight still hold the prefix cache")


def lengths(engine: VllmEngine, prompts: Sequence[str | tuple[Message, ...]]) -> dict[str, int]:
    """Shortest and longest prompt, in tokens."""
    tokens = [len(engine.encode(prompt).token_ids) for prompt in prompts]
    return {"prompt_tokens_least": min(tokens), "prompt_tokens_most": max(tokens)}
