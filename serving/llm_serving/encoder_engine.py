"""An engine without a language model: it embeds texts and answers no questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from llm_serving.encoder import TextEncoder
from llm_serving.engine import CountingEngine
from llm_serving.errors import NoModelError
from llm_serving.request import ModelIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from llm_serving.request import Completion, EncodedPrompt, Prompt, Request, Scores

NO_MODEL = "none"
"""The model name that opens this engine."""


class EncoderEngine(CountingEngine):
    """Serves runs whose questions are all answered by oracles, without loading a model.

    It embeds texts; every other request raises `NoModelError`.

    Args:
        encoder: embeds, and is closed by its owner; None makes one that keeps no vectors.
    """

    identity = ModelIdentity(name=NO_MODEL, revision=NO_MODEL, dtype=NO_MODEL)

    def __init__(self, encoder: TextEncoder | None = None) -> None:
        super().__init__()
        self._encoder = encoder or TextEncoder(cache=None)
        self._owns_encoder = encoder is None

    def encode(self, prompt: Prompt) -> EncodedPrompt:
        """Refuses: there is no tokenizer.

        Raises:
            NoModelError: always.
        """
        _refuse()

    def decode(self, token_ids: Sequence[int]) -> str:
        """Refuses: there is no tokenizer.

        Raises:
            NoModelError: always.
        """
        _refuse()

    async def _generate(self, request: Request) -> Completion:
        _refuse()

    async def _score(
        self, prompt: Prompt, choices: Sequence[str], role: str, adapter: str | None
    ) -> Scores:
        _refuse()

    async def _score_labels(
        self, prompt: Prompt, labels: Sequence[str], role: str, adapter: str | None
    ) -> Scores:
        _refuse()

    async def _embed(self, texts: Sequence[str], role: str) -> NDArray[np.float32]:
        return await self._encoder.embed(texts)

    def close(self) -> None:
        """Closes the encoder, if it is the engine's own."""
        if self._owns_encoder:
            self._encoder.close()

    async def aclose(self) -> None:
        """As `close`."""
        self.close()


def _refuse() -> NoReturn:
    raise NoModelError(f"the model {NO_MODEL!r} answers no questions: name a model")
