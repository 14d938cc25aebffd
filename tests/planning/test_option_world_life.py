from dataclasses import replace
from itertools import chain
from random import Random
from statistics import mean

import pytest
from option_worlds import WORLD, option, outcomes

from llm_planning.environments.minecraft.options import vocabulary
from llm_planning.environments.minecraft.options.state import Change, Effect
from llm_planning.environments.minecraft.options.surroundings import (
    LEVELS,
    MOST_LEGS,
    ON_SURFACE,
    SIGHT,
    WALK_TICKS,
    explore,
)
from llm_planning.environments.minecraft.options.tables import BIOMES, KILLED, ORES, STOCK
from llm_planning.environments.minecraft.options.tasks import PLAINS
from llm_planning.environments.minecraft.options.world import (
    DARK,
    TIMES,
    later,
    live,
    suffered,
)

NIGHT = replace(PLAINS, time="night")
ARMED = replace(NIGHT, inventory={"stone_sword": 1})


class Rigged:
    """A random generator that always draws the same fraction and the largest number."""

    def __init__(self, fraction):
        self._fraction = fraction

    def random(self):
        return self._fraction

    def randint(self, least, most):
        return most

    def choice(self, sequence):
        return sequence[0]


ALWAYS = Rigged(0.0)
NEVER = Rigged(0.9999)


# time


def test_a_day_has_24000_ticks():
    assert sum(TIMES.values()) == 24_000
    assert tuple(TIMES) == vocabulary.TIMES
    assert set(DARK) <= set(TIMES)


def test_time_moves_by_chance_and_on_average_right():
    assert later("sunset", 500, Rigged(0.49)) == "night"
    assert later("sunset", 500, Rigged(0.5)) == "sunset"
    # 1,000 of sunset pass for certain; of the next 600 ticks, 0.12 of the night are left.
    assert later("sunset", 1_600, Rigged(0.1)) == "midnight"
    assert later("sunset", 1_600, Rigged(0.2)) == "night"
    assert later("day", 0, ALWAYS) == "day"
    assert later("teatime", 500, ALWAYS) == "teatime"
    draw = Random(0)
    moved = mean(later("day", 1_000, draw) == "noon" for _ in range(4_000))
    assert moved == pytest.approx(0.2, abs=0.02)


# health, hunger


@pytest.mark.parametrize(
    ("material", "damage", "through"),
    [
        (None, 3, 3.0),
        # 7 points: max(1.4, 7 - 1.5) = 5.5 of 25.
        ("leather", 3, 2.34),
        # 20 points against 40: max(4, 0) = 4 of 25.
        ("diamond", 40, 33.6),
    ],
)
def test_armour(material, damage, through):
    pieces = ("helmet", "chestplate", "leggings", "boots")
    worn = tuple(None if material is None else f"{material}_{piece}" for piece in pieces)
    assert suffered(damage, (*worn, None, None)) == pytest.approx(through)


def test_a_night_without_a_sword():
    # A zombie, three blows of 3 each; then 2 of hunger above 18 heal 2 / 1.5 = 1.33.
    hour = live(NIGHT, Effect(ticks=1_000), draw=ALWAYS)
    assert hour.monster == "zombie"
    assert hour.health == pytest.approx(20 - 9 + 4 / 3, abs=0.01)
    assert hour.hunger == pytest.approx(18)


def test_a_sword_helps():
    assert live(ARMED, Effect(ticks=100), draw=ALWAYS).health == pytest.approx(20 - 3 + 100 / 80)


@pytest.mark.parametrize(
    ("state", "ticks", "comes"),
    [
        (NIGHT, 1_000, True),
        (NIGHT, 900, False),
        (PLAINS, 100_000, False),
        (replace(PLAINS, position=(0.0, 11.0, 0.0)), 4_000, True),
        (replace(PLAINS, position=(0.0, 11.0, 0.0)), 3_000, False),
    ],
)
def test_when_a_monster_comes(state, ticks, comes):
    # In the dark 0.1 in 1,000 ticks, below ground 0.03.
    hour = live(state, Effect(ticks=ticks), draw=Rigged(0.095))
    assert (hour.monster is not None) is comes


