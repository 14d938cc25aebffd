"""Nodes, edges and outcomes, without a search."""

import pytest

from llm_planning.domain import DomainError, Step
from llm_planning.search import Edge, Node, advance, best_path, edges_below, expanded, format_tree


def counted(edge, visits, value):
    edge.visits, edge.value = visits, value
    return edge


@pytest.fixture
def sheep_tree():
    wood = counted(Edge("Chop 4 wood", prior=0.25, step=Step("wood", 1.0)), 2, 2.5)
    iron = counted(Edge("Mine 3 iron ore", first_play=2.0, step=Step("iron")), 1, -3.0)
    root = expanded([wood, iron])
    root.visits, root.value = 3, 8 / 3
    table = counted(Edge("Craft 1 table"), 1, 5.0934)
    wood.follow(wood.step).edges = [table, Edge("Find a cow")]
    return root


@pytest.mark.parametrize("made", [Node(), Edge("a")])
def test_nodes_and_edges_have_slots(made):
    with pytest.raises(AttributeError):
        made.visit = 1


def test_a_certain_step_leads_to_one_node():
    step = Step({"not": "hashable"})
    edge = Edge("a", step=step)
    node = edge.follow(step)
    assert edge.node is node
    assert edge.nodes == [node]
    assert edge.follow(Step({"not": "hashable"})) is node


def test_outcomes_are_told_apart_by_what_is_seen():
    edge = Edge("a")
    heads = edge.follow(Step("heads", 1.0))
    tails = edge.follow(Step("tails"))
    fog = edge.follow(Step("up", observation="fog"))
    assert edge.follow(Step("heads", 2.0)) is heads
    assert edge.follow(Step("down", observation="fog")) is fog
    assert edge.outcomes == {"heads": heads, "tails": tails, "fog": fog}
    assert edge.nodes == [heads, tails, fog]


def test_an_outcome_that_proves_certain_keeps_its_node():
    edge = Edge("a")
    met = edge.follow(Step("t"))
    edge.step = Step("t")
    assert edge.follow(edge.step) is met
    assert edge.follow(Step("t", 5.0)) is met
    other = edge.follow(Step("u"))
    assert edge.outcomes == {"t": met, "u": other}


def test_outcomes_must_be_told_apart():
    with pytest.raises(DomainError, match=r"'a' cannot be told apart.*\['x'\].*an `observation`"):
        Edge("a").follow(Step(["x"]))
    certain = Edge("a", step=Step(["x"]))
    certain.follow(certain.step)
    with pytest.raises(DomainError, match=r"'a' cannot be told apart.*\['x'\].*an `observation`"):
        _ = certain.outcomes
    with pytest.raises(DomainError, match=r"'a' cannot be told apart.*\['x'\].*an `observation`"):
        Edge("a").keep(Step(["x"]))


def test_forget_takes_off_the_node_of_an_outcome():
    edge = Edge("a", step=Step("t"))
    certain = edge.follow(edge.step)
    drawn, other = edge.follow(Step("u")), edge.follow(Step("v"))
    edge.forget(drawn)
    assert edge.outcomes == {"t": certain, "v": other}
    edge.forget(certain)
    assert edge.outcomes == {"v": other}
    assert edge.follow(Step("u")) is not drawn


def test_edges_below_visits_parents_first(sheep_tree):
    assert [(depth, edge.action) for depth, edge in edges_below(sheep_tree)] == [
        (1, "Chop 4 wood"),
        (2, "Craft 1 table"),
        (2, "Find a cow"),
        (1, "Mine 3 iron ore"),
    ]


def test_best_path_follows_visited_edges_only():
    left, right = Edge("a", first_play=9.0), Edge("b")
    root = expanded([left, right])
    assert best_path(root) == []
    right.visits, right.value = 1, -1.0
    assert best_path(root) == [right]
    left.visits, left.value = 1, -1.0
    assert best_path(root) == [left]
    below = counted(Edge("c"), 1, 0.0)
    left.follow(Step("aa")).edges = [below]
    assert best_path(root) == [left, below]


def test_best_path_follows_the_outcome_that_was_met_most_often():
    edge = counted(Edge("a"), 3, 0.0)
    seldom, often = edge.follow(Step("x")), edge.follow(Step("y"))
    seldom.visits, often.visits = 1, 2
    seldom.edges = [counted(Edge("c"), 1, 0.0)]
    often.edges = [counted(Edge("d"), 2, -5.0)]
    assert [edge.action for edge in best_path(expanded([edge]))] == ["a", "d"]


def test_advance_keeps_the_subtree_of_what_was_seen(sheep_tree):
    wood = sheep_tree.edges[0]
    after = advance(sheep_tree, "Chop 4 wood", Step("wood", 7.0, text="Only the outcome counts."))
    assert after is wood.node
    assert [edge.action for edge in after.edges] == ["Craft 1 table", "Find a cow"]


@pytest.mark.parametrize(
    ("action", "seen"),
    [("Chop 4 wood", "a wolf"), ("Mine 3 iron ore", "iron"), ("Never thought of", "wood")],
)
def test_advance_to_what_no_simulation_met_begins_anew(sheep_tree, action, seen):
    after = advance(sheep_tree, action, Step(seen))
    assert (after.edges, after.visits) == (None, 0)


def test_a_tree_that_is_searched_is_not_advanced(sheep_tree):
    sheep_tree.searched = True
    with pytest.raises(RuntimeError, match="await that search before advancing"):
        advance(sheep_tree, "Chop 4 wood", Step("wood"))


def test_repr_leaves_the_subtree_out(sheep_tree):
    assert repr(sheep_tree) == "Node(N=3, V=2.667, 2 edges)"
    assert repr(Node()) == "Node(N=0, V=0.000, unexpanded)"
    assert repr(sheep_tree.edges[0]) == "Edge('Chop 4 wood', N=2, Q=2.500, π=0.250)"


def test_format_tree_numbers_edges_as_the_paper_does(sheep_tree):
    assert format_tree(sheep_tree) == (
        "ROOT (N:3, Q:2.667)\n"
        "1. Chop 4 wood (N:2, Q:2.500)\n"
        "1.1. Craft 1 table (N:1, Q:5.093)\n"
        "1.2. Find a cow (N:0, Q:0.000)\n"
        "2. Mine 3 iron ore (N:1, Q:-3.000)"
    )


def test_format_tree_tells_outcomes_apart_where_there_are_several():
    edge = counted(Edge("look"), 3, 0.5)
    for seen, visits in (("fog", 2), ("sun", 1)):
        node = edge.follow(Step(seen))
        node.visits = visits
        node.edges = [counted(Edge("go"), visits, 1.0)]
    assert format_tree(expanded([edge]), str.title) == (
        "ROOT (N:0, Q:0.000)\n"
        "1. Look (N:3, Q:0.500)\n"
        "1=fog (N:2)\n"
        "1=fog.1. Go (N:2, Q:1.000)\n"
        "1=sun (N:1)\n"
        "1=sun.1. Go (N:1, Q:1.000)"
    )
