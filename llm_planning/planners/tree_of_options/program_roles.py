"""The roles that are asked when a plan is executed: π_ω and β_ω (Section 3.2, Appendix B).

A model writes a program, rules name verbs: at first the option itself, then what the domain's
`approach` says. A wrong policy carries a mistaken option out; a wrong verdict is the opposite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Generic

from pydantic import BaseModel, Field

from llm_planning.domain import A, S
from llm_planning.planners.tree_of_options.answers import Reason, reasoned
from llm_planning.planners.tree_of_options.prompts import INSTRUCTIONS, STATE
from llm_planning.planners.tree_of_options.roles import DONE, NOT_DONE
from llm_planning.planners.tree_of_options.states import Completion, PolicyQuestion
from llm_planning.roles import Kinds, RoleSpec, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from llm_planning.planners.tree_of_options.roles import OptionRoles
    from llm_planning.roles.oracles import Key

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


class ProgramRoles(Generic[S, A]):
    """The roles in one domain.

    Args:
        options: the roles of planning there.
    """

    def __init__(self, options: OptionRoles[S, A]) -> None:
        self._options = options
        self._domain: Any = options.domain

    def by_name(self) -> Mapping[str, RoleSpec[Any, Any]]:
        """Role -> what it is."""
        return {one.name: one for one in (self.explain(), self.code(), self.complete())}

    def explain(self) -> RoleSpec[PolicyQuestion[S, A], str]:
        """Says how ω is done (Appendix B). Sees the option alone; no rules know it."""
        return self._options.spec(
            "explain",
            PolicyQuestion,
            ("option", *INSTRUCTIONS),
            writes=lambda: HowAnswer,
            read=lambda _, said: str(said.answer),
        )

    def code(self) -> RoleSpec[PolicyQuestion[S, A], Sequence[A] | str]:
        """Writes π_ω, LLM_in-option. A model writes a program, rules name verbs."""

        def situation(question: PolicyQuestion[S, A]) -> tuple[Key, ...]:
            # Feedback makes each refinement another program, which has an error of its own.
            subject, *others = self._options.situation_of_option(question)
            return ((subject, question.m), *others)

        def wrong(question: PolicyQuestion[S, A], rng: Random) -> Sequence[A]:
            found = self._options.mistaken(question.tau.state, question.option, rng)
            return () if found is None else (found,)

        return self._options.spec(
            "code",
            PolicyQuestion,
            (*STATE, "option", "attempt", "skills", *INSTRUCTIONS),
            writes=lambda: CodeAnswer,
            read=lambda _, said: str(said.code),
            rule=Rule(
                right=lambda question: approach(self._domain, question),
                wrong=wrong,
                situation=situation,
            ),
        )

    def complete(self) -> RoleSpec[PolicyQuestion[S, A], Completion]:
        """Judges whether ω is done, LLM_β, with its reason if it is not."""

        def shown(question: PolicyQuestion[S, A]) -> bool:
            return is_shown(self._domain, question)

        return self._options.spec(
            "complete",
            PolicyQuestion,
            (*STATE, "option", "attempt", *INSTRUCTIONS),
            writes=lambda: reasoned(CompletionAnswer, self._options.settings.reason),
            read=lambda _, said: Completion(said.done, "" if said.done else said.reason),
            rule=Rule(
                right=lambda question: Completion(shown(question)),
                wrong=lambda question, _: Completion(not shown(question)),
                situation=lambda question: (
                    *self._options.situation_of_option(question),
                    question.m,
                ),
                kinds=Kinds(
                    names=(DONE, NOT_DONE),
                    of=lambda question: DONE if shown(question) else NOT_DONE,
                ),
            ),
        )


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
