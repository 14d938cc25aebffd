"""The response cache: a question asked before costs nothing, and a rerun gives the same answers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import struct
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from llm_serving.engine import CountingEngine
from llm_serving.response_store import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from llm_serving.engine import Engine
    from llm_serving.request import (
        Completion,
        EncodedPrompt,
        ModelIdentity,
        Prompt,
        Request,
        Scores,
    )
    from llm_serving.response_store import ResponseCache

_AnswerT = TypeVar("_AnswerT", bound=Answer)

# Part of every key: a change of the encoding below must not find the answers of the old one.
_KEY_VERSION = 2

_dump = json.JSONEncoder(separators=(",", ":")).encode


def generate_key(identity: ModelIdentity, prompt: EncodedPrompt, request: Request) -> bytes:
    """The digest of everything that can change a written answer, and of nothing else.

    That is the weights (their revision and dtype, not their name, and the adapter's content), what
    else of the engine decides its answers, the prompt's tokens and images, the sampling parameters,
    the constraint and, above temperature 0, the seed and the sample index. The role is left out. At
    temperature 0 so is everything that only a draw depends on, and under a constraint the caller's
    `max_tokens`, which the constraint's own bound replaces. Without a seed the sample index alone
    tells draws apart.

    Args:
        prompt: the request's prompt, encoded.
        request: its own `prompt` is ignored.

    Returns:
        32 bytes, SHA-256.

    Raises:
        AdapterError: the engine has no such adapter as the request names.
    """
    sampling, constraint = request.sampling, request.constraint
    drawn = (
        [float(sampling.temperature), float(sampling.top_p), sampling.seed, request.sample]
        if sampling.temperature > 0
        else []
    )
    bound = (
        [sampling.max_tokens] if constraint is None else [constraint.regex, constraint.max_tokens]
    )
    # They change greedy answers, too.
    penalties = [float(sampling.presence_penalty), float(sampling.frequency_penalty)]
    weights = identity.answering(request.adapter)
    asked = [drawn, bound, sampling.stop, *(penalties if any(penalties) else ())]
    return _key("generate", weights, prompt, asked)


def score_key(
    identity: ModelIdentity,
    prompt: EncodedPrompt,
    choices: Sequence[str],
    *,
    method: Literal["score", "labels"],
    adapter: str | None = None,
) -> bytes:
    """The digest of everything that can change log-probabilities, as `generate_key`."""
    return _key(method, identity.answering(adapter), prompt, [list(choices)])


def _key(method: str, identity: ModelIdentity, prompt: EncodedPrompt, asked: list[object]) -> bytes:
    token_ids = prompt.token_ids
    weights = [identity.revision, identity.dtype, identity.engine]
    head = _dump([_KEY_VERSION, method, weights, asked]).encode()
    # The two lengths say where each part ends, so no two questions have the same bytes.
    digest = hashlib.sha256(struct.pack("<QQ", len(head), len(token_ids)))
    digest.update(head)
    digest.update(struct.pack(f"<{len(token_ids)}I", *token_ids))
    for image in prompt.images:
        digest.update(hashlib.sha256(image.data).digest())
    return digest.digest()


@dataclass(slots=True)
class _Flight:
    """One engine call that is under way, and how many callers wait for it."""

    task: asyncio.Task[Any]
    waiters: int = 0
    paid: bool = False


class CachedEngine(CountingEngine):
    """An engine that asks another one only what the cache cannot answer.

    With a cache, (prompt, parameters, sample index) names one draw, also at a temperature above 0
    without a seed: asking again replays it. Further sample indices give further draws;
    another seed, or no cache, gives a fresh set of draws.

    Identical questions that are in flight at once become one engine call. It ends early only when
    every caller who waits for it is cancelled. Errors reach all of them and are not kept.

    A replayed answer has the token counts of the first time, so that the ledgers of two runs
    agree, `replayed` 1, and the seconds that it really took.

    Args:
        engine: is asked what the cache does not hold, and closed with this one.
        cache: keeps the answers. Others may share it; its owner closes it.

    Attributes:
        counters: everything asked of this object, replays included.

    Example:
        >>> import asyncio
        >>> from pathlib import Path
        >>> from llm_serving import CachedEngine, Request, ResponseCache, ScriptedEngine
        >>> cache = ResponseCache(Path("responses.sqlite"))
        >>> engine = CachedEngine(ScriptedEngine({"default": ["asked once"]}), cache)
        >>> for _ in range(2):
        ...     answer = asyncio.run(engine.generate(Request(prompt="Who is there?")))
        ...     print(answer.text, answer.usage.replayed)
        asked once 0
        asked once 1
        >>> cache.close()
    """

    def __init__(self, engine: Engine, cache: ResponseCache) -> None:
        super().__init__()
        self._engine = engine
        self._cache = cache
        self._flights: dict[bytes, _Flight] = {}

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
        prompt = self._engine.encode(request.prompt)
        return await self._ask(
            generate_key(self.identity, prompt, request),
            lambda: self._engine.generate(replace(request, prompt=prompt)),
            self.identity.answering(request.adapter),
        )

    async def _score(
        self, prompt: Prompt, choices: Sequence[str], role: str, adapter: str | None
    ) -> Scores:
        encoded = self._engine.encode(prompt)
        return await self._ask(
            score_key(self.identity, encoded, choices, method="score", adapter=adapter),
            lambda: self._engine.score(encoded, choices, role=role, adapter=adapter),
            self.identity.answering(adapter),
        )

    async def _score_labels(
        self, prompt: Prompt, labels: Sequence[str], role: str, adapter: str | None
    ) -> Scores:
        encoded = self._engine.encode(prompt)
        return await self._ask(
            score_key(self.identity, encoded, labels, method="labels", adapter=adapter),
            lambda: self._engine.score_labels(encoded, labels, role=role, adapter=adapter),
            self.identity.answering(adapter),
        )

    async def _embed(self, texts: Sequence[str], role: str) -> NDArray[np.float32]:
        return await self._engine.embed(texts, role=role)

    async def aclose(self) -> None:
        """Stops the engine; the cache, which others may share, stays open."""
        await self._engine.aclose()

    async def _ask(
        self,
        key: bytes,
        call: Callable[[], Coroutine[Any, Any, _AnswerT]],
        model: ModelIdentity,
    ) -> _AnswerT:
        """The kept answer; without one, the answer of `call`, which is kept from now on."""
        started = time.perf_counter()
        answer = self._cache.get(key)
        replayed = 1
        if answer is None:
            flight = self._flights.get(key)
            if flight is None or flight.task.done():
                flight = _Flight(asyncio.create_task(self._fly(key, call, model)))
                # The error may come when the last caller has just left; here it counts as handled.
                flight.task.add_done_callback(lambda task: task.cancelled() or task.exception())
                self._flights[key] = flight
            answer = await self._landed(key, flight)
            # The first caller to get the answer pays for it; for the others it is a replay.
            replayed, flight.paid = int(flight.paid), True
        seconds = time.perf_counter() - started
        usage = replace(answer.usage, replayed=replayed, seconds=seconds)
        return cast("_AnswerT", replace(answer, usage=usage))

    async def _fly(
        self, key: bytes, call: Callable[[], Coroutine[Any, Any, Answer]], model: ModelIdentity
    ) -> Answer:
        return self._cache.put(key, await call(), model)

    async def _landed(self, key: bytes, flight: _Flight) -> Answer:
        flight.waiters += 1
        try:
            # Unlike an await of the task, this can be cancelled without cancelling the task.
            await asyncio.wait((flight.task,))
        finally:
            flight.waiters -= 1
            if flight.waiters == 0 and self._flights.get(key) is flight:
                # From here on the same question starts a call of its own.
                del self._flights[key]
                if not flight.task.done():
                    flight.task.cancel()
                    await asyncio.wait((flight.task,))
        return cast("Answer", flight.task.result())
