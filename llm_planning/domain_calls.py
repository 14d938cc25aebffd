"""A domain's methods called: what they return is awaited, and is what `docs/extending.md` says.

A wrong return is one line that names the class, the method and what it should be.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from llm_base import quoting
from llm_planning.domain import A, Domain, DomainError, Observes, S, Step, Succeeds

if TYPE_CHECKING:
    from random import Random

    from llm_planning.domain import Soon

T = TypeVar("T")

_LARGEST: Final = sys.float_info.max


async def settled(value: Soon[T]) -> T:
    """Returns the result of a domain's method, awaited if it is awaitable."""
    if inspect.isawaitable(value):
        return await value
    return value


async def stepped(domain: Domain[S, A], state: S, action: A, rng: Random) -> Step[S]:
    """Takes a step of a domain, and makes sure that it is one; see `check_step`."""
    step = domain.step(state, action, rng)
    # Most worlds step at once, and a rollout takes many steps.
    return check_step(domain, step if isinstance(step, Step) else await settled(step))


def check_step(domain: Domain[S, A], step: object) -> Step[S]:
    """Makes sure that what a domain's `step` returned is a `Step`, and that its parts fit.

    Returns:
        The step; numbers and truth values of a library, such as NumPy's, are Python's in it.

    Raises:
        DomainError: it is not, or a part of it is of another type.
    """
    if not isinstance(step, Step):
        raise wrong_return(domain, "step", step, "a Step")
    reward, done, obstacle = step[1], step[2], step[5]
    # Nearly all steps are so. A search makes millions, and by their places the parts are read fast.
    if (
        (reward.__class__ is float or reward.__class__ is int)
        and -_LARGEST <= reward <= _LARGEST
        and done.__class__ is bool
        and step[4].__class__ is str
        and (obstacle is None or obstacle.__class__ is str)
    ):
        return step
    for part, fits, wanted in (
        ("reward", is_finite(reward), "a finite number"),
        ("done", _truth(done) is not None, "True or False"),
        ("text", isinstance(step.text, str), "a text"),
        ("obstacle", isinstance(obstacle, str | None), "a text or None"),
    ):
        if not fits:
            value = getattr(step, part)
            raise wrong_return(domain, "step", value, f"{wanted}, as the {part} of its Step")
    return step._replace(reward=float(reward), done=bool(done))


def check_actions(domain: Domain[Any, A], actions: Sequence[A]) -> Sequence[A]:
    """Makes sure that what a domain's `actions` returned is a sequence, each action once.

    Raises:
        DomainError: it is none, or two of the actions have one text.
    """
    if not isinstance(actions, Sequence) or isinstance(actions, str):
        raise wrong_return(domain, "actions", actions, "a sequence of actions")
    if len(set(map(str, actions))) < len(actions):
        raise wrong_return(domain, "actions", actions, "actions of which each has its own text")
    return actions


def is_finite(value: Any) -> bool:  # noqa: ANN401 - a world may give anything
    """Whether a value is a number, and neither infinite nor NaN."""
    try:
        # An exact float is told at once; to ask an abstract class takes long.
        return (type(value) is float or isinstance(value, Real)) and isfinite(value)
    except OverflowError:
        return False


def _truth(value: Any) -> bool | None:  # noqa: ANN401 - likewise
    """The truth value that a value equals, also of a library's own type; None if it equals none."""
    try:
        return {True: True, False: False}.get(value)
    except TypeError:  # not hashable
        return None


def wrong_return(domain: object, method: str, value: object, wanted: str) -> DomainError:
    """The error of a domain's method that returned something else than it has to.

    Example:
        >>> from llm_planning.domain import wrong_return
        >>> str(wrong_return("a world", "feasible", True, "a text or None"))
        'str.feasible returned True, not a text or None: docs/extending.md says what it returns'
    """
    return DomainError(quoting.wrong_return(domain, method, value, wanted))


async def is_won(domain: Domain[S, Any], state: S, *, done: bool) -> bool | None:
    """Whether a state reaches the goal; None if the domain cannot tell.

    Args:
        domain: its `success` decides; without it, every end is a success.
        done: whether the episode ended there.
    """
    if not isinstance(domain, Succeeds):
        return done
    won = domain.success(state)
    # Most worlds tell at once, and a rollout asks at every step.
    if won is None or isinstance(won, bool):
        return won
    won = await settled(won)
    told = _truth(won)
    if told is None and won is not None:
        raise wrong_return(domain, "success", won, "True, False or None")
    return told


async def observed(domain: Domain[S, Any], state: S) -> str:
    """Returns what an agent sees of a state: by `observe`, or without it by `describe`."""
    return await in_words(domain, "observe" if isinstance(domain, Observes) else "describe", state)


async def in_words(domain: Domain[S, Any], method: Literal["describe", "observe"], state: S) -> str:
    """What a domain's `describe` or `observe` says of a state, which is a text.

    Raises:
        DomainError: it is none.
    """
    words = await settled(getattr(domain, method)(state))
    if not isinstance(words, str):
        raise wrong_return(domain, method, words, "a text")
    return words
