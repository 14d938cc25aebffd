"""The answers of a model about options: the options themselves, and their predicted changes.

All fields are bounded, so that decoding can enforce an answer's form. With the vocabulary `closed`,
items and names are words of this world; with `free`, they are bounded texts, as in Tree of Options,
of which "oak planks" and minecraft:oak_planks are read as the id oak_planks.
Verbs and conditions are always words of this world.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field, create_model

from llm_planning.environments.minecraft.book.item_names import item_id
from llm_planning.environments.minecraft.options.option import MOST, Option
from llm_planning.environments.minecraft.options.state import Change
from llm_planning.environments.minecraft.options.verbs import VERBS
from llm_planning.environments.minecraft.options.vocabulary import (
    BIOMES,
    BLOCKS,
    ENTITIES,
    ITEMS,
    OBJECTS,
    TIMES,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.environments.minecraft.options.state import State

Vocabulary: TypeAlias = Literal["closed", "free"]

CONDITIONS = (
    *(f"biome {biome}" for biome in BIOMES),
    *(f"time {time}" for time in TIMES),
    *(f"height {y}" for y in range(129)),
    *(f"health {half_hearts}" for half_hearts in range(21)),
    *(f"hunger {half_drumsticks}" for half_drumsticks in range(21)),
)
"""Changes of an attribute other than inventory, equipment and view: its name and new value."""

Count: TypeAlias = Annotated[int, Field(ge=1, le=MOST)]


def mistaken(option: Option) -> Mapping[str, Sequence[Option]]:
    """What someone may write by mistake in the place of an option.

    Returns:
        Maps item and verb to the options with any other word, and quantity to those with one less,
        one more, half and twice as many. (Our choice.)
    """
    n = option.quantity
    quantities = sorted({n // 2, n - 1, n + 1, 2 * n} & set(range(1, MOST + 1)))
    return {
        "item": [replace(option, item=item) for item in OBJECTS if item != option.item],
        "verb": [replace(option, verb=verb) for verb in VERBS if verb != option.verb],
        "quantity": [replace(option, quantity=other) for other in quantities if other != n],
    }


class OptionGrammar:
    """The grammar of options."""

    instruction = (
        f"An option is a verb ({', '.join(VERBS)}), a quantity and an item, an id of the game such "
        "as oak_log."
    )

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.fields: Mapping[str, Any] = {
            "verb": Literal[tuple(VERBS)],
            "quantity": Count,
            "item": _words(OBJECTS, vocabulary),
        }

    def read(self, answer: Mapping[str, Any]) -> Option:
        """The option with these fields; of an item that was written freely, the id."""
        return Option(answer["verb"], answer["quantity"], item_id(answer["item"]))

    def write(self, option: Option) -> Mapping[str, Any]:
        """The fields of an option."""
        return {"verb": option.verb, "quantity": option.quantity, "item": option.item}


class Amount(BaseModel):
    """So many of one item."""

    item: str
    count: Count


class Prediction(BaseModel):
    """What an option changes: ŝ_i as its difference to ŝ_{i-1} (Tree of Options, eq. 1)."""

    gained: list[Amount]
    lost: list[Amount]
    blocks: list[str]
    entities: list[str]
    equipped: list[str]
    conditions: list[str]

    def change(self) -> Change:
        """The difference for `State.apply`; the last of several values of an attribute counts."""
        values = dict(condition.split(" ") for condition in self.conditions)
        return Change(
            gained=_totals(self.gained),
            lost=_totals(self.lost),
            blocks=tuple(map(item_id, self.blocks)),
            entities=tuple(map(item_id, self.entities)),
            equipped=item_id(self.equipped[0]) if self.equipped else None,
            biome=values.get("biome"),
            time=values.get("time"),
            height=_number(values.get("height")),
            health=_number(values.get("health")),
            hunger=_number(values.get("hunger")),
        )


class ChangeModel:
    """The form of a predicted change: at most 4 items gained, 4 lost and 3 kinds seen.

    A folded craft gains up to four items: planks, stick, a crafting_table and its product.

    Args:
        vocabulary: of items, blocks and entities.

    Attributes:
        answer: `Prediction`, narrowed to the vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        items = _words(ITEMS, vocabulary)
        amount = create_model("Amount", __base__=Amount, __doc__=Amount.__doc__, item=(items, ...))
        fields: dict[str, Any] = {
            "gained": _list(amount, 4),
            "lost": _list(amount, 4),
            "blocks": _list(_words(BLOCKS, vocabulary), 3),
            "entities": _list(_words(ENTITIES, vocabulary), 3),
            "equipped": _list(items, 1),
            "conditions": _list(Literal[CONDITIONS], 2),
        }
        narrower: dict[str, Any] = {name: (kind, ...) for name, kind in fields.items()}
        self.answer: type[Prediction] = create_model(
            "Prediction", __base__=Prediction, __doc__=Prediction.__doc__, **narrower
        )

    def read(self, state: State, prediction: Prediction) -> tuple[State, Mapping[str, int]]:
        """The predicted state, and item -> count of predicted losses that were not held."""
        change = prediction.change()
        return state.apply(change), state.missing(change)


def _words(names: tuple[str, ...], vocabulary: Vocabulary) -> Any:  # noqa: ANN401
    if vocabulary == "closed":
        return Literal[names]
    return Annotated[str, Field(min_length=1, max_length=32)]


def _list(element: Any, longest: int) -> Any:  # noqa: ANN401
    return Annotated[list[element], Field(min_length=0, max_length=longest)]


def _totals(amounts: list[Amount]) -> Mapping[str, int]:
    totals: Counter[str] = Counter()
    for amount in amounts:
        totals[item_id(amount.item)] += amount.count
    return dict(totals)


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
