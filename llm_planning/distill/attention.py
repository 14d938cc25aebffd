"""Attention in a row: every node sees its ancestors and itself, and nothing else.

Queries go in blocks of neighbouring nodes. What a block sees are the ancestors of its first node,
which are a few runs of neighbours, and the block itself. So no product is much larger than the tree
asks for, and every product is a dense one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from llm_planning.distill.trie import Row

BLOCK = 128
"""Queries of a block: fewer are wasteful products, more see many keys that are not theirs."""

BLOCK_ON_GPU = 2048
"""The same on a GPU, where to begin a product takes longer than most products."""


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
    there, size = ends.to(device), BLOCK if device.type == "cpu" else BLOCK_ON_GPU
    cut = []
    for start in range(0, len(row.tokens), size):
        stop = min(start + size, len(row.tokens))
        ancestors = torch.cat(
            [torch.nonzero(ends[:start] > start)[:, 0], torch.arange(start, stop)]
        )
        keys, queries = ancestors.to(device), torch.arange(start, stop, device=device)[:, None]
        sees = (keys <= queries) & (queries < there[keys])
        mask = torch.zeros(sees.shape, dtype=dtype, device=device).masked_fill_(~sees, -torch.inf)
        cut.append(Block(start=start, stop=stop, runs=_runs(ancestors.tolist()), mask=mask))
    return cut


def _runs(nodes: list[int]) -> tuple[tuple[int, int], ...]:
    """Cuts ascending numbers into runs of neighbours."""
    cuts = [
        place for place, (node, following) in enumerate(pairwise(nodes), 1) if following != node + 1
    ]
    places = [0, *cuts, len(nodes)]
    return tuple((nodes[start], nodes[stop - 1] + 1) for start, stop in pairwise(places))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended:
    """An attention's inputs and shares, or their gradients.

    Attributes:
        queries: [kv heads, queries of one kv head, nodes, head width], scaled.
        keys: [kv heads, nodes, head width].
        values: [kv heads, nodes, head width].
        shares: what each query takes of each key, one block after the other, flat.
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    shares: Tensor

    def of_blocks(self, cut: list[Block]) -> Iterator[tuple[Block, Tensor, Tensor]]:
        """Each block with its queries, [kv heads, queries, head width], and its shares."""
        kv_heads, group, _, width = self.queries.shape
        place = 0
        for block in cut:
            count, keys = block.mask.shape
            asked = self.queries[:, :, block.start : block.stop]
            shape = (kv_heads, group * count, keys)
            size = math.prod(shape)
            share = self.shares[place : place + size].view(shape)
            yield block, asked.reshape(kv_heads, group * count, width), share
            place += size


def attend(attended: Attended, cut: list[Block], *, taken: Tensor) -> None:
    """Computes the attention of a row.

    Args:
        attended: queries, keys and values; gets the shares.
        taken: gets what each node takes of the values, [nodes, kv heads, queries, head width].
    """
    for block, queries, share in attended.of_blocks(cut):
        scores = torch.bmm(queries, _gather(attended.keys, block).transpose(1, 2))
        count, keys = block.mask.shape
        scores.view(len(scores), -1, count, keys).add_(block.mask)
        torch.softmax(scores, dim=-1, out=share)
        mixed = torch.bmm(share, _gather(attended.values, block))
        taken[block.start : block.stop] = mixed.unflatten(1, (-1, count)).permute(2, 0, 1, 3)


def attend_back(gradient: Tensor, attended: Attended, cut: list[Block], *, out: Attended) -> None:
    """Computes the gradients of an attention.

    Args:
        gradient: of the loss with respect to what was taken.
        attended: with the shares.
        out: gets the gradient of the queries, and that of keys and values added, in float32.
    """
    kv_heads, group, _, width = attended.queries.shape
    for block, queries, share in attended.of_blocks(cut):
        count = block.stop - block.start
        here = slice(block.start, block.stop)
        wanted = gradient[here].permute(1, 2, 0, 3).reshape(kv_heads, group * count, width)
        _scatter(out.values, block, torch.bmm(share.transpose(1, 2), wanted))
        of_shares = torch.bmm(wanted, _gather(attended.values, block).transpose(1, 2))
        of_scores = torch._softmax_backward_data(of_shares, share, -1, share.dtype)
        out.queries[:, :, here] = torch.bmm(of_scores, _gather(attended.keys, block)).unflatten(
            1, (group, count)
        )
        _scatter(out.keys, block, torch.bmm(of_scores.transpose(1, 2), queries))


def _gather(rows: Tensor, block: Block) -> Tensor:
    return torch.cat([rows[:, start:stop] for start, stop in block.runs], dim=1)


def _scatter(rows: Tensor, block: Block, added: Tensor) -> None:
    place = 0
    for start, stop in block.runs:
        rows[:, start:stop] += added[:, place : place + stop - start]
        place += stop - start
