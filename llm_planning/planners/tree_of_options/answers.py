"""Answers to ToO's questions: small, typed, and each of a finite language.

The classes give the shape; the functions give the model to ask with, in which an option is written
as the domain's grammar says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BaseModel, Field, create_model

if TYPE_CHECKING:
    from llm_planning.domain import Grammar

Reason: TypeAlias = Annotated[str, Field(max_length=60)]
Score: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0, multiple_of=0.1)]


class Options(BaseModel):
    """Options, each with its reason, which is written first."""

    options: list[Any]


class Feasibility(BaseModel):
    """Whether an option can be carried out; the reason is written before the verdict (A.5)."""

    reason: Reason
    action_valid: bool


class Evaluation(BaseModel):
    """The eight questions r_q of the reward predictor (A.4), each from 0 to 1."""

    success_probability: Score
    reward_estimate: Score
    feasibility: Score
    consistency: Score
    relativity: Score
    reachability: Score
    task_specificity: Score
    redundancy: Score


class Termination(BaseModel):
    """Whether a state is terminal (eq. 4)."""

    done: bool


def options(grammar: Grammar[Any], least: int, most: int) -> type[Options]:
    """The answer model of so many options with their reasons (eq. 2)."""
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in grammar.fields.items()}
    reasoned: Any = create_model("ReasonedOption", reasoning=(Reason, ...), **fields)
    several: Any = Annotated[list[reasoned], Field(min_length=least, max_length=most)]
    return create_model(
        "Options", __base__=Options, __doc__=Options.__doc__, options=(several, ...)
    )


def one_option(grammar: Grammar[Any]) -> type[BaseModel]:
    """The answer model of a prerequisite (eq. 3)."""
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in grammar.fields.items()}
    return create_model("PlainOption", __doc__="An option as the domain writes it.", **fields)
