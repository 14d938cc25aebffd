"""This project's own domains: which there are, and where each is; and worlds of other people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llm_planning.environments.bridges import bridge, is_bridged
from llm_planning.names import Catalogue

if TYPE_CHECKING:
    from llm_planning.specs import DomainSpec


class Domains(Catalogue["DomainSpec"]):
    """Our own domains by name; it also finds a world of other people, of which it lists none."""

    def __getitem__(self, name: str) -> DomainSpec:
        """Loads a domain.

        Raises:
            KeyError: nothing has this name.
            DomainError: a world of other people is not here.
        """
        return bridge(name) if is_bridged(name) else super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        """Whether something has this name; loads nothing."""
        return super().__contains__(name) or is_bridged(str(name))


DOMAINS: Final = Domains(
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
