"""A role as one value, and the one place that decides who answers it.

What a planner asks is a `RoleSpec`: the question, the answer, the words, and the rule that knows
what is right. From it follow how a model is asked, what an oracle says and how it errs, how votes
count, what an answer was worth, and how the role is measured and taught (`roles.exercises`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence  # noqa: TC003 (fields)
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import eq
from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import DomainError
from llm_planning.roles.domain_rules import BY_MODEL, missing_for_rules
from llm_planning.roles.language import OptionLanguage
from llm_planning.roles.llm import AnswerT, LlmRole, QuestionT, Role, fields_of, gather
from llm_planning.roles.oracles import Oracle
from llm_planning.settings import SettingsError
from llm_serving.request import Request, Sampling

if TYPE_CHECKING:
    from typing import Self

    from pydantic import BaseModel

    from llm_planning.roles.assignment import RoleSettings
    from llm_planning.roles.engines import Engines
    from llm_planning.roles.llm import Prompt
    from llm_planning.roles.oracles import Errors, Rule
    from llm_serving.answers import Constraint
    from llm_serving.engine import Engine
    from llm_serving.request import Image
    from llm_serving.request import Prompt as Chat


def greedy(_: object) -> Sampling:
    """Draws nothing."""
    return Sampling(temperature=0.0)


def no_pictures(_: object) -> tuple[Image, ...]:
    """Shows nothing."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Short(Generic[QuestionT]):
    """The words in which a model is asked that was taught the role: it knows rules and form.

    Attributes:
        values_of: maps a question to the values of the prompt.
        digest: SHA-256 of all that was taught in such words, in hexadecimal. A model that was
            taught others is asked as any model.
    """

    prompt: Callable[[], Prompt]
    values_of: Callable[[QuestionT], Mapping[str, object]]
    digest: Callable[[], str]

    def known_to(self, engine: Engine, role: str) -> bool:
        """Whether the model of an engine was taught a role in these words."""
        taught = engine.identity.taught
        return taught is not None and role in taught.roles and self.digest() in taught.words_sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRules(Generic[QuestionT, AnswerT]):
    """What rules say of a role.

    Attributes:
        name: as role files and engines call it.
        rule: right and wrong answers; None for a role that no rules can answer.
        needs: the members of a domain with which `rule` answers.
        inform: makes what adds to a question all that `rule` reads of it, for rules that have to
            look first; it raises a `DomainError` in a domain where they cannot. Wrong answers of
            such a role are not counted.
        options: the options that an answer names. Those of rules must be such as a model can name.
        same: whether two answers count as one, in votes and beside what is right; None for a role
            of which wrong answers are not counted.
        brief: an answer in a few words.
    """

    name: str
    rule: Rule[QuestionT, AnswerT] | None = None
    needs: tuple[str, ...] = ()
    inform: Callable[[], Callable[[QuestionT], Awaitable[QuestionT]]] | None = None
    options: Callable[[AnswerT], Sequence[Any]] | None = None
    same: Callable[[AnswerT, AnswerT], bool] | None = None
    brief: Callable[[AnswerT], str] = str

    def right(self, question: QuestionT) -> AnswerT | None:
        """The right answer; None if no rule knows one."""
        return None if self.rule is None else self.rule.right(question)


class AnyRole(RoleRules[QuestionT, AnswerT], ABC):
    """What one role is, however a model answers it."""

    __slots__ = ()

    @abstractmethod
    def answered_by(self, engine: Engine) -> Role[QuestionT, AnswerT]:
        """The role as a model answers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRole(AnyRole[QuestionT, AnswerT]):
    """A role that a model answers by the probabilities of what it might write."""

    score: Callable[[Engine], Role[QuestionT, AnswerT]]

    def answered_by(self, engine: Engine) -> Role[QuestionT, AnswerT]:
        """See `AnyRole`."""
        return self.score(engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRole(AnyRole[QuestionT, str]):
    """A role that a model answers in plain words, where JSON around them would only cost tokens.

    Attributes:
        constraint: the language of an answer.
    """

    prompt: Callable[[QuestionT], Chat]
    constraint: Constraint
    sampling: Callable[[QuestionT], Sampling] = greedy

    def answered_by(self, engine: Engine) -> Role[QuestionT, str]:
        """See `AnyRole`."""

        async def ask(question: QuestionT, /) -> str:
            request = Request(
                prompt=self.prompt(question),
                sampling=self.sampling(question),
                constraint=self.constraint,
                role=self.name,
            )
            return (await engine.generate(request)).text.strip()

        return ask


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec(AnyRole[QuestionT, AnswerT]):
    """A role that a model answers in JSON.

    Attributes:
        asks: the question, a frozen dataclass of what is known. What its `repr` does not show is
            told to nobody: the state itself, which rules read, and how often it is asked.
        prompt: compiles its words; called only where a model answers.
        writes: makes the form of a model's answer; called likewise.
        read: makes the answer of a question and of what a model wrote.
        values_of: maps a question to the values of the prompt.
        show: maps a question to the pictures before the words.
        short: the words for a taught model; None if there are none.
    """

    asks: type[Any]
    prompt: Callable[[], Prompt]
    writes: Callable[[], type[BaseModel]]
    read: Callable[[QuestionT, Any], AnswerT]
    values_of: Callable[[QuestionT], Mapping[str, object]] = fields_of
    show: Callable[[QuestionT], tuple[Image, ...]] = no_pictures
    short: Short[QuestionT] | None = None
    sampling: Callable[[QuestionT], Sampling] = greedy

    def in_short(self) -> Self:
        """The role in its short words, if it has any."""
        if self.short is None:
            return self
        return replace(self, prompt=self.short.prompt, values_of=self.short.values_of, short=None)

    def is_taught(self, engine: Engine) -> bool:
        """Whether the model of an engine was taught the role in today's short words."""
        return self.short is not None and self.short.known_to(engine, self.name)

    def answered_by(self, engine: Engine) -> Role[QuestionT, AnswerT]:
        """The role as a model answers it, in short words if it was taught them."""
        words = self.in_short() if self.is_taught(engine) else self
        return words.by(engine).read(self.read)

    def by(self, engine: Engine) -> LlmRole[QuestionT, BaseModel]:
        """The role as a model answers it, in the form that the model writes."""
        return LlmRole(
            self.name,
            prompt=self.prompt(),
            answer=self.writes(),
            engine=engine,
            sampling=self.sampling,
            values_of=self.values_of,
            show=self.show,
        )


