"""The first mask of a state in a vocabulary of 152,064 tokens: ours beside a walk of all tokens.

The walk runs every token of the vocabulary through the automaton, level by level, for each state by
itself. Ours shares masks between states and patterns, and walks what lives. Answers are drawn token
by token, and each state that they visit first asks both; their masks are equal, or nothing is
reported. The vocabulary is Qwen's, which the package `dashscope` ships; without it, the words of
this project's own files make one of that size.
"""

from __future__ import annotations

import base64
import importlib.util
import random
import re
import statistics
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from harness import AnswersDifferError, Finding, parser, report

from llm_serving.outlines_index import DEAD, INITIAL, OutlinesIndex, TokenTree, TokenVocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOGITS = 152_064
TOKENS = 151_643
DRAWS = 6
FRESH_PATTERNS = 20
ROWS, FILLS = 64, 50
TEXT = r'"([^"\\\x00-\x1f\x7f-\xff]|\\["\\/bfnrt]){1,%d}"'
ACTIONS = [
    f"{verb} the {thing}"
    for verb, thing in product(
        ("take", "open", "examine", "drop"), ("brass lamp", "trap door", "leaflet", "sword", "egg")
    )
]


def patterns() -> dict[str, str]:
    """One of each kind: long and short texts, one of several actions, nested fields."""
    choice = "|".join(map(re.escape, ACTIONS))
    return {
        "text of 80": r'\{"thought": ' + TEXT % 80 + rf', "action": "({choice})"\}}',
        "text of 300": r'\{"thought": ' + TEXT % 300 + rf', "action": "({choice})"\}}',
        "actions": rf"({choice})",
        "nested": r'\{"done": (true|false), "items": \[(\{"name": '
        + TEXT % 20
        + r', "count": [1-9][0-9]?\}(, )?){1,4}\]\}',
    }


def fresh_patterns() -> list[str]:
    """Patterns of prompts that list other actions each time."""
    rng = random.Random(7)
    return [
        r'\{"why": '
        + TEXT % 80
        + rf', "action": "({"|".join(map(re.escape, rng.sample(ACTIONS, 8)))})"\}}'
        for _ in range(FRESH_PATTERNS)
    ]


def vocabulary() -> tuple[list[bytes], str]:
    """What each token writes, and where the vocabulary is from."""
    found = importlib.util.find_spec("dashscope")
    if found is not None and found.origin is not None:
        file = Path(found.origin).parent / "resources" / "qwen.tiktoken"
        ranked = (line.split() for line in file.read_bytes().splitlines())
        tokens = {int(rank): base64.b64decode(written) for written, rank in ranked}
        return [tokens[i] for i in range(len(tokens))], "Qwen's, from dashscope"
    made = dict.fromkeys(bytes([byte]) for byte in range(256))
    for file in sorted(Path(__file__).parents[1].rglob("*.[pm][yd]")):
        for word in re.findall(rb" ?\w+| ?[^\w\s]+|\s+", file.read_bytes()):
            made.update(dict.fromkeys(word[:end] for end in range(2, len(word) + 1)))
        if len(made) >= TOKENS:
            break
    rng = random.Random(0)
    while len(made) < TOKENS:
        made[
            " ".join(rng.sample(("go", "the", "é", "水", "{", '"'), 3)).encode()[
                : rng.randint(2, 9)
            ]
            + str(rng.randrange(10**6)).encode()
        ] = None
    return list(made)[:TOKENS], "made of this project's files"


class Walk:
    """Every token through the automaton, for each state by itself."""

    def __init__(self, index: OutlinesIndex, tree: TokenTree, tokens: TokenVocabulary) -> None:
        self._next, self._final = index._next, index._final
        self._tree, self._vocabulary = tree, tokens
        nodes = np.zeros(len(tokens.token_bytes), np.intp)
        ended = tree._token_of
        nodes[ended[ended >= 0]] = np.flatnonzero(ended >= 0)
        nodes[tree._twins] = tree._twin_nodes
        self._nodes = nodes

    def mask(self, state: int) -> NDArray[np.int32]:
        """As `OutlinesIndex.mask`."""
        tree = self._tree
        reached = np.full(len(tree.parents), DEAD, np.int32)
        reached[0] = state
        for start, end in tree.levels:
            above = reached[tree.parents[start:end]]
            reached[start:end] = self._next[above, tree.last_bytes[start:end]]
            if not reached[start:end].any():
                break
        reached[0] = DEAD
        allowed = np.zeros(32 * self._vocabulary.words, bool)
        allowed[: len(self._nodes)] = reached[self._nodes] != DEAD
        allowed[self._vocabulary.ends] = self._final[state]
        return np.packbits(allowed, bitorder="little").view("<i4")


