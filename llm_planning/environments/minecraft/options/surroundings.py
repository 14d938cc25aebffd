"""Exploring: where the player gets, and what comes into view there.

The player explores in legs of 50 blocks. Each leg shows what is within 32 blocks, the radius of the
record of the state (Tree of Options, Appendix A.1). What comes into view, and how much of it, is
drawn at that moment from the tables of `tables`; from then on the state holds its number and
distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, exp, pi, sin
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_planning.environments.minecraft.options.state import Change, Sighting
from llm_planning.environments.minecraft.options.tables import (
    BIOMES,
    DEEP,
    LAVA_LEVEL,
    LEG,
    ORES,
    STAY,
    STOCK,
    STONES,
)
from llm_planning.environments.minecraft.options.vocabulary import ENTITIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from llm_planning.environments.minecraft.options.state import State
    from llm_planning.environments.minecraft.options.tables import Chances

Position: TypeAlias = tuple[float, float, float]

MOST_LEGS: Final = 4
"""The largest number of legs of one option. It gives up if its target is not in view by then."""

SURFACE: Final = 64.0
"""The y coordinate of open ground, in blocks."""

SIGHT: Final = 32
"""Blocks within which things are near."""

AT_HAND: Final = 8
"""Blocks within which a biome's common blocks always lie (our choice)."""

BLOCK_TICKS: Final = 20 / 4.317
"""Time to walk one block, in ticks, at 4.317 blocks a second; a second has 20 ticks."""

WALK_TICKS: Final = LEG * BLOCK_TICKS
"""Time of a leg on the surface, in ticks."""

WALK_EXHAUSTION: Final = 10 * 0.05
"""Exhaustion of a leg on the surface: a jump every five blocks. Walking itself costs nothing."""

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
    """A place and what is in view there.

    Attributes:
        position: (x, y, z), in blocks.
        blocks: kind of block in view -> its sighting.
        entities: kind of entity in view -> its sighting.
    """

    biome: str
    position: Position
    blocks: Mapping[str, Sighting]
    entities: Mapping[str, Sighting]

    def shows(self, target: str) -> bool:
        """Whether a block or an entity is in view, or the place is in a biome."""
        return target == self.biome or target in self.blocks or target in self.entities


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """Some legs of exploring.

    Attributes:
        end: the view at the end of the last leg.
        ticks: time that all legs took, in ticks.
        exhaustion: in the game's unit; 4 cost half a drumstick.
    """

    end: View
    ticks: float
    exhaustion: float


def view(state: State) -> View:
    """The view of the player in a state."""
    return View(
        biome=state.biome,
        position=state.position,
        blocks={kind: sighting(state, kind) for kind in state.nearby_blocks},
        entities={kind: sighting(state, kind) for kind in state.nearby_entities},
    )


def in_view(state: State, target: str) -> bool:
    """Whether a block or an entity is in view in a state, or the player in a biome."""
    return target in state.nearby_blocks or target in state.nearby_entities or target == state.biome


def sighting(state: State, kind: str) -> Sighting:
    """The sighting of a kind in view.

    A predicted kind may have no sighting. It then counts as the smallest number that lies together,
    at the edge of sight.
    """
    return state.near.get(kind) or Sighting(STOCK.get(kind, _ALONE)[0], SIGHT)


def arrival(before: State, there: View) -> Change:
    """The change for a player who goes elsewhere and leaves behind what was near."""
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
    """Goes in one direction until the target is in view, or for `MOST_LEGS` legs.

    Ores, and other things that are commoner below ground, are searched for in a tunnel on their own
    level, or deeper if the player is deeper already. Everything else is searched for on the
    surface.

    Args:
        target: a block, entity or biome; the empty string for one leg on the surface.
        pickaxe: to dig with; with None the player stays on the surface.
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
    """Draws what is in view by chance; kinds that come together are equally far."""
    seen: dict[str, Sighting] = {}
    for kinds, chance in chances.items():
        if draw.random() < chance:
            distance = draw.randint(1, SIGHT)
            for kind in kinds:
                seen[kind] = Sighting(_together(kind, draw), distance)
    return seen


def _lying(kinds: Iterable[str], draw: Random) -> dict[str, Sighting]:
    """Draws number and distance of what is always in view."""
    return {kind: Sighting(_together(kind, draw), draw.randint(1, AT_HAND)) for kind in kinds}


def _gathered(rates: Mapping[str, float], draw: Random) -> dict[str, Sighting]:
    """Draws herds or veins, as many as the game's generator puts there."""
    seen: dict[str, Sighting] = {}
    for kind, rate in rates.items():
        groups = _poisson(rate, draw)
        if groups:
            count = sum(_together(kind, draw) for _ in range(groups))
            seen[kind] = Sighting(count, draw.randint(1, SIGHT))
    return seen


def _together(kind: str, draw: Random) -> int:
    return between(*STOCK.get(kind, _ALONE), draw)


def between(least: int, most: int, draw: Random) -> int:
    """A number of a range, its ends included; of one number nothing is drawn."""
    return least if least == most else draw.randint(least, most)


def _poisson(rate: float, draw: Random) -> int:
    """A Poisson-distributed number with this mean, by inversion of one draw; at most 20.

    No rate here comes near 20. The bound ends the loop for a draw next to 1, for which rounding
    errors could keep it running.
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
"""Blocks, entities and biomes that can be found on the surface."""

LEVELS: Final[Mapping[str, float]] = {
    **{
        kind: ORES["coal_ore"].level for kinds in STONES for kind in kinds if kind not in ON_SURFACE
    },
    **{kind: LAVA_LEVEL for kinds in DEEP for kind in kinds},
    **{name: ore.level for name, ore in ORES.items()},
}
"""Blocks that can be found in a tunnel -> the y coordinate of the tunnel."""
