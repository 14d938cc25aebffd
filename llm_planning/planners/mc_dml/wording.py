"""How observations and trajectories are told, in prompts and in traces.

What is told is bounded in characters and in turns. Of what a game says, the news comes last, so its
beginning is left out; of a place and of belongings, the end. Three dots stand for what is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_planning.planners.any_domain.wording import DOTS, last_that_fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.textgame.game import Observation
    from llm_planning.planners.mc_dml.roles import GameTurn, Trajectory

LONGEST_TEXT = 600
"""Characters told of what the game says."""

LONGEST_LOOK = 800
"""Characters told of a place, and of the belongings."""

LOGGED_TURNS = 12
"""Turns told of a trajectory: its last ones."""


def observed(observation: Observation) -> str:
    """One to three lines for o: what the game says, what `look` and what `inventory` answer.

    A game that enters a place describes it, and `look` then says the same again: what a later line
    says is left out of the first.
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
    """The turns of ℳ_i before o_t: for each turn what was seen and, after `>`, what was done.

    Args:
        turns: oldest first.

    Returns:
        As many of the last ones as `LONGEST_PAST` characters hold, at least one; three dots before
        them where older ones are left out.
    """
    return last_that_fit(
        f"{observed(turn.observation)}\n> {turn.action}" for turn in reversed(turns)
    )


def log(trajectory: Trajectory) -> str:
    """The record of h: what was seen first; then each action, its reward and what the game said.

    Of a long trajectory, the last `LOGGED_TURNS` turns.
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
    """A text of at most `most` characters, its beginning replaced by dots if it is longer."""
    if len(text) <= most:
        return text
    kept = text[len(DOTS) - most :]
    return DOTS + kept[kept.find(" ") + 1 :]


def first_of(text: str, most: int) -> str:
    """A text of at most `most` characters, its end replaced by dots if it is longer."""
    if len(text) <= most:
        return text
    kept = text[: most - len(DOTS)]
    return kept[: kept.rfind(" ") if " " in kept else None] + DOTS


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _without(text: str, part: str) -> str:
    return _one_line(text.replace(part, " ")) if part else text
