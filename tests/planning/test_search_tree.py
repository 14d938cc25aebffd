import json

import pytest

from llm_planning.search import Node, format_tree, path_to, preorder, to_json


@pytest.fixture
def sheep_tree():
    root = Node("s0")
    root.visits, root.value = 3, 8 / 3
    wood = root.add_child("Chop 4 wood", reward=1.0, prior=0.25)
    wood.visits, wood.value = 2, 2.5
    iron = root.add_child("Mine 3 iron ore", reward=2.0)
    iron.visits, iron.value = 1, -3.0
    table = wood.add_child("Craft 1 table")
    table.visits, table.value = 1, 5.0934
    wood.add_child("Find a cow")
    return root


def test_a_new_node_has_no_statistics():
    node = Node("s0")
    assert (node.visits, node.value, node.in_flight, node.pending) == (0, 0.0, 0, False)
    assert (node.parent, node.children, node.depth) == (None, [], 0)


def test_add_child_attaches_the_edge(sheep_tree):
    wood = sheep_tree.children[0]
    assert (wood.parent, wood.depth, wood.reward, wood.prior) == (sheep_tree, 1, 1.0, 0.25)
    assert [child.depth for child in wood.children] == [2, 2]


def test_nodes_have_slots():
    with pytest.raises(AttributeError):
        Node("s0").visit = 1


def test_path_to_runs_from_the_root(sheep_tree):
    cow = sheep_tree.children[0].children[1]
    assert [node.payload for node in path_to(cow)] == ["s0", "Chop 4 wood", "Find a cow"]
    assert path_to(sheep_tree) == [sheep_tree]


def test_preorder_visits_parents_first(sheep_tree):
    assert [node.payload for node in preorder(sheep_tree)] == [
        "s0",
        "Chop 4 wood",
        "Craft 1 table",
        "Find a cow",
        "Mine 3 iron ore",
    ]


def test_repr_leaves_the_subtree_out(sheep_tree):
    assert repr(sheep_tree) == "Node('s0', N=3, Q=2.667, depth=0)"


def test_format_tree_numbers_edges_as_the_paper_does(sheep_tree):
    assert format_tree(sheep_tree, str) == (
        "ROOT (N:3, Q:2.667)\n"
        "1. Chop 4 wood (N:2, Q:2.500)\n"
        "1.1. Craft 1 table (N:1, Q:5.093)\n"
        "1.2. Find a cow (N:0, Q:0.000)\n"
        "2. Mine 3 iron ore (N:1, Q:-3.000)"
    )


def test_to_json_nests_the_statistics(sheep_tree):
    exported = json.loads(json.dumps(to_json(sheep_tree, lambda payload: {"option": payload})))
    assert exported["payload"] == {"option": "s0"}
    wood, iron = exported["children"]
    assert [wood[key] for key in ("visits", "value", "reward", "prior")] == [2, 2.5, 1.0, 0.25]
    assert [child["payload"]["option"] for child in wood["children"]] == [
        "Craft 1 table",
        "Find a cow",
    ]
    assert iron["children"] == []
