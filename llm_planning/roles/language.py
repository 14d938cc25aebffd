"""What rules name has to be something that a model can name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Generic, Literal, get_origin

from pydantic import ValidationError, create_model

from llm_base.quoting import quote
from llm_planning.domain import A, DomainError
from llm_serving.answers import constraint_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

    from llm_planning.domain import Grammar


class OptionLanguage(Generic[A]):
    """The options that a model can write.

    Rules answer with options themselves, so that they could name what no answer of a model has:
    the run would say what no model can do.
    """

    def __init__(self, grammar: Grammar[A]) -> None:
        self._grammar = grammar
        self._fields: dict[str, type[BaseModel]] = {
            name: create_model("Field", value=(kind, ...)) for name, kind in grammar.fields.items()
        }
        # Of literals and whole numbers, validation says the same as their regular expression.
        self._patterns = {
            name: re.compile(constraint_of(field).regex)
            for name, field in self._fields.items()
            if not _validated(field.model_fields["value"].annotation)
        }
        self._known: set[A] = set()

    def check(self, options: Iterable[A]) -> None:
        """Makes sure that a model can write what rules name.

        Raises:
            DomainError: it cannot; names the option.
        """
        for option in options:
            if option not in self._known:
                if not self._has(option):
                    raise DomainError(
                        f"rules name {quote(str(option))}, which no answer can name: `write` and "
                        "`fields` of the domain's `grammar` leave it out"
                    )
                self._known.add(option)

    def _has(self, option: A) -> bool:
        try:
            written = self._grammar.write(option)
            texts = {name: kind(value=written[name]) for name, kind in self._fields.items()}
            read: dict[str, Any] = {
                name: text.model_dump()["value"] for name, text in texts.items()
            }
            return self._grammar.read(read) == option and all(
                pattern.fullmatch(texts[name].model_dump_json())
                for name, pattern in self._patterns.items()
            )
        except (ValidationError, KeyError):
            return False


def _validated(kind: object) -> bool:
    return kind is int or get_origin(kind) is Literal
