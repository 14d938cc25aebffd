"""Answers to ToO's questions: small, typed, and each of a finite language.

Everything a model may write is bounded, so an answer can be held to its form while it is written.
The classes give the shape; `proposal`, `repair`, `prediction` and `decomposition` give the model to
ask with, whose words are those of the environment (`closed`) or bounded texts (`free`). Verbs and
conditions are always words that the planner knows.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, Field, create_model

from llm_planning.environments.minecraft.state import Change
from llm_planning.environments.minecraft.vocabulary import (
    BIOMES,
    BLOCKS,
    ENTITIES,
    ITEMS,
    OBJECTS,
    TIMES,
    VERBS,
)
from llm_planning.planners.tree_of_options.trajectory import Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.planners.tree_of_options.settings import Vocabulary

ShapeT = TypeVar("ShapeT", bound=BaseModel)

CONDITIONS = (
    *(f"biome {biome}" for biome in BIOMES),
    *(f"time {time}" for time in TIMES),
    *(f"height {y}" for y in range(129)),
    *(f"health {half_hearts}" for half_hearts in range(21)),
    *(f"hunger {half_drumsticks}" for half_drumsticks in range(21)),
)
"""What an option may change besides what is held, worn and seen: an attribute and its new value."""

Reason: TypeAlias = Annotated[str, Field(max_length=60)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=64)]
Score: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0, multiple_of=0.1)]


class PlainOption(BaseModel):
    """[verb] [quantity] [item] (Appendix A.2)."""

    verb: str
    quantity: Count
    item: str

    def option(self) -> Option:
        """The option as the planner knows it."""
        return Option(self.verb, self.quantity, self.item)


class ReasonedOption(BaseModel):
    """An option with its reason, which is written first."""

    reasoning: Reason
    verb: str
    quantity: Count
    item: str

    def option(self) -> Option:
        """The option as the planner knows it."""
        return Option(self.verb, self.quantity, self.item)


class Proposal(BaseModel):
    """k candidates ω̃ from one prompt (eq. 2)."""

    options: list[ReasonedOption]


class Decomposition(BaseModel):
    """A whole plan at once: the chain of thought of the CoT baseline."""

    options: list[ReasonedOption]


class Feasibility(BaseModel):
    """Whether an option can be carried out; the reason is written before the verdict (A.5)."""

    reason: Reason
    action_valid: bool


class Amount(BaseModel):
    """So many of one item."""

    item: str
    count: Count


class Prediction(BaseModel):
    """What an option changes: ŝ_i as its difference to ŝ_{i-1} (eq. 1)."""

    gained: list[Amount]
    lost: list[Amount]
    blocks: list[str]
    entities: list[str]
    equipped: list[str]
    conditions: list[str]

    def change(self) -> Change:
        """The difference for `State.apply`; of two values of one attribute the later counts."""
        values = dict(condition.split(" ") for condition in self.conditions)
        return Change(
            gained=_totals(self.gained),
            lost=_totals(self.lost),
            blocks=tuple(self.blocks),
            entities=tuple(self.entities),
            equipped=self.equipped[0] if self.equipped else None,
            biome=values.get("biome"),
            time=values.get("time"),
            height=_number(values.get("height")),
            health=_number(values.get("health")),
            hunger=_number(values.get("hunger")),
        )


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


@cache
def proposal(k: int, vocabulary: Vocabulary) -> type[Proposal]:
    """The answer model of exactly k options."""
    option = _worded(ReasonedOption, verb=_one_of(VERBS), item=_words(OBJECTS, vocabulary))
    return _worded(Proposal, options=_list(option, k, k))


@cache
def decomposition(d: int, vocabulary: Vocabulary) -> type[Decomposition]:
    """The answer model of 1 to d options."""
    option = _worded(ReasonedOption, verb=_one_of(VERBS), item=_words(OBJECTS, vocabulary))
    return _worded(Decomposition, options=_list(option, 1, d))


@cache
def repair(vocabulary: Vocabulary) -> type[PlainOption]:
    """The answer model of a prerequisite (eq. 3)."""
    return _worded(PlainOption, verb=_one_of(VERBS), item=_words(OBJECTS, vocabulary))


@cache
def prediction(vocabulary: Vocabulary) -> type[Prediction]:
    """The answer model of a change: at most 3 items gained, lost and 3 of a kind seen."""
    items = _words(ITEMS, vocabulary)
    amounts = _list(_worded(Amount, item=items), 0, 3)
    return _worded(
        Prediction,
        gained=amounts,
        lost=amounts,
        blocks=_list(_words(BLOCKS, vocabulary), 0, 3),
        entities=_list(_words(ENTITIES, vocabulary), 0, 3),
        equipped=_list(items, 0, 1),
        conditions=_list(_one_of(CONDITIONS), 0, 2),
    )


def _worded(shape: type[ShapeT], **types: Any) -> type[ShapeT]:  # noqa: ANN401
    """The same shape with narrower field types, made at run time."""
    fields: dict[str, Any] = {name: (narrower, ...) for name, narrower in types.items()}
    return create_model(shape.__name__, __base__=shape, __doc__=shape.__doc__, **fields)


def _one_of(names: tuple[str, ...]) -> Any:  # noqa: ANN401
    return Literal[names]


def _words(names: tuple[str, ...], vocabulary: Vocabulary) -> Any:  # noqa: ANN401
    if vocabulary == "closed":
        return _one_of(names)
    return Annotated[str, Field(min_length=1, max_length=32)]


def _list(element: Any, shortest: int, longest: int) -> Any:  # noqa: ANN401
    return Annotated[list[element], Field(min_length=shortest, max_length=longest)]


def _totals(amounts: list[Amount]) -> Mapping[str, int]:
    totals: Counter[str] = Counter()
    for amount in amounts:
        totals[amount.item] += amount.count
    return dict(totals)


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
