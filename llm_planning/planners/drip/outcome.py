"""The outcome of a plan: it is carried out to its end, and a failure is blamed on someone.

Where an actuator carries out each subtask as soon as it is planned, that was done already.

Table 2 knows errors of the model in decompositions and errors of the framework. Here a model also
judges, applies or acts, and limits run out:

    decomposition   an answer of `decompose` differs from the domain's rules
    judgement       an answer of `judge` does
    action          ReAct said the end too early or went on too long (`act`)
    application     an answer of `apply` does
    completion      a verdict of `complete` on a program differs from what the world shows
    program         no program carried out a subtask (`code`)
    limit           no answer was found wrong, and a limit ran out
    framework       no answer was found wrong, and the goal is not reached all the same

The first that holds counts. But nobody's error is blamed where the method fails without any. Where
no chance decided, it plans again with rules in every role; if that fails, too, its class counts.

For the framework, the cause is the first action of the plan after which a subtask of the goal no
longer holds that held before; if there is none, the subtask at which the planner is stuck.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias

from llm_planning.domain import A, S
from llm_planning.execution.episode import Episode, milestone_lines
from llm_planning.outcome import Outcome
from llm_planning.planners.drip.settings import ROLES
from llm_planning.roles import missing_for_rules
from llm_planning.trace import recording

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from llm_planning.execution.episode import Execution, Move
    from llm_planning.execution.options import Executed
    from llm_planning.planners.drip.acting import Acting, Ending
    from llm_planning.planners.drip.settings import ActingSettings
    from llm_planning.planners.drip.tree import ReasoningTree
    from llm_planning.specs import Run

Class: TypeAlias = Literal[
    "decomposition",
    "judgement",
    "action",
    "application",
    "completion",
    "program",
    "limit",
    "framework",
]

_BY_ROLE: Mapping[str, Class] = {
    "decompose": "decomposition",
    "judge": "judgement",
    "act": "action",
    "apply": "application",
    "complete": "completion",
    "code": "program",
}


async def carried_out(domain: Any, plan: Sequence[Any], *, seed: int) -> Execution[Any, Any]:  # noqa: ANN401
    """Carries out all actions of a plan, also those after the goal is reached.

    It succeeds if the goal holds in the last state and no action was refused: a plan that reaches
    the goal and goes on does not know that it did. Where chance decided, nothing was refused.

    Args:
        domain: the real dynamics.
        plan: π.
    """
    episode: Episode[Any, Any] = await Episode.begin(domain, seed=seed)
    refused = False
    for action in plan:
        episode.over = False
        before = episode.draws.getstate()
        step = await episode.act(action)
        refused = refused or (step.obstacle is not None and episode.draws.getstate() == before)
    done = await episode.recorded()
    return replace(done, success=False) if refused else done


class Planned(NamedTuple, Generic[S, A]):
    """A plan, before it is carried out.

    Attributes:
        plan: π.
        ending: why the planner stopped.
        tree: T; None for ReAct.
    """

    acting: Acting[S, A]
    plan: Sequence[A]
    ending: Ending
    tree: ReasoningTree[A] | None = None


async def outcome_of(
    run: Run[Any, ActingSettings], planned: Callable[[Run[Any, Any]], Awaitable[Planned[Any, Any]]]
) -> Outcome:
    """Plans, carries the plan out, and makes the outcome.

    Args:
        planned: plans; it is called a second time, with rules in every role, where the plan failed
            and an answer was wrong.
    """
    acting, plan, ending, tree = await planned(run)
    domain, ask, actuator = run.world, acting.asking, acting.actuator
    done: Execution[Any, Any] | Executed[Any, Any]
    if actuator is None:
        done = execution = await carried_out(domain, plan, seed=ask.seed)
        wrong, oracles, metrics = ask.wrong, ask.oracles, execution.metrics()
        record: Mapping[str, Any] = {"execution": done.to_json()}
    else:
        done, metrics = await actuator.recorded()
        wrong, oracles = ask.wrong + actuator.wrong, [*ask.oracles, *actuator.oracles]
        record = {"executions": [done.to_json()]}
    success = bool(done.success)
    failure = None
    if not success:
        failure = blame(domain, acting.states[0], done.moves, wrong=wrong, ending=ending, tree=tree)
        if wrong.total() and acting.certain and (own := await _without_errors(run, planned)):
            failure = Failure(own.kind, f"{failure.cause}; without errors {own.cause}")
    optimum = domain.traits().get("optimum")
    excess = len(plan) - optimum if success and optimum is not None else None
    conclusion = f"carried out: the goal is {'reached' if success else 'not reached'}"
    why = [] if failure is None else [f"failure: {failure.kind} ({failure.cause})"]
    return Outcome(
        success=success,
        plan=tuple(map(str, plan)),
        metrics={
            **metrics,
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
            **run.header,
            **({"tree": tree.to_json()} if tree else {}),
            "oracles": oracles,
            **record,
        },
        text="\n".join(
            [
                *([str(tree), ""] if tree else []),
                conclusion,
                *why,
                *milestone_lines(done.milestones),
            ]
        ),
    )


class Failure(NamedTuple):
    """Why a plan does not reach the goal.

    Attributes:
        kind: see the module's docstring.
        cause: what happened, in words.
    """

    kind: Class
    cause: str


async def _without_errors(
    run: Run[Any, ActingSettings], planned: Callable[[Run[Any, Any]], Awaitable[Planned[Any, Any]]]
) -> Failure | None:
    """How the planner fails where nobody errs; None if it does not, or rules cannot answer all.

    Where chance decides, another draw might succeed.
    """
    if missing_for_rules(run.world) or run.settings.execution != "direct":
        return None
    settings = run.settings.answered_by_rules()
    with recording():  # and dropped: the trace is of the run that was asked for
        acting, plan, ending, tree = await planned(replace(run, settings=settings))
        done = await carried_out(run.world, plan, seed=acting.asking.seed)
    if done.success or not acting.certain:
        return None
    return blame(run.world, acting.states[0], done.moves, wrong={}, ending=ending, tree=tree)


def blame(
    domain: Any,  # noqa: ANN401
    start: Any,  # noqa: ANN401
    moves: Sequence[Move[Any, Any]],
    *,
    wrong: Mapping[str, int],
    ending: Ending,
    tree: ReasoningTree[Any] | None = None,
) -> Failure:
    """Says whose error a failed plan is.

    Args:
        domain: decomposes and judges by its rules.
        start: S_0.
        moves: the plan as it was carried out.
        wrong: role -> number of its answers that differ from the rules, or from the world.
        tree: T; None for ReAct.
    """
    for role, kind in _BY_ROLE.items():
        if wrong.get(role):
            errors = (
                "subtasks that no program did" if role == "code" else f"wrong answers of {role}"
            )
            return Failure(kind, f"{errors}: {wrong[role]}")
    if ending not in {"goal", "stuck"}:
        return Failure("limit", f"ran out of {ending}")
    stuck = tree.deepest_open if tree else None
    if stuck is None:
        at = f"ended: {ending}"
    else:
        refused = (move.step.obstacle for move in reversed(moves) if move.action == stuck.subtask)
        why = stuck.reason or next(refused, None)
        at = f"stuck at {stuck.subtask}" + (f": {why}" if why else "")
    return Failure("framework", undone(domain, start, moves) or at)


def undone(domain: Any, start: Any, moves: Sequence[Move[Any, Any]]) -> str | None:  # noqa: ANN401
    """The first action that undid a subtask of the goal, in words; None if none did."""
    if missing_for_rules(domain, ("decompose", "judge")):
        return None
    subtasks = domain.decompose(start, None)

    def held(state: Any) -> list[Any]:  # noqa: ANN401
        return [
            subtask for subtask in subtasks if domain.judge(state, subtask, None).verdict == "done"
        ]

    before = held(start)
    for move in moves:
        after = held(move.step.state)
        if lost := [str(subtask) for subtask in before if subtask not in after]:
            return f"{move.action} undid {', '.join(lost)}"
        before = after
    return None
