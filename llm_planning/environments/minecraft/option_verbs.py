"""What each verb needs and does: one function a verb.

A verb looks at a state and an option and answers with the obstacle in words, or with an attempt:
the option is feasible then, and carrying it out takes only the draws. Items stay in the inventory
while they are worn or in hand, and whatever is held can be used without equipping it first; tools
do not wear out.
"""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_planning.environments.minecraft.option_effects import Attempt, Effect, Option
from llm_planning.environments.minecraft.option_loot import (
    COOKED,
    FLUIDS,
    FUEL,
    HERD,
    KILLED,
    LONERS,
    SHEARED,
    SMELT_TICKS,
    STOCK,
)
from llm_planning.environments.minecraft.option_rules import (
    GROUPS,
    OptionRules,
    holds,
    lacking,
    paid,
)
from llm_planning.environments.minecraft.state import Change, State
from llm_planning.environments.minecraft.surroundings import (
    DIG_EXHAUSTION,
    DIG_TICKS,
    below_ground,
    explore,
    on_surface,
    view,
)
from llm_planning.environments.minecraft.vocabulary import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from llm_planning.environments.minecraft.option_loot import Drop
    from llm_planning.environments.minecraft.option_rules import Recipe

Verb: TypeAlias = "Callable[[OptionRules, State, Option], Attempt | str]"

MINE_TICKS: Final = 40
"""Time to reach and break one block near by, in ticks."""

KILL_TICKS: Final = 100
ANIMAL_TICKS: Final = 60
HAND_TICKS: Final = 20
"""Time to kill one animal or monster, to shear or milk one, and to do anything else once."""

KILL_EXHAUSTION: Final = 0.5
"""Five blows of 0.1."""

ANYTHING: Final = ("", "surroundings")
"""What is explored when nothing in particular is looked for."""

_SHEARS = "shears"
_BUCKET = "bucket"
_SHEAR_WORDS = ("sheep", "white_wool")
_MILK_WORDS = ("cow", "milk", "milk_bucket")


def mine(rules: OptionRules, state: State, option: Option) -> Attempt | str:
    """Breaks blocks in view until so many of the item are gained, or so many of the block broken.

    Only what the option names is picked up. Where several kinds of block give it, one kind is
    broken after the other; those for which the tool is missing are left alone. When the blocks in
    view run out first, the option falls short; each block taken makes it likelier that its kind is
    in view no longer.
    """
    drops = rules.drops.get(option.item)
    if drops is None:
        return _unknown(option.item, "no block gives {}")
    seen = [drop for drop in drops if drop.block in state.nearby_blocks]
    if not seen:
        return f"no {' or '.join(dict.fromkeys(drop.block for drop in drops))} nearby"
    fitting = [drop for drop in seen if _has_tool(rules, state, drop.block)]
    if fitting:
        return lambda draw: _mined(fitting, option, draw)
    least, *better = rules.tools[seen[0].block]
    return f"{seen[0].block} needs {_a(least)}{' or better' if better else ''}"


def craft(rules: OptionRules, state: State, option: Option) -> Attempt | str:
    """Makes at least so many of the item, as the recipe's yield allows."""
    recipe = rules.crafts.get(option.item)
    if recipe is None:
        return _unknown(option.item, "{} cannot be crafted")
    absent = lacking(recipe.kept, state)
    if absent is not None:
        return f"needs {_a(absent)}"
    times = ceil(option.quantity / recipe.makes)
    lost = paid(recipe.consumed, state.inventory, times=times)
    if isinstance(lost, str):
        return lost
    change = Change(gained={option.item: recipe.makes * times}, lost=lost)
    return lambda _: Effect(change=change, ticks=HAND_TICKS)


def smelt(rules: OptionRules, state: State, option: Option) -> Attempt | str:
    """Smelts so many in a furnace; the item may be the product or what it is made of.

    Whole pieces of fuel are burnt, and what heat they have left is lost.
    """
    recipe = rules.smelts.get(option.item) or rules.smelts_from.get(option.item)
    if recipe is None:
        return _unknown(option.item, "{} cannot be smelted")
    return _smelt(recipe, state, option)


