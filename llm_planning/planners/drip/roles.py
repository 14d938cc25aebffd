"""DRIP's roles: what each is asked, how its answer is read, who answers, how often it is wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from llm_planning.domain import A, Judged, S, settled
from llm_planning.execution.episode import world_draws
from llm_planning.planners.drip.answers import (
    END,
    JudgementAnswer,
    next_action,
    several_subtasks,
)
from llm_planning.planners.drip.prompts import compose
from llm_planning.planners.drip.questions import Applied
from llm_planning.planners.drip.rules import rules_of
from llm_planning.planners.tree_of_options.answers import reasoned
from llm_planning.roles import LlmRole, OptionLanguage, Oracle, gather, missing_for_rules
from llm_planning.settings import SettingsError
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import BaseModel

    from llm_planning.planners.drip.questions import (
        Application,
        Decomposition,
        DripDomain,
        Judgement,
        NextAction,
    )
    from llm_planning.planners.drip.settings import ActingSettings
    from llm_planning.roles import Engines, Errors, Role

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

DRAWN = 0.7
"""The temperature of a vote, and of a decomposition that is asked for again (our choice). Every
other answer is greedy."""

NEEDED_BY_RULES = {
    "decompose": ("decompose", "judge"),
    "judge": ("judge",),
    "apply": ("actions", "step", "describe"),
    "act": ("actions", "step", "feasible", "advise", "success"),
}
"""Role -> the members of a domain with which rules answer it."""


NAMES_OPTIONS = frozenset({"decompose", "act"})
"""The roles whose answers are subtasks."""


def same_subtasks(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether two decompositions name the same subtasks; their order does not count."""
    return Counter(one) == Counter(other)


