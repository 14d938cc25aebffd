"""Two problems whose exact values are known: an MDP of 60 states, and the Tiger.

Both are searched alike: UCT with c = √2 times the range of returns, which is UCB1 for that range
(Auer et al., 2002), and the softmax backup with a temperature of 1% of it.
"""

import random
from functools import cache
from math import sqrt

import pytest

from llm_planning.domain import Step
from llm_planning.search import Edge, Evaluation, Node, by_softmax, search, select_by_uct


class Simulated:
    """A world of chance with the same actions everywhere, rolled out with uniform actions.

    Attributes:
        actions: in every state.
        horizon: steps of an episode.
        gamma: γ.
    """

    def draw_root(self, walk):
        return self.start(walk.rng)

    async def legal(self, state):
        return self.actions

    async def expand(self, node, walk):
        return [Edge(action) for action in self.actions]

    async def step(self, state, action, rng):
        following, reward, observation = self.sample(state, action, rng)
        return Step(following, reward, observation=observation)

    async def evaluate(self, node, walk):
        state, total, weight = walk.state, 0.0, 1.0
        for _ in range(self.horizon - walk.depth):
            state, reward, _ = self.sample(state, walk.rng.choice(self.actions), walk.rng)
            total += weight * reward
            weight *= self.gamma
        return Evaluation(tail=total)


async def searched(world, *, simulations, spread, seed):
    """The best edge of a root; spread is the range of returns."""
    root = Node()
    await search(
        root,
        world,
        select=select_by_uct(c=sqrt(2) * spread),
        backup=by_softmax(gamma=world.gamma, temperature=0.01 * spread),
        simulations=simulations,
        max_depth=world.horizon,
        rng=random.Random(seed),
    )
    return max(root.edges, key=lambda edge: edge.value)


class RandomMdp(Simulated):
    """60 states, 3 actions of 2 outcomes each, rewards in [0, 1), 5 steps without discount."""

    actions = (0, 1, 2)
    horizon = 5
    gamma = 1.0

    def __init__(self, seed):
        draw = random.Random(seed)
        pairs = [(state, action) for state in range(60) for action in self.actions]
        self.outcomes = {pair: (draw.randrange(60), draw.randrange(60)) for pair in pairs}
        self.first = {pair: draw.random() for pair in pairs}
        self.rewards = {pair: draw.random() for pair in pairs}

    def start(self, rng):
        return 0

    def sample(self, state, action, rng):
        pair = state, action
        following = self.outcomes[pair][rng.random() >= self.first[pair]]
        return following, self.rewards[pair], None

    def values(self):
        """V*(s) and Q*(s, a) with the whole horizon left."""
        v = [0.0] * 60
        for _ in range(self.horizon):
            q = {
                pair: self.rewards[pair]
                + self.gamma * (self.first[pair] * v[outcome] + (1 - self.first[pair]) * v[other])
                for pair, (outcome, other) in self.outcomes.items()
            }
            v = [max(q[state, action] for action in self.actions) for state in range(60)]
        return v, q

    def spread(self):
        """Highest return there can be from the start, less the lowest."""

        def extreme(choose):
            v = [0.0] * 60
            for _ in range(self.horizon):
                v = [
                    choose(
                        self.rewards[state, action] + v[following]
                        for action in self.actions
                        for following in self.outcomes[state, action]
                    )
                    for state in range(60)
                ]
            return v[0]

        return extreme(max) - extreme(min)


@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
async def test_q_of_the_best_action_of_an_mdp_is_its_value(seed):
    world = RandomMdp(seed)
    spread = world.spread()
    best = await searched(world, simulations=20_000, spread=spread, seed=seed)
    v, q = world.values()
    assert q[0, best.action] == v[0]
    assert abs(best.value - v[0]) <= 0.02 * spread


class Tiger(Simulated):
    """A tiger is behind one of two doors (Kaelbling, Littman and Cassandra, 1998, Section 5.1).

    Listening costs 1 and is right in 85% of cases. The tiger costs 100, the other door gives 10;
    then the tiger is put behind a door at random, and what is heard says nothing.
    """

    actions = ("listen", "left", "right")
    horizon = 5
    gamma = 0.95

    def __init__(self, left):
        self.left = left

    def start(self, rng):
        return "left" if rng.random() < self.left else "right"

    def sample(self, state, action, rng):
        if action == "listen":
            other = "right" if state == "left" else "left"
            return state, -1.0, state if rng.random() < 0.85 else other
        reward = -100.0 if action == state else 10.0
        return rng.choice(("left", "right")), reward, rng.choice(("left", "right"))


@cache
def tiger_q(left, action, steps):
    """Q* of a belief, b(tiger left), by expanding every belief that can follow."""
    if not steps:
        return 0.0
    if action != "listen":
        hit = left if action == "left" else 1 - left
        return -100.0 * hit + 10.0 * (1 - hit) + 0.95 * tiger_v(0.5, steps - 1)
    value = -1.0
    for here, there in ((0.85, 0.15), (0.15, 0.85)):
        heard = here * left + there * (1 - left)
        value += 0.95 * heard * tiger_v(here * left / heard, steps - 1)
    return value


def tiger_v(left, steps):
    return max(tiger_q(left, action, steps) for action in Tiger.actions)


# What is known of the Tiger: at 0.5 one listens; V with one step is -1; with horizon 2 one still
# listens, as 0.85 is not sure enough: -1 - 0.95.
def test_exact_values_of_the_tiger():
    assert tiger_v(0.5, 1) == -1.0
    assert tiger_q(0.5, "left", 1) == tiger_q(0.5, "right", 1) == -45.0
    assert tiger_v(0.5, 2) == pytest.approx(-1.95)
    # 0.98 right: 10 - 110 · 0.02
    assert tiger_q(0.98, "right", 1) == pytest.approx(7.8)


@pytest.mark.slow
@pytest.mark.parametrize("left", [0.5, 0.85])
async def test_the_best_action_of_the_tiger_is_found_from_a_drawn_state(left):
    spread = sum(0.95**i * 110.0 for i in range(Tiger.horizon))
    exact = tiger_v(left, Tiger.horizon)
    actions = [
        await searched(Tiger(left), simulations=2_000, spread=spread, seed=seed)
        for seed in range(20)
    ]
    right = [tiger_q(left, edge.action, Tiger.horizon) == exact for edge in actions]
    assert sum(right) >= 19
    assert all(edge.step is None for edge in actions)
    assert sum(edge.value for edge in actions) / 20 == pytest.approx(exact, abs=0.02 * spread)
