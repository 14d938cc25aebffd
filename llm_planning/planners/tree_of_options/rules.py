"""A domain's rules as answers to ToO's questions, for oracles.

A right answer follows from the rules and from what the question holds. Only a prediction carries
options out. Its chance is drawn once for each question from the run's seed, so it is right for one
possible world, in which the option shows its effect if it can; the real world may differ. A wrong
proposal or program is a mistaken option, a wrong prerequisite a useless one, a wrong verdict the
opposite, a wrong prediction the outcome of another option. A wrong score is another one that is not
near the right one; the eight scores may err one by one.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import A, S
from llm_planning.planners.tree_of_options.answers import RewardAnswer
from llm_planning.planners.tree_of_options.states import (
    Candidate,
    Completion,
    Feasibility,
    OptionQuestion,
    OptionState,
    PolicyQuestion,
    PredictedState,
)
from llm_planning.roles import Items, Kinds, Rule, missing_for_rules, on_the_way
from llm_planning.roles.mistakes import Mistakes, names_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.roles import DomainWithRules
    from llm_planning.roles.oracles import Key

FEASIBLE, INFEASIBLE = "feasible", "infeasible"
"""The kinds of questions about an option: whether it can be carried out."""

DONE, NOT_DONE = "done", "not done"
"""The kinds of questions about the end: whether the goal is reached."""

MOST_PROPOSED = 8
"""The most options of a right proposal. The planner takes the first k."""

DRAWS = 16
"""The outcomes of an option that are drawn until one shows its effect: what an option is expected
to do is its effect, and a cow that is not found at first is found later (our choice)."""

NEAR = 0.2
"""A score may be so far from the rules' score and is right (our choice)."""

SCORES = tuple(step / 10 for step in range(11))
"""The scores that a model can write."""


def rules_of(domain: Any, *, seed: int) -> Mapping[str, Rule[Any, Any]]:  # noqa: ANN401
    """Maps each role to its rule: the domain's right and wrong answers.

    Args:
        domain: any domain. The result is empty if it is not a `DomainWithRules`.
        seed: of the chance in predictions.
    """
    if missing_for_rules(domain):
        return {}
    answers: _Answers[Any, Any] = _Answers(domain, seed)
    by_option = Kinds(names=(FEASIBLE, INFEASIBLE), of=answers.verdict)
    return {
        "propose": Rule(
            right=answers.propose,
            wrong=answers.useless,
            situation=answers.situation_of_goal,
            items=Items(names=answers.proposed, spoil=answers.mispropose),
        ),
        "feasibility": Rule(
            right=answers.feasible,
            wrong=answers.misjudge,
            situation=answers.situation_of_option,
            kinds=by_option,
        ),
        "repair": Rule(
            right=answers.repair, wrong=answers.useless_one, situation=answers.situation_of_option
        ),
        "dynamics": Rule(
            right=answers.predict,
            wrong=answers.mispredict,
            situation=answers.situation_of_option,
            kinds=by_option,
        ),
        "reward": Rule(
            right=answers.judge,
            wrong=answers.misjudge_all,
            situation=answers.situation_of_option,
            items=Items(names=lambda _: tuple(RewardAnswer.model_fields), spoil=_misscored),
        ),
        "termination": Rule(
            right=answers.is_terminal,
            wrong=lambda question, _: not answers.is_terminal(question),
            situation=answers.situation,
            kinds=Kinds(names=(DONE, NOT_DONE), of=answers.end),
        ),
        "decompose": answers.decomposing(),
        "code": Rule(
            right=answers.policy,
            wrong=answers.mistaken_policy,
            situation=answers.situation_of_program,
        ),
        "complete": Rule(
            right=answers.is_complete,
            wrong=lambda question, _: Completion(not answers.is_complete(question).done),
            situation=answers.situation_of_policy,
            kinds=Kinds(
                names=(DONE, NOT_DONE),
                of=lambda question: DONE if answers.is_complete(question).done else NOT_DONE,
            ),
        ),
    }


