"""Lessons: a question and its right answer as tokens, each with its weight in the loss."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_serving.chat import ChatFormat
from llm_serving.errors import EngineConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from llm_serving.request import Message

FORCED = 0.05
"""Weight of a token that the constraint forces, beside 1 for one that decides something."""

_JSON_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[-+0-9.eE]+|true|false|null|[\[\]{},:]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A question and its right answer, as tokens of one model.

    Attributes:
        prompt: token ids of the chat, up to where the answer begins.
        answer: token ids of the answer, the terminator last.
        weights: of each answer token in the loss: 1 where it decides something, else `FORCED`.
        importance: multiplies the weights in the loss.
    """

    role: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    weights: tuple[float, ...]
    importance: float = 1.0

    @property
    def length(self) -> int:
        """Tokens that the network reads; the last answer token is only ever predicted."""
        return len(self.prompt) + len(self.answer) - 1


class LessonTokenizer:
    """Makes lessons with the tokenizer and the chat template of one model.

    Raises:
        EngineConfigError: the folder has no tokenizer that can be used.
    """

    def __init__(self, folder: Path) -> None:
        self._chat = ChatFormat(folder)
        self._tokenizer: Any = self._chat.tokenizer
        if not self._tokenizer.is_fast:
            raise EngineConfigError(
                f"the tokenizer in {folder} does not say which characters a token covers: it needs "
                "a tokenizer.json"
            )

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, special ones included."""
        text: str = self._tokenizer.decode(list(tokens))
        return text

    def lesson(
        self, role: str, prompt: Sequence[Message], answer: str, *, importance: float = 1.0
    ) -> Lesson:
        """Makes the lesson of one question.

        Args:
            answer: compact JSON, or any other text.
            importance: multiplies the weights in the loss.

        Returns:
            The prompt as the engine reads it, and the answer as the engine writes it.
        """
        spans = self._chat.spans(answer)
        decides = deciding_characters(answer)
        weights = [1.0 if any(decides[start:stop]) else FORCED for _, (start, stop) in spans]
        return Lesson(
            role=role,
            prompt=self._chat.encode(prompt),
            answer=(*(token for token, _ in spans), self._chat.ends[0]),
            weights=(*weights, 1.0 if decides[-1] else FORCED),
            importance=importance,
        )


def deciding_characters(answer: str) -> list[bool]:
    """Says of each character of an answer whether it decides something.

    In JSON these are the characters of values, the quote that ends a text, the character that ends
    a number, and those that say whether a list goes on. Keys, other quotes, colons and braces
    follow from the constraint. In any other text every character decides.

    Args:
        answer: compact JSON, or any other text.

    Returns:
        One truth value a character, and one for the end of the text.

    Example:
        >>> from llm_planning.distill.tokens import deciding_characters
        >>> answer = '{"feasible":true}'
        >>> decides = deciding_characters(answer)
        >>> "".join(c for c, d in zip(answer, decides) if d)
        'true'
        >>> any(deciding_characters('{"steps":[]}')[10:11])
        True
    """
    if not _is_structure(answer):
        return [True] * (len(answer) + 1)
    decides = [False] * (len(answer) + 1)
    nesting: list[str] = []
    for part in _JSON_PART.finditer(answer):
        text, start, stop = part[0], part.start(), part.end()
        if text in "{[":
            nesting.append(text)
            decides[stop] |= text == "["
        elif text in "}]":
            nesting.pop()
            decides[start] |= text == "]"
        elif text == ",":
            decides[start] |= nesting[-1] == "["
        elif text.startswith('"'):
            if answer[stop] != ":":
                decides[start + 1 : stop] = [True] * (stop - start - 1)
        elif text != ":":
            is_number = text not in {"true", "false", "null"}
            decides[start : stop + is_number] = [True] * (stop - start + is_number)
    return decides


def _is_structure(answer: str) -> bool:
    if not answer.startswith(("{", "[")):
        return False
    try:
        json.loads(answer)
    except ValueError:
        return False
    return True
