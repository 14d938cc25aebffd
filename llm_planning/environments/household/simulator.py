"""Random actions, fast: one is drawn evenly from the possible ones without listing them.

A state changes exactly as `Rules` changes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_planning.environments.household.rules import NOWHERE, State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from llm_planning.environments.household.rules import Rules


class Rollouts:
    """Values of states by rollouts of uniform actions.

    Args:
        each: rollouts of a state; their mean is its value.
    """

    def __init__(self, rules: Rules, *, each: int, gamma: float) -> None:
        self._simulator = Simulator(rules)
        self._each = each
        self._gamma = gamma

    async def __call__(self, state: State, depth: int, rng: Random) -> float:
        """Returns the mean of the rollouts, for a reward of 1 at the goal.

        Args:
            depth: the most actions of a rollout.
        """
        rollout = self._simulator.rollout
        returns = [
            rollout(state, depth=depth, gamma=self._gamma, rng=rng) for _ in range(self._each)
        ]
        return sum(returns) / self._each


class Simulator:
    """Simulates random actions in a home for one goal."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._several = frozenset(thing for thing, number in enumerate(rules.number) if number > 1)

    def rollout(self, state: State, *, depth: int, gamma: float, rng: Random) -> float:
        """Rolls out uniform actions from one state.

        Args:
            depth: the most actions; it ends earlier with the goal, or with the episode.

        Returns:
            γ^(t - 1) if the goal is reached with action t, 0 if it is not.
        """
        rules = self.rules
        weight = 1.0
        if rules.success(state):
            return 0.0
        for _ in range(min(depth, rules.limit - state.steps)):
            after = self.step(state, rng.random())
            # Only what is put somewhere can reach the goal.
            if len(after.held) < len(state.held) and rules.success(after):
                return weight
            weight *= gamma
            state = after
        return 0.0

    def step(self, state: State, share: float) -> State:
        """Takes the action number ⌊share · n⌋ of `Rules.actions`, of which there are n.

        Args:
            share: at least 0, less than 1.
        """
        room, at, opened, held, places, steps = state
        rules = self.rules
        near = rules.rooms[room]
        in_sight = opened | rules.always_seen
        seen = at >= 0 and in_sight >> at & 1
        here = places[at] if seen else ()
        grabs = here if len(held) < rules.hands else ()
        puts = held if seen else ()
        names: Sequence[tuple[int, ...]] = places
        if self._several:
            # A name in sight at several places is one action.
            names = self._names(near, at, here, places, in_sight)
            if grabs and grabs[0] < rules.named:
                grabs = tuple(dict.fromkeys(grabs))
            puts = tuple(dict.fromkeys(puts))
        turns = at >= 0 and not rules.always_seen >> at & 1
        rooms, walks = len(rules.rooms) - 1, 0
        for place in near:
            if place != at:
                walks += 1 + len(names[place]) if in_sight >> place & 1 else 1
        number = int(share * (rooms + walks + turns + len(grabs) + len(puts)))
        if number < rooms:
            return State(number + (number >= room), NOWHERE, opened, held, places, steps + 1)
        number -= rooms
        if number < walks:
            for place in near:
                if place != at:
                    number -= 1 + len(names[place]) if in_sight >> place & 1 else 1
                    if number < 0:
                        return State(room, place, opened, held, places, steps + 1)
        number -= walks
        if number < turns:
            return State(room, at, opened ^ 1 << at, held, places, steps + 1)
        number -= turns
        if number < len(grabs):
            held, here = _moved(grabs[number], held, here)
        else:
            here, held = _moved(puts[number - len(grabs)], here, held)
        return State(room, at, opened, held, (*places[:at], here, *places[at + 1 :]), steps + 1)

    def _names(
        self,
        near: Sequence[int],
        at: int,
        here: Sequence[int],
        places: Sequence[tuple[int, ...]],
        in_sight: int,
    ) -> Sequence[tuple[int, ...]]:
        """The things of each place, without names that are here or at an earlier place."""
        names: list[tuple[int, ...]] = []
        several, named = self._several, self.rules.named
        known = several.intersection(here) if here and here[0] < named else frozenset[int]()
        for place in near:
            things = places[place]
            if things and things[0] < named and place != at and in_sight >> place & 1:
                names = names or list(places)
                names[place] = tuple(thing for thing in dict.fromkeys(things) if thing not in known)
                known |= several.intersection(things)
        return names or places


def _moved(
    thing: int, to: tuple[int, ...], source: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Both rows of things after one is moved."""
    at = source.index(thing)
    return tuple(sorted((*to, thing))), (*source[:at], *source[at + 1 :])