class _Answers(Generic[S, A]):
    """Right and wrong answers of one run."""

    def __init__(self, domain: DomainWithRules[S, A], seed: int) -> None:
        self._domain = domain
        self._seed = seed
        self._outcomes: dict[tuple[str, A], tuple[S, S]] = {}

    def situation(self, question: OptionState[S, A]) -> tuple[str, ...]:
        """The situation of a question about τ. Its subject is the present state."""
        here = "\n".join((question.described, *map(str, question.since)))
        return (here, question.history)

    def situation_of_goal(self, question: OptionState[S, A]) -> tuple[str, ...]:
        """The situation of a proposal. Its subject is the goal, so an item errs in every state."""
        return (question.goal, *self.situation(question))

    def situation_of_option(
        self, question: OptionQuestion[S, A] | PolicyQuestion[S, A]
    ) -> tuple[str, ...]:
        """The situation of a question about an option. Its subject is the option's, as an item."""
        option = question.option
        return (self._subject(option), str(option), *self.situation(question.tau))

    def situation_of_policy(self, question: PolicyQuestion[S, A]) -> tuple[Key, ...]:
        """The situation of a question about an option that is executed."""
        return (*self.situation_of_option(question), question.m)

    def propose(self, question: OptionState[S, A]) -> list[Candidate[A]] | None:
        """The advised and feasible options, in order; None if there are none."""
        advised = on_the_way(self._domain, question.state)[:MOST_PROPOSED]
        return [Candidate(one, one, "the rules ask for it") for one in advised] or None

    def decompose(self, question: OptionState[S, A]) -> list[Candidate[A]]:
        """All advised options."""
        return [Candidate(one, one, "needed") for one in self._advised(question.state)]

    def useless(self, question: OptionState[S, A], rng: Random) -> list[Candidate[A]]:
        """Options that the rules do not advise, in random order."""
        advised = self._advised(question.state)
        pool = [one for one in self._domain.actions(question.state) if one not in advised]
        chosen = rng.sample(pool, min(MOST_PROPOSED, len(pool)))
        return [Candidate(one, one, "a guess") for one in chosen]

    def situation_of_program(self, question: PolicyQuestion[S, A]) -> tuple[Key, ...]:
        """The situation of a policy. Its subject is the item and the attempt.

        Feedback makes each refinement another program, which has an error of its own.
        """
        subject, *others = self.situation_of_option(question)
        return ((subject, question.m), *others)

    def proposed(self, question: OptionState[S, A]) -> list[str]:
        """The subjects of a right proposal, each once."""
        right = self.propose(question) or ()
        return list(dict.fromkeys(self._subject(one.proposed) for one in right))

    def mispropose(
        self, question: OptionState[S, A], said: list[Candidate[A]], name: Key, rng: Random
    ) -> list[Candidate[A]]:
        """A proposal with mistaken options in the place of those about one subject."""
        return [
            Candidate(wrong, wrong, "a mistake")
            if self._subject(one.proposed) == name
            and (wrong := self._mistaken(question.state, one.proposed, rng)) is not None
            else one
            for one in said
        ]

    def policy(self, question: PolicyQuestion[S, A]) -> Sequence[A]:
        """The option itself at first; then what is missing, and how to come to it."""
        return approach(self._domain, question)

    def mistaken_policy(self, question: PolicyQuestion[S, A], rng: Random) -> Sequence[A]:
        """A mistaken option in the place of this one."""
        wrong = self._mistaken(question.tau.state, question.option, rng)
        return () if wrong is None else (wrong,)

    def is_complete(self, question: PolicyQuestion[S, A]) -> Completion:
        """Whether the world shows that the option is done."""
        return Completion(is_shown(self._domain, question))

    def decomposing(self, kinds: Sequence[str] = ()) -> Rule[OptionState[S, A], list[Candidate[A]]]:
        """The rule of `decompose`. An option errs on its own by a mistake of one of these kinds."""
        mistakes: Mistakes[A] = Mistakes(self._domain, kinds)

        def spoil(
            _: OptionState[S, A], plan: list[Candidate[A]], name: Key, rng: Random
        ) -> list[Candidate[A]]:
            spoilt = mistakes.in_plan([one.proposed for one in plan], name, rng)
            return [Candidate(one, one, "needed") for one in spoilt]

        def names(question: OptionState[S, A]) -> Sequence[str]:
            return names_of([one.proposed for one in self.decompose(question)])

        return Rule(
            right=self.decompose,
            wrong=self.useless,
            situation=self.situation,
            items=Items(names=names, spoil=spoil),
            only=self.decomposing,
        )

    def feasible(self, question: OptionQuestion[S, A]) -> Feasibility:
        """Whether an option can be carried out, by the rules."""
        return Feasibility(self._domain.feasible(question.tau.state, question.option))

    def verdict(self, question: OptionQuestion[S, A]) -> str:
        """Whether the option can be carried out, in a word."""
        return FEASIBLE if self.feasible(question).obstacle is None else INFEASIBLE

    def end(self, question: OptionState[S, A]) -> str:
        """Whether the goal is reached, in words."""
        return DONE if self.is_terminal(question) else NOT_DONE

    def misjudge(self, question: OptionQuestion[S, A], rng: Random) -> Feasibility:  # noqa: ARG002
        """The opposite of the right verdict."""
        right = self.feasible(question).obstacle
        return Feasibility("something is missing" if right is None else None)

    def repair(self, question: OptionQuestion[S, A]) -> A | None:
        """The first advised and feasible option."""
        proposed = self.propose(question.tau)
        return proposed[0].proposed if proposed else None

    def useless_one(self, question: OptionQuestion[S, A], rng: Random) -> A:
        """An option that the rules do not advise."""
        useless = self.useless(question.tau, rng)
        return useless[0].proposed if useless else question.option

    def predict(self, question: OptionQuestion[S, A]) -> PredictedState[S]:
        """The state after the option in the world of the run's seed."""
        return self._outcome(question, question.option)

    def mispredict(self, question: OptionQuestion[S, A], rng: Random) -> PredictedState[S]:
        """The state after another option."""
        actions = self._domain.actions(question.tau.state)
        others = [one for one in actions if one != question.option]
        return self._outcome(question, rng.choice(others) if others else question.option)

    def judge(self, question: OptionQuestion[S, A]) -> dict[str, float]:
        """The eight scores, by the progress that an option makes towards the goal."""
        domain = self._domain
        before, after = (question.before or question.tau).state, question.tau.state
        score = domain.score(after)
        possible = float(domain.feasible(before, question.option) is None)
        useful = float(score > domain.score(before))
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

    def misjudge_all(self, question: OptionQuestion[S, A], rng: Random) -> dict[str, float]:
        """Eight wrong scores."""
        right = self.judge(question)
        return {name: _another_score(score, rng) for name, score in right.items()}

    def is_terminal(self, question: OptionState[S, A]) -> bool:
        """Whether the goal is reached."""
        return self._domain.success(question.state)

    def _mistaken(self, state: S, option: A, rng: Random) -> A | None:
        """What someone may write by mistake in the place of an option; None if nothing is known."""
        says = getattr(self._domain, "mistakes", None)
        if says is not None:
            kinds: list[Sequence[A]] = [others for others in says(option).values() if others]
            return rng.choice(rng.choice(kinds))
        others = [one for one in self._domain.actions(state) if one != option]
        return rng.choice(others) if others else None

    def _subject(self, option: A) -> str:
        said = getattr(self._domain, "subject", str)
        return str(said(option))

    def _advised(self, state: S) -> list[A]:
        return list(self._domain.advise(state))

    def _outcome(self, question: OptionQuestion[S, A], option: A) -> PredictedState[S]:
        """The state after an option, as `_drawn` finds it; each is found once."""
        tau = question.tau
        asked = (tau.described, option)
        kept = self._outcomes.get(asked)
        if kept is None or kept[0] != tau.state:
            kept = self._outcomes[asked] = (tau.state, self._drawn(tau, option))
        return PredictedState(kept[1])

    def _drawn(self, tau: OptionState[S, A], option: A) -> S:
        """The first of some drawn outcomes in which the option shows its effect, or the first."""
        draws = Random(f"{self._seed} predicted {tau.described} {option}")
        shows = getattr(self._domain, "shows", None)
        found = self._domain.step(tau.state, option, draws).state
        if shows is None or self._domain.feasible(tau.state, option) is not None:
            return found
        state = found
        for _ in range(DRAWS):
            if shows(tau.state, state, option):
                return state
            state = self._domain.step(tau.state, option, draws).state
        return found


