"""What ToO and its baselines hand back: the plan, the numbered tree (A.7) and the whole trace."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from llm_planning.outcome import Outcome
from llm_planning.search import best_path, edges_below, format_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.execution import Execution
    from llm_planning.planners.tree_of_options.planner import Reached
    from llm_planning.planners.tree_of_options.settings import PromptSettings
    from llm_planning.planners.tree_of_options.trajectory import Candidate
    from llm_planning.search import Edge, Node
    from llm_planning.specs import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan that is still to be carried out.

    Attributes:
        actions: its options.
        metrics: numbers that describe how it came about.
        trace: how it came about.
        text: the same for people.
    """

    actions: tuple[Any, ...]
    metrics: Mapping[str, Any]
    trace: Mapping[str, Any]
    text: str

    def carried_out(
        self, execution: Execution[Any, Any], *, oracles: Sequence[Mapping[str, Any]]
    ) -> Outcome:
        """The outcome: success is what the world says.

        Args:
            execution: of the plan.
            oracles: who answered in a model's place.
        """
        metrics = {**execution.metrics(), "options_planned": len(self.actions), **self.metrics}
        return Outcome(
            success=execution.success,
            plan=tuple(map(str, self.actions)),
            metrics=metrics,
            trace={**self.trace, "oracles": list(oracles), "execution": execution.to_json()},
            text=f"{self.text}\n\n{_verdict(execution)}",
        )


def tree_outcome(
    root: Node[Reached[Any, Any], Any],
    *,
    problem: Problem[Any],
    settings: PromptSettings,
    seed: int,
) -> Planned:
    """The plan of a search: it follows argmax Q from the root (Algorithm 1, line 7)."""
    path = best_path(root)
    below = list(edges_below(root))
    nodes = [root, *(edge.node for _, edge in below if edge.node is not None)]
    memos = [node.memo for node in nodes if node.memo is not None]
    last = path[-1].node if path else None
    return Planned(
        actions=tuple(edge.action for edge in path),
        metrics={
            "predicted_success": last is not None and last.memo.done is True,
            "nodes": len(below) + 1,
            "expansions": sum(bool(node.edges) for node in nodes)
            + sum(memo.dead_end for memo in memos),
            "dead_ends": sum(memo.dead_end for memo in memos),
            "depth": max((depth for depth, _ in below), default=0),
        },
        trace={**_header(problem, settings, seed), "tree": _tree_json(root)},
        text=format_tree(root),
    )


def list_outcome(
    candidates: Sequence[Candidate[Any]],
    *,
    problem: Problem[Any],
    settings: PromptSettings,
    seed: int,
) -> Planned:
    """A plan that was written down at once."""
    steps = [(str(one.proposed), one.reasoning) for one in candidates]
    return Planned(
        actions=tuple(one.proposed for one in candidates),
        metrics={},
        trace={
            **_header(problem, settings, seed),
            "steps": [{"option": option, "reasoning": reasoning} for option, reasoning in steps],
        },
        text="\n".join(
            f"{i}. {option} ({reasoning})" for i, (option, reasoning) in enumerate(steps, start=1)
        ),
    )


def _verdict(execution: Execution[Any, Any]) -> str:
    """What the world says of a plan, for people."""
    lines = [f"carried out: the goal is {'reached' if execution.success else 'not reached'}"]
    failed = execution.first_failed
    if failed is not None:
        lines.append(f"first option that failed: {failed.action} ({failed.step.obstacle})")
    return "\n".join(lines)


def _header(problem: Problem[Any], settings: PromptSettings, seed: int) -> dict[str, Any]:
    return {
        "task": problem.task,
        "goal": problem.world.goal,
        "seed": seed,
        "settings": settings.to_json(),
    }


def _tree_json(root: Node[Reached[Any, Any], Any]) -> dict[str, Any]:
    return {
        "visits": root.visits,
        "value": root.value,
        "left_out": _left_out(root),
        "edges": [_edge_json(edge) for edge in root.edges or ()],
    }


def _edge_json(edge: Edge[Reached[Any, Any], Any]) -> dict[str, Any]:
    """An edge with the node that it leads to, and all below it."""
    reached = edge.step.state if edge.step else None
    node = edge.node
    memo = node.memo if node else None
    return {
        "option": str(edge.action),
        "visits": edge.visits,
        "value": edge.value,
        "reward": edge.step.reward if edge.step else 0.0,
        "candidate": _candidate_json(reached.candidate) if reached and reached.candidate else None,
        "scores": dict(reached.scores) if reached else {},
        "state": reached.trajectory.described if reached else "",
        "clipped": dict(reached.clipped) if reached else {},
        "done": memo.done if memo else None,
        "left_out": _left_out(node) if node else [],
        "edges": [_edge_json(below) for below in (node.edges if node else None) or ()],
    }


def _left_out(node: Node[Any, Any]) -> list[dict[str, Any]]:
    return [_candidate_json(one) for one in node.memo.left_out] if node.memo else []


def _candidate_json(candidate: Candidate[Any]) -> dict[str, Any]:
    said = asdict(candidate)
    return {
        **said,
        "option": None if candidate.option is None else str(candidate.option),
        "proposed": str(candidate.proposed),
    }
