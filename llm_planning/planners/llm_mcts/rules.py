"""The policy by rules: what an expert does who believes what the planner believes.

Errors are meant to be systematic. If each answer erred by itself, the majority of five would be
right nearly always, and a search would have nothing to show.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Final

from llm_planning.priors import ROLE
from llm_planning.roles import RoleRules, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from llm_planning.environments.household.belief import Belief
    from llm_planning.environments.household.expert import Expert
    from llm_planning.environments.household.rules import Action, State
    from llm_planning.roles.oracles import Key

RIGHT: Final = 0.9
"""π of the right action where the oracle is right (our choice)."""

WRONG: Final = 0.7
MISSED: Final = 0.15
"""π of one wrong action and of the right one where the oracle is wrong (our choice)."""


@dataclass(frozen=True, slots=True)
class BelievedChoice:
    """A choice among actions by someone with a belief.

    Attributes:
        actions: as they are written, at least one.
        right: the expert's.
        situation: what the choice depends on; see `situation_of`.
    """

    actions: tuple[str, ...]
    right: str
    situation: tuple[Key, ...]


def likeliest(belief: Belief, expert: Expert) -> State:
    """The state in which each hidden thing of the goal is where it most likely is.

    Of places that are equally likely it takes, thing by thing, the one with which the goal is
    reached soonest.
    """
    hidden = [thing for thing in belief.hidden if thing < belief.rules.named]
    likely = [_likeliest(belief.probabilities(thing)) for thing in hidden]

    def state_with(places: Sequence[int]) -> State:
        state = belief.certain
        for thing, place in zip(hidden, places, strict=True):
            state = state.with_thing(thing, place)
        return state

    # The expert has no way to the goal while a thing is nowhere, so all are somewhere from the
    # first comparison on.
    chosen = [places[0] for places in likely]
    for i, places in enumerate(likely):
        others = [[*chosen[:i], place, *chosen[i + 1 :]] for place in places]
        chosen = min(others, key=lambda one: expert.length(state_with(one)))
    return state_with(chosen)


def _likeliest(chances: Sequence[float]) -> list[int]:
    most = max(chances) * (1 - 1e-9)
    return [place for place, chance in enumerate(chances) if chance >= most]


def best_action(belief: Belief, expert: Expert) -> Action | None:
    """What the expert does who holds the likeliest state for true; None where nothing is left."""
    plan = expert.plan(likeliest(belief, expert))
    return plan[0] if plan else None


def situation_of(belief: Belief) -> tuple[Key, ...]:
    """What tells choices apart for an oracle, as one subject, so that systematic errors follow it.

    It is the goal, the room, the place, what is held, what is open, which places were seen, and
    where things of the goal were seen. Without the goal, the tasks of a table, which share a seed,
    would share most of their errors at the start.
    """
    now = belief.now
    goal = tuple((one.thing, one.place, one.number) for one in belief.rules.goal)
    known = tuple(
        (place, thing)
        for place, things in enumerate(belief.seen)
        for thing in things or ()
        if thing < belief.rules.named
    )
    held = tuple(belief.rules.things[thing] for thing in now.held)
    return ((goal, now.room, now.at, held, belief.opened, belief.unseen, known),)


def _right(choice: BelievedChoice) -> Sequence[float]:
    return _spread(choice.actions, {choice.right: RIGHT})


def _wrong(choice: BelievedChoice, rng: Random) -> Sequence[float] | None:
    others = [action for action in choice.actions if action != choice.right]
    if not others:
        return None
    # Ranked by a hash, the same action stays the wrong one if others come and go around it.
    salt = str(rng.random())
    wrong = min(others, key=lambda one: hashlib.sha256(f"{salt} {one}".encode()).digest())
    return _spread(choice.actions, {wrong: WRONG, choice.right: MISSED})


def _spread(actions: Sequence[str], shares: dict[str, float]) -> list[float]:
    """Log-probabilities: the named shares, and the rest evenly over the other actions."""
    given = {action: share for action, share in shares.items() if action in actions}
    others = len(actions) - len(given)
    total = sum(given.values()) if not others else 1.0
    rest = (1.0 - sum(given.values())) / others if others else 0.0
    return [log(given.get(action, rest) / total) for action in actions]


POLICY: RoleRules[BelievedChoice, Sequence[float]] = RoleRules(
    name=ROLE, rule=Rule(right=_right, wrong=_wrong, situation=lambda choice: choice.situation)
)
"""log π over the actions, in nats, shape [actions]."""
