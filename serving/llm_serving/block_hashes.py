"""Prompts that begin alike have the blocks of their beginning hashed once.

vLLM hashes each full block of a request's tokens, to find it in the prefix cache. Scoring sends one
prompt with each of its choices, one after the other.

vLLM is imported here: import this module only where an engine is opened.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from vllm.v1.core.kv_cache_utils import generate_block_hash_extra_keys
from vllm.v1.engine import core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Hasher: TypeAlias = "Callable[[Any], list[bytes]]"
"""The hashes of a vLLM `Request`'s blocks that it does not have yet."""


@cache
def install() -> None:
    """Engines that open in this process hash so. A second call does nothing."""
    make = core.get_request_block_hasher
    core.get_request_block_hasher = lambda size, digest: sharing(make(size, digest), size)


def sharing(hasher: Hasher, size: int) -> Hasher:
    """A hasher of blocks that takes over those which the prompt before has, too.

    A block's hash follows from the tokens up to its end and from what vLLM hashes beside tokens:
    adapter, pictures, salt. Blocks are taken over where all of that is the same.

    Args:
        hasher: vLLM's, which hashes each block.
        size: tokens of a block.
    """
    before: tuple[Sequence[int], object, list[bytes]] = ([], None, [])

    def hashed(request: Any) -> list[bytes]:  # noqa: ANN401 - vLLM's Request
        nonlocal before
        tokens = request.prompt_token_ids
        if request.block_hashes or tokens is None or len(tokens) < size:
            return hasher(request)  # of an answer, or of what has no block or no tokens
        others, others_beside, known = before  # read at once: two threads of an engine hash
        places = [each.mm_position for each in request.mm_features]
        ends = [place.offset + place.length for place in places]
        beside = (generate_block_hash_extra_keys(request, 0, len(tokens), 0)[0], ends)
        alike = _blocks_alike(others, tokens, size) if beside == others_beside else 0
        if ends and alike * size < ends[-1]:
            alike = 0  # from the middle of a prompt on, vLLM 0.26 looks for its last picture alone
        request.block_hashes.extend(known[:alike])
        hashes = [*request.block_hashes, *hasher(request)]
        request.block_hashes.clear()
        before = tokens, beside, hashes
        return hashes

    return hashed


def _blocks_alike(some: Sequence[int], others: Sequence[int], size: int) -> int:
    """With how many whole blocks both begin."""
    least, most = 0, min(len(some), len(others)) // size
    while least < most:
        middle = (least + most + 1) // 2
        part = slice(least * size, middle * size)
        if some[part] == others[part]:
            least = middle
        else:
            most = middle - 1
    return least
