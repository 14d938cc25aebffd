"""Problems of PDDL: their states, which actions are possible, and what these do.

unified-planning reads them and checks plans. Its simulator lists all actions with all arguments,
and its evaluator takes a second for the quantifiers of one state. So conditions and effects are
evaluated here, on facts; the values are those of unified-planning. The parameters of an action take
their values from the facts that hold, the rarest first, as in a join of tables.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from unified_planning.engines.plan_validator import SequentialPlanValidator
from unified_planning.exceptions import UPUsageError
from unified_planning.model.operators import OperatorKind
from unified_planning.plans import ActionInstance, SequentialPlan

from llm_base.quoting import quote
from llm_planning.domain import DomainError
from llm_planning.environments.bridges.pddl_files import read_model
from llm_planning.environments.bridges.pddl_words import condition_text, conjuncts
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

MOST_MATCHES: Final = 20_000
"""The most ways in one state to fill in the parameters of one action."""

Fact: TypeAlias = tuple[str, ...]
"""A predicate and its arguments."""

Need: TypeAlias = tuple[Fact, bool]
"""A fact, and whether it has to hold."""

Term: TypeAlias = int | str
"""An argument: the number of an action's parameter, or the name of an object."""

Atom: TypeAlias = tuple[str, tuple[Term, ...]]
"""A predicate and its arguments, before an action has its own."""


class UndefinedError(Exception):
    """A function has no value here: what needs it is not possible."""


class Situation(NamedTuple):
    """A state.

    Attributes:
        facts: that hold now, of the predicates that actions change.
        numbers: the values of the functions that actions change.
    """

    facts: frozenset[Fact]
    numbers: frozenset[tuple[Fact, Fraction]] = frozenset()


class Branch(NamedTuple):
    """An action and one condition of its effects, without numbers, `or` and `exists`.

    Attributes:
        action: with its arguments.
        needs: what has to hold for the action and for these effects.
        gives: what holds after it, and what does not.
    """

    action: str
    needs: frozenset[Need]
    gives: frozenset[Need]


class Facts:
    """Facts that hold, by their predicate and by each of their arguments.

    Args:
        facts: of some predicates.
        lasting: facts of other predicates.
    """

    def __init__(self, facts: Iterable[Fact], lasting: Facts | None = None) -> None:
        self._lasting = lasting
        self._found: dict[tuple[str, int, str], dict[Fact, None]] = defaultdict(dict)
        for fact in facts:
            for place, value in enumerate(fact):
                self._found[fact[0], place, value][fact] = None

    def like(self, atom: Atom, bound: Sequence[str | None]) -> Mapping[Fact, None]:
        """The fewest facts among which are all that an atom can be."""
        predicate, terms = atom
        values = (predicate, *(bound[term] if isinstance(term, int) else term for term in terms))
        return min(
            (self._of(predicate, place, value) for place, value in enumerate(values) if value),
            key=len,
        )

    def _of(self, predicate: str, place: int, value: str) -> Mapping[Fact, None]:
        found = self._found.get((predicate, place, value))
        if found is None:
            return {} if self._lasting is None else self._lasting._of(predicate, place, value)
        return found


