"""A domain's methods called: what they return is awaited, and is what `docs/extending.md` says.

A wrong return is one line that names the class, the method and what it should be.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from math import inf
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from llm_base import quoting
from llm_planning.domain import A, Domain, DomainError, Observes, S, Step, Succeeds
from llm_planning.repeatable import (
    Repeated,
    is_watched,
    refuse_unlike_starts,
    repetitions,
    steady_words,
    twin_of,
    watched_step,
    without_global_draws,
)

if TYPE_CHECKING:
    from random import Random

    from llm_planning.domain import Soon

T = TypeVar("T")

_LARGEST: Final = 1e300
"""The largest number that a world may give: sums of such numbers are finite."""


async def settled(value: Soon[T]) -> T:
    """Returns the result of a domain's method, awaited if it is awaitable."""
    if inspect.isawaitable(value):
        return await value
    return value


async def started(domain: Domain[S, Any], seed: int) -> S:
    """Returns s_0. A world of others is started twice, and has to do the same.

    Raises:
        DomainError: it does not, or it drew from a global generator.
    """
    start = await settled(without_global_draws(domain, "start", partial(domain.start, seed)))
    if is_watched(domain):
        refuse_unlike_starts(domain, seed, start, await settled(domain.start(seed)))
    return start


async def stepped(domain: Domain[S, A], state: S, action: A, rng: Random) -> Step[S]:
    """Takes a step of a domain. It ends the episode if it says so, and if it reaches the goal.

    Raises:
        DomainError: it is no step (see `check_step`), or cannot be repeated (see `repeatable`).
    """
    step = watched_step(domain, state, action, rng)
    # Most worlds step at once, and a search takes many steps.
    step = check_step(domain, step if isinstance(step, Step) else await settled(step))
    if step.done or not tests_goal(domain):
        return step
    return await with_goal_as_end(domain, step)


async def simulated(domain: Domain[S, A], state: S, action: A, rng: Random) -> Step[S]:
    """As `stepped`, in a simulation: some steps are taken again, and have to do the same.

    Raises:
        DomainError: see `stepped`, and `repeatable.Repeated`.
    """
    if not (times := repetitions(domain)):
        return await stepped(domain, state, action, rng)
    twins, words = [twin_of(rng) for _ in range(times)], steady_words(domain, state)
    step = await stepped(domain, state, action, rng)
    repeated = Repeated(domain, state, action, words, step)
    for twin in twins:
        before = twin.getstate()
        again = await stepped(domain, state, action, twin)
        repeated.again(again, drew=twin.getstate() != before)
    return step


async def with_goal_as_end(domain: Domain[S, Any], step: Step[S]) -> Step[S]:
    """The step as searches and episodes take it: `done` where it reaches the goal, too."""
    if step.done or not await is_won(domain, step.state, done=False):
        return step
    return step._replace(done=True)


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
        ("reward", is_finite(reward), finite_wanted(reward)),
        ("done", truth_of(done) is not None, "True or False"),
        ("text", isinstance(step.text, str), "a text"),
        ("obstacle", isinstance(obstacle, str | None), "a text or None"),
    ):
        if not fits:
            value = getattr(step, part)
            raise wrong_return(domain, "step", value, f"{wanted}, as the {part} of its Step")
    return step._replace(reward=float(reward), done=bool(done))


async def actions_of(domain: Domain[S, A], state: S) -> Sequence[A]:
    """Returns the possible actions of a state; see `check_actions`."""
    actions = without_global_draws(domain, "actions", partial(domain.actions, state))
    return check_actions(domain, await settled(actions))


def check_actions(domain: Domain[Any, A], actions: Sequence[A]) -> Sequence[A]:
    """Makes sure that what a domain's `actions` returned is a sequence, each action once.

    Raises:
        DomainError: it is none, an action has no text, or two of them have one text.
    """
    if not isinstance(actions, Sequence) or isinstance(actions, str):
        raise wrong_return(domain, "actions", actions, "a sequence of actions")
    texts = set(map(str, actions))
    if len(texts) < len(actions):
        raise wrong_return(domain, "actions", actions, "actions of which each has its own text")
    if not all(map(str.strip, texts)):
        raise wrong_return(domain, "actions", actions, "actions that all have a text")
    # What a class without a text writes, and a function: another prompt in each process.
    if any(" at 0x" in text for text in texts):
        wanted = "actions that have a text: their class needs `__str__`"
        raise wrong_return(domain, "actions", actions, wanted)
    return actions


def is_finite(value: Any) -> bool:  # noqa: ANN401 - a world may give anything
    """Whether a value is a number, no NaN, and so small that sums of such numbers are finite."""
    try:
        # An exact float is told at once; to ask an abstract class takes long.
        is_number = type(value) is float or isinstance(value, Real)
        return is_number and -_LARGEST <= float(value) <= _LARGEST
    except OverflowError:
        return False


def finite_wanted(value: object) -> str:
    """What a world should have given in the place of a value that is not finite."""
    if isinstance(value, int | float) and -inf < value < inf:
        return "a number of at most 1e300 in size, as sums must be finite"
    return "a finite number"


def truth_of(value: Any) -> bool | None:  # noqa: ANN401 - likewise
    """The truth value that a value equals, also of a library's own type; None if it equals none."""
    try:
        return {True: True, False: False}.get(value)
    except TypeError:  # not hashable
        return None


def wrong_return(domain: object, method: str, value: object, wanted: str) -> DomainError:
    """The error of a domain's method that returned something else than it has to.

    Example:
        >>> from llm_planning.domain_calls import wrong_return
        >>> str(wrong_return("a world", "feasible", True, "a text or None"))
        'str.feasible returned True, not a text or None: docs/extending.md says what it returns'
    """
    return DomainError(quoting.wrong_return(domain, method, value, wanted))


def tests_goal(domain: Domain[Any, Any]) -> bool:
    """Whether a domain is a `Succeeds`; told fast, as a search asks at every step."""
    kind = type(domain)
    known = _tests_goal.get(kind)
    if known is None:
        known = _tests_goal[kind] = isinstance(domain, Succeeds)
    return known


_tests_goal: dict[type, bool] = {}


async def is_won(domain: Domain[S, Any], state: S, *, done: bool) -> bool | None:
    """Whether a state reaches the goal; None if the domain cannot tell.

    Args:
        domain: its `success` decides; without it, every end is a success.
        done: whether the episode ended there.
    """
    if not tests_goal(domain):
        return done
    won = cast("Succeeds[S]", domain).success(state)
    # Most worlds tell at once, and a rollout asks at every step.
    if won is None or isinstance(won, bool):
        return won
    won = await settled(won)
    told = truth_of(won)
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
