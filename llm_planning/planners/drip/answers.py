"""The forms of a model's answers to DRIP's questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, create_model

from llm_planning.domain import Verdict  # noqa: TC001 (a field's type)
from llm_planning.planners.tree_of_options.answers import REASON, Reason, one_option

if TYPE_CHECKING:
    from llm_planning.domain import Grammar

END = "end"
"""What ReAct writes in the place of an action at its goal."""


class JudgementAnswer(BaseModel):
    """Executability. The model writes the reason first."""

    reason: Reason
    verdict: Verdict


def several_subtasks(grammar: Grammar[Any], most: int) -> type[BaseModel]:
    """Makes the answer model of a decomposition into at most so many subtasks."""
    option = one_option(grammar)
    several: Any = Annotated[list[option], Field(max_length=most)]  # type: ignore[valid-type]
    return create_model("Subtasks", subtasks=(several, ...))


def next_action(grammar: Grammar[Any], *, reason: int = REASON) -> type[BaseModel]:
    """Makes the answer model of ReAct: a thought, then an action or `END`."""
    thought: Any = Annotated[str, Field(max_length=reason)]
    option = one_option(grammar)
    following: Any = Literal["end"] | option
    return create_model("Thought", thought=(thought, ...), next=(following, ...))
