"""Which tokens may come next in a constrained answer: a byte automaton and lazy masks over it.

outlines_core compiles a regular expression into an automaton over bytes. Its own index goes on to
list, for every state, every token of the vocabulary that may follow: 3.5 million entries for one
text of 80 characters and 49,152 tokens, seconds of compiling for a nested answer, 140 microseconds
to turn one state's list into a mask. Here only the automaton is compiled up front (milliseconds).
The mask of a state is worked out when the state is first visited, by running all tokens at once
through the automaton along the prefix tree of the vocabulary, and is kept as the bits that the
sampler reads. States that go on alike for some bytes, of one pattern or of several, share the mask
of the tokens that are no longer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from functools import cache
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import outlines_core

from llm_serving.errors import AnswerModelError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

DEAD = 0
"""The state from which no text of the language can be reached."""

INITIAL = 1
"""The state before the first token."""

TIERS = (8, 16, 32)
"""Bytes of the longest token of each tier, whose masks are shared between states."""

_DENSE = 4
"""A level is walked whole where more than one in so many of its nodes is visited."""

_NONE = -1
_NUMBERS = count()
_WEIGHTS = np.random.default_rng(256).integers(1 << 64, size=(2, 256), dtype=np.uint64) | np.uint64(
    1
)
_MIXING = np.uint64(0x9E3779B97F4A7C15)

_END = 256
_MARK = r"\x00"
"""Closes every text of the compiled language, and occurs in no answer.