class DripRoles(Generic[S, A]):
    """Makes the roles of one run.

    Args:
        domain: the domain to plan in.
        engines: the models that answer.
        settings: who answers each role, and how many votes count.
        seed: of the run.

    Attributes:
        domain: as given.
        seed: as given.
        oracles: the oracles that answer roles, JSON-able.
        asked: role -> number of questions, votes included.
        wrong: role -> number of answers that differ from those of the domain's rules. Answers that
            votes decide count once.

    Raises:
        SettingsError: `roles` has an unknown role.
    """

    def __init__(
        self,
        domain: DripDomain[S, A],
        engines: Engines,
        settings: ActingSettings,
        *,
        seed: int,
    ) -> None:
        self.domain = domain
        self.seed = seed
        self._engines = engines
        self._settings = settings
        self._rules = rules_of(domain, seed=seed)
        self._errors: dict[str, Errors | None] = {}
        self._draws = world_draws(seed)
        self.oracles: list[dict[str, object]] = []
        self.asked: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()

    def decompose(self, most: int) -> Role[Decomposition[S, A], Sequence[A]]:
        """The role that names the subtasks right before a subtask.

        Args:
            most: the most subtasks that a model writes.
        """
        grammar = self.domain.grammar
        answer = several_subtasks(grammar, most)

        def read(_: Decomposition[S, A], said: Any) -> Sequence[A]:  # noqa: ANN401
            return [grammar.read(one.model_dump()) for one in said.subtasks]

        def sampling(asked: Decomposition[S, A]) -> Sampling:
            return self._sampling(asked.asking)

        role = self._role("decompose", answer, read, sampling=sampling)
        return self._checked("decompose", role, same=same_subtasks)

    def judge(self) -> Role[Judgement[S, A], Judged]:
        """The role that judges a subtask; the most frequent verdict counts."""

        def read(_: Judgement[S, A], said: JudgementAnswer) -> Judged:
            return Judged(said.verdict, said.reason)

        answer = reasoned(JudgementAnswer, self._settings.reason)
        role = self._voted("judge", answer, read, key=lambda judged: judged.verdict)
        return self._checked("judge", role, same=lambda a, b: a.verdict == b.verdict)

    def apply(self) -> Role[Application[S, A], Applied[S]]:
        """The role that says what a subtask does.

        If rules answer it without errors, the world itself acts, with the chance of the trial.
        """
        errors = self._errors_of("apply")
        if errors is not None and errors.never:
            self._oracle("apply", errors)
            return self._act
        model: Any = getattr(self.domain, "state_model", None)
        if errors is None and model is None:
            raise SettingsError(
                "this domain has no `state_model`, so no model can say what a subtask does: let "
                "rules answer `apply`"
            )

        def read(asked: Application[S, A], said: BaseModel) -> S:
            state: S = model.read(asked.state, said)[0]
            return state

        predict = self._voted("apply", model and model.answer, read, key=lambda state: state)
        predict = self._checked("apply", predict, same=lambda a, b: a == b)

        async def ask(asked: Application[S, A], /) -> Applied[S]:
            return Applied(await predict(asked))

        return ask

    def act(self) -> Role[NextAction[S, A], Sequence[A]]:
        """The role that names the next action; no action says that the goal is reached."""
        grammar = self.domain.grammar
        answer = next_action(grammar, reason=self._settings.reason)

        def read(_: NextAction[S, A], said: Any) -> Sequence[A]:  # noqa: ANN401
            return [] if said.next == END else [grammar.read(said.next.model_dump())]

        role = self._role("act", answer, read)
        # Several actions may be right, but only one verdict on the end.
        return self._checked("act", role, same=lambda a, b: bool(a) == bool(b))

    async def _act(self, asked: Application[S, A], /) -> Applied[S]:
        self.asked["apply"] += 1
        before = self._draws.getstate()
        step = await settled(self.domain.step(asked.state, asked.subtask, self._draws))
        return Applied(step.state, step.obstacle, certain=self._draws.getstate() == before)

    def _sampling(self, number: int) -> Sampling:
        """Of the first answer greedy; every other is drawn by a seed of its own."""
        if number == 0:
            return Sampling(temperature=0.0)
        return Sampling(temperature=DRAWN, seed=Random(f"{self.seed} {number}").getrandbits(31))

    def _voted(
        self,
        name: str,
        answer: type[Any],
        read: Callable[[QuestionT, Any], AnswerT],
        *,
        key: Callable[[AnswerT], object],
    ) -> Role[QuestionT, AnswerT]:
        """A role that is asked `votes` times at once; the most frequent answer counts.

        Of answers that are equally frequent, the first counts.
        """

        def sampling(asked: QuestionT) -> Sampling:
            return self._sampling(cast("Any", asked).vote)

        role = self._role(name, answer, read, sampling=sampling)

        async def ask(question: QuestionT, /) -> AnswerT:
            ballots: list[Any] = [
                replace(cast("Any", question), vote=vote) for vote in range(self._settings.votes)
            ]
            asked: list[Any] = [role(ballot) for ballot in ballots]
            answers: list[AnswerT] = await gather(asked)
            keys = [key(one) for one in answers]
            return max(answers, key=lambda one: keys.count(key(one)))

        return ask

    def _checked(
        self,
        name: str,
        role: Role[QuestionT, AnswerT],
        *,
        same: Callable[[AnswerT, AnswerT], bool],
    ) -> Role[QuestionT, AnswerT]:
        """A role whose answers are compared to the rules', if the domain has them."""
        errors = self._errors_of(name)
        never_wrong = errors is not None and errors.never
        if never_wrong or missing_for_rules(self.domain, NEEDED_BY_RULES[name]):
            return role
        rule = self._rules[name]

        async def ask(question: QuestionT, /) -> AnswerT:
            answer, right = await role(question), rule.right(question)
            self.wrong[name] += right is not None and not same(answer, right)
            return answer

        return ask

    def _errors_of(self, name: str) -> Errors | None:
        # The settings read their file each time.
        if name not in self._errors:
            self._errors[name] = self._settings.errors_of(name, opened=self._engines.by_role)
        return self._errors[name]

    def _oracle(self, name: str, errors: Errors) -> Oracle[Any, Any]:
        if missing := missing_for_rules(self.domain, NEEDED_BY_RULES[name]):
            raise SettingsError(
                f"roles={self._settings.roles}: this domain has no rules that answer {name!r}: "
                f"add {', '.join(missing)} as plain methods, or let a model answer it"
            )
        oracle: Oracle[Any, Any] = Oracle(name, self._rules[name], errors=errors, seed=self.seed)
        self.oracles.append(oracle.describe())
        return oracle

    def _in_words(self, role: Role[QuestionT, Any]) -> Role[QuestionT, Any]:
        """A role that names subtasks as a model can."""
        language: OptionLanguage[A] = OptionLanguage(self.domain.grammar)

        async def ask(question: QuestionT, /) -> Any:  # noqa: ANN401
            said = await role(question)
            language.check(said)
            return said

        return ask

    def _role(
        self,
        name: str,
        answer: type[Any],
        read: Callable[[QuestionT, Any], AnswerT],
        *,
        sampling: Callable[[QuestionT], Sampling] = lambda _: Sampling(temperature=0.0),
    ) -> Role[QuestionT, AnswerT]:
        """Makes a role with the answerer that `roles` says, and counts its questions."""
        errors = self._errors_of(name)
        role: Role[QuestionT, AnswerT]
        if errors is not None:
            role = self._oracle(name, errors)
            if name in NAMES_OPTIONS:
                role = self._in_words(role)
        else:
            asked: LlmRole[QuestionT, Any] = LlmRole(
                name,
                prompt=compose(name, self.domain),
                answer=answer,
                engine=self._engines.of(name),
                sampling=sampling,
            )
            role = asked.read(read)

        async def ask(question: QuestionT, /) -> AnswerT:
            self.asked[name] += 1
            return await role(question)

        return ask
