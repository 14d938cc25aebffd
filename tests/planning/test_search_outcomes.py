"""Worlds of chance: outcomes, what is certain, what is legal, when nodes are expanded, how deep."""

import pytest
from search_worlds import BY_STATE, UCT, ChanceWorld, backed_up, scripted

from llm_planning.domain import Step
from llm_planning.search import (
    Node,
    advance,
    by_sums,
    edges_below,
    search,
)


def coin(state, action, rng):
    """Heads is worth 1; both end the episode."""
    side = "heads" if rng.random() < 0.5 else "tails"
    return Step(side, float(side == "heads"), done=True)


async def test_outcomes_of_a_drawn_action_become_different_nodes():
    root = Node()
    world = ChanceWorld(coin, actions=lambda state: "f")
    await search(root, world, **UCT, simulations=20)
    [flip] = root.edges
    visits = {outcome: node.visits for outcome, node in flip.outcomes.items()}
    assert set(visits) == {"heads", "tails"}
    # The first simulation ends at the root.
    assert sum(visits.values()) == flip.visits == 19
    assert flip.value == pytest.approx(visits["heads"] / 19)
    assert (flip.step, flip.node) == (None, None)
    assert world.stepped == [("s", "f")] * 19


async def test_equal_observations_lead_to_one_node():
    def foggy(state, action, rng):
        return Step(rng.random(), observation="fog", done=True)

    root = Node()
    await search(root, ChanceWorld(foggy), **UCT, simulations=9)
    for edge in root.edges:
        assert {outcome: node.visits for outcome, node in edge.outcomes.items()} == {"fog": 4}


async def test_a_certain_step_is_made_once_and_a_drawn_one_each_time():
    def steps(state, action, rng):
        if action == "b":
            rng.choice("xy")
        return Step(state + action, done=len(state) == 2)

    root = Node()
    world = ChanceWorld(steps)
    await search(root, world, **UCT, simulations=40)
    sure, drawn = root.edges
    assert world.stepped.count(("s", "a")) == 1
    assert world.stepped.count(("s", "b")) == drawn.visits > 1
    assert (sure.step.state, drawn.step) == ("sa", None)
    # What was drawn can be seen in "sb", so what comes after it is certain again.
    assert world.stepped.count(("sb", "a")) == 1
    [below] = drawn.nodes
    assert below.edges[0].visits > 1
    assert world.stepped.count(("sb", "b")) == below.edges[1].visits > 1


async def test_draws_that_others_make_leave_a_step_certain():
    # The prior, the evaluation and the root's memory may draw as they like.
    class Drawing(ChanceWorld):
        async def expand(self, node, walk):
            walk.rng.random()
            return await super().expand(node, walk)

        async def evaluate(self, node, walk):
            walk.rng.random()
            return await super().evaluate(node, walk)

    world = Drawing(lambda state, action, rng: Step(state + action))
    await search(
        Node(),
        world,
        **UCT,
        simulations=30,
        expand_at="second",
        before_select=lambda node, walk: walk.rng.random() and None,
    )
    assert len(world.stepped) == len(set(world.stepped))
    assert world.asked == []


async def test_below_a_drawn_root_nothing_is_certain():
    # Where nothing shows which state was drawn, every step is made anew, drawn or not.
    def steps(state, action, rng):
        return Step(state + action, observation="fog")

    root = Node()
    world = ChanceWorld(steps, root=lambda rng: rng.choice("xy"))
    await search(root, world, **UCT, simulations=30, max_depth=2)
    assert {state for state, _ in world.stepped} == {"x", "y", "xa", "xb", "ya", "yb"}
    assert len(world.stepped) == sum(edge.visits for _, edge in edges_below(root))
    assert all(edge.step is None for _, edge in edges_below(root))
    # The history does not say what is legal, at the root or below.
    assert len(world.asked) == len(world.stepped)


async def test_what_can_be_seen_whole_is_certain_below_a_drawn_root():
    root = Node()
    world = ChanceWorld(
        lambda state, action, rng: Step(state + action), root=lambda rng: rng.choice("xy")
    )
    await search(root, world, **UCT, simulations=60, max_depth=2)
    first = root.edges[0]
    assert set(first.outcomes) == {"xa", "ya"}
    assert first.step is None
    assert all(edge.step is not None for node in first.nodes for edge in node.edges if edge.visits)
    assert [pair for pair in world.stepped if pair == ("xa", "b")] == [("xa", "b")]
    assert set(world.asked) == {"x", "y"}


@pytest.mark.parametrize(("observation", "asked"), [(None, set()), ("fog", {"x", "y"})])
async def test_legal_is_asked_where_the_history_does_not_say(observation, asked):
    def steps(state, action, rng):
        return Step(rng.choice("xy"), observation=observation)

    world = ChanceWorld(steps)
    await search(Node(), world, **UCT, simulations=50, max_depth=2)
    assert set(world.asked) == asked


