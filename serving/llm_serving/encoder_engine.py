"""An engine without a language model: it embeds texts and answers no questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_serving.engine import Engine
from llm_serving.errors import EngineStoppedError
from llm_serving.request import Ability, ModelIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from llm_serving.encoder import TextEncoder

NO_MODEL = "none"
"""The model name that opens this engine."""


class EncoderEngine(Engine):
    """Serves runs whose questions are all answered by oracles, without loading a model.

    Args:
        encoder: embeds, and is closed by its owner; None makes one for the first text.
        cached: whether that one shares the vectors that are kept on disk.
    """

    identity = ModelIdentity(name=NO_MODEL, revision=NO_MODEL, dtype=NO_MODEL)
    abilities: frozenset[Ability] = frozenset({"embeddings"})

    def __init__(self, encoder: TextEncoder | None = None, *, cached: bool = False) -> None:
        self._encoder = encoder
        self._cached = cached
        self._own: TextEncoder | None = None
        self._closed = False

    async def embed(self, texts: Sequence[str], *, role: str = "embed") -> NDArray[np.float32]:
        """See `Engine`."""
        if self._closed:
            raise EngineStoppedError(f"the engine {NO_MODEL!r} was closed: open another")
        if self._encoder is None:
            # Imported here, as most runs embed nothing.
            from llm_serving.encoder import TextEncoder

            self._encoder = self._own = TextEncoder(cache="shared" if self._cached else None)
        return await self._encoder.embed(texts)

    def close(self) -> None:
        """Closes the encoder, if it is the engine's own."""
        self._closed = True
        if self._own is not None:
            self._own.close()

    async def aclose(self) -> None:
        """As `close`."""
        self.close()
