"""Exercises of ToO's roles: questions with right answers, in a domain that has a teacher.

What counts as right:

    propose      the first option is feasible, and what it most likely does shortens the way
    repair       the same of the prerequisite
    feasibility  the verdict is that of the rules; the reason is not graded
    dynamics     the change is one that the option may cause; of an infeasible option, no change
    reward       each of the eight scores is within 0.2 of the rules'
    termination  the verdict is that of the rules

Planners without a world model do not know the state: they are asked about s_0 and the options
since. Where a state has such a history, some questions about it are asked so.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from llm_planning.execution.option_prompts import NOW, PREDICTED, PROPOSED, START
from llm_planning.execution.option_settings import PromptSettings
from llm_planning.execution.options import OptionState
from llm_planning.planners.tree_of_options.roles import (
    FeasibilityAnswer,
    OptionQuestion,
    OptionRoles,
    RewardAnswer,
    TerminationAnswer,
    is_near,
)
from llm_planning.roles.exercises import (
    STATE,
    STATE_SHOWN,
    STATE_UNPREDICTED,
    VERDICT,
    Grade,
    exercise_of,
    predicted,
    short_words,
    shortens,
    situation_of,
    unit,
)
from llm_planning.roles.options import DONE, FEASIBLE, INFEASIBLE, NOT_DONE, plain_reason
from llm_serving.answers import compact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from random import Random

    from pydantic import BaseModel

    from llm_planning.domain import A
    from llm_planning.roles import RoleSpec
    from llm_planning.roles.exercises import Exercise, Situation, Teacher, Words

ROLES: Final = ("propose", "feasibility", "repair", "dynamics", "reward", "termination")

UNNEEDED: Final = "possible, not needed now"
"""The reason of an option that fills up a proposal."""

# Few questions about one state, so that lessons are about many states; proposing, which is learned
# last, is asked for every goal.
_ENDS = 2
_EACH = 2
_PREDICTIONS = 3
_REPAIRS = 2
_SCORED = 3
_UNPREDICTED = 0.4


class OptionExercises:
    """Makes the exercises; a `roles.exercises.ExerciseMaker`.

    Args:
        count: k, the number of options of a proposal.
    """

    roles = ROLES

    def __init__(
        self,
        teacher: Teacher[Any, Any],
        *,
        words: Words,
        count: int = PROPOSED,
    ) -> None:
        self._teacher = teacher
        self._words = words
        self._count = count

    @property
    def taught_words(self) -> str:
        """SHA-256 of the words in which a taught model is asked; "" for the general ones."""
        return "" if self._words == "general" else short_words(self._teacher)

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes exercises about one state; see `ExerciseMaker`."""
        situation = situation_of(self._teacher, rng, held_out=held_out)
        makers: Mapping[str, Callable[[Situation[Any, Any], Random], Iterator[Exercise]]] = {
            "termination": self._terminations,
            "dynamics": self._dynamics,
            "feasibility": self._feasibilities,
            "propose": self._proposals,
            "repair": self._repairs,
            "reward": self._rewards,
        }
        return [exercise for role in roles for exercise in makers[role](situation, rng)]

    def _exercise(
        self,
        role: str,
        situation: Situation[Any, Any],
        domain: Any,  # noqa: ANN401 - one of the situation's
        question: Any,  # noqa: ANN401 - an `OptionState`, or about an option
        *,
        answer: BaseModel,
        rng: Random,
        kinds: Mapping[str, str],
        **given: Any,  # noqa: ANN401 - of `exercise_of`
    ) -> Exercise:
        """An exercise about the state, or about s_0 and the options since: the answer is the same.

        A world model predicts states, so nobody without one asks what an option does.
        """
        known = role == "dynamics" or not situation.since or rng.random() >= _UNPREDICTED
        return exercise_of(
            self._spec(role, domain, known=known),
            question if known else _unpredicted(situation, question, domain),
            answer,
            kinds={**kinds, STATE: STATE_SHOWN if known else STATE_UNPREDICTED},
            **given,
        )

    def _terminations(self, situation: Situation[Any, Any], rng: Random) -> Iterator[Exercise]:
        for domain in situation.domains[:_ENDS]:
            done = bool(domain.success(situation.state))
            yield self._exercise(
                "termination",
                situation,
                domain,
                _tau(domain, situation.state),
                answer=TerminationAnswer(done=done),
                rng=rng,
                kinds={VERDICT: DONE if done else NOT_DONE, **self._goal(domain)},
            )

    def _feasibilities(self, situation: Situation[Any, Any], rng: Random) -> Iterator[Exercise]:
        domain = situation.domains[0]
        for options, feasible in ((situation.feasible, True), (situation.infeasible, False)):
            for option in options[:_EACH]:
                reason = self._teacher.evidence(situation.state, option)
                verdict = FEASIBLE if feasible else INFEASIBLE
                yield self._exercise(
                    "feasibility",
                    situation,
                    domain,
                    OptionQuestion(_tau(domain, situation.state), option),
                    answer=FeasibilityAnswer(reason=plain_reason(reason), action_valid=feasible),
                    rng=rng,
                    kinds={VERDICT: verdict, **self._recipe(option)},
                )

    def _dynamics(self, situation: Situation[Any, Any], rng: Random) -> Iterator[Exercise]:
        domain, state = situation.domains[0], situation.state
        for option in situation.feasible[:_PREDICTIONS]:
            yield self._exercise(
                "dynamics",
                situation,
                domain,
                OptionQuestion(_tau(domain, state), option),
                answer=self._teacher.prediction(state, option),
                rng=rng,
                brief="its change",
                kinds={VERDICT: FEASIBLE, **self._recipe(option)},
                grade=partial(self._grade_dynamics, state, option),
            )
        # Checks come first in ToO, so only measuring asks what an infeasible option changes:
        # models that were taught it answer that nothing ever changes.
        for option in situation.infeasible[:1] if situation.new else ():
            answer = self._teacher.unchanged(state)
            yield self._exercise(
                "dynamics",
                situation,
                domain,
                OptionQuestion(_tau(domain, state), option),
                answer=answer,
                rng=rng,
                brief="nothing",
                kinds={VERDICT: INFEASIBLE, **self._recipe(option)},
                grade=partial(_grade_nothing, compact(answer)),
            )

    def _proposals(self, situation: Situation[Any, Any], rng: Random) -> Iterator[Exercise]:
        for domain in situation.domains:
            chosen = self._proposed(domain, situation)
            if not chosen:
                continue
            first = next(iter(chosen))
            answer = (
                self._spec("propose", domain)
                .writes()
                .model_validate(
                    {
                        "options": [
                            {"reasoning": plain_reason(reason), **domain.grammar.write(option)}
                            for option, reason in chosen.items()
                        ]
                    }
                )
            )
            yield self._exercise(
                "propose",
                situation,
                domain,
                _tau(domain, situation.state),
                answer=answer,
                rng=rng,
                brief=str(first),
                kinds={**self._goal(domain), **self._recipe(first)},
                grade=partial(self._grade_proposal, domain, situation.state),
            )

    def _repairs(self, situation: Situation[Any, Any], rng: Random) -> Iterator[Exercise]:
        """Asks about advised options that fail, and about one that nobody advised."""
        domain, state = situation.domains[0], situation.state
        advised = domain.advise(state)
        failing = [option for option in advised if domain.feasible(state, option) is not None]
        useless = [option for option in situation.infeasible if option not in advised]
        options = [*rng.sample(failing, min(_REPAIRS, len(failing))), *useless[:1]]
        useful = [option for option in advised if shortens(self._teacher, domain, state, option)]
        for option in options if useful else ():
            obstacle = plain_reason(domain.feasible(state, option))
            right = _prerequisite(advised, useful, option, obstacle)
            yield self._exercise(
                "repair",
                situation,
                domain,
                OptionQuestion(_tau(domain, state), option, obstacle),
                answer=self._spec("repair", domain)
                .writes()
                .model_validate(domain.grammar.write(right)),
                rng=rng,
                kinds={
                    "failing": "advised" if option in advised else "useless",
                    **self._goal(domain),
                    **self._recipe(right),
                },
                grade=partial(self._grade_option, domain, state),
            )

    def _rewards(self, situation: Situation[Any, Any], rng: Random) -> Iterator[Exercise]:
        """Asks what a search asks: how good the options of a proposal are, for several goals.

        A search judges useful options beside others that are possible, and must tell them apart.
        """
        state = situation.state
        for domain in situation.domains[:_ENDS]:
            if domain.success(state):
                continue
            mine = domain is situation.domains[0]
            proposed = list(self._proposed(domain, situation))
            others = [option for option in situation.feasible if option not in proposed]
            options = [*(proposed if mine else proposed[:1]), *others[:1]]
            for option in rng.sample(options, min(_SCORED if mine else 1, len(options))):
                yield self._reward(situation, domain, option, rng)
            # Checks come first in ToO, so only measuring asks about an infeasible option.
            for option in situation.infeasible[:1] if mine and situation.new else ():
                yield self._reward(situation, domain, option, rng)

    def _reward(
        self,
        situation: Situation[Any, Any],
        domain: Any,  # noqa: ANN401 - one of the situation's
        option: Any,  # noqa: ANN401 - of the domain
        rng: Random,
    ) -> Exercise:
        state = situation.state
        possible = domain.feasible(state, option) is None
        after = predicted(self._teacher, domain, state, option) if possible else state
        judged = OptionQuestion(_tau(domain, after), option, before=_tau(domain, state))
        spec = self._spec("reward", domain)
        scores: Mapping[str, float] = spec.right(judged) or {}
        answer = RewardAnswer.model_validate({q: round(r, 1) for q, r in scores.items()})
        worth = "useful" if scores["relativity"] > 0 else "useless"
        return self._exercise(
            "reward",
            situation,
            domain,
            judged,
            answer=answer,
            rng=rng,
            kinds={"worth": worth if possible else INFEASIBLE, **self._goal(domain)},
            grade=partial(_grade_reward, spec, answer),
        )

    def _proposed(self, domain: Any, situation: Situation[Any, Any]) -> dict[Any, str]:  # noqa: ANN401
        """Advised options first, then other feasible ones, each with its reason; none at the goal.

        No two of them differ in the quantity alone.
        """
        advised = [
            option
            for option in domain.advise(situation.state)
            if domain.feasible(situation.state, option) is None
        ]
        useful = [
            option for option in advised if shortens(self._teacher, domain, situation.state, option)
        ]
        others = [*self._teacher.fillers(situation.state), *situation.feasible]
        chosen: dict[Any, str] = {}
        for option in (*useful, *advised, *others) if useful else ():
            alike = any(unit(other) == unit(option) for other in chosen)
            if not alike and len(chosen) < self._count:
                needed = option in advised
                chosen[option] = self._teacher.aim(situation.state, option) if needed else UNNEEDED
        return chosen if len(chosen) == self._count else {}

    def _goal(self, domain: Any) -> dict[str, str]:  # noqa: ANN401
        return {"goal": self._teacher.goal_kind(domain)}

    def _recipe(self, option: Any) -> dict[str, str]:  # noqa: ANN401
        return {"recipe": self._teacher.option_kind(option)}

    def _spec(self, role: str, domain: Any, *, known: bool = True) -> RoleSpec[Any, Any]:  # noqa: ANN401
        spec = _specs(domain, self._count, *((NOW, PREDICTED) if known else (START, START)))[role]
        return spec.in_short() if self._words == "taught" else spec

    def _grade_proposal(self, domain: Any, state: Any, answer: Any) -> Grade:  # noqa: ANN401
        return self._grade_option(domain, state, answer.options[0])

    def _grade_option(self, domain: Any, state: Any, answer: Any) -> Grade:  # noqa: ANN401
        option = domain.grammar.read(answer.model_dump())
        return Grade(shortens(self._teacher, domain, state, option), str(option))

    def _grade_dynamics(self, state: Any, option: Any, answer: BaseModel) -> Grade:  # noqa: ANN401
        if self._teacher.can_follow(state, option, answer):
            return Grade(True, "its change")
        unchanged = answer == self._teacher.unchanged(state)
        return Grade(False, "nothing" if unchanged else "another change")


