"""What a model's chat template does: it writes a few chats of known words, and those show it.

A template is a program, and does not say whether it knows instructions, where it lets an answer
begin and end, or that it writes today's date.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from llm_base.quoting import quote
from llm_serving.errors import EngineConfigError, RequestFailedError
from llm_serving.models.reading import reading_model
from llm_serving.request import Message

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_TODAY = datetime(2024, 7, 26, tzinfo=UTC)
"""The date in every prompt, unless one is set: Llama's templates take it where they have no clock.
"""
_CLOCK = "strftime_now"
"""What transformers calls the clock that it lends to a template."""
_THINKS = "enable_thinking"
"""The variable by which many templates leave thoughts out."""
_RESERVED = ("messages", "add_generation_prompt", "continue_final_message")
_OPENED = re.compile(
    r"(?P<left>[<\[◁])(?P<name>(\w+:)?(think|thinking|thought|reason|reasoning))(?P<right>[>\]▷])",
    re.IGNORECASE,
)

_ASKED, _SAID = "questionqx", "answerqx"
_SYSTEM, _USER = Message("system", "instructionsqx"), Message("user", _ASKED)


class ChatTemplate:
    """Writes chats as one text.

    Args:
        tokenizer: of transformers; renders the template.
        name: of the model, for messages.
        source: of the template; "" takes the tokenizer's own.
        variables: that the template reads. `strftime_now`, such as "2026-11-25", is its today.

    Attributes:
        source: of the template; "" where there is none.
        bridge: what it writes before every answer, and leaves to the model where it asks for one.
        before_blank: what it writes before the blank that is such a bridge by itself, and which it
            leaves to tokenizers that write one; "" where it writes none.
        notes: what is unusual about its chats.

    Raises:
        EngineConfigError: the given source fails, or the template reads none of the variables.
    """

    def __init__(
        self,
        tokenizer: Any,  # noqa: ANN401 - a transformers class
        *,
        name: str,
        source: str,
        variables: Mapping[str, Any],
    ) -> None:
        self._tokenizer = tokenizer
        self._name = name
        self.source = source or _own_source(tokenizer)
        self._reads_date = False
        self._variables = self._checked(variables)
        self._in_parts = self._has_instructions = self._loses_words = False
        self._start: tuple[Message, ...] = (_USER,)
        self.notes: list[str] = []
        self.bridge = self._before_bridge = self.before_blank = ""
        self._look_at_words()
        if source:
            self._refuse_useless()
        self._look_at_thoughts()
        self._look_at_instructions()
        self._look_at_answers(tokenizer.added_tokens_decoder.values())
        if self._reads_date and _CLOCK not in variables:
            self.notes.append(
                f"it writes today's date, which stays {_TODAY:%Y-%m-%d} (`chat_template_kwargs: "
                f"{{{_CLOCK}: YYYY-MM-DD}}` sets another)"
            )

    def write(self, messages: Sequence[Message]) -> str:
        """The text of a chat, up to where the answer begins.

        Raises:
            EngineConfigError: the model has no template.
            RequestFailedError: the template fails on this chat.
        """
        text = self._write(
            messages if self._has_instructions else _without_instructions(messages), asks=True
        )
        if self._loses_words:
            raise self._failed("it does not write the user's words")
        return text + self.bridge if text.endswith(self._before_bridge) else text

    def behind_answer(self, *more: Message) -> str:
        """What it writes behind an answer, with more messages or at the end; "" where it fails."""
        text = self._tried((*self._start, Message("assistant", _SAID), *more), asks=False)
        return text.rpartition(_SAID)[2] if _SAID in text else ""

    def _checked(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The variables, with a clock that stands still.

        Raises:
            EngineConfigError: the template reads no such variable, or the date is none.
        """
        for key in variables:
            if key in _RESERVED or not re.search(rf"\b{re.escape(key)}\b", self.source):
                raise EngineConfigError(
                    f"`chat_template_kwargs`: the chat template of {self._name} has no variable "
                    f"{quote(key)} that can be set: leave it out"
                )
        try:
            today = datetime.fromisoformat(variables[_CLOCK]) if _CLOCK in variables else _TODAY
        except (TypeError, ValueError) as error:
            raise EngineConfigError(
                f"`chat_template_kwargs`: `{_CLOCK}` = {quote(variables[_CLOCK])} is no date: "
                "write one such as 2026-11-25"
            ) from error

        def strftime_now(form: str) -> str:
            self._reads_date = True
            return today.strftime(form)

        return {**variables, _CLOCK: strftime_now}

    def _look_at_words(self) -> None:
        """Finds a chat that it writes, and whether it wants words as texts or as lists of parts."""
        written = ""
        for start in ((_USER,), (_SYSTEM, _USER)):
            for in_parts in (False, True):
                self._start, self._in_parts = start, in_parts
                text = self._tried(start)
                if _ASKED in text:
                    return
                written += text
        self._start, self._in_parts, self._loses_words = (_USER,), False, bool(written)

    def _refuse_useless(self) -> None:
        try:
            self._write(self._start, asks=True)
        except RequestFailedError as error:
            raise EngineConfigError(f"`chat_template`: {error}") from error
        if self._loses_words:
            raise EngineConfigError("`chat_template` does not write the user's words")

    def _look_at_thoughts(self) -> None:
        """Leaves thoughts out where there is a variable for it."""
        if _THINKS not in self.source or _THINKS in self._variables:
            return
        thinking = self._tried(self._start)
        self._variables[_THINKS] = False
        if self._tried(self._start) in {"", thinking}:
            del self._variables[_THINKS]
        else:
            self.notes.append(
                f"answers are given without a thought (`chat_template_kwargs: {{{_THINKS}: true}}` "
                "lets the model think)"
            )

    def _look_at_instructions(self) -> None:
        text = self._tried((_SYSTEM, _USER))
        # Where nothing can be written at all, the template says why when it is used.
        self._has_instructions = _SYSTEM.content in text or not self._tried(self._start)
        if not self._has_instructions:
            self.notes.append("it has no system role: instructions come before the user's words")

    def _look_at_answers(self, added: Collection[Any]) -> None:
        """Finds what is missing between where it asks for an answer and where it writes one."""
        question = self._tried(self._start)
        text = self._tried((*self._start, Message("assistant", _SAID)), asks=False)
        answered, _, _ = text.rpartition(_SAID)
        between = answered.removeprefix(question) if answered.startswith(question) else ""
        before = question.rpartition(_ASKED)[2]
        opened = max(_OPENED.finditer(before), key=lambda match: match.start(), default=None)
        if opened and (closing := "{left}/{name}{right}".format(**opened.groupdict())) not in (
            thought := before[opened.start() :]
        ):
            line = "" if thought.endswith("\n") else "\n"
            self._before_bridge = thought
            self.bridge = between if closing in between else f"{line}\n{closing}\n\n"
            self.notes.append("it opens a thought, which is closed before every answer")
        elif self._variables.get(_THINKS) is not True and any(
            token.content in between for token in added if token.content.strip()
        ):
            self._before_bridge, self.bridge = before, between
            self.notes.append(f"{quote(between)} comes before every answer")
        elif between == " ":
            self.before_blank = before.strip()

    def _tried(self, messages: Sequence[Message], *, asks: bool = True) -> str:
        """What it writes; "" where it fails."""
        try:
            return self._write(messages, asks=asks)
        except (EngineConfigError, RequestFailedError):
            return ""

    def _write(self, messages: Sequence[Message], *, asks: bool) -> str:
        """Renders a chat; `asks` for an answer, or ends with the last message."""
        if not self.source:
            raise EngineConfigError(
                f"{self._name} has no chat template: set `chat_template` in the model's "
                "configuration, to the template itself or to a file that holds it"
            )
        with reading_model(self._failed):
            text: str = self._tokenizer.apply_chat_template(
                [self._turn(message) for message in messages],
                chat_template=self.source,
                add_generation_prompt=asks,
                tokenize=False,
                **self._variables,
            )
        return text

    def _turn(self, message: Message) -> dict[str, Any]:
        if not (message.images or self._in_parts):
            return {"role": message.role, "content": message.content}
        images: list[dict[str, str]] = [{"type": "image"} for _ in message.images]
        return {
            "role": message.role,
            "content": [*images, {"type": "text", "text": message.content}],
        }

    def _failed(self, reason: str) -> RequestFailedError:
        return RequestFailedError(f"the chat template of {self._name} fails: {reason}")


def _own_source(tokenizer: Any) -> str:  # noqa: ANN401
    try:
        source = tokenizer.get_chat_template()
    except ValueError:  # there is none, or there are several and no default
        return ""
    return source if isinstance(source, str) else ""


def _without_instructions(messages: Sequence[Message]) -> list[Message]:
    """Puts each system message before the user's next words."""
    turns: list[Message] = []
    waiting = ""
    for message in messages:
        if message.role == "system":
            waiting += f"{message.content}\n\n"
        elif message.role == "user":
            turns.append(replace(message, content=waiting + message.content))
            waiting = ""
        else:
            turns.append(message)
    return [*turns, Message("user", waiting.removesuffix("\n\n"))] if waiting else turns
