"""Triton kernels of the top-k search: one that scans the corpus, one that merges what it found.

A scan gives each program a slab of consecutive corpus rows. The program computes the scores of one
tile of rows at a time and keeps, for each of its queries, the best k seen so far in registers; the
score matrix [queries, rows] is never written. Its sorted lists go to `merge`, a program per query.

Order is (score descending, row ascending) everywhere, which makes the result independent of how the
corpus was cut: rows are visited in ascending order, so that a newcomer whose score only equals that
of the worst entry kept comes later in the order and stays out.
"""

# Triton reads the source of a kernel with its own rules: no annotations but `tl.constexpr`, and no
# keyword-only parameters.
# ruff: noqa: ANN001, ANN201, ANN202, N803, PLR0917

from __future__ import annotations

import triton
import triton.language as tl

NO_ROW = tl.constexpr(2**31 - 1)
MINUS_INFINITY = tl.constexpr(float("-inf"))
INFINITY = tl.constexpr(float("inf"))


@triton.jit
def _empty_lists(Q: tl.constexpr, K: tl.constexpr, SLOTS: tl.constexpr):
    """Lists [Q, SLOTS] without an entry; slots from K on hold +inf, so that they never count.

    Rows of empty slots differ, so that "the worst entry" is always one slot.
    """
    slots = tl.arange(0, SLOTS)
    scores = tl.where(slots < K, MINUS_INFINITY, INFINITY)
    return (
        tl.broadcast_to(scores[None, :], (Q, SLOTS)),
        tl.broadcast_to((-slots + NO_ROW)[None, :], (Q, SLOTS)),
    )


@triton.jit
def _keep_best(scores, first_row, lists, list_rows, ROWS: tl.constexpr):
    """Lets the scores [ROWS, Q] of a tile into the lists, best first, until none is good enough.

    Most tiles change nothing once the lists have filled up; they cost one reduction.
    """
    positions = tl.arange(0, ROWS)
    worst = tl.min(lists, axis=1)
    best, position = tl.max(scores, axis=0, return_indices=True, return_indices_tie_break_left=True)
    # The condition of the loop once more: Triton prefetches the tiles of a loop only if no other
    # loop lies directly in it.
    if tl.max((best > worst).to(tl.int32), axis=0) > 0:
        while tl.max((best > worst).to(tl.int32), axis=0) > 0:
            enters = best > worst
            at_worst = lists == worst[:, None]
            worst_row = tl.max(tl.where(at_worst, list_rows, -1), axis=1)
            replaced = at_worst & (list_rows == worst_row[:, None]) & enters[:, None]
            lists = tl.where(replaced, best[:, None], lists)
            list_rows = tl.where(replaced, (first_row + position)[:, None], list_rows)
            scores = tl.where(positions[:, None] == position[None, :], MINUS_INFINITY, scores)
            worst = tl.min(lists, axis=1)
            best, position = tl.max(
                scores, axis=0, return_indices=True, return_indices_tie_break_left=True
            )
    return lists, list_rows


