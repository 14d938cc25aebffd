"""Minecraft carried out option by option: what ToO's and DRIP's plans meet.

A state is the record of Appendix A.1 of Tree of Options, complete: the world keeps nothing else. A
step is a function: the same option in the same state of the same world leads to the same outcome,
whatever happened before. Its draws are seeded by the world's seed, the option, and of the state the
time, position, health, hunger and inventory: states that agree in these draw alike. States are
immutable, hence cloning is free, and they are read from and written to JSON as they are.

What the papers leave to the game itself is written down where it is decided: `surroundings` (what
is where), `option_loot` (what things give), `option_life` (hunger, monsters, time) and
`option_verbs` (what an option needs and does, and when it need not be carried out).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from random import Random
from struct import pack
from typing import TYPE_CHECKING, Any, Final

from llm_planning.environments.minecraft.option_life import live
from llm_planning.environments.minecraft.option_rules import OptionRules, holds
from llm_planning.environments.minecraft.option_verbs import DONE, VERBS
from llm_planning.environments.minecraft.state import Change, Sighting
from llm_planning.environments.minecraft.surroundings import arrival, sighting, view
from llm_planning.environments.minecraft.tasks import PLAINS
from llm_planning.names import remedy

if TYPE_CHECKING:
    from llm_planning.environments.minecraft.option_effects import Attempt, Effect
    from llm_planning.environments.minecraft.option_language import Option
    from llm_planning.environments.minecraft.option_life import Hour
    from llm_planning.environments.minecraft.option_rules import Reading
    from llm_planning.environments.minecraft.rulebook import RuleBook
    from llm_planning.environments.minecraft.state import Equipment, State
    from llm_planning.environments.minecraft.tasks import Task

MOST: Final = 64
"""Largest quantity of an option: a stack."""

SPAWN_RADIUS: Final = 10.0
"""A player begins again within so many blocks of the start, along x and z."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of an option.

    Attributes:
        state: after it.
        obstacle: why the option was not carried out, or fell short; None if all of it was done.
        change: the difference to the state before, as far as a `Change` can say it. What it cannot
            say, only `state` does: x and z, what is worn no longer.
        ticks: how long it took; a second has 20. 0 where the option was infeasible.
    """

    state: State
    obstacle: str | None = None
    change: Change = field(default_factory=Change)
    ticks: int = 0

    @property
    def success(self) -> bool:
        """Whether all of the option was done."""
        return self.obstacle is None


class OptionWorld:
    """The world of one seed.

    Args:
        book: recipes and tools.
        seed: of everything that is drawn.
        options: what one craft may do.
        spawn: a player who died begins again beside its position, with nothing but its
            surroundings; the time of day goes on.
    """

    def __init__(
        self, book: RuleBook, *, seed: int, options: Reading = "folded", spawn: State = PLAINS
    ) -> None:
        self._rules = OptionRules(book, options=options)
        self._seed = seed
        self._spawn = spawn

    def reseeded(self, seed: int) -> OptionWorld:
        """The same rules with other draws: for many seeds, the rules are laid out only once."""
        world = copy(self)
        world._seed = seed
        return world

    def feasible(self, state: State, option: Option) -> str | None:
        """What keeps an option from being carried out in a state.

        A feasible option may still fall short: nothing is seen on the way, a vein is small, the
        player dies.

        Returns:
            The obstacle in words; None if the option is feasible.
        """
        attempt = self._attempt(state, option)
        return attempt if isinstance(attempt, str) else None

    def done(self, state: State, option: Option) -> bool:
        """Whether the effect of an option holds already, whoever brought it about.

        An option may be done and feasible, or neither. One that nobody can carry out is never done.
        """
        test = DONE.get(option.verb)
        return (
            test is not None and 1 <= option.quantity <= MOST and test(self._rules, state, option)
        )

    def step(self, state: State, option: Option) -> Outcome:
        """Carries an option out.

        Returns:
            The outcome. Where the option is infeasible, its state is the given one.
        """
        attempt = self._attempt(state, option)
        if isinstance(attempt, str):
            return Outcome(state=state, obstacle=attempt)
        draw = _draws(self._seed, state, option)
        effect = attempt(draw)
        hour = live(state, effect, draw=draw)
        if hour.health <= 0:
            return replace(self._dead(state, hour, draw), ticks=round(effect.ticks))
        change = _change(state, effect, hour)
        return Outcome(
            state=_next(state, effect, change),
            obstacle=effect.shortfall,
            change=change,
            ticks=round(effect.ticks),
        )

    def achieved(self, state: State, task: Task) -> bool:
        """Whether a task's goal is reached."""
        return all(any(holds(state, item) for item in kinds) for kinds in task.wanted)

    def _attempt(self, state: State, option: Option) -> Attempt | str:
        verb = VERBS.get(option.verb)
        if verb is None:
            return f"unknown verb {option.verb!r}; {remedy(option.verb, VERBS)}"
        if state.health <= 0:
            return "the player is dead"
        if not 1 <= option.quantity <= MOST:
            return f"the quantity must be between 1 and {MOST}, not {option.quantity}"
        return verb(self._rules, state, option)

    def _dead(self, before: State, hour: Hour, draw: Random) -> Outcome:
        x, y, z = self._spawn.position
        # Somewhere else each time, or the same death would be met again and again.
        place = (x + _strayed(draw), y, z + _strayed(draw))
        spawn = replace(
            self._spawn, time=hour.time, position=place, inventory={}, equipment=_NOTHING_WORN
        )
        change = replace(
            arrival(before, view(spawn)),
            lost=dict(before.inventory),
            time=spawn.time,
            health=spawn.health,
            hunger=spawn.hunger,
        )
        obstacle = f"killed by a {hour.monster}; back at the start with nothing"
        return Outcome(state=spawn, obstacle=obstacle, change=change)


