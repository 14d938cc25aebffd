"""Who knows the next action in an environment of Gymnasium.

A toy text environment publishes its table of transitions, which value iteration solves. BabyAI's
authors made a bot for their levels. For other environments there is nobody.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.environments.bridges.gymnasium_copies import Copies
    from llm_planning.environments.bridges.gymnasium_worlds import Moment

    Table: TypeAlias = Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]]

DISCOUNT: Final = 0.99
"""γ of value iteration: of two ways to the same reward, the shorter is better."""

TOLERANCE: Final = 1e-10
"""Value iteration ends when no value changes by more."""

PATHS_KEPT: Final = 10_000
"""Paths for which the bot's advice is kept."""


class Teacher(Protocol):
    """Knows the next action."""

    def number(self, state: Moment) -> int | None:
        """The number of the next action on a way to the goal; None if the teacher knows none."""
        ...


def teacher_of(env: Any, copies: Copies) -> Teacher | None:
    """The teacher of an environment; None if it has none.

    Args:
        env: after a reset.
        copies: give environments at its states.
    """
    inner = env.unwrapped
    if hasattr(inner, "P") and hasattr(inner, "s"):
        return ValueIteration(inner.P, copies)
    return MissionBot(copies) if hasattr(inner, "instrs") else None


class ValueIteration:
    """Knows the values of all states by their table; it sees the whole state.

    Args:
        table: state -> action -> (probability, next state, reward, whether the episode ends).
        copies: give environments at its states.

    Attributes:
        values: the best discounted return of each state, shape [states].
    """

    def __init__(self, table: Table, copies: Copies) -> None:
        self._copies = copies
        most = max(len(outcomes) for row in table.values() for outcomes in row.values())
        # Actions with fewer outcomes have further ones of probability 0.
        cells = np.array(
            [
                [
                    [*outcomes, *[(0.0, 0, 0.0, True)] * (most - len(outcomes))]
                    for _, outcomes in sorted(row.items())
                ]
                for _, row in sorted(table.items())
            ],
            dtype=float,
        )
        odds, after, reward, ended = np.moveaxis(cells, -1, 0)
        following, weight = after.astype(int), DISCOUNT * (1 - ended)
        self.values, change = np.zeros(len(table)), np.inf
        while change > TOLERANCE:
            worth = (odds * (reward + weight * self.values[following])).sum(-1)
            change = np.abs(worth.max(-1) - self.values).max()
            self.values = worth.max(-1)
        self._best = worth.round(9).argmax(-1)

    def number(self, state: Moment) -> int:
        """The best action, of equally good ones the first."""
        return int(self._best[self._copies.to_see(state).unwrapped.s])


class MissionBot:
    """BabyAI's own bot; it plans by the mission and by what it saw since the start.

    Args:
        copies: give environments at the starts.
    """

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self._advised = lru_cache(PATHS_KEPT)(self._after)

    def number(self, state: Moment) -> int | None:
        """What the bot does next; None if it gives up, as when a box was opened."""
        return self._advised(state.past)

    def _after(self, past: tuple[tuple[int, int], ...]) -> int | None:
        from minigrid.utils.baby_ai_bot import BabyAIBot

        (seed, _), *taken = past
        env = self._copies.begin(seed)[0].env
        try:
            bot = BabyAIBot(env)
            advised = bot.replan()
            for number, chance in taken:
                self._copies.chance.step_again(env, number, chance)
                advised = bot.replan(number)
        except Exception:
            # It asserts what it takes for granted, and raises an error of its own for boxes.
            return None
        return int(advised)
