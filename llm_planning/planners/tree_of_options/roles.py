"""ToO's roles of planning: what each is asked, what it answers, and what the rules say.

`execution.option_prompts` has the order of the words. By rules, a right answer follows from the
rules and from what the question holds. Only a prediction carries options out. Its chance is drawn
once for each question from the run's seed, so it is right for one possible world, in which the
option shows its effect if it can; the real world may differ. A wrong proposal is a mistaken option,
a wrong prerequisite a useless one, a wrong verdict the opposite, a wrong prediction the outcome of
another option. A wrong score is another one that is not near the right one; the eight scores may
err one by one.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 (a dataclass's field)
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias

from pydantic import BaseModel, Field

from llm_planning.domain import A, S
from llm_planning.execution.episode import Move
from llm_planning.execution.option_prompts import (
    INSTRUCTIONS,
    NOW,
    PREDICTED,
    PROPOSED,
    STATE,
    template,
)
from llm_planning.execution.option_roles import MOST_PROPOSED, PlanRoles
from llm_planning.execution.options import Candidate, OptionState, PolicyQuestion, is_shown
from llm_planning.planners.tree_of_options.settings import ROLES, OptionSearchSettings
from llm_planning.roles import Items, Kinds, RoleSpec, Rule, on_the_way
from llm_planning.roles.options import (
    DONE,
    FEASIBLE,
    INFEASIBLE,
    NOT_DONE,
    Reason,
    one_option,
    reasoned,
)
from llm_planning.roles.oracles import Key  # noqa: TC001 (a dataclass's field)
from llm_planning.roles.seeing import pictures_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.domain import Step
    from llm_planning.execution.option_settings import PromptSettings
    from llm_planning.execution.options import OptionDomain
    from llm_planning.roles.seeing import See

Score: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0, multiple_of=0.1)]

DRAWS = 16
"""The outcomes of an option that are drawn until one shows its effect: what an option is expected
to do is its effect, and a cow that is not found at first is found later (our choice)."""

NEAR = 0.2
"""A score may be so far from the rules' score and is right (our choice)."""

SCORES = tuple(step / 10 for step in range(11))
"""The scores that a model can write."""


