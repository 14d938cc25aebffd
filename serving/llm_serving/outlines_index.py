"""Which tokens may come next in a constrained answer: a byte automaton and lazy masks over it.

outlines_core compiles a regular expression into an automaton over bytes. Its own index goes on to
list, for every state, every token of the vocabulary that may follow: 3.5 million entries for one
text of 80 characters and 49,152 tokens, seconds of compiling for a nested answer, 140 microseconds
to turn one state's list into a mask. Here only the automaton is compiled up front (milliseconds).
The mask of a state is worked out when the state is first visited, by running all tokens at once
through the automaton along the prefix tree of the vocabulary, and is kept as the bits that the
sampler reads.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import outlines_core

from llm_serving.errors import AnswerModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DEAD = 0
"""The state from which no text of the language can be reached."""

INITIAL = 1
"""The state before the first token."""

_END = 256
_MARK = r"\x00"
"""Closes every text of the compiled language, and occurs in no answer.

outlines_core loses texts that go on, by two bytes or more, from another complete text of the
language ("abc" beside "a"). Behind a mark no text begins another one.
"""


class TokenVocabulary:
    """The tokens that may be written, as a prefix tree of their bytes in breadth-first order.

    Attributes:
        token_bytes: shape [V]; empty for tokens that may never be written (special tokens).
        terminator: the token that ends an answer.
        words: number of 32-bit words in a mask, at least V / 32.
        parents: shape [N], tree node above each node; node 0 is the root.
        last_bytes: shape [N], the byte that leads from the parent to the node.
        levels: the nodes of each depth, as half-open ranges.
        written_bytes: the bytes that are tokens by themselves.
        nodes: shape [V], the tree node at which a token ends (the root if it may not be written).
    """

    def __init__(
        self, token_bytes: Sequence[bytes], *, terminator: int, size: int | None = None
    ) -> None:
        """Builds the tree.

        Args:
            token_bytes: what each token writes; empty for those that may never be written.
            terminator: the token that ends an answer.
            size: number of logits, which may exceed the number of tokens.
        """
        self.token_bytes = tuple(token_bytes)
        self.terminator = terminator
        self.written_bytes = frozenset(token for token in token_bytes if len(token) == 1)
        self.words = (max(size or 0, len(token_bytes)) + 31) // 32
        prefixes: list[set[bytes]] = [set() for _ in range(max(map(len, token_bytes)))]
        for token in token_bytes:
            for end in range(1, len(token) + 1):
                prefixes[end - 1].add(token[:end])
        node_of = {b"": 0}
        self.levels = []
        for level in prefixes:
            start = len(node_of)
            node_of.update((prefix, start + i) for i, prefix in enumerate(sorted(level)))
            self.levels.append((start, len(node_of)))
        above = (node_of[prefix[:-1]] for prefix in node_of)
        self.parents = np.fromiter(above, np.intp, len(node_of))
        last = (prefix[-1] if prefix else 0 for prefix in node_of)
        self.last_bytes = np.fromiter(last, np.intp, len(node_of))
        self.nodes = np.fromiter((node_of[token] for token in token_bytes), np.intp)


class OutlinesIndex:
    """The automaton of one regular expression, over one vocabulary; safe to share by threads.

    Attributes:
        states: number of states, the dead one included.
    """

    def __init__(self, regex: str, vocabulary: TokenVocabulary) -> None:
        """Compiles the automaton; no mask is worked out yet.

        Raises:
            AnswerModelError: the expression cannot be compiled, or needs a byte for which the
                vocabulary has no token of its own.
        """
        try:
            index = outlines_core.Index(f"({regex})" + _MARK, _byte_vocabulary())
        except ValueError as error:
            raise AnswerModelError(
                f"outlines cannot compile {regex[:200]!r} ({error}): simplify the answer model"
            ) from error
        transitions = index.get_transitions()
        initial = index.get_initial_state()
        others = (state for state in transitions if state != initial)
        numbers = {state: INITIAL + i for i, state in enumerate((initial, *others))}
        self.states = len(numbers) + 1
        self._vocabulary = vocabulary
        self._next = np.full((self.states, 256), DEAD, np.int32)
        for state, row in transitions.items():
            row.pop(_END, None)
            self._next[numbers[state], list(row)] = [numbers[follower] for follower in row.values()]
        self._final = self._next[:, 0] != DEAD
        self._next[:, 0] = DEAD
        needed = np.flatnonzero(self._next.any(axis=0)).tolist()
        if missing := [one for one in needed if bytes((one,)) not in vocabulary.written_bytes]:
            raise AnswerModelError(
                f"the tokenizer cannot write {bytes(missing)!r} byte by byte: leave the characters "
                "with these bytes out of the answer model"
            )
        self._masks: dict[int, NDArray[np.int32]] = {}

    def is_final(self, state: int) -> bool:
        """Whether the answer may end here."""
        return bool(self._final[state])

    def advance(self, state: int, token: int) -> int:
        """The state after one more token; `DEAD` if the token may not come next."""
        written = self._vocabulary.token_bytes[token]
        for byte in written:
            state = self._next.item(state, byte)
        return state if written else DEAD

    def mask(self, state: int) -> NDArray[np.int32]:
        """Which tokens may come next, the terminator included where the answer may end.

        Returns:
            shape [words]; token i is bit i % 32 of word i // 32.
        """
        if (known := self._masks.get(state)) is not None:
            return known
        vocabulary = self._vocabulary
        reached = np.full(len(vocabulary.parents), DEAD, np.int32)
        reached[0] = state
        for start, end in vocabulary.levels:
            above = reached[vocabulary.parents[start:end]]
            reached[start:end] = self._next[above, vocabulary.last_bytes[start:end]]
            if not reached[start:end].any():
                break
        reached[0] = DEAD
        allowed = np.zeros(32 * vocabulary.words, bool)
        allowed[: len(vocabulary.nodes)] = reached[vocabulary.nodes] != DEAD
        allowed[vocabulary.terminator] = self._final[state]
        mask = np.packbits(allowed, bitorder="little").view("<i4")
        self._masks[state] = mask
        return mask


@cache
def _byte_vocabulary() -> outlines_core.Vocabulary:
    """Each byte as a token of its own, so that the index of outlines_core is the automaton."""
    return outlines_core.Vocabulary(_END, {bytes((byte,)): [byte] for byte in range(256)})
