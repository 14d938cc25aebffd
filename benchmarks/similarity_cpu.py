"""Top-k search on the CPU beside faiss' IndexFlatIP, usearch's exact search and plain NumPy.

Unit rows of float32, 384 dimensions, ten results. Every arm's answer is compared first: ours must
be the oracle's to the bit, and a peer's rows must have the oracle's scores up to the rounding of a
float32 product. NumPy multiplies both ways round, with `argpartition` and a sort of the ten; the
faster way counts. Other backends of ours than the one that `auto` takes are timed beside them. The
arms take turns, each after a pause in which the last one's threads go to sleep and other memory is
read: arms that share an array would find some of it in the caches.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from time import perf_counter, sleep
from typing import TYPE_CHECKING

import numpy as np
from harness import AnswersDifferError, Finding, medians, parser, report

from llm_kernels import (
    available_backends,
    choose_backend,
    inverse_norms,
    topk_cosine,
    topk_oracle,
    unit_queries,
)
from llm_kernels.index import EmbeddingIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_kernels.vectors import Floats, Indices

    Search = Callable[[Floats], Indices]

DIMENSION, K = 384, 10
ROWS = 100_000
# Queries of one search, and how often each arm runs.
REPEATS = {1: 31, 16: 15, 256: 5}
FEW_ROWS, FEW_REPEATS = 1_000, 301
PAUSE = 0.01
# 128 megabytes, more than the caches hold.
ELSEWHERE = np.ones(1 << 25, np.float32)
TOLERANCE = 2e-6
CHECKED = 16
OURS = ("topk_cosine", "EmbeddingIndex")
_OTHER = "topk_cosine by "


def rows_of(generator: np.random.Generator, rows: int) -> Floats:
    """Random unit rows."""
    return unit_queries(generator.standard_normal((rows, DIMENSION), dtype=np.float32))


def searches(corpus: Floats) -> dict[str, Search]:
    """Ours and those of the peers that are installed, each ready to search the corpus."""
    norms = inverse_norms(corpus)
    index = EmbeddingIndex(DIMENSION)
    keys = [str(row) for row in range(len(corpus))]
    index.add(keys, corpus)

    def ours(queries: Floats, backend: str = "auto") -> Indices:
        return topk_cosine(queries, corpus, K, inverse_norms=norms, backend=backend)[1]

    def by_index(queries: Floats) -> Indices:
        found = index.search_batch(queries, K)
        return np.array([[int(match.key) for match in matches] for matches in found])

    def numpy_corpus_first(queries: Floats) -> Indices:
        return best((corpus @ queries.T).T)

    def numpy_queries_first(queries: Floats) -> Indices:
        return best(queries @ corpus.T)

    others = set(available_backends()) - {"triton", choose_backend(device="cpu", rows=len(corpus))}
    arms = {
        "topk_cosine": ours,
        "EmbeddingIndex": by_index,
        **{f"{_OTHER}{name}": partial(ours, backend=name) for name in sorted(others)},
        "NumPy, corpus first": numpy_corpus_first,
        "NumPy, queries first": numpy_queries_first,
    }
    if find_spec("faiss") is not None:
        import faiss

        flat = faiss.IndexFlatIP(DIMENSION)
        flat.add(corpus)
        arms["faiss"] = lambda queries: flat.search(queries, K)[1]
    if find_spec("usearch") is not None:
        from usearch.index import MetricKind, search

        # Of one query it returns one dimension less.
        arms["usearch"] = lambda queries: np.reshape(
            search(corpus, queries, K, MetricKind.IP, exact=True).keys, (len(queries), K)
        )
    return arms


def best(scores: Floats) -> Indices:
    """The K best of scores [Q, N], as one writes it in NumPy."""
    first = scores.shape[1] - K
    rows = np.argpartition(scores, first, axis=1)[:, first:]
    order = np.argsort(-np.take_along_axis(scores, rows, axis=1), axis=1)
    return np.take_along_axis(rows, order, axis=1)


def compare(arms: dict[str, Search], corpus: Floats, queries: Floats) -> None:
    """Checks every arm's answer.

    Raises:
        AnswersDifferError: ours is not the oracle's, or a peer's is worse than rounding explains.
    """
    some = queries[:CHECKED]
    scores, expected = topk_oracle(some, corpus, K)
    ours = arms["topk_cosine"](queries)
    if not np.array_equal(ours[:CHECKED], expected):
        raise AnswersDifferError("topk_cosine does not find the rows that the oracle finds")
    found_scores, _ = topk_cosine(some, corpus, K)
    if not np.array_equal(found_scores, scores):
        raise AnswersDifferError("topk_cosine does not give the scores that the oracle gives")
    exact = scores_of(ours, corpus, queries)
    for name, search in arms.items():
        worst = float(np.abs(scores_of(search(queries), corpus, queries) - exact).max())
        if worst > TOLERANCE:
            raise AnswersDifferError(f"{name} finds rows whose scores are {worst:g} off")


def scores_of(rows: Indices, corpus: Floats, queries: Floats) -> np.ndarray:
    """Exact scores [Q, K] of the rows that an arm found."""
    found = corpus[rows.astype(np.int64)].astype(np.float64)
    return np.einsum("qkd,qd->qk", found, queries.astype(np.float64))


def timed(search: Search, queries: Floats) -> Callable[[], float]:
    """Seconds of one search."""

    def run() -> float:
        sleep(PAUSE)
        ELSEWHERE.max()
        begin = perf_counter()
        search(queries)
        return perf_counter() - begin

    return run


def measured(
    arms: dict[str, Search], corpus: Floats, queries: Floats, *, repeats: int
) -> tuple[str, dict[str, float]]:
    """Compares all arms and times them.

    Returns:
        What was searched, for people, and the seconds of each arm.
    """
    compare(arms, corpus, queries)
    backend = choose_backend(device="cpu", rows=len(corpus), k=K)
    seconds = medians(
        {name: timed(search, queries) for name, search in arms.items()}, repeats=repeats
    )
    return f"N = {len(corpus):,}, Q = {len(queries)}, {backend}", seconds


def ratios(size: str, seconds: dict[str, float]) -> list[Finding]:
    """Our times over the fastest peer's."""
    peers = {
        name: median
        for name, median in seconds.items()
        if name not in OURS and not name.startswith(_OTHER)
    }
    fastest = min(peers, key=peers.__getitem__)
    details = in_ms(size, seconds)
    return [
        Finding(
            label=f"{ours} over the fastest peer ({fastest}), {size}",
            measured=seconds[ours] / peers[fastest],
            unit="x",
            bound="at most",
            target=1.05,
            details=details if ours == OURS[0] else {},
        )
        for ours in OURS
    ]


def in_ms(size: str, seconds: dict[str, float]) -> dict[str, float]:
    """The times of all arms, labelled."""
    return {f"{size}, {name}, ms": 1e3 * median for name, median in seconds.items()}


def main() -> None:
    """Measures and reports."""
    arguments = parser(__doc__).parse_args()
    generator = np.random.default_rng(0)
    findings: list[Finding] = []
    corpus = rows_of(generator, ROWS)
    arms = searches(corpus)
    for count, repeats in REPEATS.items():
        asked = rows_of(generator, count)
        findings += ratios(*measured(arms, corpus, asked, repeats=repeats))
    corpus = rows_of(generator, FEW_ROWS)
    asked = rows_of(generator, 1)
    few = in_ms(*measured(searches(corpus), corpus, asked, repeats=FEW_REPEATS))
    findings[-1] = replace(findings[-1], details=few)
    report("similarity_cpu", findings, as_json=arguments.json)


if __name__ == "__main__":
    main()
