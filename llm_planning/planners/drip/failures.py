"""Whose error a failed plan is, told by machine as Table 2 tells it by hand.

Table 2 knows errors of the model in decompositions and errors of the framework. Here a model also
judges, applies or acts, and limits run out:

    decomposition   an answer of `decompose` differs from the domain's rules
    judgement       an answer of `judge` does
    action          ReAct said the end too early or went on too long (`act`)
    application     an answer of `apply` does
    limit           every answer was right, and a limit ran out
    framework       every answer was right, and the goal is not reached all the same

The first that holds counts. For the framework, the cause is the first action of the plan after
which a subtask of the goal no longer holds that held before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from llm_planning.roles import missing_for_rules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.execution import Move
    from llm_planning.planners.drip.acting import Ending

Class: TypeAlias = Literal[
    "decomposition", "judgement", "action", "application", "limit", "framework"
]

_BY_ROLE: Mapping[str, Class] = {
    "decompose": "decomposition",
    "judge": "judgement",
    "act": "action",
    "apply": "application",
}


class Failure(NamedTuple):
    """Why a plan does not reach the goal.

    Attributes:
        kind: see the module's docstring.
        cause: what happened, in words.
    """

    kind: Class
    cause: str


def blame(
    domain: Any,  # noqa: ANN401
    start: Any,  # noqa: ANN401
    moves: Sequence[Move[Any, Any]],
    *,
    wrong: Mapping[str, int],
    ending: Ending,
) -> Failure:
    """Says whose error a failed plan is.

    Args:
        domain: decomposes and judges by its rules.
        start: S_0.
        moves: the plan as it was carried out.
        wrong: role -> number of its answers that differ from the rules.
        ending: why the planner stopped.
    """
    for role, kind in _BY_ROLE.items():
        if wrong.get(role):
            return Failure(kind, f"{wrong[role]} wrong answers of {role}")
    if ending not in {"goal", "stuck"}:
        return Failure("limit", f"ran out of {ending}")
    return Failure("framework", undone(domain, start, moves) or f"ended: {ending}")


def undone(domain: Any, start: Any, moves: Sequence[Move[Any, Any]]) -> str | None:  # noqa: ANN401
    """The first action that undid a subtask of the goal, in words; None if none did."""
    if missing_for_rules(domain, ("decompose", "judge")):
        return None
    subtasks = domain.decompose(start, None)

    def held(state: Any) -> list[Any]:  # noqa: ANN401
        return [one for one in subtasks if domain.judge(state, one, None).verdict == "done"]

    before = held(start)
    for move in moves:
        after = held(move.step.state)
        if lost := [str(one) for one in before if one not in after]:
            return f"{move.action} undid {', '.join(lost)}"
        before = after
    return None
