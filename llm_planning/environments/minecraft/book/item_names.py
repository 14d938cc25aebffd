"""The names of items: the game's ids, how people and models write them, and families."""

from __future__ import annotations

import re
from typing import Final

from llm_planning.environments.minecraft.options import tables

WOODS: Final = (*tables.WOODS, "crimson", "warped")
"""All kinds of wood, the Nether's last."""

_FAMILIES: Final = {
    "log": "logs",
    "wood": "logs",
    "stem": "logs",
    "hyphae": "logs",
    "planks": "planks",
    "slab": "wooden_slab",
    "stairs": "wooden_stairs",
    "door": "wooden_door",
    "trapdoor": "wooden_trapdoor",
    "sign": "wooden_sign",
    "fence": "wooden_fence",
    "fence_gate": "woodenfence_gate",
    "button": "wooden_button",
    "pressure_plate": "wooden_pressure_plate",
    "boat": "boat",
}
"""What is made of wood -> the paper's name for all kinds of it."""

_SYNONYMS: Final = {"coal": "coals"}
"""Other ids of the game -> the paper's names."""


def item_id(text: str) -> str:
    """The game's id in a text: "minecraft:oak_planks" and "Oak planks" are oak_planks."""
    return re.sub(r"[\s-]+", "_", text.strip().lower().removeprefix("minecraft:").strip())


def common_name(text: str) -> str:
    """The name of an item in the rules: families of wood have one name for all kinds."""
    name = item_id(text)
    plain = name.removeprefix("stripped_")
    for wood in WOODS:
        thing = plain.removeprefix(f"{wood}_")
        if thing != plain and thing in _FAMILIES:
            return _FAMILIES[thing]
    return _SYNONYMS.get(name, name)
