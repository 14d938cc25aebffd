"""This project's own planners, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llm_planning.planners.any_domain.specs import SPECS as ANY_DOMAIN
from llm_planning.planners.drip.specs import SPECS as DRIP
from llm_planning.planners.llm_mcts.specs import SPECS as LLM_MCTS
from llm_planning.planners.mc_dml.specs import SPECS as MC_DML
from llm_planning.planners.measure.specs import SPECS as MEASURE
from llm_planning.planners.tree_of_options.specs import SPECS as TREE_OF_OPTIONS
from llm_planning.planners.xenon.specs import SPECS as XENON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.specs import PlannerSpec

PLANNERS: Final[Mapping[str, PlannerSpec]] = {
    spec.name: spec
    for spec in (*ANY_DOMAIN, *TREE_OF_OPTIONS, *MC_DML, *XENON, *DRIP, *LLM_MCTS, *MEASURE)
}
"""Every planner by name."""

ALIASES: Final[Mapping[str, PlannerSpec]] = {
    alias: spec for spec in PLANNERS.values() for alias in spec.aliases
}
"""Planners by the names that they had before."""
