"""What is the product of two numbers? A language model's answer, or that of rules.

The role `product` is asked about whole factors, the role `fact` about one-digit numbers. Both are
asked in the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, Field, create_model

from llm_planning.roles import Kinds, Prompt, RoleSettings, RoleSpec, Rule

if TYPE_CHECKING:
    from random import Random

PRODUCT: Final = "product"
"""The role under which the engine counts questions about two numbers."""

FACT: Final = "fact"
"""The role under which the engine counts questions about two one-digit numbers."""

SIZES: Final = ("one-digit", "two-digit", "three-digit", "four-digit", "five-digit")
"""The kinds of questions, which may have error rates of their own."""


class MultiplicationSettings(RoleSettings):
    """Settings of the planners that multiply: who answers."""

    known_roles = (PRODUCT, FACT)


@dataclass(frozen=True, slots=True)
class Times:
    """What is the product of two numbers?

    Attributes:
        first: a factor.
        second: the other one.
        digits: the most digits of either.
    """

    first: int
    second: int
    digits: int

    @property
    def largest(self) -> int:
        """The largest product of two such numbers."""
        return _largest(self.digits)


def _largest(digits: int) -> int:
    return int(10**digits - 1) ** 2


class Said(BaseModel):
    """A product as a model writes it."""

    product: int


@cache
def answer_model(digits: int) -> type[Said]:
    """The answers about numbers of so many digits: those that a product of two of them may be."""
    number: Any = Annotated[int, Field(ge=0, le=_largest(digits))]
    return create_model(Said.__name__, __base__=Said, __doc__=Said.__doc__, product=(number, ...))


@cache
def prompt() -> Prompt:
    """The prompt of both roles. It has no examples: the bundled model would copy their products."""
    return Prompt(
        [(files(__package__) / "templates" / "multiplication.j2").read_text("utf-8")],
        system=("rules",),
        user=("question",),
        constants={},
    )


def product_role(name: str, digits: int) -> RoleSpec[Times, int]:
    """The product of two numbers. Wrong is any other number that an answer may be, each as likely.

    Args:
        name: `PRODUCT` or `FACT`.
        digits: the most digits of a factor.
    """

    def wrong(asked: Times, rng: Random) -> int:
        drawn = rng.randrange(asked.largest)
        return drawn + (drawn >= asked.first * asked.second)

    return RoleSpec(
        name=name,
        asks=Times,
        prompt=prompt,
        writes=partial(answer_model, digits),
        read=lambda _, said: int(said.product),
        rule=Rule(
            right=lambda asked: asked.first * asked.second,
            wrong=wrong,
            situation=lambda asked: ((asked.first, asked.second),),
            kinds=Kinds(names=SIZES, of=lambda asked: SIZES[asked.digits - 1]),
        ),
    )
