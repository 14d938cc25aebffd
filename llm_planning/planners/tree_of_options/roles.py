"""ToO's roles: what each is asked, how its answer is read, and who answers."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from llm_planning.domain import A, S
from llm_planning.planners.tree_of_options.answers import (
    REASON,
    CodeAnswer,
    CompletionAnswer,
    FeasibilityAnswer,
    HowAnswer,
    OptionsAnswer,
    RewardAnswer,
    TerminationAnswer,
    one_option,
    reasoned,
    several_options,
)
from llm_planning.planners.tree_of_options.imagining import imagining
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
from llm_planning.planners.tree_of_options.settings import (
    OptionSearchSettings,
    UnpredictedSettings,
)
from llm_planning.planners.tree_of_options.states import (
    Candidate,
    Completion,
    Feasibility,
    OptionQuestion,
    PolicyQuestion,
    PredictedState,
)
from llm_planning.roles import (
    LlmRole,
    OptionLanguage,
    Oracle,
    missing_for_rules,
    usage_by_role,
)
from llm_planning.roles.seeing import looking
from llm_planning.settings import SettingsError
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from pydantic import BaseModel

    from llm_planning.planners.tree_of_options.settings import PromptSettings
    from llm_planning.planners.tree_of_options.states import OptionDomain, OptionState
    from llm_planning.roles import Engines, Errors, Role
    from llm_planning.roles.seeing import See
    from llm_serving.request import Image

logger = logging.getLogger(__name__)

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

PROPOSER_TEMPERATURE = 0.2
"""The temperature of the option proposer. Every other role is greedy (Section 4.1)."""

NAMED_OPTIONS: Mapping[str, Callable[[Any], Sequence[Any]]] = {
    "propose": lambda candidates: [one.proposed for one in candidates],
    "decompose": lambda candidates: [one.proposed for one in candidates],
    "repair": lambda option: (option,),
}
"""Role whose answers are options -> the options of an answer."""

_GREEDY = Sampling(temperature=0.0)


class OptionRoles(Generic[S, A]):
    """Makes the roles of one run.

    Every node is expanded once and siblings differ in their option, so a search asks no prompt
    twice. With one seed, each proposal then depends on its node's path alone.

    Args:
        domain: the domain to plan in.
        engines: the models that answer.
        settings: who answers each role, and the layout.
        seed: of the run.

    Attributes:
        domain: as given.
        settings: as given.
        seed: as given.
        asked: role -> how often it was asked, whoever answers.

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
        self._see: See = settings.see if isinstance(settings, OptionSearchSettings) else "words"
        self._drawn = Sampling(temperature=PROPOSER_TEMPERATURE, seed=seed)
        self._rules = rules_of(domain, seed=seed)
        self.asked: Counter[str] = Counter()
        self._oracles: dict[str, Oracle[Any, Any]] = {}
        _warn_of_other_words(engines, domain)

    @property
    def oracles(self) -> list[dict[str, object]]:
        """The oracles that answer roles, JSON-able."""
        return [one.describe() for one in self._oracles.values()]

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

        answer = reasoned(FeasibilityAnswer, self.settings.reason)
        return self._role("feasibility", moment, answer, read)

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

    def explain(self) -> Role[PolicyQuestion[S, A], str]:
        """The role that says how ω is done (Appendix B). Sees the option alone."""

        def read(_: PolicyQuestion[S, A], said: HowAnswer) -> str:
            return said.answer

        return self._role("explain", NOW, HowAnswer, read)

    def code(self) -> Role[PolicyQuestion[S, A], Sequence[A] | str]:
        """The role that writes π_ω, LLM_in-option. A model writes a program, rules name verbs."""

        def read(_: PolicyQuestion[S, A], said: CodeAnswer) -> str:
            return said.code

        return self._role("code", NOW, CodeAnswer, read)

    def complete(self) -> Role[PolicyQuestion[S, A], Completion]:
        """The role that judges whether ω is done, LLM_β, with its reason if it is not."""

        def read(_: PolicyQuestion[S, A], said: CompletionAnswer) -> Completion:
            return Completion(said.done, "" if said.done else said.reason)

        answer = reasoned(CompletionAnswer, self.settings.reason)
        return self._role("complete", NOW, answer, read)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeds the descriptions of skills, shape [texts, D]."""
        return await self._engines.default.embed(texts, role="skills")

    def errors_of(self, role: str) -> Errors | None:
        """How the domain's rules err in a role; None if a model answers it."""
        return self.settings.errors_of(role, opened=self._engines.by_role)

    def by_rules(self, role: str) -> bool:
        """Whether the domain's rules answer a role."""
        return self.errors_of(role) is not None

    def tokens(self, roles: Container[str]) -> tuple[int, int]:
        """The calls of models for these roles so far, and their tokens, read and written."""
        spent = [one for role, one in usage_by_role(self._engines).items() if role in roles]
        return (
            sum(one.calls for one in spent),
            sum(one.prompt_tokens + one.completion_tokens for one in spent),
        )

    def _options(
        self, name: str, moment: str, *, least: int, most: int, kept: int
    ) -> Role[OptionState[S, A], Sequence[Candidate[A]]]:
        grammar = self.domain.grammar

        def read(_: OptionState[S, A], said: OptionsAnswer) -> Sequence[Candidate[A]]:
            written = [one.model_dump() for one in said.options]
            chosen = [(grammar.read(one), one["reasoning"]) for one in written]
            return [Candidate(option, option, reasoning) for option, reasoning in chosen]

        model = several_options(grammar, least, most, reason=self.settings.reason)
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
        errors = self.errors_of(role)
        if errors is not None:
            if role not in self._rules:
                missing = ", ".join(missing_for_rules(self.domain))
                raise SettingsError(
                    f"roles={self.settings.roles}: this domain has no rules that answer {role!r}: "
                    + (f"add {missing} as plain methods, or " if missing else "")
                    + "let a model answer it"
                )
            return self._counted(role, self._seeing(role, self._in_words(role, errors)))
        tell: Callable[[Any], Mapping[str, object]]
        see, show = self._shown_to(name)
        if see == "words" and self._is_taught(name, moment):
            prompt, tell = compose_taught(name, self.domain, count=count), told_to_taught
        else:
            layout = self.settings.layout
            prompt = compose(name, self.domain, layout, moment=moment, count=count, see=see)
            tell = told
        asked: LlmRole[QuestionT, Any] = LlmRole(
            role,
            prompt=prompt,
            answer=answer,
            engine=self._engines.of(role),
            sampling=sampling,
            tell=tell,
            show=show,
        )
        return self._counted(role, asked.read(read))

    def _seeing(self, role: str, ask: Role[Any, Any]) -> Role[Any, Any]:
        """A role that rules answer, which knows of a state what `rules_see` says.

        Raises:
            SettingsError: the state is to be imagined by rules, but a model answers `dynamics`.
        """
        settings = self.settings
        if not isinstance(settings, UnpredictedSettings) or settings.rules_see == "initial":
            return ask
        errors = self.errors_of("dynamics")
        if errors is None:
            raise SettingsError(
                f"roles={settings.roles}: rules answer {role!r}, but none of `dynamics` imagine "
                "the state for them: say how often it is right, or set rules_see=initial"
            )
        return imagining(ask, self._in_words("dynamics", errors), self.domain)

    def _in_words(self, role: str, errors: Errors) -> Role[Any, Any]:
        """A role that rules answer, and that names options as a model can."""
        # An oracle counts its askings, so that all searches of a run share it.
        if role not in self._oracles:
            self._oracles[role] = Oracle(role, self._rules[role], errors=errors, seed=self.seed)
        oracle = self._oracles[role]
        if role not in NAMED_OPTIONS:
            return oracle
        language: OptionLanguage[A] = OptionLanguage(self.domain.grammar)

        async def ask(question: Any, /) -> Any:  # noqa: ANN401
            said = await oracle(question)
            language.check(NAMED_OPTIONS[role](said))
            return said

        return ask

    def _shown_to(self, name: str) -> tuple[See, Callable[[Any], tuple[Image, ...]]]:
        """What a role is shown of τ_t's state, and its pictures: only the world model looks."""
        if name != "dynamics":
            return "words", lambda _: ()
        look = looking(self.domain, self._see)
        return self._see, lambda question: look(question.tau.state)

    def _counted(self, role: str, ask: Role[QuestionT, AnswerT]) -> Role[QuestionT, AnswerT]:
        async def counted(question: QuestionT, /) -> AnswerT:
            self.asked[role] += 1
            return await ask(question)

        return counted

    def _is_taught(self, name: str, moment: str) -> bool:
        """Whether the model of a role was taught this question in today's words."""
        taught = self._engines.of(name).identity.taught
        return (
            taught is not None
            and name in taught.roles
            and name in TAUGHT_ORDER
            and moment != START
            and self.settings.layout == "cached"
            and self.settings.reason == REASON
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
