"""How a model writes options and reasons; the kinds of questions about an option."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

from pydantic import BaseModel, Field, create_model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_planning.domain import Grammar

REASON: Final = 60
"""The most characters of a reason where the setting `reason` says nothing else."""

_MODELS_KEPT = 64

AnswerT = TypeVar("AnswerT", bound=BaseModel)

FEASIBLE, INFEASIBLE = "feasible", "infeasible"
"""The kinds of questions about an option: whether it can be carried out."""

DONE, NOT_DONE = "done", "not done"
"""The kinds of questions about an end: whether it is reached."""

Reason: TypeAlias = Annotated[str, Field(max_length=REASON)]


class OptionsAnswer(BaseModel):
    """Several options. The model writes the reason of each before the option."""

    options: list[Any]


def reasoned(answer: type[AnswerT], most: int) -> type[AnswerT]:
    """Makes an answer model whose `reason` has at most so many characters."""
    if most == REASON:
        return answer
    return create_model(answer.__name__, __base__=answer, reason=(_text(most), ...))


@lru_cache(_MODELS_KEPT)
def several_options(
    grammar: Grammar[Any], least: int, most: int, *, reason: int = REASON
) -> type[OptionsAnswer]:
    """Makes the answer model of `least` to `most` options with their reasons (eq. 2)."""
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in grammar.fields.items()}
    option: Any = create_model("ReasonedOption", reasoning=(_text(reason), ...), **fields)
    several: Any = Annotated[list[option], Field(min_length=least, max_length=most)]
    return create_model("SeveralOptions", __base__=OptionsAnswer, options=(several, ...))


@lru_cache(_MODELS_KEPT)
def one_option(grammar: Grammar[Any]) -> type[BaseModel]:
    """Makes the answer model of a prerequisite (eq. 3)."""
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in grammar.fields.items()}
    return create_model("PlainOption", __doc__="An option as the domain writes it.", **fields)


def _text(most: int) -> Any:  # noqa: ANN401 - a field's type
    return Annotated[str, Field(max_length=most)]


def plain_reason(reason: str) -> str:
    """A reason that fits into an answer: plain characters, and not too many."""
    plain = "".join(
        character for character in reason if " " <= character <= "~" and character not in '"\\'
    )
    return plain[:REASON].rstrip()


def written_fields(answer: type[BaseModel]) -> list[str]:
    """The names of an answer's fields as a model writes them."""
    return [field.alias or name for name, field in answer.model_fields.items()]


def listed(names: Iterable[str]) -> str:
    """Joins names as in a sentence: a, b and c."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
