"""What is asked of an engine and what comes back: frozen values, hashable, free of any backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from llm_serving.answers import Constraint


@dataclass(frozen=True, slots=True)
class Image:
    """A picture as the bytes of its PNG or JPEG file."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat; its images precede its text."""

    role: Literal["system", "user", "assistant"]
    content: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt as the model reads it.

    Attributes:
        token_ids: shape [T], before image placeholders are expanded.
        images: in the order of their placeholders.
    """

    token_ids: tuple[int, ...]
    images: tuple[Image, ...] = ()


Prompt: TypeAlias = str | tuple[Message, ...] | EncodedPrompt
"""Plain text to continue, a chat to answer, or either of them already encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the next token is drawn.

    Attributes:
        temperature: 0 is greedy.
        top_p: mass of the nucleus.
        max_tokens: longest answer; a constrained request takes its constraint's own bound.
        seed: with a temperature above 0, makes the draw repeatable; None leaves it free.
        stop: texts that end the answer and are left out of it.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 256
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One answer that is asked for.

    Attributes:
        prompt: what the model reads.
        sampling: how it draws.
        constraint: the finite language that the answer must belong to, if any.
        role: whose question this is; usage is counted under this name.
        sample: which of several seeded draws of the same prompt this is.
    """

    prompt: Prompt
    sampling: Sampling = Sampling()
    constraint: Constraint | None = None
    role: str = "default"
    sample: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What calls cost; adds up.

    Attributes:
        calls: questions asked.
        prompt_tokens: tokens read, cached ones included.
        cached_tokens: those of them taken from the prefix cache.
        completion_tokens: tokens written.
        replayed: calls answered from the response cache.
        seconds: time from asking to answer, summed over calls.
    """

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    replayed: int = 0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            replayed=self.replayed + other.replayed,
            seconds=self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """An answer.

    Attributes:
        text: without the terminator.
        token_ids: shape [T], the terminator included where one was written.
        finish: "stop" (terminator or stop text) or "length" (cut at `max_tokens`).
        usage: what this answer cost.
    """

    text: str
    token_ids: tuple[int, ...]
    finish: Literal["stop", "length"]
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Log-probabilities of choices after one prompt.

    Attributes:
        logprobs: shape [choices], in nats, each the sum over the choice's tokens.
        usage: what the scoring cost.
    """

    logprobs: tuple[float, ...]
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """Which weights answer: what a cached answer may be reused for.

    Attributes:
        name: as the user asked for it.
        revision: content hash of the weights or the hub's commit.
        dtype: of the weights as served.
    """

    name: str
    revision: str
    dtype: str
