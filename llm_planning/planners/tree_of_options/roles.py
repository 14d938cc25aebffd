"""ToO's roles: what each is asked, how its answer is read, and who answers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from llm_planning.domain import A, S
from llm_planning.planners.tree_of_options.answers import (
    FeasibilityAnswer,
    OptionsAnswer,
    RewardAnswer,
    TerminationAnswer,
    one_option,
    several_options,
)
from llm_planning.planners.tree_of_options.prompts import (
    NOW,
    PROPOSED,
    START,
    TAUGHT_ORDER,
    compose,
    compose_taught,
    taught_words,
    told,
    told_to_taught,
)
from llm_planning.planners.tree_of_options.rules import rules_of
from llm_planning.planners.tree_of_options.states import (
    Candidate,
    Feasibility,
    OptionQuestion,
    PredictedState,
)
from llm_planning.roles import LlmRole, Oracle, missing_for_rules
from llm_planning.settings import SettingsError
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pydantic import BaseModel

    from llm_planning.planners.tree_of_options.settings import PromptSettings
    from llm_planning.planners.tree_of_options.states import OptionDomain, OptionState
    from llm_planning.roles import Engines, Role

logger = logging.getLogger(__name__)

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

PROPOSER_TEMPERATURE = 0.2
"""The temperature of the option proposer. Every other role is greedy (Section 4.1)."""

_GREEDY = Sampling(temperature=0.0)


class OptionRoles(Generic[S, A]):
    """Makes the roles of one run.

    Every node is expanded once and siblings differ in their option, so no prompt is asked twice.
    With one seed, each proposal then depends on its node's path alone.

    Args:
        domain: the domain to plan in.
        engines: the models that answer.
        settings: who answers each role, and the layout.
        seed: of the run.

    Attributes:
        domain: as given.
        settings: as given.
        seed: as given.
        oracles: the oracles that answer roles, JSON-able.

    Raises:
        SettingsError: `roles` has an unknown role, or asks for rules that the domain lacks.
    """

    def __init__(
        self,
        domain: OptionDomain[S, A],
        engines: Engines,
        settings: PromptSettings,
        *,
        seed: int,
    ) -> None:
        self.domain = domain
        self._engines = engines
        self.settings = settings
        self.seed = seed
        self._drawn = Sampling(temperature=PROPOSER_TEMPERATURE, seed=seed)
        self._rules = rules_of(domain, seed=seed)
        self.oracles: list[dict[str, object]] = []
        _warn_of_other_words(engines, domain)

    def propose(self, k: int, moment: str) -> Role[OptionState[S, A], Sequence[Candidate[A]]]:
        """The role that proposes k candidates ω̃ after τ (eq. 2). Sees goal, state and history."""
        # A taught model learned to name so many; the first are the best.
        asked = max(k, PROPOSED) if self._is_taught("propose", moment) else k
        return self._options("propose", moment, least=asked, most=asked, kept=k)

    def decompose(self) -> Role[OptionState[S, A], Sequence[Candidate[A]]]:
        """The role that writes a plan of at most d options from s_0. Sees goal and state."""
        return self._options("decompose", NOW, least=1, most=self.settings.d, kept=self.settings.d)

    def feasibility(self, moment: str) -> Role[OptionQuestion[S, A], Feasibility]:
        """The role that judges whether ω̃ is feasible. Sees goal, state, history and option."""

        def read(_: OptionQuestion[S, A], said: FeasibilityAnswer) -> Feasibility:
            return Feasibility(None if said.action_valid else said.reason)

        return self._role("feasibility", moment, FeasibilityAnswer, read)

    def repair(self, moment: str) -> Role[OptionQuestion[S, A], A]:
        """The role that names a prerequisite of an infeasible ω̃ (eq. 3). Sees τ, ω̃ and reason."""
        grammar = self.domain.grammar

        def read(_: OptionQuestion[S, A], said: BaseModel) -> A:
            return grammar.read(said.model_dump())

        return self._role("repair", moment, one_option(grammar), read)

    def dynamics(self) -> Role[OptionQuestion[S, A], PredictedState[S]]:
        """The role that predicts the state after ω (eq. 1). Sees state and option."""
        model = self.domain.state_model

        def read(asked: OptionQuestion[S, A], said: BaseModel) -> PredictedState[S]:
            return PredictedState(*model.read(asked.tau.state, said))

        return self._role("dynamics", NOW, model.answer, read)

    def reward(self, moment: str) -> Role[OptionQuestion[S, A], Mapping[str, float]]:
        """The role that scores ω (eq. 6). Sees goal, state after ω, history and option."""

        def read(_: OptionQuestion[S, A], said: RewardAnswer) -> Mapping[str, float]:
            return said.model_dump()

        return self._role("reward", moment, RewardAnswer, read)

    def termination(self, moment: str) -> Role[OptionState[S, A], bool]:
        """The role that judges whether ŝ is terminal (eq. 4). Sees goal and state.

        Args:
            moment: `NOW`, or `START` without a world model; the role then sees the history as well.
        """

        def read(_: OptionState[S, A], said: TerminationAnswer) -> bool:
            return said.done

        name = "termination" if moment == NOW else "termination-from-start"
        return self._role(name, moment, TerminationAnswer, read)

    def _options(
        self, name: str, moment: str, *, least: int, most: int, kept: int
    ) -> Role[OptionState[S, A], Sequence[Candidate[A]]]:
        grammar = self.domain.grammar

        def read(_: OptionState[S, A], said: OptionsAnswer) -> Sequence[Candidate[A]]:
            written = [one.model_dump() for one in said.options]
            chosen = [(grammar.read(one), one["reasoning"]) for one in written]
            return [Candidate(option, option, reasoning) for option, reasoning in chosen]

        model = several_options(grammar, least, most)
        role = self._role(name, moment, model, read, count=most, sampling=self._drawn)

        async def ask(question: OptionState[S, A], /) -> Sequence[Candidate[A]]:
            # Rules may propose more than `most`.
            return (await role(question))[:kept]

        return ask

    def _role(
        self,
        name: str,
        moment: str,
        answer: type[Any],
        read: Callable[[QuestionT, Any], AnswerT],
        *,
        count: int = 1,
        sampling: Sampling = _GREEDY,
    ) -> Role[QuestionT, AnswerT]:
        """Makes a role with the answerer that the setting `roles` says."""
        role = name.partition("-")[0]
        errors = self.settings.errors_of(role, opened=self._engines.by_role)
        if errors is not None:
            if role not in self._rules:
                raise SettingsError(
                    f"roles={self.settings.roles}: this domain has no rules that answer {role!r}: "
                    f"add {', '.join(missing_for_rules(self.domain))} as plain methods, or let a "
                    "model answer it"
                )
            oracle: Oracle[QuestionT, AnswerT] = Oracle(
                role, self._rules[role], errors=errors, seed=self.seed
            )
            self.oracles.append(oracle.describe())
            return oracle
        tell: Callable[[Any], Mapping[str, object]]
        if self._is_taught(name, moment):
            prompt, tell = compose_taught(name, self.domain, count=count), told_to_taught
        else:
            layout = self.settings.layout
            prompt = compose(name, self.domain, layout, moment=moment, count=count)
            tell = told
        asked: LlmRole[QuestionT, Any] = LlmRole(
            role,
            prompt=prompt,
            answer=answer,
            engine=self._engines.of(role),
            sampling=sampling,
            tell=tell,
        )
        return asked.read(read)

    def _is_taught(self, name: str, moment: str) -> bool:
        """Whether the model of a role was taught this question in today's words."""
        taught = self._engines.of(name).identity.taught
        return (
            taught is not None
            and name in taught.roles
            and name in TAUGHT_ORDER
            and moment != START
            and self.settings.layout == "cached"
            and taught.words_sha256 == taught_words(self.domain)
        )


def _warn_of_other_words(engines: Engines, domain: OptionDomain[Any, Any]) -> None:
    """Says which models are asked as any other although a simulator taught them."""
    for engine in engines.different:
        taught = engine.identity.taught
        if taught is not None and taught.words_sha256 != taught_words(domain):
            logger.warning(
                "%s was taught in other words, so it is asked as any model: teach it again",
                engine.identity.name,
            )
