"""Settings of ToO and its baselines; the defaults are those of the paper (Table 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from pydantic import Field

from llm_planning.execution.skills import RETRIEVED
from llm_planning.planners.tree_of_options.answers import REASON
from llm_planning.roles import RoleSettings, by_model
from llm_planning.roles.seeing import See  # noqa: TC001 (a setting's type)
from llm_planning.settings import ReadWhen, When, when

if TYPE_CHECKING:
    from collections.abc import Sequence

ROLES = ("propose", "feasibility", "repair", "dynamics", "reward", "termination", "decompose")
"""The roles that ToO or one of its baselines asks for a plan."""

POLICY_ROLES = ("code", "complete")
"""LLM_in-option and LLM_β (Section 3.2)."""

EXECUTION_ROLES = ("explain", *POLICY_ROLES)
"""The roles that are asked when a plan is executed. `explain` says how an option is done (Appendix
B)."""

Layout: TypeAlias = Literal["cached", "paper"]
Execution: TypeAlias = Literal["direct", "skills", "programs"]


def _asks_model(settings: RoleSettings) -> bool:
    who = settings.assignment
    asked = settings.models_roles(settings.known_roles)
    return any(who.errors_of(role) is None for role in asked)


def _asks_rules(settings: RoleSettings) -> bool:
    who = settings.assignment
    return any(who.errors_of(role) is not None for role in ROLES)


class ReasonSettings(RoleSettings):
    """Settings of a planner whose models give reasons.

    Attributes:
        reason: the most characters of a reason: of a proposed option, a verdict, a thought. The
            papers set no limit.
    """

    added: ClassVar[tuple[str, ...]] = ("reason",)
    read_when: ClassVar[ReadWhen] = {
        "reason": [When("roles", "a model that answers a role", _asks_model)]
    }

    reason: int = Field(REASON, ge=1, le=1_000)


class PromptSettings(ReasonSettings):
    """Settings of the questions: their layout, and who answers them.

    Attributes:
        d: the most options in a plan. It is both the rollout depth d and the maximum rollout
            length L (Section 3.1 iii; Table 3 gives both as 12).
        layout: order of the prompts' blocks: `cached` suits the prefix cache, `paper` is the order
            of Appendix A.
    """

    known_roles = (*ROLES, *EXECUTION_ROLES)
    read_when: ClassVar[ReadWhen] = {
        "layout": [When("roles", "a model that answers a role", _asks_model)]
    }

    d: int = Field(12, ge=1, le=32)
    layout: Layout = "cached"


class ExecutionSettings(PromptSettings):
    """Settings of the execution (Algorithm 2).

    Attributes:
        execution: who makes the in-option policy π_ω. `direct`: an option is carried out by the
            world's own verbs. `skills`: the nearest skill of the library is π_ω (Section 4.1).
            `programs`: a model writes π_ω as a program (Section 3.2).
        refinements: M, the most attempts at one option. The paper states none.
        attempts: the most attempts in all (Section 4.1).
        executions: how often a plan is executed (Table 1: 3), each in a world that planning did
            not see. The first decides whether the run succeeds.
        skills: the library: the `seeded` skills of the domain, `none`, or a folder, which has the
            seeded ones and those that are added.
        retrieved: how many skills whoever writes a program is shown (Appendix B: five).
        explanation: whether they are also shown how the option is done, in a model's words: it is
            `asked` once for each option (Appendix B), or `none` is given.
    """

    added: ClassVar[tuple[str, ...]] = ("reason", "retrieved", "explanation")
    read_when: ClassVar[ReadWhen] = {
        "skills": [when("execution", "skills", "programs")],
        "retrieved": [when("execution", "programs"), by_model("code")],
        "explanation": [when("execution", "programs"), by_model("code")],
    }

    execution: Execution = "direct"
    refinements: int = Field(4, ge=1)
    attempts: int = Field(30, ge=1)
    executions: int = Field(1, ge=1, le=1_000)
    skills: str = Field("seeded", min_length=1)
    retrieved: int = Field(RETRIEVED, ge=1)
    explanation: Literal["asked", "none"] = "asked"

    def models_roles(self, roles: Sequence[str]) -> tuple[str, ...]:
        """All, if a model writes programs; otherwise those of planning."""
        silent: tuple[str, ...] = ()
        if self.execution != "programs":
            silent = EXECUTION_ROLES
        elif self.explanation == "none" or self.assignment.errors_of("code") is not None:
            silent = ("explain",)
        return tuple(role for role in roles if role not in silent)


class OptionSearchSettings(ExecutionSettings):
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

    added = (*ExecutionSettings.added, "see")
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
            `imagined`, with the errors of their `dynamics`, or the `initial` state alone. Both are
            bounds; a model is asked the same with either.
    """

    read_when: ClassVar[ReadWhen] = {
        "rules_see": [When("roles", "rules that answer a role", _asks_rules)]
    }

    rules_see: Literal["imagined", "initial"] = "imagined"


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

    execution: Execution = "skills"
    effects: str = Field("none", min_length=1)
