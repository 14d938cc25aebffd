"""The record of an agent and its surroundings that ToO plans on (Tree of Options, Appendix A.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter

Slot: TypeAlias = str | None
_Count: TypeAlias = Annotated[int, Field(ge=0, le=1 << 31)]
Equipment: TypeAlias = tuple[Slot, Slot, Slot, Slot, Slot, Slot]

INVENTORY_SLOTS = 36
EQUIPMENT_SLOTS = ("head", "torso", "legs", "feet", "hand", "off-hand")

_FAR = (0, inf)
_ARMOUR_SLOTS = {"helmet": 0, "chestplate": 1, "leggings": 2, "boots": 3, "shield": 5}
_HAND = 4


class Sighting(NamedTuple):
    """How many of one kind of block or entity are near, and how far away.

    Attributes:
        number: how many there are; in a `Change`, 0 removes the kind from view.
        distance: to the nearest one, in whole blocks.
    """

    number: _Count
    distance: _Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of a state by one option; an empty field leaves its attribute as it was.

    Attributes:
        gained: item -> count added to the inventory.
        lost: item -> count taken from the inventory.
        blocks: kinds of block seen for the first time.
        entities: kinds of entity seen for the first time.
        near: kind of block or entity -> its new sighting.
        equipped: item put on or taken in hand.
        time: of the day.
        height: the y coordinate, in blocks.
        health: in half hearts, 0 to 20.
        hunger: in half drumsticks, 0 to 20.
    """

    gained: Mapping[str, int] = field(default_factory=dict, hash=False)
    lost: Mapping[str, int] = field(default_factory=dict, hash=False)
    blocks: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    near: Mapping[str, Sighting] = field(default_factory=dict, hash=False)
    equipped: str | None = None
    biome: str | None = None
    time: str | None = None
    height: float | None = None
    health: float | None = None
    hunger: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One state ŝ, complete: every attribute of Appendix A.1.

    The text lists the lines in a fixed order, from those that options rarely change to the
    inventory, so that the texts of the states of one tree begin alike.

    Attributes:
        time: of the day.
        nearby_blocks: kinds of block within 32 blocks or seen recently, in the order of sighting.
        nearby_entities: kinds of entity near, nearest first; kinds without a sighting come last.
        near: kind near -> its sighting; a predicted kind may have none.
        health: in half hearts, 0 to 20.
        hunger: in half drumsticks, 0 to 20.
        position: (x, y, z), in blocks.
        equipment: shape [6], by `EQUIPMENT_SLOTS`; None is an empty slot.
        inventory: item -> count above 0, in the order of acquisition.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    biome: str
    time: str
    nearby_blocks: tuple[str, ...]
    nearby_entities: tuple[str, ...]
    near: Mapping[str, Sighting] = field(default_factory=dict, hash=False)
    health: float = 20.0
    hunger: float = 20.0
    position: tuple[float, float, float] = (0.0, 64.0, 0.0)
    chests: tuple[str, ...] = ()
    equipment: Equipment = (None, None, None, None, None, None)
    inventory: Mapping[str, _Count] = field(default_factory=dict, hash=False)

    @property
    def surroundings(self) -> str:
        """The lines that most options do not change."""
        x, y, z = self.position
        return (
            f"Biome: {self.biome}\n"
            f"Time: {self.time}\n"
            f"Nearby blocks: {self._listed(self.nearby_blocks)}\n"
            f"Nearby entities (nearest to farthest): {self._listed(self.nearby_entities)}\n"
            f"Health: {self.health:.1f}/20\n"
            f"Hunger: {self.hunger:.1f}/20\n"
            f"Position: x={x:.1f}, y={y:.1f}, z={z:.1f}\n"
            f"Chests: {self._listed(self.chests)}"
        )

    @property
    def belongings(self) -> str:
        """The lines that most options change: equipment and inventory."""
        held = dict(self.inventory)
        return (
            f"Equipment: {list(self.equipment)}\nInventory ({len(held)}/{INVENTORY_SLOTS}): {held}"
        )

    def __str__(self) -> str:
        return f"{self.surroundings}\n{self.belongings}"

    def apply(self, change: Change) -> State:
        """The state after a change.

        Losses are subtracted first and clipped at zero; `missing` gives what was clipped. New
        blocks and entities are added to the ones in view; a kind with the number 0 is removed.

        Args:
            change: an item that is both gained and lost counts both ways.
        """
        held = dict(self.inventory)
        for item, count in change.lost.items():
            held[item] = max(held.get(item, 0) - count, 0)
        for item, count in change.gained.items():
            held[item] = held.get(item, 0) + count
        x, y, z = self.position
        blocks, entities, near = self._surveyed(change)
        return State(
            biome=self.biome if change.biome is None else change.biome,
            time=self.time if change.time is None else change.time,
            nearby_blocks=blocks,
            nearby_entities=entities,
            near=near,
            health=self.health if change.health is None else change.health,
            hunger=self.hunger if change.hunger is None else change.hunger,
            position=(x, y if change.height is None else change.height, z),
            chests=self.chests,
            equipment=_equipped(self.equipment, change.equipped),
            inventory={item: count for item, count in held.items() if count > 0},
        )

    def missing(self, change: Change) -> dict[str, int]:
        """The losses that are not held: item -> count that `apply` clips."""
        shortfall = {
            item: count - self.inventory.get(item, 0) for item, count in change.lost.items()
        }
        return {item: count for item, count in shortfall.items() if count > 0}

    def to_json(self) -> dict[str, Any]:
        """The record as JSON-able values."""
        record: dict[str, Any] = _RECORD.dump_python(self, mode="json")
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> State:
        """Reads a record that `to_json` wrote.

        Raises:
            pydantic.ValidationError: an attribute is missing, unknown or of another type.
        """
        return _RECORD.validate_python(record)

    def _surveyed(
        self, change: Change
    ) -> tuple[tuple[str, ...], tuple[str, ...], Mapping[str, Sighting]]:
        """The blocks and entities near after a change, and their sightings."""
        if not (change.blocks or change.entities or change.near):
            return self.nearby_blocks, self.nearby_entities, self.near
        gone = {kind for kind, (number, _) in change.near.items() if number <= 0}
        blocks = _seen(self.nearby_blocks, change.blocks, gone)
        entities = _seen(self.nearby_entities, change.entities, gone)
        near = {
            kind: sighting
            for kind, sighting in {**self.near, **change.near}.items()
            if kind in blocks or kind in entities
        }
        return blocks, tuple(sorted(entities, key=lambda kind: near.get(kind, _FAR)[1])), near

    def _listed(self, kinds: Iterable[str]) -> str:
        return ", ".join(map(self._kind_text, kinds)) or "None"

    def _kind_text(self, kind: str) -> str:
        if kind not in self.near:
            return kind
        number, distance = self.near[kind]
        return f"{kind} ({number}, {distance} away)"


