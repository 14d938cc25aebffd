"""XENON's prompts: which texts each question says, and in which order.

The texts are the blocks of `templates/`. What never changes is the system message; then comes what
changes rarely, and the item or the attempt last, so that questions share long beginnings in the
prefix cache. What each question is told follows Figures 9, 12 and 15 to 17; the words are ours.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.answers import MOST_REQUIREMENTS
from llm_planning.roles import Prompt

if TYPE_CHECKING:
    from collections.abc import Mapping

BLOCKS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "predict": (("role", "format"), ("examples", "item")),
    "correct": (("role", "format"), ("examples", "failures", "item")),
    "choose": (("role", "actions"), ("question",)),
    "rank": (("role",), ("question",)),
    "analyse": (("role", "format"), ("attempt",)),
    "caption": (("role", "format"), ("question",)),
    "intervene": (("role", "format"), ("question",)),
    "cooking_tool": (("who", "rules", "format"), ("examples", "failures", "question")),
    "cooking_action": (
        ("who", "rules", "format"),
        ("examples", "options", "failures", "question"),
    ),
}
"""Question -> blocks of its system message and of its user message."""


@cache
def compose(name: str, **lists: tuple[str, ...]) -> Prompt:
    """The prompt of one question, compiled.

    Args:
        name: a key of `BLOCKS`.
        **lists: what never changes and is listed: `actions`, 𝒜, or `tools`.
    """
    templates = files(__package__) / "templates"
    system, user = BLOCKS[name]
    shared = "cooking_shared.j2" if name.startswith("cooking") else "shared.j2"
    return Prompt(
        [(templates / source).read_text("utf-8") for source in (shared, f"{name}.j2")],
        system=system,
        user=user,
        constants={"count": MOST_REQUIREMENTS} | {k: ", ".join(one) for k, one in lists.items()},
    )
