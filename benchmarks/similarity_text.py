"""From a text to its nearest entries, encoding included, beside the naive way; on the CPU.

The index has 100,000 entries: 300 texts that the bundled encoder read, and random unit vectors,
which cost a search as much. The naive way is sentence-transformers' `encode`, NumPy's product with
all rows and a full sort. Both read the same weights; answers are compared first. Every round asks
with texts of its own, so that no cache has them. CPU time, of all threads, stands beside the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np
from harness import AnswersDifferError, Finding, medians, parser, report

from llm_kernels import unit_queries
from llm_kernels.index import EmbeddingIndex
from llm_serving import TextEncoder
from llm_serving.models import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from llm_kernels.vectors import Floats, Indices

ROWS, TEXTS, K = 100_000, 300, 10
# Texts of one search, and how often each arm runs.
REPEATS = {1: 15, 16: 7, 256: 3}
# Texts on both sides are encoded in other batches.
TOLERANCE = 2e-6
_DOES = ("walk to", "look into", "pick up", "put down", "clean", "open", "sell", "repair")
_KINDS = ("old", "red", "wooden", "small", "broken", "heavy", "new", "blue", "iron", "empty")
_THINGS = ("chair", "cupboard", "lamp", "fridge", "bottle", "door", "pickaxe", "furnace", "boat")
_PLACES = ("in the kitchen", "next to the river", "under the stairs", "at the neighbour's house")
_REASONS = ("", " before it rains", " for the guests", ", then come back", " as fast as you can")


def texts() -> Iterator[str]:
    """Short instructions, in an order that mixes their words; 14,400 of them."""
    every = list(product(_DOES, _KINDS, _THINGS, _PLACES, _REASONS))
    for number in np.random.default_rng(0).permutation(len(every)):
        does, kind, thing, place, reason = every[number]
        yield f"{does} the {kind} {thing} {place}{reason}"


@dataclass(frozen=True, slots=True)
class Found:
    """An answer, and what it took.

    Attributes:
        vectors: float32 [Q, D], of the texts.
        rows: int64 [Q, K], of the index.
        scores: float32 [Q, K].
        encoding: seconds.
        searching: seconds.
    """

    vectors: Floats
    rows: Indices
    scores: Floats
    encoding: float
    searching: float


class Ways:
    """Both ways from texts to the nearest entries."""

    def __init__(self, entries: Sequence[str]) -> None:
        from sentence_transformers import SentenceTransformer

        self.encoder = TextEncoder(cache=None)
        path = resolve(self.encoder.identity.name).path
        self.model = SentenceTransformer(str(path), local_files_only=True)
        known = self.encoder.encode(entries)
        others = np.random.default_rng(0).standard_normal(
            (ROWS - len(entries), known.shape[1]), dtype=np.float32
        )
        self.corpus = np.concatenate((known, unit_queries(others)))
        self.index = EmbeddingIndex(known.shape[1])
        self.index.add([str(row) for row in range(ROWS)], self.corpus)

    def ours(self, asked: Sequence[str]) -> Found:
        """`TextEncoder` and `EmbeddingIndex`."""
        begun = perf_counter()
        vectors = self.encoder.encode(asked)
        encoded = perf_counter()
        answers = self.index.search_batch(vectors, K)
        ended = perf_counter()
        rows = np.array([[int(match.key) for match in matches] for matches in answers])
        scores = np.array([[match.score for match in matches] for matches in answers], np.float32)
        return Found(vectors, rows, scores, encoded - begun, ended - encoded)

    def naive(self, asked: Sequence[str]) -> Found:
        """Sentence-transformers, one product, and a sort of everything."""
        begun = perf_counter()
        vectors = self.model.encode(list(asked), normalize_embeddings=True, show_progress_bar=False)
        encoded = perf_counter()
        products = vectors @ self.corpus.T
        rows = np.argsort(-products, axis=1)[:, :K]
        scores = np.take_along_axis(products, rows, axis=1)
        return Found(vectors, rows, scores, encoded - begun, perf_counter() - encoded)

    def compare(self, asked: Sequence[str]) -> None:
        """Checks that both give the same scores, and rows that have them.

        Raises:
            AnswersDifferError: they differ by more than other batches of the encoder explain.
        """
        ours, naive = self.ours(asked), self.naive(asked)
        of_rows = np.einsum("qkd,qd->qk", self.corpus[ours.rows], naive.vectors)
        for scores in (ours.scores, of_rows):
            off = float(np.abs(scores - naive.scores).max())
            if not off <= TOLERANCE:
                raise AnswersDifferError(f"scores of the nearest entries are {off:g} off")


def measured(ways: Ways, fresh: Iterator[str], *, count: int, repeats: int) -> Finding:
    """Compares both ways for some texts at once, and times them."""
    ways.compare(list(islice(fresh, count)))
    arms: dict[str, Callable[[Sequence[str]], Found]] = {"ours": ways.ours, "naive": ways.naive}
    encoding: dict[str, list[float]] = {name: [] for name in arms}
    cpu: dict[str, list[float]] = {name: [] for name in arms}

    def timed(name: str) -> float:
        begun = process_time()
        found = arms[name](list(islice(fresh, count)))
        cpu[name].append(process_time() - begun)
        encoding[name].append(found.encoding)
        return found.encoding + found.searching

    seconds = medians({name: partial(timed, name) for name in arms}, repeats=repeats)
    details = {}
    for name, whole in seconds.items():
        alone = median(encoding[name])
        details[f"{count} texts, {name}, ms"] = 1e3 * whole
        details[f"{count} texts, {name}, CPU ms"] = 1e3 * median(cpu[name])
        details[f"{count} texts, {name}, share of encoding"] = alone / whole
    return Finding(
        label=f"the naive way over ours, {count} texts",
        measured=seconds["naive"] / seconds["ours"],
        unit="x",
        bound="at least",
        target=1.0,
        details=details,
    )


def main() -> None:
    """Measures and reports."""
    arguments = parser(__doc__).parse_args()
    fresh = texts()
    ways = Ways(list(islice(fresh, TEXTS)))
    findings = [
        measured(ways, fresh, count=count, repeats=repeats) for count, repeats in REPEATS.items()
    ]
    report("similarity_text", findings, as_json=arguments.json)
    ways.encoder.close()


if __name__ == "__main__":
    main()
