"""The rules of Blocksworld: what can be done, and what it does.

The variant (DRIP, Section 4.1.1 and Tables 8 and 9) moves a block together with all that stands on
it. An action whose effect holds already can always be taken, and changes nothing. By the standard
rules, which PlanBench has, one hand holds one block. The rules without a hand are those of domains
with three operators: a block is moved at once, alone.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from llm_planning.environments.blocksworld.blocks import TABLE, BlockAction, Blocks
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from llm_planning.environments.blocksworld.blocks import Dialect

RuleName: TypeAlias = Literal["variant", "standard", "handless"]

STACK: Final = "stack"
UNSTACK_BLOCKS: Final = "unstack blocks"
PUT_DOWN: Final = "put-down"
PICK_UP: Final = "pick-up"
UNSTACK: Final = "unstack"


class Rules(Protocol):
    """What can be done with blocks.

    Attributes:
        about: how the world works, in words.
        form: how an action is written, in words.
        hand: whether a state says what the hand holds.
    """

    about: str
    form: str
    hand: bool

    def every(self, blocks: Sequence[str]) -> list[BlockAction]:
        """All actions on some blocks, possible or not."""
        ...

    def possible(self, state: Blocks) -> list[BlockAction]:
        """The actions that change a state."""
        ...

    def obstacle(self, state: Blocks, action: BlockAction) -> str | None:
        """Why an action cannot be taken; None if it can."""
        ...

    def apply(self, state: Blocks, action: BlockAction) -> Blocks:
        """The state after an action that can be taken."""
        ...


class Variant:
    """The variant of DRIP."""

    about = (
        "Blocks stand in towers on a table. You can move any number of blocks at once: whoever "
        "moves a block moves all blocks that stand on it as well, in the same order. "
        "`stack X Y` puts block X on block Y; block Y has to be clear, and the two have to be in "
        "different towers. `put-down X` puts block X on the table. `unstack blocks Y` takes what "
        "stands on block Y, and puts it on the table. A block is clear if nothing stands on it."
    )
    form = (
        "An option is `stack X Y`, `put-down X` or `unstack blocks Y`, where X and Y are names of "
        "blocks."
    )
    hand = False

    def every(self, blocks: Sequence[str]) -> list[BlockAction]:
        """All actions on some blocks."""
        return [
            *(BlockAction(STACK, *pair) for pair in permutations(blocks, 2)),
            *(BlockAction(UNSTACK_BLOCKS, block) for block in blocks),
            *(BlockAction(PUT_DOWN, block) for block in blocks),
        ]

    def possible(self, state: Blocks) -> list[BlockAction]:
        """The actions that change a state."""
        below, above = state.below, state.above
        base = {
            block: base for base, under in state.on if under == TABLE for block in state.pile(base)
        }
        clear = [block for block in below if block not in above]
        return [
            *(
                BlockAction(STACK, block, onto)
                for block in below
                for onto in clear
                if base[block] != base[onto]
            ),
            *(BlockAction(UNSTACK_BLOCKS, block) for block in below if block in above),
            *(BlockAction(PUT_DOWN, block) for block, under in state.on if under != TABLE),
        ]

    def done(self, state: Blocks, action: BlockAction) -> bool:
        """Whether the effect of an action holds already."""
        match action.verb:
            case "stack":
                return state.below[action.block] == action.onto
            case "put-down":
                return state.below[action.block] == TABLE
            case _:
                return action.block not in state.above

    def obstacle(self, state: Blocks, action: BlockAction) -> str | None:
        """Why an action cannot be taken; None if it can, also if it changes nothing."""
        if unknown := _unknown(state, action, _VARIANT_VERBS):
            return unknown
        if action.verb != STACK or self.done(state, action):
            return None
        block, onto = action.block, action.onto
        if block == onto:
            return f"block {block} cannot stand on itself"
        if onto in state.above:
            return _covered(state, onto)
        if state.base(block) == state.base(onto):
            return f"blocks {block} and {onto} are in one tower"
        return None

    def apply(self, state: Blocks, action: BlockAction) -> Blocks:
        """The state after an action that can be taken."""
        if self.done(state, action):
            return state
        if action.verb == UNSTACK_BLOCKS:
            return state.moved(state.above[action.block], TABLE)
        return state.moved(action.block, action.onto or TABLE)


class Standard:
    """The rules of PlanBench: four actions, and a hand that holds one block."""

    about = (
        "Blocks stand in towers on a table. Your hand holds one block at most. `pick-up X` takes "
        "clear block X from the table, `unstack X Y` takes clear block X from block Y; both need "
        "an empty hand. `put-down X` puts the held block X on the table, `stack X Y` puts it on "
        "clear block Y. A block is clear if nothing stands on it and it is not held."
    )
    form = (
        "An option is `pick-up X`, `put-down X`, `stack X Y` or `unstack X Y`, where X and Y are "
        "names of blocks."
    )
    hand = True

    def every(self, blocks: Sequence[str]) -> list[BlockAction]:
        """All actions on some blocks."""
        return [
            *(BlockAction(verb, block) for verb in (PICK_UP, PUT_DOWN) for block in blocks),
            *(
                BlockAction(verb, *pair)
                for verb in (STACK, UNSTACK)
                for pair in permutations(blocks, 2)
            ),
        ]

    def possible(self, state: Blocks) -> list[BlockAction]:
        """The actions that can be taken; each changes the state."""
        return list(self._possible(state))

    def _possible(self, state: Blocks) -> Iterator[BlockAction]:
        below = state.below
        if state.held is not None:
            yield BlockAction(PUT_DOWN, state.held)
            yield from (BlockAction(STACK, state.held, onto) for onto in state.clear)
            return
        for block in state.clear:
            on_table = below[block] == TABLE
            yield (
                BlockAction(PICK_UP, block)
                if on_table
                else BlockAction(UNSTACK, block, below[block])
            )

    def obstacle(self, state: Blocks, action: BlockAction) -> str | None:
        """Why an action cannot be taken; None if it can."""
        if unknown := _unknown(state, action, _STANDARD_VERBS):
            return unknown
        if action.verb in {PICK_UP, UNSTACK}:
            return self._not_taken(state, action.block, action.onto or TABLE)
        if state.held != action.block:
            return f"the hand does not hold block {action.block}"
        if action.verb == STACK and action.onto not in state.clear:
            return _covered(state, action.onto)
        return None

    def _not_taken(self, state: Blocks, block: str, under: str) -> str | None:
        """Why a block cannot be taken from another or from the table; None if it can."""
        if state.held is not None:
            return f"the hand holds block {state.held}"
        if block in state.above:
            return _covered(state, block)
        stands = state.below[block]
        if stands == under:
            return None
        return f"block {block} stands on {'the table' if stands == TABLE else f'block {stands}'}"

    def apply(self, state: Blocks, action: BlockAction) -> Blocks:
        """The state after an action that can be taken."""
        below = state.below
        if action.verb in {PICK_UP, UNSTACK}:
            del below[action.block]
            return Blocks.of(below, held=action.block)
        return Blocks.of({**below, action.block: action.onto or TABLE})


class Handless:
    """The rules of domains with three operators: one block is moved at a time, without a hand."""

    about = (
        "Blocks stand in towers on a table. You move one block at a time, and only a clear one. "
        "`stack X Y` puts clear block X on clear block Y, from the table or from another block. "
        "`put-down X` takes clear block X from the block below it and puts it on the table. A "
        "block is clear if nothing stands on it."
    )
    form = "An option is `stack X Y` or `put-down X`, where X and Y are names of blocks."
    hand = False

    def every(self, blocks: Sequence[str]) -> list[BlockAction]:
        """All actions on some blocks."""
        return [
            *(BlockAction(STACK, *pair) for pair in permutations(blocks, 2)),
            *(BlockAction(PUT_DOWN, block) for block in blocks),
        ]

    def possible(self, state: Blocks) -> list[BlockAction]:
        """The actions that can be taken; each changes the state."""
        below, clear = state.below, state.clear
        return [
            *(
                BlockAction(STACK, block, onto)
                for block in clear
                for onto in clear
                if block != onto
            ),
            *(BlockAction(PUT_DOWN, block) for block in clear if below[block] != TABLE),
        ]

    def obstacle(self, state: Blocks, action: BlockAction) -> str | None:
        """Why an action cannot be taken; None if it can."""
        if unknown := _unknown(state, action, _HANDLESS_VERBS):
            return unknown
        block, onto = action.block, action.onto
        if block == onto:
            return f"block {block} cannot stand on itself"
        above = state.above
        for name in (block, onto):
            if name in above:
                return _covered(state, name)
        if action.verb == PUT_DOWN and state.below[block] == TABLE:
            return f"block {block} stands on the table"
        return None

    def apply(self, state: Blocks, action: BlockAction) -> Blocks:
        """The state after an action that can be taken."""
        return state.moved(action.block, action.onto or TABLE)


def _covered(state: Blocks, block: str) -> str:
    """Why nothing can be put on a block."""
    covering = state.above.get(block)
    why = "it is held" if covering is None else f"block {covering} stands on it"
    return f"block {block} is not clear: {why}"


_VARIANT_VERBS: Final[Mapping[str, int]] = {STACK: 2, UNSTACK_BLOCKS: 1, PUT_DOWN: 1}
_STANDARD_VERBS: Final[Mapping[str, int]] = {PICK_UP: 1, PUT_DOWN: 1, STACK: 2, UNSTACK: 2}
_HANDLESS_VERBS: Final[Mapping[str, int]] = {STACK: 2, PUT_DOWN: 1}
"""Verb -> how many blocks it names."""


def _unknown(state: Blocks, action: BlockAction, verbs: Mapping[str, int]) -> str | None:
    """What an action names that there is not; None if there is all of it."""
    if action.verb not in verbs:
        return f"unknown verb {action.verb!r}; {remedy(action.verb, verbs)}"
    names = state.names
    blocks = (action.block, action.onto)[: verbs[action.verb]]
    if len(blocks) == 1 and action.onto:
        return f"{action.verb!r} takes one block, not {action.block} and {action.onto}"
    for block in blocks:
        if block not in names:
            return f"there is no block {block!r}; {remedy(block, names)}"
    return None


RULES: Final[Mapping[RuleName, Rules]] = {
    "variant": Variant(),
    "standard": Standard(),
    "handless": Handless(),
}
"""Every set of rules by name."""

DIALECT_RULES: Final[Mapping[Dialect, RuleName]] = {
    "four operators": "standard",
    "three operators": "handless",
    "mystery": "standard",
}
"""Dialect of a file -> the rules that it is made for."""
