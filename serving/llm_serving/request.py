"""Requests to an engine and its answers: frozen values, hashable, free of any backend."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from llm_base.quoting import quote
from llm_serving.errors import AdapterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_serving.answers import Constraint


@dataclass(frozen=True, slots=True)
class Image:
    """A picture that a message shows to a model which reads images.

    Attributes:
        data: bytes of its PNG or JPEG file, as they are on the disk.

    Example:
        >>> from llm_serving import Image, Message
        >>> picture = Image(b"PNG...")
        >>> Message("user", "What is in the room?", (picture,)).images == (picture,)
        True
    """

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat.

    Attributes:
        role: who speaks.
        images: shown before the text, in this order.
        parts: of which the text is made, if it is known: names that say nothing of what fills them.
            No model reads them.

    Example:
        >>> from llm_serving import Message
        >>> chat = (Message("system", "Answer in one word."), Message("user", "Which way?"))
        >>> chat[1].role
        'user'
    """

    role: Literal["system", "user", "assistant"]
    content: str
    images: tuple[Image, ...] = ()
    parts: tuple[str, ...] = field(default=(), compare=False, repr=False)


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
        presence_penalty: taken from the logit of every token that the answer has already.
        frequency_penalty: the same, times how often the answer has it.
        max_tokens: longest answer; a constrained request takes its constraint's own bound.
        seed: with a temperature above 0, makes the draw repeatable; None leaves it free.
        stop: texts that end the answer and are left out of it.

    Example:
        >>> from llm_serving import Sampling
        >>> repeatable = Sampling(temperature=0.7, max_tokens=32, seed=1)
        >>> Sampling().temperature, repeatable.top_p
        (0.0, 1.0)
    """

    temperature: float = 0.0
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    max_tokens: int = 256
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One answer that is asked for.

    Attributes:
        constraint: the finite language that the answer must belong to, if any.
        role: whose question this is; usage is counted under this name.
        sample: which of several seeded draws of the same prompt this is.
        adapter: name of the engine's adapter that answers; None asks the base model.

    Example:
        >>> from llm_serving import Message, Request, Sampling
        >>> chat = (Message("user", "Name a fruit."),)
        >>> request = Request(prompt=chat, sampling=Sampling(max_tokens=8), role="fruit")
        >>> request.sample
        0
    """

    prompt: Prompt
    sampling: Sampling = Sampling()
    constraint: Constraint | None = None
    role: str = "default"
    sample: int = 0
    adapter: str | None = None

    def broken_by(self, text: str) -> Constraint | None:
        """The constraint, if an answer is not in its language."""
        constraint = self.constraint
        fits = constraint is None or re.fullmatch(constraint.regex, text) is not None
        return None if fits else constraint


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """Log-probabilities that are asked for.

    Attributes:
        prompt: what the choices answer.
        choices: action strings; equal ones are scored once. Each has the tokens that it has
            behind the prompt.
        kind: "answers" are scored with the terminator, log p(choice, terminator | prompt); "labels"
            are one token each, log p(label | prompt).
        role: whose question this is; usage is counted under this name.
        adapter: name of the engine's adapter that scores; None asks the base model.

    Example:
        >>> from llm_serving import ScoreRequest
        >>> ScoreRequest("Which way? A: north, B: south.", ("A", "B"), kind="labels").role
        'score'
    """

    prompt: Prompt
    choices: tuple[str, ...]
    _: KW_ONLY
    kind: Literal["answers", "labels"] = "answers"
    role: str = "score"
    adapter: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What calls to an engine cost; usages can be added.

    Attributes:
        calls: questions asked.
        prompt_tokens: tokens read, cached ones included.
        cached_tokens: prompt tokens taken from the prefix cache.
        completion_tokens: tokens written.
        replayed: calls answered from the response cache.
        seconds: time from asking to answer, summed over calls.

    Example:
        >>> from llm_serving import Usage
        >>> spent = Usage(calls=1, prompt_tokens=90) + Usage(calls=1, prompt_tokens=10)
        >>> spent.calls, spent.prompt_tokens
        (2, 100)
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
    """What an engine answers to a request.

    Attributes:
        text: without the terminator.
        token_ids: shape [T], the terminator included where one was written.
        finish: "stop" (terminator or stop text) or "length" (cut at `max_tokens`).

    Example:
        >>> import asyncio
        >>> from llm_serving import Request, ScriptedEngine
        >>> engine = ScriptedEngine(lambda request: "north")
        >>> completion = asyncio.run(engine.generate(Request(prompt="Which way?")))
        >>> completion.text, completion.finish, completion.usage.calls
        ('north', 'stop', 1)
    """

    text: str
    token_ids: tuple[int, ...]
    finish: Literal["stop", "length"]
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrompt:
    """The prompt that all requests of one scoring begin with; `Usage` counts them together.

    Attributes:
        tokens: its length.
        cached_tokens: of its first tokens, those that the prefix cache had before the scoring.
        requests: to the model.
    """

    tokens: int
    cached_tokens: int
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Log-probabilities of choices after one prompt.

    Attributes:
        logprobs: shape [choices], in nats, each the sum over the choice's tokens.
        shared: what its requests have in common; None if the engine does not say, and for a
            prompt with images.

    Example:
        >>> import asyncio
        >>> from llm_serving import ScoreRequest, ScriptedEngine
        >>> engine = ScriptedEngine({}, score=lambda prompt, choices: [-0.1, -2.3])
        >>> request = ScoreRequest("Which way?", ("north", "south"))
        >>> asyncio.run(engine.score(request)).logprobs
        (-0.1, -2.3)
    """

    logprobs: tuple[float, ...]
    usage: Usage
    shared: SharedPrompt | None = None


Ability: TypeAlias = Literal["regex", "scores", "labels", "embeddings", "pictures"]
"""What an engine may be able to do: write an answer of a given language, score whole answers, score
labels of a token each, embed texts, read pictures. Its adapters are in its identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """What a simulator taught a model.

    Attributes:
        roles: the questions that it was taught.
        words_sha256: hashes of the words in which it was asked, in hexadecimal.
        parts: role -> the `Message.parts` of its lessons; none where nobody recorded them.
    """

    roles: tuple[str, ...]
    words_sha256: tuple[str, ...]
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterIdentity:
    """An adapter that an engine serves.

    Attributes:
        name: that requests call it by.
        revision: of the base model's weights with the adapter.
        taught: by a simulator; None if it was not, or nobody knows.
    """

    name: str
    revision: str
    taught: Taught | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """Which weights answer: what a cached answer may be reused for.

    Attributes:
        name: as the user asked for it.
        revision: content hash of the weights or the hub's commit.
        dtype: of the weights as served.
        taught: by a simulator; None if it was not.
        adapters: what else requests may ask for by name.
        engine: what else decides an answer: how the engine draws, how it scores, and the tokens
            that end a turn. "" where nothing else does.

    Example:
        >>> from llm_serving.request import AdapterIdentity, ModelIdentity
        >>> planner = AdapterIdentity(name="planner", revision="1+2")
        >>> base = ModelIdentity(name="base", revision="1", dtype="float32", adapters=(planner,))
        >>> base.answering("planner").revision, base.answering(None) is base
        ('1+2', True)
    """

    name: str
    revision: str
    dtype: str
    taught: Taught | None = None
    adapters: tuple[AdapterIdentity, ...] = ()
    engine: str = ""

    def answering(self, adapter: str | None) -> ModelIdentity:
        """The weights that answer a request.

        Args:
            adapter: that the request names.

        Raises:
            AdapterError: the engine has no such adapter.
        """
        if adapter is None:
            return self
        for known in self.adapters:
            if known.name == adapter:
                return replace(
                    self,
                    name=f"{self.name}+{known.name}",
                    revision=known.revision,
                    taught=known.taught,
                    adapters=(),
                )
        names = ", ".join(known.name for known in self.adapters) or "none"
        raise AdapterError(
            f"the engine of {self.name} has no adapter {quote(adapter)}, only {names}: open the "
            f"model as {self.name}+ADAPTER, or name it in `adapters`"
        )
