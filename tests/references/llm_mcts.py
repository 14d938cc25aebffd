"""LLM-MCTS from its paper: Algorithm 1, and what its authors' code does otherwise.

Slow and plain, so that it can be read beside the paper. Numbers are the lines of Algorithm 1.
"""

from collections import defaultdict
from math import exp, inf, log, sqrt
from random import Random

GAMMA, R, T = 0.95, 10.0, 10.0


class Algorithm1:
    """The search for one action, over dictionaries by history. Numbers are the paper's lines.

    Where it is silent: the tree has the root at first; at N(h) = 0 the action with the highest π
    is taken; N(h) counts the actions that are possible in the state, and π is shared by them.
    """

    def __init__(
        self,
        rules,
        draw,
        seen,
        pi,
        *,
        depth,
        c,
        ask,
        values,
        histories,
        selection,
        gamma=GAMMA,
        reward=R,
    ):
        self.gamma, self.reward = gamma, reward
        self.rules, self.draw, self.seen, self.pi = rules, draw, seen, pi
        self.c, self.ask, self.values, self.histories = c, ask, values, histories
        self.selection, self.depth = selection, depth
        self.tree = set() if ask == "first" else {()}
        self.policy = defaultdict(dict)
        self.n = defaultdict(int)
        self.q = defaultdict(float)
        self.returns = defaultdict(list)

    def search(self, simulations, rng):  # 1
        for _ in range(simulations):  # 3
            self.draws = Random(rng.getrandbits(64))
            self.simulate(self.draw(self.draws), (), self.seen, False, 0)  # 4, 5
        return {str(a): (self.n[(), a], self.q[(), a], p) for a, p in self.policy[()].items()}

    def rollout(self, s, done, d):  # 10
        if d == self.depth or done:  # 11
            return 0.0
        actions = self.rules.actions(s)
        a = actions[int(self.draws.random() * len(actions))]  # 14
        s, r, done = self.g(s, a)  # 15
        return r + self.gamma * self.rollout(s, done, d + 1)  # 17

    def simulate(self, s, h, seen, done, d):  # 19
        if d == self.depth or done:  # 20
            return 0.0
        actions = self.rules.actions(s)
        if h not in self.tree:  # 23
            self.tree.add(h)  # 24
            if self.ask == "first":
                self.query(h, seen, actions)
            return self.rollout(s, done, d)  # 26
        self.query(h, seen, actions)  # 28
        a = self.best(h, [action for action in self.policy[h] if action in actions])  # 29
        s, r, done = self.g(s, a)  # 30
        o = self.rules.observe(s)
        h_next = (*h, (str(a), o.key if self.histories == "observations" else None))  # 31
        ret = r + self.gamma * self.simulate(s, h_next, (*seen, o), done, d + 1)  # 32
        self.n[h, a] += 1  # 33
        if self.values == "softmax":
            some = self.returns[h, a]
            some.append(ret)
            weights = [exp(value / T) for value in some]
            self.q[h, a] = sum(w * x for w, x in zip(weights, some, strict=True)) / sum(weights)
        else:
            self.q[h, a] += (ret - self.q[h, a]) / self.n[h, a]  # 34
        return ret  # 35

    def query(self, h, seen, actions):
        """Asks for π of all actions that were ever possible here, if one is new."""
        policy = self.policy[h]
        if new := [a for a in actions if a not in policy]:
            every = (*policy, *new)
            policy.update(zip(every, self.pi(seen, every), strict=True))

    def best(self, h, actions):
        n = sum(self.n[h, a] for a in actions)
        share = sum(self.policy[h][a] for a in actions)

        def score(a):
            n_a, q, p = self.n[h, a], self.q[h, a], self.policy[h][a] / share
            if self.selection == "uct":
                return q + self.c * sqrt(log(n) / n_a) if n_a else inf
            return q + self.c * p * sqrt(n) / (n_a + 1) if n else p

        return max(actions, key=score)

    def g(self, s, a):
        """𝒢(s, a), without the observation."""
        s = self.rules.after(s, a)
        won = self.rules.success(s)
        return s, self.reward * won, won or s.steps == self.rules.limit
