"""Settings of ToO and its baselines; the defaults are those of the paper (Table 3)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from llm_planning.roles import RoleSettings

ROLES = ("propose", "feasibility", "repair", "dynamics", "reward", "termination", "decompose")
"""Every question that ToO or one of its baselines asks."""

Layout: TypeAlias = Literal["cached", "paper"]


class PromptSettings(RoleSettings):
    """Settings of how questions are put and who answers them.

    Attributes:
        d: most options in a plan: the rollout depth d and the maximum rollout length L, which are
            one number (Section 3.1 iii; Table 3 gives both as 12).
        layout: order of the prompts' blocks: `cached` for the prefix cache, `paper` as in
            Appendix A.
    """

    known_roles = ROLES

    d: int = Field(12, ge=1, le=32)
    layout: Layout = "cached"


class OptionSearchSettings(PromptSettings):
    """Settings of the tree search.

    Attributes:
        k: branching factor, 1 to 8 options a proposal.
        iterations: search iterations (key `iter`).
        gamma: discount factor γ.
        c: exploration weight of UCB.
        width: iterations in flight at once; 1 is the paper's sequential algorithm.
        primary_weight: c_q of the questions that reflect progress (Appendix A.6).
        moderate_weight: c_q of the auxiliary questions.
        penalty_weight: c_q of redundancy.
        return_: a visit's return (key `return`): `sum` is the paper's R_i; `mean` divides it by the
            sum of its discounts.
        first_play: Q of an edge before its first visit in the selection rule: `zero`, the equations
            read literally, or the edge's own `reward`.
    """

    k: int = Field(3, ge=1, le=8)
    iterations: int = Field(10, ge=1, validation_alias="iter")
    gamma: float = Field(0.95, ge=0.0, le=1.0)
    c: float = Field(0.7, ge=0.0, allow_inf_nan=False)
    width: int = Field(1, ge=1)
    primary_weight: float = Field(1.2, allow_inf_nan=False)
    moderate_weight: float = Field(1.0, allow_inf_nan=False)
    penalty_weight: float = Field(-1.0, allow_inf_nan=False)
    return_: Literal["sum", "mean"] = Field("sum", validation_alias="return")
    first_play: Literal["zero", "reward"] = "zero"


class FeasibleSearchSettings(OptionSearchSettings):
    """Settings of a search with a feasibility check.

    Attributes:
        infeasible: what becomes of an infeasible option: `repair` puts a prerequisite in its place
            (eq. 3), `drop` leaves it out (Algorithm 1, line 26).
    """

    infeasible: Literal["repair", "drop"] = "repair"
