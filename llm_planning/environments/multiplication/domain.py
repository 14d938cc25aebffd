"""Multiplication as a domain: the product of two numbers is written from the left, digit by digit.

Source: LLM-MCTS, Section 1, which compares two ways to multiply with a language model. The paper
draws no numbers of its own; here both factors of a trial are drawn from its seed.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import Field

from llm_planning.domain import Domain, Step
from llm_planning.settings import Settings
from llm_planning.specs import DomainSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_DIGITS: Final = 5
"""The most digits of a factor, as in the paper."""

DIGITS: Final = tuple("0123456789")
"""The actions: each writes one digit."""


class Writing(NamedTuple):
    """A product that is being written.

    Attributes:
        written: the digits so far, from the left.
    """

    first: int
    second: int
    written: str


class Multiplication(Domain[Writing, str]):
    """Two drawn numbers, whose exact product is to be written.

    The product of two numbers of n digits has 2n digits or one less. It is always written with 2n,
    the first of them perhaps a 0, so that no action but a digit is needed. What is written stays.

    Args:
        digits: n, from 1 to `MOST_DIGITS`. No factor begins with a 0.
    """

    goal = "Write the exact product of the two numbers, digit by digit from the left."
    example = (
        ("3 x 4 = __ (2 digits in all, none is written)", "1"),
        ("3 x 4 = 1_ (2 digits in all, 1 is written)", "2"),
    )

    def __init__(self, digits: int = 2) -> None:
        self.digits = digits
        length = "1 digit" if digits == 1 else f"{digits} digits"
        self.about = (
            f"Two numbers of {length} each are multiplied. Their product is written with "
            f"{2 * digits} digits, from the left; if it is shorter, it begins with a 0. A digit "
            "that is written cannot be changed."
        )

    def start(self, seed: int) -> Writing:
        """Draws both factors evenly from the numbers of n digits."""
        draws = Random(f"multiplication {self.digits} {seed}")
        least, most = 10 ** (self.digits - 1), 10**self.digits - 1
        return Writing(draws.randint(least, most), draws.randint(least, most), "")

    def describe(self, state: Writing) -> str:
        """The factors and what is written."""
        size, count = 2 * self.digits, len(state.written)
        how_many = {0: "none is", 1: "1 is"}.get(count, f"{count} are")
        blanks = "_" * (size - count)
        return (
            f"{state.first} x {state.second} = {state.written}{blanks} "
            f"({size} digits in all, {how_many} written)"
        )

    def actions(self, state: Writing) -> Sequence[str]:
        """The ten digits; none where all are written."""
        return () if len(state.written) == 2 * self.digits else DIGITS

    def step(self, state: Writing, action: str, rng: Random) -> Step[Writing]:  # noqa: ARG002
        """Writes a digit. The last one ends the episode."""
        if refusal := self.feasible(state, action):
            return Step(state, text=refusal, obstacle=refusal)
        after = state._replace(written=state.written + action)
        done, won = not self.actions(after), self.success(after)
        text = after.written
        if done:
            text += " is the product" if won else " is not the product"
        return Step(after, reward=float(won), done=done, text=text)

    def success(self, state: Writing) -> bool:
        """Whether all digits are written, and each is right."""
        return state.written == "".join(self.written(state.first * state.second))

    def feasible(self, state: Writing, action: str) -> str | None:
        """Why a digit cannot be written; None if it can."""
        if action not in DIGITS:
            return f"{action} is not a digit"
        return None if self.actions(state) else "all digits are written"

    def advise(self, state: Writing) -> Sequence[str]:
        """The digits that are missing; none if one that is written is wrong."""
        right = self.written(state.first * state.second)
        count = len(state.written)
        return right[count:] if "".join(right[:count]) == state.written else ()

    def factors(self, state: Writing) -> tuple[int, int]:
        """The two numbers."""
        return state.first, state.second

    def written(self, number: int) -> tuple[str, ...]:
        """The actions that write a number."""
        return tuple(f"{number:0{2 * self.digits}d}")


TASKS: Final = ("product",)


class MultiplicationSettings(Settings):
    """Settings of the domain.

    Attributes:
        digits: n, of each of the two numbers. The trial's seed draws the numbers.
    """

    digits: int = Field(2, ge=1, le=MOST_DIGITS)


MULTIPLICATION = DomainSpec(
    name="multiplication",
    summary="the exact product of two drawn numbers, written digit by digit: LLM-MCTS",
    kind=Multiplication,
    tasks=TASKS,
    settings=MultiplicationSettings,
    open=lambda _task, settings: Multiplication(settings.digits),
)
