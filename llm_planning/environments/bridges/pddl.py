"""Classical planning problems in PDDL as domains.

A state is the facts that hold and can change. Actions and facts are written as in PDDL, without
parentheses: `pick-up a`.
"""

from __future__ import annotations

import os
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pydantic import create_model, model_validator

from llm_base.files import at_home
from llm_planning.domain import Domain, DomainError, Judged, Step
from llm_planning.environments.bridges.own_words import BridgeSettings
from llm_planning.environments.bridges.pddl_files import hash_of, problem_files
from llm_planning.environments.bridges.pddl_plans import NoPlanError, Relaxation, can_plan, plan_of
from llm_planning.environments.bridges.pddl_words import (
    FactsModel,
    about_text,
    facts_text,
    goal_text,
    grammar_of,
)
from llm_planning.settings import identified
from llm_planning.specs import DomainSpec, check_task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from llm_planning.domain import Grammar
    from llm_planning.environments.bridges.pddl_problem import PddlProblem, Situation

STATES_KEPT: Final = 10_000
"""States whose actions and advice are kept."""

LATEST: Final = 16
"""States whose advice is tried in another order before Fast Downward is asked."""


Score: TypeAlias = Literal["open-goals", "relaxed-plan"]


class PddlSettings(BridgeSettings):
    """Settings of a problem in PDDL.

    Attributes:
        domain: file of the domain.
        problem: file of the problem, or a folder of problems, which are the tasks.
        score: what searches think of a state: the share of the goal's conditions that hold, or how
            short a relaxed plan is.
        pddl_sha256: hash of these files, in hexadecimal, so that changed files make another trial.
            It is computed; a given value must match the files.
    """

    domain: str = ""
    problem: str = ""
    score: Score = "open-goals"
    pddl_sha256: str = ""

    @model_validator(mode="before")
    @classmethod
    def _identify(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        defaults = {key: cls.model_fields[key].default for key in ("domain", "problem")}
        domain, problem = (str({**defaults, **values}[key]) for key in defaults)
        named = {**values, "pddl": f"{domain},{problem}"} if domain or problem else values
        found = identified(named, "pddl", hash_of(domain, problem))
        return {key: value for key, value in found.items() if key != "pddl"}


class PddlWorld(Domain["Situation", str]):
    """One problem.

    Args:
        problem: as read from its files.
        score: see `PddlSettings`.
    """

    grammar: Grammar[str]
    state_model: FactsModel

    def __init__(self, problem: PddlProblem, *, score: Score = "open-goals") -> None:
        scores: Mapping[Score, Callable[[Situation], float]] = {
            "open-goals": self._share,
            "relaxed-plan": lru_cache(STATES_KEPT)(self._nearness),
        }
        self._score = scores[score]
        self._problem = problem
        self._advice: dict[Situation, tuple[str, ...]] = {}
        self._latest: dict[Situation, None] = {}
        self.goal = goal_text(problem.goals)
        self.about = about_text(problem.model, problem.lasting, problem.lasting_numbers)
        self._applicable = lru_cache(STATES_KEPT)(problem.applicable)
        # A problem that is too large is refused here.
        self._applicable(problem.start)
        self.grammar = grammar_of(problem)
        self.state_model = FactsModel(problem)

    def start(self, seed: int) -> Situation:  # noqa: ARG002
        """The initial state of the file."""
        return self._problem.start

    def describe(self, state: Situation) -> str:
        """The facts that hold and can change, and the numbers."""
        return facts_text(state.facts, dict(state.numbers)) or "Nothing holds."

    def actions(self, state: Situation) -> Sequence[str]:
        """The possible actions, in the order of the files."""
        return () if self.success(state) else self._applicable(state)

    def step(self, state: Situation, action: str, rng: Random) -> Step[Situation]:  # noqa: ARG002
        """Takes an action; the step that reaches the goal is worth 1."""
        after = self._problem.after(state, action)
        if after is None:
            return Step(state, obstacle=self.feasible(state, action))
        reached = self.success(after)
        return Step(after, float(reached), reached)

    def success(self, state: Situation) -> bool:
        """Whether the goal holds."""
        return not self._problem.open_goals(state)

    def score(self, state: Situation) -> float:
        """From 0 to 1, which is the goal; see `PddlSettings`."""
        return self._score(state)

    def _share(self, state: Situation) -> float:
        return 1 - len(self._problem.open_goals(state)) / len(self._problem.goals)

    def _nearness(self, state: Situation) -> float:
        """h_0 / (h_0 + h), where h_0 and h are the lengths of relaxed plans: 0.5 at the start."""
        if self.success(state):
            return 1.0
        first, length = map(self._relaxation.length, (self._problem.start, state))
        # What is left out of a relaxation may still be open.
        return 0.0 if length is None else max(first or 0, 1) / (max(first or 0, 1) + max(length, 1))

    @cached_property
    def _relaxation(self) -> Relaxation:
        return Relaxation(self._problem)

    def decompose(self, state: Situation, subtask: str | None) -> Sequence[str]:
        """For each open condition the action that brings it about in the fewest relaxed steps."""
        return self._relaxation.before(state, subtask)

    def judge(self, state: Situation, subtask: str, parent: str | None) -> Judged:
        """Done, if what a subtask gives its parent or the goal holds; else whether it is possible.

        A subtask that gives neither anything is done if all holds that begins with it.
        """
        if done := self._relaxation.judged(state, subtask, parent):
            return done
        obstacle = self.feasible(state, subtask)
        return Judged("false", obstacle) if obstacle else Judged("true", "nothing is missing")

    def remainder(self, state: Situation) -> str:
        """The conditions of the goal that do not hold yet."""
        return goal_text(self._problem.open_goals(state) or self._problem.goals)

    def falls_short(self, predicted: Situation, state: Situation) -> bool:
        """Whether other facts hold than predicted."""
        return predicted.facts != state.facts

    def feasible(self, state: Situation, action: str) -> str | None:
        """Which precondition does not hold; None if all do."""
        return self._problem.obstacle(state, action)

    def advise(self, state: Situation) -> Sequence[str]:
        """A plan of Fast Downward; the rest of one that was advised before, where that still works.

        Raises:
            DomainError: no plan is found, or Fast Downward is not installed.
        """
        if self.success(state):
            return ()
        if state not in self._advice:
            if len(self._advice) >= STATES_KEPT:
                self._advice.clear()
            plan = self._rest(state) or plan_of(self._problem.beginning_in(state), "first")
            here: Situation | None = state
            for number, action in enumerate(plan):
                if here is not None:
                    # What was advised first stays, so that nobody is led in a circle.
                    self._advice.setdefault(here, plan[number:])
                    here = self._problem.after(here, action)
        if state not in self._latest:
            self._latest[state] = None
            if len(self._latest) > LATEST:
                del self._latest[next(iter(self._latest))]
        return self._advice[state]

    def _rest(self, state: Situation) -> tuple[str, ...] | None:
        """What is left of a late advice of which another action than the first was taken."""
        for before in self._latest:
            plan = self._advice.get(before, ())
            for number, action in enumerate(plan):
                if self._problem.after(before, action) == state:
                    rest = (*plan[:number], *plan[number + 1 :])
                    here: Situation | None = state
                    for following in rest:
                        here = here and self._problem.after(here, following)
                    if here is not None and self.success(here):
                        return rest
        return None

    def traits(self) -> Mapping[str, Any]:
        """The fewest actions to the goal, if Fast Downward is installed and finds it in time."""
        return {} if self._optimum is None else {"optimum": self._optimum}

    @cached_property
    def _optimum(self) -> int | None:
        try:
            return len(plan_of(self._problem.model, "shortest")) if can_plan() else None
        except NoPlanError:
            return None

    def judged(self, actions: Sequence[str]) -> Mapping[str, Any]:
        """What unified-planning's validator says of the actions, and the cost of a plan."""
        return self._problem.judged(actions)


def bridge(id_: str) -> DomainSpec:
    """Problems as a domain; its tasks are the names of their files.

    Args:
        id_: `DOMAINFILE,PROBLEMFILE`, `DOMAINFILE,FOLDER`, or a folder with `domain.pddl` and
            problems; empty if settings name the two files.

    Raises:
        DomainError: there are no such files, or unified-planning is not installed.
    """
    if find_spec("unified_planning") is None:
        raise DomainError(
            "problems in PDDL need unified-planning: pip install 'llm-planning[worlds]'"
        )
    domain, _, problem = id_.partition(",")
    if id_ and not problem:
        domain, problem = str(Path(id_, "domain.pddl")), id_
    kind: Any = create_model(
        "PddlSettings", __base__=PddlSettings, domain=(str, domain), problem=(str, problem)
    )
    name = f"pddl:{id_}" if id_ else "pddl"
    return DomainSpec(
        name=name,
        summary="Classical planning problems in PDDL" + (f", of {id_}" if id_ else ""),
        kind=PddlWorld,
        tasks=tuple(problem_files(domain, problem)) if id_ else ("problem",),
        settings=kind,
        open=lambda task, settings: _opened(task, settings, of=name),
    )


def _opened(task: str, settings: PddlSettings, *, of: str) -> PddlWorld:
    from llm_planning.environments.bridges.pddl_problem import PddlProblem

    files = problem_files(settings.domain, settings.problem)
    if os.path.isdir(at_home(settings.problem)):
        check_task(task, known=tuple(files), of=of)
        files = {task: files[task]}
    problem = PddlProblem(Path(at_home(settings.domain)), *files.values())
    return PddlWorld(problem, score=settings.score)
