"""Settings of who writes a plan in options and executes it (ToO, Section 3.2; DRIP, 4.2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from pydantic import Field

from llm_planning.roles import RoleSettings, by_model
from llm_planning.roles.options import REASON
from llm_planning.settings import ReadWhen, When, when

if TYPE_CHECKING:
    from collections.abc import Sequence

POLICY_ROLES = ("code", "complete")
"""LLM_in-option and LLM_β (Section 3.2)."""

EXECUTION_ROLES = ("explain", *POLICY_ROLES)
"""The roles that are asked when a plan is executed. `explain` says how an option is done (Appendix
B)."""

RETRIEVED: Final = 5
"""How many skills a model is shown (Appendix B)."""

Layout: TypeAlias = Literal["cached", "paper"]
Execution: TypeAlias = Literal["direct", "skills", "programs"]
PlanExecution: TypeAlias = Execution | Literal["alone"]


def _asks_model(settings: RoleSettings) -> bool:
    who = settings.assignment
    asked = settings.models_roles(settings.known_roles)
    return any(who.errors_of(role) is None for role in asked)


class ReasonSettings(RoleSettings):
    """Settings of a planner whose models give reasons.

    Attributes:
        reason: the most characters of a reason: of a proposed option, a verdict, a thought. The
            papers set no limit.
    """

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

    known_roles: ClassVar[tuple[str, ...]] = ("decompose", *EXECUTION_ROLES)
    read_when: ClassVar[ReadWhen] = {
        "layout": [When("roles", "a model that answers a role", _asks_model)]
    }

    d: int = Field(12, ge=1, le=32)
    layout: Layout = "cached"


class OneAnswerSettings(PromptSettings):
    """Settings of a planner that plans in one answer.

    Attributes:
        d: the most steps of the plan. The papers state none: ToO and ToT-MCTS alone have a depth
            (ToO, Section 4.1).
    """

    d: int = Field(32, ge=1, le=32)


class ExecutionSettings(PromptSettings):
    """Settings of the execution (Algorithm 2).

    Attributes:
        execution: who makes the in-option policy π_ω. `direct`: an option is carried out by the
            world's own verbs, from the second attempt on with what rules say that it lacks.
            `alone`: by its own verb in every attempt, so that the plan has to have all that is
            needed. `skills`: the nearest skill of the library is π_ω (Section 4.1). `programs`: a
            model writes π_ω as a program (Section 3.2).
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

    read_when: ClassVar[ReadWhen] = {
        "skills": [when("execution", "skills", "programs")],
        "retrieved": [when("execution", "programs"), by_model("code")],
        "explanation": [when("execution", "programs"), by_model("code")],
    }

    execution: PlanExecution = "direct"
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
