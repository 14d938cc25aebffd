"""The verbs of options: what each needs and does, and when its effect holds already.

A verb takes a state and an option and returns the obstacle in words, or, if the option is feasible,
an attempt that only needs a random generator. Items stay in the inventory while they are worn or in
hand, and a held item can be used without equipping it first. Tools do not wear out. To take
something that is near, the player goes to the nearest one of its kind and comes back. What is taken
is no longer near; the distance to the rest of its kind stays the same.

DRIP's check answers done, executable, or not (*DRIP*, Table 11); `DONE` gives the first answer. As
in DRIP, the resulting item counts and not the verb: planks that were found are planks. The check
does not know what the items are needed for, so an option can be done and yet needed once more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_planning.environments.minecraft.option_crafting import cook, craft, smelt, smelted
from llm_planning.environments.minecraft.option_rules import (
    FLUID_IN,
    GROUPS,
    OptionRules,
    article,
    has_tool,
    holds,
    unknown,
)
from llm_planning.environments.minecraft.option_tables import FLUIDS, KILLED, SHEARED
from llm_planning.environments.minecraft.rulebook import STATIONS
from llm_planning.environments.minecraft.state import Attempt, Change, Effect, Sighting, State
from llm_planning.environments.minecraft.surroundings import (
    BLOCK_TICKS,
    DIG_EXHAUSTION,
    DIG_TICKS,
    LEVELS,
    ON_SURFACE,
    arrival,
    explore,
    in_view,
    sighting,
)
from llm_planning.environments.minecraft.vocabulary import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from random import Random

    from llm_planning.environments.minecraft.option_language import Option
    from llm_planning.environments.minecraft.option_tables import Drop

Verb: TypeAlias = "Callable[[OptionRules, State, Option], Attempt | str]"
Test: TypeAlias = "Callable[[OptionRules, State, Option], bool]"

HAND_TICKS: Final = 20
"""Time to equip something, or to place one block, in ticks."""

ANYTHING: Final = ("", "surroundings")
"""The items of an option that explores without a target."""


MINE_TICKS: Final = 40
"""Time to break one block and pick up what it gives, in ticks."""

KILL_TICKS: Final = 100
ANIMAL_TICKS: Final = 60
FILL_TICKS: Final = 20
"""Time to kill one animal or monster, to shear or milk one, and to fill one bucket."""

KILL_EXHAUSTION: Final = 0.5
"""Exhaustion of one kill: five blows of 0.1."""

SHEEP: Final = "sheep"
SHEARS: Final = "shears"
SHEAR_WORDS: Final = (SHEEP, SHEARED[0])
"""The items that mean shearing a sheep."""

COW: Final = "cow"
MILK: Final = "milk_bucket"
MILK_WORDS: Final = (COW, "milk", MILK)
"""The items that mean milking a cow."""

_BUCKET = "bucket"
_REFILLS = "water"


def mine(rules: OptionRules, state: State, option: Option) -> Attempt | str:
    """Breaks blocks in view until `quantity` of the item are gained, or of the block are broken.

    Only the item that the option names is picked up. If several kinds of block give it, the player
    breaks one kind after the other and skips a kind whose tool is missing. If the blocks in view
    run out first, the option is done in part.
    """
    drops = rules.drops.get(option.item)
    if drops is None:
        return unknown(option.item, "no block gives {}")
    seen = [drop for drop in drops if drop.block in state.nearby_blocks]
    if not seen:
        return f"no {' or '.join(dict.fromkeys(drop.block for drop in drops))} nearby"
    fitting = [drop for drop in seen if has_tool(rules, state, drop.block)]
    if fitting:
        return lambda draw: _mined(state, fitting, option, draw)
    least, *better = rules.tools[seen[0].block]
    return f"{seen[0].block} needs {article(least)}{' or better' if better else ''}"


def kill(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Kills `quantity` of a kind, or all that are near if they are fewer, and takes the loot."""
    kind = option.item
    if kind not in KILLED:
        return unknown(kind, "{} is neither an animal nor a monster")
    if kind not in state.nearby_entities:
        return f"no {kind} nearby"

    def attempt(draw: Random) -> Effect:
        killed = min(option.quantity, sighting(state, kind).number)
        loot: Counter[str] = Counter()
        for _ in range(killed):
            for item, least, most in KILLED[kind]:
                loot[item] += _number(least, most, draw)
        return Effect(
            change=Change(gained=_positive(loot), near=_fewer(state, kind, killed)),
            ticks=_way(state, kind) + KILL_TICKS * killed,
            exhaustion=KILL_EXHAUSTION * killed,
            shortfall=_too_few(killed, option.quantity, kind),
        )

    return attempt


