"""The search for one move against Algorithm 1, worked by hand."""

import random

import pytest
from mc_dml_games import (
    GraphGame,
    Reflects,
    agent,
    chain,
    changed,
    search_parts,
    searched,
)

from llm_planning.domain import Domain, Step
from llm_planning.environments.textgame.game import Ending
from llm_planning.planners.mc_dml.algorithm import Position, Scene, best_action
from llm_planning.search import (
    select_by_uct,
)

WON, LOST = Ending.VICTORY, Ending.FAILURE


def a_trap():
    """The bait `a` is worth 1 and kills a move later; `b` leads to 8 points in three moves."""
    return GraphGame(
        {
            "hall": {"a": ("pit", 1.0, None), "b": ("stairs", 0.0, None)},
            "pit": {"x": ("dead", 0.0, LOST)},
            "stairs": {"y": ("tower", 0.0, None)},
            "tower": {"w": ("won", 8.0, WON)},
        }
    )


class Asked:
    """π that prefers the first action, and the last one as soon as there is a reflection."""

    def __init__(self):
        self.situations = []

    async def __call__(self, situation):
        self.situations.append(situation)
        if len(situation.actions) == 1:
            return [1.0]
        return [0.2, 0.8] if situation.reflections else [0.8, 0.2]


def numbers(node):
    return {edge.action: (edge.visits, edge.value, edge.prior) for edge in node.edges}


