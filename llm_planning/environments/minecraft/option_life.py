"""What time does to a player: hunger, healing, monsters in the dark, the time of day.

Numbers are those of Minecraft Java Edition 1.16 on normal difficulty, unless they are called our
choice. A state knows the time of day by a word only, so the next word comes with the chance that
the option's ticks have in the length of this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from llm_planning.environments.minecraft.option_loot import FOOD
from llm_planning.environments.minecraft.surroundings import SURFACE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from llm_planning.environments.minecraft.option_effects import Effect
    from llm_planning.environments.minecraft.state import Equipment, State

TIMES: Final[Mapping[str, int]] = {
    "sunrise": 2_000,
    "day": 5_000,
    "noon": 6_000,
    "sunset": 1_000,
    "night": 5_000,
    "midnight": 5_000,
}
"""Time of the day -> its length in ticks, in order.

The words begin where the game's command for the time puts them: day at 1,000, noon at 6,000, night
at 13,000, midnight at 18,000; sunset (12,000) and sunrise (23,000) are where the sun is low.
"""

DARK: Final = ("night", "midnight")

ENCOUNTERS_IN_THE_OPEN: Final = 0.1
ENCOUNTERS_BELOW_GROUND: Final = 0.03
"""Monsters met in 1,000 ticks: on the surface in the dark, in a tunnel at any time (our choice)."""

MONSTERS: Final[Mapping[str, int]] = {"zombie": 3, "skeleton": 3, "spider": 2}
"""Monster -> damage of one blow, in half hearts; each is as likely as the others.

Creepers are left out: they kill outright or do nothing.
"""

BLOWS_UNARMED: Final = (1, 3)
BLOWS_ARMED: Final = (0, 1)
"""Least and most blows suffered in a fight, without and with a sword in the inventory (our choice).
"""

ARMOUR: Final[Mapping[str, tuple[int, int, int, int]]] = {
    "leather": (1, 3, 2, 1),
    "golden": (2, 5, 3, 1),
    "iron": (2, 6, 5, 2),
    "diamond": (3, 8, 6, 3),
}
"""Material -> armour points of helmet, chestplate, leggings and boots."""

EXHAUSTION_A_POINT: Final = 4.0
"""Exhaustion that takes half a drumstick. (Saturation, which comes before it, is left out.)"""

HEALS_FROM: Final = 18.0
"""Hunger down to which a player heals by themselves."""

HEAL_TICKS: Final = 80
"""Time to heal half a heart; as long to lose one when starving."""

HEAL_COST: Final = 6.0 / EXHAUSTION_A_POINT
"""Half drumsticks that half a heart costs: healing it is 6 of exhaustion."""

EATS_AT: Final = 6.0
"""Hunger at which the player eats one piece of what they carry, the most filling first.

No option says eat; this is what bots do by themselves (our choice)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """A player after some time.

    Attributes:
        time: of the day.
        health: in half hearts; 0 is death.
        hunger: in half drumsticks.
        monster: what came, if anything did.
        meal: what was eaten, if anything was.
    """

    time: str
    health: float
    hunger: float
    monster: str | None
    meal: str | None


def live(before: State, effect: Effect, *, draw: Random) -> Hour:
    """What happens while an option is carried out.

    Args:
        before: the state at its beginning.
        effect: of the option.
        draw: who comes, how the fight goes, whether the next time of day begins.
    """
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
        # On normal difficulty hunger takes all but the last half heart.
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
        equipment: as in `State`; p is the armour points of what is worn.
    """
    points = 0
    for slot, worn in enumerate(equipment[:4]):
        material = (worn or "").partition("_")[0]
        points += ARMOUR[material][slot] if material in ARMOUR else 0
    return damage * (1 - min(20.0, max(points / 5, points - damage / 2)) / 25)


def later(time: str, ticks: float, draw: Random) -> str:
    """The time of day after some ticks; an unknown word stays."""
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
    """The most filling food that was held before the option and is not used up by it."""
    lost = effect.change.lost
    left = (food for food in FOOD if before.inventory.get(food, 0) > lost.get(food, 0))
    return next(left, None)


def _armed(state: State) -> bool:
    return any(
        item.endswith("_sword") for item in (*state.inventory, *filter(None, state.equipment))
    )


_AFTER: Final = dict(zip(TIMES, (*list(TIMES)[1:], next(iter(TIMES))), strict=True))
