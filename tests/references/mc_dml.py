"""MC-DML from its paper: Algorithm 1, the memories (3.1) and the dynamic pruning (4.1).

Slow and plain, so that it can be read beside the paper. "l.N" is line N of Algorithm 1.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from random import Random
from typing import Any, NamedTuple, TypeAlias

History: TypeAlias = tuple[Hashable, ...]
"""Observation, action, observation, and so on, to the newest observation."""


class World(NamedTuple):
    """The game, a function of its states."""

    actions: Callable[[Any], Sequence[str]]  # none: the game is over
    step: Callable[[Any, str], tuple[float, Any, Hashable]]  # reward, state, observation
    failed: Callable[[Any], bool]


class Roles(NamedTuple):
    """What the language model answers."""

    prior: Callable[[History, tuple[str, ...], Sequence[str]], Sequence[float]]  # of M_i, M_c, A
    reflection: Callable[[History], str]


class Settings(NamedTuple):
    """The numbers of Appendix B."""

    c_puct: float = 50.0
    discount: float = 0.95
    simulations_per_action: int = 50
    reflections: int = 3  # k
    d_min: int = 10
    d_max: int = 30
    delta_d: int = 20


@dataclass
class Node:
    """N(h), and of each action, in the game's order, N(h, a), Q(h, a) and the last π(a)."""

    visits: int = 0
    action_visits: dict[str, int] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    prior: dict[str, float] = field(default_factory=dict)


@dataclass
class Search:
    """The planning under one root: a tree for each depth, and M_c, empty at a new root (4.1)."""

    world: World
    roles: Roles
    settings: Settings
    rng: Random
    horizon: int = 0
    memory: list[str] = field(default_factory=list)  # M_c
    trees: list[dict[History, Node]] = field(default_factory=list)

    def plan(self, s: Any, h: History) -> list[str]:
        """The actions of the highest Q, equals where there are several."""
        self.past = len(h) - 1
        self.horizon = self.settings.d_min  # 4.1: while the best Q is 0, Δd deeper, up to d_max
        self.search(s, h)
        while self.best(h)[0] == 0 and self.horizon < self.settings.d_max:
            # Reading: the search begins again with an empty tree, and keeps M_c (same root).
            self.horizon = min(self.horizon + self.settings.delta_d, self.settings.d_max)
            self.search(s, h)
        return self.best(h)[1]

    def best(self, h: History) -> tuple[float, list[str]]:  # l.7
        # Reading: only an action that was tried has a Q here; ties go to the highest π.
        root = self.trees[-1][h]
        tried = {a: (q, root.prior[a]) for a, q in root.values.items() if root.action_visits[a]}
        return max(tried.values())[0], [a for a in tried if tried[a] == max(tried.values())]

    def search(self, s: Any, h: History) -> None:  # l.1-3: h is o_0, or what was played up to it
        self.trees.append({})
        for _ in range(self.settings.simulations_per_action * len(self.world.actions(s))):  # l.4-6
            self.draws = Random(self.rng.getrandbits(64))
            self.simulate(s, h, 0)  # l.5

    def ended(self, s: Any, h: History, t: int) -> bool:
        failed = self.world.failed(s)  # l.10, l.44
        if failed:
            self.reflect(h)
        # Reading: a game that ended without failure is worth 0, and nothing is learned from it.
        return failed or t == self.horizon or not self.world.actions(s)  # l.15, l.49

    def reflect(self, h: History) -> None:  # l.11-12, l.45-46
        # Reading (4.1): with k reflections under this root, no more are asked for.
        if len(self.memory) < self.settings.reflections:
            # 3.1: on the segment from the root, where the game is resumed.
            self.memory.append(self.roles.reflection(h[self.past :]))

    def simulate(self, s: Any, h: History, t: int) -> float:  # l.9
        if self.ended(s, h, t):
            return 0.0  # l.13, l.16
        a, rollout = self.select_action(s, h)  # l.18
        r, s_next, o_next = self.world.step(s, a)  # l.19
        following = self.rollout if rollout else self.simulate  # l.21-25
        total = r + self.settings.discount * following(s_next, (*h, a, o_next), t + 1)  # l.20, 26
        node = self.trees[-1][h]
        node.visits += 1  # l.27
        node.action_visits[a] += 1  # l.28
        node.values[a] += (total - node.values[a]) / node.action_visits[a]  # l.29
        return total  # l.30

    def select_action(self, s: Any, h: History) -> tuple[str, bool]:  # l.32
        actions = self.world.actions(s)
        if h not in self.trees[-1]:
            self.trees[-1][h] = Node(0, dict.fromkeys(actions, 0), dict.fromkeys(actions, 0.0))
        node = self.trees[-1][h]
        recent = h[-3:]  # l.33; 4.1: o_{t-1}, a_{t-1}, o_t
        prior = self.roles.prior(recent, tuple(self.memory), actions)  # l.34, at each visit anew
        node.prior = dict(zip(actions, prior, strict=True))

        def score(a: str) -> tuple[float, float]:
            # Reading: N(s, a) + 1 is not under the root, as in (2) and (3); in l.36 it is.
            explored = self.settings.c_puct * node.prior[a] * sqrt(node.visits)
            # Reading: at N(s) = 0 all scores are 0, and π decides; other ties go to the first.
            first = 0.0 if node.visits else node.prior[a]
            return node.values[a] + explored / (1 + node.action_visits[a]), first

        best = max(actions, key=score)  # l.35-36
        return best, node.action_visits[best] == 0  # l.37-42

    def rollout(self, s: Any, h: History, t: int) -> float:  # l.43
        if self.ended(s, h, t):
            return 0.0  # l.47, l.50
        actions = self.world.actions(s)
        a = actions[int(self.draws.random() * len(actions))]  # l.53
        r, s_next, o_next = self.world.step(s, a)  # l.54
        return r + self.settings.discount * self.rollout(s_next, (*h, a, o_next), t + 1)  # l.55