outlines_core loses texts that go on, by two bytes or more, from another complete text of the
language ("abc" beside "a"). Behind a mark no text begins another one.
"""


class TokenTree:
    """Some tokens as a prefix tree of their bytes, its nodes in breadth-first order.

    Attributes:
        parents: shape [N], node above each node; node 0 is the root.
        last_bytes: shape [N], the byte that leads from the parent to the node.
        levels: the nodes of each depth, as half-open ranges.
    """

    def __init__(self, tokens: Mapping[int, bytes]) -> None:
        """Builds the tree of tokens, id -> what it writes."""
        prefixes: list[set[bytes]] = [
            set() for _ in range(max(map(len, tokens.values()), default=0))
        ]
        for written in tokens.values():
            for end in range(1, len(written) + 1):
                prefixes[end - 1].add(written[:end])
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
        # Children of a node are neighbours, since prefixes are sorted within a level.
        self._first_child = np.searchsorted(self.parents[1:], np.arange(len(node_of))) + 1
        self._children = np.bincount(self.parents[1:], minlength=len(node_of))
        ids = np.fromiter(tokens, np.intp, len(tokens))
        nodes = np.fromiter((node_of[written] for written in tokens.values()), np.intp, len(tokens))
        self._token_of = np.full(len(node_of), _NONE, np.intp)
        self._token_of[nodes] = ids
        twins = self._token_of[nodes] != ids  # tokens that write the same bytes as another one
        self._twin_nodes, self._twins = nodes[twins], ids[twins]

    def live_tokens(self, following: NDArray[np.int32], state: int) -> NDArray[np.intp]:
        """The tokens after which the automaton is not dead, in any order.

        A level is walked whole where much of it lives, otherwise from its live nodes alone.

        Args:
            following: shape [states, 256], the automaton.
            state: where it begins.
        """
        reached = np.zeros(len(self.parents), np.int32)
        reached[0] = state
        live = np.zeros(1, np.intp)
        lived = []
        for start, end in self.levels:
            children = self._children[live]
            count = int(children.sum())
            if _DENSE * count > end - start:
                above = reached[self.parents[start:end]]
                level = following[above, self.last_bytes[start:end]]
                reached[start:end] = level
                live = np.flatnonzero(level) + start
            else:
                ends = np.cumsum(children)
                nodes = np.repeat(self._first_child[live] - ends + children, children)
                nodes += np.arange(count)
                level = following[np.repeat(reached[live], children), self.last_bytes[nodes]]
                reached[nodes] = level
                live = nodes[level != DEAD]
            if not live.size:
                break
            lived.append(live)
        tokens = self._token_of[np.concatenate(lived)] if lived else np.zeros(0, np.intp)
        twins = self._twins[reached[self._twin_nodes] != DEAD]
        return np.concatenate((tokens[tokens != _NONE], twins))


class MaskStore:
    """The masks that were used last, as many as some bytes hold; safe to share by threads."""

    def __init__(self, most_bytes: int = 1 << 26) -> None:
        self._most_bytes = most_bytes
        self._masks: OrderedDict[Hashable, NDArray[np.int32]] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0

    def get(self, key: Hashable) -> NDArray[np.int32] | None:
        """A mask that was put, unless it was dropped since."""
        with self._lock:
            mask = self._masks.get(key)
            if mask is not None:
                self._masks.move_to_end(key)
            return mask

    def put(self, key: Hashable, mask: NDArray[np.int32]) -> None:
        """Keeps a mask, and drops the ones that were not used for longest."""
        with self._lock:
            if key not in self._masks:
                self._masks[key] = mask
                self.bytes += mask.nbytes
            while self.bytes > self._most_bytes:
                self.bytes -= self._masks.popitem(last=False)[1].nbytes


class LongTokens:
    """Tokens beyond the last tier; most of them repeat their last byte, such as a blank.

    Attributes:
        last_bytes: the bytes that end one of them, ascending.
    """

    def __init__(self, tokens: Mapping[int, bytes]) -> None:
        """Splits tokens, id -> what it writes, into a head and one byte in a row."""
        heads = {i: written.rstrip(written[-1:]) for i, written in tokens.items()}
        ids = sorted(tokens, key=lambda i: len(heads[i]), reverse=True)
        self._ids = np.array(ids, np.intp)
        self._times = np.array([len(tokens[i]) - len(heads[i]) for i in ids], np.intp)
        self.last_bytes = sorted({tokens[i][-1] for i in ids})
        self._lasts = np.array([self.last_bytes.index(tokens[i][-1]) for i in ids], np.intp)
        longest = len(heads[ids[0]]) if ids else 0
        # Of each position, the bytes of the heads that reach it: the first ones in this order.
        self._columns = [
            np.array([heads[i][place] for i in ids if len(heads[i]) > place], np.intp)
            for place in range(longest)
        ]

    def live_tokens(
        self, following: NDArray[np.int32], repeats: NDArray[np.int32], state: int
    ) -> NDArray[np.intp]:
        """As `TokenTree.live_tokens`.

        Args:
            following: shape [states, 256], the automaton.
            repeats: shape [last bytes, states], how often each is taken in a row.
            state: where it begins.
        """
        reached = np.full(len(self._ids), state)
        for place, column in enumerate(self._columns):
            level = following[reached[: len(column)], column]
            reached[: len(column)] = level
            if place % 4 == 0 and not level.any():
                break
        live: NDArray[np.intp] = self._ids[repeats[self._lasts, reached] >= self._times]
        return live


class TokenVocabulary:
    """The tokens that may be written, and the masks that were worked out over them.

    Attributes:
        token_bytes: shape [V]; empty for tokens that may never be written (special tokens).
        ends: the tokens that end an answer.
        words: number of 32-bit words in a mask, at least V / 32.
        tiers: the tokens of each tier of `TIERS`.
        long: the tokens beyond the last tier.
        written_bytes: the bytes that are tokens by themselves.
    """

    def __init__(
        self, token_bytes: Sequence[bytes], *, ends: Sequence[int], size: int | None = None
    ) -> None:
        """Builds the trees.

        Args:
            token_bytes: what each token writes; empty for those that may never be written.
            ends: the tokens that end an answer.
            size: number of logits, which may exceed the number of tokens.
        """
        self.token_bytes = tuple(token_bytes)
        self.ends = tuple(ends)
        self.written_bytes = frozenset(token for token in token_bytes if len(token) == 1)
        self.words = (max(size or 0, len(token_bytes)) + 31) // 32
        tiers: list[dict[int, bytes]] = [{} for _ in (*TIERS, None)]
        for i, token in enumerate(token_bytes):
            if token:
                tiers[bisect_left(TIERS, len(token))][i] = token
        *short, long = tiers
        self.tiers = tuple(TokenTree(tokens) for tokens in short)
        self.long = LongTokens(long)
        self.masks = MaskStore()

    def mask(self, tokens: NDArray[np.intp]) -> NDArray[np.int32]:
        """Bits of tokens; shape [words], token i is bit i % 32 of word i // 32."""
        allowed = np.zeros(32 * self.words, bool)
        allowed[tokens] = True
        bits: NDArray[np.int32] = np.packbits(allowed, bitorder="little").view("<i4")
        return bits


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
        if missing := [byte for byte in needed if bytes((byte,)) not in vocabulary.written_bytes]:
            raise AnswerModelError(
                f"the tokenizer cannot write {bytes(missing)!r} byte by byte: leave the characters "
                "with these bytes out of the answer model"
            )
        self._classes = _classes(self._next)
        self._repeats = _repeats(self._next[:, vocabulary.long.last_bytes].T)
        self._number = next(_NUMBERS)

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
        """Which tokens may come next, the ends included where the answer may end.

        Returns:
            shape [words]; token i is bit i % 32 of word i // 32.
        """
        vocabulary, masks = self._vocabulary, self._vocabulary.masks
        if (known := masks.get((self._number, state))) is not None:
            return known
        more = vocabulary.long.live_tokens(self._next, self._repeats, state)
        if self._final[state]:
            more = np.append(more, vocabulary.ends)
        mask = vocabulary.mask(more)
        for i, tree in enumerate(vocabulary.tiers):
            alike = (i, *self._classes[:, i, state].tolist())
            tier = masks.get(alike)
            if tier is None:
                tier = vocabulary.mask(tree.live_tokens(self._next, state))
                masks.put(alike, tier)
            mask |= tier
        masks.put((self._number, state), mask)
        return mask