@dataclass(frozen=True, slots=True)
class Schema:
    """An action without its arguments.

    Attributes:
        domains: parameter -> the objects of its type, with their place in the problem.
        conditions: all preconditions, expressions of unified-planning.
        present: those that are joined: facts that have to hold.
        others: the rest of them.
        effects: of unified-planning.
        may_conflict: whether effects can contradict each other.
    """

    domains: Mapping[str, Mapping[str, int]]
    conditions: tuple[Any, ...]
    present: tuple[Atom, ...]
    others: tuple[Any, ...]
    effects: tuple[Any, ...]
    may_conflict: bool

    def about(self, predicates: Collection[str]) -> Schema:
        """The schema with only those joined preconditions that are about some predicates."""
        return replace(self, present=tuple(atom for atom in self.present if atom[0] in predicates))

    def bound(self, arguments: Iterable[str]) -> dict[str, str]:
        """Parameter -> argument."""
        return dict(zip(self.domains, arguments, strict=True))

    def matches(self, facts: Facts) -> Iterator[tuple[str, ...]]:
        """The arguments with which the joined preconditions hold, each once, in any order."""
        return self._joined(facts, self.present, (None,) * len(self.domains))

    def _joined(
        self, facts: Facts, atoms: tuple[Atom, ...], bound: tuple[str | None, ...]
    ) -> Iterator[tuple[str, ...]]:
        if not atoms:
            pairs = zip(bound, self.domains.values(), strict=True)
            yield from product(*(tuple(all_) if term is None else (term,) for term, all_ in pairs))
            return
        likes = [facts.like(atom, bound) for atom in atoms]
        rarest = min(range(len(atoms)), key=lambda number: len(likes[number]))
        others = (*atoms[:rarest], *atoms[rarest + 1 :])
        for fact in likes[rarest]:
            extended = self._extended(atoms[rarest], fact, bound)
            if extended is not None:
                yield from self._joined(facts, others, extended)

    def _extended(
        self, atom: Atom, fact: Fact, bound: tuple[str | None, ...]
    ) -> tuple[str | None, ...] | None:
        """The values of the parameters if an atom is this fact; None if it cannot be."""
        extended, domains = list(bound), tuple(self.domains.values())
        for term, value in zip(atom[1], fact[1:], strict=True):
            known = term if isinstance(term, str) else extended[term]
            if known is None and isinstance(term, int) and value in domains[term]:
                extended[term] = value
            elif known != value:
                return None
        return tuple(extended)

    def place(self, arguments: tuple[str, ...]) -> tuple[int, ...]:
        """By which arguments are sorted: the places of the objects in the problem."""
        pairs = zip(self.domains.values(), arguments, strict=True)
        return tuple(domain[argument] for domain, argument in pairs)