def visited(index: OutlinesIndex, walk: Walk, tokens: TokenVocabulary) -> tuple[list[float], ...]:
    """Seconds of the first mask of each state that some drawn answers visit: the walk's, ours."""
    rng = random.Random(3)
    seen: set[int] = set()
    theirs, ours = [], []
    for _ in range(DRAWS):
        state = INITIAL
        while True:
            if state not in seen:
                seen.add(state)
                begun = perf_counter()
                expected = walk.mask(state)
                between = perf_counter()
                mask = index.mask(state)
                theirs.append(between - begun)
                ours.append(perf_counter() - between)
                if not np.array_equal(mask, expected):
                    raise AnswersDifferError(f"the masks of state {state} differ")
            bits = np.unpackbits(index.mask(state).view(np.uint8), bitorder="little")
            token = rng.choice(np.flatnonzero(bits).tolist())
            if token in tokens.ends:
                break
            state = index.advance(state, token)
    return theirs, ours


def rows(index: OutlinesIndex, words: int, *, states: int) -> float:
    """Seconds in which the rows of a step are written, one for each request, as vLLM's masks are.

    Args:
        states: the requests stand in so many, all visited before.
    """
    bitmask = np.empty((ROWS, words), np.int32)
    seconds = []
    for _ in range(FILLS + 1):
        begun = perf_counter()
        for row in range(ROWS):
            bitmask[row] = index.mask(INITIAL + row % states)
        seconds.append(perf_counter() - begun)
    return statistics.median(seconds[1:])


def main() -> None:
    """Compares the masks, then reports what the first of each state took."""
    arguments = parser(__doc__).parse_args()
    written, source = vocabulary()
    written += [b""] * (LOGITS - len(written))
    tokens = TokenVocabulary(written, ends=(LOGITS - 1,), size=LOGITS)
    whole = TokenTree({i: token for i, token in enumerate(written) if token})
    theirs: list[float] = []
    ours: list[float] = []
    details: dict[str, object] = {"vocabulary": source}
    for name, pattern in patterns().items():
        begun = perf_counter()
        index = OutlinesIndex(pattern, tokens)
        compiled = perf_counter() - begun
        walked, shared = visited(index, Walk(index, whole, tokens), tokens)
        if name == "text of 80":
            details |= {
                f"ms_of_{ROWS}_rows_in_{states}_known_states": 1e3
                * rows(index, tokens.words, states=states)
                for states in (1, ROWS)
            }
        theirs += walked
        ours += shared
        details[name] = (
            f"{len(shared)} states, walk {statistics.median(walked) * 1e3:.2f} ms, ours "
            f"{statistics.median(shared) * 1e3:.3f} (p99 {np.percentile(shared, 99) * 1e3:.1f}, "
            f"sum {sum(walked) / sum(shared):.1f}x), compiled in {compiled * 1e3:.0f} ms"
        )
    fresh: tuple[list[float], list[float]] = ([], [])
    for pattern in fresh_patterns():
        index = OutlinesIndex(pattern, tokens)
        for total, part in zip(
            fresh, visited(index, Walk(index, whole, tokens), tokens), strict=True
        ):
            total.append(sum(part))
    details |= {
        "walk_ms_p99": float(np.percentile(theirs, 99)) * 1e3,
        "ours_ms_p99": float(np.percentile(ours, 99)) * 1e3,
        "ours_ms_most": max(ours) * 1e3,
        "kept_mib": tokens.masks.bytes / 2**20,
        "states": len(ours),
    }
    findings = [
        Finding(
            label="first mask of a state, median, ours over a walk of all tokens",
            measured=statistics.median(ours) / statistics.median(theirs),
            unit="x",
            bound="at most",
            target=0.2,
            details=details,
        ),
        Finding(
            label="all first masks of a pattern made anew for a prompt, median",
            measured=statistics.median(fresh[1]) / statistics.median(fresh[0]),
            unit="x",
            bound="at most",
            target=1.0,
        ),
    ]
    report("masks", findings, as_json=arguments.json)


if __name__ == "__main__":
    main()
