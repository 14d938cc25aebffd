"""MC-DML's prompts (Appendix C, in our words), and how they tell observations and trajectories.

The paper puts ℳ_c before ℳ_i. Here prompts are laid out for the prefix cache, from what changes
rarely to what changes always: instructions, o_{t-1}, a_{t-1}, o_t, 𝒜(s), ℳ_c, for `exact` a line of
dashes, question. So siblings share o_{t-1}, and a new reflection changes only the prompt's end.

Texts are bounded in characters and in turns. What a game says is cut at its beginning, because the
news comes last; a place and the belongings are cut at their end. Three dots stand for the rest.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING

from llm_planning.planners.any_domain.roles import DOTS, last_that_fit
from llm_planning.priors import MOST_SAID
from llm_planning.roles import Prompt

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from typing import Literal, TypeAlias

    from llm_planning.environments.textgame.game import Observation
    from llm_planning.planners.mc_dml.roles import GameSituation, GameTurn, Trajectory
    from llm_serving.request import Message

    Wanted: TypeAlias = Literal["action", "label", "several"]
    Chat: TypeAlias = tuple[Message, Message]


LONGEST_TEXT = 600
"""The most characters of what the game says."""

LONGEST_LOOK = 800
"""The most characters of a place, and of the belongings."""

LOGGED_TURNS = 12
"""The most turns of a trajectory in the question for a reflection: the last ones."""


class GameWording:
    """The prompts for π, the paper's p_action.probs."""

    def actions(self, situation: GameSituation) -> tuple[str, ...]:
        """𝒜(s)."""
        return situation.actions

    def key(self, situation: GameSituation) -> Hashable:
        """The situation without rewards and scores, which no prompt contains."""
        seen = tuple((turn.observation, turn.action) for turn in situation.memory)
        return seen, situation.observation, situation.actions, situation.reflections

    def action(self, situation: GameSituation, *, dashes: int) -> Chat:
        """Asks for an action as it is written in 𝒜(s)."""
        return _about(
            situation, "action", {"actions": situation.actions}, {"line": " ".join("-" * dashes)}
        )

    def label(self, situation: GameSituation, labels: Sequence[str]) -> Chat:
        """Asks for the label of an action."""
        return _about(situation, "label", _labelled(situation, labels))

    def several(self, situation: GameSituation, labels: Sequence[str]) -> Chat:
        """Asks for labels with their chances."""
        return _about(situation, "several", _labelled(situation, labels))


def ask_reflection(trajectory: Trajectory) -> Chat:
    """Asks for a reflection on h, the paper's p_reflection."""
    return _compose("reflect", ("record", "question")).messages({"log": log(trajectory)})


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


def observed(observation: Observation) -> str:
    """Writes o in at most three lines: what the game says, then the answers to `look`, `inventory`.

    On entering a place a game describes it, as `look` does again. So the first line leaves out
    what the other two say.
    """
    text, look, inventory = (
        _one_line(part) for part in (observation.text, observation.look, observation.inventory)
    )
    text = "" if text in look else _without(_without(text, look), inventory)
    told = (
        last_of(text, LONGEST_TEXT),
        first_of(look, LONGEST_LOOK),
        first_of(inventory, LONGEST_LOOK),
    )
    return "\n".join(line for line in told if line)


def past(turns: Sequence[GameTurn]) -> list[str]:
    """Writes the turns of ℳ_i before o_t: for each turn the observation and, after `>`, the action.

    Args:
        turns: oldest first.

    Returns:
        As many of the last turns as fit into `LONGEST_PAST` characters, at least one. Three dots
        come first if older turns are left out.
    """
    return last_that_fit(
        f"{observed(turn.observation)}\n> {turn.action}" for turn in reversed(turns)
    )


def log(trajectory: Trajectory) -> str:
    """Writes h: the first observation, then each action, its reward and what the game said to it.

    A long trajectory is cut to its last `LOGGED_TURNS` turns.
    """
    turns = trajectory.turns[-LOGGED_TURNS:]
    if not turns:
        return observed(trajectory.last)
    lines = [DOTS] if len(turns) < len(trajectory.turns) else []
    lines.append(observed(turns[0].observation))
    answers = [*(turn.observation for turn in turns[1:]), trajectory.last]
    for turn, answer in zip(turns, answers, strict=True):
        lines.append(f"> {turn.action} (reward {turn.reward:g}, score {turn.score:g})")
        if said := last_of(_one_line(answer.text), LONGEST_TEXT):
            lines.append(said)
    return "\n".join(lines)


def last_of(text: str, most: int) -> str:
    """Cuts a text to at most `most` characters. Dots stand for its beginning if it is longer."""
    if len(text) <= most:
        return text
    kept = text[len(DOTS) - most :]
    return DOTS + kept[kept.find(" ") + 1 :]


def first_of(text: str, most: int) -> str:
    """Cuts a text to at most `most` characters. Dots stand for its end if it is longer."""
    if len(text) <= most:
        return text
    kept = text[: most - len(DOTS)]
    return kept[: kept.rfind(" ") if " " in kept else None] + DOTS


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _without(text: str, part: str) -> str:
    return _one_line(text.replace(part, " ")) if part else text
