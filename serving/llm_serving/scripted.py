"""An engine that answers from a script: golden traces and load tests without a model."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, TypeAlias, get_args

import numpy as np

from llm_serving.errors import EngineStoppedError, ServingError
from llm_serving.request import (
    Ability,
    Completion,
    EncodedPrompt,
    Image,
    ModelIdentity,
    Prompt,
    Request,
    ScoreRequest,
    Scores,
    Usage,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

AnswerFunction: TypeAlias = Callable[[Request], str]
Voice: TypeAlias = AnswerFunction | str | Iterable[str]
Script: TypeAlias = AnswerFunction | Mapping[str, Voice]
ScoreFunction: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]

# Ids 0 to 255 are the bytes of UTF-8; these follow them.
_END, _IMAGE = 256, 257
_HEADERS = {"system": 258, "user": 259, "assistant": 260}
_SPECIAL = {chr(_END): "<|end|>", chr(_IMAGE): "<|image|>"} | {
    chr(number): f"<|{name}|>" for name, number in _HEADERS.items()
}
_SPLIT = re.compile(f"([{''.join(_SPECIAL)}])").split

_EMBEDDING_SIZE = 64
_IDENTITY = ModelIdentity(name="scripted", revision="script", dtype="none")


class ScriptError(ServingError):
    """The script has no answer, or one that the request does not allow."""


class ScriptedEngine:
    """Answers every request from a script, at once or after a delay.

    Tokens are the bytes of UTF-8, and a chat's turns begin with a token of their own. Neither
    `max_tokens` nor `stop` cuts an answer; an answer outside its request's constraint is an error.
    An exception that the script raises reaches the caller.

    Args:
        script: a function from the request to the answer's text; or for each role such a function,
            its one and only answer, or its answers in the order in which they are asked for.
        delay: seconds before the answer of a request; without it no caller is suspended.
        score: from the prompt's text and the choices to their log-probabilities, in nats; used
            for choices and for labels.
        identity: tells scripts apart, for a response cache that several of them share, and names
            the adapters that requests may ask for.

    Attributes:
        requests: every request, in the order of asking.
        scored: text of the prompt and choices of every scoring, labels included.
        embedded: the texts of every embedding.

    Raises:
        ScriptError: by its methods: the script has no answer, or one outside the request's
            constraint; there is no score function, or it gives another number of values.
        EngineStoppedError: by its methods: the engine was closed.

    Example:
        >>> import asyncio
        >>> from llm_serving import Request, ScriptedEngine
        >>> engine = ScriptedEngine({"move": ["north", "east"], "done": "no"})
        >>> for role in ("move", "done", "move"):
        ...     print(asyncio.run(engine.generate(Request(prompt="?", role=role))).text)
        north
        no
        east
        >>> len(engine.requests)
        3
    """

    abilities: frozenset[Ability] = frozenset(get_args(Ability))

    def __init__(
        self,
        script: Script,
        *,
        delay: Callable[[Request], float] | None = None,
        score: ScoreFunction | None = None,
        identity: ModelIdentity = _IDENTITY,
    ) -> None:
        self._answer = script if callable(script) else _by_role(script)
        self._delay = delay
        self._score_function = score
        self._waiting: set[asyncio.Future[None]] = set()
        self._stopped = False
        self.identity = identity
        self.requests: list[Request] = []
        self.scored: list[tuple[str, tuple[str, ...]]] = []
        self.embedded: list[tuple[str, ...]] = []

    def encode(self, prompt: Prompt) -> EncodedPrompt:
        """UTF-8 bytes; in a chat each turn has a header, and the header of the answer ends it."""
        if isinstance(prompt, EncodedPrompt):
            return prompt
        if isinstance(prompt, str):
            return EncodedPrompt(tuple(prompt.encode()))
        token_ids: list[int] = []
        images: list[Image] = []
        for message in prompt:
            token_ids.append(_HEADERS[message.role])
            token_ids.extend([_IMAGE] * len(message.images))
            token_ids.extend(message.content.encode())
            token_ids.append(_END)
            images.extend(message.images)
        token_ids.append(_HEADERS["assistant"])
        return EncodedPrompt(tuple(token_ids), tuple(images))

    def text(self, prompt: Prompt) -> str:
        """The text of a prompt in any form: the inverse of `encode`."""
        return prompt if isinstance(prompt, str) else self.decode(self.encode(prompt).token_ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens; a character that lacks some of its bytes is U+FFFD."""
        # One character a token: special ones are beyond Latin-1, whose characters are the bytes.
        pieces = _SPLIT("".join(map(chr, token_ids)))
        return "".join(
            _SPECIAL[piece]
            if piece in _SPECIAL
            else piece.encode("latin-1").decode(errors="replace")
            for piece in pieces
        )

    async def generate(self, request: Request) -> Completion:
        """Answers from the script."""
        started = time.perf_counter()
        self._check_running()
        self.identity.answering(request.adapter)
        self.requests.append(request)
        # Before the delay, so that answers in a row go to the requests in the order of asking.
        text = self._answer(request)
        if (broken := request.broken_by(text)) is not None:
            raise ScriptError(
                f"the script answers {text!r} to role {request.role!r}, which is not in the "
                f"language of its constraint {broken.regex!r}: correct the script"
            )
        if self._delay is not None:
            await self._pause(self._delay(request))
        token_ids = (*text.encode(), _END)
        usage = Usage(
            calls=1,
            prompt_tokens=len(self.encode(request.prompt).token_ids),
            completion_tokens=len(token_ids),
            seconds=time.perf_counter() - started,
        )
        return Completion(text=text, token_ids=token_ids, finish="stop", usage=usage)

    async def score(self, request: ScoreRequest) -> Scores:
        """Scores by the score function."""
        started = time.perf_counter()
        self._check_running()
        self.identity.answering(request.adapter)
        text, choices = self.text(request.prompt), request.choices
        self.scored.append((text, tuple(choices)))
        if self._score_function is None:
            raise ScriptError(
                f"role {request.role!r} asks for scores: give the engine a `score` function"
            )
        logprobs = tuple(self._score_function(text, choices))
        if len(logprobs) != len(choices):
            raise ScriptError(
                f"the score function gives {len(logprobs)} values for the {len(choices)} choices "
                f"of role {request.role!r}: correct it"
            )
        usage = Usage(
            calls=1,
            prompt_tokens=len(self.encode(request.prompt).token_ids),
            seconds=time.perf_counter() - started,
        )
        return Scores(logprobs=logprobs, usage=usage)

    async def embed(self, texts: Sequence[str], *, role: str = "embed") -> NDArray[np.float32]:
        """Embeds each text by its digest."""
        self._check_running()
        self.embedded.append(tuple(texts))
        digests = b"".join(hashlib.shake_256(t.encode()).digest(_EMBEDDING_SIZE) for t in texts)
        raw = np.frombuffer(digests, np.uint8).reshape(len(texts), _EMBEDDING_SIZE)
        # Half integers around 0, so that no vector can be the zero vector.
        vectors = raw.astype(np.float32) - 127.5
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def close(self) -> None:
        """Stops the engine; callers still waiting get `EngineStoppedError`."""
        self._stopped = True
        for waiter in self._waiting:
            _wake(waiter)

    async def aclose(self) -> None:
        """As `close` does."""
        self.close()

    def _check_running(self) -> None:
        if self._stopped:
            raise EngineStoppedError("the scripted engine was closed: open another")

    async def _pause(self, seconds: float) -> None:
        if seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        timer = loop.call_later(seconds, _wake, waiter)
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiting.discard(waiter)
        self._check_running()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _by_role(script: Mapping[str, Voice]) -> AnswerFunction:
    speakers = {role: _speaker(role, voice) for role, voice in script.items()}

    def answer(request: Request) -> str:
        speaker = speakers.get(request.role)
        if speaker is None:
            raise ScriptError(
                f"the script has no role {request.role!r}, only {', '.join(speakers) or 'none'}: "
                "add it"
            )
        return speaker(request)

    return answer


def _speaker(role: str, voice: Voice) -> AnswerFunction:
    if callable(voice):
        return voice
    answers = repeat(voice) if isinstance(voice, str) else iter(voice)

    def answer(_: Request) -> str:
        for text in answers:
            return text
        raise ScriptError(f"the script's answers for role {role!r} are used up: add more")

    return answer
