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
from llm_planning.priors import MOST_SAID
from llm_planning.roles import Prompt

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from typing import Literal, TypeAlias

    from llm_planning.planners.mc_dml.roles import Situation, Trajectory
    from llm_serving.request import Message

    Wanted: TypeAlias = Literal["action", "label", "several"]
    Chat: TypeAlias = tuple[Message, Message]


class Questions:
    """p_action.probs, the `Wording` of π."""

    def actions(self, situation: Situation) -> tuple[str, ...]:
        """𝒜(s)."""
        return situation.actions

    def key(self, situation: Situation) -> Hashable:
        """All but rewards and scores, which no prompt tells."""
        seen = tuple((turn.observation, turn.action) for turn in situation.memory)
        return seen, situation.observation, situation.actions, situation.reflections

    def action(self, situation: Situation, *, dashes: int) -> Chat:
        """The answer is an action, as it is written in 𝒜(s)."""
        return _about(
            situation, "action", {"actions": situation.actions}, {"line": " ".join("-" * dashes)}
        )

    def label(self, situation: Situation, labels: Sequence[str]) -> Chat:
        """The answer is the label of an action."""
        return _about(situation, "label", _labelled(situation, labels))

    def several(self, situation: Situation, labels: Sequence[str]) -> Chat:
        """The answer is labels with their chances."""
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