def _change(before: State, effect: Effect, hour: Hour) -> Change:
    """The effect of an option and of the time that it took."""
    change, new = effect.change, dict[str, Any]()
    if hour.meal is not None:
        new["lost"] = {**change.lost, hour.meal: change.lost.get(hour.meal, 0) + 1}
    if hour.monster is not None:
        new["entities"] = (*change.entities, hour.monster)
        known = hour.monster in before.nearby_entities
        there = sighting(before, hour.monster) if known else Sighting(0, 0)
        others = change.near.get(hour.monster, there).number
        # It comes right up, and stays.
        new["near"] = {**change.near, hour.monster: Sighting(others + 1, 1)}
    for name in ("time", "health", "hunger"):
        value = getattr(hour, name)
        if value != getattr(before, name):
            new[name] = value
    return replace(change, **new) if new else change


def _next(before: State, effect: Effect, change: Change) -> State:
    """The state after a change, with what a change cannot say."""
    state = before.apply(change)
    if effect.position is not None:
        state = replace(state, position=effect.position)
    if change.lost and any(item in change.lost for item in state.equipment):
        state = replace(state, equipment=_still_worn(state, change))
    return state


def _strayed(draw: Random) -> float:
    return round(draw.uniform(-SPAWN_RADIUS, SPAWN_RADIUS), 1)


def _still_worn(after: State, change: Change) -> Equipment:
    """The equipment without what left the inventory."""
    head, torso, legs, feet, hand, off_hand = (
        None if item in change.lost and item not in after.inventory else item
        for item in after.equipment
    )
    return (head, torso, legs, feet, hand, off_hand)


_NOTHING_WORN: Equipment = (None, None, None, None, None, None)


def _draws(seed: int, state: State, option: Option) -> Random:
    """The draws of one option in one state; from JSON or not, equal states draw alike."""
    words = f"{seed} {option.verb} {option.quantity} {option.item} {state.time}"
    belongings = sorted(state.inventory.items())
    numbers = pack("<5d", *state.position, state.health, state.hunger)
    digest = blake2b(f"{words} {belongings}".encode() + numbers, digest_size=8).digest()
    return Random(int.from_bytes(digest, "big"))
