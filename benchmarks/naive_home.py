"""A home of objects, as a newcomer writes it: the naive arm of `household`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.environments.household.rules import Rules, State


@dataclass(eq=False)
class Thing:
    """Something that can be moved."""

    name: str
    number: int


@dataclass(eq=False)
class Place:
    """A container or a surface."""

    name: str
    room: str
    container: bool
    things: list[Thing] = field(default_factory=list)
    is_open: bool = False

    @property
    def seen(self) -> list[Thing]:
        """The things that someone in the room sees there."""
        if self.container and not self.is_open:
            return []
        return sorted(self.things, key=lambda thing: thing.number)


@dataclass(eq=False)
class ObjectHome:
    """A home of objects, in which an agent acts."""

    rooms: list[str]
    places: list[Place]
    wanted: list[tuple[str, str, int]]
    hands: int
    room: str
    at: Place | None = None
    held: list[Thing] = field(default_factory=list)

    @classmethod
    def of(cls, rules: Rules, state: State) -> ObjectHome:
        """The home of a start."""
        home = rules.home
        places = [
            Place(
                place.name,
                home.rooms[place.room],
                place.container,
                [Thing(rules.things[number], number) for number in things],
            )
            for place, things in zip(home.places, state.places, strict=True)
        ]
        goal = [tuple(fact) for fact in rules.goal]
        return cls(list(home.rooms), places, goal, rules.hands, home.rooms[state.room])

    def copy(self) -> ObjectHome:
        """A copy that can be changed. Nobody holds anything yet, or is close to anything."""
        places = [
            Place(place.name, place.room, place.container, list(place.things), place.is_open)
            for place in self.places
        ]
        return ObjectHome(self.rooms, places, self.wanted, self.hands, self.room)

    def actions(self) -> list[tuple[str, Place | Thing | str]]:
        """The possible actions."""
        found: list[tuple[str, Place | Thing | str]] = [
            ("room", room) for room in self.rooms if room != self.room
        ]
        here = self.at.seen if self.at else []
        known = {thing.name for thing in here}
        for place in self.places:
            if place.room == self.room and place is not self.at:
                found.append(("place", place))
                for thing in place.seen:
                    if thing.name not in known:
                        known.add(thing.name)
                        found.append(("place", place))
        if self.at is None:
            return found
        if self.at.container:
            found.append(("turn", self.at))
        if len(self.held) < self.hands:
            found += [("grab", thing) for thing in {thing.name: thing for thing in here}.values()]
        if not self.at.container or self.at.is_open:
            found += [
                ("put", thing) for thing in {thing.name: thing for thing in self.held}.values()
            ]
        return found

    def act(self, action: tuple[str, Place | Thing | str]) -> None:
        """Carries out a possible action."""
        match action:
            case ("room", str(room)):
                self.room, self.at = room, None
            case ("place", Place() as place):
                self.at = place
            case ("turn", Place() as place):
                place.is_open = not place.is_open
            case ("grab", Thing() as thing):
                assert self.at is not None
                self.at.things.remove(thing)
                self.held = sorted([*self.held, thing], key=lambda thing: thing.number)
            case ("put", Thing() as thing):
                assert self.at is not None
                self.held.remove(thing)
                self.at.things.append(thing)

    def won(self) -> bool:
        """Whether the goal is reached."""
        return all(
            sum(thing.name == name for thing in place.things) >= count
            for name, where, count in self.wanted
            for place in self.places
            if place.name == where
        )

    def rollout(self, draw: Callable[[], float], *, depth: int) -> float:
        """1 if the goal is reached within so many actions, 0 if it is not."""
        now = self.copy()
        for _ in range(depth):
            actions = now.actions()
            now.act(actions[int(draw() * len(actions))])
            if now.won():
                return 1.0
        return 0.0
