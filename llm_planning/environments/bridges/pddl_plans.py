"""Plans: those of Fast Downward, and those of a problem in which nothing ends to hold.

Fast Downward runs in processes of its own that end when their time is up.

A relaxed plan begins with the cheapest action for each open condition of the goal, and goes on with
the cheapest ones for what these need. What an action costs is 1 and the sum of what its conditions
cost (h_add); the length of the plan is h_FF. Source: Hoffmann and Nebel, *The FF Planning System*
(2001), with the costs of Bonet and Geffner, *Planning as Heuristic Search* (2001). What has to be
false is a fact of its own there.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heapify, heappop, heappush
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from llm_planning.domain import DomainError, Judged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from llm_planning.environments.bridges.pddl_problem import (
        Branch,
        Need,
        PddlProblem,
        Situation,
    )

SECONDS: Final = 10
"""The most computing time for a plan."""

WAIT: Final = 12
"""How many times as long it may take on a machine with other work."""

MEMORY: Final = "2G"
"""The most memory for a plan, as Fast Downward reads it."""

MOST_ACTIONS: Final = 20_000
"""The most actions, with their arguments, of a problem that is relaxed."""

Way: TypeAlias = Literal["first", "shortest"]
"""`first` is a plan of LAMA's first search, `shortest` one with the fewest actions (LM-cut)."""


_WRITTEN_WELL: Final = frozenset({"REAL_NUMBERS_IN_ACTIONS_COST", "UNDEFINED_INITIAL_NUMERIC"})
"""What Fast Downward reads, although its bridge does not say so: costs that functions give."""


class NoPlanError(DomainError):
    """No plan was found."""


def can_plan() -> bool:
    """Whether the planner is installed."""
    return find_spec("up_fast_downward") is not None


def plan_of(model: Any, way: Way, *, seconds: int = SECONDS) -> tuple[str, ...]:
    """The actions of a plan.

    Args:
        model: a problem of unified-planning. If the plan shall be the shortest, costs play no part.
        way: by which it is found.
        seconds: of computing time, the most.

    Raises:
        NoPlanError: there is none, or none was found in time.
        DomainError: the planner is not installed.
    """
    if not can_plan():
        raise DomainError(
            "plans of PDDL problems need Fast Downward: pip install 'llm-planning[worlds]'"
        )
    from up_fast_downward import FastDownwardOptimalPDDLPlanner, FastDownwardPDDLPlanner

    if way == "shortest":
        model = model.clone()
        model.clear_quality_metrics()
    planner = FastDownwardPDDLPlanner() if way == "first" else FastDownwardOptimalPDDLPlanner()
    beyond = model.kind.features - planner.supported_kind().features - _WRITTEN_WELL
    if beyond:
        words = ", ".join(sorted(beyond)).lower().replace("_", " ")
        raise NoPlanError(f"{planner.name} does not know {words}")
    planner.skip_checks = True
    command = planner._get_cmd
    planner._get_cmd = lambda *files: _kept_apart(
        command(*files), Path(files[-1]).parent, seconds=seconds
    )
    found = planner.solve(model, timeout=WAIT * seconds)
    if found.plan is None:
        why = found.status.name.lower().replace("_", " ")
        raise NoPlanError(f"{planner.name} finds no plan in {seconds} seconds: {why}")
    return tuple(
        " ".join((step.action.name, *map(str, step.actual_parameters)))
        for step in found.plan.actions
    )


def _kept_apart(command: list[Any], folder: Path, *, seconds: int) -> list[Any]:
    """A command of Fast Downward within limits, with nothing in or from the working directory."""
    python, driver, *others = command
    # Its driver finds its own modules by the path alone, as the command line has a safe path.
    paths = ("env", "PYTHONSAFEPATH=1", f"PYTHONPATH={driver.parent}")
    limits = ("--overall-time-limit", f"{seconds}s", "--overall-memory-limit", MEMORY)
    return [*paths, python, driver, "--sas-file", str(folder / "output.sas"), *limits, *others]