def shear(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Shears `quantity` sheep, each once: a shorn sheep runs off and is no longer near."""
    if option.item not in SHEAR_WORDS:
        return f"{option.item} cannot be shorn"
    if not holds(state, SHEARS):
        return f"needs {SHEARS}"
    if SHEEP not in state.nearby_entities:
        return f"no {SHEEP} nearby"

    def attempt(draw: Random) -> Effect:
        shorn = min(option.quantity, sighting(state, SHEEP).number)
        item, least, most = SHEARED
        wool = sum(_number(least, most, draw) for _ in range(shorn))
        return Effect(
            change=Change(gained=_positive({item: wool}), near=_fewer(state, SHEEP, shorn)),
            ticks=_way(state, SHEEP) + ANIMAL_TICKS * shorn,
            shortfall=_too_few(shorn, option.quantity, SHEEP),
        )

    return attempt


def milk(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Fills `quantity` buckets with milk; one cow fills any number."""
    if option.item not in MILK_WORDS:
        return f"{option.item} cannot be milked"
    if COW not in state.nearby_entities:
        return f"no {COW} nearby"
    obstacle = _too_few_buckets(state, option.quantity)
    if obstacle is not None:
        return obstacle
    change = Change(gained={MILK: option.quantity}, lost={_BUCKET: option.quantity})
    ticks = _way(state, COW) + ANIMAL_TICKS * option.quantity
    return lambda _: Effect(change=change, ticks=ticks)


def collect(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Fills `quantity` buckets with water, which flows back, or with lava, which does not."""
    full = FLUIDS.get(option.item, option.item)
    fluid = FLUID_IN.get(full)
    if fluid is None:
        return f"buckets collect {' or '.join(FLUIDS)}, not {option.item}"
    if fluid not in state.nearby_blocks:
        return f"no {fluid} nearby"
    obstacle = _too_few_buckets(state, option.quantity)
    if obstacle is not None:
        return obstacle
    filled = min(option.quantity, sighting(state, fluid).number)
    effect = Effect(
        change=Change(
            gained=_positive({full: filled}),
            lost=_positive({_BUCKET: filled}),
            near={} if fluid == _REFILLS else _fewer(state, fluid, filled),
        ),
        ticks=_way(state, fluid) + FILL_TICKS * filled,
        shortfall=_too_few(filled, option.quantity, fluid),
    )
    return lambda _: effect


def equip(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Puts on armour, or takes any other item in hand; the quantity is ignored."""
    if not holds(state, option.item):
        return f"needs {option.item} in the inventory"
    return lambda _: Effect(change=Change(equipped=option.item), ticks=HAND_TICKS)


def place(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Puts blocks from the inventory where they can be used and mined again."""
    item, count = option.item, option.quantity
    if item not in _PLACEABLE:
        return f"{item} cannot be placed"
    held = state.inventory.get(item, 0)
    if held < count:
        return f"needs {count} {item}, has {held}"
    known = item in state.nearby_blocks
    there = sighting(state, item).number if known else 0
    change = Change(
        lost={item: count},
        blocks=() if known else (item,),
        near={item: Sighting(there + count, 1)},
    )
    return lambda _: Effect(change=change, ticks=HAND_TICKS * count)


def find(rules: OptionRules, state: State, option: Option) -> Attempt | str:
    """Explores until a block, an entity or a biome is in view; see `surroundings.explore`.

    The verb `explore` does the same. Nothing happens if the target is in view already. The quantity
    is ignored, since a kind is either in view or not. The player leaves behind what was in view,
    but takes along a crafting table and, with a pickaxe, a furnace.
    """
    target = "" if option.item in ANYTHING else option.item
    pickaxe = next((tool for tool in DIG_TICKS if holds(state, tool)), None)
    if target and target not in ON_SURFACE and target not in LEVELS:
        return unknown(target, "{} is not found by exploring")
    if target and in_view(state, target):
        return lambda _: Effect(ticks=0)
    if target and target not in ON_SURFACE and pickaxe is None:
        return f"{target} lies below ground: needs a pickaxe"

    def attempt(draw: Random) -> Effect:
        walk = explore(state, target, pickaxe=pickaxe, draw=draw)
        found = not target or walk.end.shows(target)
        luggage: dict[str, int] = {
            station: sighting(state, station).number
            for station in STATIONS
            if station in state.nearby_blocks and has_tool(rules, state, station)
        }
        return Effect(
            change=replace(arrival(state, walk.end), gained=luggage),
            ticks=walk.ticks + MINE_TICKS * sum(luggage.values()),
            exhaustion=walk.exhaustion,
            position=walk.end.position,
            shortfall=None if found else f"no {target} seen on the way",
        )

    return attempt


def _mined(state: State, drops: Sequence[Drop], option: Option, draw: Random) -> Effect:
    """Breaks blocks of the first kind, then of the next.

    Args:
        state: before the option.
        drops: one or more drops of the same item by different blocks.
        option: names the item, or the only block.
        draw: the random generator.
    """
    item = drops[0].item
    by_block = option.item != item
    broken = gained = reached = 0
    ticks = 0.0
    near: dict[str, Sighting] = {}
    for drop in drops:
        stock, taken = sighting(state, drop.block).number, 0
        while reached < option.quantity and taken < stock:
            taken += 1
            number = 0
            if drop.chance == 1 or draw.random() < drop.chance:
                number = _number(drop.least, drop.most, draw)
            gained += number
            reached += 1 if by_block else number
        if taken:
            broken += taken
            ticks += _way(state, drop.block) + MINE_TICKS * taken
            near |= _fewer(state, drop.block, taken)
    return Effect(
        change=Change(gained=_positive({item: gained}), near=near),
        ticks=ticks,
        exhaustion=DIG_EXHAUSTION * broken,
        shortfall=_too_few(reached, option.quantity, option.item),
    )


def _number(least: int, most: int, draw: Random) -> int:
    return least if least == most else draw.randint(least, most)


def _positive(counts: Mapping[str, int]) -> dict[str, int]:
    return {item: count for item, count in counts.items() if count > 0}


def _way(state: State, kind: str) -> float:
    """Time to go to the nearest one of a kind and back, in ticks."""
    return 2 * BLOCK_TICKS * sighting(state, kind).distance


def _fewer(state: State, kind: str, taken: int) -> dict[str, Sighting]:
    count, distance = sighting(state, kind)
    return {kind: Sighting(count - taken, distance)}


def _too_few(done: int, wanted: int, thing: str) -> str | None:
    return None if done >= wanted else f"only {done} of {wanted} {thing} nearby"


def _too_few_buckets(state: State, count: int) -> str | None:
    held = state.inventory.get(_BUCKET, 0)
    return None if held >= count else f"needs {count} {_BUCKET}, has {held}"


ATTEMPTS: Final[Mapping[str, Verb]] = {
    "mine": mine,
    "craft": craft,
    "smelt": smelt,
    "cook": cook,
    "equip": equip,
    "place": place,
    "kill": kill,
    "shear": shear,
    "milk": milk,
    "collect": collect,
    "explore": find,
    "find": find,
}
"""Verb -> the function that checks and carries out its options."""


def _has(state: State, item: str, count: int) -> bool:
    return max(state.inventory.get(item, 0), item in state.equipment) >= count


def _mining_done(rules: OptionRules, state: State, option: Option) -> bool:
    """Whether this quantity of the item, or the least yield of the blocks, is held."""
    drops = rules.drops.get(option.item)
    if drops is None:
        return False
    item, wanted = drops[0].item, option.quantity
    if option.item != item:
        wanted = max(int(wanted * drops[0].least * drops[0].chance), 1)
    return _has(state, item, wanted)


def _cooked(rules: OptionRules, state: State, option: Option) -> bool:
    """Whether this quantity of the product is held; the option may name its material instead."""
    recipe = smelted(rules, option.item)
    return recipe is not None and _has(state, recipe.item, option.quantity)


def _killed(_: OptionRules, state: State, option: Option) -> bool:
    """Whether each item of the kind's loot is held: at least one, and at least the smallest loot.

    All items count, because a player who kills cows for leather is not done with the beef.
    """
    loot = KILLED.get(option.item, ())
    return bool(loot) and all(
        _has(state, item, max(least * option.quantity, 1)) for item, least, _ in loot
    )


def _collected(_: OptionRules, state: State, option: Option) -> bool:
    """Whether this quantity of buckets of the fluid is held."""
    full = FLUIDS.get(option.item, option.item)
    return full in FLUID_IN and _has(state, full, option.quantity)


def _found(_: OptionRules, state: State, option: Option) -> bool:
    """Whether the block, entity or biome is in view; exploring without a target is never done."""
    return in_view(state, option.item)


DONE: Final[Mapping[str, Test]] = {
    "mine": _mining_done,
    "craft": lambda rules, state, option: (
        option.item in rules.crafts and _has(state, option.item, option.quantity)
    ),
    "smelt": _cooked,
    "cook": _cooked,
    "equip": lambda _, state, option: option.item in state.equipment,
    # Blocks that were there before count as well.
    "place": lambda _, state, option: (
        option.item in state.nearby_blocks
        and sighting(state, option.item).number >= option.quantity
    ),
    "kill": _killed,
    # Wool alone may come from a sheep that was killed, so shears must be held as well.
    "shear": lambda _, state, option: (
        option.item in SHEAR_WORDS
        and holds(state, SHEARS)
        and _has(state, SHEARED[0], option.quantity)
    ),
    "milk": lambda _, state, option: (
        option.item in MILK_WORDS and _has(state, MILK, option.quantity)
    ),
    "collect": _collected,
    "explore": _found,
    "find": _found,
}
"""Verb -> the test whether the result of an option is held, or in view, in its quantity."""

_PLACEABLE: Final = frozenset((*BLOCKS, *GROUPS["planks"])) - FLUIDS.keys()

NAMES: Final[Mapping[str, Callable[[OptionRules], Container[str]]]] = {
    "mine": lambda rules: rules.drops,
    "craft": lambda rules: rules.crafts,
    "smelt": lambda rules: {*rules.smelts, *rules.smelts_from},
    "cook": lambda rules: {*rules.smelts, *rules.smelts_from},
    "place": lambda _: _PLACEABLE,
    "kill": lambda _: KILLED,
    "shear": lambda _: SHEAR_WORDS,
    "milk": lambda _: MILK_WORDS,
    "collect": lambda _: {*FLUIDS, *FLUID_IN},
    "find": lambda _: {*ON_SURFACE, *LEVELS, *ANYTHING},
}
"""Verb -> the names that it can be used with in some state; any name if the verb is not here."""
