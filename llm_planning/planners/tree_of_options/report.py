"""What ToO and its baselines hand back: the plan, the numbered tree (A.7) and the whole trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_planning.planners.outcome import Outcome
from llm_planning.search import format_tree, greedy_path, preorder, to_json

if TYPE_CHECKING:
    from llm_planning.environments.minecraft.tasks import Task
    from llm_planning.planners.tree_of_options.generator import Candidate
    from llm_planning.planners.tree_of_options.planner import Step
    from llm_planning.planners.tree_of_options.settings import PromptSettings
    from llm_planning.search import Node


def tree_outcome(root: Node[Step], *, task: Task, settings: PromptSettings, seed: int) -> Outcome:
    """The outcome of a search: the plan follows argmax Q from the root (Algorithm 1, line 7).

    `success` is what the termination predictor said of the plan's last state; the plan has not been
    carried out.
    """
    path = greedy_path(root)
    nodes = list(preorder(root))
    plan = tuple(_label(node.payload) for node in path)
    return Outcome(
        success=bool(path) and path[-1].payload.done is True,
        plan=plan,
        metrics={
            "success_basis": "predicted",
            "options_planned": len(plan),
            "nodes": len(nodes),
            "expansions": sum(bool(node.children) or node.payload.dead_end for node in nodes),
            "dead_ends": sum(node.payload.dead_end for node in nodes),
            "depth": max(node.depth for node in nodes),
        },
        trace={**_header(task, settings, seed), "plan": plan, "tree": to_json(root, _step_json)},
        text=format_tree(root, _label),
    )


def list_outcome(
    steps: list[tuple[str, str]], *, task: Task, settings: PromptSettings, seed: int
) -> Outcome:
    """The outcome of a plan that was written down at once; nobody judged whether it succeeds.

    Args:
        steps: each option with its reason.
        task: what was planned.
        settings: of the planner.
        seed: of the run.
    """
    plan = tuple(option for option, _ in steps)
    return Outcome(
        success=None,
        plan=plan,
        metrics={"success_basis": "not judged", "options_planned": len(plan)},
        trace={
            **_header(task, settings, seed),
            "plan": plan,
            "steps": [{"option": option, "reasoning": reasoning} for option, reasoning in steps],
        },
        text="\n".join(
            f"{i}. {option} ({reasoning})" for i, (option, reasoning) in enumerate(steps, start=1)
        ),
    )


def _header(task: Task, settings: PromptSettings, seed: int) -> dict[str, Any]:
    return {
        "task": task.name,
        "goal": task.goal,
        "seed": seed,
        "settings": settings.to_json(),
    }


def _label(step: Step) -> str:
    return str(step.trajectory.options[-1])


def _step_json(step: Step) -> dict[str, Any]:
    return {
        "option": _label(step) if step.candidate else None,
        "candidate": _candidate_json(step.candidate) if step.candidate else None,
        "scores": dict(step.scores),
        "state": step.trajectory.state.to_json(),
        "clipped": dict(step.clipped),
        "done": step.done,
        "left_out": [_candidate_json(candidate) for candidate in step.left_out],
    }


def _candidate_json(candidate: Candidate) -> dict[str, str | None]:
    return {
        "option": None if candidate.option is None else str(candidate.option),
        "proposed": str(candidate.proposed),
        "reasoning": candidate.reasoning,
        "obstacle": candidate.obstacle,
    }