class Relaxation:
    """A problem in which what holds once holds for ever.

    Args:
        problem: its numbers, `or` and `exists` play no part.

    Raises:
        DomainError: it has too many actions.
    """

    def __init__(self, problem: PddlProblem) -> None:
        actions = sorted(islice(problem.every_action(), MOST_ACTIONS + 1))
        if len(actions) > MOST_ACTIONS:
            raise DomainError(
                f"there are more than {MOST_ACTIONS} actions, too many for relaxed plans: choose a "
                "problem with fewer objects"
            )
        self.goal = problem.needs(problem.goals, {})
        self._lasting = problem.lasting
        self._by_action = {action: problem.branches(action) for action in actions}
        self._branches = [branch for branches in self._by_action.values() for branch in branches]
        self._needed_by: dict[Need, list[int]] = defaultdict(list)
        for number, branch in enumerate(self._branches):
            for need in branch.needs:
                self._needed_by[need].append(number)

    def needs(self, action: str | None) -> frozenset[Need]:
        """What every effect of an action needs; of None, the goal."""
        if action is None:
            return self.goal
        branches = self._by_action.get(action, ())
        return (
            frozenset.intersection(*(branch.needs for branch in branches))
            if branches
            else frozenset()
        )

    def holds(self, need: Need, state: Situation) -> bool:
        """Whether a state has what is needed."""
        return (need[0] in state.facts or need[0] in self._lasting) == need[1]

    def cheapest(self, state: Situation) -> dict[Need, Branch]:
        """The cheapest action for everything that does not hold and can be had."""
        costs = {need: 0 for need in self._needed_by if self.holds(need, state)}
        found: dict[Need, Branch] = {}
        spent = [1] * len(self._branches)
        missing = [len(branch.needs) for branch in self._branches]
        queue = [(0, need) for need in costs]
        heapify(queue)

        def reach(number: int) -> None:
            branch = self._branches[number]
            for need in branch.gives:
                if spent[number] < costs.get(need, spent[number] + 1) and not self.holds(
                    need, state
                ):
                    costs[need], found[need] = spent[number], branch
                    heappush(queue, (spent[number], need))

        for number, count in enumerate(missing):
            if not count:
                reach(number)
        while queue:
            cost, need = heappop(queue)
            if cost == costs[need]:
                for number in self._needed_by.get(need, ()):
                    missing[number] -= 1
                    spent[number] += cost
                    if not missing[number]:
                        reach(number)
        return found

    def plan(
        self, needs: Iterable[Need], state: Situation, cheapest: Mapping[Need, Branch]
    ) -> list[Branch] | None:
        """The actions of a relaxed plan, each once and in any order; None if there is none.

        Args:
            needs: what the plan is for.
            state: where it begins.
            cheapest: of this state.
        """
        plan: dict[Branch, None] = {}
        wanted = [need for need in needs if not self.holds(need, state)]
        while wanted:
            branch = cheapest.get(wanted.pop())
            if branch is None:
                return None
            if branch not in plan:
                plan[branch] = None
                wanted += [need for need in branch.needs if not self.holds(need, state)]
        return list(plan)

    def length(self, state: Situation) -> int | None:
        """h_FF: the number of actions of a relaxed plan for the goal; None if there is none."""
        plan = self.plan(self.goal, state, self.cheapest(state))
        return None if plan is None else len({branch.action for branch in plan})

    def before(self, state: Situation, subtask: str | None) -> tuple[str, ...]:
        """The actions right before a subtask: the cheapest for each of its open conditions.

        One comes after another if what it gives would have to be given up for what that one gives.

        Args:
            subtask: an action; None for the goal.
        """
        cheapest = self.cheapest(state)
        left = {need: cheapest[need] for need in sorted(self.needs(subtask)) if need in cheapest}
        later = {need: self._spoilt_by(need, branch, left, state) for need, branch in left.items()}
        ordered: dict[str, None] = {}
        while left:
            first = next((need for need in left if not later[need] & left.keys()), next(iter(left)))
            ordered[left.pop(first).action] = None
        return tuple(ordered)

    def _spoilt_by(
        self, given: Need, branch: Branch, others: Iterable[Need], state: Situation
    ) -> set[Need]:
        """The other needs that would take away again what an action was to give."""
        begins = {fact for fact, holds in branch.gives if holds}
        after = state._replace(
            facts=state.facts.difference(fact for fact, _ in branch.gives).union(begins)
        )
        cheapest = self.cheapest(after)
        plans = {other: self.plan([other], after, cheapest) or () for other in others}
        ended = (given[0], not given[1])
        return {
            other for other, plan in plans.items() if any(ended in branch.gives for branch in plan)
        }

    def judged(self, state: Situation, subtask: str, parent: str | None) -> Judged | None:
        """That what a subtask is for holds already; None if it does not.

        Args:
            subtask: an action.
            parent: the action that it serves; None for the goal.
        """
        gives = {need for branch in self._by_action.get(subtask, ()) for need in branch.gives}
        wanted = gives & self.needs(parent) or {need for need in gives if need[1]}
        if not wanted or not all(self.holds(need, state) for need in wanted):
            return None
        return Judged("done", "what it is for holds")