def cook(rules: OptionRules, state: State, option: Option) -> Attempt | str:
    """Smelts food; the item may be raw or cooked."""
    recipe = rules.smelts.get(option.item) or rules.smelts_from.get(option.item)
    if recipe is None or recipe.item not in COOKED:
        return _unknown(option.item, "{} cannot be cooked")
    return _smelt(recipe, state, option)


def equip(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Puts on armour, takes anything else in hand. The quantity plays no part."""
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
    change = Change(lost={item: count}, blocks=_new((item,), state.nearby_blocks))
    return lambda _: Effect(change=change, ticks=HAND_TICKS * count)


def kill(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Kills so many of a kind, at most as many as are near, and takes what they leave."""
    kind = option.item
    if kind not in KILLED:
        return _unknown(kind, "{} is neither an animal nor a monster")
    if kind not in state.nearby_entities:
        return f"no {kind} nearby"

    def attempt(draw: Random) -> Effect:
        killed = min(option.quantity, _near(kind))
        loot: Counter[str] = Counter()
        for _ in range(killed):
            for item, least, most in KILLED[kind]:
                loot[item] += _number(least, most, draw)
        return Effect(
            change=Change(gained=_positive(loot)),
            ticks=KILL_TICKS * killed,
            exhaustion=KILL_EXHAUSTION * killed,
            gone=_dispersed(kind, killed, draw),
            shortfall=_too_few(kind, killed, option.quantity),
        )

    return attempt


def shear(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Shears so many sheep, each once."""
    if option.item not in _SHEAR_WORDS:
        return f"{option.item} cannot be shorn"
    if not holds(state, _SHEARS):
        return f"needs {_SHEARS}"
    if "sheep" not in state.nearby_entities:
        return "no sheep nearby"

    def attempt(draw: Random) -> Effect:
        shorn = min(option.quantity, _near("sheep"))
        item, least, most = SHEARED
        wool = sum(_number(least, most, draw) for _ in range(shorn))
        return Effect(
            change=Change(gained={item: wool}),
            ticks=ANIMAL_TICKS * shorn,
            gone=_dispersed("sheep", shorn, draw),
            shortfall=_too_few("sheep", shorn, option.quantity),
        )

    return attempt


def milk(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Fills so many buckets with milk; one cow gives any number."""
    if option.item not in _MILK_WORDS:
        return f"{option.item} cannot be milked"
    if "cow" not in state.nearby_entities:
        return "no cow nearby"
    return _fill("milk_bucket", state, option.quantity, ticks=ANIMAL_TICKS)


def collect(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Fills so many buckets with water or lava."""
    full = FLUIDS.get(option.item, option.item)
    fluid = _FLUID_IN.get(full)
    if fluid is None:
        return f"buckets collect {' or '.join(FLUIDS)}, not {option.item}"
    if fluid not in state.nearby_blocks:
        return f"no {fluid} nearby"
    return _fill(full, state, option.quantity, ticks=HAND_TICKS)


def find(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Goes where a block, an entity or a biome is in view; see `surroundings.explore`.

    `explore` is the same. Nothing happens where it is in view already. The quantity plays no part:
    a kind is in view or it is not. What was in view before is left behind.
    """
    target = "" if option.item in ANYTHING else option.item
    pickaxe = next((tool for tool in DIG_TICKS if holds(state, tool)), None)
    if target and not (on_surface(target) or below_ground(target)):
        return _unknown(target, "{} is not found by exploring")
    if target and view(state).shows(target):
        return lambda _: Effect(ticks=0)
    if target and not on_surface(target) and pickaxe is None:
        return f"{target} lies below ground: needs a pickaxe"

    def attempt(draw: Random) -> Effect:
        walk = explore(state, target, pickaxe=pickaxe, draw=draw)
        end = walk.end
        found = not target or end.shows(target)
        return Effect(
            change=Change(
                blocks=_new(end.blocks, state.nearby_blocks),
                entities=_new(end.entities, state.nearby_entities),
                biome=None if end.biome == state.biome else end.biome,
                height=None if end.position[1] == state.position[1] else end.position[1],
            ),
            ticks=walk.ticks,
            exhaustion=walk.exhaustion,
            moved_to=end,
            shortfall=None if found else f"no {target} seen on the way",
        )

    return attempt


VERBS: Final[Mapping[str, Verb]] = {
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
"""Every verb by its name."""


def _has_tool(rules: OptionRules, state: State, block: str) -> bool:
    tools = rules.tools.get(block)
    return tools is None or any(holds(state, tool) for tool in tools)


def _mined(drops: Sequence[Drop], option: Option, draw: Random) -> Effect:
    """Breaks blocks of the first kind, then of the next.

    Args:
        drops: all of the same item, of different blocks; at least one.
        option: names the item, or the only block.
        draw: the source of chance.
    """
    item = drops[0].item
    by_block = option.item != item
    broken = gained = reached = 0
    gone: list[str] = []
    for drop in drops:
        stock, taken = STOCK.get(drop.block), 0
        while reached < option.quantity and taken != stock:
            taken += 1
            number = 0
            if drop.chance == 1 or draw.random() < drop.chance:
                number = _number(drop.least, drop.most, draw)
            gained += number
            reached += 1 if by_block else number
        broken += taken
        if taken and stock and draw.random() * stock < taken:
            gone.append(drop.block)
    return Effect(
        change=Change(gained=_positive({item: gained})),
        ticks=MINE_TICKS * broken,
        exhaustion=DIG_EXHAUSTION * broken,
        gone=tuple(gone),
        shortfall=(
            None
            if reached >= option.quantity
            else f"only {reached} of {option.quantity} {option.item} nearby"
        ),
    )


def _number(least: int, most: int, draw: Random) -> int:
    return least if least == most else draw.randint(least, most)


def _smelt(recipe: Recipe, state: State, option: Option) -> Attempt | str:
    absent = lacking(recipe.kept, state)
    if absent is not None:
        return f"needs {_a(absent)}"
    times = ceil(option.quantity / recipe.makes)
    lost = paid(recipe.consumed, state.inventory, times=times)
    if isinstance(lost, str):
        return lost
    burnt = _burnt({item: n - lost.get(item, 0) for item, n in state.inventory.items()}, times)
    if isinstance(burnt, str):
        return burnt
    change = Change(
        gained={recipe.item: recipe.makes * times}, lost=dict(Counter(lost) + Counter(burnt))
    )
    return lambda _: Effect(change=change, ticks=SMELT_TICKS * times)


def _burnt(held: Mapping[str, int], pieces: int) -> dict[str, int] | str:
    """The fuel that smelts so many pieces; or what is missing, in words."""
    burnt: dict[str, int] = {}
    left = float(pieces)
    for fuel, power in FUEL.items():
        used = min(ceil(left / power), held.get(fuel, 0))
        if used:
            burnt[fuel] = used
            left -= used * power
        if left <= 0:
            return burnt
    return f"needs fuel for {pieces}, has fuel for {pieces - left:g}"


def _fill(full: str, state: State, count: int, *, ticks: int) -> Attempt | str:
    held = state.inventory.get(_BUCKET, 0)
    if held < count:
        return f"needs {count} {_BUCKET}, has {held}"
    change = Change(gained={full: count}, lost={_BUCKET: count})
    return lambda _: Effect(change=change, ticks=ticks * count)


def _unknown(item: str, sentence: str) -> str:
    """The obstacle of a name that a verb cannot use; names of the rule book get a hint."""
    hint = f"; name one kind, such as {GROUPS[item][0]}" if item in GROUPS else ""
    return sentence.format(item or "nothing") + hint


def _a(thing: str) -> str:
    article = "an" if thing.startswith("i") else "a"
    return thing if thing.endswith("s") else f"{article} {thing}"


def _new(seen: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(kind for kind in seen if kind not in known)


def _positive(counts: Mapping[str, int]) -> dict[str, int]:
    return {item: count for item, count in counts.items() if count > 0}


def _near(kind: str) -> int:
    return 1 if kind in LONERS else HERD


def _dispersed(kind: str, taken: int, draw: Random) -> tuple[str, ...]:
    """A herd of which some were taken is in view no longer with the chance of their share."""
    return (kind,) if draw.random() * _near(kind) < taken else ()


def _too_few(kind: str, done: int, wanted: int) -> str | None:
    return None if done >= wanted else f"only {done} of {wanted} {kind} nearby"


_FLUID_IN: Final = {full: fluid for fluid, full in FLUIDS.items()}

_PLACEABLE: Final = frozenset((*BLOCKS, *GROUPS["planks"])) - FLUIDS.keys()
