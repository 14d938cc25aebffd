"""The engine that the benchmarks on the bundled model share, and what they ask it."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.tasks import TASKS
from llm_planning.execution.option_prompts import NOW, PREDICTED
from llm_planning.execution.options import OptionState
from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.roles import OptionQuestion
from llm_planning.planners.tree_of_options.settings import FeasibleSearchSettings
from llm_planning.roles import Engines
from llm_serving.config import EngineConfig
from llm_serving.scoring import plain_scores as scored_plainly
from llm_serving.vllm_engine import VllmEngine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence

    from llm_serving.config import StructuredBackend
    from llm_serving.engine import Engine
    from llm_serving.request import EncodedPrompt, Message

T = TypeVar("T")
MODEL = "smollm2-135m-instruct"
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


@contextmanager
def engine(backend: StructuredBackend = "outlines", *, model: str = MODEL) -> Iterator[VllmEngine]:
    """A model without a response cache; float32, so that batch shapes tip no tie."""
    opened = VllmEngine(
        EngineConfig(model=model, dtype="float32", context=8192, structured_backend=backend)
    )
    try:
        yield opened
    finally:
        opened.close()


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
    match role:
        case "propose":
            propose = ask.propose(settings.k, NOW)
            return [propose(tau) for tau in taus]
        case "termination":
            termination = ask.of(ask.roles.termination(NOW))
            return [termination(tau) for tau in taus]
        case "dynamics":
            dynamics = ask.of(ask.roles.dynamics())
            return [dynamics(transition) for transition in considered]
        case "reward":
            reward = ask.of(ask.roles.reward(PREDICTED))
            return [reward(transition) for transition in considered]
        case "feasibility":
            feasibility = ask.of(ask.roles.feasibility(NOW))
            return [feasibility(transition) for transition in considered]
        case "repair":
            repair = ask.of(ask.roles.repair(NOW))
            return [repair(transition) for transition in considered]
    raise ValueError(f"ToO has no role {role!r}")


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
    sequences = [engine.own_tokens(choice) for choice in choices]
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
