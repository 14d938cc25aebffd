"""Triton kernels of the top-k search, in the order in which they run.

`split` writes the queries in the corpus' dtype. `scan` gives each program a slab of consecutive
rows, which it visits in tiles; the matrix of scores is never written. Every (row of the tile,
query) is a *bin*, which keeps its best three scores elementwise, where the products left them: rows
are not compared with each other before the slab is over. Then the k greatest heads of the bins
leave. `merge` takes the k best of all slabs.

What a bin dropped comes behind the third that it kept. So an answer is certain unless a third comes
before the k-th of the answer: three of the best have then met in one bin, and it may have dropped
another. The query stays flagged. `rescue` scans again for flagged queries alone and compares row
with row, whatever the rows hold; `merge` then answers once more. Both end at once where nothing is
flagged, so that nobody has to ask the device in between.

Results travel as 64-bit keys. The greater key comes first: that of the greater score, and of equal
scores that of the lower row. No two rows have the same, so that the answer does not depend on how
the corpus was cut.
"""

# Triton reads the source of a kernel with its own rules: no annotations but `tl.constexpr`, and no
# keyword-only parameters.
# ruff: noqa: ANN001, ANN201, ANN202, N803, N806, PLR0917

from __future__ import annotations

import triton
import triton.language as tl

MINUS_INFINITY = tl.constexpr(float("-inf"))
NOTHING = tl.constexpr(-(2**63))
"""A key that comes behind that of every row."""
EVERYTHING = tl.constexpr(2**63 - 1)

# Numbers that differ from search to search, for which nothing is compiled anew.
_SIZES = ("n_queries", "n_rows", "slab_rows", "slabs", "k")


@triton.jit
def _key(scores, rows):
    """int64; -0.0 ties with 0.0, and NaN comes last."""
    scores = tl.where(scores == 0.0, 0.0, scores)
    scores = tl.where(scores == scores, scores, MINUS_INFINITY)  # noqa: PLR0124 - false for NaN
    bits = scores.to(tl.int32, bitcast=True)
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ascending.to(tl.int64) << 32) | (0x7FFFFFFF - rows).to(tl.int64)


