"""The answers of a model about blocks: actions, and predicted states."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field, create_model

from llm_planning.domain import OneOf
from llm_planning.environments.blocksworld.blocks import TABLE, BlockAction, Blocks
from llm_planning.environments.blocksworld.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.environments.blocksworld.rules import RuleName, Rules

HELD = "hand"
"""What a held block stands on, in a prediction."""


class BlockGrammar(OneOf[BlockAction]):
    """The grammar of all actions on some blocks."""

    def __init__(self, rules: Rules, blocks: Sequence[str]) -> None:
        super().__init__(rules.every(blocks))
        self.instruction = rules.form


class BlockStateModel:
    """The form of a predicted state: what each block stands on.

    Args:
        rules: say whether a block can be held.

    Attributes:
        answer: a field for each block, with the name of what it stands on.
    """

    def __init__(self, rules: Rules, blocks: Sequence[str]) -> None:
        self._blocks = tuple(blocks)
        fields: dict[str, Any] = {}
        for number, block in enumerate(blocks):
            under = (TABLE, *((HELD,) if rules.hand else ()), *blocks)
            others = tuple(support for support in under if support != block)
            # The names of blocks are foreign: as names of fields they could mean something else.
            fields[f"block_{number}"] = (Literal[others], Field(alias=block))
        self.answer: type[BaseModel] = create_model("Standing", **fields)

    def write(self, state: Blocks) -> BaseModel:
        """Writes a state as `read` reads it."""
        standing = {**state.below, **({} if state.held is None else {state.held: HELD})}
        return self.answer.model_validate(standing)

    def read(self, state: Blocks, prediction: BaseModel) -> tuple[Blocks, Mapping[str, int]]:
        """Reads a prediction; what is impossible in it is left as it was, or put on the table.

        Of two claims that exclude each other, such as two blocks on one or a circle, the one about
        the first block by name counts.

        Args:
            state: before the action.
            prediction: an instance of `answer`.

        Returns:
            The state, and each claim that was not followed, such as "a on b" -> 1.
        """
        claims = prediction.model_dump(by_alias=True)
        before = state.below
        below: dict[str, str] = {}
        held: str | None = None
        refused: dict[str, int] = {}
        for block in self._blocks:
            under = claims[block]
            if under == HELD and held is None:
                held = block
                continue
            if not _can_stand(block, under, below, held):
                refused[f"{block} on {under}"] = 1
                under = before.get(block, TABLE)
                under = under if _can_stand(block, under, below, held) else TABLE
            below[block] = under
        # A block that was claimed to be held after others had been put on it is put down.
        if held in below.values():
            refused[f"{held} on {HELD}"] = 1
            below, held = {**below, str(held): TABLE}, None
        return Blocks.of(below, held=held), refused


@cache
def language(rules: RuleName, blocks: tuple[str, ...]) -> tuple[BlockGrammar, BlockStateModel]:
    """The grammar and the state model of some blocks; worlds with the same blocks share them."""
    return BlockGrammar(RULES[rules], blocks), BlockStateModel(RULES[rules], blocks)


def _can_stand(block: str, under: str, below: Mapping[str, str], held: str | None) -> bool:
    """Whether a block can stand on something, given what is accepted of the others."""
    if under == TABLE:
        return True
    if under in {HELD, held} or under in below.values():
        return False
    # Would the block be below itself?
    while under in below:
        under = below[under]
    return under != block
