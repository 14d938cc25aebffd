"""Attention in a row: every node sees its ancestors and itself, and nothing else.

Queries go in blocks of neighbouring nodes. What a block sees are the ancestors of its first node,
which are a few runs of neighbours, and the block itself. So no product is much larger than the tree
asks for, and every product is a dense one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from llm_planning.distill.trie import Row

BLOCK = 128
"""Queries of a block: fewer are wasteful products, more see many keys that are not theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Queries of neighbouring nodes, and the keys that any of them sees.

    Attributes:
        start: the first node of the queries.
        stop: the node after the last.
        runs: of neighbouring nodes, from and up to, whose keys are seen; the queries are the last.
        mask: minus infinity where a query does not see a key, else 0: [queries, keys].
    """

    start: int
    stop: int
    runs: tuple[tuple[int, int], ...]
    mask: Tensor


def blocks(row: Row, *, dtype: torch.dtype, device: torch.device) -> list[Block]:
    """Cuts the nodes of a row into blocks."""
    ends = torch.tensor(row.ends)
    found = []
    for start in range(0, len(row.tokens), BLOCK):
        stop = min(start + BLOCK, len(row.tokens))
        keys = torch.cat([torch.nonzero(ends[:start] > start)[:, 0], torch.arange(start, stop)])
        queries = torch.arange(start, stop)[:, None]
        sees = (keys <= queries) & (queries < ends[keys])
        mask = torch.zeros(sees.shape).masked_fill_(~sees, -torch.inf)
        found.append(
            Block(
                start=start,
                stop=stop,
                runs=_runs(keys.tolist()),
                mask=mask.to(device=device, dtype=dtype),
            )
        )
    return found


def _runs(nodes: list[int]) -> tuple[tuple[int, int], ...]:
    """Cuts ascending numbers into runs of neighbours."""
    cuts = [place for place, (one, two) in enumerate(pairwise(nodes), 1) if two != one + 1]
    places = [0, *cuts, len(nodes)]
    return tuple((nodes[start], nodes[stop - 1] + 1) for start, stop in pairwise(places))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended:
    """What the gradient of an attention needs to know.

    Attributes:
        queries: [kv heads, queries of one kv head, nodes, head width], scaled.
        keys: [kv heads, nodes, head width].
        values: [kv heads, nodes, head width].
        shares: of each block, what each query takes of each key.
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    shares: list[Tensor]


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, *, cut: list[Block]
) -> tuple[Tensor, Attended]:
    """Computes the attention of a row.

    Args:
        queries: [kv heads, queries of one kv head, nodes, head width], scaled.
        keys: [kv heads, nodes, head width].
        values: [kv heads, nodes, head width].
        cut: the row's blocks.

    Returns:
        What each node takes from its values, [nodes, kv heads, queries, head width], and what
        `attend_back` needs.
    """
    kv_heads, group, nodes, width = queries.shape
    taken = queries.new_empty(nodes, kv_heads, group, width)
    shares = []
    for block in cut:
        count = block.stop - block.start
        asked = queries[:, :, block.start : block.stop].reshape(kv_heads, group * count, width)
        scores = torch.bmm(asked, _gather(keys, block).transpose(1, 2))
        scores.view(kv_heads, group, count, -1).add_(block.mask)
        share = torch.softmax(scores, dim=-1)
        found = torch.bmm(share, _gather(values, block)).view(kv_heads, group, count, width)
        taken[block.start : block.stop] = found.permute(2, 0, 1, 3)
        shares.append(share)
    return taken, Attended(queries=queries, keys=keys, values=values, shares=shares)


def attend_back(
    gradient: Tensor, *, attended: Attended, cut: list[Block]
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients of an attention.

    Args:
        gradient: of the loss with respect to what was taken.
        attended: what `attend` returned.
        cut: the row's blocks.

    Returns:
        The gradients of queries, keys and values.
    """
    kv_heads, group, _, width = attended.queries.shape
    of_queries = torch.empty_like(attended.queries)
    of_keys = torch.zeros_like(attended.keys, dtype=torch.float32)
    of_values = torch.zeros_like(attended.values, dtype=torch.float32)
    for block, share in zip(cut, attended.shares, strict=True):
        count = block.stop - block.start
        here = slice(block.start, block.stop)
        wanted = gradient[here].permute(1, 2, 0, 3).reshape(kv_heads, group * count, width)
        asked = attended.queries[:, :, here].reshape(kv_heads, group * count, width)
        _scatter(of_values, block, torch.bmm(share.transpose(1, 2), wanted))
        of_shares = torch.bmm(wanted, _gather(attended.values, block).transpose(1, 2))
        of_scores = torch._softmax_backward_data(of_shares, share, -1, share.dtype)
        of_queries[:, :, here] = torch.bmm(of_scores, _gather(attended.keys, block)).view(
            kv_heads, group, count, width
        )
        _scatter(of_keys, block, torch.bmm(of_scores.transpose(1, 2), asked))
    return of_queries, of_keys, of_values


def _gather(rows: Tensor, block: Block) -> Tensor:
    return torch.cat([rows[:, start:stop] for start, stop in block.runs], dim=1)


def _scatter(rows: Tensor, block: Block, added: Tensor) -> None:
    place = 0
    for start, stop in block.runs:
        rows[:, start:stop] += added[:, place : place + stop - start]
        place += stop - start
