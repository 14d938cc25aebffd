"""Errors for users: each message says what is wrong and what to do about it."""

from __future__ import annotations


class ServingError(Exception):
    """Base of every error that this layer raises on purpose.

    Example:
        >>> import asyncio
        >>> from llm_serving import Request, ScriptedEngine, ServingError
        >>> try:
        ...     asyncio.run(ScriptedEngine({}).generate(Request(prompt="Go on.", role="actor")))
        ... except ServingError as error:
        ...     print(error)
        the script has no role 'actor', only none: add it
    """


class PromptTooLongError(ServingError):
    """The prompt and its answer do not fit the model's context."""

    def __init__(self, *, prompt_tokens: int, answer_tokens: int, context: int) -> None:
        self.prompt_tokens = prompt_tokens
        self.answer_tokens = answer_tokens
        self.context = context
        super().__init__(
            f"the prompt has {prompt_tokens} tokens and its answer may take {answer_tokens}, "
            f"but the context holds {context}: shorten the prompt or raise `context` in the "
            "model's configuration"
        )


class TooManyImagesError(ServingError):
    """A prompt holds more images than the engine was opened for."""

    def __init__(self, *, images: int, allowed: int) -> None:
        self.images = images
        self.allowed = allowed
        held = "1 image" if images == 1 else f"{images} images"
        super().__init__(
            f"the prompt holds {held}, but the model's configuration allows {allowed}: "
            "send fewer, or raise `images_per_prompt` if the model reads images"
        )


class UnknownModelError(ServingError):
    """No bundled model, configuration, local folder or cached hub model has this name."""


class UnfetchedModelError(UnknownModelError):
    """A model that is not on this machine, and may be fetched.

    Attributes:
        model: its name.
    """

    def __init__(self, message: str, model: str = "") -> None:
        super().__init__(message)
        self.model = model


class AdapterError(ServingError):
    """An adapter that cannot be served, or a request for one that the engine does not serve."""


class ModelFetchError(ServingError):
    """A model could not be fetched, verified or written."""


class KvCacheMemoryError(ServingError):
    """The KV cache does not fit the memory that it was given."""


class EngineStoppedError(ServingError):
    """The engine was closed or died, and answers no more requests."""


class RequestFailedError(ServingError):
    """The engine could not answer this request; it still answers others."""


class WrongReturnError(ServingError):
    """An engine returned something else than it has to: its class has a fault, or its weights."""


class LabelError(ServingError, ValueError):
    """A label that is not one token behind its prompt."""


class EngineConfigError(ServingError):
    """A model configuration has an unknown key or an impossible value."""


class UnsupportedEngineError(ServingError):
    """The installed vLLM is missing, or of a version this project has no adapter for."""


class UnableError(ServingError):
    """An engine was asked for what is not among its abilities."""


class AnswerModelError(ServingError):
    """An answer model's language is infinite, or too large to be compiled."""


class EncoderError(ServingError):
    """A model that cannot be loaded as a sentence encoder, or that gives no vectors."""


class TextError(ServingError, ValueError):
    """A text without an embedding: empty, not a string, or not valid Unicode."""