def _seen(before: tuple[str, ...], new: tuple[str, ...], gone: set[str]) -> tuple[str, ...]:
    return tuple(kind for kind in dict.fromkeys((*before, *new)) if kind not in gone)


def _equipped(equipment: Equipment, item: str | None) -> Equipment:
    if item is None:
        return equipment
    slot = _ARMOUR_SLOTS.get(item.rpartition("_")[2], _HAND)
    head, torso, legs, feet, hand, off_hand = (
        item if i == slot else worn for i, worn in enumerate(equipment)
    )
    return (head, torso, legs, feet, hand, off_hand)


def repeated(state: State, before: State, after: State) -> State | None:
    """The state after what once led from `before` to `after`.

    Returns:
        None if something that it took is not held.
    """
    # In the order in which they were held, not in that of a set: descriptions list them so.
    items = dict.fromkeys((*before.inventory, *after.inventory))
    change = {item: after.inventory.get(item, 0) - before.inventory.get(item, 0) for item in items}
    if any(state.inventory.get(item, 0) + count < 0 for item, count in change.items()):
        return None
    then = state.apply(
        Change(
            gained={item: count for item, count in change.items() if count > 0},
            lost={item: -count for item, count in change.items() if count < 0},
        )
    )
    if before.position == after.position:
        return then
    return replace(
        then,
        biome=after.biome,
        position=after.position,
        nearby_blocks=after.nearby_blocks,
        nearby_entities=after.nearby_entities,
        near=after.near,
    )


_RECORD = TypeAdapter(State)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What an attempt does, apart from the passing of time, hunger and monsters.

    Attributes:
        change: of the state, except x and z.
        ticks: time it takes; a second has 20.
        exhaustion: in the game's unit; 4 cost half a drumstick.
        position: where the player ends; None if the player stays.
        shortfall: why only a part of the option was done; None if all of it was done.
    """

    change: Change = field(default_factory=Change)
    ticks: float
    exhaustion: float = 0.0
    position: tuple[float, float, float] | None = None
    shortfall: str | None = None


Attempt: TypeAlias = Callable[[Random], Effect]
"""Carries out a feasible option with a random generator."""
