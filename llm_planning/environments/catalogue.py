"""This project's own domains: which there are, and where each is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llm_planning.names import Catalogue

if TYPE_CHECKING:
    from llm_planning.specs import DomainSpec

DOMAINS: Final[Catalogue[DomainSpec]] = Catalogue(
    {
        "llm_planning.environments.textgame.domain:TEXTGAME": ("textgame",),
        "llm_planning.environments.minecraft.options.domain:MINECRAFT": ("minecraft",),
        "llm_planning.environments.blocksworld.domain:BLOCKSWORLD": ("blocksworld",),
        "llm_planning.environments.household.domain:HOUSEHOLD": ("household",),
        "llm_planning.environments.travel.domain:TRAVEL": ("travel",),
        "llm_planning.environments.multiplication.domain:MULTIPLICATION": ("multiplication",),
        "llm_planning.environments.minecraft.items.domain:MINECRAFT_GOALS": ("minecraft-goals",),
        "llm_planning.environments.minecraft.items.domain:MINECRAFT_ITEMS": ("minecraft-items",),
        "llm_planning.environments.cooking.domain:COOKING": ("cooking",),
    }
)
"""Every domain by name; the first that fits is where a planner plans unless it is told."""
