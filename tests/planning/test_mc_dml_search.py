"""The search for one move against Algorithm 1, worked by hand."""

import random

import pytest
from mc_dml_games import (
    GraphGame,
    Reflects,
    by_words,
    chain,
    changed,
    policy,
    random_game,
    search_parts,
    searched,
    tell_actions,
    uniform_prior,
)

from llm_planning.environments.textgame.game import Ending
from llm_planning.planners.mc_dml.algorithm import best_action
from llm_planning.planners.mc_dml.roles import GameTurn, Observation
from llm_planning.search import (
    Edge,
    Node,
    edges_below,
    select_by_puct,
    select_by_uct,
)
from llm_planning.trace import recording

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


def preorder(root):
    """All nodes, the root first."""
    return [root, *(edge.node for _, edge in edges_below(root) if edge.node)]


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


async def test_the_horizon_cuts_a_rollout_off():
    # H = 2: w would be the third action. b is worth nothing, and its bonus wins in turn 3 only.
    result, *_ = await trap_after(6, depths=(2,))
    assert result.root.edges[1].value == 0.0
    assert result.depth == 2
    # At t = H nothing is asked, selected or stepped: y leads to the horizon.
    result, prior, _ = await trap_after(30, depths=(2,))
    (y,) = result.root.edges[1].node.edges
    assert y.visits > 1
    assert y.node.edges == []
    assert "You are in tower." not in {s.observation.look for s in prior.situations}


async def test_what_the_policy_and_reflections_are_told():
    _, prior, reflect = await trap_after(6)
    hall = Observation("It begins.", "You are in hall.", "Nothing.")
    pit = Observation("You a.", "You are in pit.", "Nothing.")
    dead = Observation("You x.", "You are in dead.", "Nothing.")
    stairs = Observation("You b.", "You are in stairs.", "Nothing.")
    assert prior.situations[0].memory == ()
    assert prior.situations[0].observation == hall
    assert prior.situations[2].memory == (GameTurn(hall, "a", 1.0, 1.0),)
    assert prior.situations[2].observation == pit
    assert prior.situations[2].actions == ("x",)
    # (o_{t-1}, a_{t-1}) is one turn, however long h is.
    assert prior.situations[4].memory == (GameTurn(stairs, "y", 0.0, 0.0),)
    (failed,) = reflect.trajectories
    assert failed.turns == (GameTurn(hall, "a", 1.0, 1.0), GameTurn(pit, "x", 0.0, 1.0))
    assert failed.last == dead


async def test_memory_reaches_back_before_the_root_but_trajectories_do_not():
    game, prior, reflect = a_trap(), Asked(), Reflects()
    before = (
        GameTurn(Observation("", "", ""), "wait", 0.0, 0.0),
        GameTurn(Observation("", "", ""), "jump", 2.0, 2.0),
    )
    parts = search_parts(prior=prior, reflect=reflect)
    await searched(game, parts, turns=before, score=2.0)
    assert prior.situations[0].memory == before[-1:]
    assert [turn.action for turn in reflect.trajectories[0].turns] == ["a", "x"]
    assert [turn.score for turn in reflect.trajectories[0].turns] == [3.0, 3.0]
    await searched(game, changed(parts, past=0), turns=before, score=2.0)
    assert prior.situations[-1].memory == ()


@pytest.mark.parametrize("horizon", [1, 3])
async def test_an_action_that_kills_is_reflected_on_in_the_tree(horizon):
    # No rollout step is walked: the action itself, taken from the root, ends the game.
    game = GraphGame({"s": {"die": ("dead", -5.0, LOST), "win": ("won", 1.0, WON)}})
    reflect = Reflects()
    parts = search_parts(reflect=reflect, simulations_per_action=3, depths=(horizon,))
    with recording() as trace:
        result = await searched(game, parts)
    memories = [event["text"] for event in trace.events if event["type"] == "memory"]
    assert memories == list(result.reflections) == ["reflection 1"]
    assert numbers(result.root) == {"die": (1, -5.0, 0.5), "win": (5, 1.0, 0.5)}
    assert [[turn.action for turn in t.turns] for t in reflect.trajectories] == [["die"]]


