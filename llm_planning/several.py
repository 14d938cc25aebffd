"""Several problems of one task: planned side by side, each with a verdict of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from llm_planning.domain import Domain, DomainError
from llm_planning.outcome import Outcome, summed_up
from llm_planning.roles import gather
from llm_planning.trace import recording_beside
from llm_serving.errors import AnswerModelError, PromptTooLongError, RequestFailedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

MOST_AT_ONCE: Final = 64
"""Problems that are planned at the same moment: the questions of all of them are in flight."""

OUT_OF_TIME: Final = "out of time"
NOT_PLANNED: Final = "not planned"
"""Classes of failures: the problem's time was up, or it is too hard or too large for the planner,
for the model, or for its world."""

_OF_ONE_PROBLEM: Final = (DomainError, PromptTooLongError, RequestFailedError, AnswerModelError)
"""Errors that say nothing about the other problems."""


@dataclass(frozen=True, slots=True)
class Several:
    """Several problems of one task: one run plans each by itself, and sums up.

    Attributes:
        worlds: name of a problem -> the domain, opened for it, or why it cannot be; at least one.
        seconds: that each may take from its first step on, waiting included; None for any.
    """

    worlds: Mapping[str, Domain[Any, Any] | DomainError]
    seconds: float | None = None


async def plan_each(
    several: Several, plan: Callable[[Domain[Any, Any]], Awaitable[Outcome]]
) -> Outcome:
    """Plans every problem, and sums the outcomes up.

    A problem that cannot be planned has failed, and the others go on. The current trace gets the
    events of one problem after the other.

    Raises:
        DomainError: no problem could be planned; says why the first could not.
        Exception: an error that is not about one problem; the others are cancelled first.
    """
    room = asyncio.Semaphore(MOST_AT_ONCE)
    looking = asyncio.Lock()
    refused: dict[str, Exception] = {}

    async def verdict(name: str, world: Domain[Any, Any] | DomainError) -> Outcome:
        if isinstance(world, DomainError):
            refused[name] = world
            return _failed(NOT_PLANNED, str(world), {})
        traits: Mapping[str, Any] = {}
        async with room:
            with recording_beside(name):
                try:
                    # A world may search for seconds: in a thread, so that the others go on, and
                    # one after the other, because threads take their time from each other.
                    async with looking:
                        traits = await asyncio.to_thread(world.traits)
                    try:
                        async with asyncio.timeout(several.seconds) as limit:
                            return await plan(world)
                    except TimeoutError:
                        if not limit.expired():
                            raise
                        return _failed(OUT_OF_TIME, f"it took over {several.seconds:g} s", traits)
                except _OF_ONE_PROBLEM as error:
                    refused[name] = error
                    return _failed(NOT_PLANNED, str(error), traits)

    names = list(several.worlds)
    outcomes = await gather(verdict(name, several.worlds[name]) for name in names)
    if len(refused) == len(names):
        first = refused[names[0]]
        others = f" (none of {len(names)} problems can be planned)" if len(names) > 1 else ""
        raise DomainError(f"{names[0]}: {first}{others}") from first
    return summed_up(dict(zip(names, outcomes, strict=True)))


def _failed(failure: str, cause: str, traits: Mapping[str, Any]) -> Outcome:
    return Outcome(
        success=False,
        plan=(),
        metrics={**traits, "failure": failure, "failure_cause": cause},
        trace={},
        text=f"{failure}: {cause}",
    )
