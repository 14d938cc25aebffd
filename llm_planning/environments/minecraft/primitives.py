"""Minecraft's control primitives: what a program can do, and what it sees.

They have the names of Voyager's, which Tree of Options executes its options with (Appendix B), as
far as the eight tasks need them. `cookItem`, `useOnMob` and `fillBucket` are ours. Each call is one
option of the world. `primitives.js` defines them for a program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from llm_kernels.quoting import quote
from llm_planning.environments.minecraft.option_language import MOST, Option
from llm_planning.environments.minecraft.surroundings import sighting
from llm_planning.execution.sandbox import CallError
from llm_planning.execution.skill_files import read_skills
from llm_planning.names import remedy

if TYPE_CHECKING:
    from llm_planning.environments.minecraft.state import State
    from llm_planning.execution.skill_files import Skill

LONGEST_NAME: Final = 64
"""Characters of the name of an item."""

_TOOLS: Final = {"shears": "shear", "bucket": "milk"}
"""What `useOnMob` uses -> the verb of the option."""

_VERBS: Final = {
    "mineBlock": "mine",
    "craftItem": "craft",
    "smeltItem": "smelt",
    "cookItem": "cook",
    "killMob": "kill",
    "equipItem": "equip",
    "exploreUntil": "find",
    "fillBucket": "collect",
}
"""Function with the arguments (name, count) -> the verb of its options."""

_FUNCTIONS: Final = {verb: name for name, verb in _VERBS.items()}
_TOOL_OF: Final = {verb: tool for tool, verb in _TOOLS.items()}

TOLD: Final = """\
All functions are async, so await them. Each returns true if all of it was done and false if only a
part was done. It throws an Error that says what is missing if nothing could be done. Counts are 1
if they are left out, and 64 at most.
- mineBlock(bot, name, count): breaks blocks that are near until count of them are mined, or count
  of the item that they give are picked up. The right pickaxe must be in the inventory.
- craftItem(bot, name, count): crafts an item from what is in the inventory.
- smeltItem(bot, name, count): smelts a material, or smelts for a product, in a furnace that is in
  the inventory or near. It burns fuel from the inventory.
- cookItem(bot, name, count): the same for food, raw or cooked.
- placeItem(bot, name, position): puts a block from the inventory down, within reach of the bot.
- killMob(bot, name, count): kills animals or monsters that are near, and takes what they leave.
- equipItem(bot, name): takes an item in hand, or puts armour on.
- exploreUntil(bot, name): walks, or digs with a pickaxe, until a block, an animal or a biome is in
  view. It gives up after 200 blocks and returns false; another call goes on from there.
- useOnMob(bot, "shears", "sheep", count): shears sheep that are near.
- useOnMob(bot, "bucket", "cow", count): fills buckets with the milk of a cow that is near.
- fillBucket(bot, name, count): fills buckets with water or lava that is near.
What the bot knows is up to date after each call:
- bot.inventory.count(name): how many are in the inventory. bot.inventory.items(): a list of
  {name, count}.
