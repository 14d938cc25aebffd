"""The engine protocol, the counting of usage, and functions for any engine."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


BLOCK = 32
"""B of `filled`: fixed, so that prompts are the same on every engine. vLLM's block has 32 tokens on
a CPU and 16 on a GPU; with other blocks less is gained."""


class Counters:
    """Usage by role, in the order in which roles first asked."""

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
    """Answers requests of many callers at once.

    Every method may be awaited by any number of coroutines at the same time: an engine batches
    what is asked at one moment. Any class with these methods is an engine; it need not inherit from
    anything.

    Example:
        >>> import asyncio
        >>> from llm_serving import Engine, Request, ScriptedEngine
        >>> async def ask_twice(engine: Engine, prompt: str) -> list[str]:
        ...     asked = (engine.generate(Request(prompt=prompt)) for _ in range(2))
        ...     return [one.text for one in await asyncio.gather(*asked)]
        >>> asyncio.run(ask_twice(ScriptedEngine({"default": "north"}), "Which way?"))
        ['north', 'north']
    """

    @property
    def identity(self) -> ModelIdentity:
        """Which weights answer."""
        ...

    @property
    def counters(self) -> Counters:
        """What was asked of this engine so far."""
        ...

    def encode(self, prompt: Prompt) -> EncodedPrompt:
        """Applies the chat template and the tokenizer; an encoded prompt stays as it is.

        Raises:
            ServingError: the engine cannot encode this prompt. `TooManyImagesError`: it holds more
                images than the configuration allows. `RequestFailedError`: the chat template fails.
                `NoModelError`: the engine has no tokenizer.
        """
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens, those of the chat template included: what `encode` was given.

        Raises:
            ServingError: the engine cannot decode.
        """
        ...

    async def generate(self, request: Request) -> Completion:
        """Writes one answer.

        Raises:
            AdapterError: the engine has no such adapter as the request names.
            PromptTooLongError: prompt and longest answer exceed the context.
            RequestFailedError: the engine failed on this request.
            EngineStoppedError: the engine is closed or died.
        """
        ...

    async def score(
        self,
        prompt: Prompt,
        choices: Sequence[str],
        *,
        role: str = "score",
        adapter: str | None = None,
    ) -> Scores:
        """Exact log p(choice, terminator | prompt) of each choice, in nats.

        Args:
            prompt: what the choices answer.
            choices: action strings; equal ones are scored once. A choice is tokenised by itself,
                as the text that follows the prompt's last token.
            role: whose question this is.
            adapter: name of the engine's adapter that scores; None asks the base model.

        Raises:
            AdapterError: the engine has no such adapter.
            ValueError: there is no choice, or an empty one.
            PromptTooLongError: prompt and longest choice exceed the context.
            EngineStoppedError: the engine is closed or died.
        """
        ...

    async def score_labels(
        self,
        prompt: Prompt,
        labels: Sequence[str],
        *,
        role: str = "score",
        adapter: str | None = None,
    ) -> Scores:
        """Exact log p(label | prompt) of labels that are one token each, without a terminator.

        Raises:
            AdapterError: the engine has no such adapter.
            ValueError: there is no label, or one of several tokens.
            PromptTooLongError: the prompt fills the context.
            EngineStoppedError: the engine is closed or died.
        """
        ...

    async def embed(self, texts: Sequence[str], *, role: str = "embed") -> NDArray[np.float32]:
        """Unit vectors of texts, shape [texts, dimension].

        Raises:
            TextError: a text has no embedding: it is empty or not valid Unicode.
            EngineStoppedError: the engine is closed.
        """
        ...

    async def aclose(self) -> None:
        """Stops the engine; callers still waiting get `EngineStoppedError`."""
        ...


class CountingEngine(ABC):
    """Counts what callers ask of an engine; every engine of this package counts here.

    A subclass answers in the four methods whose names begin with an underscore. The `usage` of an
    answer is what is counted under the caller's role, once the answer is there. An embedding counts
    as one call.

    Attributes:
        counters: what was asked so far, by role.
    """

    def __init__(self) -> None:
        self.counters = Counters()

    async def generate(self, request: Request) -> Completion:
        """Writes one answer and counts it; see `Engine.generate`."""
        completion = await self._generate(request)
        self.counters.record(request.role, completion.usage)
        return completion

    async def score(
        self,
        prompt: Prompt,
        choices: Sequence[str],
        *,
        role: str = "score",
        adapter: str | None = None,
    ) -> Scores:
        """Scores choices and counts it; see `Engine.score`."""
        scores = await self._score(prompt, choices, role, adapter)
        self.counters.record(role, scores.usage)
        return scores

    async def score_labels(
        self,
        prompt: Prompt,
        labels: Sequence[str],
        *,
        role: str = "score",
        adapter: str | None = None,
    ) -> Scores:
        """Scores labels and counts it; see `Engine.score_labels`."""
        scores = await self._score_labels(prompt, labels, role, adapter)
        self.counters.record(role, scores.usage)
        return scores

    async def embed(self, texts: Sequence[str], *, role: str = "embed") -> NDArray[np.float32]:
        """Embeds texts and counts it; see `Engine.embed`."""
        begun = time.perf_counter()
        vectors = await self._embed(texts, role)
        self.counters.record(role, Usage(calls=1, seconds=time.perf_counter() - begun))
        return vectors

    @abstractmethod
    async def _generate(self, request: Request) -> Completion: ...

    @abstractmethod
    async def _score(
        self, prompt: Prompt, choices: Sequence[str], role: str, adapter: str | None
    ) -> Scores: ...

    @abstractmethod
    async def _score_labels(
        self, prompt: Prompt, labels: Sequence[str], role: str, adapter: str | None
    ) -> Scores: ...

    @abstractmethod
    async def _embed(self, texts: Sequence[str], role: str) -> NDArray[np.float32]: ...