def _repeats(following: NDArray[np.int32]) -> NDArray[np.int32]:
    """How often each state takes a byte in a row, up to 255 times.

    Args:
        following: shape [bytes, states], the state after each byte.

    Returns:
        shape [bytes, states].
    """
    powers: list[NDArray[np.int32]] = [following]
    for _ in range(7):
        powers.append(np.take_along_axis(powers[-1], powers[-1], axis=1))
    times = np.zeros(following.shape, np.int32)
    reached = np.broadcast_to(np.arange(following.shape[1], dtype=np.int32), following.shape)
    for k in reversed(range(8)):
        ahead = np.take_along_axis(powers[k], reached, axis=1)
        times[ahead != DEAD] += 1 << k
        reached = np.where(ahead != DEAD, ahead, reached)
    return times


def _classes(following: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Two numbers for each state and tier that are equal where texts of its length go on alike.

    States of several patterns have equal numbers, too. A round looks one byte further: a state's
    number is a hash of the numbers of its 256 followers. Bytes that every state follows alike are
    added up once. States that differ agree in both 64-bit hashes by a chance of 2^-128.

    Args:
        following: shape [states, 256], the automaton.

    Returns:
        shape [2, tiers, states].
    """
    marks = np.random.default_rng(len(following)).integers(
        1 << 63, size=len(following), dtype=np.uint64
    )
    columns = np.einsum("sb,s->b", following.astype(np.uint64), marks)
    _, firsts, groups = np.unique(columns, return_index=True, return_inverse=True)
    followers = following[:, firsts]
    classes = np.empty((2, len(TIERS), len(following)), np.uint64)
    for lane, by_byte in zip(classes, _WEIGHTS, strict=True):
        weights = np.zeros(len(firsts), np.uint64)
        np.add.at(weights, groups, by_byte)
        numbers = np.ones(len(following), np.uint64)
        for depth in range(1, TIERS[-1] + 1):
            numbers[DEAD] = 0
            sums = numbers[followers] @ weights + np.uint64(1)
            numbers = (sums ^ (sums >> np.uint64(29))) * _MIXING
            numbers ^= numbers >> np.uint64(32)
            if depth in TIERS:
                lane[TIERS.index(depth)] = numbers
    return classes


@cache
def _byte_vocabulary() -> outlines_core.Vocabulary:
    """Each byte as a token of its own, so that the index of outlines_core is the automaton."""
    return outlines_core.Vocabulary(_END, {bytes((byte,)): [byte] for byte in range(256)})