def test_hunger():
    tired = live(PLAINS, Effect(ticks=10, exhaustion=6.0), draw=NEVER)
    assert (tired.health, tired.hunger, tired.meal) == (20, 18.5, None)
    hurt = replace(PLAINS, health=10.0)
    assert live(hurt, Effect(ticks=80), draw=NEVER).health == 11
    assert live(replace(hurt, hunger=18.0), Effect(ticks=80), draw=NEVER).health == 10
    starving = replace(PLAINS, hunger=0.0)
    assert live(starving, Effect(ticks=160), draw=NEVER).health == 18
    assert live(starving, Effect(ticks=16_000), draw=NEVER).health == 1


def test_the_hungry_eat_the_most_filling():
    hungry = replace(PLAINS, hunger=6.0, inventory={"apple": 1, "beef": 2, "bread": 1})
    hour = live(hungry, Effect(ticks=10), draw=NEVER)
    assert (hour.meal, hour.hunger) == ("bread", 11)
    used_up = Effect(ticks=10, change=Change(lost={"bread": 1}))
    assert live(hungry, used_up, draw=NEVER).meal == "apple"
    outcome = WORLD.step(hungry, option("mine 1 dirt"))
    assert outcome.change.lost == {"bread": 1}
    assert outcome.state.inventory == {"apple": 1, "beef": 2, "dirt": 1}


def test_death_loses_everything():
    weak = replace(
        NIGHT,
        health=0.5,
        inventory={"diamond": 1},
        equipment=(None, None, None, None, "diamond", None),
        position=(300.0, 64.0, 10.0),
    )
    ends = outcomes(weak, "find 1 sheep", 400)
    dead = [outcome for outcome in ends if "killed by a" in (outcome.obstacle or "")]
    assert 10 <= len(dead) <= 60
    for outcome in dead:
        x, y, z = outcome.state.position
        assert max(abs(x), abs(z)) <= 10
        assert y == 64
        assert outcome.state == replace(
            PLAINS, time=outcome.state.time, position=outcome.state.position
        )
        assert outcome.change.lost == {"diamond": 1}
        assert outcome.change.health == 20
    assert len({outcome.state.position for outcome in dead}) == len(dead)


# surroundings


def test_only_known_words_are_shown():
    assert tuple(BIOMES) == vocabulary.BIOMES
    assert set(KILLED) == set(vocabulary.ENTITIES)
    for name in BIOMES:
        for seed in range(30):
            state = replace(PLAINS, biome=name)
            end = explore(state, "", pickaxe=None, draw=Random(seed)).end
            assert set(end.blocks) <= set(vocabulary.BLOCKS)
            assert set(end.entities) <= set(vocabulary.ENTITIES)


def test_rates_follow_from_the_generator():
    # 20 veins, 1,000 blocks searched, 256 · 64 blocks of chunk.
    assert ORES["iron_ore"].rate == pytest.approx(1.2207, abs=1e-4)
    # 1,000 / 4,096.
    assert ORES["diamond_ore"].rate == pytest.approx(0.2441, abs=1e-4)
    # 12.5 chunks, a group in every tenth, 8 of 46 are cows.
    assert BIOMES["plains"].rate("cow") == pytest.approx(0.2174, abs=1e-4)
    # One group or more with a chance of 0.5.
    assert BIOMES["river"].rate("salmon") == pytest.approx(0.6931, abs=1e-4)


@pytest.mark.parametrize(
    ("ore", "highest"),
    [("iron_ore", 64), ("lava", 12)],
)
def test_ores_lie_deep(ore, highest):
    ends = [
        explore(PLAINS, ore, pickaxe="stone_pickaxe", draw=Random(seed)).end for seed in range(50)
    ]
    assert any(ore in end.blocks for end in ends)
    assert all(end.position[1] < highest for end in ends)
    assert all("stone" in end.blocks and "grass_block" not in end.blocks for end in ends)


def test_what_is_seen_is_as_likely_as_it_says():
    legs = [explore(PLAINS, "", pickaxe=None, draw=Random(seed)).end for seed in range(3_000)]
    plains = [end for end in legs if end.biome == "plains"]
    assert len(plains) / len(legs) == pytest.approx(0.75, abs=0.03)
    # 1 - exp(-0.2174), and four cows in each of 0.2174 groups.
    cows = [end.entities["cow"].number for end in plains if "cow" in end.entities]
    assert len(cows) / len(plains) == pytest.approx(0.1954, abs=0.03)
    assert sum(cows) / len(plains) == pytest.approx(4 * 0.2174, abs=0.12)
    assert set(cows) >= {4, 8}
    assert all(number % 4 == 0 for number in cows)


