"""The option generator: proposals, and what becomes of the infeasible ones (eqs. 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from llm_planning.planners.tree_of_options.answers import Feasibility, PlainOption, Proposal
    from llm_planning.planners.tree_of_options.trajectory import Option, Trajectory
    from llm_planning.roles import Role


@dataclass(frozen=True, slots=True)
class Candidate:
    """An option that expands a node, and how it came about.

    Attributes:
        option: ω; None where ω̃ was dropped.
        proposed: ω̃; differs from ω where it was repaired.
        reasoning: why it was proposed.
        obstacle: why ω̃ is infeasible; None where it is feasible or was not checked.
    """

    option: Option | None
    proposed: Option
    reasoning: str
    obstacle: str | None = None


class Check(Protocol):
    """What a proposed option becomes."""

    async def __call__(self, trajectory: Trajectory, candidate: Candidate) -> Candidate:
        """The candidate to expand with; one without an option is left out."""
        ...


async def unchecked(trajectory: Trajectory, candidate: Candidate) -> Candidate:  # noqa: ARG001
    """Takes every option as it is proposed."""
    return candidate


class Repair:
    """Puts a prerequisite in the place of an infeasible option (eq. 3), without a second check."""

    def __init__(self, feasibility: Role[Feasibility], repair: Role[PlainOption]) -> None:
        self._feasibility = feasibility
        self._repair = repair

    async def __call__(self, trajectory: Trajectory, candidate: Candidate) -> Candidate:
        """The candidate, or its prerequisite."""
        obstacle = await _obstacle(self._feasibility, trajectory, candidate.proposed)
        if obstacle is None:
            return candidate
        prerequisite = await self._repair(
            goal=trajectory.goal,
            state=trajectory.state,
            history=trajectory.history,
            option=candidate.proposed,
            reason=obstacle,
        )
        return replace(candidate, option=prerequisite.option(), obstacle=obstacle)


class Drop:
    """Leaves an infeasible option out (Algorithm 1, line 26)."""

    def __init__(self, feasibility: Role[Feasibility]) -> None:
        self._feasibility = feasibility

    async def __call__(self, trajectory: Trajectory, candidate: Candidate) -> Candidate:
        """The candidate, without its option if that is infeasible."""
        obstacle = await _obstacle(self._feasibility, trajectory, candidate.proposed)
        return candidate if obstacle is None else replace(candidate, option=None, obstacle=obstacle)


async def _obstacle(
    feasibility: Role[Feasibility], trajectory: Trajectory, option: Option
) -> str | None:
    verdict = await feasibility(
        goal=trajectory.goal,
        state=trajectory.state,
        history=trajectory.history,
        option=option,
    )
    return None if verdict.action_valid else verdict.reason


class OptionGenerator:
    """Suggests options (eq. 2) and checks each (eq. 3).

    Args:
        propose: names k candidates in one answer.
        check: what each of them becomes.
    """

    def __init__(self, propose: Role[Proposal], check: Check) -> None:
        self._propose = propose
        self.check = check

    async def propose(self, trajectory: Trajectory) -> list[Candidate]:
        """The options ω̃ of one proposal, in its order."""
        proposal = await self._propose(
            goal=trajectory.goal, state=trajectory.state, history=trajectory.history
        )
        return [
            Candidate(item.option(), item.option(), item.reasoning) for item in proposal.options
        ]
