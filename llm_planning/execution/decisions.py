"""How an agent chose its moves, and the outcome of its episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_planning.execution.episode import milestone_lines
from llm_planning.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from random import Random

    from llm_planning.domain import A, S
    from llm_planning.execution.episode import Episode, Move
    from llm_planning.search import Edge, Node
    from llm_planning.specs import Run

_LEAST = 1e-9
"""The least weight of an edge in a draw by π. If every π is 0, all edges are equally likely."""


@dataclass(frozen=True, slots=True)
class ActionStatistics:
    """An action that was possible, with its statistics.

    Attributes:
        action: as it is written.
        prior: the last π(a|h).
        value: Q(h, a); None without a search.
        visits: N(h, a); None without a search.
    """

    action: str
    prior: float
    value: float | None = None
    visits: int | None = None

    def to_json(self) -> dict[str, Any]:
        """For a trace, without the fields that are None."""
        row = {"action": self.action, "Q": self.value, "prior": self.prior, "N": self.visits}
        return {key: value for key, value in row.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Decision:
    """How a move was chosen.

    Attributes:
        options: the actions that were possible.
        thought: before the choice; empty for an agent without thoughts.
    """

    options: tuple[ActionStatistics, ...]
    thought: str = ""

    def to_json(self) -> dict[str, Any]:
        """For a trace; without a `thought` if it is empty."""
        options = [option.to_json() for option in self.options]
        return {"options": options, **({"thought": self.thought} if self.thought else {})}


def statistics_of(root: Node[Any, Any]) -> tuple[ActionStatistics, ...]:
    """The statistics of every action of a searched root."""
    return tuple(
        ActionStatistics(str(edge.action), edge.prior, edge.value, edge.visits)
        for edge in root.edges or ()
    )


def visited(root: Node[S, A]) -> list[Edge[S, A]]:
    """The edges of a searched root that a simulation took."""
    return [edge for edge in root.edges or () if edge.visits]


def best_edge(root: Node[S, A], rng: Random) -> Edge[S, A] | None:
    """The visited edge with the highest Q; among equals, an edge drawn by π.

    If the search finds nothing of value, always taking the highest π would go round in circles.

    Returns:
        The edge; None if no action is possible.
    """
    tried = visited(root)
    if not tried:
        return None
    best = max(edge.value for edge in tried)
    equals = [edge for edge in tried if edge.value == best]
    return rng.choices(equals, [max(edge.prior, _LEAST) for edge in equals])[0]


async def episode_outcome(
    run: Run[Any, Any],
    episode: Episode[Any, Any],
    decisions: Sequence[Decision],
    *,
    metrics: Mapping[str, Any],
    oracles: Sequence[Mapping[str, object]],
) -> Outcome:
    """The outcome of an episode of which each move was chosen when its turn came.

    Args:
        decisions: how each move was chosen, one for each.
        metrics: the planner's own, in addition to those of the execution.
        oracles: descriptions of the roles that rules answered.
    """
    execution = await episode.recorded()
    moves = [
        {**move.to_json(), **decision.to_json()}
        for move, decision in zip(execution.moves, decisions, strict=True)
    ]
    verdict = {True: "reached", False: "not reached", None: "not judged"}[execution.success]
    conclusion = (
        f"{run.task}: the goal is {verdict} after {len(moves)} moves, reward {execution.reward:g}"
    )
    return Outcome(
        success=execution.success,
        plan=tuple(str(move.action) for move in execution.moves),
        metrics={**execution.metrics(), "moves": len(moves), **metrics},
        trace={
            "domain": run.domain,
            **run.header,
            **({"oracles": list(oracles)} if oracles else {}),
            **execution.to_json(),
            "moves": moves,
        },
        text="\n\n".join(
            (
                *_move_lines(execution.moves, decisions),
                *milestone_lines(execution.milestones),
                conclusion,
            )
        ),
        verdict=execution.untold,
    )


def _move_lines(moves: Sequence[Move[Any, Any]], decisions: Sequence[Decision]) -> Iterator[str]:
    """Every move with the statistics of its options, best Q first, as an aligned table."""
    for number, (move, decision) in enumerate(zip(moves, decisions, strict=True), start=1):
        refused = f"; {move.step.obstacle}" if move.step.obstacle else ""
        lines = [f"{number}. {move.action} (reward {move.step.reward:g}{refused})"]
        if decision.thought:
            lines.append(f"   thought: {decision.thought}")
        width = max(len(option.action) for option in decision.options)
        searched = any(option.visits for option in decision.options)
        q_title, n_title = (f"{'Q':>8}  ", f"  {'N':>6}") if searched else ("", "")
        lines.append(f"   {'':{width}}  {q_title}{'prior':>5}{n_title}")
        for option in sorted(
            decision.options, key=lambda option: (-(option.value or 0.0), -option.prior)
        ):
            q = f"{option.value:8.3f}  " if searched else ""
            n = f"  {option.visits:6d}" if searched else ""
            lines.append(f"   {option.action:{width}}  {q}{option.prior:5.2f}{n}")
        yield "\n".join(lines)
