"""Answers to MC-DML's questions, each of a finite language.

A label and a reflection are written as they are: JSON around them would cost more tokens than the
label itself. Only where several values are asked for is the answer compact JSON.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field, create_model

from llm_planning.planners.mc_dml.prompts import MOST_SAID
from llm_serving.answers import Constraint
from llm_serving.patterns import Pattern, finite_regex, words

_Percent: TypeAlias = Annotated[int, Field(ge=1, le=100)]


def _plain(pattern: Pattern) -> Constraint:
    return Constraint(pattern.regex, pattern.max_bytes)


# A second N could begin the sentence again, and outlines would take minutes to compile that.
SENTENCE = _plain(finite_regex(r"Next time[ ,][^.!?N]{20,189}\."))
"""The language of one sentence of advice, 31 to 200 plain characters with its full stop."""


class Chances(BaseModel):
    """The likeliest labels, the best first, with the percent that the model says."""

    actions: list[tuple[str, int]]


@cache
def one_label(labels: tuple[str, ...]) -> Constraint:
    """The language of one of the labels."""
    return _plain(words(labels))


@cache
def chances(labels: tuple[str, ...]) -> type[Chances]:
    """The answer model of one to `MOST_SAID` labels with their percents."""
    label: Any = Literal[labels]
    actions: Any = Annotated[
        list[tuple[label, _Percent]], Field(min_length=1, max_length=MOST_SAID)
    ]
    return create_model(
        Chances.__name__, __base__=Chances, __doc__=Chances.__doc__, actions=(actions, ...)
    )
