"""ToO's roles of planning: what each is asked, what it answers, and what the rules say.

`prompts` has the words and their order. By rules, a right answer follows from the rules and from
what the question holds. Only a prediction carries options out. Its chance is drawn once for each
question from the run's seed, so it is right for one possible world, in which the option shows its
effect if it can; the real world may differ. A wrong proposal is a mistaken option, a wrong
prerequisite a useless one, a wrong verdict the opposite, a wrong prediction the outcome of another
option. A wrong score is another one that is not near the right one; the eight scores may err one by
one.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import A, S
from llm_planning.planners.tree_of_options.answers import (
    REASON,
    FeasibilityAnswer,
    RewardAnswer,
    TerminationAnswer,
    one_option,
    reasoned,
    several_options,
)
from llm_planning.planners.tree_of_options.prompts import (
    INSTRUCTIONS,
    NOW,
    PREDICTED,
    PROPOSED,
    STATE,
    compose,
    fields_of_question,
    told_in_short,
)
from llm_planning.planners.tree_of_options.settings import OptionSearchSettings
from llm_planning.planners.tree_of_options.states import (
    Candidate,
    Feasibility,
    OptionQuestion,
    OptionState,
    PolicyQuestion,
    PredictedState,
)
from llm_planning.roles import Items, Kinds, RoleSpec, Rule, on_the_way
from llm_planning.roles.domain_rules import MEMBERS
from llm_planning.roles.mistakes import Mistakes, names_of
from llm_planning.roles.seeing import looking
from llm_planning.roles.short import short_words
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from llm_planning.planners.tree_of_options.settings import PromptSettings
    from llm_planning.planners.tree_of_options.states import OptionDomain
    from llm_planning.roles.oracles import Key
    from llm_planning.roles.seeing import See

PROPOSER_TEMPERATURE = 0.2
"""The temperature of the option proposer. Every other role is greedy (Section 4.1)."""

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


class OptionRoles(Generic[S, A]):
    """The roles in one domain.

    Every node is expanded once and siblings differ in their option, so a search asks no prompt
    twice. With one seed, each proposal then depends on its node's path alone.

    Args:
        domain: the domain to plan in.
        settings: of the prompts.
        seed: of the proposals, and of the chance in predictions.
    """

    def __init__(self, domain: OptionDomain[S, A], settings: PromptSettings, *, seed: int) -> None:
        self.domain = domain
        self.settings = settings
        self._rules: Any = domain
        self._seed = seed
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
            self.decompose(),
        )
        return {one.name: one for one in several}

    def propose(self, k: int, moment: str) -> RoleSpec[OptionState[S, A], Sequence[Candidate[A]]]:
        """Names k candidates ω̃ after τ (eq. 2). Sees goal, state and history."""
        return self.spec(
            "propose",
            OptionState,
            (*STATE, "goal", "history", "options", *INSTRUCTIONS),
            moment=moment,
            count=k,
            said="propose",
            writes=partial(self._several, k, k),
            read=self._candidates,
            sampling=self._drawn,
            rule=Rule(
                right=self._proposed,
                wrong=self._useless,
                situation=self.situation_of_goal,
                items=Items(names=self._subjects, spoil=self._misproposed),
            ),
            options=lambda candidates: [one.proposed for one in candidates],
        )

    def decompose(self) -> RoleSpec[OptionState[S, A], Sequence[Candidate[A]]]:
        """Writes a plan of at most d options from s_0. Sees goal and state."""
        return self.spec(
            "decompose",
            OptionState,
            (*STATE, "goal", "options", *INSTRUCTIONS),
            count=self.settings.d,
            said="plan",
            writes=partial(self._several, 1, self.settings.d),
            read=self._candidates,
            sampling=self._drawn,
            rule=self._decomposing(),
            options=lambda candidates: [one.proposed for one in candidates],
        )

    def feasibility(self, moment: str) -> RoleSpec[OptionQuestion[S, A], Feasibility]:
        """Judges whether ω̃ is feasible. Sees goal, state, history and option."""
        return self.spec(
            "feasibility",
            OptionQuestion,
            (*STATE, "goal", "history", "option", *INSTRUCTIONS),
            moment=moment,
            said="feasibility",
            writes=lambda: reasoned(FeasibilityAnswer, self.settings.reason),
            read=lambda _, said: Feasibility(None if said.action_valid else said.reason),
            rule=Rule(
                right=self._feasible,
                wrong=self._misjudged,
                situation=self.situation_of_option,
                kinds=self._by_option(),
            ),
            same=lambda one, other: (one.obstacle is None) == (other.obstacle is None),
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
            said="repair",
            writes=partial(one_option, grammar),
            read=lambda _, said: grammar.read(said.model_dump()),
            rule=Rule(
                right=self._prerequisite,
                wrong=self._useless_one,
                situation=self.situation_of_option,
            ),
            options=lambda option: (option,),
        )

    def dynamics(self) -> RoleSpec[OptionQuestion[S, A], PredictedState[S]]:
        """Predicts the state after ω (eq. 1). Sees state and option; it alone sees pictures."""
        domain, look = self.domain, looking(self.domain, self._see)
        return self.spec(
            "dynamics",
            OptionQuestion,
            (*STATE, "option", *INSTRUCTIONS),
            see=self._see,
            show=lambda asked: look(asked.tau.state),
            said="dynamics",
            writes=lambda: domain.state_model.answer,
            read=lambda asked, said: PredictedState(
                *domain.state_model.read(asked.tau.state, said)
            ),
            rule=Rule(
                right=lambda asked: self._outcome(asked, asked.option),
                wrong=self._mispredicted,
                situation=self.situation_of_option,
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
            said="reward",
            writes=lambda: RewardAnswer,
            read=lambda _, said: said.model_dump(),
            rule=Rule(
                right=self._scores,
                wrong=lambda asked, rng: {
                    name: _another_score(score, rng) for name, score in self._scores(asked).items()
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
            said="termination",
            writes=lambda: TerminationAnswer,
            read=lambda _, said: bool(said.done),
            rule=Rule(
                right=self._reached,
                wrong=lambda asked, _: not self._reached(asked),
                situation=self.situation,
                kinds=Kinds(names=(DONE, NOT_DONE), of=lambda asked: _end(self._reached(asked))),
            ),
            same=lambda one, other: one is other,
            brief=_end,
        )

    def spec(
        self,
        name: str,
        asks: type[Any],
        blocks: Sequence[str],
        *,
        moment: str = NOW,
        count: int = 1,
        see: See = "words",
        said: str = "",
        **parts: Any,  # noqa: ANN401 - of the spec
    ) -> RoleSpec[Any, Any]:
        """A role with its words, and its short ones if there are any.

        Args:
            name: of the role.
            asks: the question.
            blocks: see `prompts.compose`; so are the others.
            moment: of the state.
            count: of the options to ask for.
            see: what is shown of the state.
            said: the role's name in short words; empty if it has none.
            parts: further parts of the spec.
        """
        domain, layout = self.domain, self.settings.layout
        plain = layout == "cached" and see == "words" and self.settings.reason == REASON
        return RoleSpec(
            name=name,
            asks=asks,
            prompt=partial(
                compose, name, blocks, domain, layout, moment=moment, count=count, see=see
            ),
            tell=fields_of_question,
            needs=MEMBERS,
            short=short_words(said, domain, tell=partial(told_in_short, domain))
            if said and plain
            else None,
            **parts,
        )

    def _several(self, least: int, most: int) -> type[BaseModel]:
        return several_options(self.domain.grammar, least, most, reason=self.settings.reason)

    def _candidates(self, _: OptionState[S, A], said: Any) -> Sequence[Candidate[A]]:  # noqa: ANN401
        written = [one.model_dump() for one in said.options]
        chosen = [(self.domain.grammar.read(one), one["reasoning"]) for one in written]
        return [Candidate(option, option, reasoning) for option, reasoning in chosen]

    def _drawn(self, _: object) -> Sampling:
        return Sampling(temperature=PROPOSER_TEMPERATURE, seed=self._seed)

    # WHAT THE RULES SAY

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

    def mistaken(self, state: S, option: A, rng: Random) -> A | None:
        """What someone may write by mistake in the place of an option; None if nothing is known."""
        says = getattr(self._rules, "mistakes", None)
        if says is not None:
            kinds: list[Sequence[A]] = [others for others in says(option).values() if others]
            return rng.choice(rng.choice(kinds))
        others = [one for one in self._rules.actions(state) if one != option]
        return rng.choice(others) if others else None

    def _by_option(self) -> Kinds[OptionQuestion[S, A]]:
        return Kinds(
            names=(FEASIBLE, INFEASIBLE),
            of=lambda asked: FEASIBLE if self._feasible(asked).obstacle is None else INFEASIBLE,
        )

    def _proposed(self, question: OptionState[S, A]) -> list[Candidate[A]] | None:
        """The advised and feasible options, in order; None if there are none."""
        advised = on_the_way(self._rules, question.state)[:MOST_PROPOSED]
        return [Candidate(one, one, "the rules ask for it") for one in advised] or None

    def _useless(self, question: OptionState[S, A], rng: Random) -> list[Candidate[A]]:
        """Options that the rules do not advise, in random order."""
        advised = list(self._rules.advise(question.state))
        pool = [one for one in self._rules.actions(question.state) if one not in advised]
        chosen = rng.sample(pool, min(MOST_PROPOSED, len(pool)))
        return [Candidate(one, one, "a guess") for one in chosen]

    def _subjects(self, question: OptionState[S, A]) -> list[str]:
        """The subjects of a right proposal, each once."""
        right = self._proposed(question) or ()
        return list(dict.fromkeys(self._subject(one.proposed) for one in right))

    def _misproposed(
        self, question: OptionState[S, A], said: Sequence[Candidate[A]], name: Key, rng: Random
    ) -> list[Candidate[A]]:
        """A proposal with mistaken options in the place of those about one subject."""
        return [
            Candidate(wrong, wrong, "a mistake")
            if self._subject(one.proposed) == name
            and (wrong := self.mistaken(question.state, one.proposed, rng)) is not None
            else one
            for one in said
        ]

    def _decomposing(
        self, kinds: Sequence[str] = ()
    ) -> Rule[OptionState[S, A], Sequence[Candidate[A]]]:
        """The rule of `decompose`. An option errs on its own by a mistake of one of these kinds."""
        mistakes: Mistakes[A] = Mistakes(self._rules, kinds)

        def right(question: OptionState[S, A]) -> list[Candidate[A]]:
            return [Candidate(one, one, "needed") for one in self._rules.advise(question.state)]

        def spoil(
            _: object, plan: Sequence[Candidate[A]], name: Key, rng: Random
        ) -> list[Candidate[A]]:
            spoilt = mistakes.in_plan([one.proposed for one in plan], name, rng)
            return [Candidate(one, one, "needed") for one in spoilt]

        return Rule(
            right=right,
            wrong=self._useless,
            situation=self.situation,
            items=Items(
                names=lambda question: names_of([one.proposed for one in right(question)]),
                spoil=spoil,
            ),
            only=self._decomposing,
        )

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
        others = [one for one in actions if one != question.option]
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

    def _subject(self, option: A) -> str:
        return str(getattr(self._rules, "subject", str)(option))

    def _outcome(self, question: OptionQuestion[S, A], option: A) -> PredictedState[S]:
        """The state after an option, as `_after` finds it; each is found once."""
        tau = question.tau
        asked = (tau.described, option)
        kept = self._outcomes.get(asked)
        if kept is None or kept[0] != tau.state:
            kept = self._outcomes[asked] = (tau.state, self._after(tau, option))
        return PredictedState(kept[1])

    def _after(self, tau: OptionState[S, A], option: A) -> S:
        """The first of some drawn outcomes in which the option shows its effect, or the first."""
        draws = Random(f"{self._seed} predicted {tau.described} {option}")
        shows = getattr(self._rules, "shows", None)
        found: S = self._rules.step(tau.state, option, draws).state
        if shows is None or self._rules.feasible(tau.state, option) is not None:
            return found
        state = found
        for _ in range(DRAWS):
            if shows(tau.state, state, option):
                return state
            state = self._rules.step(tau.state, option, draws).state
        return found


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
