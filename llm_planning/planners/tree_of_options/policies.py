"""In-option policies π_ω: where they come from, how they are run, and who says that ω is done.

A policy is a sequence of the world's verbs, or a program, which runs in a sealed process.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence  # noqa: TC003 (type aliases are evaluated)
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias

from llm_planning.domain import A, S
from llm_planning.planners.tree_of_options.rules import approach, is_shown

if TYPE_CHECKING:
    from llm_planning.execution.episode import Episode, Move
    from llm_planning.planners.tree_of_options.roles import OptionRoles
    from llm_planning.planners.tree_of_options.settings import ExecutionSettings
    from llm_planning.planners.tree_of_options.states import PolicyQuestion

logger = logging.getLogger(__name__)

Policy: TypeAlias = "Sequence[A] | str"
"""π_ω: verbs of the world, in order, or a program."""


@dataclass(frozen=True, slots=True)
class Feedback(Generic[S, A]):
    """feedback^(m): what came of one execution of a policy.

    Attributes:
        said: for the next question; "done" if nothing went wrong.
        moves: what was done in the world, in order.
        program: that was run; None for verbs.
    """

    said: str
    moves: tuple[Move[S, A], ...]
    program: str | None = None


class Policies(Protocol[S, A]):
    """Where in-option policies come from, and how they are run.

    Attributes:
        name: the value of the setting `execution` that makes them.
    """

    name: str

    async def write(self, question: PolicyQuestion[S, A]) -> Policy[A]:
        """Makes π_ω."""
        ...

    async def run(self, policy: Policy[A], episode: Episode[S, A]) -> Feedback[S, A]:
        """EXECUTE (line 6)."""
        ...

    async def is_done(self, question: PolicyQuestion[S, A]) -> bool:
        """β_ω (line 7)."""
        ...

    async def add_skill(self, option: A, program: str) -> None:
        """ADDSKILL (line 9), when the world shows the option's effect."""
        ...


class Verbs(Generic[S, A]):
    """Policies of the world's own verbs. Nobody is asked, unless rules that err answer.

    Args:
        ask: makes the roles.
    """

    name = "direct"

    def __init__(self, ask: OptionRoles[S, A]) -> None:
        self._domain = ask.domain
        self._code = ask.code() if ask.by_rules("code") else None
        self._complete = ask.complete() if ask.by_rules("complete") else None

    async def write(self, question: PolicyQuestion[S, A]) -> Policy[A]:
        """The option; after a failure also what leads to it."""
        if self._code is not None:
            return await self._code(question)
        return approach(self._domain, question)

    async def run(self, policy: Policy[A], episode: Episode[S, A]) -> Feedback[S, A]:
        """Carries verbs out; the first that is refused ends the attempt."""
        if isinstance(policy, str):
            raise TypeError("a program is not carried out as verbs: set execution=programs")
        first, said = len(episode.moves), []
        for action in policy:
            if episode.over:
                break
            before = episode.state
            step = await episode.act(action)
            if step.obstacle is not None:
                said.append(f"{action}: {step.obstacle}")
                if step.state == before:
                    break
        return Feedback("; ".join(said) or "done", tuple(episode.moves[first:]))

    async def is_done(self, question: PolicyQuestion[S, A]) -> bool:
        """Whether the world shows the option's effect."""
        if self._complete is not None:
            return await self._complete(question)
        return is_shown(self._domain, question)

    async def add_skill(self, option: A, program: str) -> None:
        """Verbs are no skills."""


async def policies_of(
    domain: Any,  # noqa: ANN401
    ask: OptionRoles[Any, Any],
    settings: ExecutionSettings,
) -> Policies[Any, Any]:
    """The policies that the settings ask for; verbs, where programs cannot run."""
    return Verbs(ask)
