"""The engine protocol, the meter of usage, and functions for any engine."""

# ruff: noqa: ARG002 - an engine's refusals read no arguments

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from llm_serving.checked_engine import CheckedEngine
from llm_serving.errors import UnableError
from llm_serving.request import Request, ScoreRequest, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from llm_serving.request import (
        Ability,
        Completion,
        EncodedPrompt,
        ModelIdentity,
        Prompt,
        Scores,
    )

AskedT = TypeVar("AskedT", Request, ScoreRequest)

BLOCK = 32
"""B of `filled`: fixed, so that prompts are the same on every engine. vLLM's block has 32 tokens on
a CPU and 16 on a GPU; with other blocks less is gained."""


class Engine(Protocol):
    """Answers requests of many callers at once.

    Every method may be awaited by any number of coroutines at the same time: an engine batches
    what is asked at one moment. Any class with these members is an engine. One that inherits from
    this class refuses by `UnableError` what it does not define. Planners ask through a
    `CheckedEngine`, which refuses what is not as it has to be.

    Attributes:
        identity: which weights answer.
        abilities: what it can be asked for.

    Example:
        >>> import asyncio
        >>> from llm_serving import Engine, Request, ScriptedEngine
        >>> async def ask_twice(engine: Engine, prompt: str) -> list[str]:
        ...     asked = (engine.generate(Request(prompt=prompt)) for _ in range(2))
        ...     return [answer.text for answer in await asyncio.gather(*asked)]
        >>> asyncio.run(ask_twice(ScriptedEngine({"default": "north"}), "Which way?"))
        ['north', 'north']
    """

    identity: ModelIdentity
    abilities: frozenset[Ability]

    def encode(self, prompt: Prompt) -> EncodedPrompt:
        """Applies the chat template and the tokenizer; an encoded prompt stays as it is.

        Raises:
            ServingError: the engine cannot encode this prompt. `TooManyImagesError`: it holds more
                images than the configuration allows. `RequestFailedError`: the chat template fails.
        """
        raise UnableError(_lacks(self, "reads no prompts"))

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens, those of the chat template included: what `encode` was given.

        Raises:
            ServingError: the engine cannot decode.
        """
        raise UnableError(_lacks(self, "writes no text"))

    async def generate(self, request: Request) -> Completion:
        """Writes one answer.

        Raises:
            AdapterError: the engine has no such adapter as the request names.
            PromptTooLongError: prompt and longest answer exceed the context.
            RequestFailedError: the engine failed on this request.
            EngineStoppedError: the engine is closed or died.
        """
        raise UnableError(_lacks(self, "answers no questions"))

    async def score(self, request: ScoreRequest) -> Scores:
        """Exact log-probabilities of choices, in nats.

        Raises:
            AdapterError: the engine has no such adapter as the request names.
            ValueError: there is no choice, or an empty one.
            LabelError: a label has several tokens.
            RequestFailedError: two choices are the same to the model's tokenizer.
            PromptTooLongError: prompt and longest choice exceed the context.
            EngineStoppedError: the engine is closed or died.
        """
        raise UnableError(_lacks(self, "gives no log-probabilities"))

    async def embed(self, texts: Sequence[str], *, role: str = "embed") -> NDArray[np.float32]:
        """Unit vectors of texts, shape [texts, dimension].

        Raises:
            TextError: a text has no embedding: it is empty or not valid Unicode.
            EngineStoppedError: the engine is closed.
        """
        raise UnableError(_lacks(self, "embeds no texts"))

    async def aclose(self) -> None:
        """Stops the engine; callers still waiting get `EngineStoppedError`."""


def _lacks(engine: Engine, lacking: str) -> str:
    return f"the model {engine.identity.name!r} {lacking}: name a model that does"


class MeteredEngine(CheckedEngine):
    """The same engine, checked, with the usage of one planner, trial or session.

    An embedding counts as a call without its time: seconds are those of the answers.

    Args:
        engine: answers. It stays open when the metered one is closed.
        adapter: answers every request in the place of the base model; None leaves requests alone.

    Attributes:
        usage: of each role, in the order in which roles first asked.

    Raises:
        AdapterError: the engine has no such adapter.

    Example:
        >>> import asyncio
        >>> from llm_serving import MeteredEngine, Request, ScriptedEngine
        >>> metered = MeteredEngine(ScriptedEngine({"judge": "yes"}))
        >>> answer = asyncio.run(metered.generate(Request(prompt="Is it done?", role="judge")))
        >>> metered.usage["judge"].calls
        1
    """

    def __init__(self, engine: Engine, *, adapter: str | None = None) -> None:
        super().__init__(engine)
        if adapter is not None:
            self.identity = engine.identity.answering(adapter)
        self.usage: dict[str, Usage] = {}
        self._adapter = adapter

    async def generate(self, request: Request) -> Completion:
        """Writes one answer and counts it."""
        completion = await super().generate(self._addressed(request))
        self._count(request.role, completion.usage)
        return completion

    async def score(self, request: ScoreRequest) -> Scores:
        """Scores choices and counts it."""
        scores = await super().score(self._addressed(request))
        self._count(request.role, scores.usage)
        return scores

    async def embed(self, texts: Sequence[str], *, role: str = "embed") -> NDArray[np.float32]:
        """Embeds texts and counts a call."""
        vectors = await super().embed(texts, role=role)
        self._count(role, Usage(calls=1))
        return vectors

    async def aclose(self) -> None:
        """Leaves the shared engine alone: its owner closes it."""

    def _addressed(self, request: AskedT) -> AskedT:
        if self._adapter is None:
            return request
        self.identity.answering(request.adapter)
        return replace(request, adapter=self._adapter)

    def _count(self, role: str, usage: Usage) -> None:
        self.usage[role] = self.usage.get(role, Usage()) + usage


async def draw(engine: Engine, request: Request, n: int) -> list[Completion]:
    """Draws n seeded samples of one request, batched together.

    Args:
        request: its `sample` is the index of the first draw.
        n: number of draws; draw i has sample index `request.sample + i`.

    Returns:
        n completions in the order of their sample index.

    Example:
        >>> import asyncio
        >>> from llm_serving import Request, ScriptedEngine, draw
        >>> engine = ScriptedEngine(lambda request: f"answer {request.sample}")
        >>> drawn = asyncio.run(draw(engine, Request(prompt="Go on."), 2))
        >>> [completion.text for completion in drawn]
        ['answer 0', 'answer 1']
    """
    draws = (replace(request, sample=request.sample + i) for i in range(n))
    return list(await asyncio.gather(*(engine.generate(draw) for draw in draws)))


def filled(engine: Engine, write: Callable[[int], Prompt]) -> EncodedPrompt:
    """The prompt with as much filler as makes it B m + 1 tokens long.

    The prefix cache keeps whole blocks. Choices that are scored after a prompt of P tokens each
    compute its last P mod B tokens again: 15 or 16 on average, beside choices of four or five. A
    prompt of B m + 1 tokens leaves one, its last, whose output is the first that scoring reads.

    Args:
        engine: its tokenizer counts the tokens.
        write: writes the prompt with a filler of so many tokens, at least one.

    Returns:
        The shortest such prompt; the prompt with one token of filler where this tokenizer does not
        make one token of each.
    """
    least = engine.encode(write(1))
    more = (1 - len(least.token_ids)) % BLOCK
    if more == 0:
        return least
    fitting = engine.encode(write(1 + more))
    return fitting if len(fitting.token_ids) % BLOCK == 1 else least
