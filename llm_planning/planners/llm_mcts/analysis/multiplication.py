"""L-Policy and L-Model for multiplication.

L-Policy has the model say the product. L-Model has it say the 100 products of one-digit numbers,
and multiplies with these by long multiplication. What the model says is never corrected.

Source: LLM-MCTS, Sections 1 and 4. Their description lengths, in bits (Section 1): L-Policy needs a
table of O(10^(2n)) products of n-digit numbers, thus O(n 10^(2n)) bits; L-Model needs the table of
one-digit products, whose size is constant.

The role `product` is asked about whole factors, the role `fact` about one-digit numbers, both in
the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from math import log2
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, Field, create_model

from llm_planning.execution.episode import execute
from llm_planning.outcome import Outcome
from llm_planning.roles import Asking, Kinds, Prompt, RoleSettings, RoleSpec, Rule, gather
from llm_planning.roles.short import short_words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from llm_planning.environments.multiplication.domain import Multiplication
    from llm_planning.specs import Run


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


class Product(BaseModel):
    """A product as a model writes it."""

    product: int


@cache
def answer_model(digits: int) -> type[Product]:
    """The answers about numbers of so many digits: those that a product of two of them may be."""
    number: Any = Annotated[int, Field(ge=0, le=_largest(digits))]
    return create_model(
        Product.__name__, __base__=Product, __doc__=Product.__doc__, product=(number, ...)
    )


@cache
def prompt() -> Prompt:
    """The prompt of both roles. It has no examples: the bundled model would copy their products."""
    return Prompt(
        [(files(__package__) / "templates" / "multiplication.j2").read_text("utf-8")],
        system=("rules",),
        user=("question",),
        constants={},
    )


def product_role(name: str, world: Multiplication, digits: int) -> RoleSpec[Times, int]:
    """The product of two numbers. Wrong is any other number that an answer may be, each as likely.

    Args:
        name: `PRODUCT` or `FACT`.
        world: where it is asked.
        digits: the most digits of a factor.
    """

    def wrong(question: Times, rng: Random) -> int:
        drawn = rng.randrange(question.largest)
        return drawn + (drawn >= question.first * question.second)

    return RoleSpec(
        name=name,
        asks=Times,
        prompt=prompt,
        writes=partial(answer_model, digits),
        read=lambda _, written: int(written.product),
        short=short_words(name, world),
        rule=Rule(
            right=lambda question: question.first * question.second,
            wrong=wrong,
            situation=lambda question: ((question.first, question.second),),
            kinds=Kinds(names=SIZES, of=lambda question: SIZES[question.digits - 1]),
        ),
    )


async def l_policy_multiplication(run: Run[Multiplication, MultiplicationSettings]) -> Outcome:
    """Has the product said in one answer."""
    world = run.world
    first, second = world.factors(world.start(run.seed))
    asking = Asking(world, run.engines, run.settings, seed=run.seed)
    ask = asking.of(product_role(PRODUCT, world, world.digits))
    answer = await ask(Times(first, second, world.digits))
    metrics = {"description_bits": table_bits(world.digits)}
    return await _carried_out(answer, run, asking, metrics=metrics, trace={})


async def l_model_multiplication(run: Run[Multiplication, MultiplicationSettings]) -> Outcome:
    """Has all one-digit products said, and multiplies with them."""
    world = run.world
    first, second = world.factors(world.start(run.seed))
    asking = Asking(world, run.engines, run.settings, seed=run.seed)
    ask = asking.of(product_role(FACT, world, 1))
    pairs = [(a, b) for a in range(10) for b in range(10)]
    facts = dict(zip(pairs, await gather(ask(Times(a, b, 1)) for a, b in pairs), strict=True))
    used = facts_used(first, second)
    wrong = {(a, b) for (a, b), product in facts.items() if product != a * b}
    return await _carried_out(
        long_multiplication(first, second, facts),
        run,
        asking,
        metrics={
            "description_bits": table_bits(1),
            "facts_used": len(used),
            "facts_used_wrong": len(used & wrong),
            "facts_wrong": len(wrong),
        },
        trace={"facts": [[facts[a, b] for b in range(10)] for a in range(10)]},
    )


def long_multiplication(first: int, second: int, facts: Mapping[tuple[int, int], int]) -> int:
    """Multiplies as it is done by hand: with products of digits alone, each added at its place.

    Args:
        facts: (digit of `first`, digit of `second`) -> what their product is said to be.

    Example:
        >>> from llm_planning.planners.llm_mcts.analysis.multiplication import long_multiplication
        >>> exact = {(a, b): a * b for a in range(10) for b in range(10)}
        >>> long_multiplication(47, 12, exact)
        564
        >>> long_multiplication(47, 12, exact | {(7, 1): 8})
        574
    """
    return sum(
        facts[int(a), int(b)] * 10 ** (i + j)
        for i, a in enumerate(reversed(str(first)))
        for j, b in enumerate(reversed(str(second)))
    )


def facts_used(first: int, second: int) -> set[tuple[int, int]]:
    """The different products of digits that long multiplication needs."""
    return {(int(a), int(b)) for a in str(first) for b in str(second)}


def table_bits(digits: int) -> float:
    """The bits of a table of all products of two numbers of up to n digits.

    It has 10^(2n) entries of 2n decimal digits, thus 2n 10^(2n) log2(10) bits. This is the paper's
    O(n 10^(2n)) (Section 1) with this project's constants. A program that looks the entry up, or
    multiplies with n = 1, is as long for every n, and is not counted.

    Example:
        >>> from llm_planning.planners.llm_mcts.analysis.multiplication import table_bits
        >>> round(table_bits(1)), round(table_bits(2))
        (664, 132877)
    """
    return 2 * digits * 10.0 ** (2 * digits) * log2(10)


async def _carried_out(
    answer: int,
    run: Run[Multiplication, MultiplicationSettings],
    asking: Asking,
    *,
    metrics: Mapping[str, Any],
    trace: Mapping[str, Any],
) -> Outcome:
    """Writes an answer in the world, which judges it."""
    world = run.world
    first, second = world.factors(world.start(run.seed))
    plan = world.written(answer)
    execution = await execute(world, plan, seed=run.seed)
    verdict = "right" if execution.success else f"wrong, {first * second} is right"
    return Outcome(
        success=execution.success,
        plan=plan,
        metrics={**execution.metrics(), "answer": answer, **metrics},
        trace={
            "domain": run.domain,
            **run.header,
            **({"oracles": asking.oracles} if asking.oracles else {}),
            **trace,
            **execution.to_json(),
        },
        text=f"{first} x {second} = {answer}: {verdict}",
    )
