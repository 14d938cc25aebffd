"""Conditions of unified-planning, evaluated on facts.

The values are those of its own evaluator, which takes a second for the quantifiers of one state.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final, Protocol

from unified_planning.model.operators import OperatorKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from llm_planning.environments.bridges.pddl_matching import Fact


class UndefinedError(Exception):
    """A function has no value here: what needs it is not possible."""


class Reading(Protocol):
    """A state."""

    def holds(self, fact: Fact) -> bool:
        """Whether a fact holds."""
        ...

    def number(self, fact: Fact) -> Fraction:
        """The value of a function.

        Raises:
            UndefinedError: it has none.
        """
        ...

    def things(self, type_: Any) -> list[str]:
        """The objects of a type."""
        ...


def value_of(term: Any, state: Reading, bound: Mapping[str, str]) -> Any:
    """The value of an expression: a truth value, a number or the name of an object.

    Args:
        term: the expression (`FNode`).
        state: where it is evaluated.
        bound: the objects that parameters and variables stand for, by name.

    Raises:
        UndefinedError: a function has no value.
    """
    kind = term.node_type
    if kind in _OPERATIONS:
        return _OPERATIONS[kind](value_of(one, state, bound) for one in term.args)
    if kind == OperatorKind.FLUENT_EXP:
        fact = (term.fluent().name, *(value_of(one, state, bound) for one in term.args))
        return state.holds(fact) if term.type.is_bool_type() else state.number(fact)
    if kind in _QUANTIFIERS:
        names = names_of(term.variables())
        ways = product(*(state.things(one.type) for one in term.variables()))
        return _QUANTIFIERS[kind](
            value_of(term.arg(0), state, {**bound, **dict(zip(names, way, strict=True))})
            for way in ways
        )
    if kind in {OperatorKind.PARAM_EXP, OperatorKind.VARIABLE_EXP}:
        return bound[(term.parameter() if term.is_parameter_exp() else term.variable()).name]
    return term.object().name if kind == OperatorKind.OBJECT_EXP else term.constant_value()


def names_of(variables: Any) -> list[str]:
    """The names of parameters or variables."""
    return [one.name for one in variables]


def is_about(term: Any, predicates: set[str]) -> bool:
    """Whether an expression names no other predicates and functions than these."""
    is_known = not term.is_fluent_exp() or term.fluent().name in predicates
    return is_known and all(is_about(one, predicates) for one in term.args)


_OPERATIONS: Final[Mapping[Any, Callable[[Iterator[Any]], Any]]] = {
    OperatorKind.AND: all,
    OperatorKind.OR: any,
    OperatorKind.NOT: lambda values: not next(values),
    OperatorKind.IMPLIES: lambda values: not next(values) or next(values),
    OperatorKind.IFF: lambda values: next(values) == next(values),
    OperatorKind.EQUALS: lambda values: next(values) == next(values),
    OperatorKind.LE: lambda values: next(values) <= next(values),
    OperatorKind.LT: lambda values: next(values) < next(values),
    OperatorKind.PLUS: sum,
    OperatorKind.MINUS: lambda values: next(values) - next(values),
    OperatorKind.TIMES: prod,
    OperatorKind.DIV: lambda values: Fraction(next(values)) / next(values),
}
_QUANTIFIERS: Final[Mapping[Any, Callable[[Iterator[bool]], bool]]] = {
    OperatorKind.EXISTS: any,
    OperatorKind.FORALL: all,
}
