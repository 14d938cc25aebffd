"""Answers to XENON's questions: small, typed, and each of a finite language.

`requirement_list` gives the model to ask for requirements with: its item names are those of a given
vocabulary, or bounded texts where the model may write any, as in the paper.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field, create_model

from llm_serving.answers import compact

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_REQUIREMENTS = 5
"""Most items that an answer may name; no rule of the game's goals takes more kinds."""

LONGEST_NAME = 32
"""Characters of a freely written item name; the game's longest goal has 29."""

MOST = 64
"""Largest quantity: a full stack."""

_Quantity: TypeAlias = Annotated[int, Field(ge=1, le=MOST)]
_Name: TypeAlias = Annotated[str, Field(pattern=rf"^[a-z][a-z_]{{0,{LONGEST_NAME - 1}}}$")]


class RequirementList(BaseModel):
    """What an item needs, as pairs: a pair costs half the tokens of an object with two keys."""

    needs: list[tuple[str, int]]

    def requirements(self) -> dict[str, int]:
        """Item -> quantity; what is named more than once counts every time."""
        totals: dict[str, int] = {}
        for item, quantity in self.needs:
            totals[item] = totals.get(item, 0) + quantity
        return totals


class Analysis(BaseModel):
    """Why an attempt failed."""

    analysis: Annotated[str, Field(min_length=1, max_length=100)]


class Description(BaseModel):
    """What a picture shows."""

    description: Annotated[str, Field(min_length=1, max_length=200)]


class Intervention(BaseModel):
    """Whether the controller needs another task for a while, in the order of Figure 17."""

    need_intervention: bool
    thoughts: Annotated[str, Field(max_length=100)]
    task: Annotated[str, Field(max_length=60)]


@cache
def requirement_list(names: tuple[str, ...] | None) -> type[RequirementList]:
    """The answer model of at most five requirements.

    Args:
        names: the names that may be written; None allows any of lower-case letters and underscores.
    """
    name: Any = _Name if names is None else Literal[names]
    needs: Any = Annotated[list[tuple[name, _Quantity]], Field(max_length=MOST_REQUIREMENTS)]
    return create_model(
        RequirementList.__name__,
        __base__=RequirementList,
        __doc__=RequirementList.__doc__,
        needs=(needs, ...),
    )


def written(requirements: Mapping[str, int]) -> str:
    """Requirements as an answer spells them, for a prompt's examples."""
    return compact(RequirementList(needs=list(requirements.items())))