@dataclass(frozen=True, slots=True)
class OptionQuestion(Generic[S, A]):
    """A question about an option.

    Attributes:
        tau: τ before the option. A question for a reward has the predicted state in it.
        option: ω̃ or ω.
        obstacle: why the option is infeasible; empty if that is unknown.
        before: the unchanged τ before the option, if `tau` has the predicted state. Rules compare
            the two; only the prompt of a taught model shows it.
        asker: the role that imagines what the option does, and its question's situation; empty if
            the planner asks.
    """

    tau: OptionState[S, A]
    option: A
    obstacle: str = ""
    before: OptionState[S, A] | None = None
    asker: tuple[Key, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Whether an option can be carried out.

    Attributes:
        obstacle: why not; None if it can.
    """

    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class PredictedState(Generic[S]):
    """The predicted state after an option.

    Attributes:
        state: ŝ_i.
        clipped: item -> count that the prediction takes away but the state does not have.
    """

    state: S
    clipped: Mapping[str, int] = field(default_factory=dict)


class FeasibilityAnswer(BaseModel):
    """Whether an option can be carried out. The model writes the reason first (Appendix A.5)."""

    reason: Reason
    action_valid: bool


class RewardAnswer(BaseModel):
    """The eight scores r_q of the reward predictor (Appendix A.4), each from 0 to 1."""

    success_probability: Score
    reward_estimate: Score
    feasibility: Score
    consistency: Score
    relativity: Score
    reachability: Score
    task_specificity: Score
    redundancy: Score


class TerminationAnswer(BaseModel):
    """Whether a state is terminal (eq. 4)."""

    done: bool


class OptionRoles(PlanRoles[S, A]):
    """The roles in one domain.

    Every node is expanded once and siblings differ in their option, so a search asks no prompt
    twice. With one seed, each proposal then depends on its node's path alone.

    Args:
        seed: of the proposals, and of the chance in predictions.
    """

    def __init__(self, domain: OptionDomain[S, A], settings: PromptSettings, *, seed: int) -> None:
        super().__init__(domain, settings, seed=seed)
        self._see: See = settings.see if isinstance(settings, OptionSearchSettings) else "words"
        self._outcomes: dict[tuple[str, A], tuple[S, S]] = {}

    def by_name(
        self, k: int = PROPOSED, *, moment: str = NOW, judged: str = PREDICTED
    ) -> Mapping[str, RoleSpec[Any, Any]]:
        """Role -> what it is, as ToO asks.

        Args:
            k: the number of proposed options.
            moment: of the state in a question about τ.
            judged: of the state in a question for a reward.
        """
        several = (
            self.propose(k, moment),
            self.feasibility(moment),
            self.repair(moment),
            self.dynamics(),
            self.reward(judged),
            self.termination(moment),
        )
        return {**{spec.name: spec for spec in several}, **super().by_name()}

    def template(self, name: str) -> str:
        """The source of the template of a role."""
        return template(name, __package__) if name in ROLES else super().template(name)

    def propose(self, k: int, moment: str) -> RoleSpec[OptionState[S, A], Sequence[Candidate[A]]]:
        """Names k candidates ω̃ after τ (eq. 2). Sees goal, state and history."""
        return self.spec(
            "propose",
            OptionState,
            (*STATE, "goal", "history", "options", *INSTRUCTIONS),
            moment=moment,
            count=k,
            short_name="propose",
            writes=partial(self._several, k, k),
            read=self._candidates,
            sampling=self._drawn,
            rule=Rule(
                right=self._proposed,
                wrong=self._useless,
                situation=self.situation_of_goal,
                items=Items(names=self._subjects, spoil=self._misproposed),
            ),
            options=lambda candidates: [candidate.proposed for candidate in candidates],
        )

    def feasibility(self, moment: str) -> RoleSpec[OptionQuestion[S, A], Feasibility]:
        """Judges whether ω̃ is feasible. Sees goal, state, history and option."""
        return self.spec(
            "feasibility",
            OptionQuestion,
            (*STATE, "goal", "history", "option", *INSTRUCTIONS),
            moment=moment,
            short_name="feasibility",
            writes=lambda: reasoned(FeasibilityAnswer, self.settings.reason),
            read=lambda _, written: Feasibility(None if written.action_valid else written.reason),
            rule=Rule(
                right=self._feasible,
                wrong=self._misjudged,
                situation=self.situation_of_option,
                kinds=self._by_option(),
            ),
            same=lambda answer, other: (answer.obstacle is None) == (other.obstacle is None),
            brief=lambda judged: FEASIBLE if judged.obstacle is None else INFEASIBLE,
        )

    def repair(self, moment: str) -> RoleSpec[OptionQuestion[S, A], A]:
        """Names a prerequisite of an infeasible ω̃ (eq. 3). Sees τ, ω̃ and the reason."""
        grammar = self.domain.grammar
        return self.spec(
            "repair",
            OptionQuestion,
            (*STATE, "goal", "history", "option", "obstacle", "options", *INSTRUCTIONS),
            moment=moment,
            short_name="repair",
            writes=partial(one_option, grammar),
            read=lambda _, written: grammar.read(written.model_dump()),
            rule=Rule(
                right=self._prerequisite,
                wrong=self._useless_one,
                situation=self.situation_of_option,
            ),
            options=lambda option: (option,),
        )

    def dynamics(self) -> RoleSpec[OptionQuestion[S, A], PredictedState[S]]:
        """Predicts the state after ω (eq. 1). Sees state and option; it alone sees pictures."""
        domain = self.domain
        return self.spec(
            "dynamics",
            OptionQuestion,
            (*STATE, "option", *INSTRUCTIONS),
            see=self._see,
            show=lambda question: pictures_of(domain, self._see)(question.tau.state),
            short_name="dynamics",
            writes=lambda: domain.state_model.answer,
            read=lambda question, written: PredictedState(
                *domain.state_model.read(question.tau.state, written)
            ),
            rule=Rule(
                right=lambda question: self._outcome(question, question.option),
                wrong=self._mispredicted,
                situation=self.situation_of_option,
                asker=lambda question: question.asker,
                kinds=self._by_option(),
            ),
        )

    def reward(self, moment: str) -> RoleSpec[OptionQuestion[S, A], Mapping[str, float]]:
        """Scores ω (eq. 6). Sees goal, state after ω, history and option."""
        return self.spec(
            "reward",
            OptionQuestion,
            ("option", *STATE, "goal", "history", "rules", "format"),
            moment=moment,
            short_name="reward",
            writes=lambda: RewardAnswer,
            read=lambda _, written: written.model_dump(),
            rule=Rule(
                right=self._scores,
                wrong=lambda question, rng: {
                    name: _another_score(score, rng)
                    for name, score in self._scores(question).items()
                },
                situation=self.situation_of_option,
                items=Items(names=lambda _: tuple(RewardAnswer.model_fields), spoil=_misscored),
            ),
            brief=lambda scores: " ".join(f"{score:.1f}" for score in scores.values()),
        )

    def termination(self, moment: str) -> RoleSpec[OptionState[S, A], bool]:
        """Judges whether ŝ is terminal (eq. 4). Sees goal and state.

        Without a world model only the options done say how far the plan is, so it sees them too.
        """
        history = () if moment == NOW else ("history",)
        return self.spec(
            "termination",
            OptionState,
            (*STATE, "goal", *history, "rules", "format"),
            moment=moment,
            short_name="termination",
            writes=lambda: TerminationAnswer,
            read=lambda _, written: bool(written.done),
            rule=Rule(
                right=self._reached,
                wrong=lambda question, _: not self._reached(question),
                situation=self.situation,
                kinds=Kinds(
                    names=(DONE, NOT_DONE), of=lambda question: _end(self._reached(question))
                ),
            ),
            same=lambda answer, other: answer is other,
            brief=_end,
        )

    # WHAT THE RULES SAY

    def situation_of_goal(self, question: OptionState[S, A]) -> tuple[str, ...]:
        """The situation of a proposal. Its subject is the goal, so an item errs in every state."""
        return (question.goal, *self.situation(question))

    def _by_option(self) -> Kinds[OptionQuestion[S, A]]:
        return Kinds(
            names=(FEASIBLE, INFEASIBLE),
            of=lambda question: (
                FEASIBLE if self._feasible(question).obstacle is None else INFEASIBLE
            ),
        )

    def _proposed(self, question: OptionState[S, A]) -> list[Candidate[A]] | None:
        """The advised and feasible options, in order; None if there are none."""
        advised = on_the_way(self._rules, question.state)[:MOST_PROPOSED]
        return [Candidate(option, option, "the rules ask for it") for option in advised] or None

    def _subjects(self, question: OptionState[S, A]) -> list[str]:
        """The subjects of a right proposal, each once."""
        right = self._proposed(question) or ()
        return list(dict.fromkeys(self._subject(candidate.proposed) for candidate in right))

    def _misproposed(
        self, question: OptionState[S, A], proposed: Sequence[Candidate[A]], name: Key, rng: Random
    ) -> list[Candidate[A]]:
        """A proposal with mistaken options in the place of those about one subject."""
        return [
            Candidate(wrong, wrong, "a mistake")
            if self._subject(candidate.proposed) == name
            and (wrong := self.mistaken(question.state, candidate.proposed, rng)) is not None
            else candidate
            for candidate in proposed
        ]

    def _feasible(self, question: OptionQuestion[S, A]) -> Feasibility:
        return Feasibility(self._rules.feasible(question.tau.state, question.option))

    def _misjudged(self, question: OptionQuestion[S, A], _: Random) -> Feasibility:
        right = self._feasible(question).obstacle
        return Feasibility("something is missing" if right is None else None)

    def _prerequisite(self, question: OptionQuestion[S, A]) -> A | None:
        """The first advised and feasible option."""
        proposed = self._proposed(question.tau)
        return proposed[0].proposed if proposed else None

    def _useless_one(self, question: OptionQuestion[S, A], rng: Random) -> A:
        useless = self._useless(question.tau, rng)
        return useless[0].proposed if useless else question.option

    def _mispredicted(self, question: OptionQuestion[S, A], rng: Random) -> PredictedState[S]:
        """The state after another option."""
        actions = self._rules.actions(question.tau.state)
        others = [action for action in actions if action != question.option]
        return self._outcome(question, rng.choice(others) if others else question.option)

    def _scores(self, question: OptionQuestion[S, A]) -> dict[str, float]:
        """The eight scores, by the progress that an option makes towards the goal."""
        rules = self._rules
        before, after = (question.before or question.tau).state, question.tau.state
        score = rules.score(after)
        possible = float(rules.feasible(before, question.option) is None)
        useful = float(score > rules.score(before))
        return {
            "success_probability": score,
            "reward_estimate": score,
            "feasibility": possible,
            "consistency": possible,
            "relativity": useful,
            "reachability": possible,
            "task_specificity": useful,
            "redundancy": 1.0 - useful,
        }

    def _reached(self, question: OptionState[S, A]) -> bool:
        reached: bool = self._rules.success(question.state)
        return reached

    def _outcome(self, question: OptionQuestion[S, A], option: A) -> PredictedState[S]:
        """The state after an option, as `_after` finds it; each is found once."""
        tau = question.tau
        key = (tau.described, option)
        kept = self._outcomes.get(key)
        if kept is None or kept[0] != tau.state:
            kept = self._outcomes[key] = (tau.state, self._after(tau, option))
        return PredictedState(kept[1])

    def _after(self, tau: OptionState[S, A], option: A) -> S:
        """The first of some drawn outcomes in which the option shows its effect, or the first."""
        draws = Random(f"{self._seed} predicted {tau.described} {option}")
        rules = self._rules
        first: Step[S] = rules.step(tau.state, option, draws)
        if rules.feasible(tau.state, option) is not None:
            return first.state
        step = first
        for _ in range(DRAWS):
            after = replace(tau, state=step.state)
            moves = (Move(option, step),)
            question = PolicyQuestion(tau=after, option=option, before=tau, moves=moves)
            if is_shown(self.domain, question):
                return step.state
            step = rules.step(tau.state, option, draws)
        return first.state


def is_near(score: float, right: float) -> bool:
    """Whether a score counts as right."""
    return abs(score - right) <= NEAR + 1e-9


def _end(reached: bool) -> str:
    return DONE if reached else NOT_DONE


def _another_score(right: float, rng: Random) -> float:
    return rng.choice([score for score in SCORES if not is_near(score, right)])


def _misscored(
    _: object, scores: Mapping[str, float], name: Key, rng: Random
) -> Mapping[str, float]:
    return {**scores, str(name): _another_score(scores[str(name)], rng)}
