"""Small worlds for the tests of the search core, and what they check trees with."""

import asyncio
import random
from dataclasses import dataclass, field

from llm_planning.domain import Step
from llm_planning.search import (
    Edge,
    Evaluation,
    TrackedRandom,
    Walk,
    by_sums,
    edges_below,
    select_by_uct,
)

UCT = {"select": select_by_uct(c=1.0), "backup": by_sums(gamma=1.0)}

BY_STATE = {"x": "ab", "y": "bc"}
"""State -> its legal actions."""


class CertainWorld:
    """A search model with a known start. A test adds `expand` and `evaluate`."""

    start = ""

    def draw_root(self, walk):
        return self.start

    async def legal(self, state):
        raise AssertionError(f"the history says what is legal in {state!r}")

    async def step(self, state, action, rng):
        return Step(state + action)

    async def expand(self, node, walk):
        return ()

    async def evaluate(self, node, walk):
        return Evaluation()


@dataclass
class Words(CertainWorld):
    """A state is a word, an action a letter more, and rewards are scripted by word.

    Edges are made with their steps. An evaluation walks the letter of the highest reward and goes
    on from there, down to the depth limit; `pause` is awaited before every expansion.
    """

    rewards: object
    options: str = "ab"
    depth_limit: int = 2
    pause: object = None
    first_play: float = 1.0
    expanded: list[str] = field(default_factory=list)
    evaluated: list[str] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    async def expand(self, node, walk):
        return await self.edges_of(walk.state)

    async def evaluate(self, node, walk):
        self.evaluated.append(walk.state)
        walked = []
        while node.edges:
            edge = max(node.edges, key=lambda edge: edge.step.reward)
            walked.append(edge)
            node = edge.follow(edge.step)
            node.edges = await self.edges_of(edge.step.state)
        return Evaluation(walked)

    async def edges_of(self, word):
        if len(word) == self.depth_limit:
            return []
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            if self.pause is not None:
                await self.pause(word)
        finally:
            self.running -= 1
        self.expanded.append(word)
        edges = []
        for letter in self.options:
            step = Step(word + letter, self.rewards(word + letter))
            edges.append(Edge(letter, first_play=self.first_play * step.reward, step=step))
        return edges


@dataclass
class ChanceWorld:
    """A world of chance, made of functions; counts its calls.

    Attributes:
        steps: (state, action, rng) -> Step.
        actions: state -> the actions that are legal in it.
        root: the draws of a simulation -> s_0.
        value: of a state that is evaluated.
        priors: of the actions, 1 for those that are missing.
        pause: awaited before every expansion and evaluation.
        stepped: (state, action) pairs, in order.
        asked: states of which it was asked what is legal there.
    """

    steps: object
    actions: object = lambda state: "ab"
    root: object = lambda rng: "s"
    value: object = lambda state: 0.0
    priors: dict = field(default_factory=dict)
    pause: object = None
    stepped: list = field(default_factory=list)
    asked: list = field(default_factory=list)
    expanded: list = field(default_factory=list)
    evaluated: list = field(default_factory=list)

    def draw_root(self, walk):
        return self.root(walk.rng)

    async def legal(self, state):
        self.asked.append(state)
        return self.actions(state)

    async def expand(self, node, walk):
        if self.pause is not None:
            await self.pause(walk.state)
        self.expanded.append(walk.state)
        known = {edge.action for edge in node.edges or ()}
        new = [action for action in self.actions(walk.state) if action not in known]
        return [Edge(action, prior=self.priors.get(action, 1.0)) for action in new]

    async def step(self, state, action, rng):
        self.stepped.append((state, action))
        return self.steps(state, action, rng)

    async def evaluate(self, node, walk):
        if self.pause is not None:
            await self.pause(walk.state)
        self.evaluated.append(walk.state)
        return Evaluation(tail=self.value(walk.state))


def random_pause(seed):
    draw = random.Random(seed)

    async def pause(state):
        # Zero seconds is a bare turn of the loop, so that short and long waits interleave.
        await asyncio.sleep(draw.choice([0.0, 0.0, 0.0005, 0.001, 0.002]))

    return pause


def reward_by_word(word):
    return random.Random(word).uniform(-1.0, 5.0)


def walked(backup, root, taken, tail=0.0):
    """Walks (edge, step) pairs from a root, counts them and backs them up."""
    walk = Walk(root, TrackedRandom(), None)
    for edge, step in taken:
        walk.go(edge, step)
    walk.tail = tail
    for part in [*walk.nodes, *walk.edges]:
        part.visits += 1
    backup(walk)


def exported(root, label=lambda edge: edge.action):
    """The statistics of a tree as plain values, nested; `label` names an edge."""
    return {
        "visits": root.visits,
        "value": root.value,
        "edges": [
            {
                "action": label(edge),
                "visits": edge.visits,
                "value": edge.value,
                "prior": edge.prior,
                "first_play": edge.first_play,
                "outcomes": [exported(node, label) for node in edge.outcomes.values()],
            }
            for edge in root.edges or ()
        ],
    }


def backed_up(node):
    """The tree as selection sees it: without pending nodes."""
    edges = [] if node.pending else node.edges or []
    return node.visits, node.value, [(e.action, e.visits, e.value, _below(e)) for e in edges]


def _below(edge):
    return {outcome: backed_up(node) for outcome, node in edge.outcomes.items() if node.visits}


def nodes_of(root):
    return [root, *(node for _, edge in edges_below(root) for node in edge.nodes)]


def unmarked(root):
    """Whether nothing is in flight, and no simulation that was not backed up left a node."""
    return (
        all(n.in_flight == 0 and not n.pending and not n.searched for n in nodes_of(root))
        and all(n.visits for n in nodes_of(root) if n is not root)
        and all(edge.in_flight == 0 for _, edge in edges_below(root))
    )


def scripted(draws):
    """A root whose draws are told: each simulation takes the next of them."""
    left = iter(draws)

    def root(rng):
        rng.random()
        return next(left)

    return root
