"""What engines return, checked: a wrong answer becomes no plan, and no cache keeps it."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from functools import partial
from math import inf
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final, TypeVar

from llm_base.quoting import quote, wrong_return
from llm_serving.errors import WrongReturnError
from llm_serving.request import Completion, EncodedPrompt, Scores, SharedPrompt, Usage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from llm_serving.engine import Engine
    from llm_serving.request import Prompt, Request, ScoreRequest

T = TypeVar("T")

ROUNDING: Final = 1e-4
"""Nats above 0 that a sum of log-probabilities in float32 may come to."""

_OFF_UNIT: Final = 1e-2
"""By which the length of a vector may differ from 1, in half precision too."""
_COUNTS: Final = tuple(field.name for field in fields(Usage) if field.name != "seconds")


class CheckedEngine:
    """The same engine: what it returns is what `docs/extending.md` says, or an error.

    An engine that checks already is asked as it is. So one wrapped several times is checked once,
    by whoever is next to it.

    Args:
        engine: is asked, and closed with this one.

    Raises:
        WrongReturnError: by its methods: the engine returned something else than it has to.

    Example:
        >>> import asyncio
        >>> from llm_serving import ScoreRequest, ScriptedEngine, ServingError
        >>> from llm_serving.checked_engine import CheckedEngine
        >>> engine = CheckedEngine(ScriptedEngine({}, score=lambda prompt, choices: [0.9, 0.1]))
        >>> try:
        ...     asyncio.run(engine.score(ScoreRequest("Yes or no?", ("yes", "no"))))
        ... except ServingError as error:
        ...     print(str(error).partition(":")[0])
        ScriptedEngine.score returned 0.9, not a log-probability (0 or less), as the score of 'yes'
    """

    def __init__(self, engine: Engine) -> None:
        self.identity = engine.identity
        self.abilities = engine.abilities
        self._engine = engine
        self._checks = not isinstance(engine, CheckedEngine)

    def encode(self, prompt: Prompt) -> EncodedPrompt:
        """See `Engine`."""
        encoded = self._engine.encode(prompt)
        if self._checks and not (
            isinstance(encoded, EncodedPrompt) and encoded.token_ids.__class__ is tuple
        ):
            raise _wrong(self._engine, "encode", encoded, "an EncodedPrompt with a tuple of tokens")
        return encoded

    def decode(self, token_ids: Sequence[int]) -> str:
        """See `Engine`."""
        text = self._engine.decode(token_ids)
        if self._checks and not isinstance(text, str):
            raise _wrong(self._engine, "decode", text, "a text")
        return text

    async def generate(self, request: Request) -> Completion:
        """See `Engine`; the answer is in the language of its request."""
        answer = self._engine.generate(request)
        if not self._checks:
            return await answer
        return _checked_completion(self._engine, request, await self._settled("generate", answer))

    async def score(self, request: ScoreRequest) -> Scores:
        """See `Engine`; there is a score for each choice, and one of them is above -inf."""
        answer = self._engine.score(request)
        if not self._checks:
            return await answer
        return _checked_scores(self._engine, request, await self._settled("score", answer))

    async def embed(self, texts: Sequence[str], *, role: str = "embed") -> NDArray[np.float32]:
        """See `Engine`."""
        answer = self._engine.embed(texts, role=role)
        if not self._checks:
            return await answer
        return _checked_vectors(self._engine, len(texts), await self._settled("embed", answer))

    async def aclose(self) -> None:
        """See `Engine`."""
        await self._engine.aclose()

    async def _settled(self, method: str, answer: Awaitable[T]) -> T:
        if not inspect.isawaitable(answer):
            raise _wrong(self._engine, method, answer, "an awaitable: define it by `async def`")
        return await answer


def _checked_completion(engine: Engine, request: Request, completion: object) -> Completion:
    """Makes sure of what an engine's `generate` returned.

    Returns:
        The completion; numbers of a library, such as NumPy's, are Python's in it.

    Raises:
        WrongReturnError: it is none, a part of it is of another type, or its text is not in the
            language of the request's constraint.
    """
    if not isinstance(completion, Completion):
        raise _wrong(engine, "generate", completion, "a Completion")
    text, tokens = completion.text, completion.token_ids
    if not isinstance(text, str):
        raise _wrong(engine, "generate", text, "a text, as the text of its Completion")
    if (broken := request.broken_by(text)) is not None:
        wanted = f"a text of the language {quote(broken.regex)} of the role {request.role!r}"
        raise _wrong(engine, "generate", text, wanted)
    if completion.finish not in ("stop", "length"):
        wanted = "'stop' or 'length', as the finish of its Completion"
        raise _wrong(engine, "generate", completion.finish, wanted)
    if tokens.__class__ is not tuple or not all(map(_is_count, tokens)):
        tokens = _whole_numbers(engine, tokens)
    usage = _counted(engine, "generate", completion.usage)
    if tokens is completion.token_ids and usage is completion.usage:
        return completion
    return replace(completion, token_ids=tokens, usage=usage)


def _checked_scores(engine: Engine, request: ScoreRequest, scores: object) -> Scores:
    """Makes sure of what an engine's `score` returned.

    Returns:
        The scores; numbers of a library, such as NumPy's, are Python's in them.

    Raises:
        WrongReturnError: they are none, or not one for each choice; one is no log-probability; or
            all are -inf, by which no choice is likelier than another.
    """
    if not isinstance(scores, Scores):
        raise _wrong(engine, "score", scores, "Scores")
    given: Any = scores.logprobs
    logprobs = given if given.__class__ is tuple else _listed(given)
    if logprobs is None or len(logprobs) != len(request.choices):
        wanted = f"{len(request.choices)} log-probabilities, one for each choice, in its Scores"
        raise _wrong(engine, "score", given, wanted)
    if not all(logprob.__class__ is float and logprob <= ROUNDING for logprob in logprobs):
        logprobs = tuple(map(partial(_logprob, engine), logprobs, request.choices))
    if logprobs and max(logprobs) == -inf:
        raise _wrong(engine, "score", given, "a score above -inf for one of the choices, at least")
    if not isinstance(scores.shared, SharedPrompt | None):
        wanted = "a SharedPrompt or None, as what is shared in its Scores"
        raise _wrong(engine, "score", scores.shared, wanted)
    usage = _counted(engine, "score", scores.usage)
    if logprobs is given and usage is scores.usage:
        return scores
    return replace(scores, logprobs=logprobs, usage=usage)


def _logprob(engine: Engine, logprob: Any, choice: str) -> float:  # noqa: ANN401 - an engine's own
    # NaN is not below anything.
    if not isinstance(logprob, Real) or isinstance(logprob, bool) or not logprob <= ROUNDING:
        wanted = f"a log-probability (0 or less), as the score of {quote(choice)}"
        raise _wrong(engine, "score", logprob, wanted)
    return float(logprob)


def _checked_vectors(engine: Engine, count: int, vectors: object) -> NDArray[np.float32]:
    import numpy as np  # as most runs embed nothing

    try:
        array = np.asarray(vectors, np.float32)
    except (TypeError, ValueError):
        raise _wrong(engine, "embed", vectors, "an array of vectors") from None
    if array.ndim != 2 or len(array) != count:
        wanted = f"({count}, dimension), as the shape of its array of vectors"
        raise _wrong(engine, "embed", array.shape, wanted)
    for length in map(float, np.linalg.norm(array, axis=1)):
        if not abs(length - 1) <= _OFF_UNIT:  # nor is NaN
            raise _wrong(engine, "embed", length, "1, as the length of each of its vectors")
    return array


def _counted(engine: Engine, method: str, usage: object) -> Usage:
    """A usage whose counts are whole numbers of 0 or more."""
    if not isinstance(usage, Usage):
        raise _wrong(engine, method, usage, "a Usage, as what the answer cost")
    seconds = usage.seconds
    if (
        _is_count(usage.calls)
        and _is_count(usage.prompt_tokens)
        and _is_count(usage.cached_tokens)
        and _is_count(usage.completion_tokens)
        and _is_count(usage.replayed)
        and seconds.__class__ is float
        and 0 <= seconds < inf
    ):
        return usage
    for name in _COUNTS:
        count = getattr(usage, name)
        if not isinstance(count, Integral) or count < 0:
            wanted = f"a whole number of 0 or more, as the {name} of its Usage"
            raise _wrong(engine, method, count, wanted)
    if not isinstance(seconds, Real) or not 0 <= seconds < inf:
        wanted = "a finite number of 0 or more, as the seconds of its Usage"
        raise _wrong(engine, method, seconds, wanted)
    counts = {name: int(getattr(usage, name)) for name in _COUNTS}
    return Usage(**counts, seconds=float(seconds))


def _whole_numbers(engine: Engine, tokens: Any) -> tuple[int, ...]:  # noqa: ANN401 - likewise
    listed = _listed(tokens)
    if (
        listed is None
        or not all(isinstance(token, Integral) for token in listed)
        or min(listed, default=0) < 0
    ):
        wanted = "whole numbers of 0 or more, as the token_ids of its Completion"
        raise _wrong(engine, "generate", tokens, wanted)
    return tuple(map(int, listed))


def _listed(values: Any) -> tuple[Any, ...] | None:  # noqa: ANN401 - likewise
    """The values of a sequence or an array; None for anything else."""
    try:
        return None if isinstance(values, str) else tuple(values)
    except TypeError:
        return None


def _is_count(value: int) -> bool:
    return value.__class__ is int and value >= 0


def _wrong(engine: Engine, method: str, value: object, wanted: str) -> WrongReturnError:
    return WrongReturnError(wrong_return(engine, method, value, wanted))
