"""How a model reads and writes a chat: its tokenizer and its chat template, looked at once."""

from __future__ import annotations

import hashlib
import json
import logging
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_base.files import read_json
from llm_base.quoting import quote
from llm_serving.chat_template import ChatTemplate
from llm_serving.errors import EngineConfigError, RequestFailedError
from llm_serving.models.reading import read_tokenizer
from llm_serving.request import Message
from llm_serving.special_tokens import SpecialTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

_LONGEST_CONFIG = 1 << 26

_Spans: TypeAlias = "tuple[tuple[int, tuple[int, int]], ...]"
_END_TOKENS = 16
"""Of a prompt, at most, that a text is read behind."""
_BORDER_TOKENS = 4
"""Of them, those next to the text, which must come out as the prompt's."""
_TEXTS_REMEMBERED, _ENDS_REMEMBERED = 4096, 256


class ChatFormat:
    """The chats of one model as token ids.

    Only the chat template writes special tokens: in what messages say, their texts are plain text.
    What is unusual about a model's chats is said in one warning.

    Args:
        name: the model's, for messages; None takes the folder.
        template: source of a chat template; "" takes the model's own.
        variables: that the template reads; see `ChatTemplate`.

    Attributes:
        tokenizer: of transformers.
        ends: tokens that end an answer, first the one that the template writes behind it.
        digest: of `template` and `variables`; "" without them.

    Raises:
        EngineConfigError: the folder has no tokenizer that can be used, or ends that are no tokens;
            the template fails, or reads none of the variables.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str | None = None,
        template: str = "",
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        name = self._name = str(folder) if name is None else name
        variables = dict(variables or {})
        self.tokenizer: Any = read_tokenizer(folder)
        self._added: dict[str, int] = {
            token.content: token_id
            for token_id, token in self.tokenizer.added_tokens_decoder.items()
            if token.content.strip()
        }
        self._template = ChatTemplate(
            self.tokenizer, name=name, source=template, variables=variables
        )
        self.ends, notes = self._find_ends(_listed_ends(folder))
        if notes := [*self._template.notes, *notes]:
            logger.warning("the chats of %s: %s", name, "; ".join(notes))
        marks = self._marks()
        self._mark_ids = frozenset(marks.values())
        self._special = SpecialTexts(self.tokenizer, marks, name=name)
        self._told: set[str] = set()
        # A search asks about the same actions again, mostly behind the same end of a prompt.
        self._behind = lru_cache(maxsize=_TEXTS_REMEMBERED)(self._find_behind)
        self._contexts = lru_cache(maxsize=_ENDS_REMEMBERED)(self._find_contexts)
        own = json.dumps([template, variables], sort_keys=True) if template or variables else ""
        self.digest = own and hashlib.sha256(own.encode()).hexdigest()[:16]

    def encode(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The token ids of a chat, up to where the answer begins.

        Raises:
            EngineConfigError: the model has no chat template.
            RequestFailedError: the template fails on this chat, or a text cannot be told from a
                special token.
        """
        if not any(self._special.within(message.content) for message in messages):
            return self._tokens(self._template.write(messages))
        masked = [
            Message(message.role, self._special.mask(message.content), message.images)
            for message in messages
        ]
        return _ids(self._special.spans(self._template.write(masked)))

    def plain(self, text: str) -> tuple[int, ...]:
        """The token ids of a prompt that is no chat, with what begins every text of this tokenizer.

        Raises:
            RequestFailedError: the text cannot be told from a special token.
        """
        if self._special.within(text):
            return (*self.tokenizer.encode(""), *_ids(self._read("", text)))
        return tuple(self.tokenizer.encode(text))

    def tokens(self, text: str, *, behind: Sequence[int] = ()) -> tuple[int, ...]:
        """The token ids of what a model writes itself, such as an action.

        Some tokenizers write a blank before every text that they read, which no model writes. Of
        these, they are the tokens that follow the prompt's own where both are read as one text.
        Where the two would share a token, they are those at the beginning of a line. Where that is
        so there too, and of all other tokenizers, they are those of the text alone.

        Args:
            behind: token ids of the prompt; without them the text begins a line.

        Raises:
            RequestFailedError: the text cannot be told from a special token.
        """
        return _ids(self.spans(text, behind=behind))

    def choices(self, choices: Sequence[str], *, behind: Sequence[int]) -> list[tuple[int, ...]]:
        """The token ids of each of some choices behind a prompt.

        Unknown characters are told in a warning, once for each text.

        Raises:
            RequestFailedError: the tokenizer reads two of them alike, or one as nothing.
        """
        read: dict[tuple[int, ...], str] = {}
        listed = [self.tokens(choice, behind=behind) for choice in choices]
        for choice, tokens in zip(choices, listed, strict=True):
            other = read.setdefault(tokens, choice)
            if not tokens or other != choice:
                alike = f"{quote(other)} and {quote(choice)} are the same tokens"
                raise RequestFailedError(
                    f"{alike if tokens else f'{quote(choice)} is no token'} to {self._name}, which "
                    "cannot choose so: write it otherwise, or take another model"
                )
            if self.tokenizer.unk_token_id in tokens and choice not in self._told:
                self._told.add(choice)
                logger.warning(
                    "%s does not know every character of %s, and scores it without them",
                    self._name,
                    quote(choice),
                )
        return listed

    def spans(self, text: str, *, behind: Sequence[int] = ()) -> _Spans:
        """As `tokens`, each with the half-open range of characters that it covers.

        A tokenizer without a `tokenizer.json` does not say the ranges: all are (0, 0).
        """
        end = tuple(behind[-_END_TOKENS:]) if self.writes_blanks else ()
        marks = [place for place, token in enumerate(end) if token in self._mark_ids]
        # A special token divides a text: nothing before it matters to what follows.
        return self._behind(text, end[marks[-1] :] if marks else end)

    def answer(self, token_ids: Sequence[int]) -> str:
        """The text of an answer, without the token that ended it."""
        ended = bool(token_ids) and token_ids[-1] in self.ends
        return self._decode(list(token_ids[:-1] if ended else token_ids), skip_special_tokens=True)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens, special ones included."""
        return self._decode(list(token_ids), skip_special_tokens=False)

    @cached_property
    def _decode(self) -> Callable[..., str]:
        """The tokenizer's own function, which transformers' looks at each token's type before."""
        from transformers import PreTrainedTokenizerFast

        decode: Callable[..., str]
        kind = type(self.tokenizer)
        if (kind.decode, kind._decode) == (
            PreTrainedTokenizerFast.decode,
            PreTrainedTokenizerFast._decode,
        ):
            decode = self.tokenizer.backend_tokenizer.decode
        else:
            decode = partial(self.tokenizer.decode, clean_up_tokenization_spaces=False)
        return decode

    def _find_behind(self, text: str, end: tuple[int, ...]) -> _Spans:
        """See `spans`; `end` are the prompt's last tokens."""
        for before, own in self._contexts(end):
            read = self._read(before, text)
            if _ids(read)[: len(own)] == own:
                return read[len(own) :]
        return self._read("", text)

    def _find_contexts(self, end: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """What a text may be read behind, with its tokens: the end of the prompt, a line break."""
        if not self.writes_blanks:
            return ()
        line = ("\n", self._tokens("\n"))
        if not end:
            return (line,)
        written = self.decode(end)
        blank = self._template.before_blank
        if blank and written[-len(blank) :] == blank[-len(written) :]:
            # In the chats that the model has learned, the template writes the tokenizer's blank.
            return ()
        own, border = self._tokens(written), end[-_BORDER_TOKENS:]
        return ((written, own), line) if own[-len(border) :] == border else (line,)

    @cached_property
    def writes_blanks(self) -> bool:
        """Whether the tokenizer writes a blank before every text."""
        alone = self._tokens("a")
        # Some normalise a line break away, others have a token of a mark and a blank.
        marks = ((mark, self._tokens(mark)) for mark in "\n:.")
        return any(self._tokens(f"{mark} a") == own + alone for mark, own in marks)

    def _read(self, before: str, text: str) -> _Spans:
        """The tokens of a text and of what a template wrote before it."""
        if self._special.within(text):
            return self._special.spans(self._special.mask(text), before=before)
        if not self.tokenizer.is_fast:
            return tuple((token, (0, 0)) for token in self._tokens(before + text))
        read = self.tokenizer(before + text, add_special_tokens=False, return_offsets_mapping=True)
        begin = len(before)
        ranges = ((start - begin, stop - begin) for start, stop in read["offset_mapping"])
        return tuple(zip(read["input_ids"], ranges, strict=True))

    def _tokens(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def _find_ends(self, listed: Sequence[int]) -> tuple[tuple[int, ...], list[str]]:
        """The tokens that end an answer, and what is unusual about them."""
        names = self.tokenizer.convert_ids_to_tokens([self.tokenizer.eos_token_id, *listed])
        known = dict(zip([self.tokenizer.eos_token_id, *listed], names, strict=True))
        notes = [f"the end {end} is no token" for end, spelled in known.items() if spelled is None]
        known = {end: spelled for end, spelled in known.items() if spelled is not None}
        end = self._first_token(self._template.behind_answer())
        if end is None:
            # Some models end a turn by what begins the next one.
            following = self._first_token(self._template.behind_answer(Message("user", "more")))
            end = following if following in known else None
        if end is not None:
            return tuple(dict.fromkeys((end, *known))), notes
        if self._template.source:
            ends = ", ".join(known.values())
            notes.append(f"it does not show what ends an answer, which is taken to be {ends}")
        return tuple(known), notes

    def _first_token(self, text: str) -> int | None:
        """The added token that a text begins with, if it does."""
        begun = text.lstrip()
        token = max(
            (added for added in self._added if begun.startswith(added)), key=len, default=""
        )
        return self._added.get(token)

    def _marks(self) -> dict[str, int]:
        """The added tokens that only the template may write.

        Vocabularies also add plain words, tags of HTML and runs of blanks.
        """
        tokens = self.tokenizer.added_tokens_decoder
        return {
            text: token_id
            for text, token_id in self._added.items()
            if not text.isalnum()
            and (
                tokens[token_id].special
                or token_id in self.ends
                or text in self._template.source
                or text in self._template.bridge
            )
        }


def _ids(spans: _Spans) -> tuple[int, ...]:
    return tuple(token for token, _ in spans)


def _listed_ends(folder: Path) -> list[int]:
    """The ends in `generation_config.json`; where it names none, those in `config.json`.

    Raises:
        EngineConfigError: they are no token ids.
    """
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        try:
            config = read_json(path, most=_LONGEST_CONFIG)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise EngineConfigError(f"{path} cannot be read: {error}") from error
        if not isinstance(config, dict):
            raise EngineConfigError(f"{path} is damaged: it is not a JSON object")
        of_text = config.get("text_config")
        listed = config.get("eos_token_id")
        if listed is None and isinstance(of_text, dict):
            listed = of_text.get("eos_token_id")
        if listed is None:
            continue
        ends = listed if isinstance(listed, list) else [listed]
        if any(type(end) is not int or end < 0 for end in ends):
            raise EngineConfigError(
                f"{path}: `eos_token_id` = {quote(listed)}: it must be a token id, or a list of "
                "them"
            )
        return ends
    return []
