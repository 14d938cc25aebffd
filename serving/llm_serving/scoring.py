"""Exact log-probabilities of action strings, two ways that check each other.

Both compute log p(choice, terminator | prompt) = Σ_t log p(y_t | prompt, y_<t) over the choice's
tokens y_1 .. y_T, the terminator being y_T: with it, 'open trap' and 'open trap door' compete as
whole answers and a prefix is not favoured for being shorter. Both read the shared prompt from the
prefix cache.

- `tail_scores`: one request per choice, whose uncached tail is scored as part of the prompt.
- `trie_scores`: the choices' tokens form a trie, and each inner node asks for the log-probability
  of its children as the next token.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from llm_serving.request import EncodedPrompt
from llm_serving.vllm_adapter import MAX_LABELS, VllmJob, next_token_params, prompt_tail_params

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_serving.vllm_adapter import VllmResult


class Submit(Protocol):
    """Sends one job to the engine."""

    async def __call__(self, job: VllmJob) -> VllmResult:
        """Awaits its result."""
        ...


async def tail_scores(
    submit: Submit, prompt: EncodedPrompt, sequences: Sequence[tuple[int, ...]]
) -> tuple[list[float], list[VllmResult]]:
    """Scores each sequence as the end of a prompt of its own.

    A row of log-probabilities exists only for tokens after the cached blocks. Where the blocks
    reach into the sequence itself (the prompt ends on a block boundary, or the same sequence was
    scored before), these rows are missing, and `trie_scores` scores those sequences.

    Args:
        submit: sends a job to the engine.
        prompt: what every sequence follows, P tokens.
        sequences: token ids of each choice, its terminator included; distinct.

    Returns:
        Log-probabilities, shape [sequences], in nats, and the results of all jobs.
    """
    begin = len(prompt.token_ids)
    params = prompt_tail_params()
    results = list(
        await asyncio.gather(
            *(
                submit(VllmJob(prompt.token_ids + sequence, prompt.images, params))
                for sequence in sequences
            )
        )
    )
    scores = [0.0] * len(sequences)
    unread: list[int] = []
    for i, (sequence, tail) in enumerate(zip(sequences, results, strict=True)):
        expanded = tail.prompt_tokens - begin - len(sequence)
        first = begin + expanded  # image placeholders make the prompt longer than was sent
        if tail.prompt_logprobs is None or tail.cached_tokens > first - 1:
            unread.append(i)
        else:
            scores[i] = sum(tail.prompt_logprobs[first : first + len(sequence)])
    if unread:
        again, more = await trie_scores(submit, prompt, [sequences[i] for i in unread])
        results += more
        for i, score in zip(unread, again, strict=True):
            scores[i] = score
    return scores, results


async def trie_scores(
    submit: Submit, prompt: EncodedPrompt, sequences: Sequence[tuple[int, ...]]
) -> tuple[list[float], list[VllmResult]]:
    """Scores each sequence as a walk through the trie of all; arguments as for `tail_scores`."""
    nodes = _trie(sequences)
    answers = await asyncio.gather(
        *(
            next_token_logprobs(
                submit, EncodedPrompt(prompt.token_ids + node, prompt.images), following
            )
            for node, following in nodes.items()
        )
    )
    logprob = {node: by_token for node, (by_token, _) in zip(nodes, answers, strict=True)}
    scores = [
        sum(logprob[sequence[:t]][token] for t, token in enumerate(sequence))
        for sequence in sequences
    ]
    return scores, [result for _, results in answers for result in results]


async def next_token_logprobs(
    submit: Submit, prompt: EncodedPrompt, token_ids: Sequence[int]
) -> tuple[dict[int, float], list[VllmResult]]:
    """Log p(token | prompt) of any number of next tokens, in nats, by token id."""
    chunks = [token_ids[i : i + MAX_LABELS] for i in range(0, len(token_ids), MAX_LABELS)]
    results = await asyncio.gather(
        *(
            submit(VllmJob(prompt.token_ids, prompt.images, next_token_params(chunk)))
            for chunk in chunks
        )
    )
    logprobs: dict[int, float] = {}
    for chunk, result in zip(chunks, results, strict=True):
        assert result.next_logprobs is not None
        logprobs.update((token, result.next_logprobs[token]) for token in chunk)
    return logprobs, list(results)


def _trie(sequences: Iterable[tuple[int, ...]]) -> dict[tuple[int, ...], list[int]]:
    """The tokens that follow each beginning of some sequences, in the order of the sequences."""
    following: dict[tuple[int, ...], dict[int, None]] = {}
    for sequence in sequences:
        for position, token in enumerate(sequence):
            following.setdefault(sequence[:position], {})[token] = None
    return {beginning: list(tokens) for beginning, tokens in following.items()}
