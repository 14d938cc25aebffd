"""Where the part of a prompt that came from the prefix cache ends in its text.

A trace says how many of a prompt's first tokens were cached. Which text they are is found when a
page is made, with the tokenizer of the model that was asked.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from llm_base.quoting import quote
from llm_serving.errors import ServingError
from llm_serving.request import Message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from llm_planning.events import Event
    from llm_serving.chat import ChatFormat

    Roles = tuple[Literal["system", "user", "assistant"], ...]

_PIECE = 64
_PIECES_REMEMBERED = 4096

_PARTIAL = "\ufffd"
"""What a tokenizer writes for a character of which it has not all tokens."""


_MODELS_REMEMBERED = 64

_MALFORMED = (LookupError, TypeError, ValueError, AttributeError)
"""What a question raises that says something impossible."""


class UnknownEndError(Exception):
    """Where a cached part ends in the text cannot be said; the message says why."""


def cached_end(question: Event, system: object) -> Event:
    """What a page says of the end of a prompt's cached part.

    Args:
        question: a `role` line.
        system: the text of its system message; None if it has none.

    Returns:
        `cached_end`: the place of a message, from 0 with the system message, and the number of its
        characters before which the cached part ends. Or else `end_unknown`: why that cannot be
        said. Neither where there is no text, or no prompt that the tokens are of.
    """
    counted = question.get("shared") if "choices" in question else question
    turns = question.get("turns")
    if not isinstance(counted, dict) or not isinstance(turns, list) or not (turns or system):
        return {}
    cached = counted.get("cached_tokens", 0)
    if cached == 0:
        return {"cached_end": [0, 0]}
    try:
        total = counted["tokens" if "choices" in question else "prompt_tokens"]
        if not 0 < cached <= total:
            raise ValueError
        prompt = _prompt(turns, system)
        part = _part(str(question.get("model")))
        if isinstance(part, UnknownEndError):
            raise part
        return {"cached_end": list(part.end(prompt, cached, total=total))}
    except UnknownEndError as error:
        return {"end_unknown": str(error)}
    except _MALFORMED:
        return {"end_unknown": "its line says something that cannot be"}


def _prompt(turns: list[Any], system: object) -> str | tuple[Message, ...]:
    """The prompt whose system message and turns a trace has.

    Raises:
        UnknownEndError: it has images.
    """
    if any(turn.get("images") for turn in turns):
        raise UnknownEndError("the tokens of a prompt with images are not those of its text")
    if system is None and [turn["role"] for turn in turns] == [None]:
        return str(turns[0]["text"])
    said = [Message(turn["role"], str(turn["text"])) for turn in turns]
    return (*([] if system is None else [Message("system", str(system))]), *said)


@lru_cache(maxsize=_MODELS_REMEMBERED)
def _part(model: str) -> CachedPart | UnknownEndError:
    """Finds ends for a model on this machine, or says why it cannot.

    A trace may be somebody else's. So a folder that it names is not read.

    Args:
        model: as a trace names it: a bundled model or one of the hub, perhaps with `+ADAPTER`.
    """
    from llm_serving.models import locate, names_folder

    base = model.partition("+")[0]
    try:
        if names_folder(base):
            return UnknownEndError(f"a page reads no folder that a trace names, here {quote(base)}")
        from llm_serving.chat import ChatFormat

        return CachedPart(ChatFormat(locate(base).path, name=base))
    except (ServingError, ImportError, OSError, ValueError):
        return UnknownEndError(f"the tokenizer of {quote(base)} cannot be read on this machine")


class CachedPart:
    """Finds the end of the cached part of prompts by decoding its tokens.

    The text that the model's template puts around messages depends on their roles alone. Where it
    does not, what is decoded is not the beginning of the prompt, and no end is given.
    """

    def __init__(self, chat: ChatFormat) -> None:
        self._chat = chat
        self._around: dict[Roles, tuple[str, ...] | None] = {}
        self._piece = lru_cache(maxsize=_PIECES_REMEMBERED)(chat.decode)

    def end(self, prompt: str | tuple[Message, ...], cached: int, *, total: int) -> tuple[int, int]:
        """The message and the character in it before which the first tokens end.

        Args:
            prompt: as it is written, without images.
            cached: number of the first tokens.
            total: number of all tokens of the prompt, as the engine counted them.

        Returns:
            The place of the message, 0 for a plain text, and a number of characters. A character
            that only some of its tokens belong to is counted.

        Raises:
            UnknownEndError: the model's template or tokenizer is another one than the engine's, or
                the template changes what messages say.
        """
        messages = () if isinstance(prompt, str) else prompt
        texts = [prompt] if isinstance(prompt, str) else [message.content for message in prompt]
        try:
            token_ids = self._encode(prompt)
            if len(token_ids) != total:
                raise UnknownEndError(
                    f"the model's own chat template and tokenizer make {len(token_ids)} tokens of "
                    f"the prompt, and {total} were asked"
                )
            around = self._texts_around(tuple(message.role for message in messages))
            # Most pieces are those of earlier prompts. Some tokenizers write a piece in another way
            # than what it is a part of: then all is decoded at once.
            for read in (self._read_pieces, self._chat.decode):
                decoded = read(token_ids[:cached])
                # Some templates strip what they are given.
                for written in (texts, [text.strip() for text in texts]):
                    if around and (place := _place(around, texts, written, decoded)) is not None:
                        return place
        except ServingError as error:
            raise UnknownEndError(str(error)) from error
        raise UnknownEndError("the model's chat template changes what the messages say")

    def _encode(self, prompt: str | tuple[Message, ...]) -> tuple[int, ...]:
        if isinstance(prompt, str):
            return self._chat.plain(prompt)
        return self._chat.encode(prompt)

    def _read_pieces(self, token_ids: Sequence[int]) -> str:
        places = range(0, len(token_ids), _PIECE)
        return "".join(self._piece(token_ids[place : place + _PIECE]) for place in places)

    def _texts_around(self, roles: Roles) -> tuple[str, ...] | None:
        """What the template writes before, between and after messages; a plain text has no roles.

        None if it changes what the messages say.
        """
        if roles not in self._around:
            marks = [f"=={number}==" for number in range(len(roles) or 1)]
            marked = tuple(map(Message, roles, marks)) or marks[0]
            left = self._chat.decode(self._encode(marked))
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
