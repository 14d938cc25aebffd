"""The expert, who knows where everything is: fewest actions to the goal, from any state.

A plan is a row of errands: fetch a thing where it lies, bring one where it is wanted, or lay one
down that is in the way. Before each, the agent walks there and opens what is closed. Going back
from what is wanted, only errands that the goal needs are tried, and of their orders the shortest is
kept. (The paper's expert also knows everything; it plans by regression with hand-written rules:
Appendix B.)
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from llm_planning.environments.household.rules import NOWHERE, Action, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llm_planning.environments.household.rules import Rules

T = TypeVar("T")

PLANS_KEPT: Final = 10_000
"""States whose plan is remembered."""

WAYS_KEPT: Final = 100_000
"""Rows of errands whose length is remembered."""

NEVER: Final = 10**6
"""The length of a way that does not exist."""


_Errand: TypeAlias = tuple[int, int, bool]
"""Where something is done, with which thing, and whether it is taken or put."""

_Pairs: TypeAlias = tuple[tuple[int, int], ...]

# A plain tuple: the search makes dozens for a plan, and a named one takes three times as long.
_Left: TypeAlias = tuple[int, int, int, tuple[int, ...], tuple[int, ...], _Pairs, _Pairs]
"""What a plan depends on, and nothing else.

Room, place and open containers as in `State`; then, each in order, the wanted things in the hands;
the others in the hands; (place, thing) of those that may be fetched; and those that are wanted.
"""


class Expert:
    """Plans in a home for one goal."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._room = tuple(place.room for place in rules.home.places)
        self._plan = lru_cache(PLANS_KEPT)(self._planned)
        self._best: dict[_Left, tuple[int, _Errand | None]] = {}

    def plan(self, state: State) -> tuple[Action, ...]:
        """A shortest plan from a state; empty where the goal is reached.

        The limit of the episode plays no part.
        """
        return self._plan(state._replace(steps=0))

    def length(self, state: State) -> int:
        """The fewest actions from a state to the goal."""
        return self._least(self._left(state))[0]

    def _planned(self, state: State) -> tuple[Action, ...]:
        left = self._left(state)
        actions: list[Action] = []
        while (errand := self._least(left)[1]) is not None:
            for action in self._actions(state, errand):
                after = self._rules.after(state, action)
                assert not isinstance(after, str), after
                actions.append(action)
                state = after
            left = self._done(left, errand)
        return tuple(actions)

    def _left(self, state: State) -> _Left:
        """What is left to do in a state."""
        places = state.places
        keep: dict[tuple[int, int], int] = {}
        missing: list[tuple[int, int]] = []
        for thing, place, count in self._rules.wanted:
            there = min(count, places[place].count(thing))
            keep[place, thing] = there
            missing += [(place, thing)] * (count - there)
        needed = [thing for _, thing in missing]
        lie: list[tuple[int, int]] = []
        for place, things in enumerate(places):
            for thing in things:
                if thing >= self._rules.named:
                    break
                if keep.get((place, thing), 0):
                    keep[place, thing] -= 1
                elif thing in needed:
                    lie.append((place, thing))
        held: list[int] = []
        spare: list[int] = []
        for thing in state.held:
            (held if held.count(thing) < needed.count(thing) else spare).append(thing)
        opened = state.opened | self._rules.always_seen
        rest = tuple(held), tuple(spare), tuple(lie), tuple(sorted(missing))
        return state.room, state.at, opened, *rest

    def _least(self, left: _Left) -> tuple[int, _Errand | None]:
        """The fewest actions for what is left, and the errand that comes first."""
        if not left[-1]:
            return 0, None
        if (known := self._best.get(left)) is not None:
            return known
        room, at, opened, *_ = left
        best: tuple[int, _Errand | None] = (NEVER, None)
        for errand in self._errands(left):
            place = errand[0]
            # It takes an action there, one to open it, and one or two to walk there.
            length = 1 if opened >> place & 1 else 2
            if place != at:
                length += 1 if self._room[place] == room else 2
            if length < best[0]:
                length += self._least(self._done(left, errand))[0]
                if length < best[0]:
                    best = length, errand
        if len(self._best) > WAYS_KEPT:
            self._best.clear()
        self._best[left] = best
        return best

    def _errands(self, left: _Left) -> list[_Errand]:
        """What may come next: bring what is held, fetch what is wanted, lay down what is spare."""
        _, _, _, held, spare, lie, wanted = left
        errands = [(place, thing, False) for place, thing in dict.fromkeys(wanted) if thing in held]
        if len(held) + len(spare) < self._rules.hands:
            asked = [thing for _, thing in wanted]
            for place, thing in dict.fromkeys(lie):
                if held.count(thing) < asked.count(thing):
                    errands.append((place, thing, True))
        elif spare:
            errands += [(place, spare[0], False) for place in range(len(self._room))]
        return errands

    def _done(self, left: _Left, errand: _Errand) -> _Left:
        """What is left after an errand."""
        _, _, opened, held, spare, lie, wanted = left
        place, thing, take = errand
        if take:
            held, lie = tuple(sorted((*held, thing))), _without(lie, (place, thing))
        elif (place, thing) in wanted:
            held, wanted = _without(held, thing), _without(wanted, (place, thing))
            # What nobody needs any more is no part of what is left.
            if thing not in held and all(wanted_thing != thing for _, wanted_thing in wanted):
                lie = tuple(pair for pair in lie if pair[1] != thing)
        else:
            spare = _without(spare, thing)
        return self._room[place], place, opened | 1 << place, held, spare, lie, wanted

    def _actions(self, state: State, errand: _Errand) -> Iterator[Action]:
        """The actions of an errand. What is in sight is walked to itself, as in Figure 5."""
        rules = self._rules
        place, thing, take = errand
        if state.at != place:
            if state.room != self._room[place]:
                yield rules.walks_to_rooms[self._room[place]]
                state = state._replace(room=self._room[place], at=NOWHERE)
            walk = rules.walks_to_things[thing]
            reached = rules.after(state, walk) if take else ""
            there = not isinstance(reached, str) and reached.at == place
            yield walk if there else rules.walks_to_places[place]
        if not (state.opened | rules.always_seen) >> place & 1:
            yield rules.opens[place]
        yield rules.grabs[thing] if take else rules.put(thing, place)


def _without(items: tuple[T, ...], item: T) -> tuple[T, ...]:
    at = items.index(item)
    return (*items[:at], *items[at + 1 :])
