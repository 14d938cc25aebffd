"""b(s): where the things of a home may be, given what was seen.

Source: LLM-MCTS, Section 2.2 and Appendix C.2. Each thing's place has a prior of its own. What was
seen somewhere is known to be there, and what was not seen there is elsewhere: the prior's other
entries are normalised anew. As only the agent moves things, a place stays as it was last seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from llm_planning.environments.household.rules import State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from llm_planning.environments.household.observations import Observation
    from llm_planning.environments.household.rules import Rules

Prior: TypeAlias = "Sequence[Sequence[float]]"
"""Weights of the places of each thing, at least 0, shape [things][places]; see `Rules.things`."""


@dataclass(frozen=True)
class Belief:
    """What is known after some observations, and how likely the rest is.

    Attributes:
        rules: of the home and the goal.
        prior: of the places of things that were not seen. A thing has all places alike if its
            prior has no weight left.
        now: the last observation.
        seen: what lies at each place as it was last seen; None if it never was.
        opened: as in `State`.
        steps: actions so far.
        others: where the things that no goal names lie, if that is drawn already; see `filled`.
    """

    rules: Rules
    prior: Prior
    now: Observation
    seen: tuple[tuple[int, ...] | None, ...]
    opened: int = 0
    steps: int = 0
    others: tuple[tuple[int, ...], ...] | None = field(default=None, repr=False)

    @classmethod
    def at_start(cls, rules: Rules, prior: Prior, first: Observation) -> Belief:
        """The belief after the first observation o_0; all containers are closed."""
        return cls(rules, prior, first, (None,) * len(rules.home.places))._with(first)

    @classmethod
    def of_state(cls, rules: Rules, state: State) -> Belief:
        """The belief of someone who knows the state."""
        return cls(rules, rules.law, rules.observe(state), state.places, state.opened, state.steps)

    def after(self, observation: Observation) -> Belief:
        """The belief after one more action and its observation."""
        return replace(self._with(observation), steps=self.steps + 1)

    def _with(self, now: Observation) -> Belief:
        seen, opened = list(self.seen), self.opened
        shown = dict(now.shown)
        always = self.rules.always_seen
        for place in self.rules.rooms[now.room]:
            if not always >> place & 1:
                opened = opened | 1 << place if place in shown else opened & ~(1 << place)
        for place, things in now.shown:
            seen[place] = things
        return replace(self, now=now, seen=tuple(seen), opened=opened, others=None)

    @cached_property
    def unseen(self) -> tuple[int, ...]:
        """The places that were never seen."""
        return tuple(place for place, things in enumerate(self.seen) if things is None)

    @cached_property
    def hidden(self) -> tuple[int, ...]:
        """The things that were never seen, once for each."""
        left = list(self.rules.number)
        for things in (self.now.held, *filter(None, self.seen)):
            for thing in things:
                left[thing] -= 1
        return tuple(thing for thing, number in enumerate(left) for _ in range(number))

    def probabilities(self, thing: int) -> tuple[float, ...]:
        """Where a hidden thing is, shape [places]."""
        weights = self._weights(thing)
        total = sum(weights)
        by_place = dict(zip(self.unseen, (weight / total for weight in weights), strict=True))
        return tuple(by_place.get(place, 0.0) for place in range(len(self.seen)))

    def _weights(self, thing: int) -> tuple[float, ...]:
        """The weights of the unseen places.

        No thing of the goal begins where the goal wants it, so that place has none.
        """
        ends = {place for wanted_thing, place, _ in self.rules.wanted if wanted_thing == thing}
        prior = self.prior[thing]
        weights = tuple(0.0 if place in ends else prior[place] for place in self.unseen)
        if not any(weights):
            weights = tuple(float(place not in ends) for place in self.unseen)
        # Whoever has misread the goal may find that a thing is nowhere else than there.
        return weights if any(weights) else (1.0,) * len(weights)

    @cached_property
    def _draws(self) -> tuple[tuple[int, tuple[float, ...]], ...]:
        """Each hidden thing of the goal with the cumulative weights of the unseen places."""
        return tuple(
            (thing, tuple(accumulate(self._weights(thing))))
            for thing in self.hidden
            if thing < self.rules.named
        )

    def filled(self, rng: Random) -> Belief:
        """The same belief with drawn places of the things that no goal names.

        A decision draws them once. If each simulation drew them, it would have actions of its own.
        """
        lie: list[list[int]] = [[] for _ in self.seen]
        for thing in self.hidden:
            if thing >= self.rules.named:
                (place,) = rng.choices(self.unseen, self._weights(thing))
                lie[place].append(thing)
        for place, things in enumerate(self.seen):
            lie[place] += things or ()
        return replace(self, others=tuple(map(tuple, lie)))

    @cached_property
    def certain(self) -> State:
        """What is known, and what `filled` drew. Hidden things of the goal are nowhere in it."""
        places = self.others or tuple(things or () for things in self.seen)
        now = self.now
        return State(now.room, now.at, self.opened, now.held, places, self.steps)

    def draw(self, rng: Random) -> State:
        """Draws s ~ b(s), with what `filled` drew; without it, other things are only where seen."""
        state = self.certain
        for thing, cumulative in self._draws:
            (place,) = rng.choices(self.unseen, cum_weights=cumulative)
            state = state.with_thing(thing, place)
        return state
