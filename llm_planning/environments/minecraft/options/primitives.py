"""Minecraft's control primitives: what a program can do, and what it sees.

They have the names of Voyager's, which Tree of Options executes its options with (Appendix B), as
far as the eight tasks need them. `cookItem`, `useOnMob` and `fillBucket` are ours. Each call is one
option of the world. `primitives.js` defines them for a program.
"""

from __future__ import annotations

import json
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from llm_base.quoting import quote
from llm_planning.environments.minecraft.options.option import MOST, Option
from llm_planning.environments.minecraft.options.surroundings import sighting
from llm_planning.environments.minecraft.options.verbs import VERBS
from llm_planning.execution.sandbox import CallError
from llm_planning.execution.skill_files import read_skills
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.environments.minecraft.options.state import State
    from llm_planning.environments.minecraft.options.verb import Verb
    from llm_planning.execution.skill_files import Skill

LONGEST_NAME: Final = 64
"""Characters of the name of an item."""

_FIRST: Final = ("mine", "craft", "smelt", "cook", "place", "kill", "equip", "find")
"""The verbs whose functions a model is told of first, in this order."""

_FUNCTIONS: Final[dict[str, list[Verb]]] = {}
"""Function -> the verbs of its options; several differ in their tools."""

for _word in dict.fromkeys((*_FIRST, *VERBS)):
    _FUNCTIONS.setdefault(VERBS[_word].function, []).append(VERBS[_word])

MANUAL = """\
All functions are async, so await them. Each returns true if all of it was done and false if only a
part was done. It throws an Error that says what is missing if nothing could be done. Counts are 1
if they are left out, and 64 at most.
"""
MANUAL += "".join(f"- {verb.manual}\n" for verbs in _FUNCTIONS.values() for verb in verbs)
MANUAL += """\
What the bot knows is up to date after each call:
- bot.inventory.count(name): how many are in the inventory. bot.inventory.items(): a list of
  {name, count}.
- bot.sees(name): whether a block or an animal is near, or the biome has this name.
- bot.nearby(name): {count, distance} of a kind of block or animal that is near, or null.
- bot.entity.position: {x, y, z}; its offset(dx, dy, dz) is another position.
- bot.equipment, a list, and bot.wears(name); bot.biome, bot.timeOfDay, bot.health, bot.food.
- bot.chat(text): tells what happens."""


class MinecraftPrimitives:
    """The control primitives of the world of options; a `Primitives`."""

    manual = MANUAL

    @cached_property
    def prelude(self) -> str:
        """JavaScript that defines `bot` and the functions."""
        text = (files(__package__) / "primitives.js").read_text("utf-8")
        names = "".join(f'\n    "{name}",' for name in _FUNCTIONS)
        return text.replace("/* functions */", f"{names}\n  ")

    @cached_property
    def version(self) -> str:
        """SHA-256 of the prelude."""
        return sha256(self.prelude.encode()).hexdigest()

    @cached_property
    def seeded(self) -> Sequence[Skill]:
        """The skills that come with this world; none finishes a whole task by itself."""
        return read_skills(Path(__file__).with_name("skills"))

    def action(self, name: str, arguments: Sequence[Any]) -> Option:
        """The option of a call."""
        if name not in _FUNCTIONS:
            raise CallError(f"unknown function {quote(name)}; {remedy(str(name), _FUNCTIONS)}")
        return _Call(_FUNCTIONS[name], arguments).option()

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
        """The program that takes exactly these options, one call for each."""
        calls = "".join(f"  await {_call(action)};\n" for action in actions)
        return f"async function act(bot) {{\n{calls}}}\n"

    def arguments(self, action: Option) -> Sequence[Any]:
        """The item and the quantity of an option."""
        return (action.item, action.quantity)


def _call(action: Option) -> str:
    verb = VERBS.get(action.verb)
    if verb is None:
        raise CallError(f"unknown verb {quote(action.verb)}; {remedy(action.verb, VERBS)}")
    texts = {
        "item": json.dumps(verb.tool),
        "mob": json.dumps(action.item),
        "name": json.dumps(action.item),
        "position": "bot.entity.position.offset(1, 0, 0)",
    }
    given = (texts[parameter] for parameter in verb.parameters if parameter != "count")
    return f"{verb.function}(bot, {', '.join(given)}, {action.quantity})"


class _Call:
    """A call of a function by a program; its arguments may be anything.

    Args:
        given: its arguments without `bot`.
    """

    def __init__(self, verbs: Sequence[Verb], given: Sequence[Any]) -> None:
        self._verbs = verbs
        self._given = list(given)
        # An argument that is undefined in JavaScript is null in JSON.
        while self._given and self._given[-1] is None:
            self._given.pop()

    def option(self) -> Option:
        """The option of the call; in this world, the position of a block makes no difference."""
        roles = [role for role in self._verbs[0].parameters if role != "count"]
        if len(self._given) > len(roles) + 1:
            most = len(roles) + 2
            raise self.refused(f"it takes at most {most} arguments, not {len(self._given) + 1}")
        count = self.count(len(roles))
        names = {
            role: self.name(place, role) for place, role in enumerate(roles) if role != "position"
        }
        if "position" in roles:
            self.position(roles.index("position"))
        tools = {verb.tool: verb for verb in self._verbs}
        tool = names.get("item")
        if tool not in tools:
            wanted = " or ".join(filter(None, tools))
            raise self.refused(f"item must be {wanted}, not {quote(tool)}")
        return Option(tools[tool].word, count, names.get("mob") or names["name"])

    def refused(self, expected: str) -> CallError:
        verb = self._verbs[0]
        return CallError(f"{verb.function}(bot, {', '.join(verb.parameters)}): {expected}")

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


def _near(state: State, kinds: Sequence[str]) -> dict[str, Any]:
    sightings = {kind: sighting(state, kind) for kind in kinds}
    return {
        kind: {"count": seen.number, "distance": seen.distance} for kind, seen in sightings.items()
    }
