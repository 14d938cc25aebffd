"""An engine without a language model: it embeds texts and answers no questions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NoReturn

from llm_serving.encoder import TextEncoder
from llm_serving.engine import Counters
from llm_serving.errors import UnsupportedEngineError
from llm_serving.request import ModelIdentity, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from llm_serving.request import Completion, EncodedPrompt, Prompt, Request, Scores

NO_MODEL = "none"
"""The name under which it is asked for."""


class EncoderEngine:
    """Serves runs whose questions are all answered by oracles, without loading a model.

    Args:
        encoder: embeds; one of its own, without a cache and closed with the engine, if None.

    Attributes:
        counters: what was asked so far.
    """

    identity = ModelIdentity(name=NO_MODEL, revision=NO_MODEL, dtype=NO_MODEL)

    def __init__(self, encoder: TextEncoder | None = None) -> None:
        self._encoder = encoder or TextEncoder(cache=None)
        self._owns_encoder = encoder is None
        self.counters = Counters()

    def encode(self, prompt: Prompt) -> EncodedPrompt:
        """Refuses: there is no tokenizer.

        Raises:
            UnsupportedEngineError: always.
        """
        _refuse()

    async def generate(self, request: Request) -> Completion:
        """Refuses: there is no model.

        Raises:
            UnsupportedEngineError: always.
        """
        _refuse()

    async def score(self, prompt: Prompt, choices: Sequence[str], *, role: str = "score") -> Scores:
        """Refuses: there is no model.

        Raises:
            UnsupportedEngineError: always.
        """
        _refuse()

    async def score_labels(
        self, prompt: Prompt, labels: Sequence[str], *, role: str = "score"
    ) -> Scores:
        """Refuses: there is no model.

        Raises:
            UnsupportedEngineError: always.
        """
        _refuse()

    async def embed(self, texts: Sequence[str], *, role: str = "embed") -> NDArray[np.float32]:
        """Unit vectors of texts, shape [texts, dimension]."""
        begun = time.perf_counter()
        vectors = await self._encoder.embed(texts)
        self.counters.record(role, Usage(calls=1, seconds=time.perf_counter() - begun))
        return vectors

    def close(self) -> None:
        """Closes the encoder, if it is the engine's own."""
        if self._owns_encoder:
            self._encoder.close()

    async def aclose(self) -> None:
        """The same."""
        self.close()


def _refuse() -> NoReturn:
    raise UnsupportedEngineError(
        f"the model {NO_MODEL!r} answers no questions: name a model, or let an oracle answer "
        "(for learning agents: prior=table12)"
    )
