"""Backward reasoning by the variant: what comes before an action, and whether it can be taken.

The rules are those of DRIP's prompts: Table 7 for `decomposed`, Table 8 for `judged`. `spared` is
ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from llm_planning.domain import DomainError, Judged
from llm_planning.environments.blocksworld.blocks import TABLE, BlockAction, fact_text
from llm_planning.environments.blocksworld.goals import vague
from llm_planning.environments.blocksworld.rules import PUT_DOWN, RULES, STACK, UNSTACK_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.blocksworld.blocks import Blocks, Goal

_RULES: Final = RULES["variant"]

GoalOrder: TypeAlias = Literal["sentence", "lowest"]
"""In which order the goal's subtasks come: as the goal's sentence names them, as in Figure 3, or
those of each tower from below, which is ours. The paper prints no order."""


def decomposed(
    goal: Goal, subtask: BlockAction | None, *, order: GoalOrder = "sentence"
) -> Sequence[BlockAction]:
    """The subtasks immediately before a subtask (Table 7); the state plays no part.

    Args:
        subtask: an action, or None for the goal.
        order: of the goal's subtasks.

    Returns:
        Of the goal a `stack` for each block that has to stand on another, a `put-down` for each
        that has to stand on the table, an `unstack blocks` for each that has to be clear; a block
        that must not stand on another is put down if it has no place. With `lowest` those that are
        put down come first. Of `stack A B` first `unstack blocks B`, then `put-down B`; of other
        actions none.

    Raises:
        DomainError: the goal denies that a block is clear or on the table, and does not say where
            a block has to stand instead.
    """
    if subtask is None:
        return _parts_of(goal, order)
    if subtask.verb != STACK:
        return ()
    return (BlockAction(UNSTACK_BLOCKS, subtask.onto), BlockAction(PUT_DOWN, subtask.onto))


def _parts_of(goal: Goal, order: GoalOrder) -> tuple[BlockAction, ...]:
    for fact in vague(goal):
        raise DomainError(
            f"the goal's (not {fact_text(fact)}) names no action: subtasks need a goal that says "
            "where blocks stand"
        )
    below = goal.below
    apart = dict.fromkeys(
        fact[1] for fact in goal.without if fact[0] == "on" and fact[1] not in below
    )
    placed = [
        BlockAction(PUT_DOWN, block) if under == TABLE else BlockAction(STACK, block, under)
        for block, under in goal.on
    ]
    cleared = [BlockAction(UNSTACK_BLOCKS, block) for block in goal.clear]
    put_down = [BlockAction(PUT_DOWN, block) for block in apart]
    if order == "sentence":
        return (*placed, *cleared, *put_down)

    def place(block: str) -> tuple[str, int]:
        height = 0
        while below.get(block, TABLE) != TABLE:
            block = below[block]
            height += 1
        return block, height

    placed.sort(key=lambda action: place(action.block))
    on_table = [action for action in placed if action.verb == PUT_DOWN]
    stacked = [action for action in placed if action.verb == STACK]
    return (*on_table, *put_down, *stacked, *cleared)


def judged(
    goal: Goal, state: Blocks, subtask: BlockAction | None, parent: BlockAction | None
) -> Judged:
    """Whether a subtask is done, can be done, or cannot (Table 8).

    Args:
        subtask: an action, or None for the goal, which is done or cannot be done.
        parent: what the subtask was decomposed from; None for the goal. A `put-down` that comes
            from `stack A B` has to separate A and B: it is done if these are in different towers,
            wherever its own block stands.
    """
    if subtask is None:
        missing = goal.missing(state)
        reason = f"{missing} of the goal's facts do not hold yet" if missing else "the goal holds"
        return Judged("false" if missing else "done", reason)
    if refusal := _RULES.obstacle(state, subtask):
        return Judged("false", refusal)
    if subtask.verb == PUT_DOWN and parent is not None and parent.verb == STACK:
        pair = f"blocks {parent.block} and {parent.onto}"
        if state.base(parent.block) != state.base(parent.onto):
            return Judged("done", f"{pair} are in different towers")
        return Judged("true", f"{pair} are in one tower")
    done = _RULES.apply(state, subtask) == state
    reasons = _DONE if done else _POSSIBLE
    reason = reasons[subtask.verb].format(subtask.block, subtask.onto)
    return Judged("done" if done else "true", reason)


_DONE: Final = {
    STACK: "block {} stands on block {}",
    PUT_DOWN: "block {} stands on the table",
    UNSTACK_BLOCKS: "block {} is clear",
}
_POSSIBLE: Final = {
    STACK: "block {1} is clear and in another tower",
    PUT_DOWN: "block {} can always be put down",
    UNSTACK_BLOCKS: "what stands on block {} can always be put down",
}
"""Verb -> why its action is done, or can be done; with the action's blocks."""


def spared(goal: Goal, state: Blocks, action: BlockAction) -> BlockAction:
    """The action in the place of another that takes no blocks apart that the goal wants together.

    A tower is not cut between two blocks that stand on each other as the goal wants it. It is cut
    below, at the lowest block of this achieved chain: the whole chain is moved in the place of its
    upper part.

    Returns:
        The action itself if it takes none apart or cannot be taken.
    """
    if _RULES.obstacle(state, action) or _RULES.apply(state, action) == state:
        return action
    clears = action.verb == UNSTACK_BLOCKS
    moved = state.above[action.block] if clears else action.block
    below, wanted = state.below, goal.below
    lowest = moved
    while wanted.get(lowest) == below[lowest] != TABLE:
        lowest = below[lowest]
    if lowest == moved:
        return action
    if action.verb == STACK:
        return BlockAction(STACK, lowest, action.onto)
    return BlockAction(PUT_DOWN, lowest)
