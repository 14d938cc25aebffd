"""The teacher of Blocksworld: problems and states to ask about, by the variant, and what is right.

A problem is drawn as those of the tasks are. A state lies on the way to its goal or beside it
(`RuleWalks`). Problems of some numbers of blocks are held out, and with them the blocks that no
other problem has.
"""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING, Final

from llm_planning.environments.blocksworld.blocks import (
    TABLE,
    BlockAction,
    Blocks,
    Goal,
    Puzzle,
)
from llm_planning.environments.blocksworld.domain import Blocksworld
from llm_planning.environments.blocksworld.generator import draw_problem
from llm_planning.environments.blocksworld.language import language
from llm_planning.environments.blocksworld.rules import PUT_DOWN, RULES, STACK
from llm_planning.environments.blocksworld.subtasks import judged
from llm_planning.names import remedy
from llm_planning.roles import RuleWalks
from llm_planning.roles.exercises import HELD_OUT, SEEN, Situation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from pydantic import BaseModel

SIZES: Final = tuple(map(str, range(3, 9)))
"""The numbers of blocks."""

HELD_OUT_SIZES: Final = ("7", "8")
"""The numbers of blocks that are held out by default: the largest problems."""

_RULES: Final = RULES["variant"]


class BlocksworldTeacher:
    """Draws situations, and knows what is right in them; a `roles.exercises.Teacher`.

    Args:
        held_out: numbers of blocks, each as text, of which teaching has no problem.

    Raises:
        ValueError: there are no problems of such a number; or no number is held out, or all are.
    """

    def __init__(self, *, held_out: Iterable[str] = HELD_OUT_SIZES) -> None:
        out = frozenset(held_out)
        for size in sorted(out):
            if size not in SIZES:
                raise ValueError(f"cannot hold out {size!r} blocks: {remedy(size, SIZES)}")
        self._seen = [int(size) for size in SIZES if size not in out]
        self._held_out = [int(size) for size in SIZES if size in out]
        if not (self._seen and self._held_out):
            raise ValueError("hold out some of the numbers of blocks, and leave one to teach")

    def situation(self, rng: Random, *, held_out: bool) -> Situation[Blocks, BlockAction]:
        """Draws a problem and a state on or beside its way, with two other goals."""
        size = rng.choice(self._held_out if held_out else self._seen)
        domain = _drawn(size, rng)
        state: Blocks = RuleWalks(domain).state(rng)
        standing = [pair for pair in state.on if pair[1] != TABLE]
        kept = sorted(rng.sample(standing, rng.randint(1, len(standing)))) if standing else []
        reached = [Puzzle("reached", domain.puzzle.start, Goal(tuple(kept)))] if kept else []
        advised = domain.advise(state)
        every = _RULES.every(state.names)
        rng.shuffle(every)
        # What the way takes comes first, and what changes nothing last.
        every.sort(key=lambda one: (one not in advised, _is_idle(state, one)))
        split: tuple[list[BlockAction], list[BlockAction]] = ([], [])
        for action in every:
            split[_RULES.obstacle(state, action) is not None].append(action)
        return Situation(
            domains=(domain, *map(Blocksworld, reached), _drawn(size, rng)),
            state=state,
            feasible=split[0],
            infeasible=split[1],
            new=held_out,
        )

    def goal_kind(self, domain: Blocksworld) -> str:
        """The number of blocks, or `held out`."""
        size = len(domain.puzzle.start.names)
        return HELD_OUT if size in self._held_out else f"{size} blocks"

    def option_kind(self, option: BlockAction) -> str:
        """`held out` if the option names a block that no problem of teaching has."""
        known = {*ascii_lowercase[: max(self._seen)], ""}
        return SEEN if {option.block, option.onto} <= known else HELD_OUT

    def aim(self, state: Blocks, option: BlockAction) -> str:  # noqa: ARG002
        """What the option is for."""
        if option.verb == STACK:
            return f"block {option.block} has to stand on block {option.onto}"
        if option.verb == PUT_DOWN:
            return f"block {option.block} is in the way"
        return f"block {option.block} is not clear"

    def fillers(self, state: Blocks) -> Sequence[BlockAction]:  # noqa: ARG002
        """None: every action that changes something may be in the way."""
        return ()

    def evidence(self, state: Blocks, option: BlockAction) -> str:
        """Why an option is feasible."""
        return judged(Goal(()), state, option, None).reason

    def prediction(self, state: Blocks, option: BlockAction) -> BaseModel:
        """The state after the option."""
        return _written(_RULES.apply(state, option))

    def unchanged(self, state: Blocks) -> BaseModel:
        """The state itself."""
        return _written(state)

    def can_follow(self, state: Blocks, option: BlockAction, prediction: BaseModel) -> bool:
        """Whether the predicted state is the one after the option."""
        _, model = language("variant", state.names)
        return model.read(state, prediction)[0] == _RULES.apply(state, option)


def _drawn(size: int, rng: Random) -> Blocksworld:
    return Blocksworld(draw_problem(size, "drawn", rng))


def _written(state: Blocks) -> BaseModel:
    _, model = language("variant", state.names)
    return model.write(state)


def _is_idle(state: Blocks, action: BlockAction) -> bool:
    possible = _RULES.obstacle(state, action) is None
    return possible and _RULES.apply(state, action) == state
