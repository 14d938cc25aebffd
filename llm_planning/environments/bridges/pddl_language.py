"""The answers of a model about a problem in PDDL: actions, and what an action changes."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, create_model

from llm_planning.domain import OneOf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.domain import Grammar
    from llm_planning.environments.bridges.pddl_problem import PddlProblem, Situation

MOST_LISTED: Final = 200
"""The most actions of a problem that a grammar lists one by one."""

MOST_CHANGES: Final = 50
"""The most facts that begin to hold, or end, in a prediction."""


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
        said = prediction.model_dump()
        facts, refused = set(state.facts), Counter[str]()
        for predicate, arguments in said["ends"]:
            if (fact := (predicate, *arguments)) in facts:
                facts.remove(fact)
            else:
                refused[" ".join(fact)] += 1
        for predicate, arguments in said["holds"]:
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
