"""MC-DML's prompts (Appendix C, in our words): which texts each question says, in which order.

The paper puts ℳ_c before ℳ_i. Here everything is laid out for the prefix cache, from what changes
rarely to what changes always: instructions, o_{t-1}, a_{t-1}, o_t, 𝒜(s), ℳ_c, for `exact` a line of
dashes, question. So siblings share o_{t-1}, and a new reflection costs only the prompt's end.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING

from llm_planning.planners.mc_dml.wording import log, observed, past
from llm_planning.roles import Prompt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal, TypeAlias

    from llm_planning.planners.mc_dml.roles import Situation, Trajectory
    from llm_serving.request import Message

    Wanted: TypeAlias = Literal["action", "label", "several"]
    Chat: TypeAlias = tuple[Message, Message]

MOST_SAID = 5
"""Most actions that the model may name with their chances."""


def ask_action(situation: Situation, *, dashes: int) -> Chat:
    """p_action.probs where the answer is an action, as it is written in 𝒜(s).

    Args:
        situation: what it is about.
        dashes: of the line above the question, at least one; they say nothing and bring the prompt
            to a length that scores cheaply.
    """
    return _about(
        situation, "action", {"actions": situation.actions}, {"line": " ".join("-" * dashes)}
    )


def ask_label(situation: Situation, labels: Sequence[str]) -> Chat:
    """The same where the answer is the label of an action; shape of labels: [actions]."""
    return _about(situation, "label", _labelled(situation, labels))


def ask_several(situation: Situation, labels: Sequence[str]) -> Chat:
    """The same where the answer is labels with their chances; shape of labels: [actions]."""
    return _about(situation, "several", _labelled(situation, labels))


def ask_reflection(trajectory: Trajectory) -> Chat:
    """p_reflection, about h."""
    return _compose("reflect", ("record", "question")).messages({"log": log(trajectory)})


def _labelled(situation: Situation, labels: Sequence[str]) -> dict[str, object]:
    return {"labelled": tuple(zip(labels, situation.actions, strict=True))}


def _about(
    situation: Situation,
    wanted: Wanted,
    actions: dict[str, object],
    line: Mapping[str, object] = MappingProxyType({}),
) -> Chat:
    blocks = (
        *(("past",) if situation.memory else ()),
        "now",
        *actions,
        *(("reflections",) if situation.reflections else ()),
        *line,
        wanted,
    )
    return _compose("act", blocks).messages(
        {
            "past": past(situation.memory),
            "now": observed(situation.observation),
            "reflections": situation.reflections,
            **actions,
            **line,
        }
    )


@cache
def _compose(name: str, user: tuple[str, ...]) -> Prompt:
    source = files(__package__) / "templates" / f"{name}.j2"
    return Prompt(
        [source.read_text("utf-8")], system=("role",), user=user, constants={"count": MOST_SAID}
    )