@triton.jit
def _write_sorted(
    lists,
    list_rows,
    scores_out,
    rows_out,
    keep,
    K: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Writes the K entries of each list, best first, to `scores_out` and `rows_out` [Q]."""
    slots = tl.arange(0, SLOTS)
    lists = tl.where(slots[None, :] < K, lists, MINUS_INFINITY)
    for place in range(K):
        best = tl.max(lists, axis=1)
        row = tl.min(tl.where(lists == best[:, None], list_rows, NO_ROW), axis=1)
        tl.store(scores_out + place, best, mask=keep)
        tl.store(rows_out + place, row.to(rows_out.dtype.element_ty), mask=keep)
        taken = (lists == best[:, None]) & (list_rows == row[:, None])
        lists = tl.where(taken, MINUS_INFINITY, lists)
        list_rows = tl.where(taken, NO_ROW, list_rows)


@triton.jit
def _weighted(dots, inverse_norms, first_row, last_row, ROWS: tl.constexpr):
    """Cosines [ROWS, Q] of a tile's dot products; -inf for rows left out or past the slab."""
    rows = first_row + tl.arange(0, ROWS)
    weights = tl.load(inverse_norms + rows, mask=rows < last_row, other=0.0)
    return tl.where(weights[:, None] > 0, dots * weights[:, None], MINUS_INFINITY)


@triton.jit
def _add_chunk(
    dots,
    queries,
    query,
    n_queries,
    tile,
    in_slab,
    first_column,
    D: tl.constexpr,
    PARTS: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Adds to dots [ROWS, Q] what CHUNK columns of a tile and of the queries contribute."""
    columns = first_column + tl.arange(0, CHUNK)
    block = tl.load(
        tile + tl.arange(0, ROWS)[:, None] * D + columns[None, :],
        mask=in_slab[:, None] & (columns < D)[None, :],
        other=0.0,
    )
    for part in tl.static_range(PARTS):
        sources = (part * n_queries + query).to(tl.int64) * D
        transposed = tl.load(
            queries + sources[None, :] + columns[:, None],
            mask=(query < n_queries)[None, :] & (columns < D)[:, None],
            other=0.0,
        )
        dots = tl.dot(block, transposed, dots, input_precision="tf32x3")
    return dots


@triton.jit
def scan(
    queries,
    corpus,
    inverse_norms,
    list_scores,
    list_rows,
    n_queries,
    n_rows,
    slab_rows,
    D: tl.constexpr,
    K: tl.constexpr,
    SLOTS: tl.constexpr,
    PARTS: tl.constexpr,
    STREAMS: tl.constexpr,
    QUERIES: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Scores the rows of a slab against some queries, and writes the best of each.

    Programs of one slab and different queries follow each other, so that a slab is read from the
    device's memory once and from its L2 cache afterwards.

    Args:
        queries: [PARTS, n_queries, D], unit rows as a sum of PARTS arrays of the corpus' dtype.
        corpus: [n_rows, D].
        inverse_norms: [n_rows] float32; 0 leaves a row out.
        list_scores: [n_queries, slabs, K] float32, written.
        list_rows: [n_queries, slabs, K] int32, written.
        n_queries: Q.
        n_rows: N, at most 2^30.
        slab_rows: rows per program, a multiple of ROWS; the grid is (ceil(Q / QUERIES), slabs).
        D: dimension.
        K: length of the lists.
        SLOTS: K rounded up to a power of two.
        PARTS: see `queries`.
        STREAMS: for few queries, bound by reading the corpus: whole rows are prefetched, and the
            queries stay on the chip. Otherwise, bound by arithmetic, chunks of both are.
        QUERIES: queries per program.
        ROWS: rows per tile.
        CHUNK: columns per dot product.
        STAGES: tiles in flight, or chunks.
    """
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    slab = tl.program_id(1)
    start = slab * slab_rows
    stop = tl.minimum(start + slab_rows, n_rows)
    tile_rows = tl.arange(0, ROWS)
    lists, rows_of_lists = _empty_lists(QUERIES, K, SLOTS)
    for first_row in tl.range(start, stop, ROWS, num_stages=STAGES if STREAMS else 1):
        tile = corpus + tl.cast(first_row, tl.int64) * D
        in_slab = first_row + tile_rows < stop
        dots = tl.zeros((ROWS, QUERIES), tl.float32)
        if STREAMS:
            # Unrolled, so that the queries are loaded once, before the first tile.
            for column in tl.static_range(0, D, CHUNK):
                dots = _add_chunk(
                    dots, queries, query, n_queries, tile, in_slab, column, D, PARTS, ROWS, CHUNK
                )
        else:
            for column in tl.range(0, D, CHUNK, num_stages=STAGES):
                dots = _add_chunk(
                    dots, queries, query, n_queries, tile, in_slab, column, D, PARTS, ROWS, CHUNK
                )
        scores = _weighted(dots, inverse_norms, first_row, stop, ROWS)
        lists, rows_of_lists = _keep_best(scores, first_row, lists, rows_of_lists, ROWS)
    place = (query.to(tl.int64) * tl.num_programs(1) + slab) * K
    _write_sorted(
        lists, rows_of_lists, list_scores + place, list_rows + place, query < n_queries, K, SLOTS
    )


@triton.jit
def merge(
    list_scores,
    list_rows,
    scores,
    rows,
    n_candidates,
    K: tl.constexpr,
    SLOTS: tl.constexpr,
    CANDIDATES: tl.constexpr,
):
    """One program per query: the best K of the lists of all slabs.

    Slabs lie in the order of their rows and each list is sorted, so that among equal scores the
    earlier candidate has the lower row.

    Args:
        list_scores: [queries, n_candidates] float32, the lists one after another.
        list_rows: [queries, n_candidates] int32.
        scores: [queries, K] float32, written.
        rows: [queries, K] int64, written.
        n_candidates: slabs x K.
        K: length of the lists and of the result.
        SLOTS: K rounded up to a power of two.
        CANDIDATES: candidates looked at together.
    """
    query = tl.program_id(0) + tl.arange(0, 1)
    lists, rows_of_lists = _empty_lists(1, K, SLOTS)
    base = query.to(tl.int64) * n_candidates
    for first in range(0, n_candidates, CANDIDATES):
        places = first + tl.arange(0, CANDIDATES)
        candidates = tl.load(
            list_scores + base[None, :] + places[:, None],
            mask=(places < n_candidates)[:, None],
            other=MINUS_INFINITY,
        )
        lists, rows_of_lists = _keep_best(candidates, first, lists, rows_of_lists, CANDIDATES)
    found = tl.load(
        list_rows + base[:, None] + rows_of_lists, mask=rows_of_lists < n_candidates, other=NO_ROW
    )
    place = query.to(tl.int64) * K
    _write_sorted(lists, found, scores + place, rows + place, query >= 0, K, SLOTS)
