"""The planners ToO and CoT: each plans on predictions, then carries the plan out in the domain."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from llm_planning.domain import settled
from llm_planning.execution.episode import execute
from llm_planning.outcome import Outcome
from llm_planning.planners.tree_of_options.roles import OptionRoles
from llm_planning.planners.tree_of_options.search import (
    WORLD_MODEL,
    TreeOfOptions,
    checked,
)
from llm_planning.planners.tree_of_options.states import OptionState
from llm_planning.search import best_path, edges_below, format_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llm_planning.execution.episode import Execution
    from llm_planning.planners.tree_of_options.search import Check, SearchState, WorldModel
    from llm_planning.planners.tree_of_options.settings import OptionSearchSettings, PromptSettings
    from llm_planning.planners.tree_of_options.states import Candidate, OptionDomain
    from llm_planning.roles import Engines
    from llm_planning.search import Edge, Node
    from llm_planning.specs import Problem

    Ask = OptionRoles[Any, Any]


async def tree_of_options(
    problem: Problem[OptionDomain[Any, Any]],
    *,
    engines: Engines,
    settings: OptionSearchSettings,
    seed: int,
    world_model: WorldModel = WORLD_MODEL,
    check: Callable[[Ask, Any, str], Check[Any, Any]] = checked,
) -> Outcome:
    """Searches, and carries out the path of argmax Q from the root (Algorithm 1, line 7).

    Args:
        problem: its domain has a `grammar`, and a `state_model` for `WORLD_MODEL`.
        engines: answer the roles.
        settings: of the search; for `checked` they are `FeasibleSearchSettings`.
        seed: of the start, the proposals and the world.
        world_model: `WORLD_MODEL`, or `NO_WORLD_MODEL` to plan with s_0 and the options done.
        check: `checked` or `unchecked`.
    """
    ask: Ask = OptionRoles(problem.world, engines, settings, seed=seed)
    start = await _start(problem.world, seed)
    root = await TreeOfOptions(start, ask, settings, world_model=world_model, check=check).search()
    path = best_path(root)
    last = path[-1].node if path else None
    return await _carried_out(
        [edge.action for edge in path],
        problem,
        ask,
        metrics={
            "predicted_success": last is not None and last.memo.done is True,
            **_tree_metrics(root),
        },
        trace={"tree": {"visits": root.visits, "value": root.value, **_node_json(root)}},
        text=format_tree(root),
    )


async def chain_of_thought(
    problem: Problem[OptionDomain[Any, Any]],
    *,
    engines: Engines,
    settings: PromptSettings,
    seed: int,
    tries: int = 1,
) -> Outcome:
    """CoT: plans by one answer, which breaks the goal down into at most d options.

    Args:
        problem: its domain has a `grammar`.
        engines: answer the role `decompose`.
        settings: of the question.
        seed: of the start, the answer and the world.
        tries: see `execute`.
    """
    ask: Ask = OptionRoles(problem.world, engines, settings, seed=seed)
    candidates = await ask.decompose()(await _start(problem.world, seed))
    steps = [(str(one.proposed), one.reasoning) for one in candidates]
    return await _carried_out(
        [one.proposed for one in candidates],
        problem,
        ask,
        metrics={},
        trace={"steps": [{"option": option, "reasoning": why} for option, why in steps]},
        text="\n".join(f"{i}. {option} ({why})" for i, (option, why) in enumerate(steps, start=1)),
        tries=tries,
    )


async def _start(domain: OptionDomain[Any, Any], seed: int) -> OptionState[Any, Any]:
    state = await settled(domain.start(seed))
    return OptionState(domain.goal, state, await settled(domain.describe(state)))


async def _carried_out(
    plan: Sequence[Any],
    problem: Problem[OptionDomain[Any, Any]],
    ask: Ask,
    *,
    metrics: Mapping[str, Any],
    trace: Mapping[str, Any],
    text: str,
    tries: int = 1,
) -> Outcome:
    """Carries a plan out, and makes the outcome. Success is what the world says.

    Args:
        plan: options, in order.
        problem: what was planned.
        ask: the roles that answered.
        metrics: the planner's own metrics.
        trace: the planner's own part of the summary.
        text: the same for people.
        tries: see `execute`.
    """
    execution = await execute(problem.world, plan, seed=ask.seed, tries=tries)
    return Outcome(
        success=execution.success,
        plan=tuple(map(str, plan)),
        metrics={**execution.metrics(), "options_planned": len(plan), **metrics},
        trace={
            "task": problem.task,
            "goal": problem.world.goal,
            "seed": ask.seed,
            "settings": ask.settings.to_json(),
            **trace,
            "oracles": ask.oracles,
            "execution": execution.to_json(),
        },
        text=f"{text}\n\n{_verdict(execution)}",
    )


def _verdict(execution: Execution[Any, Any]) -> str:
    """Says for people whether the plan reached the goal, and which option failed first."""
    lines = [f"carried out: the goal is {'reached' if execution.success else 'not reached'}"]
    failed = execution.first_failed
    if failed is not None:
        lines.append(f"first option that failed: {failed.action} ({failed.step.obstacle})")
    lines += execution.told_milestones()
    return "\n".join(lines)


def _tree_metrics(root: Node[SearchState[Any, Any], Any]) -> dict[str, int]:
    below = list(edges_below(root))
    nodes = [root, *(edge.node for _, edge in below if edge.node is not None)]
    dead_ends = sum(node.memo.dead_end for node in nodes if node.memo is not None)
    return {
        "nodes": len(below) + 1,
        "expansions": sum(bool(node.edges) for node in nodes) + dead_ends,
        "dead_ends": dead_ends,
        "depth": max((depth for depth, _ in below), default=0),
    }


def _node_json(node: Node[SearchState[Any, Any], Any] | None) -> dict[str, Any]:
    """The candidates left out at a node, and its edges with their subtrees."""
    memo = node.memo if node else None
    return {
        "left_out": [_candidate_json(one) for one in memo.left_out] if memo else [],
        "edges": [_edge_json(edge) for edge in (node.edges if node else None) or ()],
    }


def _edge_json(edge: Edge[SearchState[Any, Any], Any]) -> dict[str, Any]:
    """An edge with the subtree below it."""
    reached = edge.step.state if edge.step else None
    memo = edge.node.memo if edge.node else None
    return {
        "option": str(edge.action),
        "visits": edge.visits,
        "value": edge.value,
        "reward": edge.step.reward if edge.step else 0.0,
        "candidate": _candidate_json(reached.candidate) if reached and reached.candidate else None,
        "scores": dict(reached.scores) if reached else {},
        "state": reached.tau.described if reached else "",
        "clipped": dict(reached.clipped) if reached else {},
        "done": memo.done if memo else None,
        **_node_json(edge.node),
    }


def _candidate_json(candidate: Candidate[Any]) -> dict[str, Any]:
    return {
        **asdict(candidate),
        "option": None if candidate.option is None else str(candidate.option),
        "proposed": str(candidate.proposed),
    }
