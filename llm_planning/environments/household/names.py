"""The things and places of the apartments, as LLM-MCTS lists them for VirtualHome.

Source: Zhao, Lee and Hsu, "Large Language Models as Commonsense Knowledge for Large-Scale Task
Planning" (NeurIPS 2023), Appendix A.1. A thing may be put inside a container or on a surface, and
those stand in rooms; three names are in two lists. Order and spelling are the paper's, which prints
"bathroom cabinet" twice among the containers.

States and goals name everything by one word without blanks, such as `kitchentable` (Section 2.2,
Appendix F, Listing 3), and what an LLM answers is mapped to the nearest of these by the cosine
similarity of sentence embeddings. A sentence encoder reads such a word badly, so `SPELLINGS` has
what it stands for: see `docs/name-matching.md`.
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
"""What can be moved."""

ROOMS = ("bedroom", "bathroom", "living room", "kitchen")

KINDS = MappingProxyType(
    {"container": CONTAINERS, "surface": SURFACES, "object": OBJECTS, "room": ROOMS}
)
"""The four lists."""


def unique_name(printed: str) -> str:
    """The one word that stands for a name in states and goals: `kitchentable`."""
    return printed.replace(" ", "").lower()


SPELLINGS = MappingProxyType(
    {unique_name(printed): printed for names in KINDS.values() for printed in names}
)
"""What each unique name stands for, as the paper prints it: `kitchentable` -> "kitchen table"."""

WORDS = frozenset(word for printed in SPELLINGS.values() for word in printed.lower().split())
"""Every word of the lists: splits names of the same kind that are written without blanks."""
