"""Whether what a domain gives is what its contract says; a world of one's own may not know."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from llm_base.quoting import quote
from llm_planning.domain import A, DomainError, S, Step, settled

if TYPE_CHECKING:
    from random import Random

    from llm_planning.domain import Domain


def check_goal(domain: Domain[Any, Any]) -> None:
    """Refuses a domain that does not say its goal; its constructor may set it.

    Raises:
        DomainError: there is no goal, or it is no text.
    """
    if not isinstance(goal := getattr(domain, "goal", None), str):
        raise DomainError(
            f"{type(domain).__name__}.goal is {quote(goal)}, not a text: say what is to be reached"
        )


async def stepped(domain: Domain[S, A], state: S, action: A, rng: Random) -> Step[S]:
    """Takes a step of a domain, and makes sure that it is one; see `check_step`."""
    step = domain.step(state, action, rng)
    # Most worlds step at once, and a rollout takes many steps.
    return check_step(domain, step if isinstance(step, Step) else await settled(step))


def check_step(domain: Domain[S, A], step: object) -> Step[S]:
    """Makes sure that what a domain's `step` returned is a `Step` with a finite reward.

    Raises:
        DomainError: it is not.
    """
    if not isinstance(step, Step):
        raise wrong_return(domain, "step", step, "a Step")
    if not is_finite(step.reward):
        raise wrong_return(
            domain, "step", step.reward, "a finite number, as the reward of its Step"
        )
    return step


def is_finite(value: Any) -> bool:  # noqa: ANN401 - a world may give anything
    """Whether a value is a number, and neither infinite nor NaN."""
    try:
        return isfinite(value)
    except (TypeError, OverflowError):
        return False


def wrong_return(domain: object, method: str, value: object, wanted: str) -> DomainError:
    """The error of a domain's method that returned something else than it has to.

    Example:
        >>> from llm_planning.domain_returns import wrong_return
        >>> str(wrong_return("a world", "feasible", True, "a text or None"))
        'str.feasible returned True, not a text or None: docs/extending.md says what it returns'
    """
    return DomainError(
        f"{type(domain).__name__}.{method} returned {quote(value)}, not {wanted}: "
        "docs/extending.md says what it returns"
    )
