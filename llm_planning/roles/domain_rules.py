"""Domains whose rules answer questions in a model's place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import log
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, get_args

from llm_planning.domain import A, Advises, Believes, DomainError, Judged, S, Step, Verdict
from llm_planning.domain_calls import check_step, is_finite, wrong_return
from llm_planning.repeatable import digest_of, is_watched, refuse_changed, watched_step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection

    from llm_planning.domain import Domain


class DomainWithRules(Protocol[S, A]):
    """A domain that knows a way to its goal. All of its methods are plain functions."""

    def start(self, seed: int) -> S:
        """s_0."""
        ...

    def actions(self, state: S) -> Sequence[A]:
        """The possible actions."""
        ...

    def step(self, state: S, action: A, rng: Random) -> Step[S]:
        """Takes an action."""
        ...

    def feasible(self, state: S, action: A) -> str | None:
        """Why an action cannot be carried out; None if it can."""
        ...

    def advise(self, state: S) -> Sequence[A]:
        """The remaining actions to the goal, in an order that works."""
        ...

    def describe(self, state: S) -> str:
        """The state in words."""
        ...

    def success(self, state: S) -> bool:
        """Whether the goal is reached."""
        ...

    def score(self, state: S) -> float:
        """How far the goal is reached, from 0 to 1."""
        ...


MEMBERS = ("actions", "step", "feasible", "advise", "describe", "success", "score")
"""The members of `DomainWithRules` that rules need to answer every question."""

ADVICE = ("actions", "step", "feasible", "advise")
"""The members that rules need to say which actions lead to the goal."""

WALKED = ("start", *ADVICE, "success")
"""The members that a walk over states needs."""


BY_MODEL = "let a model answer it"
"""What to do where no rules answer a role."""


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


_RETURNS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "feasible": (lambda why: why is None or isinstance(why, str), "a text or None"),
    "advise": (_is_list, "a sequence of actions"),
    "score": (is_finite, "a finite number"),
    "decompose": (_is_list, "a sequence of subtasks"),
    "named": (_is_list, "a sequence of subtasks"),
    "judge": (
        lambda judged: isinstance(judged, Judged) and judged.verdict in get_args(Verdict),
        "a Judged with the verdict 'done', 'true' or 'false'",
    ),
}
"""Method of a domain -> whether it may return a value, and what it has to return."""


class CheckedRules:
    """A domain whose rules answer; what a method returns is checked.

    All members are the domain's. `step` and the methods of `_RETURNS` raise a `DomainError` if they
    return something else than their Protocols say.
    """

    def __init__(self, domain: object) -> None:
        self._domain: Any = domain

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the domain's
        if name == "_domain":  # of a copy that is not made yet
            raise AttributeError(name)
        member = getattr(self._domain, name)
        if name not in _RETURNS:
            return member
        fits, wanted = _RETURNS[name]
        watched = is_watched(self._domain)

        def asked(state: object, *given: object) -> Any:  # noqa: ANN401 - likewise
            before = digest_of(state) if watched else None
            value = member(state, *given)
            if watched:
                refuse_changed(self._domain, name, state, before)
            if not fits(value):
                raise wrong_return(self._domain, name, value, wanted)
            return value

        return asked

    def step(self, state: S, action: A, rng: Random) -> Step[S]:
        """The domain's step."""
        return check_step(self._domain, watched_step(self._domain, state, action, rng))


def missing_for_rules(domain: object, members: Sequence[str] = MEMBERS) -> list[str]:
    """The members that a domain lacks or has as coroutine functions, each in backquotes."""
    by_name = {name: getattr(domain, name, None) for name in members}
    return [
        f"`{name}`"
        for name, member in by_name.items()
        if member is None or inspect.iscoroutinefunction(member)
    ]


def on_the_way(domain: DomainWithRules[S, A], state: S) -> list[A]:
    """The advised actions that can be carried out now, in the order of the advice."""
    return [action for action in domain.advise(state) if domain.feasible(state, action) is None]


Advise: TypeAlias = "Callable[[Any, Sequence[str]], Awaitable[tuple[str, ...]]]"
"""Maps a state and some of its actions in words to those among them that lead to the goal."""