- bot.sees(name): whether a block or an animal is near, or the biome has this name.
- bot.nearby(name): {count, distance} of a kind of block or animal that is near, or null.
- bot.entity.position: {x, y, z}; its offset(dx, dy, dz) is another position.
- bot.equipment, a list, and bot.wears(name); bot.biome, bot.timeOfDay, bot.health, bot.food.
- bot.chat(text): tells what happens."""


class MinecraftPrimitives:
    """The control primitives of the world of options; a `Primitives`.

    Attributes:
        told: what a model is told about `bot` and the functions.
    """

    told = TOLD

    @cached_property
    def prelude(self) -> str:
        """JavaScript that defines `bot` and the functions."""
        return (files(__package__) / "primitives.js").read_text("utf-8")

    @cached_property
    def version(self) -> str:
        """SHA-256 of the prelude."""
        return sha256(self.prelude.encode()).hexdigest()

    @cached_property
    def seeded(self) -> Sequence[Skill]:
        """The skills that come with this world; they finish each of its eight tasks."""
        return read_skills(Path(__file__).with_name("skills"))

    def action(self, name: str, arguments: Sequence[Any]) -> Option:
        """The option of a call.

        Raises:
            CallError: there is no such function, or it cannot take the arguments.
        """
        reads = _READS.get(name)
        if reads is None:
            raise CallError(f"unknown function {quote(name)}; {remedy(str(name), _READS)}")
        return reads(_Call(name, arguments))

    def look(self, state: State) -> Mapping[str, Any]:
        """The record of a state, with the number and the distance of what is near."""
        return {
            "biome": state.biome,
            "time": state.time,
            "health": state.health,
            "hunger": state.hunger,
            "position": list(state.position),
            "equipment": list(state.equipment),
            "inventory": dict(state.inventory),
            "blocks": _near(state, state.nearby_blocks),
            "entities": _near(state, state.nearby_entities),
        }

    def plain(self, *actions: Option) -> str:
        """The program that takes exactly these options, one call for each.

        Raises:
            CallError: no function takes one of them.
        """
        calls = "".join(f"  await {_call(action)};\n" for action in actions)
        return f"async function act(bot) {{\n{calls}}}\n"

    def arguments(self, action: Option) -> Sequence[Any]:
        """The item and the quantity of an option."""
        return (action.item, action.quantity)


def _call(action: Option) -> str:
    verb, item, count = action.verb, json.dumps(action.item), action.quantity
    if verb in _FUNCTIONS:
        return f"{_FUNCTIONS[verb]}(bot, {item}, {count})"
    if verb == "place":
        return f"placeItem(bot, {item}, bot.entity.position.offset(1, 0, 0), {count})"
    if verb in _TOOL_OF:
        return f'useOnMob(bot, "{_TOOL_OF[verb]}", {item}, {count})'
    known = (*_FUNCTIONS, "place", *_TOOL_OF)
    raise CallError(f"unknown verb {quote(verb)}; {remedy(verb, known)}")


class _Call:
    """A call of a function by a program; its arguments may be anything.

    Args:
        function: its name.
        given: its arguments without `bot`.
    """

    def __init__(self, function: str, given: Sequence[Any]) -> None:
        self._function = function
        self._given = list(given)
        # An argument that is undefined in JavaScript is null in JSON.
        while self._given and self._given[-1] is None:
            self._given.pop()

    def refused(self, expected: str) -> CallError:
        return CallError(f"{_SIGNATURES[self._function]}: {expected}")

    def upto(self, most: int) -> _Call:
        if len(self._given) > most:
            raise self.refused(f"it takes at most {most + 1} arguments, not {len(self._given) + 1}")
        return self

    def name(self, place: int, role: str) -> str:
        value = self._given[place] if place < len(self._given) else None
        if not (
            isinstance(value, str)
            and 0 < len(value) <= LONGEST_NAME
            and value.isascii()
            and value.replace("_", "a").isalnum()
        ):
            raise self.refused(f'{role} must be a name such as "oak_log", not {quote(value)}')
        return value

    def count(self, place: int) -> int:
        value = self._given[place] if place < len(self._given) else 1
        whole = isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
        if not (whole and 1 <= value <= MOST):
            raise self.refused(f"count must be a whole number from 1 to {MOST}, not {quote(value)}")
        return int(value)

    def position(self, place: int) -> None:
        value = self._given[place] if place < len(self._given) else None
        numbers = [value.get(axis) for axis in "xyz"] if isinstance(value, dict) else [None]
        if value is not None and not all(
            isinstance(number, int | float) and not isinstance(number, bool) for number in numbers
        ):
            raise self.refused(
                "position must be a place such as bot.entity.position.offset(1, 0, 0), "
                f"not {quote(value)}"
            )


def _plain_read(call: _Call) -> Option:
    call.upto(2)
    return Option(_VERBS[call._function], call.count(1), call.name(0, "name"))


def _placed(call: _Call) -> Option:
    """The world puts blocks within reach; where exactly makes no difference in it."""
    call.upto(3).position(1)
    return Option("place", call.count(2), call.name(0, "name"))


def _used(call: _Call) -> Option:
    call.upto(3)
    tool, mob = call.name(0, "item"), call.name(1, "mob")
    if tool not in _TOOLS:
        raise call.refused(f"item must be {' or '.join(_TOOLS)}, not {quote(tool)}")
    return Option(_TOOLS[tool], call.count(2), mob)


_Read: TypeAlias = Callable[[_Call], Option]

_READS: Final[Mapping[str, _Read]] = {
    **dict.fromkeys(_VERBS, _plain_read),
    "placeItem": _placed,
    "useOnMob": _used,
}
_SIGNATURES: Final = {
    **{name: f"{name}(bot, name, count)" for name in _VERBS},
    "placeItem": "placeItem(bot, name, position)",
    "useOnMob": "useOnMob(bot, item, mob, count)",
}


def _near(state: State, kinds: Sequence[str]) -> dict[str, Any]:
    found = {kind: sighting(state, kind) for kind in kinds}
    return {kind: {"count": one.number, "distance": one.distance} for kind, one in found.items()}
