"""Walks over the states of a domain with rules: where questions for a model come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from llm_planning.domain import A, DomainError, S
from llm_planning.roles.domain_rules import WALKED, missing_for_rules, on_the_way

if TYPE_CHECKING:
    from random import Random

    from llm_planning.roles.domain_rules import DomainWithRules

ADVISED = 0.8
"""Probability that a step of a walk is an advised one (our choice)."""

REACHED = 0.3
"""Probability that a walk that reaches the goal ends there, and not just before (our choice)."""

DETOURS = 1.5
"""The longest walk, in units of the length of the advised way (our choice)."""


class RuleWalks(Generic[S, A]):
    """Draws states from the start to the goal, on the advised way and beside it.

    A walk begins in a start of its own. Its length is drawn evenly, from no step to `DETOURS` times
    the advised way. A step takes an advised action that is feasible, any of them, with probability
    `advised`, and otherwise one of all actions. A walk that reaches the goal ends: with probability
    `REACHED` in that state, else in the state before it.

    Args:
        domain: a domain with the members `WALKED`.
        advised: probability of an advised step.

    Raises:
        DomainError: the domain lacks one of the members, or has it as a coroutine function.

    Example:
        >>> from random import Random
        >>> from llm_planning.environments.minecraft.domain import Minecraft
        >>> from llm_planning.roles import RuleWalks
        >>> walks = RuleWalks(Minecraft(task="cook-meat"))
        >>> walks.state(Random(1)) == walks.state(Random(1))
        True
    """

    def __init__(self, domain: DomainWithRules[S, A], *, advised: float = ADVISED) -> None:
        if missing := missing_for_rules(domain, WALKED):
            raise DomainError(
                f"a walk over the states of {type(domain).__name__} needs {', '.join(missing)} as "
                "plain methods: docs/extending.md says what each is"
            )
        self._domain = domain
        self._advised = advised

    def state(self, rng: Random) -> S:
        """The last state of a walk.

        Args:
            rng: draws the start, the walk and what happens on it.
        """
        domain = self._domain
        state = domain.start(rng.getrandbits(32))
        for _ in range(rng.randint(0, round(DETOURS * len(domain.advise(state))))):
            action = self._action(state, rng)
            if action is None:
                break
            step = domain.step(state, action, rng)
            if step.done or domain.success(step.state):
                return step.state if rng.random() < REACHED else state
            state = step.state
        return state

    def _action(self, state: S, rng: Random) -> A | None:
        if rng.random() < self._advised and (advised := on_the_way(self._domain, state)):
            return rng.choice(advised)
        actions = self._domain.actions(state)
        return rng.choice(actions) if actions else None
