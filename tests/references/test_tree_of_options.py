"""Tree of Options against its reference: random options, random answers."""

import asyncio
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planning.domain import Step
from llm_planning.execution.episode import Episode
from llm_planning.planners.tree_of_options.executing import Executing
from llm_planning.planners.tree_of_options.policies import Feedback
from llm_planning.planners.tree_of_options.search import (
    MODERATE,
    NO_WORLD_MODEL,
    PENALTY,
    PRIMARY,
    WORLD_MODEL,
    TreeOfOptions,
    checked,
    unchecked,
    weights,
)
from llm_planning.planners.tree_of_options.settings import (
    ExecutionSettings,
    FeasibleSearchSettings,
)
from llm_planning.planners.tree_of_options.states import (
    Candidate,
    Completion,
    Feasibility,
    OptionState,
    PredictedState,
)
from llm_planning.search import best_path
from llm_planning.specs import Problem

from .tree_of_options import discounted, execute_option, tree_of_options

PLANNERS = {
    "too": (WORLD_MODEL, checked),
    "too-no-wm": (NO_WORLD_MODEL, checked),
    "too-no-fc": (WORLD_MODEL, unchecked),
    "tot-mcts": (NO_WORLD_MODEL, unchecked),
}
QUESTIONS = (*PRIMARY, *MODERATE, *PENALTY)


def averaged(rewards, gamma):
    """A mean per step, which the Q printed in Appendix A.7 look like (`return=mean`)."""
    return discounted(rewards, gamma) / discounted([1.0] * len(rewards), gamma)


def hashed(*key):
    """A number in [0, 1) for a key."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=4).digest(), "big") / 2**32


@dataclass
class World:
    """Hashed answers for both algorithms. `asked` keeps the package's questions."""

    seed: int
    k: int
    options: int
    infeasible: float
    done: float
    asked: list = field(default_factory=list)

    def drawn(self, *key):
        return f"o{int(hashed(self.seed, *key) * self.options)}"

    def propose(self, tau):
        return [self.drawn("propose", tau, place) for place in range(self.k)]

    def obstacle(self, tau, option):
        return "no" if hashed(self.seed, "feasible", tau, option) < self.infeasible else None

    def repair(self, tau, option):
        return self.drawn("repair", tau, option)

    def dynamics(self, tau, option):
        """Of states and options alone (eq. 1)."""
        return int(hashed(self.seed, "dynamics", tau[0], option) * 9)

    def scores(self, tau, option, state):
        key = (self.seed, tau[1], option, state)
        return {one: int(hashed(*key, one) * 5) / 4 for one in QUESTIONS}

    def termination(self, tau):
        return hashed(self.seed, "termination", tau) < self.done


class Roles:
    """The package's roles, answered by a world; the moments of its questions say nothing here."""

    def __init__(self, world):
        self.world = world
        self.domain = SimpleNamespace(describe=str)

    def ask(self, role, *question):
        self.world.asked.append((role, *question))
        return getattr(self.world, role)(*question)

    def propose(self, k, moment):
        async def ask(tau):
            assert k == self.world.k
            return [Candidate(one, one) for one in self.ask("propose", (tau.state, tau.options))]

        return ask

    def feasibility(self, moment):
        async def ask(asked):
            tau = asked.tau
            return Feasibility(self.ask("obstacle", (tau.state, tau.options), asked.option))

        return ask

    def repair(self, moment):
        async def ask(asked):
            tau = asked.tau
            return self.ask("repair", (tau.state, tau.options), asked.option)

        return ask

    def dynamics(self):
        async def ask(asked):
            tau = asked.tau
            return PredictedState(self.ask("dynamics", (tau.state, tau.options), asked.option))

        return ask

    def reward(self, moment):
        async def ask(asked):
            before = (asked.before.state, asked.before.options)
            return self.ask("scores", before, asked.option, asked.tau.state)

        return ask

    def termination(self, moment):
        async def ask(tau):
            return self.ask("termination", (tau.state, tau.options))

        return ask
