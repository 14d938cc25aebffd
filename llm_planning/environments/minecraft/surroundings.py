"""Exploring: where one gets, and what comes into view there.

Exploring goes in legs of 50 blocks, each of which shows what is within 32 blocks, the radius of a
record of the state (Tree of Options, Appendix A.1). What is met where, and how much of it lies
together (`option_tables`), is drawn when it is seen; from then on the state says how many there are
and how far they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, exp, pi, sin
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_planning.environments.minecraft.option_tables import (
    BIOMES,
    DEEP,
    LAVA_LEVEL,
    LEG,
    ORES,
    STAY,
    STOCK,
    STONES,
)
from llm_planning.environments.minecraft.state import Change, Sighting
from llm_planning.environments.minecraft.vocabulary import ENTITIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from llm_planning.environments.minecraft.option_tables import Chances
    from llm_planning.environments.minecraft.state import State

Position: TypeAlias = tuple[float, float, float]

MOST_LEGS: Final = 4
"""The most legs of one option. It gives up if it has not found its target by then."""

SURFACE: Final = 64.0
"""The y coordinate of open ground, in blocks."""

SIGHT: Final = 32
"""Blocks within which things are near."""

AT_HAND: Final = 8
"""Blocks within which there is always some of what is all around (our choice)."""

BLOCK_TICKS: Final = 20 / 4.317
"""Time to walk one block, in ticks, at 4.317 blocks a second; a second has 20 ticks."""

WALK_TICKS: Final = LEG * BLOCK_TICKS
"""Time of a leg on the surface, in ticks."""

WALK_EXHAUSTION: Final = 10 * 0.05
"""Exhaustion of a leg on the surface: a jump every five blocks. Walking itself exhausts nobody."""

DIG_TICKS: Final[Mapping[str, int]] = {
    "golden_pickaxe": 4,
    "diamond_pickaxe": 6,
    "iron_pickaxe": 8,
    "stone_pickaxe": 12,
    "wooden_pickaxe": 23,
}
"""Pickaxe -> time it takes to break stone, in ticks; the fastest first."""

DIG_EXHAUSTION: Final = 0.005
"""Exhaustion of breaking one block."""

TUNNEL_HEIGHT: Final = 2
"""Blocks to break for each block of tunnel or stairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A place and what is seen there.

    Attributes:
        biome: of the place.
        position: (x, y, z), in blocks.
        blocks: kind of block in view -> how many and how far.
        entities: the same of entities.
    """

    biome: str
    position: Position
    blocks: Mapping[str, Sighting]
    entities: Mapping[str, Sighting]

    def shows(self, target: str) -> bool:
        """Whether a block, an entity or a biome is here."""
        return target == self.biome or target in self.blocks or target in self.entities


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """Some legs of exploring.

    Attributes:
        end: what the last of them shows.
        ticks: time they took, in ticks.
        exhaustion: as the game counts it; 4 take half a drumstick.
    """

    end: View
    ticks: float
    exhaustion: float


def view(state: State) -> View:
    """Where the player is, and what is in view there."""
    return View(
        biome=state.biome,
        position=state.position,
        blocks={kind: sighting(state, kind) for kind in state.nearby_blocks},
        entities={kind: sighting(state, kind) for kind in state.nearby_entities},
    )


def sighting(state: State, kind: str) -> Sighting:
    """How many of a kind in view there are, and how far they are.

    Of a kind that nobody counted, as a prediction may show it, there are the fewest that ever lie
    together, at the edge of sight.
    """
    return state.near.get(kind) or Sighting(STOCK.get(kind, _ALONE)[0], SIGHT)


def arrival(before: State, there: View) -> Change:
    """What changes for a player who is somewhere else now: all that was near is near no longer."""
    here = {**there.blocks, **there.entities}
    left = (*before.nearby_blocks, *before.nearby_entities)
    height = there.position[1]
    return Change(
        blocks=tuple(kind for kind in there.blocks if kind not in before.nearby_blocks),
        entities=tuple(kind for kind in there.entities if kind not in before.nearby_entities),
        near={**{kind: Sighting(0, 0) for kind in left if kind not in here}, **here},
        biome=None if there.biome == before.biome else there.biome,
        height=None if height == before.position[1] else height,
    )


def explore(state: State, target: str, *, pickaxe: str | None, draw: Random) -> Exploration:
    """Goes on in one direction until something is in view, or for `MOST_LEGS` legs.

    Ores, and other things that are commoner below ground, are looked for in a tunnel on their own
    level, or deeper where the player is deeper already; everything else on the surface.

    Args:
        state: where it begins.
        target: what can be found; the empty string for one leg on the surface.
        pickaxe: to dig with; without one the surface is all there is.
        draw: what is met.
    """
    heading = draw.uniform(0, 2 * pi)
    x, y, z = state.position
    digs = pickaxe is not None and target in LEVELS
    level = min(LEVELS[target], y) if digs else SURFACE
    ticks_a_block = TUNNEL_HEIGHT * DIG_TICKS[pickaxe] if pickaxe else 0
    stairs = abs(level - y)
    ticks = stairs * ticks_a_block
    exhaustion = stairs * TUNNEL_HEIGHT * DIG_EXHAUSTION
    biome = state.biome
    for _ in range(MOST_LEGS if target else 1):
        x += LEG * cos(heading)
        z += LEG * sin(heading)
        biome = _next_biome(biome, draw)
        place = (round(x, 1), level, round(z, 1))
        if level < SURFACE:
            end = _below_ground(biome, place, draw)
            ticks += LEG * ticks_a_block
            exhaustion += LEG * TUNNEL_HEIGHT * DIG_EXHAUSTION
        else:
            end = _on_surface(biome, place, draw)
            ticks += WALK_TICKS
            exhaustion += WALK_EXHAUSTION
        if end.shows(target):
            break
    return Exploration(end=end, ticks=ticks, exhaustion=exhaustion)


def _next_biome(biome: str, draw: Random) -> str:
    if biome in BIOMES and draw.random() < STAY:
        return biome
    others = [name for name in BIOMES if name != biome]
    (following,) = draw.choices(others, [BIOMES[name].share for name in others])
    return following


def _on_surface(biome: str, place: Position, draw: Random) -> View:
    blocks = {**_met(BIOMES[biome].maybe, draw), **_lying(BIOMES[biome].blocks, draw)}
    herds = _gathered(_ANIMALS[biome], draw)
    return View(biome=biome, position=place, blocks=blocks, entities=herds)


def _below_ground(biome: str, place: Position, draw: Random) -> View:
    y = place[1]
    veins = {name: ore.rate for name, ore in ORES.items() if y < ore.below}
    blocks = {
        **_lying(("stone",), draw),
        **_met(STONES, draw),
        **_gathered(veins, draw),
        **(_met(DEEP, draw) if y <= LAVA_LEVEL else {}),
    }
    return View(biome=biome, position=place, blocks=blocks, entities={})


def _met(chances: Chances, draw: Random) -> dict[str, Sighting]:
    """What is seen by chance; kinds that are seen together are equally far."""
    seen: dict[str, Sighting] = {}
    for kinds, chance in chances.items():
        if draw.random() < chance:
            distance = draw.randint(1, SIGHT)
            for kind in kinds:
                seen[kind] = Sighting(_together(kind, draw), distance)
    return seen


def _lying(kinds: Iterable[str], draw: Random) -> dict[str, Sighting]:
    """What is seen in any case."""
    return {kind: Sighting(_together(kind, draw), draw.randint(1, AT_HAND)) for kind in kinds}


def _gathered(rates: Mapping[str, float], draw: Random) -> dict[str, Sighting]:
    """Herds or veins, as many as the generator puts there."""
    seen: dict[str, Sighting] = {}
    for kind, rate in rates.items():
        groups = _poisson(rate, draw)
        if groups:
            count = sum(_together(kind, draw) for _ in range(groups))
            seen[kind] = Sighting(count, draw.randint(1, SIGHT))
    return seen


def _together(kind: str, draw: Random) -> int:
    least, most = STOCK.get(kind, _ALONE)
    return least if least == most else draw.randint(least, most)


def _poisson(rate: float, draw: Random) -> int:
    """A number with this mean, by inversion of one draw; at most 20, which no rate here comes to.

    The bound is for a draw next to 1, of which rounding would leave something for ever.
    """
    rest, number, share = draw.random(), 0, exp(-rate)
    while rest >= share and number < 20:
        rest -= share
        number += 1
        share *= rate / number
    return number


_ALONE: Final = (1, 1)

_ANIMALS: Final[Mapping[str, Mapping[str, float]]] = {
    name: {
        animal: biome.rate(animal)
        for animal in (*biome.herds, *biome.swimmers)
        if animal in ENTITIES
    }
    for name, biome in BIOMES.items()
}

ON_SURFACE: Final = frozenset(
    name
    for biome_name, biome in BIOMES.items()
    for name in (
        biome_name,
        *biome.blocks,
        *(kind for kinds in biome.maybe for kind in kinds),
        *_ANIMALS[biome_name],
    )
)
"""Blocks, entities and biomes that a walk can find."""

LEVELS: Final[Mapping[str, float]] = {
    **{
        kind: ORES["coal_ore"].level for kinds in STONES for kind in kinds if kind not in ON_SURFACE
    },
    **{kind: LAVA_LEVEL for kinds in DEEP for kind in kinds},
    **{name: ore.level for name, ore in ORES.items()},
}
"""What a tunnel can find -> the y coordinate at which it looks."""