def approach(domain: Any, question: PolicyQuestion[S, A]) -> Sequence[A]:  # noqa: ANN401
    """The verbs that carry an option out.

    The first policy is the option itself. Later ones are the domain's `approach`.
    """
    on = getattr(domain, "approach", None)
    if on is None or question.m == 1:
        return (question.option,)
    found: Sequence[A] = on(question.before.state, question.tau.state, question.option)
    return found


def is_shown(domain: Any, question: PolicyQuestion[S, A]) -> bool:  # noqa: ANN401
    """Whether the world shows that an option is done.

    The domain's `shows` says so. Without it, the option is done if it was carried out completely.
    """
    shows = getattr(domain, "shows", None)
    if shows is not None:
        return bool(shows(question.before.state, question.tau.state, question.option))
    return any(
        move.action == question.option and move.step.obstacle is None for move in question.moves
    )


def is_near(score: float, right: float) -> bool:
    """Whether a score counts as right."""
    return abs(score - right) <= NEAR + 1e-9


def _another_score(right: float, rng: Random) -> float:
    return rng.choice([score for score in SCORES if not is_near(score, right)])


def _misscored(
    _: object, scores: Mapping[str, float], name: Key, rng: Random
) -> Mapping[str, float]:
    return {**scores, str(name): _another_score(scores[str(name)], rng)}