class Asking:
    """Who answers the roles of one run, how often each was asked, and how often it was wrong.

    Args:
        domain: its rules answer, where `settings` say so.
        seed: of the oracles' errors.

    Attributes:
        asked: role -> number of questions, votes included, whoever answers.
        wrong: role -> number of answers that differ from those of the domain's rules. Answers that
            votes decide count once.
    """

    def __init__(
        self,
        domain: Any,  # noqa: ANN401 - what a role needs of it is in its spec
        engines: Engines,
        settings: RoleSettings,
        *,
        seed: int,
    ) -> None:
        self.domain = domain
        self.engines = engines
        self.settings = settings
        self.seed = seed
        self.asked: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self._errors: dict[str, Errors | None] = {}
        # An oracle counts its askings, so that all searches of a run share it.
        self._oracles: dict[str, Oracle[Any, Any]] = {}

    @property
    def oracles(self) -> list[dict[str, object]]:
        """The oracles that answer roles, JSON-able, in the order of their making."""
        return [oracle.describe() for oracle in self._oracles.values()]

    def errors_of(self, role: str) -> Errors | None:
        """How the domain's rules err in a role; None if a model answers it."""
        # The settings read their file each time.
        if role not in self._errors:
            self._errors[role] = self.settings.errors_of(role, opened=self.engines.by_role)
        return self._errors[role]

    def never_wrong(self, role: str) -> bool:
        """Whether rules without errors answer a role."""
        errors = self.errors_of(role)
        return errors is not None and errors.never

    def of(self, spec: AnyRole[QuestionT, AnswerT], *, votes: int = 1) -> Role[QuestionT, AnswerT]:
        """The role, answered by whom `settings` say.

        Args:
            votes: how often each question is asked, at once; a question then has the field `vote`.
                The most frequent answer counts, of equally frequent ones the first.

        Raises:
            SettingsError: neither a model nor the domain's rules can answer it, or it has a model
                of its own that is not open.
        """
        return self.counted(spec, self.by_rules(spec) or self.by_model(spec), votes=votes)

    def by_model(self, spec: AnyRole[QuestionT, AnswerT]) -> Role[QuestionT, AnswerT]:
        """The role, answered by its model."""
        return spec.answered_by(self.engines.of(spec.name))

    def by_rules(self, spec: RoleRules[QuestionT, AnswerT]) -> Role[QuestionT, AnswerT] | None:
        """The role, answered by the domain's rules; None if a model answers it.

        Raises:
            SettingsError: the domain has no rules that answer it.
        """
        errors = self.errors_of(spec.name)
        if errors is None:
            return None
        missing = missing_for_rules(self.domain, spec.needs)
        why = f"add {', '.join(missing)} as plain methods, or {BY_MODEL}" if missing else ""
        inform = None
        try:
            inform = spec.inform and spec.inform()
        except DomainError as error:
            why = str(error)
        if spec.rule is None or why:
            raise SettingsError(
                f"roles={self.settings.roles}: this domain has no rules that answer {spec.name!r}: "
                f"{why or BY_MODEL}"
            )
        if spec.name not in self._oracles:
            self._oracles[spec.name] = Oracle(spec.name, spec.rule, errors=errors, seed=self.seed)
        oracle: Oracle[QuestionT, AnswerT] = self._oracles[spec.name]

        async def ask(question: QuestionT, /) -> AnswerT:
            answer = await oracle(await inform(question) if inform else question)
            if spec.options is not None:
                self._language.check(spec.options(answer))
            return answer

        return ask

    def counted(
        self,
        spec: RoleRules[QuestionT, AnswerT],
        answer: Role[QuestionT, AnswerT],
        *,
        votes: int = 1,
    ) -> Role[QuestionT, AnswerT]:
        """The role, answered so; questions and wrong answers are counted.

        Args:
            votes: see `of`.
        """
        same = spec.same or eq
        compared = (
            spec.same is not None
            and spec.inform is None
            and not self.never_wrong(spec.name)
            and not missing_for_rules(self.domain, spec.needs)
        )

        async def ask(question: QuestionT, /) -> AnswerT:
            self.asked[spec.name] += votes
            given = await (answer(question) if votes == 1 else elected(question))
            if compared:
                right = spec.right(question)
                self.wrong[spec.name] += right is not None and not same(given, right)
            return given

        async def elected(question: Any) -> AnswerT:  # noqa: ANN401 - a dataclass with `vote`
            ballots = [answer(replace(question, vote=number)) for number in range(votes)]
            answers = await gather(ballots)
            return max(answers, key=lambda candidate: sum(map(partial(same, candidate), answers)))

        return ask

    @cached_property
    def _language(self) -> OptionLanguage[Any]:
        return OptionLanguage(self.domain.grammar)