class MeteredEngine(CountingEngine):
    """The same engine with counters of its own: what one planner, trial or session spent.

    Args:
        engine: answers, and goes on counting what all its callers ask. It stays open when the
            metered one is closed.

    Example:
        >>> import asyncio
        >>> from llm_serving import MeteredEngine, Request, ScriptedEngine
        >>> metered = MeteredEngine(ScriptedEngine({"judge": "yes"}))
        >>> answer = asyncio.run(metered.generate(Request(prompt="Is it done?", role="judge")))
        >>> metered.counters.roles["judge"].calls
        1
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    @property
    def identity(self) -> ModelIdentity:
        """Which weights answer."""
        return self._engine.identity

    def encode(self, prompt: Prompt) -> EncodedPrompt:
        """Applies the chat template and the tokenizer."""
        return self._engine.encode(prompt)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens."""
        return self._engine.decode(token_ids)

    async def _generate(self, request: Request) -> Completion:
        return await self._engine.generate(request)

    async def _score(
        self, prompt: Prompt, choices: Sequence[str], role: str, adapter: str | None
    ) -> Scores:
        return await self._engine.score(prompt, choices, role=role, adapter=adapter)

    async def _score_labels(
        self, prompt: Prompt, labels: Sequence[str], role: str, adapter: str | None
    ) -> Scores:
        return await self._engine.score_labels(prompt, labels, role=role, adapter=adapter)

    async def embed(self, texts: Sequence[str], *, role: str = "embed") -> NDArray[np.float32]:
        """Embeds texts and counts a call without its time: seconds are those of the answers."""
        vectors = await self._embed(texts, role)
        self.counters.record(role, Usage(calls=1))
        return vectors

    async def _embed(self, texts: Sequence[str], role: str) -> NDArray[np.float32]:
        return await self._engine.embed(texts, role=role)

    async def aclose(self) -> None:
        """Leaves the shared engine alone: its owner closes it."""


class AdaptedEngine(MeteredEngine):
    """The same engine, asked for one of its adapters by every request that names none.

    Args:
        engine: has the adapter. It stays open when the adapted one is closed.
        adapter: the adapter's name.

    Raises:
        AdapterError: the engine has no such adapter.

    Example:
        >>> import asyncio
        >>> from llm_serving import AdaptedEngine, Request, ScriptedEngine
        >>> from llm_serving.request import AdapterIdentity, ModelIdentity
        >>> planner = AdapterIdentity(name="planner", revision="1+2")
        >>> base = ModelIdentity(name="base", revision="1", dtype="none", adapters=(planner,))
        >>> engine = ScriptedEngine(lambda request: request.adapter or "base", identity=base)
        >>> asyncio.run(AdaptedEngine(engine, "planner").generate(Request(prompt="Who?"))).text
        'planner'
    """

    def __init__(self, engine: Engine, adapter: str) -> None:
        super().__init__(engine)
        self._adapter = adapter
        self._identity = engine.identity.answering(adapter)

    @property
    def identity(self) -> ModelIdentity:
        """The weights of the base model with the adapter."""
        return self._identity

    async def _generate(self, request: Request) -> Completion:
        self.identity.answering(request.adapter)
        return await super()._generate(replace(request, adapter=self._adapter))

    async def _score(
        self, prompt: Prompt, choices: Sequence[str], role: str, adapter: str | None
    ) -> Scores:
        self.identity.answering(adapter)
        return await super()._score(prompt, choices, role, self._adapter)

    async def _score_labels(
        self, prompt: Prompt, labels: Sequence[str], role: str, adapter: str | None
    ) -> Scores:
        self.identity.answering(adapter)
        return await super()._score_labels(prompt, labels, role, self._adapter)


async def draw(engine: Engine, request: Request, n: int) -> list[Completion]:
    """Draws n seeded samples of one request, batched together.

    Args:
        engine: the engine that answers.
        request: its `sample` is the index of the first draw.
        n: number of draws; draw i has sample index `request.sample + i`.

    Returns:
        n completions in the order of their sample index.

    Example:
        >>> import asyncio
        >>> from llm_serving import Request, ScriptedEngine, draw
        >>> engine = ScriptedEngine(lambda request: f"answer {request.sample}")
        >>> [one.text for one in asyncio.run(draw(engine, Request(prompt="Go on."), 2))]
        ['answer 0', 'answer 1']
    """
    draws = (replace(request, sample=request.sample + i) for i in range(n))
    return list(await asyncio.gather(*(engine.generate(one) for one in draws)))


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
