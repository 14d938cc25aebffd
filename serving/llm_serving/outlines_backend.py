"""vLLM's side of `outlines_index`: constrained answers without the cost per token.

vLLM's own outlines backend asks the guide, after every token, for the list of all tokens that may
follow (2 milliseconds in free text of a 49,152-token vocabulary, per request), although it needs
only the mask; it lists the whole index before the first token, against a time limit; and it parses
each request's regular expression again in Python to validate it. This backend takes its place, in
whichever process an engine steps.

vLLM is imported here: import this module only where an engine is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import torch
from vllm.v1.structured_output import StructuredOutputManager, backend_outlines
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)

from llm_serving.errors import UnsupportedEngineError
from llm_serving.outlines_index import DEAD, INITIAL, OutlinesIndex, TokenVocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENDED = -1
"""The state after an end."""

_KEPT_INDICES = 128
_KEPT_VALIDATIONS = 1024


_KEY = "llm_serving_ends"
"""Of `additional_config`, which goes wherever an engine steps: the tokens that end answers."""


def answers_end_by(ends: Sequence[int]) -> dict[str, list[int]]:
    """What makes `install` answer for an engine, as a part of its `additional_config`."""
    return {_KEY: list(ends)}


@cache
def install() -> None:
    """Answers constrained requests from `OutlinesIndex`, for engines that open in this process.

    These are the engines whose `additional_config` has `answers_end_by`; any other one keeps
    vLLM's own backends. A second call does nothing.
    """
    begin = StructuredOutputManager.__init__

    def begin_with_answers(manager: Any, vllm_config: Any) -> None:  # noqa: ANN401
        begin(manager, vllm_config)
        ends = vllm_config.additional_config.get(_KEY)
        if ends is not None:
            manager.backend = OutlinesAnswers(
                vllm_config,
                tokenizer=manager.tokenizer,
                vocab_size=vllm_config.model_config.get_vocab_size(),
                ends=tuple(ends),
            )

    StructuredOutputManager.__init__ = begin_with_answers
    # A pure function that takes milliseconds for a long expression, called for each request.
    backend_outlines.validate_regex_is_buildable = lru_cache(_KEPT_VALIDATIONS)(
        backend_outlines.validate_regex_is_buildable
    )


def token_vocabulary(
    tokenizer: Any,  # noqa: ANN401
    size: int,
    ends: Sequence[int],
) -> TokenVocabulary:
    """The vocabulary of a Hugging Face tokenizer, without its special tokens.

    Tokens that detokenization would drop, or that end an answer, must not stand for the text of
    their names.

    Args:
        tokenizer: any tokenizer that vLLM serves.
        size: number of logits.
        ends: the tokens that end an answer.
    """
    from xgrammar import TokenizerInfo

    token_bytes = list(TokenizerInfo.from_huggingface(tokenizer, vocab_size=size).decoded_vocab)
    special = {index for index, token in tokenizer.added_tokens_decoder.items() if token.special}
    for index in special.union(tokenizer.all_special_ids, ends):
        token_bytes[index] = b""
    return TokenVocabulary(token_bytes, ends=ends, size=size)


@dataclass
class OutlinesAnswers(StructuredOutputBackend):  # type: ignore[misc]
    """Compiles each regular expression once and shares its masks between requests.

    Attributes:
        ends: the tokens that end an answer.
    """

    ends: tuple[int, ...]

    def __post_init__(self) -> None:
        """Reads the tokenizer's vocabulary."""
        self._vocabulary = token_vocabulary(self.tokenizer, self.vocab_size, self.ends)
        self._indices = lru_cache(_KEPT_INDICES)(
            lambda regex: OutlinesIndex(regex, self._vocabulary)
        )
        self._lock = Lock()  # requests that come together wait for one compilation

    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: set[int] | None = None,  # noqa: ARG002 - `ends` are known before any request
    ) -> StructuredOutputGrammar:
        """The state of one request.

        Raises:
            UnsupportedEngineError: the constraint is not a regular expression.
            AnswerModelError: the expression cannot be compiled.
        """
        if request_type != StructuredOutputOptions.REGEX:
            raise UnsupportedEngineError(
                f"answers are constrained by regular expressions here, not by {request_type!s}"
            )
        with self._lock:
            index = self._indices(grammar_spec)
        return AnswerState(index, self.ends)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """Masks that allow everything, shape [max_num_seqs, words]."""
        return torch.full((max_num_seqs, self._vocabulary.words), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Forgets the compiled expressions."""
        self._indices.cache_clear()


class AnswerState(StructuredOutputGrammar):  # type: ignore[misc]
    """How far one answer has come: the states after each of its tokens."""

    def __init__(self, index: OutlinesIndex, ends: Sequence[int]) -> None:
        self._index = index
        self._ends = ends
        self._trail = [INITIAL]

    def _advance(self, state: int, token: int) -> int:
        if token in self._ends:
            return _ENDED if self._index.is_final(state) else DEAD
        return self._index.advance(state, token)

    def _follow(self, tokens: Sequence[int]) -> list[int]:
        """The states after the tokens, as far as they are allowed and up to the first end."""
        states: list[int] = []
        state = self._trail[-1]
        for token in tokens:
            if state == _ENDED or (state := self._advance(state, token)) == DEAD:
                break
            states.append(state)
        return states

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:  # noqa: ARG002
        """Appends tokens; False, and nothing appended, if one of them is not allowed."""
        states = self._follow(tokens)
        if len(states) < len(tokens) and (states or self._trail)[-1] != _ENDED:
            return False
        self._trail += states
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The first tokens that are allowed; nothing is appended."""
        return tokens[: len(self._follow(tokens))]

    def rollback(self, num_tokens: int) -> None:
        """Takes the last tokens back."""
        del self._trail[len(self._trail) - num_tokens :]

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Writes the mask of the next token into one row."""
        bitmask.numpy()[batch_index] = self._index.mask(self._trail[-1])

    def is_terminated(self) -> bool:
        """Whether the answer has ended."""
        return self._trail[-1] == _ENDED

    def reset(self) -> None:
        """Starts over."""
        del self._trail[1:]
