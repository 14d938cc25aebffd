"""The planners ToO and CoT: each plans on predictions, then executes the plan in the domain."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from llm_kernels.lines import lines_of
from llm_planning.domain import settled
from llm_planning.execution.episode import told_milestones
from llm_planning.outcome import Outcome
from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.executing import Executing, costs_of, metrics_of
from llm_planning.planners.tree_of_options.policies import policies_of
from llm_planning.planners.tree_of_options.search import (
    WORLD_MODEL,
    TreeOfOptions,
    checked,
)
from llm_planning.planners.tree_of_options.states import OptionState
from llm_planning.search import best_path, edges_below, format_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llm_planning.planners.tree_of_options.executing import Attempt, Executed
    from llm_planning.planners.tree_of_options.policies import Policies
    from llm_planning.planners.tree_of_options.search import Check, SearchState, WorldModel
    from llm_planning.planners.tree_of_options.settings import (
        ExecutionSettings,
        OptionSearchSettings,
    )
    from llm_planning.planners.tree_of_options.states import Candidate, OptionDomain
    from llm_planning.roles import Engines
    from llm_planning.search import Edge, Node
    from llm_planning.specs import Problem

    Ask = OptionAsking[Any, Any]


async def tree_of_options(
    problem: Problem[OptionDomain[Any, Any]],
    *,
    engines: Engines,
    settings: OptionSearchSettings,
    seed: int,
    world_model: WorldModel = WORLD_MODEL,
    check: Callable[[Ask, Any, str], Check[Any, Any]] = checked,
) -> Outcome:
    """Searches, and executes the path of argmax Q from the root (Algorithm 1, line 7).

    Args:
        problem: its domain has a `grammar`, and a `state_model` for `WORLD_MODEL`.
        engines: answer the roles.
        settings: of the search; for `checked` they are `FeasibleSearchSettings`.
        seed: of the start, the proposals and the world.
        world_model: `WORLD_MODEL`, or `NO_WORLD_MODEL` to plan with s_0 and the options done.
        check: `checked` or `unchecked`.
    """
    ask: Ask = OptionAsking(problem.world, engines, settings, seed=seed)
    start = await first_state(problem.world, seed)
    root = await TreeOfOptions(start, ask, settings, world_model=world_model, check=check).search()
    path = best_path(root)
    last = path[-1].node if path else None
    return await executed_plan(
        [edge.action for edge in path],
        problem,
        ask,
        settings,
        metrics={
            "predicted_success": last is not None and last.memo.done is True,
            **tree_metrics(root),
        },
        trace={"tree": {"visits": root.visits, "value": root.value, **node_json(root)}},
        text=format_tree(root),
    )


async def chain_of_thought(
    problem: Problem[OptionDomain[Any, Any]],
    *,
    engines: Engines,
    settings: ExecutionSettings,
    seed: int,
) -> Outcome:
    """CoT: one answer breaks the goal down into at most d options, from s_0 alone (Section 4.1)."""
    ask: Ask = OptionAsking(problem.world, engines, settings, seed=seed)
    chain = await ask.decompose()(await first_state(problem.world, seed))
    return await executed_plan(
        [one.proposed for one in chain],
        problem,
        ask,
        settings,
        metrics={},
        trace={
            "steps": [{"option": str(one.proposed), "reasoning": one.reasoning} for one in chain]
        },
        text="\n".join(
            f"{i}. {one.proposed} ({one.reasoning})" for i, one in enumerate(chain, start=1)
        ),
    )


async def first_state(domain: OptionDomain[Any, Any], seed: int) -> OptionState[Any, Any]:
    """τ_0 of a trial."""
    state = await settled(domain.start(seed))
    return OptionState(domain.goal, state, await settled(domain.describe(state)))


async def executed_plan(
    plan: Sequence[Any],
    problem: Problem[OptionDomain[Any, Any]],
    ask: Ask,
    settings: ExecutionSettings,
    *,
    metrics: Mapping[str, Any],
    trace: Mapping[str, Any],
    text: str,
) -> Outcome:
    """Executes a plan, as often as the settings say, and makes the outcome.

    An option that is not done after M attempts is left, and the plan goes on with the next.

    Args:
        plan: options, in order.
        problem: what was planned.
        ask: the roles that answered.
        settings: of the execution.
        metrics: the planner's own metrics.
        trace: the planner's own part of the summary.
        text: the same for people.
    """
    policies = await policies_of(problem.world, ask, settings)
    executed = []
    for number in range(settings.executions):
        run = await Executing.begin(problem, policies, settings, seed=ask.seed, number=number)
        for place, option in enumerate(plan):
            if not run.goes_on:
                break
            await run.execute(option, place)
        executed.append(await run.recorded())
    return outcome_of(
        plan, problem, ask, executed, policies, metrics=metrics, trace=trace, text=text
    )


def outcome_of(
    plan: Sequence[Any],
    problem: Problem[OptionDomain[Any, Any]],
    ask: Ask,
    executed: Sequence[Executed[Any, Any]],
    policies: Policies[Any, Any],
    *,
    metrics: Mapping[str, Any],
    trace: Mapping[str, Any],
    text: str,
) -> Outcome:
    """The outcome of a trial. Success is what the world says of the first execution.

    Args:
        plan: the options that were planned, or executed where both go together.
        problem: what was planned.
        ask: the roles that answered.
        executed: the executions, at least one.
        policies: that were executed.
        metrics: the planner's own metrics.
        trace: the planner's own part of the summary.
        text: the same for people.
    """
    return Outcome(
        success=executed[0].won,
        plan=tuple(map(str, plan)),
        metrics={
            **metrics_of(executed),
            "execution": policies.name,
            "options_planned": len(plan),
            **metrics,
            **costs_of(ask),
        },
        trace={
            "task": problem.task,
            "goal": problem.world.goal,
            "seed": ask.seed,
            "settings": ask.settings.to_json(),
            **trace,
            "oracles": ask.oracles,
            "executions": [one.to_json() for one in executed],
        },
        text="\n\n".join((text, *map(told_execution, executed))),
    )


def told_execution(one: Executed[Any, Any]) -> str:
    """Says for people what was executed: each attempt, what came of it, and the verdict."""
    lines = [
        line
        for number, attempt in enumerate(one.attempts, start=1)
        for line in _told_attempt(number, attempt)
    ]
    verdict = "reached" if one.won else "not reached"
    spent = f"{len(one.attempts)} attempts, {one.minutes:.1f} minutes of the world"
    lines.append(f"carried out: the goal is {verdict} ({spent})")
    if (failed := one.first_failed) is not None:
        lines.append(f"first attempt that failed: {failed.option} ({failed.feedback})")
    return "\n".join((*lines, *told_milestones(one.milestones)))


def _told_attempt(number: int, attempt: Attempt[Any]) -> list[str]:
    again = f" (attempt {attempt.m})" if attempt.m > 1 else ""
    return [
        f"{number}. {attempt.option}{again}: {attempt.feedback}",
        *(f"     {line.rstrip()}" for line in lines_of((attempt.program or "").strip())),
    ]


def tree_metrics(root: Node[SearchState[Any, Any], Any]) -> dict[str, int]:
    """The size of a tree."""
    below = list(edges_below(root))
    nodes = [root, *(edge.node for _, edge in below if edge.node is not None)]
    dead_ends = sum(node.memo.dead_end for node in nodes if node.memo is not None)
    return {
        "nodes": len(below) + 1,
        "expansions": sum(bool(node.edges) for node in nodes) + dead_ends,
        "dead_ends": dead_ends,
        "depth": max((depth for depth, _ in below), default=0),
    }


def node_json(node: Node[SearchState[Any, Any], Any] | None) -> dict[str, Any]:
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
        **node_json(edge.node),
    }


def _candidate_json(candidate: Candidate[Any]) -> dict[str, Any]:
    return {
        **asdict(candidate),
        "option": None if candidate.option is None else str(candidate.option),
        "proposed": str(candidate.proposed),
    }