def test_the_executed_action():
    root = Node()
    root.edges = []
    for action, prior, visits, value in (
        ("unvisited", 0.9, 0, 0.0),
        ("often", 0.1, 9, -1.0),
        ("likely", 0.4, 1, -0.5),
        ("likely too", 0.4, 2, -0.5),
        ("unlikely", 0.1, 5, -0.5),
    ):
        edge = Edge(action, prior=prior)
        edge.visits, edge.value = visits, value
        root.edges.append(edge)
    drawn = [best_action(root, random.Random(seed)) for seed in range(20)]
    assert set(drawn) == {"likely", "likely too"}
    assert best_action(root, random.Random(3)) == best_action(root, random.Random(3))


def deadly(width=4, length=4):
    """Every sequence of actions is fatal after some moves."""
    graph = {}
    for depth in range(length):
        below = (f"s{depth + 1}", 0.0, None) if depth < length - 1 else ("dead", 0.0, LOST)
        graph[f"s{depth}"] = dict.fromkeys("abcd"[:width], below)
    return GraphGame(graph)


async def test_at_most_k_reflections():
    reflect = Reflects()
    parts = search_parts(reflect=reflect, k=2, depths=(6,), simulations_per_action=10)
    result = await searched(deadly(), parts)
    assert result.reflections == ("reflection 1", "reflection 2")
    assert len(reflect.trajectories) == 2
    without = await searched(deadly(), changed(parts, k=0))
    assert without.reflections == ()


async def test_equal_reflections_are_kept_once_and_trajectories_reflected_on_once():
    reflect = Reflects("always the same")
    # Two actions, two moves: there are four trajectories, each of which is walked many times.
    parts = search_parts(reflect=reflect, depths=(2,), simulations_per_action=40)
    result = await searched(deadly(width=2, length=2), parts)
    assert result.reflections == ("always the same",)
    assert len(reflect.trajectories) == 4


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


async def test_what_was_learnt_is_kept_when_the_depth_grows():
    reflect, prior = Reflects(), Asked()
    parts = search_parts(
        reflect=reflect, prior=prior, depths=(2, 4), k=9, simulations_per_action=40
    )
    result = await searched(deadly(width=2, length=2), parts)
    assert result.depth == 4
    assert len(result.reflections) == len(reflect.trajectories) == 4
    # The second tree's root starts with all reflections.
    assert result.root.memo == 4


async def test_only_states_that_are_entered_again_are_asked_again():
    # a and b are safe and visited first; c kills, after which ℳ_c has a reflection.
    game = GraphGame(
        {
            "s": {"a": ("A", 0.0, None), "b": ("B", 9.0, None), "c": ("dead", 0.0, LOST)},
            "A": {"p": ("A", 0.0, None), "q": ("A", 0.0, None)},
            "B": {"p": ("B", 0.0, None), "q": ("B", 0.0, None)},
        }
    )
    asked = []

    async def prior(situation):
        asked.append((situation.observation.look[-2], len(situation.reflections)))
        return await uniform_prior(situation)

    # Turns: a, b (unvisited ones first, C is large), c dies; then whatever the scores say.
    script = iter("abababcbbbbb")

    def select(node, edges):
        if len(edges) == 3:
            wanted = next(script)
            return next(edge for edge in edges if edge.action == wanted)
        return select_by_puct(c=1.0)(node, edges)

    parts = search_parts(
        prior=prior, reflect=Reflects(), select=select, simulations_per_action=4, depths=(5,)
    )
    result = await searched(game, parts)
    a, b, c = result.root.edges
    assert (a.visits, b.visits, c.visits) == (3, 8, 1)
    assert a.node.edges
    # After the death, the root and B were asked again, A was not.
    assert [question for question in asked if question[1] == 1].count(("s", 1)) == 1
    assert ("B", 1) in asked
    assert ("A", 1) not in asked
    assert (a.node.memo, b.node.memo) == (0, 1)


async def test_no_policy_is_asked_of_a_leaf_that_was_visited_once():
    for seed in range(3):
        game = random_game(seed, [WON, LOST, None])
        asked = []

        async def counted(situation, asked=asked):
            asked.append(situation)
            return await uniform_prior(situation)

        parts = search_parts(prior=counted, depths=(6,), simulations_per_action=20)
        result = await searched(game, parts)
        expanded = [node for node in preorder(result.root) if node.edges]
        assert len(asked) == len(expanded)
        assert all(node.visits >= 2 or node is result.root for node in expanded)
        assert any(node.visits == 1 for node in preorder(result.root))


