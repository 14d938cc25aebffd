"""In-option policies π_ω: where they come from, how they are run, and who says that ω is done.

A policy is a sequence of the world's verbs, or a program (`program_policies.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import A, S
from llm_planning.execution.options import Completion, Feedback, alone, approach, is_shown

if TYPE_CHECKING:
    from llm_planning.execution.episode import Episode
    from llm_planning.execution.option_roles import PlanAsking
    from llm_planning.execution.option_settings import ExecutionSettings
    from llm_planning.execution.options import Policies, Policy, PolicyQuestion


class Verbs(Generic[S, A]):
    """Policies of the world's own verbs. Nobody is asked, unless rules that err answer.

    Attributes:
        verbs: maps a domain and a question to the verbs of an attempt.
    """

    name = "direct"
    verbs = staticmethod(approach)

    def __init__(self, ask: PlanAsking[S, A]) -> None:
        self._domain = ask.domain
        code, complete = ask.roles.code(self.verbs), ask.roles.complete()
        self._code = ask.of(code) if ask.errors_of(code.name) is not None else None
        self._complete = ask.of(complete) if ask.errors_of(complete.name) is not None else None

    async def write(self, question: PolicyQuestion[S, A]) -> Policy[A]:
        """The option; after a failure also what `verbs` says that leads to it."""
        if self._code is not None:
            return await self._code(question)
        return self.verbs(self._domain, question)

    async def run(self, policy: Policy[A], episode: Episode[S, A]) -> Feedback[S, A]:
        """Carries verbs out; the first that is refused ends the attempt."""
        if isinstance(policy, str):
            raise TypeError("a program is not carried out as verbs: set execution=programs")
        first, obstacles = len(episode.moves), []
        for action in policy:
            if episode.over:
                break
            before = episode.state
            step = await episode.act(action)
            if step.obstacle is not None:
                obstacles.append(f"{action}: {step.obstacle}")
                if step.state == before:
                    break
        return Feedback("; ".join(obstacles) or "done", tuple(episode.moves[first:]))

    async def judged(self, question: PolicyQuestion[S, A]) -> Completion:
        """Whether the world shows the option's effect."""
        if self._complete is not None:
            return await self._complete(question)
        return Completion(is_shown(self._domain, question))

    async def note(self, question: PolicyQuestion[S, A], *, shown: bool) -> None:
        """Verbs are no skills."""


class Alone(Verbs[S, A]):
    """Policies that are the option and no more, so that a plan reaches only what it plans."""

    name = "alone"
    verbs = staticmethod(alone)


async def policies_of(
    domain: Any,  # noqa: ANN401
    ask: PlanAsking[Any, Any],
    settings: ExecutionSettings,
) -> Policies[Any, Any]:
    """The policies that the settings ask for; verbs, where programs cannot run.

    Raises:
        SettingsError: the domain has no control primitives, or the library cannot be opened.
    """
    if settings.execution == "direct":
        return Verbs(ask)
    if settings.execution == "alone":
        return Alone(ask)
    # Verbs need no programs, and these take time to import.
    from llm_planning.execution.program_policies import program_policies_of

    return await program_policies_of(domain, ask, settings)
