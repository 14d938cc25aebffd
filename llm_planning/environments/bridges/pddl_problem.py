"""Problems of PDDL, read and simulated by unified-planning.

A state is facts and numbers. The simulator reads and writes them through `_View`, so that no object
of unified-planning is part of a state.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from unified_planning.engines.plan_validator import SequentialPlanValidator
from unified_planning.engines.sequential_simulator import UPSequentialSimulator
from unified_planning.exceptions import UPInvalidActionError
from unified_planning.model import UPState
from unified_planning.model.walkers import StateEvaluator
from unified_planning.plans import ActionInstance, SequentialPlan

from llm_base.quoting import quote
from llm_planning.domain import DomainError
from llm_planning.environments.bridges.pddl_conditions import (
    UndefinedError,
    is_about,
    names_of,
    value_of,
)
from llm_planning.environments.bridges.pddl_matching import Facts, Schema
from llm_planning.environments.bridges.pddl_reading import read_model
from llm_planning.environments.bridges.pddl_words import condition_text, conjuncts
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from llm_planning.environments.bridges.pddl_matching import Atom, Fact, Term

MOST_MATCHES: Final = 20_000
"""The most ways in one state to fill in the parameters of one action."""


class Situation(NamedTuple):
    """A state.

    Attributes:
        facts: that hold now, of the predicates that actions change.
        numbers: the values of the functions that actions change.
    """

    facts: frozenset[Fact]
    numbers: frozenset[tuple[Fact, Fraction]] = frozenset()


class PddlProblem:
    """A problem that can be simulated from any of its states.

    Args:
        domain: file of the domain.
        problem: file of the problem.

    Attributes:
        model: the problem of unified-planning.
        manager: makes its expressions.
        fact_of: the fact that a ground expression names.
        goals: the conditions of the goal, at least one.
        changing: the predicates that actions change.
        lasting: the facts that no action changes.
        lasting_numbers: the values that no action changes.
        start: the state at the start.

    Raises:
        DomainError: a file cannot be read, or the problem is not classical.
    """

    def __init__(self, domain: Path, problem: Path) -> None:
        self.model = read_model(domain, problem)
        self.goals = conjuncts(self.model.goals)
        self.manager = self.model.environment.expression_manager
        self.fact_of = cache(_fact_of)
        self._simulator = UPSequentialSimulator(self.model, error_on_failed_checks=False)
        self._static = {fluent.name for fluent in self.model.get_static_fluents()}
        facts: set[Fact] = set()
        numbers: dict[Fact, Fraction] = {}
        for fluent, value in self.model.explicit_initial_values.items():
            if not value.is_bool_constant():
                numbers[_fact_of(fluent)] = Fraction(value.constant_value())
            elif value.is_true():
                facts.add(_fact_of(fluent))
        self.lasting = frozenset(fact for fact in facts if fact[0] in self._static)
        self.lasting_numbers = {
            fact: number for fact, number in numbers.items() if fact[0] in self._static
        }
        self.start = Situation(
            frozenset(facts - self.lasting),
            frozenset(numbers.items() - self.lasting_numbers.items()),
        )
        self._lasting = Facts(self.lasting)
        self.changing = [
            fluent
            for fluent in self.model.fluents
            if fluent.type.is_bool_type() and fluent.name not in self._static
        ]
        self._domains = {
            fluent.name: [names_of(self.model.objects(one.type)) for one in fluent.signature]
            for fluent in self.changing
        }
        self._schemas = {action.name: self._schema(action) for action in self.model.actions}

    def applicable(self, state: Situation) -> tuple[str, ...]:
        """The possible actions, in the order of the files.

        Raises:
            DomainError: there are too many.
        """
        facts, view = Facts(state.facts, self._lasting), _View(self, state)
        return tuple(
            " ".join((name, *arguments))
            for name, schema in self._schemas.items()
            for arguments in _matches(schema, facts)
            if self._is_applicable(view, schema, arguments)
        )

    def is_fact(self, fact: Fact) -> bool:
        """Whether a fact may hold: a predicate that actions change, with objects of its types."""
        domains = self._domains.get(fact[0], ())
        return (
            fact[0] in self._domains
            and len(fact) == len(domains) + 1
            and all(thing in domain for thing, domain in zip(fact[1:], domains, strict=True))
        )

    def after(self, state: Situation, action: str) -> Situation | None:
        """The state after an action; None if it is not possible."""
        if self._misnamed(action):
            return None
        name, *arguments = action.split()
        view = self._tried(self._simulator.apply, _View(self, state), name, arguments)
        return view.situation if isinstance(view, _View) else None

    def obstacle(self, state: Situation, action: str) -> str | None:
        """Why an action cannot be taken, in words; None if it can."""
        if misnamed := self._misnamed(action):
            return misnamed
        name, *arguments = action.split()
        view, (schema, objects) = _View(self, state), self._named(name, arguments)
        values = dict(zip(schema.parameters, objects, strict=True))
        bound = dict(zip(names_of(schema.parameters), arguments, strict=True))
        lacking = [one for one in conjuncts(schema.preconditions) if not _holds(one, view, bound)]
        if lacking:
            words = "; ".join(condition_text(one.substitute(values)) for one in lacking)
            return f"it needs: {words}"
        possible = self._is_applicable(view, self._schemas[name], arguments)
        return None if possible else "its effects contradict each other"

    def _misnamed(self, action: str) -> str | None:
        """Why a text names no action with objects of the right types; None if it does."""
        name, *arguments = action.split() or [""]
        if name not in self._schemas:
            return f"there is no action {quote(name)}; {remedy(name, self._schemas)}"
        parameters, domains = self.model.action(name).parameters, self._schemas[name].domains
        if len(arguments) != len(domains):
            return f"{name} takes {len(domains)} arguments, not {len(arguments)}"
        for argument, parameter in zip(arguments, parameters, strict=True):
            if argument not in domains[parameter.name]:
                return f"{quote(argument)} is no {parameter.type.name} of this problem"
        return None

    def open_goals(self, state: Situation) -> list[Any]:
        """The conditions of the goal that do not hold."""
        view = _View(self, state)
        return [one for one in self.goals if not _holds(one, view, {})]

    def judged(self, actions: Iterable[str]) -> Mapping[str, bool | float]:
        """What unified-planning's validator says of actions, without those that are refused.

        Returns:
            `validated`, whether they are a plan; and `plan_cost` if they are one and costs count.
        """
        state, taken = self.start, []
        for action in actions:
            if (after := self.after(state, action)) is not None:
                name, *arguments = action.split()
                taken.append(ActionInstance(*self._named(name, arguments)))
                state = after
        result = SequentialPlanValidator().validate(self.model, SequentialPlan(taken))
        costs = list((result.metric_evaluations or {}).values())
        return {"validated": bool(result), **({"plan_cost": float(costs[0])} if costs else {})}

    def every_action(self) -> Iterator[str]:
        """The actions that the lasting facts permit in some state, in any order."""
        view = _View(self, self.start)
        for name, schema in self._schemas.items():
            lasting = [one for one in schema.others if is_about(one, self._static)]
            for arguments in schema.about(self._static).matches(self._lasting):
                bound = dict(zip(schema.domains, arguments, strict=True))
                if all(_holds(one, view, bound) for one in lasting):
                    yield " ".join((name, *arguments))

    def beginning_in(self, state: Situation) -> Any:
        """The problem of unified-planning that begins in a state."""
        model = self.model.clone()
        for value, facts in (
            (False, self.start.facts - state.facts),
            (True, state.facts - self.start.facts),
        ):
            for fact in facts:
                model.set_initial_value(self._fluent(fact), value)
        for fact, number in state.numbers - self.start.numbers:
            model.set_initial_value(self._fluent(fact), number)
        return model

    def _fluent(self, fact: Fact) -> Any:
        predicate, *arguments = fact
        return self.model.fluent(predicate)(*map(self.model.object, arguments))

    def _is_applicable(self, view: _View, schema: Schema, arguments: Sequence[str]) -> bool:
        """Whether an action is possible, if what its schema joins is."""
        bound = dict(zip(schema.domains, arguments, strict=True))
        return all(_holds(one, view, bound) for one in schema.others) and (
            not schema.may_conflict
            or bool(self._tried(self._simulator.is_applicable, view, schema.name, arguments))
        )

    def _tried(
        self, question: Callable[..., Any], view: _View, name: str, arguments: Sequence[str]
    ) -> Any:
        """The answer of the simulator; None if that needs something impossible or undefined."""
        try:
            return question(view, *self._named(name, arguments))
        except UPInvalidActionError:
            return None
        except UndefinedError:
            # An evaluator that was interrupted goes on where it was.
            self._simulator._se = StateEvaluator(self.model)
            return None

    def _named(self, name: str, arguments: Iterable[str]) -> tuple[Any, tuple[Any, ...]]:
        """An action of unified-planning and its arguments."""
        objects = tuple(self.manager.ObjectExp(self.model.object(one)) for one in arguments)
        return self.model.action(name), objects

    def _schema(self, action: Any) -> Schema:
        numbers = {one.name: number for number, one in enumerate(action.parameters)}
        present: list[Atom] = []
        others: list[Any] = []
        for condition in conjuncts(action.preconditions):
            terms = _terms(condition, numbers)
            if terms is None:
                others.append(condition)
            else:
                present.append((condition.fluent().name, terms))
        domains = {
            one.name: {
                thing.name: place for place, thing in enumerate(self.model.objects(one.type))
            }
            for one in action.parameters
        }
        numeric = any(not effect.fluent.type.is_bool_type() for effect in action.effects)
        return Schema(action.name, domains, tuple(present), tuple(others), may_conflict=numeric)


class _View(UPState):  # type: ignore[misc, unused-ignore]
    """A state, as the simulator reads and changes it."""

    def __init__(self, problem: PddlProblem, situation: Situation) -> None:
        self._problem = problem
        self.situation = situation
        self._numbers = dict(situation.numbers)

    def holds(self, fact: Fact) -> bool:
        """Whether a fact holds."""
        return fact in self.situation.facts or fact in self._problem.lasting

    def number(self, fact: Fact) -> Fraction:
        """The value of a function.

        Raises:
            UndefinedError: it has none.
        """
        number = self._numbers.get(fact, self._problem.lasting_numbers.get(fact))
        if number is None:
            raise UndefinedError
        return number

    def things(self, type_: Any) -> list[str]:
        """The objects of a type."""
        return names_of(self._problem.model.objects(type_))

    def get_value(self, fluent: Any) -> Any:
        """The value of a ground predicate or function, as an expression."""
        fact, manager = self._problem.fact_of(fluent), self._problem.manager
        value = self.holds(fact) if fluent.type.is_bool_type() else self.number(fact)
        return manager.auto_promote(value)[0]

    def make_child(self, updated_values: Mapping[Any, Any]) -> _View:
        """The state in which some ground predicates and functions have other values."""
        facts, numbers = set(self.situation.facts), dict(self._numbers)
        for fluent, value in updated_values.items():
            fact = self._problem.fact_of(fluent)
            if not value.is_bool_constant():
                numbers[fact] = Fraction(value.constant_value())
            elif value.is_true():
                facts.add(fact)
            else:
                facts.discard(fact)
        after = Situation(frozenset(facts), frozenset(numbers.items()))
        return _View(self._problem, after)


def _fact_of(fluent: Any) -> Fact:
    return (fluent.fluent().name, *map(str, fluent.args))


def _holds(condition: Any, view: _View, bound: Mapping[str, str]) -> bool:
    try:
        return bool(value_of(condition, view, bound))
    except UndefinedError:
        return False


def _terms(condition: Any, numbers: Mapping[str, int]) -> tuple[Term, ...] | None:
    """The arguments of a predicate; None for what is none."""
    if not condition.is_fluent_exp():
        return None
    return tuple(
        one.object().name if one.is_object_exp() else numbers[one.parameter().name]
        for one in condition.args
    )


def _matches(schema: Schema, facts: Facts) -> list[tuple[str, ...]]:
    found = list(islice(schema.matches(facts), MOST_MATCHES + 1))
    if len(found) > MOST_MATCHES:
        raise DomainError(
            f"the action {schema.name} can be tried in more than {MOST_MATCHES} ways: the problem "
            "is too large; choose one with fewer objects"
        )
    return sorted(found, key=schema.place)
