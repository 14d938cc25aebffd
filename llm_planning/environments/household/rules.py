"""What can be done in a home, and what it does.

Source: LLM-MCTS, Section 2.1 and Appendix A.4. `docs/household.md` lists what is decided where the
paper is silent or says two things.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from llm_planning.environments.household.goals import Wanted, check_goal
from llm_planning.environments.household.observations import Observation
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from random import Random

    from llm_planning.environments.household.home import Home

NOWHERE: Final = -1
"""The place of someone who is close to no place."""

WALK, OPEN, CLOSE, GRAB, PUT = "walk to", "open", "close", "grab", "put"


class Action(NamedTuple):
    """An action of Appendix A.4; `str` gives its sentence.

    Attributes:
        verb: `walk to`, `open`, `close`, `grab`, or `put`.
        item: the name of a thing, a place or a room.
        place: where a thing is put; empty for the other verbs.
        relation: `inside` or `on`, of what is put; empty for the other verbs.
    """

    verb: str
    item: str
    place: str = ""
    relation: str = ""

    def __str__(self) -> str:
        last = f" {self.relation} the {self.place}" if self.place else ""
        return f"{self.verb} the {self.item}{last}"


class State(NamedTuple):
    """A state of a home. Rooms, places and things are numbers; things as in `Rules.things`.

    Things of one name are the same: `places` and `held` have their number as often as there are
    things.

    Attributes:
        room: where the agent is.
        at: the place that it is close to, with all that is there; `NOWHERE` for none.
        opened: bit p is set if container p is open.
        held: things in its hands, in order.
        places: the things of each place, in order.
        steps: actions taken so far.
    """

    room: int
    at: int
    opened: int
    held: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]
    steps: int = 0

    def with_thing(self, thing: int, place: int) -> State:
        """The same state with one more thing at a place."""
        room, at, opened, held, places, steps = self
        lie = (*places[:place], tuple(sorted((thing, *places[place]))), *places[place + 1 :])
        return State(room, at, opened, held, lie, steps)


class Rules:
    """The dynamics of a home for one goal.

    Args:
        hands: how many things can be held at once.
        limit: actions after which an episode ends.

    Attributes:
        things: names, those of the goal first.
        number: how many things of a name there are, shape [things].
        named: how many names the goal has: things below this number are wanted.
        wanted: (thing, place, count) of the goal, by number.
        law: `Home.law` in the order of `things`. No thing of the goal begins where the goal wants
            it, so these weights are 0.
        rooms: the places of each room.
        always_seen: bit p is set if p is a surface.

    Raises:
        GoalError: the home cannot meet the goal.
    """

    def __init__(
        self, home: Home, goal: Sequence[Wanted], *, hands: int = 1, limit: int = 30
    ) -> None:
        check_goal(goal, home)
        self.home = home
        self.goal = tuple(goal)
        self.hands = hands
        self.limit = limit
        first = list(dict.fromkeys(home.things.index(predicate.thing) for predicate in goal))
        order = (
            *first,
            *(home_thing for home_thing in range(len(home.things)) if home_thing not in first),
        )
        self.named = len(first)
        self.things = tuple(home.things[home_thing] for home_thing in order)
        # A second thing of a name that no goal has would change no step to the goal.
        self.number = tuple(
            home.number[home_thing] if home_thing in first else 1 for home_thing in order
        )
        places = {place.name: number for number, place in enumerate(home.places)}
        self.wanted = tuple(
            (self.things.index(predicate.thing), places[predicate.place], predicate.number)
            for predicate in goal
        )
        ends = {(thing, place) for thing, place, _ in self.wanted}
        self.law = tuple(
            tuple(
                0.0 if (thing, place) in ends else weight
                for place, weight in enumerate(home.law[home_thing])
            )
            for thing, home_thing in enumerate(order)
        )
        self.rooms = tuple(
            tuple(p for p, place in enumerate(home.places) if place.room == room)
            for room in range(len(home.rooms))
        )
        self.always_seen = sum(1 << p for p, place in enumerate(home.places) if not place.container)
        self.walks_to_rooms = tuple(Action(WALK, name) for name in home.rooms)
        self.walks_to_places = tuple(Action(WALK, place.name) for place in home.places)
        self.walks_to_things = tuple(Action(WALK, name) for name in self.things)
        self.grabs = tuple(Action(GRAB, name) for name in self.things)
        self.opens = tuple(Action(OPEN, place.name) for place in home.places)
        self._closes = tuple(Action(CLOSE, place.name) for place in home.places)
        self._places = places
        self._things = {name: number for number, name in enumerate(self.things)}
        self._rooms = {name: number for number, name in enumerate(home.rooms)}
        self._verbs: Mapping[str, Callable[[State, Action], State | str]] = {
            WALK: self._walked,
            OPEN: self._turned,
            CLOSE: self._turned,
            GRAB: self._grabbed,
            PUT: self._put,
        }

    def start(self, rng: Random) -> State:
        """Draws a start: by the law, all containers closed, the agent in any room.

        In a scene, everything lies where the scene has it.
        """
        room = rng.randrange(len(self.rooms))
        empty = State(room, NOWHERE, 0, (), ((),) * len(self.home.places))
        if not self.home.starts:
            return self.placed(empty, rng)
        for thing, number in enumerate(self.number):
            for place in self.home.starts[self.home.things.index(self.things[thing])][:number]:
                empty = empty.with_thing(thing, place)
        return empty

    def placed(self, state: State, rng: Random) -> State:
        """Draws by the law where all things lie, and keeps the rest of a state."""
        every = range(len(self.home.places))
        lie: list[list[int]] = [[] for _ in every]
        for thing, (number, weights) in enumerate(zip(self.number, self.law, strict=True)):
            for place in rng.choices(every, weights, k=number):
                lie[place].append(thing)
        return state._replace(places=tuple(map(tuple, lie)))

    def success(self, state: State) -> bool:
        """Whether the goal is reached."""
        places = state.places
        return all(places[place].count(thing) >= count for thing, place, count in self.wanted)

    def ended(self, state: State) -> bool:
        """Whether the goal is reached, or no action is left."""
        return state.steps >= self.limit or self.success(state)

    def actions(self, state: State) -> list[Action]:
        """The possible actions, each of which changes the state; none at the end.

        Rooms come first. For each other place of the room follow the place and the things that lie
        in sight there; last, what can be done where the agent is.
        """
        if self.ended(state):
            return []
        room, at, opened, held, places, _ = state
        actions = [walk for number, walk in enumerate(self.walks_to_rooms) if number != room]
        in_sight = opened | self.always_seen
        here = places[at] if at >= 0 and in_sight >> at & 1 else ()
        known = set(here)
        for place in self.rooms[room]:
            if place == at:
                continue
            actions.append(self.walks_to_places[place])
            if in_sight >> place & 1:
                for thing in places[place]:
                    if thing not in known:
                        known.add(thing)
                        actions.append(self.walks_to_things[thing])
        if at < 0:
            return actions
        if not self.always_seen >> at & 1:
            actions.append((self._closes if opened >> at & 1 else self.opens)[at])
        if len(held) < self.hands:
            actions += [self.grabs[thing] for thing in dict.fromkeys(here)]
        if in_sight >> at & 1:
            actions += [self.put(thing, at) for thing in dict.fromkeys(held)]
        return actions

    def useful(self, state: State) -> list[Action]:
        """The possible actions without those about things that no goal names.

        Walking to such a thing is walking to its place, and holding one leads nowhere.
        """
        return [
            action
            for action in self.actions(state)
            if self._things.get(action.item, 0) < self.named or action.verb == PUT
        ]

    def put(self, thing: int, place: int) -> Action:
        """The action that puts a thing at a place."""
        there = self.home.places[place]
        return Action(PUT, self.things[thing], there.name, there.relation)

    def after(self, state: State, action: Action) -> State | str:
        """The state after an action, or why the action is impossible."""
        done = self._verbs.get(action.verb)
        if done is None:
            return f"unknown verb {action.verb!r}; {remedy(action.verb, self._verbs)}"
        return done(state, action)

    def _walked(self, state: State, action: Action) -> State | str:
        item = action.item
        if (place := self._places.get(item)) is not None:
            return self._walked_to_place(state, place)
        if (room := self._rooms.get(item)) is not None:
            return self._walked_to_room(state, room)
        return self._walked_to_thing(state, item)

    def _walked_to_room(self, state: State, there: int) -> State | str:
        room, _, opened, held, places, steps = state
        if there == room:
            return f"you are in the {self.home.rooms[room]} already"
        return State(there, NOWHERE, opened, held, places, steps + 1)

    def _walked_to_place(self, state: State, place: int) -> State | str:
        room, at, opened, held, places, steps = state
        if place == at:
            return f"you are close to the {self.home.places[place].name} already"
        if place not in self.rooms[room]:
            return f"the {self.home.places[place].name} is in another room"
        return State(room, place, opened, held, places, steps + 1)

    def _walked_to_thing(self, state: State, item: str) -> State | str:
        """Walks to the first place of the room where a thing of this name is in sight."""
        room, at, opened, held, places, steps = state
        if (thing := self._things.get(item)) is None:
            return f"there is no {item!r}"
        in_sight = opened | self.always_seen
        there = [p for p in self.rooms[room] if in_sight >> p & 1 and thing in places[p]]
        if at in there:
            return f"you are close to the {item} already"
        if not there:
            return f"you hold the {item}" if thing in held else f"no {item} is in sight"
        return State(room, there[0], opened, held, places, steps + 1)

    def _grabbed(self, state: State, action: Action) -> State | str:
        item = action.item
        room, at, opened, held, places, steps = state
        if (thing := self._things.get(item)) is None:
            return f"{item!r} is nothing that can be grabbed"
        if at < 0 or not (opened | self.always_seen) >> at & 1 or thing not in places[at]:
            return f"you are not close to any {item} that is in sight"
        if len(held) >= self.hands:
            return f"you hold {self.held_text(held)}"
        left = list(places[at])
        left.remove(thing)
        return State(
            room,
            at,
            opened,
            tuple(sorted((*held, thing))),
            (*places[:at], tuple(left), *places[at + 1 :]),
            steps + 1,
        )

    def _put(self, state: State, action: Action) -> State | str:
        room, at, opened, held, places, steps = state
        place = self._places.get(action.place)
        thing = self._things.get(action.item)
        if place is None or self.home.places[place].relation != action.relation:
            return f"nothing can be put {action.relation} {action.place!r}"
        if thing not in held:
            return f"you do not hold any {action.item}"
        if place != at:
            return f"you are not close to the {action.place}"
        if not (opened | self.always_seen) >> at & 1:
            return f"the {action.place} is closed"
        left = list(held)
        left.remove(thing)
        return State(room, at, opened, tuple(left), places, steps + 1).with_thing(thing, at)

    def _turned(self, state: State, action: Action) -> State | str:
        """Opens or closes a container."""
        room, at, opened, held, places, steps = state
        place = self._places.get(action.item)
        if place is None or not self.home.places[place].container:
            return f"{action.item!r} is no container"
        if place != at:
            return f"you are not close to the {action.item}"
        if (opened >> at & 1) == (action.verb == OPEN):
            return f"the {action.item} is {'open' if action.verb == OPEN else 'closed'} already"
        return State(room, at, opened ^ 1 << at, held, places, steps + 1)

    def held_text(self, held: Iterable[int]) -> str:
        """What is held, in words."""
        names = [f"the {self.things[thing]}" for thing in held]
        return " and ".join(names) or "nothing"

    def observe(self, state: State) -> Observation:
        """What the agent sees: its room, and what lies in sight there."""
        room, at, opened, held, places, _ = state
        in_sight = opened | self.always_seen
        shown: list[tuple[int, tuple[int, ...]]] = []
        wanted: list[tuple[int, int]] = []
        named = self.named
        for place in self.rooms[room]:
            if in_sight >> place & 1:
                things = places[place]
                shown.append((place, things))
                for thing in things:
                    if thing >= named:
                        break
                    wanted.append((place, thing))
        return Observation(room, at, held, tuple(wanted), tuple(shown))
