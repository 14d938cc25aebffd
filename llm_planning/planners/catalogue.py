"""This project's own planners: which there are, and where each is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llm_planning.names import Catalogue

if TYPE_CHECKING:
    from llm_planning.specs import PlannerSpec

PLANNERS: Final[Catalogue[PlannerSpec]] = Catalogue(
    {
        "llm_planning.planners.any_domain.specs:SPECS": ("puct", "uct", "llm-policy", "react"),
        "llm_planning.planners.tree_of_options.specs:SPECS": (
            *("too", "too-no-wm", "too-no-fc", "tot-mcts"),
            *("cot", "react-option", "react-action", "too-plus"),
        ),
        "llm_planning.planners.mc_dml.specs:SPECS": (
            *("mc-dml", "mc-dml-no-dp", "mc-dml-no-mc-dp", "mc-dml-no-mc-mi-dp"),
            *("mc-dml-puct", "mc-dml-uct", "llm-agent", "reflection-agent", "walkthrough"),
        ),
        "llm_planning.planners.xenon.specs:SPECS": (
            *("xenon", "sc", "adam", "deckard", "rand"),
            *("xenon-self-actions", "xenon-no-actions"),
            *("xenon-self-dependencies", "xenon-no-dependencies", "xenon-no-correction"),
            *("xenon-plus-a1", "xenon-plus-a4", "xenon-plus"),
            *("select-xenon", "select-random-fam", "select-ucb", "select-sc", "select-llm"),
            *("plan-xenon", "plan-xenon-no-cre", "plan-xenon-no-actions", "plan-oracle-actions"),
            *("xenon-cooking", "sc-cooking", "deckard-cooking"),
        ),
        "llm_planning.planners.drip.specs:SPECS": (
            *("drip", "drip-plus", "drip-react", "drip-cot", "plan-and-solve"),
        ),
        "llm_planning.planners.llm_mcts.specs:SPECS": (
            *("llm-mcts", "llm-mcts-plus", "llm-mcts-policy", "l-policy", "l-model"),
            *("l-policy-multiplication", "l-model-multiplication"),
        ),
        "llm_planning.planners.measure.specs:SPECS": ("measure",),
    }
)
"""Every planner by name."""
