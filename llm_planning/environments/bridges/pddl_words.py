"""A problem of PDDL in words, and the answers of a model: actions, and what an action changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, create_model

from llm_planning.domain import OneOf
from llm_planning.roles.options import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from fractions import Fraction

    from llm_planning.domain import Grammar
    from llm_planning.environments.bridges.pddl_problem import Fact, PddlProblem, Situation

MOST_LISTED: Final = 200
"""The most actions of a problem that a grammar lists one by one."""

MOST_CHANGES: Final = 50
"""The most facts that begin to hold, or end, in a prediction."""

_BETWEEN: Final = {
    "is_equals": " = ",
    "is_le": " <= ",
    "is_lt": " < ",
    "is_plus": " + ",
    "is_minus": " - ",
    "is_times": " * ",
    "is_div": " / ",
    "is_implies": " implies ",
    "is_iff": " exactly if ",
    "is_or": " or ",
    "is_and": " and ",
}


def condition_text(condition: Any) -> str:
    """A condition or a number of unified-planning: `on a b`, `not clear a`, `fuel t >= 2`.

    Args:
        condition: an expression (`FNode`), with parameters or with objects.
    """
    if condition.is_fluent_exp():
        return " ".join((condition.fluent().name, *map(condition_text, condition.args)))
    if condition.is_not():
        return f"not {_inner(condition.arg(0))}"
    if condition.is_exists() or condition.is_forall():
        which = "some" if condition.is_exists() else "every"
        return f"for {which} {_typed(condition.variables())}: {_inner(condition.arg(0))}"
    if condition.is_variable_exp():
        return str(condition.variable().name)
    for kind, sign in _BETWEEN.items():
        if getattr(condition, kind)():
            return sign.join(map(_inner, condition.args))
    return str(condition)


def _inner(condition: Any) -> str:
    text = condition_text(condition)
    return f"({text})" if " and " in text or " or " in text or text.startswith("for ") else text


def _typed(names: Iterable[Any]) -> str:
    """Parameters or variables, with their types in brackets unless that is of all objects."""
    return ", ".join(
        thing.name if thing.type.name == "object" else f"{thing.name} ({thing.type.name})"
        for thing in names
    )


def effect_text(effect: Any) -> str:
    """What an effect of an action does, for whom, and when."""
    what, value = condition_text(effect.fluent), condition_text(effect.value)
    if effect.is_increase() or effect.is_decrease():
        text = f"{what} {'grows' if effect.is_increase() else 'shrinks'} by {value}"
    elif effect.value.is_false():
        text = f"not {what}"
    else:
        text = what if effect.value.is_true() else f"{what} becomes {value}"
    if effect.is_conditional():
        text = f"{text} if {condition_text(effect.condition)}"
    if effect.forall:
        text = f"{text}, for every {_typed(effect.forall)}"
    return text


def action_text(action: Any, cost: Any | None) -> str:
    """What an action needs and does.

    Args:
        action: of unified-planning, with its parameters.
        cost: its cost as an expression; None if costs play no part.
    """
    needs = "; ".join(map(condition_text, conjuncts(action.preconditions))) or "nothing"
    does = "; ".join(map(effect_text, action.effects)) or "nothing"
    price = "" if cost is None else f" It costs {condition_text(cost)}."
    head = f"{action.name} {_typed(action.parameters)}".rstrip()
    return f"{head}. Needs: {needs}. Then: {does}.{price}"


def facts_text(facts: Iterable[Fact], numbers: Mapping[Fact, Fraction]) -> str:
    """Facts and the values of functions, sorted, with a line for each predicate or function."""
    lines: dict[str, list[str]] = defaultdict(list)
    for fact in sorted(facts):
        lines[fact[0]].append(" ".join(fact))
    for fact in sorted(numbers):
        lines[fact[0]].append(f"{' '.join(fact)} = {_number_text(numbers[fact])}")
    return "\n".join(map(", ".join, lines.values()))


def _number_text(number: Fraction) -> str:
    return str(number.numerator if number.denominator == 1 else float(number))


def objects_text(problem: Any) -> str:
    """The objects of a problem, by their types; each is named at its own type."""
    by_type: dict[str, list[str]] = defaultdict(list)
    for thing in problem.all_objects:
        by_type[thing.type.name].append(thing.name)
    return "\n".join(f"{name}: {', '.join(things)}" for name, things in by_type.items())


def about_text(
    problem: Any, lasting: Iterable[Fact], lasting_numbers: Mapping[Fact, Fraction]
) -> str:
    """What a problem's world is: its objects, what never changes, and its actions.

    Args:
        problem: of unified-planning.
        lasting: facts that no action changes.
        lasting_numbers: values that no action changes.
    """
    costs: Mapping[Any, Any] = next(
        (metric.costs for metric in problem.quality_metrics if hasattr(metric, "costs")), {}
    )
    parts = {
        "Objects:": objects_text(problem),
        "What never changes:": facts_text(lasting, lasting_numbers),
        "Actions, with their arguments:": "\n".join(
            action_text(action, costs.get(action)) for action in problem.actions
        ),
    }
    sections = [f"{title}\n{text}" for title, text in parts.items() if text]
    return "\n\n".join(("What is not said to hold does not hold.", *sections))


def goal_text(goals: Iterable[Any]) -> str:
    """The conditions of a goal as a sentence."""
    return f"Reach a state in which this holds: {listed(map(_inner, goals))}."


def conjuncts(conditions: Iterable[Any]) -> list[Any]:
    """The conditions that have to hold together, those inside of an `and` one by one."""
    return [
        inner
        for condition in conditions
        for inner in (conjuncts(condition.args) if condition.is_and() else (condition,))
    ]


class CallGrammar:
    """The grammar of actions that are too many for a list: a name and arguments.

    Args:
        problem: with these actions.
    """

    def __init__(self, problem: PddlProblem) -> None:
        actions = problem.model.actions
        names = [action.name for action in actions]
        self.instruction = "An action is its name and the list of its arguments in their order."
        self.fields: Mapping[str, Any] = {
            "action": Literal[tuple(names)],
            "arguments": _arguments(problem, [action.parameters for action in actions]),
        }

    def read(self, answer: Mapping[str, Any]) -> str:
        """The action with these fields."""
        return " ".join((answer["action"], *answer["arguments"]))

    def write(self, option: str) -> Mapping[str, Any]:
        """The fields of an action."""
        name, *arguments = option.split()
        return {"action": name, "arguments": arguments}


def grammar_of(problem: PddlProblem) -> Grammar[str]:
    """The grammar of all actions of a problem."""
    actions = sorted(islice(problem.every_action(), MOST_LISTED + 1))
    return OneOf(actions) if len(actions) <= MOST_LISTED else CallGrammar(problem)


class FactsModel:
    """The form of a prediction: which facts hold after an action, and which end.

    Numbers are not predicted.

    Args:
        problem: with these facts.
    """

    def __init__(self, problem: PddlProblem) -> None:
        self._is_fact = problem.is_fact
        fluents = problem.changing
        arguments = _arguments(problem, [fluent.signature for fluent in fluents])
        predicate: Any = Literal[tuple(fluent.name for fluent in fluents) or ("none",)]
        fact: Any = tuple[predicate, arguments]  # type: ignore[valid-type]
        facts: Any = Annotated[list[fact], Field(max_length=MOST_CHANGES)]
        self.answer: type[BaseModel] = create_model("Change", holds=(facts, ...), ends=(facts, ...))

    def write(self, state: Situation, after: Situation) -> BaseModel:
        """The change between two states, as `read` reads it."""
        pairs = {"holds": after.facts - state.facts, "ends": state.facts - after.facts}
        return self.answer.model_validate(
            {key: [(fact[0], fact[1:]) for fact in sorted(facts)] for key, facts in pairs.items()}
        )

    def read(self, state: Situation, prediction: BaseModel) -> tuple[Situation, Mapping[str, int]]:
        """The predicted state, and facts that cannot begin or end -> how often they are said to."""
        lists = prediction.model_dump()
        facts, refused = set(state.facts), Counter[str]()
        for predicate, arguments in lists["ends"]:
            if (fact := (predicate, *arguments)) in facts:
                facts.remove(fact)
            else:
                refused[" ".join(fact)] += 1
        for predicate, arguments in lists["holds"]:
            if self._is_fact(fact := (predicate, *arguments)):
                facts.add(fact)
            else:
                refused[" ".join(fact)] += 1
        return state._replace(facts=frozenset(facts)), refused


def _arguments(problem: PddlProblem, signatures: Sequence[Sequence[Any]]) -> Any:
    """The type of a list of objects that is as long as the longest signature."""
    things = tuple(thing.name for thing in problem.model.all_objects)
    argument: Any = Literal[things or ("none",)]
    most = max(map(len, signatures), default=0)
    return Annotated[list[argument], Field(max_length=most)]
