"""Exact log-probabilities of action strings, read in three ways that check each other.

All compute log p(choice, end | prompt) = Σ_t log p(y_t | prompt, y_<t) + log Σ_e p(e | prompt, y)
over the choice's tokens y_1 .. y_T and the tokens e that end a turn: with the end, 'open trap' and
'open trap door' compete as whole answers and a prefix is not favoured for being shorter.

The choices' tokens form a trie. Of each node, a beginning of some choices, the log-probabilities of
the tokens that follow it there are wanted. The prompt that all share comes from the prefix cache.

- `trie_scores`: one request for each node, whose next token is asked about.
- `tail_scores`: one request for each choice. What follows its last token is asked about, and each
  of its own tokens is scored as a part of the prompt.
- `branch_scores`: likewise, but the prompt's rows hold all tokens that follow a node, not the
  choice's own alone. So choices that begin others need no request, and requests that share a node
  check each other.

Rows exist only for tokens after the cached blocks. What is missing of a node is asked about as
`trie_scores` does.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING, Protocol, TypeAlias

from llm_serving.request import EncodedPrompt
from llm_serving.vllm_adapter import (
    VllmJob,
    branch_params,
    next_token_params,
    tail_params,
    uncached_params,
)
from llm_serving.vllm_arguments import MAX_LABELS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from llm_serving.vllm_adapter import VllmResult

Tokens: TypeAlias = tuple[int, ...]
Trie: TypeAlias = dict[Tokens, list[int]]
"""The tokens that follow each beginning of some choices, the ends included."""


class Submit(Protocol):
    """Sends one job to the engine."""

    async def __call__(self, job: VllmJob) -> VllmResult:
        """Awaits its result."""
        ...


class Way(Protocol):
    """One of the three ways."""

    async def __call__(
        self,
        submit: Submit,
        prompt: EncodedPrompt,
        sequences: Sequence[Tokens],
        *,
        ends: Sequence[int],
    ) -> Scored:
        """Scores sequences.

        Args:
            submit: sends a job to the engine.
            prompt: what every sequence follows.
            sequences: token ids of each choice, without an end; distinct.
            ends: tokens that end a turn.
        """
        ...


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of some sequences.

    Attributes:
        logprobs: shape [sequences], in nats.
        gap: nats by which two requests differ about the same token, at most.
        rows: tokens whose log-probability was read from the rows of a prompt.
    """

    logprobs: list[float]
    results: list[VllmResult]
    gap: float = 0.0
    rows: int = 0


async def plain_scores(
    submit: Submit, prompt: EncodedPrompt, sequences: Sequence[Tokens], *, ends: Sequence[int]
) -> Scored:
    """Computes the whole prompt again for each choice and end: what the ways are checked by.

    Arguments are those of `Way`.
    """
    endings = [(*sequence, end) for sequence in sequences for end in ends]
    results = await asyncio.gather(
        *(
            submit(VllmJob(prompt.token_ids + ending, prompt.images, uncached_params()))
            for ending in endings
        )
    )
    totals = [
        sum(result.tail_logprobs[-len(ending) :])
        if len(result.tail_logprobs) >= len(ending)
        else nan
        for ending, result in zip(endings, results, strict=True)
    ]
    of_choices = (totals[i : i + len(ends)] for i in range(0, len(totals), len(ends)))
    return Scored([_log_sum(some) for some in of_choices], list(results))


async def trie_scores(
    submit: Submit, prompt: EncodedPrompt, sequences: Sequence[Tokens], *, ends: Sequence[int]
) -> Scored:
    """Asks about each node by itself; see `Way`."""
    trie = _trie(sequences, ends)
    return await _completed(submit, prompt, trie, sequences, ends=ends, known=_Known())


async def tail_scores(
    submit: Submit, prompt: EncodedPrompt, sequences: Sequence[Tokens], *, ends: Sequence[int]
) -> Scored:
    """Scores each sequence as the end of a prompt of its own; see `Way`."""
    trie, known = _trie(sequences, ends), _Known()
    known.results += await asyncio.gather(
        *(
            submit(
                VllmJob(
                    prompt.token_ids + sequence,
                    prompt.images,
                    tail_params(trie[sequence][:MAX_LABELS]),
                )
            )
            for sequence in sequences
        )
    )
    for sequence, result in zip(sequences, known.results, strict=True):
        known.add(sequence, result.next_logprobs or {})
        for i in range(1, min(len(sequence), len(result.tail_logprobs)) + 1):
            known.add_row(sequence[:-i], {sequence[-i]: result.tail_logprobs[-i]})
    return await _completed(submit, prompt, trie, sequences, ends=ends, known=known)


