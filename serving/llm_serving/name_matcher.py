"""From free text to the known name that is nearest by meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from llm_kernels import EmbeddingIndex

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Embed: TypeAlias = Callable[[Sequence[str]], Awaitable[NDArray[np.float32]]]


@dataclass(frozen=True, slots=True)
class NameMatch:
    """A known name and how near it is.

    Attributes:
        name: one of the matcher's.
        score: cosine similarity of the text and the name's spelling, 1 for the same words.
    """

    name: str
    score: float


class NameMatcher:
    """Finds which of some names a text means, by cosine similarity of sentence embeddings.

    This is the mapping of free-form answers to a unique list of objects of LLM-MCTS (Section 2.2).
    A name is embedded by its spelling: the words that it stands for. An encoder reads names
    without blanks badly: among household names, "on the kitchen table" is nearer to `kitchen` than
    to `kitchentable`, and nearest to "kitchen table".

    A matcher is built once, with `build`, and may be asked from many coroutines at once.

    Example:
        >>> import asyncio
        >>> from llm_serving import NameMatcher, ScriptedEngine
        >>> async def which(text):
        ...     spellings = {"fridge": "fridge", "kitchentable": "kitchen table"}
        ...     embed = ScriptedEngine({}).embed
        ...     matcher = await NameMatcher.build(spellings, embed=embed)
        ...     return (await matcher.nearest(text)).name
        >>> asyncio.run(which("kitchen table"))
        'kitchentable'
    """

    def __init__(self, index: EmbeddingIndex, names: Mapping[str, str], *, embed: Embed) -> None:
        self._index = index
        self._names = names
        self._embed = embed

    @classmethod
    async def build(cls, spellings: Mapping[str, str], *, embed: Embed) -> NameMatcher:
        """Embeds the names.

        Args:
            spellings: name -> what it stands for, as people write it: from an environment's list,
                from `spelled_out`, or the name itself.
            embed: `TextEncoder.embed`, or an engine's `embed`, with `functools.partial` for a role.

        Raises:
            ValueError: there is no name.
            TextError: a spelling is empty.
        """
        if not spellings:
            raise ValueError("a name matcher needs at least one name")
        vectors = await embed(list(spellings.values()))
        index = EmbeddingIndex(vectors.shape[1])
        index.add(spellings, vectors)
        names = {spelling: name for name, spelling in [*spellings.items()][::-1]}
        return cls(index, names, embed=embed)

    async def nearest(self, text: str) -> NameMatch:
        """The name that a text most likely means.

        Raises:
            TextError: the text is empty.
        """
        (ranked,) = await self.ranked([text], k=1)
        return ranked[0]

    async def ranked(self, texts: Sequence[str], *, k: int) -> tuple[tuple[NameMatch, ...], ...]:
        """The k nearest names of every text, the nearest first; all if there are fewer.

        Equally near names keep their order in `build`, behind one that is spelled as the text is.

        Raises:
            TextError: a text is empty.
            VectorError: k is less than 1.
        """
        vectors = await self._embed(texts)
        found = self._index.search_batch(vectors, k, keys=[*map(self._names.get, texts)])
        return tuple(
            tuple(NameMatch(match.key, match.score) for match in matches) for matches in found
        )


def spelled_out(names: Iterable[str], words: Collection[str]) -> dict[str, str]:
    """Splits names that are written without blanks into words: `kitchentable` -> "kitchen table".

    Args:
        names: such as a simulator has them.
        words: in lower case, the only ones that a name may be split into.

    Returns:
        Name -> the fewest words that make it up, the longest first word where several choices are
        equally short. A name that the words do not make up stands for itself.
    """
    return {name: " ".join(_split(name.lower(), words)) or name for name in names}


def _split(name: str, words: Collection[str]) -> tuple[str, ...]:
    # fewest[i]: the fewest words that make up name[i:], or None where no words do.
    fewest: list[tuple[str, ...] | None] = [None] * len(name) + [()]
    for start in reversed(range(len(name))):
        for end in range(len(name), start, -1):
            rest, word = fewest[end], name[start:end]
            if rest is None or word not in words:
                continue
            best = fewest[start]
            if best is None or 1 + len(rest) < len(best):
                fewest[start] = (word, *rest)
    return fewest[0] or ()
