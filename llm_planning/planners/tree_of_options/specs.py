"""ToO, its ablations and the baselines that only plan, and what they hand back.

    too        proposals checked    states predicted     MCTS
    too-no-wm  proposals checked    s_0 and the options  MCTS
    too-no-fc  proposals as given   states predicted     MCTS
    tot-mcts   proposals as given   s_0 and the options  MCTS
    cot        one answer decomposes the goal

Source: Sections 4.1 (baselines) and 4.4 (ablations). Each plans on predictions; the plan is then
carried out in the domain.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from llm_planning.domain import Need, settled
from llm_planning.execution import execute
from llm_planning.outcome import Outcome
from llm_planning.planners.tree_of_options.planner import (
    NO_WORLD_MODEL,
    WORLD_MODEL,
    TreeOfOptions,
    checked,
    unchecked,
)
from llm_planning.planners.tree_of_options.roles import OptionRoles
from llm_planning.planners.tree_of_options.settings import (
    ROLES,
    FeasibleSearchSettings,
    OptionSearchSettings,
    PromptSettings,
)
from llm_planning.planners.tree_of_options.states import OptionState
from llm_planning.search import best_path, edges_below, format_tree
from llm_planning.specs import PlannerSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llm_planning.execution import Execution
    from llm_planning.planners.tree_of_options.planner import Check, SearchState, WorldModel
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
        problem: whose domain names its options, and models its state for `WORLD_MODEL`.
        engines: the models that answer.
        settings: of the search.
        seed: of the start, the proposals and the world.
        world_model: `WORLD_MODEL`, or `NO_WORLD_MODEL` for s_0 and the options done.
        check: `checked`, which takes `FeasibleSearchSettings`, or `unchecked`.
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
) -> Outcome:
    """CoT: one answer breaks the goal down into at most d options, from the initial state."""
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
) -> Outcome:
    """Carries a plan out; success is what the world says.

    Args:
        plan: options.
        problem: where.
        ask: who was asked.
        metrics: numbers that describe how the plan came about.
        trace: how it came about.
        text: the same for people.
    """
    execution = await execute(problem.world, plan, seed=ask.seed)
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
    """What the world says of a plan, for people."""
    lines = [f"carried out: the goal is {'reached' if execution.success else 'not reached'}"]
    failed = execution.first_failed
    if failed is not None:
        lines.append(f"first option that failed: {failed.action} ({failed.step.obstacle})")
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
    """What was left out at a node, and its edges with all below them."""
    memo = node.memo if node else None
    return {
        "left_out": [_candidate_json(one) for one in memo.left_out] if memo else [],
        "edges": [_edge_json(edge) for edge in (node.edges if node else None) or ()],
    }


def _edge_json(edge: Edge[SearchState[Any, Any], Any]) -> dict[str, Any]:
    """An edge with the node that it leads to, and all below it."""
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


_NAMES_OPTIONS = Need("grammar", "names its options")
_MODELS_STATE = Need("state_model", "has a model of its state")
_ASKED = tuple(role for role in ROLES if role != "decompose")
_Spec = partial(PlannerSpec, paper="Tree of Options")

SPECS: tuple[PlannerSpec, ...] = (
    _Spec(
        name="too",
        summary="Tree of Options: MCTS over options that are checked, simulated and judged",
        settings=FeasibleSearchSettings,
        run=tree_of_options,
        roles=_ASKED,
        needs=(_NAMES_OPTIONS, _MODELS_STATE),
    ),
    _Spec(
        name="too-no-wm",
        summary="Tree of Options without its world model: the state stays the initial one",
        settings=FeasibleSearchSettings,
        run=partial(tree_of_options, world_model=NO_WORLD_MODEL),
        roles=tuple(role for role in _ASKED if role != "dynamics"),
        needs=(_NAMES_OPTIONS,),
    ),
    _Spec(
        name="too-no-fc",
        summary="Tree of Options without its feasibility check: options are taken as proposed",
        settings=OptionSearchSettings,
        run=partial(tree_of_options, check=unchecked),
        roles=("propose", "dynamics", "reward", "termination"),
        needs=(_NAMES_OPTIONS, _MODELS_STATE),
    ),
    _Spec(
        name="tot-mcts",
        summary="Tree of Thoughts with MCTS: neither world model nor feasibility check",
        settings=OptionSearchSettings,
        run=partial(tree_of_options, world_model=NO_WORLD_MODEL, check=unchecked),
        roles=("propose", "reward", "termination"),
        needs=(_NAMES_OPTIONS,),
    ),
    _Spec(
        name="cot",
        summary="Chain of Thought: one answer breaks the goal down into options",
        settings=PromptSettings,
        run=chain_of_thought,
        roles=("decompose",),
        needs=(_NAMES_OPTIONS,),
    ),
)