@triton.jit
def split(queries, parts, flags, D: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Writes each query, float32, as a sum of PARTS rows of the corpus' dtype, and flags it.

    Args:
        queries: float32 [Q, D].
        parts: [Q * PARTS, D], written; the parts of a query follow each other.
        flags: int32 [Q], written.
        BLOCK: D rounded up to a power of two.
    """
    query = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < D
    rest = tl.load(queries + query * D + column, mask=inside, other=0.0)
    for part in tl.static_range(PARTS):
        rounded = rest.to(parts.dtype.element_ty)
        tl.store(parts + (query * PARTS + part) * D + column, rounded, mask=inside)
        rest -= rounded.to(tl.float32)
    tl.store(flags + query, 1)


@triton.jit
def _query_rows(parts, n_queries, D: tl.constexpr, COLUMNS: tl.constexpr, PARTS: tl.constexpr):
    """Pointers to the parts of a program's queries; the last one again beyond the last query."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    return parts + tl.minimum(column, n_queries * PARTS - 1).to(tl.int64) * D


@triton.jit
def _add_chunk(dots, tile, local, queries, first_column, D: tl.constexpr, CHUNK: tl.constexpr):
    """Adds to dots [ROWS, COLUMNS] the products of CHUNK columns of a tile and of the queries."""
    column = first_column + tl.arange(0, CHUNK)
    rows = tile + local[:, None] * D + column[None, :]
    if D % CHUNK == 0:
        block = tl.load(rows)
        asked = tl.load(queries[None, :] + column[:, None])
    else:
        block = tl.load(rows, mask=(column < D)[None, :], other=0.0)
        asked = tl.load(queries[None, :] + column[:, None], mask=(column < D)[:, None], other=0.0)
    return tl.dot(block, asked, dots, input_precision="tf32x3")


@triton.jit
def _cosines(dots, weights, inside, ROWS: tl.constexpr, QUERIES: tl.constexpr, PARTS: tl.constexpr):
    """Scores [ROWS, QUERIES] of a tile; -inf for rows that are left out."""
    if PARTS == 2:
        dots = tl.sum(tl.reshape(dots, (ROWS, QUERIES, 2)), axis=2)
    taking_part = inside & (weights > 0)
    return tl.where(taking_part[:, None], dots * weights[:, None], MINUS_INFINITY)


@triton.jit
def _insert(scores, tile, first, second, third, tiles):
    """Puts a tile's scores into the bins; of equal scores the earlier tile stays ahead.

    `tiles` holds the number of the tile of a bin's first, second and third score, in ten bits each.
    """
    above_first = scores > first
    above_second = scores > second
    above_third = scores > third
    to_front = ((tiles << 10) & 0x3FFFFFFF) | tile
    to_middle = (tiles & 0x3FF) | ((tiles & 0xFFC00) << 10) | (tile * 0x400)
    to_end = tl.where(above_third, (tiles & 0xFFFFF) | (tile * 0x100000), tiles)
    tiles = tl.where(above_first, to_front, tl.where(above_second, to_middle, to_end))
    third = tl.where(above_second, second, tl.where(above_third, scores, third))
    second = tl.where(above_first, first, tl.where(above_second, scores, second))
    first = tl.where(above_first, scores, first)
    return first, second, third, tiles


@triton.jit(do_not_specialize=_SIZES)
def scan(
    parts,
    corpus,
    inverse_norms,
    lists,
    n_queries,
    n_rows,
    slab_rows,
    k,
    D: tl.constexpr,
    PARTS: tl.constexpr,
    CHUNK: tl.constexpr,
    QUERIES: tl.constexpr,
    ROWS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Writes the list of a slab for some queries: its best keys, and a bound on what was dropped.

    Programs of one slab and different queries follow each other, so that a slab is read from the
    device's memory once and from its L2 cache afterwards.

    Args:
        parts: as `split` writes them.
        corpus: [n_rows, D].
        inverse_norms: float32 [n_rows]; 0 leaves a row out.
        lists: int64 [n_queries, slabs, k + 1], written: k keys, descending, and a key that comes
            before all that were dropped.
        n_rows: at most 2^30.
        slab_rows: rows per program, a multiple of ROWS and at most 1,023 tiles; the grid is
            (ceil(n_queries / QUERIES), slabs).
        CHUNK: columns per dot product.
        QUERIES: queries per program.
        ROWS: rows per tile.
        STAGES: chunks in flight.
    """
    CHUNKS: tl.constexpr = (D + CHUNK - 1) // CHUNK
    start = tl.program_id(1) * slab_rows
    slab_tiles = (tl.minimum(slab_rows, n_rows - start) + ROWS - 1) // ROWS
    queries = _query_rows(parts, n_queries, D, QUERIES * PARTS, PARTS)
    lane = tl.arange(0, ROWS)
    first = tl.full((ROWS, QUERIES), MINUS_INFINITY, tl.float32)
    second = tl.full((ROWS, QUERIES), MINUS_INFINITY, tl.float32)
    third = tl.full((ROWS, QUERIES), MINUS_INFINITY, tl.float32)
    tiles = tl.zeros((ROWS, QUERIES), tl.int32)
    dots = tl.zeros((ROWS, QUERIES * PARTS), tl.float32)
    # One loop over the chunks of all tiles: loads go on while a tile's scores are put in.
    for step in tl.range(0, slab_tiles * CHUNKS, num_stages=STAGES):
        tile = step // CHUNKS
        chunk = step - tile * CHUNKS
        first_row = start + tile * ROWS
        inside = lane < n_rows - first_row
        local = tl.minimum(lane, n_rows - 1 - first_row)
        tile_rows = corpus + first_row.to(tl.int64) * D
        # Needed after the last chunk only; in every step, so that it is prefetched.
        weights = tl.load(inverse_norms + first_row + local)
        dots = _add_chunk(dots, tile_rows, local, queries, chunk * CHUNK, D, CHUNK)
        if chunk == CHUNKS - 1:
            scores = _cosines(dots, weights, inside, ROWS, QUERIES, PARTS)
            first, second, third, tiles = _insert(scores, tile, first, second, third, tiles)
            dots = tl.zeros((ROWS, QUERIES * PARTS), tl.float32)

    row = start + lane[:, None]
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    place = lists + (query.to(tl.int64) * tl.num_programs(1) + tl.program_id(1)) * (k + 1)
    last = tl.max(_key(third, row + (tiles >> 20) * ROWS), axis=0)
    # Of three tiles nothing is dropped.
    tl.store(place + k, tl.where(slab_tiles > 3, last, NOTHING), mask=query < n_queries)
    for number in range(k):
        heads = _key(first, row + (tiles & 0x3FF) * ROWS)
        best = tl.max(heads, axis=0)
        tl.store(place + number, best, mask=query < n_queries)
        won = heads == best[None, :]
        first = tl.where(won, second, first)
        second = tl.where(won, third, second)
        third = tl.where(won, MINUS_INFINITY, third)
        tiles = tl.where(won, tiles >> 10, tiles)


@triton.jit(do_not_specialize=_SIZES)
def merge(lists, flags, keys, slabs, k, SLABS: tl.constexpr):
    """Answers flagged queries, one program each, and takes the flag from those that are certain.

    Args:
        lists: as `scan` or `rescue` writes them; at least k keys of a query are those of rows.
        flags: int32 [n_queries].
        keys: int64 [n_queries, k], written, descending.
        SLABS: slabs rounded up to a power of two.
    """
    query = tl.program_id(0).to(tl.int64)
    if tl.load(flags + query) > 0:
        slab = tl.arange(0, SLABS)
        inside = slab < slabs
        own = lists + (query * slabs + slab) * (k + 1)
        taken = tl.zeros((SLABS,), tl.int32)
        heads = tl.load(own, mask=inside, other=NOTHING)
        following = tl.load(own + 1, mask=inside, other=NOTHING)
        best = tl.max(heads, axis=0)
        for number in range(k):
            best = tl.max(heads, axis=0)
            tl.store(keys + query * k + number, best)
            won = heads == best
            taken += won.to(tl.int32)
            heads = tl.where(won, following, heads)
            # The head after the next is on its way while the next one is compared. What follows a
            # list's last key is its bound, which becomes a head when k keys have been written.
            after = tl.load(own + taken + 1, mask=inside & won & (taken < k), other=NOTHING)
            following = tl.where(won, after, following)
        bound = tl.max(tl.load(own + k, mask=inside, other=NOTHING), axis=0)
        tl.store(flags + query, (bound > best).to(tl.int32))


@triton.jit(do_not_specialize=_SIZES)
def rescue(
    parts,
    corpus,
    inverse_norms,
    flags,
    lists,
    n_queries,
    n_rows,
    slab_rows,
    k,
    D: tl.constexpr,
    PARTS: tl.constexpr,
    CHUNK: tl.constexpr,
    QUERIES: tl.constexpr,
    ROWS: tl.constexpr,
    STAGES: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """As `scan`, for flagged queries alone; nothing is dropped: one list of k keys takes all rows.

    Args:
        SLOTS: of a list, a power of two, at least k.
    """
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    flagged = tl.load(flags + query, mask=query < n_queries, other=0) > 0
    if tl.max(flagged.to(tl.int32), axis=0) > 0:
        start = tl.program_id(1) * slab_rows
        stop = tl.minimum(start + slab_rows, n_rows)
        queries = _query_rows(parts, n_queries, D, QUERIES * PARTS, PARTS)
        lane = tl.arange(0, ROWS)
        # Empty places differ, so that "the worst entry" is one of them; those from k on stay.
        slot = tl.arange(0, SLOTS)
        empty = tl.where(slot < k, slot.to(tl.int64) + (NOTHING + 1), EVERYTHING)
        best_keys = tl.broadcast_to(empty[:, None], (SLOTS, QUERIES))
        for first_row in range(start, stop, ROWS):
            row = first_row + lane
            local = tl.minimum(lane, n_rows - 1 - first_row)
            tile_rows = corpus + tl.cast(first_row, tl.int64) * D
            dots = tl.zeros((ROWS, QUERIES * PARTS), tl.float32)
            for column in tl.range(0, D, CHUNK, num_stages=STAGES):
                dots = _add_chunk(dots, tile_rows, local, queries, column, D, CHUNK)
            weights = tl.load(inverse_norms + first_row + local)
            scores = _cosines(dots, weights, row < stop, ROWS, QUERIES, PARTS)
            keys = tl.where(flagged[None, :], _key(scores, row[:, None]), NOTHING)
            best, worst = tl.max(keys, axis=0), tl.min(best_keys, axis=0)
            while tl.max((best > worst).to(tl.int32), axis=0) > 0:
                enters = (best > worst)[None, :] & (best_keys == worst[None, :])
                best_keys = tl.where(enters, best[None, :], best_keys)
                keys = tl.where(keys == best[None, :], NOTHING, keys)
                best, worst = tl.max(keys, axis=0), tl.min(best_keys, axis=0)
        best_keys = tl.where((slot < k)[:, None], best_keys, NOTHING)
        place = lists + (query.to(tl.int64) * tl.num_programs(1) + tl.program_id(1)) * (k + 1)
        tl.store(place + k, NOTHING, mask=flagged)
        for number in range(k):
            best = tl.max(best_keys, axis=0)
            tl.store(place + number, best, mask=flagged)
            best_keys = tl.where(best_keys == best[None, :], NOTHING, best_keys)
