"""Minecraft carried out option by option: what ToO's and DRIP's plans meet.

A state is the complete record of Appendix A.1 of Tree of Options: the world keeps nothing else. A
step is a function: the same option in the same state of the same world leads to the same outcome.
The random generator of a step is seeded with the world's seed, the option, and the time, position,
health, hunger and inventory of the state. States are immutable, so a clone costs nothing, and they
can be written as JSON.

The papers leave many decisions to the game. They are made in `surroundings` (what is where),
`tables` (what things give), `verbs` (what an option needs and does, and when it is
done already), and here (hunger, healing, monsters in the dark, the time of day). Numbers are those
of Minecraft Java Edition 1.16 on normal difficulty, unless they are called our choice. A state
gives the time of day as one word. The next word follows with probability ticks of the option /
length of the present time of day.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from random import Random
from struct import pack
from typing import TYPE_CHECKING, Any, Final

from llm_planning.environments.minecraft.options.option import MOST
from llm_planning.environments.minecraft.options.rules import OptionRules, holds
from llm_planning.environments.minecraft.options.state import Change, Sighting
from llm_planning.environments.minecraft.options.surroundings import (
    SURFACE,
    arrival,
    sighting,
    view,
)
from llm_planning.environments.minecraft.options.tables import FOOD
from llm_planning.environments.minecraft.options.tasks import PLAINS
from llm_planning.environments.minecraft.options.verbs import VERBS
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.environments.minecraft.book.rulebook import RuleBook
    from llm_planning.environments.minecraft.options.option import Option
    from llm_planning.environments.minecraft.options.rules import CraftMode
    from llm_planning.environments.minecraft.options.state import Attempt, Effect, Equipment, State
    from llm_planning.environments.minecraft.options.tasks import Task

SPAWN_RADIUS: Final = 10.0
"""A player who died begins again within this many blocks of the start, along x and along z."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionOutcome:
    """The result of an option.

    Attributes:
        state: after the option.
        obstacle: why nothing or only a part of the option was done; None if all of it was done.
        change: the difference to the state before, except what a `Change` cannot express: x and z,
            and equipment that is no longer worn.
        ticks: how long the option took; a second has 20. An infeasible option takes 0.
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

    After a death a player begins again near the start, with bare hands and at the time of day of
    the death.
    """

    def __init__(self, book: RuleBook, *, seed: int, options: CraftMode = "folded") -> None:
        self._rules = OptionRules(book, options=options)
        self._seed = seed

    def reseeded(self, seed: int) -> OptionWorld:
        """A world of the same rules with another seed; both share the layout of the rules."""
        world = copy(self)
        world._seed = seed
        return world

    def feasible(self, state: State, option: Option) -> str | None:
        """The obstacle that keeps an option from being carried out in a state.

        A feasible option may still be done only in part: nothing comes into view, a vein is small,
        or the player dies.

        Returns:
            The obstacle in words; None if the option is feasible.
        """
        attempt = self._attempt(state, option)
        return attempt if isinstance(attempt, str) else None

    def done(self, state: State, option: Option) -> bool:
        """Whether the effect of an option holds already, whatever brought it about.

        An option can be both done and feasible, or neither. An option that no state allows is never
        done.
        """
        verb = VERBS.get(option.verb)
        return (
            verb is not None
            and 1 <= option.quantity <= MOST
            and verb.done(self._rules, state, option)
        )

    def step(self, state: State, option: Option) -> OptionOutcome:
        """Carries an option out.

        Returns:
            The outcome; the state of an infeasible option is the given state.
        """
        attempt = self._attempt(state, option)
        if isinstance(attempt, str):
            return OptionOutcome(state=state, obstacle=attempt)
        draw = _draws(self._seed, state, option)
        effect = attempt(draw)
        hour = live(state, effect, draw=draw)
        if hour.health <= 0:
            return replace(self._dead(state, hour, draw), ticks=round(effect.ticks))
        change = _change(state, effect, hour)
        return OptionOutcome(
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
        return verb.use(self._rules, state, option)

    def _dead(self, before: State, hour: Hour, draw: Random) -> OptionOutcome:
        x, y, z = PLAINS.position
        # The draws depend on the place, so at the same place the same death would recur.
        place = (x + _strayed(draw), y, z + _strayed(draw))
        spawn = replace(
            PLAINS, time=hour.time, position=place, inventory={}, equipment=_NOTHING_WORN
        )
        change = replace(
            arrival(before, view(spawn)),
            lost=dict(before.inventory),
            time=spawn.time,
            health=spawn.health,
            hunger=spawn.hunger,
        )
        obstacle = f"killed by a {hour.monster}; back at the start with nothing"
        return OptionOutcome(state=spawn, obstacle=obstacle, change=change)


def _change(before: State, effect: Effect, hour: Hour) -> Change:
    """The change by an option and by the time that it took."""
    change, new = effect.change, dict[str, Any]()
    if hour.meal is not None:
        new["lost"] = {**change.lost, hour.meal: change.lost.get(hour.meal, 0) + 1}
    if hour.monster is not None:
        new["entities"] = (*change.entities, hour.monster)
        known = hour.monster in before.nearby_entities
        there = sighting(before, hour.monster) if known else Sighting(0, 0)
        others = change.near.get(hour.monster, there).number
        # A monster comes within one block and stays.
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
    """The random generator of one option in one state; equal states have equal generators."""
    words = f"{seed} {option.verb} {option.quantity} {option.item} {state.time}"
    belongings = sorted(state.inventory.items())
    numbers = pack("<5d", *state.position, state.health, state.hunger)
    digest = blake2b(f"{words} {belongings}".encode() + numbers, digest_size=8).digest()
    return Random(int.from_bytes(digest, "big"))


TIMES: Final[Mapping[str, int]] = {
    "sunrise": 2_000,
    "day": 5_000,
    "noon": 6_000,
    "sunset": 1_000,
    "night": 5_000,
    "midnight": 5_000,
}
"""Time of the day -> its length in ticks, in order.

The game's command for the time puts day at 1,000, noon at 6,000, night at 13,000 and midnight at
18,000. Sunset begins at 12,000 and sunrise at 23,000, when the sun is low.
"""

DARK: Final = ("night", "midnight")

ENCOUNTERS_IN_THE_OPEN: Final = 0.1
ENCOUNTERS_BELOW_GROUND: Final = 0.03
"""Mean number of monsters in 1,000 ticks: on the surface in the dark, and in a tunnel at any time
(our choice)."""

MONSTERS: Final[Mapping[str, int]] = {"zombie": 3, "skeleton": 3, "spider": 2}
"""Monster -> damage of one blow, in half hearts; all monsters are equally likely.

Creepers are left out, because they either kill at once or do nothing.
"""

BLOWS_UNARMED: Final = (1, 3)
BLOWS_ARMED: Final = (0, 1)
"""Smallest and largest number of blows in a fight, without and with a sword (our choice)."""

ARMOUR: Final[Mapping[str, tuple[int, int, int, int]]] = {
    "leather": (1, 3, 2, 1),
    "golden": (2, 5, 3, 1),
    "iron": (2, 6, 5, 2),
    "diamond": (3, 8, 6, 3),
}
"""Material -> armour points of helmet, chestplate, leggings and boots."""

EXHAUSTION_A_POINT: Final = 4.0
"""Exhaustion that costs half a drumstick. (Saturation, which is used first, is left out.)"""

HEALS_FROM: Final = 18.0
"""A player with more hunger points than this heals without eating."""

HEAL_TICKS: Final = 80
"""Time to heal half a heart, or to lose one when starving, in ticks."""

HEAL_COST: Final = 6.0 / EXHAUSTION_A_POINT
"""Half drumsticks that healing half a heart costs; it takes 6 of exhaustion."""

EATS_AT: Final = 6.0
"""Hunger at which the player eats one piece of the most filling food in the inventory.

There is no option to eat: bots eat without being told (our choice)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """The player after the time that an option took.

    Attributes:
        time: of the day.
        health: in half hearts; 0 is death.
        hunger: in half drumsticks.
        monster: the monster that came; None if none came.
        meal: the food that was eaten; None if none was.
    """

    time: str
    health: float
    hunger: float
    monster: str | None
    meal: str | None


def live(before: State, effect: Effect, *, draw: Random) -> Hour:
    """What happens to the player while an option is carried out."""
    _, y, _ = before.position if effect.position is None else effect.position
    monster = _encounter(before.time, y, effect.ticks, draw)
    health = before.health
    if monster is not None:
        least, most = BLOWS_ARMED if _armed(before) else BLOWS_UNARMED
        health -= draw.randint(least, most) * suffered(MONSTERS[monster], before.equipment)
    hunger = max(before.hunger - effect.exhaustion / EXHAUSTION_A_POINT, 0.0)
    if 0 < health < 20 and hunger > HEALS_FROM:
        healed = min(20 - health, effect.ticks / HEAL_TICKS, (hunger - HEALS_FROM) / HEAL_COST)
        health += healed
        hunger -= healed * HEAL_COST
    if hunger <= 0 < health:
        # On normal difficulty, starving leaves the last half heart.
        health = max(health - effect.ticks / HEAL_TICKS, min(health, 1.0))
    meal = _meal(before, effect) if hunger <= EATS_AT else None
    if meal is not None:
        hunger = min(hunger + FOOD[meal], 20.0)
    return Hour(
        time=later(before.time, effect.ticks, draw),
        health=round(max(health, 0.0), 2),
        hunger=round(max(hunger, 0.0), 4),
        monster=monster,
        meal=meal,
    )


def suffered(damage: float, equipment: Equipment) -> float:
    """Damage that armour lets through: damage · (1 - min(20, max(p / 5, p - damage / 2)) / 25).

    Args:
        damage: of a blow, in half hearts.
        equipment: as in `State`; p is the sum of the armour points of the pieces worn.
    """
    points = 0
    for slot, worn in enumerate(equipment[:4]):
        material = (worn or "").partition("_")[0]
        points += ARMOUR[material][slot] if material in ARMOUR else 0
    return damage * (1 - min(20.0, max(points / 5, points - damage / 2)) / 25)


def later(time: str, ticks: float, draw: Random) -> str:
    """The time of day after some ticks; an unknown word is returned unchanged."""
    while time in TIMES and draw.random() * TIMES[time] < ticks:
        ticks -= TIMES[time]
        time = _AFTER[time]
    return time


def _encounter(time: str, y: float, ticks: float, draw: Random) -> str | None:
    if y < SURFACE:
        rate = ENCOUNTERS_BELOW_GROUND
    elif time in DARK:
        rate = ENCOUNTERS_IN_THE_OPEN
    else:
        return None
    if draw.random() >= min(rate * ticks / 1_000, 1.0):
        return None
    return draw.choice(tuple(MONSTERS))


def _meal(before: State, effect: Effect) -> str | None:
    """The most filling food in the inventory that the option did not use up; None if none."""
    lost = effect.change.lost
    left = (food for food in FOOD if before.inventory.get(food, 0) > lost.get(food, 0))
    return next(left, None)


def _armed(state: State) -> bool:
    return any(
        item.endswith("_sword") for item in (*state.inventory, *filter(None, state.equipment))
    )


_AFTER: Final = dict(zip(TIMES, (*list(TIMES)[1:], next(iter(TIMES))), strict=True))
