"""What an agent sees, as a key and as English sentences.

Source: LLM-MCTS, Section 2.1 and Appendix A.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from llm_planning.environments.household.goals import NUMBERS
from llm_planning.environments.household.names import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_planning.environments.household.rules import Rules, State


class Observation(NamedTuple):
    """What an agent sees. Two are equal if they agree on all but things that no goal names.

    A tree keyed by all that is seen would have a node of its own for every simulation. Numbers are
    those of `State`.

    Attributes:
        room: where the agent is.
        at: the place that it is close to.
        held: things in its hands.
        wanted: (place, thing) of the goal's things in sight.
        shown: (place, all of its things) of each place in sight: surfaces, and open containers.
            Which places these are is part of the key, the things are not.
    """

    room: int
    at: int
    held: tuple[int, ...]
    wanted: tuple[tuple[int, int], ...]
    shown: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def key(self) -> tuple[object, ...]:
        """What is compared."""
        return *self[:4], tuple(place for place, _ in self.shown)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Observation) and self.key == other.key

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.key)


def observation_text(observation: Observation, rules: Rules) -> str:
    """An observation in English."""
    home = rules.home
    shown = dict(observation.shown)
    close = f", close to the {home.places[observation.at].name}" if observation.at >= 0 else ""
    sentences = [
        f"You are in the {home.rooms[observation.room]}{close}.",
        f"You hold {_things(observation.held, rules) or 'nothing'}.",
        *(_place_text(place, shown.get(place), rules) for place in rules.rooms[observation.room]),
    ]
    return " ".join(sentences)


def state_text(state: State, rules: Rules) -> str:
    """A complete state in English, room by room."""
    home = rules.home
    close = f", close to the {home.places[state.at].name}" if state.at >= 0 else ""
    paragraphs = [f"You are in the {home.rooms[state.room]}{close}. You hold "]
    paragraphs[0] += f"{_things(state.held, rules) or 'nothing'}."
    opened = state.opened | rules.always_seen
    for room, places in zip(home.rooms, rules.rooms, strict=True):
        lines = (
            _place_text(place, state.places[place], rules, closed=not opened >> place & 1)
            for place in places
        )
        paragraphs.append(
            f"In the {room}: {' '.join(lines)}" if places else f"The {room} is empty."
        )
    return "\n".join(paragraphs)


def _place_text(
    place: int, things: tuple[int, ...] | None, rules: Rules, *, closed: bool = False
) -> str:
    """A place in words; `things` is None for a container that hides them."""
    there = rules.home.places[place]
    if things is None:
        return f"The {there.name} is closed."
    if not there.container:
        return f"On the {there.name}: {_things(things, rules) or 'nothing'}."
    condition = "closed" if closed else "open"
    return f"The {there.name} is {condition}; inside: {_things(things, rules) or 'nothing'}."


def _things(things: Iterable[int], rules: Rules) -> str:
    """Things in words, such as "an apple, two plates"; empty for none."""
    every = tuple(things)
    return ", ".join(
        _counted(every.count(thing), rules.things[thing]) for thing in dict.fromkeys(every)
    )


def _counted(count: int, name: str) -> str:
    if count > 1:
        return f"{NUMBERS[count]} {plural(name)}"
    if plural(name) == name:
        return name
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
