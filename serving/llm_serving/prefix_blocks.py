"""Prompts that end where the prefix cache's blocks do, so that scoring computes no token twice.

The prefix cache keeps whole blocks. Choices that are scored after a prompt of P tokens each compute
the last P mod B of them again, 15 or 16 tokens on average beside choices of four or five. A prompt
of B m + 1 tokens leaves one: its last token, whose output is the first that scoring reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_serving.engine import Engine
    from llm_serving.request import EncodedPrompt, Prompt

BLOCK = 32
"""B: fixed, so that prompts are the same on every engine; vLLM's block on a CPU and a multiple of
its default on GPUs, 16; with other blocks less is gained."""


def filled(engine: Engine, write: Callable[[int], Prompt]) -> EncodedPrompt:
    """The prompt with as much filler as makes it B m + 1 tokens long.

    Args:
        engine: whose tokenizer counts.
        write: the prompt with a filler of so many tokens, at least one.

    Returns:
        The shortest such prompt; where a filler is not one token each with this tokenizer, the
        prompt with a filler of one.
    """
    least = engine.encode(write(1))
    more = (1 - len(least.token_ids)) % BLOCK
    if more == 0:
        return least
    fitting = engine.encode(write(1 + more))
    return fitting if len(fitting.token_ids) % BLOCK == 1 else least
