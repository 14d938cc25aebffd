"""The things and places of the apartments, as LLM-MCTS lists them for VirtualHome.

Source: Zhao, Lee and Hsu, "Large Language Models as Commonsense Knowledge for Large-Scale Task
Planning" (NeurIPS 2023), Appendix A.1. Objects can be put inside containers and on surfaces, which
stand in rooms. Three names are in two lists. Order and spelling are the paper's, which prints
"bathroom cabinet" twice among the containers.

States and goals use names of one word without blanks, such as `kitchentable` (Section 2.2, Appendix
F, Listing 3). An LLM's answer is mapped to the nearest name by the cosine similarity of sentence
embeddings. A sentence encoder reads a word such as `kitchentable` badly, so `SPELLINGS` gives the
spelling of each name: see `docs/name-matching.md`.
"""

from __future__ import annotations

from types import MappingProxyType

CONTAINERS = (
    "bathroom cabinet",
    "kitchen cabinet",
    "bathroom counter",
    "fridge",
    "oven",
    "dishwasher",
    "microwave",
    "stove",
)

SURFACES = (
    "bed",
    "bookshelf",
    "cabinet",
    "coffee table",
    "cutting board",
    "floor",
    "fryingpan",
    "kitchen counter",
    "kitchen table",
    "nightstand",
    "sofa",
    "stove",
)

OBJECTS = (
    "alcohol",
    "apple",
    "banana",
    "bar soap",
    "bell pepper",
    "boardgame",
    "book",
    "box",
    "bread slice",
    "bucket",
    "candle",
    "candy bar",
    "carrot",
    "cellphone",
    "cereal",
    "chicken",
    "Chinese food",
    "chips",
    "chocolate syrup",
    "clock",
    "clothes pants",
    "clothes pile",
    "clothes shirt",
    "coatrack",
    "coffeepot",
    "condiment bottle",
    "condiment shaker",
    "cooking pot",
    "crackers",
    "crayons",
    "creamy buns",
    "cupcake",
    "cutlery fork",
    "cutlery knife",
    "cutlets",
    "cutting board",
    "dish bowl",
    "dishwashing liquid",
    "face cream",
    "folder",
    "fryingpan",
    "glasses",
    "globe",
    "hair product",
    "hanger",
    "juice",
    "keyboard",
    "lime",
    "lotion bottle",
    "magazine",
    "milk",
    "milkshake",
    "minced meat",
    "mouse",
    "mug",
    "notes",
    "oven tray",
    "pancake",
    "paper",
    "pear",
    "pie",
    "pillow",
    "plate",
    "plum",
    "poundcake",
    "pudding",
    "radio",
    "remote control",
    "salad",
    "salmon",
    "slippers",
    "sports ball",
    "sundae",
    "teddybear",
    "toilet paper",
    "toothbrush",
    "toothpaste",
    "towel",
    "towel rack",
    "toy",
    "washing sponge",
    "water glass",
    "whipped cream",
    "wine",
    "wineglass",
)
"""Things that can be moved."""

ROOMS = ("bedroom", "bathroom", "living room", "kitchen")

KINDS = MappingProxyType(
    {"container": CONTAINERS, "surface": SURFACES, "object": OBJECTS, "room": ROOMS}
)
"""The four lists."""


def unique_name(printed: str) -> str:
    """The name of one word in states and goals: "kitchen table" -> `kitchentable`."""
    return printed.replace(" ", "").lower()


_ODD_PLURALS = MappingProxyType({"knife": "knives", "mouse": "mice"})


def plural(printed: str) -> str:
    """The name of several things: "water glass" -> "water glasses".

    Names that end with a single s, such as "chips", are plurals already.
    """
    first, blank, last = printed.rpartition(" ")
    if last in _ODD_PLURALS:
        return f"{first}{blank}{_ODD_PLURALS[last]}"
    if last.endswith("s") and not last.endswith("ss"):
        return printed
    if last.endswith(("ss", "x", "ch", "sh")):
        return f"{printed}es"
    if last.endswith("y") and last[-2:-1] not in "aeiou":
        return f"{printed[:-1]}ies"
    return f"{printed}s"


SPELLINGS = MappingProxyType(
    {unique_name(printed): printed for names in KINDS.values() for printed in names}
)
"""Name of one word -> its spelling in the paper: `kitchentable` -> "kitchen table"."""

WORDS = frozenset(word for printed in SPELLINGS.values() for word in printed.lower().split())
"""Every word of the lists; they split similar names that are written without blanks."""
