"""A domain's rules as answers about actions, for oracles: π, and ReAct's thought.

The right actions are those of `roles.domain_rules.adviser`. A right π is the `spread` of these, a
wrong π that of one action that is not right. Where no action is right, π is uniform. A right
thought names a right action, a wrong one another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from llm_planning.domain import DomainError
from llm_planning.planners.any_domain.roles import THOUGHT
from llm_planning.priors import ABSENT, ROLE, SAMPLES, Prior, make_prior
from llm_planning.roles import Oracle, Rule
from llm_planning.roles.domain_rules import spread
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from random import Random

    from llm_planning.planners.any_domain.roles import Situation
    from llm_planning.priors import PriorSettings, Wording
    from llm_planning.roles import Engines, RoleSettings
    from llm_planning.roles.domain_rules import Advise
    from llm_planning.roles.oracles import Key

Q = TypeVar("Q")
QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice among actions.

    Attributes:
        state: the state, which no prompt shows.
        actions: its actions as they are written, at least one.
        situation: all that an answer depends on, what is seen first.
    """

    state: Any
    actions: tuple[str, ...]
    situation: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class KnownChoice:
    """A choice of which the rules know the right actions.

    Attributes:
        actions: as they are written, at least one.
        situation: all that an answer depends on, what is seen first.
        right: the actions that lead to the goal.
    """

    actions: tuple[str, ...]
    situation: tuple[Key, ...]
    right: tuple[str, ...]

    def wrong(self, rng: Random) -> str | None:
        """An action that is not right; None if there is none."""
        others = [action for action in self.actions if action not in self.right]
        return rng.choice(others) if others else None


class RuleAnswers:
    """The roles of one run that a domain's rules answer.

    Args:
        settings: say who answers.
        engines: the models of the other roles.
        advise: makes the function that knows the right actions; it takes a `seed`.
        seed: of all draws: the errors, what the rules expect of chance, and those of a model.

    Attributes:
        oracles: descriptions of the roles that rules answer, for the record of a run.
    """

    def __init__(
        self,
        settings: RoleSettings,
        engines: Engines,
        *,
        advise: Callable[..., Advise],
        seed: int,
    ) -> None:
        self._settings = settings
        self._engines = engines
        self._make = advise
        self._seed = seed
        self.oracles: list[dict[str, object]] = []

    @cached_property
    def advise(self) -> Advise:
        """Maps a state and its actions to those that lead to the goal.

        Raises:
            DomainError: the domain has no rules for that.
        """
        return self._make(seed=self._seed)

    def oracle(
        self, role: str, rule: Rule[QuestionT, AnswerT]
    ) -> Oracle[QuestionT, AnswerT] | None:
        """The oracle of a role; None if a model answers it.

        Raises:
            SettingsError: the domain has no rules that answer, or a model is not open.
        """
        errors = self._settings.errors_of(role, opened=self._engines.by_role)
        if errors is None:
            return None
        try:
            _ = self.advise
        except DomainError as error:
            raise SettingsError(
                f"roles={self._settings.roles}: this domain has no rules that answer {role!r}: "
                f"{error}, or let a model answer it"
            ) from error
        oracle = Oracle(role, rule, errors=errors, seed=self._seed)
        self.oracles.append(oracle.describe())
        return oracle

    def about_choices(
        self, role: str, rule: Rule[KnownChoice, AnswerT], tell: Callable[[Q], Choice]
    ) -> Callable[[Q], Awaitable[AnswerT]] | None:
        """A role about choices among actions; None if a model answers it.

        Args:
            role: its name.
            rule: its answers.
            tell: maps a question to the choice that it is about.

        Raises:
            SettingsError: see `oracle`.
        """
        oracle = self.oracle(role, rule)
        if oracle is None:
            return None

        async def ask(question: Q) -> AnswerT:
            choice = tell(question)
            right = await self.advise(choice.state, choice.actions)
            return await oracle(KnownChoice(choice.actions, choice.situation, right))

        return ask

    def prior(
        self,
        tell: Callable[[Q], Choice],
        *,
        settings: PriorSettings,
        wording: Wording[Q],
        samples: int = SAMPLES,
        absent: float = ABSENT,
    ) -> Prior[Q]:
        """π that a planner's settings ask for, by rules or by a model.

        Rules do not follow the way of asking, but `uniform` asks nobody. By default their softmax
        has temperature 1, which keeps the stated shares. States that look the same may differ in
        what is right, so a π of rules is kept for a question together with that.

        Args:
            tell: maps a question to the choice that it is about.
            settings: of the prior.
            wording: of the questions.
            samples: draws of `sample`.
            absent: log-probability of an action that an answer does not contain, in nats.

        Raises:
            SettingsError: see `oracle`.
        """
        asked = None if settings.prior == "uniform" else self.about_choices(ROLE, POLICY, tell)
        if asked is None:
            return make_prior(
                settings.prior,
                self._engines.of(ROLE),
                wording=wording,
                temperature=settings.prior_temperature,
                mixture=settings.prior_mixture,
                seed=self._seed,
                samples=samples,
                absent=absent,
            )

        async def right(question: Q) -> tuple[str, ...]:
            choice = tell(question)
            return await self.advise(choice.state, choice.actions)

        return Prior(
            asked,
            wording=wording,
            temperature=settings.prior_temperature or 1.0,
            mixture=settings.prior_mixture,
            beside=right,
        )


def choice_of(question: Situation) -> Choice:
    """The choice that a question of any domain's planners is about."""
    past = tuple(map(str, question.past))
    situation = (question.now, past, question.actions, question.thought)
    return Choice(question.state, question.actions, situation)


def _right_policy(choice: KnownChoice) -> Sequence[float]:
    return spread(choice.actions, choice.right)


def _wrong_policy(choice: KnownChoice, rng: Random) -> Sequence[float] | None:
    # Where no action is right, the uniform π is the only one that is not wrong.
    action = choice.wrong(rng) if choice.right else None
    return None if action is None else spread(choice.actions, {action})


POLICY: Rule[KnownChoice, Sequence[float]] = Rule(
    right=_right_policy, wrong=_wrong_policy, situation=lambda choice: choice.situation
)
"""log π over the actions, in nats, shape [actions]."""


def _thought(action: str | None) -> str:
    sentence = f"I know by the rules that this leads to the goal now: {action}."
    if action is None or not re.fullmatch(THOUGHT.regex, sentence):
        return "I know no rule that says what leads to the goal from here."
    return sentence


def _wrong_thought(choice: KnownChoice, rng: Random) -> str | None:
    action = choice.wrong(rng)
    return None if action is None else _thought(action)


INSIGHT: Rule[KnownChoice, str] = Rule(
    right=lambda choice: _thought(choice.right[0] if choice.right else None),
    wrong=_wrong_thought,
    situation=lambda choice: choice.situation,
)
"""A thought before an action, in the language `THOUGHT`."""