def adviser(domain: Domain[Any, Any], *, seed: int) -> Advise:
    """Makes a function that says by a domain's rules which actions lead to the goal.

    If the domain's `advise` is a coroutine function, as in a text game, only the first action of
    its advice does. Otherwise those of `leading` do.

    Args:
        domain: a domain with `advise`, and without a belief.
        seed: of what happens after an action.

    Raises:
        DomainError: the domain lacks `advise` or the members that go with it, or hides its state.
    """
    if isinstance(domain, Believes):
        raise DomainError(
            f"it hides its state (it has a belief), which its rules would give away: {BY_MODEL}"
        )
    if isinstance(domain, Advises) and inspect.iscoroutinefunction(domain.advise):
        advise = domain.advise

        async def first(state: Any, actions: Sequence[str]) -> tuple[str, ...]:  # noqa: ANN401
            return tuple(
                str(action) for action in (await advise(state))[:1] if str(action) in actions
            )

        return first
    if missing := missing_for_rules(domain, ADVICE):
        raise DomainError(f"add {', '.join(missing)} as plain methods, or {BY_MODEL}")
    rules: Any = CheckedRules(domain)

    async def all_leading(state: Any, actions: Sequence[str]) -> tuple[str, ...]:  # noqa: ANN401
        return leading(rules, state, actions, seed=seed)

    return all_leading


def informing(make: Callable[[], Advise]) -> Callable[[], Callable[[Any], Awaitable[Any]]]:
    """`AnyRole.inform` of questions with `state`, `actions` and `right`: it fills `right`."""

    def inform() -> Callable[[Any], Awaitable[Any]]:
        advise = make()

        async def informed(question: Any) -> Any:  # noqa: ANN401 - any dataclass with these fields
            return replace(question, right=await advise(question.state, question.actions))

        return informed

    return inform


def leading(
    domain: DomainWithRules[S, A], state: S, actions: Sequence[str], *, seed: int
) -> tuple[str, ...]:
    """The actions that lead to the goal: the advised ones after which the advice is shorter.

    The advice is as long as it has actions; one with a `quantity`, such as 11 cobblestone, counts
    so often, because several actions may have to fetch it.

    If there is none among the actions, as where the advice wants other quantities, any action that
    shortens the advice leads to the goal; if there is none either, as where chance decides, all
    advised ones do that can be carried out now.

    Args:
        domain: with the members `ADVICE`.
        actions: the texts of some of its actions.
        seed: of what happens after an action.

    Example:
        >>> from llm_planning.environments.minecraft.options.domain import Minecraft
        >>> from llm_planning.roles.domain_rules import leading
        >>> world = Minecraft(task="obtain-leather")
        >>> leading(world, world.start(0), ["mine 3 oak_log", "find 1 cow"], seed=0)
        ('find 1 cow',)
    """
    way = _length(domain.advise(state))

    def shortens(action: A) -> bool:
        step = domain.step(state, action, Random(f"{seed} advised {action}"))
        return step.obstacle is None and _length(domain.advise(step.state)) < way

    advised = [action for action in on_the_way(domain, state) if str(action) in actions]
    named = (action for action in domain.actions(state) if str(action) in actions)
    right = [action for action in advised if shortens(action)]
    names = set(map(str, right or [action for action in named if shortens(action)] or advised))
    return tuple(action for action in actions if action in names)


def _length(advice: Sequence[object]) -> int:
    return sum(getattr(action, "quantity", 1) for action in advice)


ADVISED_SHARE = 0.9
"""The least probability that rules give to all right choices together (our choice)."""

TIMES_LIKELIER = 2
"""A right choice is at least so many times as likely as one that is not right (our choice)."""


def spread(choices: Sequence[str], right: Collection[str]) -> list[float]:
    """Log-probabilities of choices of which some are right, in nats, shape [choices].

    With n choices of which m are right, 0 < m < n, a right one has log(s / m) and any other
    log((1 - s) / (n - m)). Here s is `ADVISED_SHARE`, or t m / (t m + n - m) if that is more, where
    t is `TIMES_LIKELIER`: then a right one is t times as likely as any other. If none or all are
    right, all have log(1 / n).

    Args:
        choices: what is chosen from, at least one.
        right: those held right; others than `choices` do not matter.

    Example:
        >>> from math import exp
        >>> from llm_planning.roles.domain_rules import spread
        >>> [round(exp(logprob), 3) for logprob in spread(["a", "b", "c"], {"b"})]
        [0.05, 0.9, 0.05]
    """
    first = sum(choice in right for choice in choices)
    others = len(choices) - first
    if not (first and others):
        return [log(1 / len(choices))] * len(choices)
    weight = TIMES_LIKELIER * first
    share = max(ADVISED_SHARE, weight / (weight + others))
    likely, unlikely = log(share / first), log((1 - share) / others)
    return [likely if choice in right else unlikely for choice in choices]
