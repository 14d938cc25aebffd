"""The action sets of XENON's scalability study (Appendix K.9, K.10): 3, 15, 30 and 45 verbs.

The paper names mine, craft and smelt, and gives harvest, hunt and place as examples of the others,
none of which obtains anything. The rest of the verbs are chosen here.
"""

from __future__ import annotations

from typing import Final

VERBS: Final = (
    "mine",
    "craft",
    "smelt",
    "harvest",
    "hunt",
    "place",
    "collect",
    "gather",
    "dig",
    "chop",
    "cook",
    "brew",
    "trade",
    "fish",
    "forge",
    "build",
    "plant",
    "shear",
    "milk",
    "kill",
    "tame",
    "breed",
    "enchant",
    "repair",
    "equip",
    "drop",
    "throw",
    "eat",
    "drink",
    "use",
    "open",
    "search",
    "explore",
    "find",
    "pick",
    "cut",
    "burn",
    "melt",
    "carve",
    "weave",
    "grind",
    "fill",
    "pour",
    "attach",
    "combine",
)
"""All of them; each smaller set begins the larger ones."""

ACTION_SET_SIZES: Final = (3, 15, 30, 45)
"""As in Figures 24 and 25."""


def action_set(size: int) -> tuple[str, ...]:
    """The action set 𝒜 of this size, beginning with mine, craft and smelt.

    Raises:
        ValueError: the size is none of `ACTION_SET_SIZES`.
    """
    if size not in ACTION_SET_SIZES:
        sizes = ", ".join(map(str, ACTION_SET_SIZES))
        raise ValueError(f"there is no set of {size} actions; sizes: {sizes}")
    return VERBS[:size]
