"""Whom the planners of a home ask, and what rules say of the policy.

The role `goal` is in `interpretation`, `position` in `positions`, and how a model is asked for π in
`prior`. By rules, π is what an expert does who believes what the planner believes. Errors are meant
to be systematic: if each answer erred by itself, the majority of five would be right nearly always,
and a search would have nothing to show.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

from llm_planning.environments.household.goals import GoalError, goal_predicates
from llm_planning.environments.household.observations import observation_text
from llm_planning.planners.any_domain.roles import ActWording, Situation, Turn
from llm_planning.planners.llm_mcts.interpretation import Instruction, as_read, goal_role
from llm_planning.planners.llm_mcts.positions import ROLE as POSITION
from llm_planning.planners.llm_mcts.positions import position_role, state_prior
from llm_planning.planners.llm_mcts.prior import (
    TEMPERATURE,
    make_policy,
    similar_instances,
    worked_examples,
)
from llm_planning.priors import ROLE, Prior
from llm_planning.roles import Asking, RoleRules, Rule

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence
    from random import Random

    from llm_planning.environments.household.belief import Belief
    from llm_planning.environments.household.belief import Prior as Places
    from llm_planning.environments.household.domain import KnownHousehold
    from llm_planning.environments.household.expert import Expert
    from llm_planning.environments.household.observations import Observation
    from llm_planning.environments.household.rules import Action, State
    from llm_planning.planners.llm_mcts.settings import HomeSettings, SearchSettings
    from llm_planning.roles.oracles import Key
    from llm_planning.specs import Run


class Past(NamedTuple):
    """What a history is to a policy.

    Attributes:
        turns: what was seen and done, oldest first.
        now: what is seen now, in words.
        belief: what someone knows who answers by rules.
    """

    turns: tuple[Turn, ...]
    now: str
    belief: Belief

    def then(self, action: Action, seen: Observation) -> Past:
        """The history after one more action and what is seen then."""
        return Past(
            (*self.turns, Turn(self.now, str(action))),
            observation_text(seen, self.belief.rules),
            self.belief.after(seen),
        )


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
        chosen = min(others, key=lambda candidate: expert.length(state_with(candidate)))
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
    goal = tuple((wanted.thing, wanted.place, wanted.number) for wanted in belief.rules.goal)
    known = tuple(
        (place, thing)
        for place, things in enumerate(belief.seen)
        for thing in things or ()
        if thing < belief.rules.named
    )
    held = tuple(belief.rules.things[thing] for thing in now.held)
    return ((goal, now.room, now.at, held, belief.opened, belief.unseen, known),)


def _wrong(choice: BelievedChoice, rng: Random) -> Sequence[float] | None:
    others = [action for action in choice.actions if action != choice.right]
    if not others:
        return None
    # Ranked by a hash, the same action stays the wrong one if others come and go around it.
    salt = str(rng.random())
    wrong = min(others, key=lambda action: hashlib.sha256(f"{salt} {action}".encode()).digest())
    return _spread(choice.actions, {wrong: WRONG, choice.right: MISSED})


def _spread(actions: Sequence[str], shares: dict[str, float]) -> list[float]:
    """Log-probabilities: the named shares, and the rest evenly over the other actions."""
    given = {action: share for action, share in shares.items() if action in actions}
    others = len(actions) - len(given)
    total = sum(given.values()) if not others else 1.0
    rest = (1.0 - sum(given.values())) / others if others else 0.0
    return [log(given.get(action, rest) / total) for action in actions]


POLICY: RoleRules[BelievedChoice, Sequence[float]] = RoleRules(
    name=ROLE,
    rule=Rule(
        right=lambda choice: _spread(choice.actions, {choice.right: RIGHT}),
        wrong=_wrong,
        situation=lambda choice: choice.situation,
    ),
)
"""log π over the actions, in nats, shape [actions]."""


class HomeAsking(Asking):
    """Who answers in a home, and what they said of the goal and of π.

    Attributes:
        world: the home; with the goal as it was read, if the role `goal` was asked.
        unmet: why the home cannot meet the goal as it was read; empty if it can.
        policy: π(a|h); None if nobody is asked.
    """

    settings: HomeSettings

    def __init__(self, run: Run[KnownHousehold, HomeSettings]) -> None:
        super().__init__(run.world, run.engines, run.settings, seed=run.seed)
        self.world = run.world
        self.unmet = ""
        self.policy: Prior[Situation] | None = None

    async def ask_for_goal(self) -> None:
        """Reads the instruction, unless the goal is given."""
        if self.settings.interpretation == "given":
            return
        real = self.world.rules
        goal = await self.of(goal_role(real.home))(Instruction(self.world.instruction, real.goal))
        try:
            self.world = as_read(self.world, goal)
        except GoalError as error:
            reading = goal_predicates(goal, real.home)
            self.unmet = f"the instruction was read as {reading}, which is not possible: {error}"

    async def ask_for_policy(
        self, *, beside: Callable[[Situation], Awaitable[Hashable]] | None = None
    ) -> None:
        """Makes π.

        Args:
            beside: what an answer of rules depends on beside the situation; by default nothing.
        """
        settings, engines = self.settings, self.engines
        if settings.prior == "uniform":
            return
        oracle = self.by_rules(POLICY)
        if oracle is not None:
            expert = self.world.expert

            async def estimate(question: Situation) -> Sequence[float]:
                action = best_action(question.state, expert)
                subject = situation_of(question.state)
                return await oracle(BelievedChoice(question.actions, str(action), subject))

            self.policy = Prior(
                estimate,
                wording=ActWording(self.world),
                temperature=settings.prior_temperature or 1.0,
                mixture=settings.prior_mixture,
                beside=beside,
            )
            return
        instances = (
            await similar_instances(self.world.goal, k=settings.examples, engine=engines.default)
            if settings.examples
            else ()
        )
        self.policy = make_policy(
            settings.prior,
            engines,
            wording=ActWording(
                self.world,
                examples=worked_examples(instances),
                see=settings.see,
                drawn=lambda situation: situation.state.certain,
            ),
            temperature=settings.prior_temperature,
            mixture=settings.prior_mixture,
            samples=settings.policy_samples,
            sampling=settings.sampling(TEMPERATURE),
            scale=settings.cosine_scale,
            seed=self.seed,
        )

    async def ask_for_places(self, settings: SearchSettings) -> Places:
        """Asks where the things of the goal may be, unless all are seen at the start."""
        rules = self.world.rules
        hidden = self.world.first_belief(self.world.start(self.seed)).hidden
        kind = settings.state_prior if any(thing < rules.named for thing in hidden) else "uniform"
        role = position_role(rules, seed=self.seed)
        return await state_prior(
            rules,
            kind,
            engine=self.engines.of(POSITION),
            oracle=None if kind == "uniform" else self.by_rules(role),
            samples=settings.position_samples,
            sampling=settings.sampling(settings.position_temperature),
            seed=self.seed,
        )
