"""The verbs of options: what each needs and does, and when its effect holds already.

Each verb is one record, below the function that carries it out. A function takes a state and an
option and returns the obstacle in words, or, if the option is feasible, an attempt that only needs
a random generator. Items stay in the inventory while they are worn or in hand, and a held item can
be used without equipping it first. Tools do not wear out. To take something that is near, the
player goes to the nearest one of its kind and comes back. What is taken is no longer near; the
distance to the rest of its kind stays the same.

DRIP's check answers done, executable, or not (*DRIP*, Table 11); `Verb.done` gives the first
answer. As in DRIP, the resulting item counts and not the verb: planks that were found are planks.
The check does not know what the items are needed for, so an option can be done and yet needed once
more. DRIP's eight verbs are among these; its `explore` is `find`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from llm_planning.environments.minecraft.book.rulebook import STATIONS
from llm_planning.environments.minecraft.options.crafting import cook, craft, smelt
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.rules import (
    FLUID_IN,
    GROUPS,
    OptionRules,
    Recipe,
    article,
    has_tool,
    holds,
    unknown,
)
from llm_planning.environments.minecraft.options.state import (
    Attempt,
    Change,
    Effect,
    Sighting,
    State,
)
from llm_planning.environments.minecraft.options.surroundings import (
    BLOCK_TICKS,
    DIG_EXHAUSTION,
    DIG_TICKS,
    LEVELS,
    ON_SURFACE,
    arrival,
    between,
    explore,
    in_view,
    sighting,
)
from llm_planning.environments.minecraft.options.tables import COOKED, FLUIDS, KILLED, SHEARED
from llm_planning.environments.minecraft.options.verb import Verb
from llm_planning.environments.minecraft.options.vocabulary import BLOCKS, ENTITIES, ITEMS

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from random import Random

    from llm_planning.environments.minecraft.options.tables import Drop

HAND_TICKS: Final = 20
"""Time to equip something, or to place one block, in ticks."""

QUANTITIES: Final = (1, 3, 8)
"""The quantities of actions, for planners that choose among actions (our choice): one, the material
of a tool, and the cobblestone of a furnace."""

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

LEFT_BY: Final = {
    item: tuple(kind for kind, loot in KILLED.items() if any(entry[0] == item for entry in loot))
    for item in dict.fromkeys(entry[0] for loot in KILLED.values() for entry in loot)
}
"""Item -> the animals and monsters that leave it when they are killed."""

_BUCKET = "bucket"
_REFILLS = "water"
_PLACEABLE: Final = frozenset((*BLOCKS, *GROUPS["planks"])) - FLUIDS.keys()
_ON_MOB = ("item", "mob", "count")
_HELD = "needs {wanted} {item}, has {held}"


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


def _mined_by(rules: OptionRules, option: Option) -> dict[str, int]:
    """The item that mining gives: so many, or the least yield of so many blocks."""
    drops = rules.drops.get(option.item)
    if drops is None:
        return {}
    drop, count = drops[0], option.quantity
    if option.item != drop.item:
        count = max(int(count * drop.least * drop.chance), 1)
    return {drop.item: count}


def _to_mine(rules: OptionRules, near: Container[str], name: str) -> Recipe | None:
    """A block that gives it, one in view if there is one, and the tool for that block."""
    drops = rules.drops.get(name)
    if drops is None:
        return None
    return _mining(rules, name, min(drops, key=lambda drop: drop.block not in near).block)


@cache
def _mining(rules: OptionRules, name: str, block: str) -> Recipe:
    drops, tools = rules.drops[name], rules.tools.get(block)
    return Recipe(
        item=drops[0].item,
        kept=(tools,) if tools else (),
        near=tuple(dict.fromkeys((block, *(drop.block for drop in drops)))),
    )


def _minable(rules: OptionRules, state: State, option: Option) -> str:
    """The block that is near, and the tool that is held for it."""
    block = next(
        drop.block
        for drop in rules.drops[option.item]
        if drop.block in state.nearby_blocks and has_tool(rules, state, drop.block)
    )
    tools = rules.tools.get(block, ())
    held = (*state.inventory, *filter(None, state.equipment))
    tool = next((item for item in held if item in tools), None)
    return f"{block} near, {tool} held" if tool else f"{block} near"


MINE: Final = Verb(
    word="mine",
    use=mine,
    names=lambda rules: rules.drops,
    gives=_mined_by,
    sources=lambda rules, item: (item,) if item in rules.drops else (),
    rank=3,
    takes=_to_mine,
    function="mineBlock",
    manual=(
        "mineBlock(bot, name, count): breaks blocks that are near until count of them are mined, or"
        " count\n  of the item that they give are picked up. The right pickaxe must be in the"
        " inventory."
    ),
    quantities=QUANTITIES,
    lessons=(1, 1, 1, 2, 3, 4, 8, 11),
    aim=_HELD,
    evidence=_minable,
)

CRAFT: Final = Verb(
    word="craft",
    use=craft,
    names=lambda rules: rules.crafts,
    sources=lambda rules, item: (item,) if item in rules.crafts else (),
    takes=lambda rules, _, name: rules.crafts.get(name),
    stays=True,
    function="craftItem",
    manual="craftItem(bot, name, count): crafts an item from what is in the inventory.",
    aim=_HELD,
)


def _smelted(rules: OptionRules, option: Option) -> dict[str, int]:
    """The product, which the option may name by its material."""
    recipe = rules.smelted.get(option.item)
    return {recipe.item: option.quantity} if recipe else {}


SMELT: Final = Verb(
    word="smelt",
    use=smelt,
    names=lambda rules: rules.smelted,
    gives=_smelted,
    sources=lambda rules, item: (item,) if item in rules.smelts else (),
    rank=2,
    takes=lambda rules, _, name: rules.smelted.get(name),
    function="smeltItem",
    manual=(
        "smeltItem(bot, name, count): smelts a material, or smelts for a product, in a furnace that"
        " is in\n  the inventory or near. It burns fuel from the inventory."
    ),
    quantities=QUANTITIES,
    # What is both product and material, such as stone, counts twice.
    examples=lambda rules: (*rules.smelts, *rules.smelts_from),
    aim=_HELD,
)

COOK: Final = replace(
    SMELT,
    word="cook",
    use=cook,
    names=lambda rules: [name for name, recipe in rules.smelted.items() if recipe.item in COOKED],
    sources=lambda rules, item: (item,) if item in rules.smelts and item in COOKED else (),
    rank=1,
    function="cookItem",
    manual="cookItem(bot, name, count): the same for food, raw or cooked.",
    quantities=(1,),
    examples=lambda rules: [item for item in rules.smelts if item in COOKED],
)


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
                loot[item] += between(least, most, draw)
        return Effect(
            change=Change(gained=_positive(loot), near=_fewer(state, kind, killed)),
            ticks=_way(state, kind) + KILL_TICKS * killed,
            exhaustion=KILL_EXHAUSTION * killed,
            shortfall=_too_few(killed, option.quantity, kind),
        )

    return attempt


KILL: Final = Verb(
    word="kill",
    use=kill,
    names=lambda _: KILLED,
    # All loot counts: a player who kills cows for leather is not done with the beef.
    gives=lambda _, option: {
        item: max(least * option.quantity, 1) for item, least, _ in KILLED.get(option.item, ())
    },
    sources=lambda _, item: LEFT_BY.get(item, ()),
    rank=5,
    takes=lambda _, __, name: Recipe(item=name, near=(name,)) if name in KILLED else None,
    lacking=lambda option: [Option("find", 1, option.item)],
    function="killMob",
    manual=(
        "killMob(bot, name, count): kills animals or monsters that are near, and takes what they"
        " leave."
    ),
    evidence=lambda _, __, option: f"{option.item} near",
)


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
        wool = sum(between(least, most, draw) for _ in range(shorn))
        return Effect(
            change=Change(gained=_positive({item: wool}), near=_fewer(state, SHEEP, shorn)),
            ticks=_way(state, SHEEP) + ANIMAL_TICKS * shorn,
            shortfall=_too_few(shorn, option.quantity, SHEEP),
        )

    return attempt


SHEAR: Final = Verb(
    word="shear",
    use=shear,
    names=lambda _: SHEAR_WORDS,
    gives=lambda _, option: {SHEARED[0]: option.quantity},
    # Wool alone may come from a sheep that was killed.
    besides=SHEARS,
    sources=lambda _, item: (SHEEP,) if item == SHEARED[0] else (),
    rank=4,
    takes=lambda _, __, ___: Recipe(item=SHEARED[0], kept=((SHEARS,),), near=(SHEEP,)),
    singly=True,
    function="useOnMob",
    parameters=_ON_MOB,
    tool=SHEARS,
    manual='useOnMob(bot, "shears", "sheep", count): shears sheep that are near.',
    examples=lambda _: (SHEEP,),
    lessons=(1,),
)


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


MILKING: Final = Verb(
    word="milk",
    use=milk,
    names=lambda _: MILK_WORDS,
    gives=lambda _, option: {MILK: option.quantity},
    sources=lambda _, item: (COW,) if item == MILK else (),
    rank=4,
    takes=lambda _, __, ___: Recipe(item=MILK, consumed=(((_BUCKET,), 1),), near=(COW,)),
    function="useOnMob",
    parameters=_ON_MOB,
    tool=_BUCKET,
    manual=(
        'useOnMob(bot, "bucket", "cow", count): fills buckets with the milk of a cow that is near.'
    ),
    examples=lambda _: (COW,),
    lessons=(1,),
)


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


def _to_collect(_: OptionRules, __: Container[str], name: str) -> Recipe | None:
    fluid = FLUID_IN.get(name, name)
    if fluid not in FLUIDS:
        return None
    return Recipe(item=FLUIDS[fluid], consumed=(((_BUCKET,), 1),), near=(fluid,))


COLLECT: Final = Verb(
    word="collect",
    use=collect,
    names=lambda _: (*FLUIDS, *FLUID_IN),
    gives=lambda _, option: {FLUIDS.get(option.item, option.item): option.quantity},
    sources=lambda _, item: (FLUID_IN[item],) if item in FLUID_IN else (),
    rank=4,
    takes=_to_collect,
    function="fillBucket",
    manual="fillBucket(bot, name, count): fills buckets with water or lava that is near.",
    examples=lambda _: FLUIDS,
    lessons=(1,),
)


def equip(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Puts on armour, or takes any other item in hand; the quantity is ignored."""
    if not holds(state, option.item):
        return f"needs {option.item} in the inventory"
    return lambda _: Effect(change=Change(equipped=option.item), ticks=HAND_TICKS)


