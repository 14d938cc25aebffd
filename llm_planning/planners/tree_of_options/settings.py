"""Settings of ToO and its baselines; the defaults are those of the paper (Table 3)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from llm_planning.execution.option_settings import (
    EXECUTION_ROLES,
    ExecutionSettings,
    OneAnswerSettings,
    PlanExecution,
)
from llm_planning.roles import RoleSettings, by_model
from llm_planning.roles.seeing import See  # noqa: TC001 (a setting's type)
from llm_planning.settings import ReadWhen, When

ROLES = ("propose", "feasibility", "repair", "dynamics", "reward", "termination")
"""The roles of Algorithm 1."""


def _asks_rules(settings: RoleSettings) -> bool:
    assignment = settings.assignment
    return any(assignment.errors_of(role) is not None for role in (*ROLES, "decompose"))


class OptionSettings(ExecutionSettings):
    """Settings of every planner of the paper."""

    known_roles = (*ROLES, "decompose", *EXECUTION_ROLES)


class ChainOfThoughtSettings(OneAnswerSettings, OptionSettings):
    """Settings of Chain of Thought."""


class OptionSearchSettings(OptionSettings):
    """Settings of the tree search.

    Attributes:
        k: branching factor: options per proposal, 1 to 8.
        iterations: search iterations (key `iter`).
        gamma: discount factor γ.
        c: exploration weight of UCB.
        width: iterations in flight at once; 1 is the paper's sequential algorithm.
        primary_weight: c_q of the questions about progress (Appendix A.6).
        moderate_weight: c_q of the auxiliary questions.
        penalty_weight: c_q of redundancy.
        return_: a visit's return (key `return`): `sum` is the paper's R_i; `mean` divides it by the
            sum of its discounts.
        first_play: Q of an unvisited edge in the selection rule: `zero`, as in the equations, or
            the edge's own `reward`.
        ends: what holds of a state that was judged terminal, when a later simulation comes back to
            it: `asked` asks again, because Algorithm 1 keeps no verdict (`done` is local to a
            rollout); `kept` keeps the first verdict.
        see: what the world model (`dynamics`) is shown of a state: its `words`, its `picture`, or
            `both`. The model must read images, and the domain draw its states.
    """

    read_when: ClassVar[ReadWhen] = {"see": [by_model("dynamics")]}

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
    ends: Literal["asked", "kept"] = "asked"
    see: See = "words"


class UnpredictedSettings(OptionSearchSettings):
    """Settings of a search without a world model.

    Attributes:
        rules_see: what rules in a model's place know of the state after options: what they have
            `imagined`, with the errors of their `dynamics`, once for each history; what every
            question imagines `anew`; or the `initial` state alone. A model is asked the same with
            all three.
    """

    read_when: ClassVar[ReadWhen] = {
        "rules_see": [When("roles", "rules that answer a role", _asks_rules)]
    }

    rules_see: Literal["imagined", "anew", "initial"] = "imagined"


class FeasibleSearchSettings(OptionSearchSettings):
    """Settings of a search with a feasibility check.

    Attributes:
        infeasible: `repair` replaces an infeasible option by a prerequisite (eq. 3), `drop` leaves
            it out (Algorithm 1, line 26).
    """

    infeasible: Literal["repair", "drop"] = "repair"


class FeasibleUnpredictedSettings(UnpredictedSettings, FeasibleSearchSettings):
    """Settings of a search with a feasibility check and without a world model."""


class PlusSettings(FeasibleSearchSettings):
    """Settings of ToO+.

    Attributes:
        execution: see `ExecutionSettings`; the skills of the domain by default.
        effects: the folder in which trials of one world share the effects that they saw; `none`
            keeps them to the trial. Trials that share a folder depend on their order.
    """

    execution: PlanExecution = "skills"
    effects: str = Field("none", min_length=1)