def test_what_is_seen_is_counted():
    for seed in range(200):
        for target, pickaxe in (("", None), ("diamond_ore", "iron_pickaxe")):
            end = explore(PLAINS, target, pickaxe=pickaxe, draw=Random(seed)).end
            for kind, (number, distance) in (end.blocks | end.entities).items():
                least, _ = STOCK.get(kind, (1, 1))
                assert number >= least
                assert 1 <= distance <= SIGHT
            ores = {kind: end.blocks[kind].number for kind in ORES if kind in end.blocks}
            assert all(number % STOCK[kind][0] == 0 for kind, number in ores.items())


def test_everything_that_may_be_seen_has_a_number():
    """A kind without a number comes singly, which only suits placed blocks and monsters."""
    natural = {
        kind
        for kind in (*vocabulary.BLOCKS, *vocabulary.ENTITIES)
        if kind in ON_SURFACE or kind in LEVELS
    }
    assert set(STOCK) == natural - set(vocabulary.BIOMES)
    assert all(0 < least <= most for least, most in STOCK.values())
    for kind, (number, distance) in PLAINS.near.items():
        least, most = STOCK[kind]
        assert least <= number <= most
        assert 1 <= distance <= SIGHT


def test_a_walk_ends_where_its_target_is_seen():
    walks = [explore(PLAINS, "cow", pickaxe=None, draw=Random(seed)) for seed in range(200)]
    for walk in walks:
        legs = round(walk.ticks / WALK_TICKS)
        x, y, z = walk.end.position
        assert (x**2 + z**2) ** 0.5 == pytest.approx(50 * legs, abs=0.1)
        assert y == 64
        assert walk.end.shows("cow") or legs == MOST_LEGS
    assert {round(walk.ticks / WALK_TICKS) for walk in walks} == {1, 2, 3, 4}


def test_digging_takes_time_by_tool():
    slow, fast = (
        explore(PLAINS, "diamond_ore", pickaxe=tool, draw=Random(5)).ticks
        for tool in ("wooden_pickaxe", "diamond_pickaxe")
    )
    assert slow / fast == pytest.approx(23 / 6)
    # 53 blocks down and legs of 50, two blocks to break for each, 6 ticks a block.
    assert fast in [pytest.approx((53 + 50 * legs) * 2 * 6) for legs in (1, 2, 3, 4)]


def test_finding_moves_and_forgets():
    outcome = WORLD.step(PLAINS, option("find 1 surroundings"))
    state = outcome.state
    assert outcome.success
    assert state.position != PLAINS.position
    assert state.hunger == 20 - 0.5 / 4
    assert outcome.ticks == 232
    miner = replace(PLAINS, inventory={"iron_pickaxe": 1})
    below = WORLD.step(miner, option("find 1 redstone_ore")).state
    assert below.position[1] == 12
    assert "grass_block" not in below.nearby_blocks
    above = WORLD.step(below, option("find 1 grass_block")).state
    assert above.position[1] == 64


def test_finding_what_is_near_does_nothing():
    for word in ("pig", "coal_ore", "plains"):
        outcome = WORLD.step(PLAINS, option(f"find 1 {word}"))
        assert outcome.success
        assert outcome.state == PLAINS
        assert outcome.change == Change()
        assert outcome.ticks == 0


def test_what_cannot_be_found():
    """Every word of the vocabulary can be found, comes by itself, or is made."""
    natural = chain(vocabulary.BLOCKS, vocabulary.ENTITIES, vocabulary.BIOMES)
    missing = {word for word in natural if word not in ON_SURFACE and word not in LEVELS}
    crafted = {
        "cobblestone",
        "crafting_table",
        "furnace",
        "chest",
        "torch",
        "campfire",
        "white_bed",
    }
    coming = {"villager", "zombie", "skeleton", "creeper", "spider"}
    assert missing == {"oak_sapling", *crafted, *coming}
