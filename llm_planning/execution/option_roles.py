"""The roles of whoever writes a plan in options at once and executes it, and who answers them.

`decompose` is Chain of Thought's. `explain`, `code` and `complete` are asked when an option is
executed (ToO, Section 3.2, Appendix B): π_ω, and β_ω. A model writes a program, rules name verbs:
at first the option itself, then what the domain's `approach` says. By rules, a wrong policy carries
a mistaken option out, and a wrong verdict is the opposite.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic

from pydantic import BaseModel, Field

from llm_planning.domain import A, Errs, S
from llm_planning.execution.option_prompts import (
    INSTRUCTIONS,
    NOW,
    STATE,
    compose,
    fields_of_question,
    short_variables,
    template,
)
from llm_planning.execution.options import (
    Candidate,
    Completion,
    OptionState,
    PolicyQuestion,
    approach,
    is_shown,
)
from llm_planning.roles import Asking, Items, Kinds, RoleSpec, Rule, usage_by_role
from llm_planning.roles.domain_rules import MEMBERS, CheckedRules
from llm_planning.roles.mistakes import Mistakes, names_of
from llm_planning.roles.options import DONE, NOT_DONE, REASON, Reason, reasoned, several_options
from llm_planning.roles.short import short_words
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from random import Random

    import numpy as np
    from numpy.typing import NDArray

    from llm_planning.execution.option_settings import PromptSettings
    from llm_planning.execution.options import OptionDomain
    from llm_planning.roles import Engines, Prompt
    from llm_planning.roles.oracles import Key
    from llm_planning.roles.seeing import See

PROPOSER_TEMPERATURE = 0.2
"""The temperature of who proposes options, one by one or as the whole plan of a Chain of Thought.
Every other role is greedy (ToO, Section 4.1)."""

MOST_PROPOSED = 8
"""The most options of a right proposal. The planner takes the first k."""

LONGEST_EXPLANATION: Final = 200
LONGEST_PROGRAM: Final = 1_200
"""The most characters of a program's explanation and of the program."""

LONGEST_ANSWER: Final = 400
"""The most characters on how an option is done (ours; the paper's example has some 300)."""


class HowAnswer(BaseModel):
    """How an option is done, in words (Appendix B)."""

    answer: Annotated[str, Field(max_length=LONGEST_ANSWER)]


class CodeAnswer(BaseModel):
    """A program that implements π_ω, on one line. The model explains it first (Appendix B)."""

    explain: Annotated[str, Field(max_length=LONGEST_EXPLANATION)]
    code: Annotated[str, Field(max_length=LONGEST_PROGRAM)]


class CompletionAnswer(BaseModel):
    """Whether an option is done (Appendix B). The model writes the reason first."""

    reason: Reason
    done: bool