EQUIP: Final = Verb(
    word="equip",
    use=equip,
    names=lambda _: ITEMS,
    gives=lambda _, __: {},
    there=lambda _, state, option: option.item in state.equipment,
    idle=True,
    uses=lambda _: 1,
    stays=True,
    function="equipItem",
    manual="equipItem(bot, name): takes an item in hand, or puts armour on.",
    lessons=(1,),
)


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


PLACE: Final = Verb(
    word="place",
    use=place,
    names=lambda _: _PLACEABLE,
    gives=lambda _, __: {},
    # Blocks that were there before count as well.
    there=lambda _, state, option: (
        option.item in state.nearby_blocks
        and sighting(state, option.item).number >= option.quantity
    ),
    uses=lambda option: option.quantity,
    stays=True,
    function="placeItem",
    parameters=("name", "position"),
    manual=(
        "placeItem(bot, name, position): puts a block from the inventory down, within reach of the"
        " bot."
    ),
    examples=lambda _: ("crafting_table", "furnace", "torch", "cobblestone", "oak_log"),
)


def held_pickaxe(state: State) -> str | None:
    """The fastest pickaxe that is held."""
    return next((tool for tool in DIG_TICKS if holds(state, tool)), None)


def find(rules: OptionRules, state: State, option: Option) -> Attempt | str:
    """Explores until a block, an entity or a biome is in view; see `surroundings.explore`.

    Nothing happens if the target is in view already. The quantity is ignored, since a kind is
    either in view or not. The player leaves behind what was in view, but takes along a crafting
    table and, with a pickaxe, a furnace.
    """
    target = "" if option.item in ANYTHING else option.item
    pickaxe = held_pickaxe(state)
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