async def branch_scores(
    submit: Submit, prompt: EncodedPrompt, sequences: Sequence[Tokens], *, ends: Sequence[int]
) -> Scored:
    """Scores the branches along each sequence that begins no other; see `Way`."""
    trie, known = _trie(sequences, ends), _Known()
    leaves = [
        sequence
        for sequence in sequences
        if not any((*sequence, token) in trie for token in trie[sequence])
    ]
    asked = [[trie[leaf[:i]][:MAX_LABELS] for i in range(len(leaf))] for leaf in leaves]
    known.results += await asyncio.gather(
        *(
            submit(
                VllmJob(
                    prompt.token_ids + leaf,
                    prompt.images,
                    branch_params(trie[leaf][:MAX_LABELS], rows),
                )
            )
            for leaf, rows in zip(leaves, asked, strict=True)
        )
    )
    for leaf, rows, result in zip(leaves, asked, known.results, strict=True):
        known.add(leaf, result.next_logprobs or {})
        if result.branch_logprobs is not None:
            for i, (tokens, row) in enumerate(zip(rows, result.branch_logprobs, strict=True)):
                known.add_row(leaf[:i], dict(zip(tokens, row.tolist(), strict=False)))
    return await _completed(submit, prompt, trie, sequences, ends=ends, known=known)


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


@dataclass(slots=True)
class _Known:
    """Log-probabilities by node and token, and where they come from."""

    logprobs: dict[Tokens, dict[int, float]] = field(default_factory=dict)
    results: list[VllmResult] = field(default_factory=list)
    gap: float = 0.0
    rows: int = 0

    def add(self, node: Tokens, row: Mapping[int, float]) -> None:
        following = self.logprobs.setdefault(node, {})
        for token, logprob in row.items():
            self.gap = max(self.gap, abs(following.setdefault(token, logprob) - logprob))

    def add_row(self, node: Tokens, row: Mapping[int, float]) -> None:
        self.rows += len(row)
        self.add(node, row)


async def _completed(
    submit: Submit,
    prompt: EncodedPrompt,
    trie: Trie,
    sequences: Collection[Tokens],
    *,
    ends: Sequence[int],
    known: _Known,
) -> Scored:
    """Asks about what is not known yet, and adds up."""
    missing = {
        node: [token for token in following if token not in known.logprobs.get(node, {})]
        for node, following in trie.items()
    }
    missing = {node: tokens for node, tokens in missing.items() if tokens}
    answers = await asyncio.gather(
        *(
            next_token_logprobs(
                submit, EncodedPrompt(prompt.token_ids + node, prompt.images), tokens
            )
            for node, tokens in missing.items()
        )
    )
    for node, (row, results) in zip(missing, answers, strict=True):
        known.add(node, row)
        known.results += results
    of = known.logprobs
    scores = [
        sum(of[sequence[:t]][token] for t, token in enumerate(sequence))
        + _log_sum([of[sequence][end] for end in ends])
        for sequence in sequences
    ]
    return Scored(scores, known.results, known.gap, known.rows)


def _log_sum(logprobs: Sequence[float]) -> float:
    """Log of a sum of probabilities; NaN where one of them is."""
    most = max(logprobs)
    if len(logprobs) == 1 or math.isinf(most):
        return most
    return most + math.log(sum(math.exp(logprob - most) for logprob in logprobs))


def _trie(sequences: Sequence[Tokens], ends: Sequence[int]) -> Trie:
    following: dict[Tokens, dict[int, None]] = {}
    for sequence in sequences:
        for position, token in enumerate(sequence):
            following.setdefault(sequence[:position], {})[token] = None
        following.setdefault(sequence, {}).update(dict.fromkeys(ends))
    return {beginning: list(tokens) for beginning, tokens in following.items()}
