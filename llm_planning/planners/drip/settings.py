"""Settings of DRIP, DRIP+ and baselines. The paper states few of its limits; the rest are ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from llm_planning.execution.option_settings import (
    POLICY_ROLES,
    Execution,
    ExecutionSettings,
    OneAnswerSettings,
    PromptSettings,
    ReasonSettings,
)
from llm_planning.roles import by_fallible, by_model
from llm_planning.settings import ReadWhen, when

if TYPE_CHECKING:
    from collections.abc import Sequence

ROLES = ("decompose", "judge", "apply", "act")
"""The roles that a planner of this family asks for a plan."""


class CarryingSettings(ReasonSettings):
    """Settings of a planner whose subtasks programs may carry out (Section 4.2.1).

    Attributes:
        execution: who carries a subtask out. `direct`: the world's own verbs. `skills`: the nearest
            skill of the library. `programs`: a model writes a program, shown the nearest skills.
        tries: how often a subtask is tried before it has failed (Section 4.2.1: five). DRIP and
            ReAct try once with `direct`, which refuses for good what it refuses.
        skills: the library: the `seeded` skills of the domain, `none`, or a folder.
    """

    known_roles: ClassVar[tuple[str, ...]] = (*ROLES, *POLICY_ROLES)
    read_when: ClassVar[ReadWhen] = {"skills": [when("execution", "skills", "programs")]}

    execution: Execution = "direct"
    tries: int = Field(5, ge=1)
    skills: str = Field("seeded", min_length=1)

    def models_roles(self, roles: Sequence[str]) -> tuple[str, ...]:
        """Those that are asked: the world answers `apply` itself where programs act in it."""
        silent = {*(() if self.execution == "programs" else POLICY_ROLES)}
        silent |= set() if self.execution == "direct" else {"apply"}
        return tuple(role for role in roles if role not in silent)

    def of_execution(self, subtasks: int) -> ExecutionSettings:
        """The same for the execution of Tree of Options; nobody explains subtasks in this paper.

        Args:
            subtasks: the most that are carried out.
        """
        return ExecutionSettings.read(
            {
                "roles": self.roles,
                "execution": self.execution,
                "refinements": self.tries,
                "attempts": subtasks * self.tries,
                "skills": self.skills,
                "explanation": "none",
            }
        )


class ActingSettings(CarryingSettings):
    """Settings of a planner that applies actions to a state.

    Attributes:
        budget: the most actions that are tried, refused ones included.
        votes: how often `judge` and `apply` are asked each time; the most frequent answer counts.
    """

    read_when: ClassVar[ReadWhen] = {"tries": [when("execution", "skills", "programs")]}

    budget: int = Field(200, ge=1)
    votes: int = Field(1, ge=1, le=25)


class PlanAndSolveSettings(CarryingSettings, OneAnswerSettings):
    """Settings of Plan-and-Solve.

    Attributes:
        tries: how often a step is tried, with `direct` as well; every try counts as a step there.
    """

    known_roles = PromptSettings.known_roles


class TreeSettings(ActingSettings):
    """Settings of a planner that decomposes.

    Attributes:
        max_depth: MAX_DEPTH. Algorithm 1 decomposes so many levels; DRIP+ gives up what is deeper.
        decompositions: the most decompositions.
        most: the most subtasks that a model writes in one decomposition.
    """

    read_when: ClassVar[ReadWhen] = {"most": [by_model("decompose")]}

    max_depth: int = Field(16, ge=1)
    decompositions: int = Field(400, ge=1)
    most: int = Field(16, ge=1, le=32)


class DripSettings(TreeSettings):
    """Settings of DRIP.

    Attributes:
        reading: `literal` is Algorithm 1 as printed. `redo` is ours: it also judges the root's
            children anew after each level, so that what was undone is done again.
        empty: what a subtask is worth that cannot be carried out and comes apart into nothing: it
            has failed (`fail`), or is given up and counts as closed (`close`).
        attempts: how often it may come apart into nothing before that.
    """

    reading: Literal["literal", "redo"] = "literal"
    empty: Literal["fail", "close"] = "fail"
    attempts: int = Field(1, ge=1)


class DripPlusSettings(TreeSettings):
    """Settings of DRIP+.

    Attributes:
        askings: how often a decomposition is asked for until the simulation accepts one.
        attempts: how often a subtask is decomposed before it is given up.
        idle: rounds without any change of the state after which the goal is given up.
        superfluous: whether the final pass drops actions that the plan does without.
    """

    askings: int = Field(3, ge=1)
    attempts: int = Field(2, ge=1)
    idle: int = Field(5, ge=1)
    superfluous: Literal["drop", "keep"] = "drop"


class ReactSettings(ActingSettings):
    """Settings of ReAct.

    Attributes:
        end: `tested` ends the plan when the goal is reached in the state, as in Minecraft (Section
            4.2.1); `said` when the role says so. For Blocksworld the paper names no end.
        moves: the most askings for an action.
    """

    # It is not asked to judge, and the world itself says what programs did.
    read_when: ClassVar[ReadWhen] = {"votes": [when("execution", "direct"), by_fallible("apply")]}

    end: Literal["tested", "said"] = "tested"
    moves: int = Field(70, ge=1)
