"""Settings of DRIP, DRIP+ and ReAct. The paper states none of its limits, so they are ours."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from llm_planning.roles import RoleSettings

ROLES = ("decompose", "judge", "apply", "act")
"""The roles that a planner of this family asks."""


class ActingSettings(RoleSettings):
    """Settings of a planner that applies actions to a state.

    Attributes:
        budget: the most actions that are tried, refused ones included.
        votes: how often `judge` and `apply` are asked each time; the most frequent answer counts.
    """

    known_roles = ROLES

    budget: int = Field(200, ge=1)
    votes: int = Field(1, ge=1, le=25)


class TreeSettings(ActingSettings):
    """Settings of a planner that decomposes.

    Attributes:
        max_depth: MAX_DEPTH. Algorithm 1 decomposes so many levels; DRIP+ gives up what is deeper.
        decompositions: the most decompositions.
        most: the most subtasks that a model writes in one decomposition.
    """

    max_depth: int = Field(16, ge=1)
    decompositions: int = Field(400, ge=1)
    most: int = Field(16, ge=1, le=32)


class DripSettings(TreeSettings):
    """Settings of DRIP.

    Attributes:
        reading: `literal` is Algorithm 1 as printed. `redo` also judges the root's children anew
            after each level, so that what was undone is done again.
        empty: what a subtask is worth that cannot be carried out and comes apart into nothing: it
            has failed (`fail`), or is given up and counts as closed (`close`).
        attempts: how often it may come apart into nothing before that.
    """

    reading: Literal["redo", "literal"] = "redo"
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
        end: `said` ends the plan when the role says that the goal is reached, as in the paper;
            `tested` when it is reached in the state.
        moves: the most askings for an action.
    """

    end: Literal["said", "tested"] = "said"
    moves: int = Field(70, ge=1)
