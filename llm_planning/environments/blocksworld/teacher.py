"""The teacher of Blocksworld: problems and states to ask about, by the variant, and what is right.

A problem is drawn as those of the tasks are. A state lies on the way to its goal or beside it, also
after mistakes (`RuleWalks`). Held out are problems of some numbers of blocks, and of the others one
state in twenty, by a hash of its towers.
"""

from __future__ import annotations

from hashlib import blake2b
from string import ascii_lowercase
from typing import TYPE_CHECKING, Final

from llm_planning.domain import Judged
from llm_planning.environments.blocksworld.blocks import (
    TABLE,
    BlockAction,
    Blocks,
    Goal,
    Puzzle,
    towers,
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
    from collections.abc import Iterable, Iterator, Sequence
    from random import Random

    from pydantic import BaseModel

SIZES: Final = {f"blocks-{size}": size for size in range(3, 16)}
"""Name -> number of blocks: those of the tables, and smaller ones."""

HELD_OUT_SIZES: Final = ("blocks-7", "blocks-8")
"""The numbers of blocks that are held out by default."""

NEW_STATES: Final = 20
"""One state in so many is held out."""

ADVISED: Final = 0.7
MISTAKEN: Final = 0.5
"""Of a walk, the probability of an advised step, and the share of mistakes among the others."""

_HELD_OUT: Final = 0.6
_GOALS: Final = 2
_NAMED: Final = 60
_RULES: Final = RULES["variant"]


class BlocksworldTeacher:
    """Draws situations, and knows what is right in them; a `roles.exercises.Teacher`.

    Args:
        held_out: names of `SIZES` of which teaching has no problem.

    Raises:
        ValueError: there are no problems of such a number; or no number is held out, or all are.
    """

    def __init__(self, *, held_out: Iterable[str] = HELD_OUT_SIZES) -> None:
        out = frozenset(held_out)
        for size in sorted(out):
            if size not in SIZES:
                raise ValueError(f"cannot hold out {size!r}: {remedy(size, SIZES)}")
        self._seen = [size for name, size in SIZES.items() if name not in out]
        self._held_out = [size for name, size in SIZES.items() if name in out]
        if not (self._seen and self._held_out):
            raise ValueError("hold out some of the numbers of blocks, and leave one to teach")

    def situation(self, rng: Random, *, held_out: bool) -> Situation[Blocks, BlockAction]:
        """Draws a problem and a state on or beside its way, with other goals."""
        while True:
            out = held_out and rng.random() < _HELD_OUT
            size = rng.choice(self._held_out if out else self._seen)
            domain = _drawn(size, rng)
            walked = RuleWalks(domain, advised=ADVISED, mistaken=MISTAKEN).walk(rng)
            state: Blocks = walked.state
            if out or _is_new(state) == held_out:
                break
        standing = [pair for pair in state.on if pair[1] != TABLE]
        kept = sorted(rng.sample(standing, rng.randint(1, len(standing)))) if standing else []
        reached = [Puzzle("reached", domain.puzzle.start, Goal(tuple(kept)))] if kept else []
        advised = domain.advise(state)
        every = _RULES.every(state.names)
        every = [*advised, *rng.sample(every, min(_NAMED, len(every)))]
        # What the way takes comes first, and what changes nothing last.
        every.sort(key=lambda action: (action not in advised, _is_idle(state, action)))
        split: tuple[list[BlockAction], list[BlockAction]] = ([], [])
        for action in dict.fromkeys(every):
            split[_RULES.obstacle(state, action) is not None].append(action)
        return Situation(
            domains=(
                domain,
                *map(_taught, reached),
                *(_drawn(size, rng) for _ in range(_GOALS)),
            ),
            state=state,
            feasible=split[0],
            infeasible=split[1],
            new=held_out,
            start=walked.start,
            since=walked.taken,
        )

    def goal_kind(self, domain: Blocksworld) -> str:
        """The number of blocks, or `held out`."""
        size = len(domain.puzzle.start.names)
        return HELD_OUT if size in self._held_out else f"{size} blocks"

    def option_kind(self, option: BlockAction) -> str:
        """`held out` if the option names a block that no problem of teaching has."""
        known = {*ascii_lowercase[: max(self._seen)], ""}
        return SEEN if {option.block, option.onto} <= known else HELD_OUT

    def is_held_out(self, domain: Blocksworld, state: Blocks) -> bool:
        """Whether teaching leaves out this number of blocks, or this state."""
        return self.goal_kind(domain) == HELD_OUT or _is_new(state)

    def aim(self, state: Blocks, option: BlockAction) -> str:
        """What is missing: a block that does not stand where it has to, or one in the way."""
        below, above = state.below, state.above
        if option.verb == STACK:
            return f"block {option.block} has to stand on block {option.onto}"
        if option.verb == PUT_DOWN:
            return f"block {option.block} lies on block {below[option.block]}"
        return f"block {above.get(option.block, TABLE)} lies on block {option.block}"

    def fillers(self, state: Blocks) -> Sequence[BlockAction]:  # noqa: ARG002
        """None: every action that changes something may be in the way."""
        return ()

    def evidence(self, state: Blocks, option: BlockAction) -> str:
        """Why an option is feasible or not; see `_reason`."""
        return _reason(state, option, None)

    def judged(
        self,
        domain: Blocksworld,  # noqa: ARG002
        state: Blocks,
        subtask: BlockAction,
        parent: BlockAction | None,
    ) -> Judged:
        """What the rules judge; see `_reason`."""
        verdict = judged(Goal(()), state, subtask, parent).verdict
        return Judged(verdict, _reason(state, subtask, parent))

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


def _taught(puzzle: Puzzle) -> Blocksworld:
    """A problem as lessons have it: `decompose` names the subtasks of each tower from below.

    Short words say nothing of an order, so a model learns one.
    """
    return Blocksworld(puzzle, goal_order="lowest")


def _drawn(size: int, rng: Random) -> Blocksworld:
    return _taught(draw_problem(size, "drawn", rng))


def _written(state: Blocks) -> BaseModel:
    _, model = language("variant", state.names)
    return model.write(state)


def _reason(state: Blocks, option: BlockAction, parent: BlockAction | None) -> str:
    """What decides about an option, as far as it can be read off the state.

    Where it is whether two blocks are in one tower, each is copied with all that is below it: a
    small model reads from equal last letters that the tower is one, but sees it at no glance.
    """
    if option.verb == PUT_DOWN and parent is not None and parent.verb == STACK:
        pair = (parent.block, parent.onto)
    elif option.verb == STACK and option.onto not in state.above:
        pair = (option.block, option.onto)
    else:
        return judged(Goal(()), state, option, parent).reason
    return "; ".join(" ".join(_down(state, block)) for block in pair)


def _down(state: Blocks, block: str) -> Iterator[str]:
    """A block and all below it, down to the table."""
    while block != TABLE:
        yield block
        block = state.below[block]


def _is_new(state: Blocks) -> bool:
    digest = blake2b("; ".join(towers(state)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % NEW_STATES == 0


def _is_idle(state: Blocks, action: BlockAction) -> bool:
    possible = _RULES.obstacle(state, action) is None
    return possible and _RULES.apply(state, action) == state
