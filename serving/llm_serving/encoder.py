"""Unit vectors of sentences, for similarity by meaning."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from llm_serving.models import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DEFAULT_ENCODER = "all-minilm-l6-v2"


class SentenceEncoder:
    """A sentence-transformers model, loaded when the first text arrives.

    Args:
        model: a bundled name, a local folder or a hub id.
    """

    def __init__(self, model: str = DEFAULT_ENCODER) -> None:
        self._name = model
        self._model: Any = None
        self._loading = threading.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder")

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts, shape [texts, dimension]."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._encode, list(texts))

    def close(self) -> None:
        """Ends the encoder's thread."""
        self._thread.shutdown()

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        with self._loading:
            if self._model is None:
                from sentence_transformers import SentenceTransformer

                self._model = SentenceTransformer(str(resolve(self._name).path), device=None)
        vectors: NDArray[np.float32] = self._model.encode(
            texts, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
        )
        return vectors.astype(np.float32, copy=False)
