"""Exercises of DRIP's roles, and of the plans of CoT and Plan-and-Solve, with right answers.

What counts as right:

    decompose  the subtasks are those of the rules, in any order; each also counts on its own. Of a
               whole plan: its options reach the goal, each as it most likely goes
    judge      the verdict is that of the rules; the reason is not graded
    apply      the state after is one that the subtask may cause; nothing, if it is infeasible
    act        the action is feasible and shortens the way; at the goal, the end

Subtasks are those of the tree that the rules grow in a state, and options that the teacher draws
beside it. Half of the decompositions are asked without the state, about the start, as DRIP asks
them; the others as DRIP+ first asks them.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from llm_planning.domain import NamesGoal
from llm_planning.execution.option_roles import PlanRoles
from llm_planning.execution.option_settings import PromptSettings
from llm_planning.execution.options import OptionState
from llm_planning.planners.drip.roles import (
    END,
    VERDICTS,
    Application,
    Decomposition,
    DripRoles,
    Judgement,
    JudgementAnswer,
    NextAction,
)
from llm_planning.planners.drip.settings import ROLES
from llm_planning.roles import missing_for_rules, on_the_way
from llm_planning.roles.exercises import (
    HELD_OUT,
    SEEN,
    VERDICT,
    WAY,
    Grade,
    exercise_of,
    predicted,
    short_words,
    shortens,
    situation_of,
)
from llm_planning.roles.options import DONE, FEASIBLE, INFEASIBLE, NOT_DONE, plain_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from random import Random

    from llm_planning.roles import RoleSpec
    from llm_planning.roles.exercises import Exercise, ExerciseMaker, Situation, Teacher, Words
    from llm_planning.specs import DomainSpec

PLANNED: Final[int] = PromptSettings.model_fields["d"].default
"""The most options of a whole plan, as planners ask by default."""

HIDDEN, SHOWN, WHOLE = "without the state", "with the state", "for a whole plan"
"""How `decompose` is asked."""

IMPORTANCE: Final[Mapping[str, float]] = {"judge": 2.0, "act": 3.0}
"""Role -> weight of its lessons in the loss; 1 for others. These two come last in a plan."""

_SHOWN = 0.5
_WHOLE = 0.3
_EACH = 2
_JUDGED = 3
_BESIDE = 4
_MOST_PAIRS = 60


def subtask_exercises(domain: DomainSpec, words: Words) -> ExerciseMaker | None:
    """The exercises of DRIP's family in a domain with a teacher."""
    if domain.teacher is None or missing_for_rules(domain.kind, ("decompose", "judge")):
        return None
    return SubtaskExercises(domain.teacher(None), words=words)