async def trap_after(simulations, **changes):
    """The tree after so many simulations; the root has two actions."""
    prior, reflect = Asked(), Reflects()
    parts = search_parts(prior=prior, reflect=reflect, **changes)
    assert simulations % 2 == 0
    result = await searched(a_trap(), changed(parts, simulations_per_action=simulations // 2))
    return result, prior, reflect


async def test_golden_trace():
    # γ = 0.5, H = 3, C = 1.
    # 1. π(hall) = (0.8, 0.2) with ℳ_c empty. N(hall) = 0: no term counts, the highest π is a.
    #    r = 1; ROLLOUT(pit): x kills. Reflection 1. R = 1 + 0.5 · 0 = 1: N(a) = 1, Q(a) = 1.
    # 2. ℳ_c has grown: π(hall) = (0.2, 0.8). N(hall) = 1:
    #    a: 1 + 0.2 · 1 / 2 = 1.1;  b: 0 + 0.8 · 1 / 1 = 0.8: a.
    #    The pit is entered a second time: π(pit) = (1). x kills; the trajectory a, x is known.
    #    Q(x) = 0; R = 1 + 0.5 · 0 = 1: N(a) = 2, Q(a) = 1.
    result, prior, reflect = await trap_after(2)
    root = result.root
    assert numbers(root) == {"a": (2, 1.0, 0.2), "b": (0, 0.0, 0.8)}
    assert numbers(root.edges[0].node) == {"x": (1, 0.0, 1.0)}
    assert (root.visits, root.value) == (2, 1.0)
    assert result.reflections == ("reflection 1",)
    assert len(reflect.trajectories) == 1
    assert best_action(root, random.Random(0)) == "a"

    # 3. N(hall) = 2: a: 1 + 0.2 √2 / 3 = 1.094;  b: 0 + 0.8 √2 / 1 = 1.131: b.
    #    r = 0; ROLLOUT(stairs): y, w wins 8 at t = 3. R' = 0 + 0.5 · 8 = 4, R = 0 + 0.5 · 4 = 2.
    # 4. N(hall) = 3: a: 1 + 0.2 √3 / 3 = 1.115;  b: 2 + 0.8 √3 / 2 = 2.693: b.
    #    π(stairs); y; ROLLOUT(tower): 8. R(y) = 0 + 0.5 · 8 = 4; R(b) = 0 + 0.5 · 4 = 2.
    result, *_ = await trap_after(4)
    root = result.root
    assert numbers(root) == {"a": (2, 1.0, 0.2), "b": (2, 2.0, 0.8)}
    assert numbers(root.edges[1].node) == {"y": (1, 4.0, 1.0)}
    assert root.edges[1].node.edges[0].node.edges is None
    assert best_action(root, random.Random(0)) == "b"

    # 5. N(hall) = 4: a: 1 + 0.2 · 2 / 3 = 1.133;  b: 2 + 0.8 · 2 / 3 = 2.533: b, then y.
    #    π(tower); w wins: R(w) = 8, R(y) = 4, R(b) = 2.
    # 6. N(hall) = 5: b (2 + 0.8 √5 / 4 = 2.447), y, w; SIMULATE(won) = 0, so the same returns.
    result, prior, _ = await trap_after(6)
    stairs = result.root.edges[1].node
    assert numbers(result.root) == {"a": (2, 1.0, 0.2), "b": (4, 2.0, 0.8)}
    assert numbers(stairs) == {"y": (3, 4.0, 1.0)}
    assert numbers(stairs.edges[0].node) == {"w": (2, 8.0, 1.0)}

    # π was asked of a state when it was entered a second time, once per ℳ_c.
    reflections = ("reflection 1",)
    assert [(s.observation.look, s.reflections) for s in prior.situations] == [
        ("You are in hall.", ()),
        ("You are in hall.", reflections),
        ("You are in pit.", reflections),
        ("You are in stairs.", reflections),
        ("You are in tower.", reflections),
    ]


async def test_scores_of_a_trajectory_go_on_from_that_of_the_root():
    reflect = Reflects()
    await searched(a_trap(), search_parts(prior=Asked(), reflect=reflect), score=2.0)
    assert [turn.score for turn in reflect.trajectories[0].turns] == [3.0, 3.0]


async def test_the_depth_grows_while_the_best_value_is_zero():
    parts = search_parts(depths=(10, 30), simulations_per_action=40, gamma=0.95)
    near = await searched(chain(10, 1.0), parts)
    assert (near.depth, near.simulations) == (10, 40)
    far = await searched(chain(11, 1.0), parts)
    assert (far.depth, far.simulations) == (30, 80)
    assert far.root.edges[0].value == pytest.approx(0.95**10)
    # From scratch: the first tree's visits are gone.
    assert far.root.visits == 40
    # A negative best Q ends the search; a best Q of 0 makes it go deeper.
    assert (await searched(chain(5, -1.0), parts)).depth == 10
    assert (await searched(chain(40, 1.0), parts)).depth == 30


async def test_uct_selects_by_eq_1():
    # The same game: both actions once (a first), then N(hall) = 2 and the scores of eq. 1 decide.
    parts = search_parts(select=select_by_uct(c=1.0), simulations_per_action=2)
    result = await searched(a_trap(), parts)
    # After a (Q 1) and b (Q 2): a: 1 + √(ln 2); b: 2 + √(ln 2): b; then b again.
    assert {a: n for a, (n, *_) in numbers(result.root).items()} == {"a": 1, "b": 3}


class Ice(Domain):
    """Going may slip. A state, which is not hashable, has what was drawn; nobody observes that."""

    goal = "Be at 2."

    def start(self, seed):
        return [0, 0.0]

    def describe(self, state):
        return f"You are at {state[0]}."

    def actions(self, state):
        return ["go", "stay"]

    def step(self, state, action, rng):
        place, drawn = state[0], rng.random()
        if action == "go" and drawn < 0.5:
            place += 1
        return Step([place, drawn], reward=float(place == 2), done=place == 2, observation=place)


async def test_histories_are_told_apart_by_what_was_observed():
    position = Position((), Scene(Ice().start(0)), 0.0)
    ice = agent(Ice(), search_parts(simulations_per_action=50))
    root = (await ice.search(position, rng=random.Random(0))).root
    for edge, observed in zip(root.edges, ({0, 1}, {0}), strict=True):
        assert set(edge.outcomes) == observed
        assert sum(node.visits for node in edge.nodes) == edge.visits


async def test_nothing_to_search():
    with pytest.raises(ValueError, match="no action is valid"):
        await searched(GraphGame({"s": {}}), search_parts())
