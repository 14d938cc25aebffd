"""MC-DML's questions (Appendix C, in our words): which texts each says, in which order.

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
from llm_serving.answers import Constraint
from llm_serving.patterns import finite_regex
from llm_serving.request import Request

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from typing import Literal, TypeAlias

    from llm_planning.planners.mc_dml.roles import GameSituation, Trajectory
    from llm_serving.engine import Engine
    from llm_serving.request import Message

    Wanted: TypeAlias = Literal["action", "label", "several"]
    Chat: TypeAlias = tuple[Message, Message]


ROLE = "reflection"
"""Under which the engine counts the questions for reflections."""

# A second N could begin the sentence again, and outlines would take minutes to compile that.
_PATTERN = finite_regex(r"Next time[ ,][^.!?N]{20,189}\.")

SENTENCE = Constraint(_PATTERN.regex, _PATTERN.max_bytes)
"""The language of one sentence of advice, 31 to 200 plain characters with its full stop.

It is written as it is: JSON around it would only cost tokens.
"""


class GameWording:
    """p_action.probs, the `Wording` of π."""

    def actions(self, situation: GameSituation) -> tuple[str, ...]:
        """𝒜(s)."""
        return situation.actions

    def key(self, situation: GameSituation) -> Hashable:
        """All but rewards and scores, which no prompt tells."""
        seen = tuple((turn.observation, turn.action) for turn in situation.memory)
        return seen, situation.observation, situation.actions, situation.reflections

    def action(self, situation: GameSituation, *, dashes: int) -> Chat:
        """The answer is an action, as it is written in 𝒜(s)."""
        return _about(
            situation, "action", {"actions": situation.actions}, {"line": " ".join("-" * dashes)}
        )

    def label(self, situation: GameSituation, labels: Sequence[str]) -> Chat:
        """The answer is the label of an action."""
        return _about(situation, "label", _labelled(situation, labels))

    def several(self, situation: GameSituation, labels: Sequence[str]) -> Chat:
        """The answer is labels with their chances."""
        return _about(situation, "several", _labelled(situation, labels))


def ask_reflection(trajectory: Trajectory) -> Chat:
    """p_reflection, about h."""
    return _compose("reflect", ("record", "question")).messages({"log": log(trajectory)})


async def reflect(trajectory: Trajectory, /, *, engine: Engine) -> str:
    """LLM(h, p_reflection), Algorithm 1 lines 11 and 45: advice in one sentence, greedy.

    Args:
        trajectory: that failed.
        engine: who answers.

    Raises:
        ServingError: the engine failed.
    """
    answer = await engine.generate(
        Request(prompt=ask_reflection(trajectory), constraint=SENTENCE, role=ROLE)
    )
    return answer.text.strip()


def _labelled(situation: GameSituation, labels: Sequence[str]) -> dict[str, object]:
    return {"labelled": tuple(zip(labels, situation.actions, strict=True))}


def _about(
    situation: GameSituation,
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
