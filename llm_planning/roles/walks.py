"""Walks over the states of a domain with rules: where questions for a model come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import A, DomainError, S
from llm_planning.roles.domain_rules import WALKED, CheckedRules, missing_for_rules, on_the_way

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from llm_planning.roles.domain_rules import DomainWithRules

ADVISED = 0.8
"""Probability that a step of a walk is an advised one (our choice)."""

REACHED = 0.3
"""Probability that a walk that reaches the goal ends there, and not just before (our choice)."""

DETOURS = 1.5
"""The longest walk, in units of the length of the advised way (our choice)."""


@dataclass(frozen=True, slots=True)
class Walked(Generic[S, A]):
    """A walk.

    Attributes:
        start: where it began.
        taken: the actions that led on, in order.
        state: where they led.
    """

    start: S
    taken: tuple[A, ...]
    state: S


class RuleWalks(Generic[S, A]):
    """Draws states from the start to the goal, on the advised way and beside it.

    A walk begins in a start of its own. Its length is drawn evenly, from no step to `DETOURS` times
    the advised way. A step takes an advised action that is feasible, any of them, with probability
    `advised`, and otherwise one of all actions, or what someone may write by mistake for an advised
    one (`Domain.mistakes`). A walk that reaches the goal ends: with probability `REACHED` in that
    state, else in the state before it.

    Args:
        domain: a domain with the members `WALKED`.
        advised: probability of an advised step.
        mistaken: the share of mistakes among the other steps.

    Raises:
        DomainError: the domain lacks one of the members, or has it as a coroutine function.

    Example:
        >>> from random import Random
        >>> from llm_planning.environments.minecraft.options.domain import Minecraft
        >>> from llm_planning.roles import RuleWalks
        >>> walks = RuleWalks(Minecraft(task="cook-meat"))
        >>> walks.state(Random(1)) == walks.state(Random(1))
        True
    """

    def __init__(
        self, domain: DomainWithRules[S, A], *, advised: float = ADVISED, mistaken: float = 0.0
    ) -> None:
        if missing := missing_for_rules(domain, WALKED):
            raise DomainError(
                f"a walk over the states of {type(domain).__name__} needs {', '.join(missing)} as "
                "plain methods: docs/extending.md says what each is"
            )
        rules: Any = CheckedRules(domain)
        self._domain: DomainWithRules[S, A] = rules
        self._advised = advised
        self._mistaken = mistaken

    def state(self, rng: Random) -> S:
        """The last state of a walk; see `walk`."""
        return self.walk(rng).state

    def walk(self, rng: Random) -> Walked[S, A]:
        """A walk; `rng` draws its start, its steps and what happens on it."""
        domain = self._domain
        start = state = domain.start(rng.getrandbits(32))
        taken: list[A] = []
        for _ in range(rng.randint(0, round(DETOURS * len(domain.advise(state))))):
            action = self._action(state, rng)
            if action is None:
                break
            step = domain.step(state, action, rng)
            if step.done or domain.success(step.state):
                if rng.random() < REACHED:
                    return Walked(start, (*taken, action), step.state)
                break
            if step.obstacle is None:
                taken.append(action)
            state = step.state
        return Walked(start, tuple(taken), state)

    def _action(self, state: S, rng: Random) -> A | None:
        if rng.random() < self._advised and (advised := on_the_way(self._domain, state)):
            return rng.choice(advised)
        if self._mistaken and rng.random() < self._mistaken:
            domain: Any = self._domain
            advised = domain.advise(state)
            kinds: Mapping[str, Sequence[A]] = domain.mistakes(advised[0]) if advised else {}
            if kinds:
                return rng.choice(rng.choice(list(kinds.values())))
        actions = self._domain.actions(state)
        return rng.choice(actions) if actions else None