async def test_edges_are_legal_in_the_state_drawn_and_missing_ones_are_added():
    offered = []

    def select(node, edges):
        offered.append("".join(edge.action for edge in edges))
        return edges[-1]

    def steps(state, action, rng):
        return Step("end", {"a": 1.0, "b": 2.0, "c": 3.0}[action], done=True)

    root = Node()
    world = ChanceWorld(steps, actions=BY_STATE.get, root=scripted("xyxy"))
    await search(root, world, select=select, backup=by_sums(gamma=1.0), simulations=4)
    # 1 expands the root in x: a, b. 2 draws y, where b and c are possible: c is added. Then x.
    assert world.expanded == ["x", "y"]
    assert offered == ["bc", "ab", "bc"]
    assert [(e.action, e.visits, e.value) for e in root.edges] == [
        ("a", 0, 0.0),
        ("b", 1, 2.0),
        ("c", 2, 3.0),
    ]


async def test_a_state_without_legal_actions_is_evaluated():
    root = Node()
    world = ChanceWorld(
        coin, actions={"x": "", "y": "ab"}.get, root=scripted("yxx"), value={"x": 5.0, "y": 2.0}.get
    )
    await search(root, world, **UCT, simulations=3)
    assert world.evaluated == ["y", "x", "x"]
    assert root.value == 4.0
    assert [edge.visits for edge in root.edges] == [0, 0]


def only_legal(state, action, rng):
    """Ends the episode; nothing shows in which state it began."""
    assert action in BY_STATE[state]
    return Step(state, observation="fog", done=True)


@pytest.mark.parametrize("drawn", ["xx", "xyxy"])
async def test_a_tree_of_a_belief_is_searched_on_from_a_known_state(drawn):
    # The belief was x or y, then it is known to be y: what is possible in x only is not taken.
    root = Node()
    world = ChanceWorld(only_legal, actions=BY_STATE.get, root=scripted(drawn))
    await search(root, world, **UCT, simulations=len(drawn))
    before = root.edges[0].visits
    world.root = lambda rng: "y"
    world.stepped.clear()
    await search(root, world, **UCT, simulations=20)
    assert [edge.action for edge in root.edges] == ["a", "b", "c"]
    assert root.edges[0].visits == before
    # From a known state on, steps are certain.
    assert sorted(world.stepped) == [("y", "b"), ("y", "c")]


async def test_a_tree_of_a_known_state_is_searched_on_from_a_belief():
    # x is known; then it may have been y as well; then it is known again.
    root = Node()
    world = ChanceWorld(only_legal, actions=BY_STATE.get, root=lambda rng: "x")
    await search(root, world, **UCT, simulations=9)
    assert sorted(world.stepped) == [("x", "a"), ("x", "b")]
    assert world.asked == []
    world.root = scripted("yyyxxx")
    world.stepped.clear()
    await search(root, world, **UCT, simulations=6)
    # A step that is certain in x is not certain in y or in a drawn state.
    assert [state for state, _ in world.stepped] == list("yyyxxx")
    assert [edge.action for edge in root.edges] == ["a", "b", "c"]
    before = root.edges[2].visits
    world.root = lambda rng: "x"
    await search(root, world, **UCT, simulations=40)
    assert root.edges[2].visits == before > 0


async def test_a_tree_kept_after_a_real_step_is_searched_on():
    root = Node()
    world = ChanceWorld(
        lambda state, action, rng: Step(state + action + rng.choice("12")), root=lambda rng: "s"
    )
    await search(root, world, **UCT, simulations=60, max_depth=3)
    edge = root.edges[1]
    below = edge.outcomes["sb2"]
    known = backed_up(below)
    world.root = lambda rng: "sb2"
    after = advance(root, "b", Step("sb2"))
    assert after is below
    assert backed_up(after) == known
    await search(after, world, **UCT, simulations=10, max_depth=3)
    assert after.visits == known[0] + 10
    assert edge.outcomes["sb2"] is after
    # Nodes at the depth limit of the first search are expanded by the second.
    assert max(depth for depth, _ in edges_below(after)) == 3


async def test_a_dead_end_at_the_second_visit_is_evaluated_where_it_stands():
    world = ChanceWorld(
        lambda state, action, rng: Step("end"),
        actions=lambda state: "" if state == "end" else "a",
        value={"end": 3.0}.get,
    )
    root = Node()
    await search(root, world, **UCT, simulations=4, expand_at="second")
    assert world.evaluated == ["end"] * 4
    assert (root.value, root.edges[0].nodes[0].edges) == (3.0, [])


@pytest.mark.parametrize("expand_at", ["first", "second"])
async def test_a_simulation_ends_at_the_depth_limit(expand_at):
    root = Node()
    world = ChanceWorld(
        lambda state, action, rng: Step(state + action, 1.0), value=lambda state: 10.0
    )
    await search(root, world, **UCT, simulations=50, max_depth=2, expand_at=expand_at)
    assert max(depth for depth, _ in edges_below(root)) == 2
    # The model gets no question about the nodes there, and their tail is 0.
    deep = {node for edge in root.edges for node in edge.nodes}
    ends = [node for upper in deep for edge in upper.edges for node in edge.nodes]
    assert len(ends) == 4
    assert all(node.edges is None and node.visits for node in ends)
    assert all(len(state) < 3 for state in world.evaluated)
    assert all(edge.value == 1.0 for upper in deep for edge in upper.edges)


async def test_nothing_is_done_at_a_depth_limit_of_zero():
    root = Node()
    world = ChanceWorld(coin)
    await search(root, world, **UCT, simulations=3, max_depth=0)
    assert (root.visits, root.edges, world.expanded, world.evaluated) == (3, None, [], [])