@lru_cache(64)
def _specs(domain: Any, count: int, moment: str, judged: str) -> Mapping[str, RoleSpec[Any, Any]]:  # noqa: ANN401
    roles = OptionRoles(domain, PromptSettings.read({}), seed=0)
    return roles.by_name(count, moment=moment, judged=judged)


def _unpredicted(situation: Situation[Any, Any], question: Any, domain: Any) -> Any:  # noqa: ANN401
    """The question as a planner without a world model asks it."""
    since = situation.since or ()
    tau = replace(_tau(domain, situation.start), options=since, since=since)
    if isinstance(question, OptionState):
        return tau
    if question.before is None:
        return replace(question, tau=tau)
    after = replace(tau, since=(*since, question.option))
    return replace(question, tau=after, before=tau)


def _grade_nothing(nothing: str, answer: BaseModel) -> Grade:
    right = compact(answer) == nothing
    return Grade(right, "nothing" if right else "a change")


def _grade_reward(spec: RoleSpec[Any, Any], right: BaseModel, answer: BaseModel) -> Grade:
    scores, right_scores = answer.model_dump(), right.model_dump()
    near = [is_near(scores[q], right_scores[q]) for q in right_scores]
    return Grade(all(near), spec.brief(scores), items=(sum(near), len(near)))


def _tau(domain: Any, state: Any) -> OptionState[Any, Any]:  # noqa: ANN401
    return OptionState(domain.goal, state, domain.describe(state))


def _prerequisite(advised: Sequence[A], useful: Sequence[A], failing: A, obstacle: str) -> A:
    """The useful option that the obstacle names, else the last one before the option that fails.

    An option that is not advised is replaced by the first useful one.
    """
    if failing not in advised:
        return useful[0]
    before = [option for option in useful if advised.index(option) < advised.index(failing)]
    words = set(obstacle.replace(",", " ").split())
    named = [option for option in before if str(option).split()[-1] in words]
    return (named or before or useful[:1])[-1]
