"""Where the part of a prompt that came from the prefix cache ends in its text."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from llm_serving.errors import ServingError
from llm_serving.request import Message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from llm_serving.engine import Engine
    from llm_serving.request import EncodedPrompt

    Roles = tuple[Literal["system", "user", "assistant"], ...]

_PIECE = 64
_PIECES_REMEMBERED = 4096

_PARTIAL = "\ufffd"
"""What a tokenizer writes for a character of which it has not all tokens."""


class CachedPart:
    """Finds the end of the cached part of prompts by decoding its tokens.

    The text that the engine's template puts around messages depends on their roles alone. Where it
    does not, what is decoded is not the beginning of the prompt, and no end is given.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._around: dict[Roles, tuple[str, ...] | None] = {}
        self._piece = lru_cache(maxsize=_PIECES_REMEMBERED)(engine.decode)

    def end(
        self, prompt: str | tuple[Message, ...], encoded: EncodedPrompt | None, tokens: int
    ) -> tuple[int, int] | None:
        """The message and the character in it before which the first tokens end.

        Args:
            prompt: as it is written.
            encoded: the same, if it is known.
            tokens: number of the first tokens.

        Returns:
            The place of the message, 0 for a plain text, and a number of characters. A character
            that only some of its tokens belong to is counted. None if the prompt has images, whose
            tokens are not those of its text, or the engine cannot say it.
        """
        if tokens == 0:
            return 0, 0
        messages = () if isinstance(prompt, str) else prompt
        texts = [prompt] if isinstance(prompt, str) else [message.content for message in prompt]
        if any(message.images for message in messages):
            return None
        try:
            around = self._texts_around(tuple(message.role for message in messages))
            if around is None:
                return None
            token_ids = self._engine.encode(encoded or prompt).token_ids[:tokens]
            # Most pieces are those of earlier prompts. Some tokenizers write a piece in another way
            # than what it is a part of: then all is decoded at once.
            for read in (self._read_pieces, self._engine.decode):
                decoded = read(token_ids)
                # Some templates strip what they are given.
                for written in (texts, [text.strip() for text in texts]):
                    if (place := _place(around, texts, written, decoded)) is not None:
                        return place
        except ServingError:
            pass
        return None

    def _read_pieces(self, token_ids: tuple[int, ...]) -> str:
        places = range(0, len(token_ids), _PIECE)
        return "".join(self._piece(token_ids[place : place + _PIECE]) for place in places)

    def _texts_around(self, roles: Roles) -> tuple[str, ...] | None:
        """What the template writes before, between and after messages; a plain text has no roles.

        None if it changes what the messages say.
        """
        if roles not in self._around:
            marks = [f"=={number}==" for number in range(len(roles) or 1)]
            marked = tuple(map(Message, roles, marks)) or marks[0]
            left = self._engine.decode(self._engine.encode(marked).token_ids)
            around = []
            for mark in marks:
                before, found, left = left.partition(mark)
                around.append(before)
                if not found:
                    break
            self._around[roles] = (*around, left) if len(around) == len(marks) and found else None
        return self._around[roles]


def _place(
    around: Sequence[str], texts: Sequence[str], written: Sequence[str], read: str
) -> tuple[int, int] | None:
    """The message and the character where `read` ends; None if the prompt begins otherwise.

    Args:
        around: shape [messages + 1].
        texts: of the messages, shape [messages].
        written: the same as the template writes them.
        read: the beginning of the prompt.
    """
    whole = "".join(chain.from_iterable(zip(around, written, strict=False)))
    left = len(read)
    if not (whole + around[-1]).startswith(read):
        known = read.rstrip(_PARTIAL)
        if known == read or not whole.startswith(known):
            return None
        left = len(known) + 1
    for number, (before, text, stripped) in enumerate(zip(around, texts, written, strict=False)):
        left -= len(before)
        if left <= 0:
            return number, 0
        if left <= len(stripped):
            return number, text.index(stripped) + left
        left -= len(stripped)
    return len(texts) - 1, len(texts[-1])