FIND: Final = Verb(
    word="find",
    use=find,
    names=lambda _: {*ON_SURFACE, *LEVELS, *ANYTHING},
    gives=lambda _, __: {},
    # Exploring without a target is done once the player went somewhere.
    there=lambda before, state, option: (
        in_view(state, option.item)
        or (option.item in ANYTHING and state.position != before.position)
    ),
    idle=True,
    function="exploreUntil",
    manual=(
        "exploreUntil(bot, name): walks, or digs with a pickaxe, until a block, an animal or a"
        " biome is in\n  view. It gives up after 200 blocks and returns false; another call goes on"
        " from there."
    ),
    examples=lambda _: (*BLOCKS, *ENTITIES),
    lessons=(1,),
    aim="no {item} near",
)


def _mined(state: State, drops: Sequence[Drop], option: Option, draw: Random) -> Effect:
    """Breaks blocks of the first kind, then of the next.

    Args:
        drops: one or more drops of the same item by different blocks.
        option: names the item, or the only block.
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
                number = between(drop.least, drop.most, draw)
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


VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        verb.word: verb
        for verb in (
            *(MINE, CRAFT, SMELT, COOK, EQUIP),
            *(PLACE, KILL, SHEAR, MILKING, COLLECT, FIND),
        )
    }
)
"""Word -> verb; the first five are those of the paper's prompt (Tree of Options, Appendix A.2)."""


@cache
def giver(rules: OptionRules, item: str) -> tuple[Verb, Sequence[str]] | None:
    """The verb that gives an item, and the names by which it does; None if nothing gives it."""
    for verb in _GIVING:
        if names := verb.sources(rules, item):
            return verb, names
    return None


_GIVING = sorted(VERBS.values(), key=lambda verb: verb.rank)
