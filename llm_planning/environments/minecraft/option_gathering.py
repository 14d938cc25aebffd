"""What is taken from what is near: blocks, animals and monsters, wool, milk, fluids.

Whoever takes something goes to the nearest of its kind and comes back to where they stood. What is
taken is near no longer; the nearest that is left is as far as the nearest was.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from llm_planning.environments.minecraft.option_effects import Effect
from llm_planning.environments.minecraft.option_loot import FLUIDS, KILLED, SHEARED
from llm_planning.environments.minecraft.option_rules import article, has_tool, holds, unknown
from llm_planning.environments.minecraft.state import Change, Sighting
from llm_planning.environments.minecraft.surroundings import (
    BLOCK_TICKS,
    DIG_EXHAUSTION,
    sighting,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from llm_planning.environments.minecraft.option_effects import Attempt
    from llm_planning.environments.minecraft.option_language import Option
    from llm_planning.environments.minecraft.option_loot import Drop
    from llm_planning.environments.minecraft.option_rules import OptionRules
    from llm_planning.environments.minecraft.state import State

MINE_TICKS: Final = 40
"""Time to break one block and pick up what it gives, in ticks."""

KILL_TICKS: Final = 100
ANIMAL_TICKS: Final = 60
FILL_TICKS: Final = 20
"""Time to kill one animal or monster, to shear or milk one, and to fill one bucket."""

KILL_EXHAUSTION: Final = 0.5
"""Five blows of 0.1."""

SHEEP: Final = "sheep"
SHEARS: Final = "shears"
SHEAR_WORDS: Final = (SHEEP, SHEARED[0])
"""What may be said for shearing a sheep."""

COW: Final = "cow"
MILK: Final = "milk_bucket"
MILK_WORDS: Final = (COW, "milk", MILK)
"""What may be said for milking a cow."""

FLUID_IN: Final[Mapping[str, str]] = {full: fluid for fluid, full in FLUIDS.items()}
"""Full bucket -> the fluid in it."""

_BUCKET = "bucket"
_REFILLS = "water"


def mine(rules: OptionRules, state: State, option: Option) -> Attempt | str:
    """Breaks blocks in view until so many of the item are gained, or so many of the block broken.

    Only what the option names is picked up. Where several kinds of block give it, one kind is
    broken after the other; those for which the tool is missing are left alone. When the blocks in
    view run out first, the option falls short.
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
    """Kills so many of a kind, at most as many as are near, and takes what they leave."""
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
    """Shears so many sheep, each once: a shorn sheep runs off and is near no longer."""
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
    """Fills so many buckets with milk; one cow gives any number."""
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
    """Fills so many buckets with water, which flows back, or with lava, which does not."""
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


def _mined(state: State, drops: Sequence[Drop], option: Option, draw: Random) -> Effect:
    """Breaks blocks of the first kind, then of the next.

    Args:
        state: before.
        drops: all of the same item, of different blocks; at least one.
        option: names the item, or the only block.
        draw: the source of chance.
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
    """Time to get to the nearest of a kind and back, in ticks."""
    return 2 * BLOCK_TICKS * sighting(state, kind).distance


def _fewer(state: State, kind: str, taken: int) -> dict[str, Sighting]:
    count, distance = sighting(state, kind)
    return {kind: Sighting(count - taken, distance)}


def _too_few(done: int, wanted: int, thing: str) -> str | None:
    return None if done >= wanted else f"only {done} of {wanted} {thing} nearby"


def _too_few_buckets(state: State, count: int) -> str | None:
    held = state.inventory.get(_BUCKET, 0)
    return None if held >= count else f"needs {count} {_BUCKET}, has {held}"
