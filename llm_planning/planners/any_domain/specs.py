"""The planners that work in every domain, for the catalogue."""

from __future__ import annotations

from typing import Final

from llm_planning.planners.any_domain.acting import (
    THINK,
    PolicySettings,
    ReactSettings,
    llm_policy,
    react,
)
from llm_planning.planners.any_domain.searching import PuctSettings, SearchSettings, puct, uct
from llm_planning.priors import ROLE
from llm_planning.specs import PlannerSpec

PAPER: Final = "Every domain"

SPECS: Final = (
    PlannerSpec(
        name="puct",
        summary="tree search before every move, guided by a language model's prior over actions",
        paper=PAPER,
        settings=PuctSettings,
        run=puct,
        roles=(ROLE,),
    ),
    PlannerSpec(
        name="uct",
        summary="tree search before every move that asks no language model",
        paper=PAPER,
        settings=SearchSettings,
        run=uct,
    ),
    PlannerSpec(
        name="llm-policy",
        summary="a language model picks every action, without search",
        paper=PAPER,
        settings=PolicySettings,
        run=llm_policy,
        roles=(ROLE,),
    ),
    PlannerSpec(
        name="react",
        summary="a language model writes a thought before every action, and sees what it did",
        paper=PAPER,
        settings=ReactSettings,
        run=react,
        roles=(THINK, ROLE),
    ),
)
