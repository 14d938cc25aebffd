"""Similarity of items: the cosine of their names' sentence embeddings (XENON, Appendix I)."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING

from llm_kernels.index import EmbeddingIndex

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from llm_serving.engine import Engine

ROLE = "similarity"


class Similar:
    """Ranks item names by their similarity to one of them.

    Each name is embedded once. A ranking is kept until new names come: an agent asks for the
    neighbours of the same few items thousands of times.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._index: EmbeddingIndex | None = None
        self._learning = asyncio.Lock()
        self._names: set[str] = set()
        self._rankings: dict[str, tuple[str, ...]] = {}

    async def learn(self, names: Iterable[str]) -> None:
        """Embeds the names that are new, in one batch."""
        # Sorted, because the order of a set differs between processes.
        wanted = sorted({name for name in names if name not in self._names})
        if not wanted:
            return
        async with self._learning:
            index = self._index
            # Another call may have embedded some of them while this one waited.
            new = [name for name in wanted if name not in self._names]
            if not new:
                return
            # A sentence encoder knows words, not identifiers.
            vectors = await self._engine.embed([name.replace("_", " ") for name in new], role=ROLE)
            if index is None:
                index = self._index = EmbeddingIndex(vectors.shape[1])
            index.add(new, vectors)
            self._names.update(new)
            self._rankings.clear()

    async def top(self, item: str, among: Collection[str], k: int) -> list[str]:
        """Returns the k most similar items, most similar first."""
        await self.learn((item, *among))
        index = self._index
        if index is None or k < 1:
            return []
        if item not in self._rankings:
            found = index.search(index.vector(item), len(index))
            self._rankings[item] = tuple(match.key for match in found if match.key != item)
        return list(islice((name for name in self._rankings[item] if name in among), k))