async def naive_algorithm_1(game, parts, simulations, draws):
    """Algorithm 1 once more, recursive and with dictionaries; N(s) counts simulations."""
    n, q, pi, memory, seen = {}, {}, {}, [], set()
    start = await game.start()
    h_max = parts["depths"][0]

    async def fail(h):
        if len(memory) < parts["k"] and h not in seen:
            seen.add(h)
            memory.append("/".join(h))

    async def simulate(here, h, t, draw):
        if here.ending is LOST:
            await fail(h)
        if here.ending is not None or t == h_max:
            return 0.0
        actions = await game.actions(here.state)
        if not actions:
            return 0.0
        if pi.get(h, (None,))[0] != len(memory):
            pi[h] = len(memory), policy(f"You are in {here.state}.", actions, len(memory))
        total = sum(n.get((h, a), 0) for a in actions)
        weights = pi[h][1]
        if total:
            scores = [
                q.get((h, a), 0.0) + weights[i] * total**0.5 / (1 + n.get((h, a), 0))
                for i, a in enumerate(actions)
            ]
        else:
            scores = weights
        action = actions[scores.index(max(scores))]
        following = await game.step(here.state, action)
        down = simulate if n.get((h, action)) else roll_out
        rest = await down(following, (*h, action), t + 1, draw)
        value = following.reward + parts["gamma"] * rest
        n[h, action] = n.get((h, action), 0) + 1
        q[h, action] = q.get((h, action), 0.0) + (value - q.get((h, action), 0.0)) / n[h, action]
        return value

    async def roll_out(here, h, t, draw):
        if here.ending is LOST:
            await fail(h)
        if here.ending is not None or t == h_max:
            return 0.0
        actions = await game.actions(here.state)
        action = actions[int(draw() * len(actions))]
        following = await game.step(here.state, action)
        return following.reward + parts["gamma"] * await roll_out(
            following, (*h, action), t + 1, draw
        )

    for _ in range(simulations):
        await simulate(start, (), 0, random.Random(draws.getrandbits(64)).random)
    return n, q, tuple(memory)


@pytest.mark.parametrize("seed", range(6))
async def test_width_one_is_algorithm_1(seed):
    game = random_game(seed, [WON, LOST, LOST])

    parts = search_parts(
        prior=by_words, reflect=tell_actions, depths=(7,), simulations_per_action=60
    )
    result = await searched(game, parts, seed=str(seed))
    n, q, memory = await naive_algorithm_1(
        game, parts, result.simulations, random.Random(str(seed))
    )
    ours = {}
    stack = [((), result.root)]
    while stack:
        h, node = stack.pop()
        for edge in node.edges or ():
            if edge.visits:
                stack.append(((*h, edge.action), edge.node))
                ours[h, edge.action] = (edge.visits, edge.value)
    assert {edge: visits for edge, (visits, _) in ours.items()} == n
    assert {edge: value for edge, (_, value) in ours.items()} == pytest.approx(q)
    assert result.reflections == memory
    assert memory


async def test_uct_selects_by_eq_1():
    # The same game: both actions once (a first), then N(hall) = 2 and the scores of eq. 1 decide.
    parts = search_parts(select=select_by_uct(c=1.0), simulations_per_action=2)
    result = await searched(a_trap(), parts)
    # After a (Q 1) and b (Q 2): a: 1 + √(ln 2); b: 2 + √(ln 2): b; then b again.
    assert {a: n for a, (n, *_) in numbers(result.root).items()} == {"a": 1, "b": 3}


async def test_nothing_to_search():
    with pytest.raises(ValueError, match="no action is valid"):
        await searched(GraphGame({"s": {}}), search_parts())


async def test_a_state_where_nothing_can_be_done_is_worth_nothing_more():
    game = GraphGame({"s": {"a": ("stuck", 2.0, None), "b": ("s", 0.0, None)}, "stuck": {}})
    result = await searched(game, search_parts(simulations_per_action=5))
    assert numbers(result.root)["a"][1] == 2.0
