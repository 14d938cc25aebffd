"""This project's own domains, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llm_planning.environments.blocksworld.domain import BLOCKSWORLD
from llm_planning.environments.household.domain import HOUSEHOLD
from llm_planning.environments.minecraft.domain import MINECRAFT
from llm_planning.environments.multiplication.domain import MULTIPLICATION
from llm_planning.environments.textgame.domain import TEXTGAME
from llm_planning.environments.travel.domain import TRAVEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.specs import DomainSpec

DOMAINS: Final[Mapping[str, DomainSpec]] = {
    spec.name: spec
    for spec in (TEXTGAME, MINECRAFT, BLOCKSWORLD, HOUSEHOLD, TRAVEL, MULTIPLICATION)
}
"""Every domain by name; the first that fits is where a planner plans unless it is told."""
