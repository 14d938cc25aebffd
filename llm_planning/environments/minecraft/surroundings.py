"""Exploring: where one gets, and what comes into view there.

Exploring goes in legs of 50 blocks, each of which shows what is within 32 blocks, the radius of a
record of the state (Tree of Options, Appendix A.1). `surroundings_tables` has what is met where.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import cos, pi, sin
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_planning.environments.minecraft.surroundings_tables import (
    BIOMES,
    DEEP,
    LAVA_LEVEL,
    LEG,
    ORES,
    STAY,
    STONES,
)
from llm_planning.environments.minecraft.vocabulary import ENTITIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from llm_planning.environments.minecraft.state import State
    from llm_planning.environments.minecraft.surroundings_tables import Chances

Position: TypeAlias = tuple[float, float, float]

MOST_LEGS: Final = 4
"""Legs of one option: what it looks for is found by then, or it gives up."""

SURFACE: Final = 64.0
"""The y coordinate of open ground, in blocks."""

WALK_TICKS: Final = LEG / 4.317 * 20
"""Time of a leg on the surface, in ticks, at 4.317 blocks a second; a second has 20 ticks."""

WALK_EXHAUSTION: Final = 10 * 0.05
"""Of a leg on the surface: a jump every five blocks; walking itself exhausts nobody."""

DIG_TICKS: Final[Mapping[str, int]] = {
    "golden_pickaxe": 4,
    "diamond_pickaxe": 6,
    "iron_pickaxe": 8,
    "stone_pickaxe": 12,
    "wooden_pickaxe": 23,
}
"""Pickaxe -> time it takes to break stone, in ticks; the fastest first."""

DIG_EXHAUSTION: Final = 0.005
"""Of breaking one block."""

TUNNEL_HEIGHT: Final = 2
"""Blocks to break for each block of tunnel or stairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A place and what is seen there.

    Attributes:
        biome: of the place.
        position: (x, y, z), in blocks.
        blocks: kinds of block in view.
        entities: kinds of entity in view, nearest first.
    """

    biome: str
    position: Position
    blocks: tuple[str, ...]
    entities: tuple[str, ...] = ()

    def shows(self, target: str) -> bool:
        """Whether a block, an entity or a biome is here."""
        return target == self.biome or target in self.blocks or target in self.entities


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Some legs.

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
        blocks=state.nearby_blocks,
        entities=state.nearby_entities,
    )


def on_surface(target: str) -> bool:
    """Whether a walk can find a block, an entity or a biome of this name."""
    return target in _ON_SURFACE


def below_ground(target: str) -> bool:
    """Whether a tunnel can find a block of this name."""
    return target in _LEVELS


def explore(state: State, target: str, *, pickaxe: str | None, draw: Random) -> Walk:
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
    digs = pickaxe is not None and target in _LEVELS
    level = min(_LEVELS[target], y) if digs else SURFACE
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
    return Walk(end=end, ticks=ticks, exhaustion=exhaustion)


def _next_biome(biome: str, draw: Random) -> str:
    if biome in BIOMES and draw.random() < STAY:
        return biome
    others = [name for name in BIOMES if name != biome]
    (following,) = draw.choices(others, [BIOMES[name].share for name in others])
    return following


def _on_surface(biome: str, place: Position, draw: Random) -> View:
    blocks = (*BIOMES[biome].blocks, *_met(BIOMES[biome].maybe, draw))
    entities = [name for name, chance in _ANIMALS[biome].items() if draw.random() < chance]
    draw.shuffle(entities)
    return View(
        biome=biome,
        position=place,
        blocks=tuple(dict.fromkeys(blocks)),
        entities=tuple(entities),
    )


def _below_ground(biome: str, place: Position, draw: Random) -> View:
    blocks = ("stone", *_met(_chances_at(place[1]), draw))
    return View(biome=biome, position=place, blocks=blocks)


@lru_cache
def _chances_at(y: float) -> Chances:
    ores: Chances = {(name,): ore.chance for name, ore in ORES.items() if y < ore.below}
    return {**STONES, **ores, **(DEEP if y <= LAVA_LEVEL else {})}


def _met(chances: Chances, draw: Random) -> Iterable[str]:
    for kinds, chance in chances.items():
        if draw.random() < chance:
            yield from kinds


_ANIMALS: Final[Mapping[str, Mapping[str, float]]] = {
    name: {
        **{animal: biome.herd_chance(animal) for animal in biome.herds if animal in ENTITIES},
        **biome.swimmers,
    }
    for name, biome in BIOMES.items()
}

_ON_SURFACE: Final = frozenset(
    name
    for biome_name, biome in BIOMES.items()
    for name in (
        biome_name,
        *biome.blocks,
        *(kind for kinds in biome.maybe for kind in kinds),
        *_ANIMALS[biome_name],
    )
)

_LEVELS: Final[Mapping[str, float]] = {
    **{
        kind: ORES["coal_ore"].level
        for kinds in STONES
        for kind in kinds
        if kind not in _ON_SURFACE
    },
    **{kind: LAVA_LEVEL for kinds in DEEP for kind in kinds},
    **{name: ore.level for name, ore in ORES.items()},
}
