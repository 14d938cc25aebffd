"""The response cache: a question asked before costs nothing, and a rerun gives the same answers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import struct
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from llm_serving.checked_engine import CheckedEngine
from llm_serving.request import ScoreRequest
from llm_serving.stores import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from llm_serving.engine import AskedT, Engine
    from llm_serving.request import (
        Completion,
        EncodedPrompt,
        ModelIdentity,
        Request,
        Scores,
    )
    from llm_serving.stores import ResponseCache

_AnswerT = TypeVar("_AnswerT", bound=Answer)

# Part of every key: a change of the encoding below must not find the answers of the old one.
_KEY_VERSION = 2

_dump = json.JSONEncoder(separators=(",", ":")).encode


def request_key(
    identity: ModelIdentity, prompt: EncodedPrompt, request: Request | ScoreRequest
) -> bytes:
    """The digest of everything that can change an answer, and of nothing else.

    That is the weights (their revision and dtype, not their name, and the adapter's content), what
    else of the engine decides its answers, the prompt's tokens and images, and the choices, or the
    sampling parameters, the constraint and, above temperature 0, the seed and the sample index. The
    role is left out. At temperature 0 so is everything that only a draw depends on, and under a
    constraint the caller's `max_tokens`, which the constraint's own bound replaces. Without a seed
    the sample index alone tells draws apart.

    Args:
        request: its own `prompt` is ignored.

    Returns:
        32 bytes, SHA-256.

    Raises:
        AdapterError: the engine has no such adapter as the request names.
    """
    method, parameters = (
        (request.kind, [request.choices])
        if isinstance(request, ScoreRequest)
        else ("generate", _drawn(request))
    )
    answering = identity.answering(request.adapter)
    weights = [answering.revision, answering.dtype, answering.engine]
    head = _dump([_KEY_VERSION, method, weights, parameters]).encode()
    token_ids = prompt.token_ids
    # The two lengths say where each part ends, so no two questions have the same bytes.
    digest = hashlib.sha256(struct.pack("<QQ", len(head), len(token_ids)))
    digest.update(head)
    digest.update(struct.pack(f"<{len(token_ids)}I", *token_ids))
    for image in prompt.images:
        digest.update(hashlib.sha256(image.data).digest())
    return digest.digest()


def _drawn(request: Request) -> list[object]:
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
    return [drawn, bound, sampling.stop, *(penalties if any(penalties) else ())]


@dataclass(slots=True)
class _Flight:
    """One engine call that is under way, and how many callers wait for it."""

    task: asyncio.Task[Any]
    waiters: int = 0
    paid: bool = False


class CachedEngine(CheckedEngine):
    """An engine that asks another one only what the cache cannot answer, and keeps checked answers.

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
        super().__init__(engine)
        self._cache = cache
        self._flights: dict[bytes, _Flight] = {}

    async def generate(self, request: Request) -> Completion:
        """The kept answer; without one, the engine's."""
        return await self._ask(request, super().generate)

    async def score(self, request: ScoreRequest) -> Scores:
        """As `generate`."""
        return await self._ask(request, super().score)

    async def _ask(
        self, request: AskedT, call: Callable[[AskedT], Coroutine[Any, Any, _AnswerT]]
    ) -> _AnswerT:
        """The kept answer; without one, the answer of `call`, which is kept from now on."""
        prompt = self.encode(request.prompt)
        key = request_key(self.identity, prompt, request)
        started = time.perf_counter()
        answer = self._cache.get(key)
        replayed = 1
        if answer is None:
            flight = self._flights.get(key)
            if flight is None or flight.task.done():
                asked = call(replace(request, prompt=prompt))
                model = self.identity.answering(request.adapter)
                flight = _Flight(asyncio.create_task(self._fly(key, asked, model)))
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
        self, key: bytes, answer: Coroutine[Any, Any, Answer], model: ModelIdentity
    ) -> Answer:
        return self._cache.put(key, await answer, model)

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