class SubtaskExercises:
    """Makes the exercises; a `roles.exercises.ExerciseMaker`.

    Args:
        teacher: of a domain that decomposes, judges and advises.
        words: in which the roles are asked.
    """

    roles = ROLES

    def __init__(self, teacher: Teacher[Any, Any], *, words: Words = "general") -> None:
        self._teacher = teacher
        self._words = words

    @property
    def taught_words(self) -> str:
        """SHA-256 of the words in which a taught model is asked; "" for the general ones."""
        return "" if self._words == "general" else short_words(self._teacher)

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes exercises about one state; see `ExerciseMaker`."""
        here = situation_of(self._teacher, rng, held_out=held_out)
        makers: Mapping[str, Callable[[Situation[Any, Any], Random], Iterator[Exercise]]] = {
            "decompose": self._decompositions,
            "judge": self._judgements,
            "apply": self._applications,
            "act": self._actions,
        }
        return [exercise for role in roles for exercise in makers[role](here, rng)]

    def _decompositions(self, here: Situation[Any, Any], rng: Random) -> Iterator[Exercise]:
        domain = here.domains[0]
        shown = rng.random() < _SHOWN
        state = here.state if shown else domain.start(0)
        described = domain.describe(state) if shown else ""
        goal = domain.remainder(state) if shown else domain.goal
        judged: dict[Any, str] = {
            subtask: domain.judge(state, subtask, parent).verdict
            for subtask, parent in _tree(domain, state)
        }
        # DRIP decomposes what is not executable; of the rest one is asked about as well.
        open_ = [subtask for subtask, verdict in judged.items() if verdict == "false"]
        others = [subtask for subtask in judged if subtask not in open_]
        asked: list[Any] = [*_some(open_, _EACH, rng), *_some(others, 1, rng)]
        if not isinstance(domain, NamesGoal) and not domain.success(state):
            asked.insert(0, None)
        for subtask in asked:
            question: Decomposition[Any, Any] = Decomposition(subtask, goal, state, described)
            spec = self._spec("decompose", domain)
            right: Sequence[Any] = spec.right(question) or ()
            kinds = {WAY: SHOWN if shown else HIDDEN, **self._kinds(domain, subtask, *right)}
            # Without its state a question is new by what it names alone.
            if not self._fits(here, kinds, shown=shown):
                continue
            written = [domain.grammar.write(subtask) for subtask in right]
            yield exercise_of(
                spec,
                question,
                spec.writes().model_validate({"subtasks": written}),
                kinds={**kinds, "before": "something" if right else "nothing"},
                grade=partial(_grade_decomposition, spec, right),
            )
        if rng.random() < _WHOLE:
            yield from self._whole_plan(here)

    def _whole_plan(self, here: Situation[Any, Any]) -> Iterator[Exercise]:
        domain, state = here.domains[0], here.state
        plan = domain.advise(state)
        if not (0 < len(plan) <= PLANNED and self._reaches(domain, state, plan)):
            return
        kinds = {WAY: WHOLE, **self._kinds(domain, *plan)}
        if not self._fits(here, kinds, shown=True):
            return
        written = [
            {
                "reasoning": plain_reason(self._teacher.aim(state, option)),
                **domain.grammar.write(option),
            }
            for option in plan
        ]
        spec = self._in_words(_plan_spec(domain))
        yield exercise_of(
            spec,
            OptionState(domain.goal, state, domain.describe(state)),
            spec.writes().model_validate({"options": written}),
            brief=_listed(plan),
            kinds={**kinds, "before": "something"},
            grade=partial(self._grade_plan, domain, state),
        )

    def _judgements(self, here: Situation[Any, Any], rng: Random) -> Iterator[Exercise]:
        domain, state = here.domains[0], here.state
        for subtask, parent, judged in self._judged(here, rng, _JUDGED):
            kinds = {VERDICT: judged.verdict, **self._kinds(domain, subtask)}
            yield exercise_of(
                self._spec("judge", domain),
                Judgement(subtask, parent, state, domain.describe(state)),
                JudgementAnswer(reason=plain_reason(judged.reason), verdict=judged.verdict),
                kinds=kinds,
                importance=IMPORTANCE["judge"],
            )

    def _applications(self, here: Situation[Any, Any], rng: Random) -> Iterator[Exercise]:
        domain, state, teacher = here.domains[0], here.state, self._teacher
        described = domain.describe(state)
        possible = [
            subtask
            for subtask, _, judged in self._judged(here, rng, _EACH)
            if judged.verdict == "true"
        ]
        # Judgements come first in DRIP, so only measuring asks what an infeasible subtask does.
        refused = here.infeasible[:1] if here.new else ()
        for subtask in (*dict.fromkeys(possible), *refused):
            feasible = subtask not in refused
            yield exercise_of(
                self._spec("apply", domain),
                Application(subtask, state, described),
                teacher.prediction(state, subtask) if feasible else teacher.unchanged(state),
                brief="the state after it" if feasible else "the same state",
                kinds={
                    "subtask": FEASIBLE if feasible else INFEASIBLE,
                    **self._kinds(domain, subtask),
                },
                grade=partial(self._grade_state, domain, state, subtask if feasible else None),
            )

    def _actions(self, here: Situation[Any, Any], rng: Random) -> Iterator[Exercise]:
        state, teacher = here.state, self._teacher
        for domain in here.domains:
            reached = bool(domain.success(state))
            way = () if reached else on_the_way(domain, state)
            useful = [option for option in way if shortens(teacher, domain, state, option)]
            if not (useful or reached):
                continue
            following = END if reached else domain.grammar.write(useful[0])
            thought = "all of the goal holds" if reached else teacher.aim(state, useful[0])
            spec = self._spec("act", domain)
            yield exercise_of(
                spec,
                NextAction(domain.goal, state, domain.describe(state), _history(here, rng)),
                spec.writes().model_validate({"thought": plain_reason(thought), "next": following}),
                kinds={
                    "end": DONE if reached else NOT_DONE,
                    **self._kinds(domain, *useful[:1]),
                },
                importance=IMPORTANCE["act"],
                grade=partial(self._grade_action, domain, state),
            )

    def _judged(
        self, here: Situation[Any, Any], rng: Random, most: int
    ) -> list[tuple[Any, Any, Any]]:
        """Subtasks with their parents and judgements, at most so many of each verdict."""
        domain, state = here.domains[0], here.state
        beside = (*here.feasible[:_BESIDE], *here.infeasible[:_BESIDE])
        pairs = dict.fromkeys((*_tree(domain, state), *((subtask, None) for subtask in beside)))
        found: dict[str, list[tuple[Any, Any, Any]]] = {verdict: [] for verdict in VERDICTS}
        for subtask, parent in pairs:
            if here.new or self._teacher.option_kind(subtask) == SEEN:
                judged = self._teacher.judged(domain, state, subtask, parent)
                found[judged.verdict].append((subtask, parent, judged))
        return [pair for several in found.values() for pair in _some(several, most, rng)]

    def _kinds(self, domain: Any, *named: Any) -> dict[str, str]:  # noqa: ANN401
        """The kind of the goal, and whether teaching leaves out what is named; None names none."""
        kinds = {self._teacher.option_kind(subtask) for subtask in named if subtask is not None}
        return {
            "goal": self._teacher.goal_kind(domain),
            "recipe": HELD_OUT if HELD_OUT in kinds else SEEN,
        }

    def _fits(self, here: Situation[Any, Any], kinds: Mapping[str, str], *, shown: bool) -> bool:
        """Whether a question is as new as the situation is."""
        if not here.new:
            return kinds["recipe"] == SEEN
        return shown or HELD_OUT in (kinds["recipe"], kinds["goal"])

    def _reaches(self, domain: Any, state: Any, plan: Sequence[Any]) -> bool:  # noqa: ANN401
        """Whether a plan is at the goal at its end; what is infeasible in it is left out."""
        for option in plan:
            if domain.feasible(state, option) is None:
                state = predicted(self._teacher, domain, state, option)
        return bool(domain.success(state))

    def _spec(self, role: str, domain: Any) -> RoleSpec[Any, Any]:  # noqa: ANN401
        return self._in_words(_specs(domain)[role])

    def _in_words(self, spec: RoleSpec[Any, Any]) -> RoleSpec[Any, Any]:
        return spec.in_short() if self._words == "taught" else spec

    def _grade_plan(self, domain: Any, state: Any, written: Any) -> Grade:  # noqa: ANN401
        plan = [domain.grammar.read(option.model_dump()) for option in written.options]
        return Grade(self._reaches(domain, state, plan), _listed(plan))

    def _grade_state(self, domain: Any, state: Any, subtask: Any, written: Any) -> Grade:  # noqa: ANN401
        """Grades a state after a subtask; None stands for one that is infeasible."""
        same = domain.state_model.read(state, written)[0] == state
        if subtask is None:
            return Grade(same, "the same state" if same else "another state")
        if self._teacher.can_follow(state, subtask, written):
            return Grade(True, "the state after it")
        return Grade(False, "the same state" if same else "another state")

    def _grade_action(self, domain: Any, state: Any, written: Any) -> Grade:  # noqa: ANN401
        if written.next == END:
            return Grade(bool(domain.success(state)), END)
        action = domain.grammar.read(written.next.model_dump())
        ended = domain.success(state)
        return Grade(not ended and shortens(self._teacher, domain, state, action), str(action))


def _tree(domain: Any, state: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401
    """Subtasks with their parents, as the rules break the goal down in a state; None is the goal.

    As in DRIP, a subtask that equals one above it is left out.
    """
    pairs: dict[tuple[Any, Any], None] = {}
    frontier: list[tuple[Any, ...]] = [(None,)]
    while frontier and len(pairs) < _MOST_PAIRS:
        path = frontier.pop(0)
        for subtask in domain.decompose(state, path[-1]):
            if subtask not in path and (subtask, path[-1]) not in pairs:
                pairs[subtask, path[-1]] = None
                frontier.append((*path, subtask))
    return list(pairs)


def _history(here: Situation[Any, Any], rng: Random) -> tuple[str, ...]:
    """What was done before, half of the time: the way to the state, and what was refused in it."""
    if here.since is None or rng.random() < _SHOWN:
        return ()
    refused = _some(here.infeasible, rng.choice((0, 0, 1, 2)), rng)
    return (*map(str, here.since), *(f"{option} (impossible)" for option in refused))


def _some(of: Sequence[Any], most: int, rng: Random) -> list[Any]:
    return rng.sample(of, min(most, len(of)))


def _listed(options: Sequence[object]) -> str:
    return ", ".join(map(str, options)) or "nothing"


@lru_cache(64)
def _specs(domain: Any) -> Mapping[str, RoleSpec[Any, Any]]:  # noqa: ANN401
    return DripRoles(domain, seed=0).by_name()


@lru_cache(64)
def _plan_spec(domain: Any) -> RoleSpec[Any, Any]:  # noqa: ANN401
    return PlanRoles(domain, PromptSettings.read({}), seed=0).decompose()


def _grade_decomposition(spec: RoleSpec[Any, Any], right: Sequence[Any], written: Any) -> Grade:  # noqa: ANN401
    named = spec.read(None, written)
    both = (Counter(named) & Counter(right)).total()
    grade = spec.same is not None and spec.same(named, right)
    return Grade(grade, spec.brief(named), items=(both, max(len(named), len(right))))
