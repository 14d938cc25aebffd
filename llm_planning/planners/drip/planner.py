"""The planners DRIP, DRIP+ and ReAct: each makes a plan, which is then carried out to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_planning.domain import settled
from llm_planning.execution import Episode
from llm_planning.outcome import Outcome
from llm_planning.planners.drip.acting import Acting, RanOutError
from llm_planning.planners.drip.agenda import Agenda, Simulator
from llm_planning.planners.drip.failures import blame
from llm_planning.planners.drip.forward import Forward
from llm_planning.planners.drip.levels import Levels
from llm_planning.planners.drip.roles import DripRoles
from llm_planning.planners.drip.settings import ROLES
from llm_planning.planners.drip.tree import ReasoningTree

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from llm_planning.execution import Execution
    from llm_planning.planners.drip.acting import Ending
    from llm_planning.planners.drip.questions import DripDomain
    from llm_planning.planners.drip.settings import (
        ActingSettings,
        DripPlusSettings,
        DripSettings,
        ReactSettings,
    )
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem


async def drip(
    problem: Problem[DripDomain[Any, Any]],
    *,
    engines: Engines,
    settings: DripSettings,
    seed: int,
) -> Outcome:
    """DRIP (Algorithm 1).

    Args:
        problem: its domain decomposes and judges.
        engines: answer the roles.
        settings: of the planner.
        seed: of the trial.
    """
    ask: DripRoles[Any, Any] = DripRoles(
        problem.world, engines, settings, seed=seed, most=settings.most
    )
    acting = await _begin(ask, settings, decompositions=settings.decompositions)
    tree: ReasoningTree[Any] = ReasoningTree(problem.world.goal)
    ending = await _run(Levels(acting, tree, settings).plan)
    return await _outcome(
        problem, ask, acting, acting.plan, settings=settings, ending=ending, tree=tree
    )


async def drip_plus(
    problem: Problem[DripDomain[Any, Any]],
    *,
    engines: Engines,
    settings: DripPlusSettings,
    seed: int,
) -> Outcome:
    """DRIP+; see `agenda`.

    Args:
        problem: its domain decomposes, judges and has `success`.
        engines: answer the roles.
        settings: of the planner.
        seed: of the trial.
    """
    ask: DripRoles[Any, Any] = DripRoles(
        problem.world, engines, settings, seed=seed, most=settings.most
    )
    acting = await _begin(ask, settings, decompositions=settings.decompositions)
    tree: ReasoningTree[Any] = ReasoningTree(problem.world.goal)
    ending = await _run(Agenda(acting, tree, settings).plan)
    plan = acting.plan
    if settings.superfluous == "drop" and acting.certain:
        simulator: Simulator[Any, Any] = Simulator(problem.world)
        steps = await simulator.needed(acting.states[0], plan)
        plan = [plan[step - 1] for step in steps]
        tree.kept(steps)
    return await _outcome(problem, ask, acting, plan, settings=settings, ending=ending, tree=tree)


async def react(
    problem: Problem[DripDomain[Any, Any]],
    *,
    engines: Engines,
    settings: ReactSettings,
    seed: int,
) -> Outcome:
    """ReAct with an actuator; see `forward`.

    Args:
        problem: its domain has `success`.
        engines: answer the roles.
        settings: of the planner.
        seed: of the trial.
    """
    ask: DripRoles[Any, Any] = DripRoles(problem.world, engines, settings, seed=seed)
    acting = await _begin(ask, settings, decompositions=0)
    ending = await _run(Forward(acting, ask, settings).plan)
    return await _outcome(problem, ask, acting, acting.plan, settings=settings, ending=ending)


async def _begin(
    ask: DripRoles[Any, Any], settings: ActingSettings, *, decompositions: int
) -> Acting[Any, Any]:
    start = await settled(ask.domain.start(ask.seed))
    return Acting(ask, start, budget=settings.budget, decompositions=decompositions)


async def _run(plan: Callable[[], Awaitable[Ending]]) -> Ending:
    """Plans; a limit that is reached is an ending."""
    try:
        return await plan()
    except RanOutError as limit:
        return limit.limit


async def carried_out(domain: Any, plan: Sequence[Any], *, seed: int) -> Execution[Any, Any]:  # noqa: ANN401
    """Carries out all actions of a plan, also those after the goal is reached.

    The goal must hold in the last state: a plan that reaches it and goes on does not know that it
    did. An action that the world refuses leaves the world as it is.

    Args:
        domain: the real dynamics.
        plan: π.
        seed: of the trial.
    """
    episode: Episode[Any, Any] = await Episode.begin(domain, seed=seed)
    for action in plan:
        episode.over = False
        await episode.act(action)
    return await episode.recorded()


async def _outcome(
    problem: Problem[Any],
    ask: DripRoles[Any, Any],
    acting: Acting[Any, Any],
    plan: Sequence[Any],
    *,
    settings: ActingSettings,
    ending: Ending,
    tree: ReasoningTree[Any] | None = None,
) -> Outcome:
    """Carries the plan out, and makes the outcome."""
    domain = problem.world
    execution = await carried_out(domain, plan, seed=ask.seed)
    failure = None
    if not execution.success:
        failure = blame(domain, acting.states[0], execution.moves, wrong=ask.wrong, ending=ending)
    optimum = getattr(domain, "traits", {}).get("optimum")
    excess = len(plan) - optimum if execution.success and optimum is not None else None
    conclusion = f"carried out: the goal is {'reached' if execution.success else 'not reached'}"
    why = [] if failure is None else [f"failure: {failure.kind} ({failure.cause})"]
    return Outcome(
        success=execution.success,
        plan=tuple(map(str, plan)),
        metrics={
            **execution.metrics(),
            "ending": ending,
            "failure": failure and failure.kind,
            "failure_cause": failure and failure.cause,
            "actions": len(plan),
            "excess": excess,
            "refused": acting.refused,
            "decompositions": acting.decomposed,
            "judgements": ask.asked["judge"],
            "applications": ask.asked["apply"],
            "depth": tree.depth if tree else 0,
            **{f"wrong_{role}": ask.wrong[role] for role in ROLES},
        },
        trace={
            "task": problem.task,
            "goal": domain.goal,
            "seed": ask.seed,
            "settings": settings.to_json(),
            **({"tree": tree.to_json()} if tree else {}),
            "oracles": ask.oracles,
            "execution": execution.to_json(),
        },
        text="\n".join(
            [*([str(tree), ""] if tree else []), conclusion, *why, *execution.told_milestones()]
        ),
    )
