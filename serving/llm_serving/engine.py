"""The protocol that every engine speaks, and the wrapper that counts what one caller spent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from llm_serving.request import (
        Completion,
        EncodedPrompt,
        ModelIdentity,
        Prompt,
        Request,
        Scores,
    )


class Counters:
    """Usage by role, in the order in which roles first spoke."""

    def __init__(self) -> None:
        self._roles: dict[str, Usage] = {}

    def record(self, role: str, usage: Usage) -> None:
        """Adds one call's usage to its role."""
        self._roles[role] = self._roles.get(role, Usage()) + usage

    @property
    def roles(self) -> Mapping[str, Usage]:
        """Usage of each role."""
        return self._roles

    @property
    def total(self) -> Usage:
        """Usage of all roles together."""
        return sum(self._roles.values(), Usage())


class Engine(Protocol):
    """Answers requests of many callers at once; every method may be awaited concurrently."""

    @property
    def identity(self) -> ModelIdentity:
        """Which weights answer."""
        ...

    @property
    def counters(self) -> Counters:
        """What was asked of this engine so far."""
        ...

    def encode(self, prompt: Prompt) -> EncodedPrompt:
        """Applies the chat template and the tokenizer."""
        ...

    async def generate(self, request: Request) -> Completion:
        """Writes one answer.

        Raises:
            PromptTooLongError: prompt and longest answer exceed the context.
            EngineStoppedError: the engine is closed or died.
        """
        ...

    async def score(self, prompt: Prompt, choices: Sequence[str], *, role: str = "score") -> Scores:
        """Exact log p(choice, terminator | prompt) of each choice, in nats."""
        ...

    async def score_labels(
        self, prompt: Prompt, labels: Sequence[str], *, role: str = "score"
    ) -> Scores:
        """Exact log p(label | prompt) of labels that are one token each, without a terminator."""
        ...

    async def embed(self, texts: Sequence[str], *, role: str = "embed") -> NDArray[np.float32]:
        """Unit vectors of texts, shape [texts, dimension]."""
        ...

    async def aclose(self) -> None:
        """Stops the engine; callers still waiting get `EngineStoppedError`."""
        ...


class MeteredEngine:
    """The same engine with counters of its own: what one planner, trial or session spent."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.counters = Counters()

    @property
    def identity(self) -> ModelIdentity:
        """Which weights answer."""
        return self._engine.identity

    def encode(self, prompt: Prompt) -> EncodedPrompt:
        """Applies the chat template and the tokenizer."""
        return self._engine.encode(prompt)

    async def generate(self, request: Request) -> Completion:
        """Writes one answer and counts it."""
        completion = await self._engine.generate(request)
        self.counters.record(request.role, completion.usage)
        return completion

    async def score(self, prompt: Prompt, choices: Sequence[str], *, role: str = "score") -> Scores:
        """Scores choices and counts it."""
        scores = await self._engine.score(prompt, choices, role=role)
        self.counters.record(role, scores.usage)
        return scores

    async def score_labels(
        self, prompt: Prompt, labels: Sequence[str], *, role: str = "score"
    ) -> Scores:
        """Scores labels and counts it."""
        scores = await self._engine.score_labels(prompt, labels, role=role)
        self.counters.record(role, scores.usage)
        return scores

    async def embed(self, texts: Sequence[str], *, role: str = "embed") -> NDArray[np.float32]:
        """Embeds texts and counts it as one call."""
        vectors = await self._engine.embed(texts, role=role)
        self.counters.record(role, Usage(calls=1))
        return vectors

    async def aclose(self) -> None:
        """Leaves the shared engine alone: its owner closes it."""


async def draw(engine: Engine, request: Request, n: int) -> list[Completion]:
    """Draws n seeded samples of one request, batched together.

    Args:
        engine: who answers.
        request: its `sample` is the index of the first draw.
        n: number of draws; draw i has sample index `request.sample + i`.

    Returns:
        n completions in the order of their sample index.
    """
    draws = (replace(request, sample=request.sample + i) for i in range(n))
    return list(await asyncio.gather(*(engine.generate(one) for one in draws)))