class PlanRoles(Generic[S, A]):
    """The roles in one domain.

    Args:
        seed: of the proposals, and of the chance in predictions.
    """

    def __init__(self, domain: OptionDomain[S, A], settings: PromptSettings, *, seed: int) -> None:
        self.domain = domain
        self.settings = settings
        self._rules: Any = CheckedRules(domain)
        self._seed = seed

    def by_name(self) -> Mapping[str, RoleSpec[Any, Any]]:
        """Role -> what it is."""
        several = (self.decompose(), self.explain(), self.code(), self.complete())
        return {role.name: role for role in several}

    def decompose(self) -> RoleSpec[OptionState[S, A], Sequence[Candidate[A]]]:
        """Writes a plan of at most d options from s_0. Sees goal and state."""
        return self.spec(
            "decompose",
            OptionState,
            (*STATE, "goal", "options", *INSTRUCTIONS),
            count=self.settings.d,
            short_name="plan",
            writes=partial(self._several, 1, self.settings.d),
            read=self._candidates,
            sampling=self._drawn,
            rule=self._decomposing(),
            options=lambda candidates: [candidate.proposed for candidate in candidates],
        )

    def explain(self) -> RoleSpec[PolicyQuestion[S, A], str]:
        """Says how ω is done (Appendix B). Sees the option alone; no rules know it."""
        return self.spec(
            "explain",
            PolicyQuestion,
            ("option", *INSTRUCTIONS),
            writes=lambda: HowAnswer,
            read=lambda _, answer: str(answer.answer),
        )

    def code(
        self, verbs: Callable[[Any, PolicyQuestion[S, A]], Sequence[A]] = approach
    ) -> RoleSpec[PolicyQuestion[S, A], Sequence[A] | str]:
        """Writes π_ω, LLM_in-option. A model writes a program, rules name verbs.

        Args:
            verbs: maps a domain and a question to the verbs that are right.
        """

        def situation(question: PolicyQuestion[S, A]) -> tuple[Key, ...]:
            # Feedback makes each refinement another program, which has an error of its own.
            subject, *others = self.situation_of_option(question)
            return ((subject, question.m), *others)

        def wrong(question: PolicyQuestion[S, A], rng: Random) -> Sequence[A]:
            mistake = self.mistaken(question.tau.state, question.option, rng)
            return () if mistake is None else (mistake,)

        return self.spec(
            "code",
            PolicyQuestion,
            (*STATE, "option", "attempt", "skills", *INSTRUCTIONS),
            writes=lambda: CodeAnswer,
            read=lambda _, answer: str(answer.code),
            rule=Rule(
                right=lambda question: verbs(self.domain, question),
                wrong=wrong,
                situation=situation,
            ),
        )

    def complete(self) -> RoleSpec[PolicyQuestion[S, A], Completion]:
        """Judges whether ω is done, LLM_β, with its reason if it is not."""

        def is_done(question: PolicyQuestion[S, A]) -> bool:
            return is_shown(self.domain, question)

        return self.spec(
            "complete",
            PolicyQuestion,
            (*STATE, "option", "attempt", *INSTRUCTIONS),
            writes=lambda: reasoned(CompletionAnswer, self.settings.reason),
            read=lambda _, answer: Completion(answer.done, "" if answer.done else answer.reason),
            rule=Rule(
                right=lambda question: Completion(is_done(question)),
                wrong=lambda question, _: Completion(not is_done(question)),
                situation=lambda question: (
                    *self.situation_of_option(question),
                    question.m,
                ),
                kinds=Kinds(
                    names=(DONE, NOT_DONE),
                    of=lambda question: DONE if is_done(question) else NOT_DONE,
                ),
            ),
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
        short_name: str = "",
        **parts: Any,  # noqa: ANN401 - of the spec
    ) -> RoleSpec[Any, Any]:
        """A role with its words, and its short ones if there are any.

        Args:
            blocks: see `prompts.compose`; so are the others.
            moment: of the state.
            count: of the options to ask for.
            see: what is shown of the state.
            short_name: the role's name in short words; empty if it has none.
        """
        domain, layout = self.domain, self.settings.layout
        plain = layout == "cached" and see == "words" and self.settings.reason == REASON

        def prompt() -> Prompt:
            text = self.template(name)
            return compose(name, text, blocks, domain, layout, moment=moment, count=count, see=see)

        return RoleSpec(
            name=name,
            asks=asks,
            prompt=prompt,
            values_of=fields_of_question,
            needs=MEMBERS,
            short=short_words(short_name, domain, values_of=partial(short_variables, domain))
            if short_name and plain
            else None,
            **parts,
        )

    def template(self, name: str) -> str:
        """The source of the template of a role."""
        return template(name)

    def _several(self, least: int, most: int) -> type[BaseModel]:
        return several_options(self.domain.grammar, least, most, reason=self.settings.reason)

    def _candidates(self, _: OptionState[S, A], answer: Any) -> Sequence[Candidate[A]]:  # noqa: ANN401
        written = [option.model_dump() for option in answer.options]
        chosen = [(self.domain.grammar.read(fields), fields["reasoning"]) for fields in written]
        return [Candidate(option, option, reasoning) for option, reasoning in chosen]

    def _drawn(self, _: object) -> Sampling:
        return Sampling(temperature=PROPOSER_TEMPERATURE, seed=self._seed)

    # WHAT THE RULES SAY

    def situation(self, question: OptionState[S, A]) -> tuple[str, ...]:
        """The situation of a question about τ. Its subject is the present state."""
        here = "\n".join((question.described, *map(str, question.since)))
        return (here, question.history)

    def situation_of_option(self, question: Any) -> tuple[str, ...]:  # noqa: ANN401
        """The situation of a question about an option. Its subject is the option's, as an item."""
        option = question.option
        return (self._subject(option), str(option), *self.situation(question.tau))

    def mistaken(self, state: S, option: A, rng: Random) -> A | None:
        """What someone may write by mistake in the place of an option; None if nothing is known."""
        if isinstance(self.domain, Errs):
            mistakes: Mapping[str, Sequence[A]] = self.domain.mistakes(option)
            return rng.choice(rng.choice([others for others in mistakes.values() if others]))
        others = [action for action in self._rules.actions(state) if action != option]
        return rng.choice(others) if others else None

    def _decomposing(
        self, kinds: Sequence[str] = ()
    ) -> Rule[OptionState[S, A], Sequence[Candidate[A]]]:
        """The rule of `decompose`. An option errs on its own by a mistake of one of these kinds."""

        def right(question: OptionState[S, A]) -> list[Candidate[A]]:
            return [
                Candidate(option, option, "needed") for option in self._rules.advise(question.state)
            ]

        def spoil(
            _: object, plan: Sequence[Candidate[A]], name: Key, rng: Random
        ) -> list[Candidate[A]]:
            mistakes: Mistakes[A] = Mistakes(self.domain, kinds)
            spoilt = mistakes.in_plan([candidate.proposed for candidate in plan], name, rng)
            return [Candidate(option, option, "needed") for option in spoilt]

        return Rule(
            right=right,
            wrong=self._useless,
            situation=self.situation,
            items=Items(
                names=lambda question: names_of(
                    [candidate.proposed for candidate in right(question)]
                ),
                spoil=spoil,
            ),
            only=self._decomposing,
        )

    def _useless(self, question: OptionState[S, A], rng: Random) -> list[Candidate[A]]:
        """Options that the rules do not advise, in random order."""
        advised = list(self._rules.advise(question.state))
        pool = [action for action in self._rules.actions(question.state) if action not in advised]
        chosen = rng.sample(pool, min(MOST_PROPOSED, len(pool)))
        return [Candidate(option, option, "a guess") for option in chosen]

    def _subject(self, option: A) -> str:
        return self.domain.subject(option)


class PlanAsking(Asking, Generic[S, A]):
    """Who answers the roles in one run; see `Asking`."""

    settings: PromptSettings

    def __init__(
        self,
        domain: OptionDomain[S, A],
        engines: Engines,
        settings: PromptSettings,
        *,
        seed: int,
    ) -> None:
        super().__init__(domain, engines, settings, seed=seed)
        self.roles: PlanRoles[S, A] = PlanRoles(domain, settings, seed=seed)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeds the descriptions of skills, shape [texts, D]."""
        return await self.engines.default.embed(texts, role="skills")

    def tokens(self, roles: Container[str]) -> tuple[int, int]:
        """The calls of models for these roles so far, and their tokens, read and written."""
        spent = [usage for role, usage in usage_by_role(self.engines).items() if role in roles]
        return (
            sum(usage.calls for usage in spent),
            sum(usage.prompt_tokens + usage.completion_tokens for usage in spent),
        )