class PddlProblem:
    """A problem that can be simulated from any of its states.

    Args:
        domain: file of the domain.
        problem: file of the problem.

    Attributes:
        model: the problem of unified-planning.
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
        self._static = {fluent.name for fluent in self.model.get_static_fluents()}
        facts: set[Fact] = set()
        numbers: dict[Fact, Fraction] = {}
        for fluent, value in self.model.explicit_initial_values.items():
            fact = (fluent.fluent().name, *map(str, fluent.args))
            if not value.is_bool_constant():
                numbers[fact] = Fraction(value.constant_value())
            elif value.is_true():
                facts.add(fact)
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
            fluent.name: [self.things(parameter.type) for parameter in fluent.signature]
            for fluent in self.changing
        }
        self._schemas = {action.name: self._schema(action) for action in self.model.actions}

    def things(self, type_: Any) -> list[str]:
        """The objects of a type."""
        return names_of(self.model.objects(type_))

    def applicable(self, state: Situation) -> tuple[str, ...]:
        """The possible actions, in the order of the files.

        Raises:
            DomainError: there are too many.
        """
        facts, view = Facts(state.facts, self._lasting), View(self, state)
        found = []
        for name, schema in self._schemas.items():
            matches = list(islice(schema.matches(facts), MOST_MATCHES + 1))
            if len(matches) > MOST_MATCHES:
                raise DomainError(
                    f"the action {name} can be tried in more than {MOST_MATCHES} ways: the problem "
                    "is too large; choose one with fewer objects"
                )
            found += [
                " ".join((name, *arguments))
                for arguments in sorted(matches, key=schema.place)
                if view.hold(schema.others, schema.bound(arguments))
                and not (schema.may_conflict and view.after(schema, arguments) is None)
            ]
        return tuple(found)

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
        schema, view = self._schemas[name], View(self, state)
        is_possible = view.hold(schema.conditions, schema.bound(arguments))
        return view.after(schema, arguments) if is_possible else None

    def obstacle(self, state: Situation, action: str) -> str | None:
        """Why an action cannot be taken, in words; None if it can."""
        if misnamed := self._misnamed(action):
            return misnamed
        name, *arguments = action.split()
        view, schema, (named, objects) = View(self, state), self._schemas[name], self._named(action)
        values = dict(zip(named.parameters, objects, strict=True))
        bound = schema.bound(arguments)
        lacking = [
            condition for condition in schema.conditions if not view.hold([condition], bound)
        ]
        if lacking:
            words = "; ".join(condition_text(condition.substitute(values)) for condition in lacking)
            return f"it needs: {words}"
        possible = view.after(schema, arguments) is not None
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
        view = View(self, state)
        return [condition for condition in self.goals if not view.hold([condition], {})]

    def judged(self, actions: Iterable[str]) -> Mapping[str, bool | float]:
        """What unified-planning's validator says of actions, without those that are refused.

        Returns:
            `validated`, whether they are a plan, and `plan_cost` if they are one and costs count;
            nothing if the goal or the metric asks for a function without a value.
        """
        state, taken = self.start, []
        for action in actions:
            if (after := self.after(state, action)) is not None:
                taken.append(ActionInstance(*self._named(action)))
                state = after
        validator = SequentialPlanValidator()
        # It would refuse functions without a value, but asks for those alone that actions need.
        validator.skip_checks = True
        try:
            result = validator.validate(self.model, SequentialPlan(taken))
        except UPUsageError:
            return {}
        costs = [
            float(value)
            for metric, value in (result.metric_evaluations or {}).items()
            if not metric.is_maximize_expression_on_final_state()
        ]
        return {"validated": bool(result), **({"plan_cost": costs[0]} if costs else {})}

    def every_action(self) -> Iterator[str]:
        """The actions that the lasting facts permit in some state, in any order."""
        view = View(self, self.start)
        for name, schema in self._schemas.items():
            lasting = [
                condition for condition in schema.others if is_about(condition, self._static)
            ]
            for arguments in schema.about(self._static).matches(self._lasting):
                if view.hold(lasting, schema.bound(arguments)):
                    yield " ".join((name, *arguments))

    def branches(self, action: str) -> list[Branch]:
        """An action, once for each condition of its effects that the lasting facts permit."""
        name, *arguments = action.split()
        schema = self._schemas[name]
        needs = self.needs(schema.conditions, schema.bound(arguments))
        gives: dict[frozenset[Need], set[Need]] = defaultdict(set)
        for effect, bound in self._view.expanded(schema.effects, schema.bound(arguments)):
            if effect.fluent.type.is_bool_type():
                fact = self._view.fact(effect.fluent, bound)
                gives[self.needs([effect.condition], bound)].add((fact, effect.value.is_true()))
        found = []
        for more, given in gives.items():
            lasting = {need for need in needs | more if need[0][0] in self._static}
            if all((fact in self.lasting) == holds for fact, holds in lasting):
                found.append(Branch(action, (needs | more) - lasting, frozenset(given)))
        return found

    def needs(self, conditions: Iterable[Any], bound: Mapping[str, str]) -> frozenset[Need]:
        """The facts that conditions name; what `or`, `exists` and numbers say is left out."""
        found: set[Need] = set()
        for condition in conditions:
            if condition.is_and():
                found |= self.needs(condition.args, bound)
            elif condition.is_forall():
                for more in self._view.bindings(condition.variables(), bound):
                    found |= self.needs(condition.args, more)
            elif condition.is_fluent_exp() and condition.type.is_bool_type():
                found.add((self._view.fact(condition, bound), True))
            elif condition.is_not() and condition.arg(0).is_fluent_exp():
                found.add((self._view.fact(condition.arg(0), bound), False))
        return frozenset(found)

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

    @cached_property
    def _view(self) -> View:
        return View(self, self.start)

    def _fluent(self, fact: Fact) -> Any:
        predicate, *arguments = fact
        return self.model.fluent(predicate)(*map(self.model.object, arguments))

    def _named(self, action: str) -> tuple[Any, tuple[Any, ...]]:
        """An action of unified-planning and its arguments."""
        name, *arguments = action.split()
        manager = self.model.environment.expression_manager
        objects = tuple(manager.ObjectExp(self.model.object(argument)) for argument in arguments)
        return self.model.action(name), objects

    def _schema(self, action: Any) -> Schema:
        numbers = {parameter.name: number for number, parameter in enumerate(action.parameters)}
        conditions = conjuncts(action.preconditions)
        present = {
            condition: _terms(condition, numbers)
            for condition in conditions
            if condition.is_fluent_exp()
        }
        return Schema(
            domains={
                parameter.name: {
                    thing: place for place, thing in enumerate(self.things(parameter.type))
                }
                for parameter in action.parameters
            },
            conditions=tuple(conditions),
            present=tuple((condition.fluent().name, terms) for condition, terms in present.items()),
            others=tuple(condition for condition in conditions if condition not in present),
            effects=tuple(action.effects),
            may_conflict=any(not effect.fluent.type.is_bool_type() for effect in action.effects),
        )


class View:
    """A state in which conditions and effects are evaluated."""

    def __init__(self, problem: PddlProblem, situation: Situation) -> None:
        self._problem = problem
        self._situation = situation
        self._numbers = dict(situation.numbers)

    def hold(self, conditions: Iterable[Any], bound: Mapping[str, str]) -> bool:
        """Whether conditions hold; what has no value does not."""
        try:
            return all(self.value(condition, bound) for condition in conditions)
        except UndefinedError:
            return False

    def value(self, term: Any, bound: Mapping[str, str]) -> Any:
        """The value of an expression: a truth value, a number or the name of an object.

        Args:
            term: the expression (`FNode`).
            bound: the objects that parameters and variables stand for, by name.

        Raises:
            UndefinedError: a function has no value.
        """
        kind = term.node_type
        if kind in _OPERATIONS:
            values = (self.value(argument, bound) for argument in term.args)
            try:
                return _OPERATIONS[kind](values)
            except ZeroDivisionError as error:
                raise UndefinedError from error
        if kind == OperatorKind.FLUENT_EXP:
            fact = self.fact(term, bound)
            if term.type.is_bool_type():
                return fact in self._situation.facts or fact in self._problem.lasting
            number = self._numbers.get(fact, self._problem.lasting_numbers.get(fact))
            if number is None:
                raise UndefinedError
            return number
        if kind in _QUANTIFIERS:
            bindings = self.bindings(term.variables(), bound)
            return _QUANTIFIERS[kind](self.value(term.arg(0), more) for more in bindings)
        if kind in {OperatorKind.PARAM_EXP, OperatorKind.VARIABLE_EXP}:
            return bound[(term.parameter() if term.is_parameter_exp() else term.variable()).name]
        return term.object().name if kind == OperatorKind.OBJECT_EXP else term.constant_value()

    def fact(self, fluent: Any, bound: Mapping[str, str]) -> Fact:
        """The fact or function that an expression names."""
        return (fluent.fluent().name, *(self.value(argument, bound) for argument in fluent.args))

    def bindings(self, variables: Any, bound: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """Every way to bind variables, beside what is bound."""
        names = names_of(variables)
        for way in product(*(self._problem.things(variable.type) for variable in variables)):
            yield {**bound, **dict(zip(names, way, strict=True))}

    def expanded(
        self, effects: Iterable[Any], bound: Mapping[str, str]
    ) -> Iterator[tuple[Any, Mapping[str, str]]]:
        """Effects with what their parameters and variables stand for."""
        for effect in effects:
            for more in self.bindings(effect.forall, bound):
                yield effect, more

    def after(self, schema: Schema, arguments: Sequence[str]) -> Situation | None:
        """The state after a possible action; None if its effects conflict or have no value."""
        facts: dict[Fact, bool] = {}
        numbers: dict[Fact, Fraction] = {}
        assigned: set[Fact] = set()
        try:
            for effect, bound in self.expanded(schema.effects, schema.bound(arguments)):
                if not self.value(effect.condition, bound):
                    continue
                fact, value = self.fact(effect.fluent, bound), self.value(effect.value, bound)
                known = numbers.get(fact)
                if effect.fluent.type.is_bool_type():
                    # What one effect ends and another begins holds.
                    facts[fact] = facts.get(fact, False) or value
                elif effect.is_assignment():
                    if known is not None and (fact not in assigned or known != value):
                        return None
                    assigned.add(fact)
                    numbers[fact] = Fraction(value)
                elif fact in assigned:
                    return None
                else:
                    begun = self.value(effect.fluent, bound) if known is None else known
                    numbers[fact] = Fraction(begun + (value if effect.is_increase() else -value))
        except UndefinedError:
            return None
        begins = {fact for fact, holds in facts.items() if holds}
        return Situation(
            self._situation.facts.difference(facts).union(begins),
            frozenset((self._numbers | numbers).items()) if numbers else self._situation.numbers,
        )


def names_of(variables: Any) -> list[str]:
    """The names of parameters, variables or objects."""
    return [variable.name for variable in variables]


def is_about(term: Any, predicates: set[str]) -> bool:
    """Whether an expression names no other predicates and functions than these."""
    is_known = not term.is_fluent_exp() or term.fluent().name in predicates
    return is_known and all(is_about(argument, predicates) for argument in term.args)


def _terms(condition: Any, numbers: Mapping[str, int]) -> tuple[Term, ...]:
    return tuple(
        argument.object().name if argument.is_object_exp() else numbers[argument.parameter().name]
        for argument in condition.args
    )


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
