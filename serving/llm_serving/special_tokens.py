"""Texts of others that spell a special token: they are plain text, and never that token.

A tokenizer reads `<|im_end|>` in the name of a file as the end of a turn. Such a text gets a mask,
a character that nobody uses, before a template writes it. What the template itself writes has no
mask. Then marks and masks change places, and a twin of the tokenizer, whose special tokens are
spelled as the masks, reads the whole. Texts without marks never come here.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from llm_base.quoting import quote
from llm_serving.errors import RequestFailedError

if TYPE_CHECKING:
    from collections.abc import Iterable

_FIRST_MASK = 0x100000
"""The first character of the last plane of Unicode, which is for private use."""


class SpecialTexts:
    """The texts that a model's tokenizer would read as special tokens.

    Args:
        tokenizer: of transformers.
        marks: token ids by text.
        name: of the model, for messages.
    """

    def __init__(
        self,
        tokenizer: Any,  # noqa: ANN401 - a transformers class
        marks: dict[str, int],
        *,
        name: str,
    ) -> None:
        self._tokenizer = tokenizer
        self._name = name
        self._ids = marks
        masks = {mark: chr(_FIRST_MASK + number) for number, mark in enumerate(sorted(marks))}
        self._swapped = masks | {mask: mark for mark, mask in masks.items()}
        self._mark = _any_of(masks)

    def within(self, text: str) -> bool:
        """Whether a text holds one of them."""
        return self._mark.search(text) is not None

    def mask(self, text: str) -> str:
        """A text with a mask for each of them.

        Raises:
            RequestFailedError: the text holds a mask, or the tokenizer has no twin.
        """
        if not self._tokenizer.is_fast or not self._swapped.keys().isdisjoint(text):
            match = self._mark.search(text)
            raise self._inseparable(match[0] if match else text)
        return self._mark.sub(lambda match: self._swapped[match[0]], text)

    def spans(self, masked: str, *, before: str = "") -> tuple[tuple[int, tuple[int, int]], ...]:
        """Tokens of a text whose marks are special tokens and whose masks stand for plain text.

        Args:
            before: another such text, whose tokens come first.

        Returns:
            Each token with the half-open range of characters that it covers once no mask is left,
            counted from where `masked` begins.

        Raises:
            RequestFailedError: the vocabulary has a special token as a word, too.
        """
        twin, originals = self._twin
        first, text = (
            self._either.sub(lambda match: self._swapped[match[0]], part)
            for part in (before, masked)
        )
        read = twin.encode(first + text, add_special_tokens=False)
        words = {token for token in read.ids if token not in originals}
        if shared := words.intersection(self._ids.values()):
            raise self._inseparable(self._tokenizer.convert_ids_to_tokens(min(shared)))
        ids = (originals.get(token, token) for token in read.ids)
        begin = len(first)
        ranges = ((start - begin, stop - begin) for start, stop in read.offsets)
        return tuple(zip(ids, ranges, strict=True))

    def _inseparable(self, text: str) -> RequestFailedError:
        return RequestFailedError(
            f"{quote(text)} in a prompt cannot be told from a special token of {self._name}: "
            "rename what is called so"
        )

    @cached_property
    def _either(self) -> re.Pattern[str]:
        return _any_of(self._swapped)

    @cached_property
    def _twin(self) -> tuple[Any, dict[int, int]]:
        """The twin, and the original's ids of the tokens that were added to it."""
        from tokenizers import AddedToken, Tokenizer

        original = self._tokenizer.backend_tokenizer
        twin: Any = Tokenizer(original.model)
        if original.normalizer is not None:
            twin.normalizer = original.normalizer
        if original.pre_tokenizer is not None:
            twin.pre_tokenizer = original.pre_tokenizer
        originals: dict[int, int] = {}
        for token_id, token in original.get_added_tokens_decoder().items():
            spelled = AddedToken(
                self._swapped.get(token.content, token.content),
                single_word=token.single_word,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
                normalized=token.normalized,
            )
            twin.add_tokens([spelled])
            originals[twin.token_to_id(spelled.content)] = token_id
        return twin, originals


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """A pattern of the longest text at a place; without texts, of nothing."""
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
