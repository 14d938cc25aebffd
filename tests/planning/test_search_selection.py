"""The papers' scores, by hand, and which edge is taken."""

from math import inf, isclose, log, sqrt

import pytest

from llm_planning.search import (
    Edge,
    argmax,
    expanded,
    puct,
    select_by_puct,
    select_by_ucb,
    select_by_uct,
    ucb,
    uct,
)


def node_with_edges(visits, edges):
    node = expanded(
        Edge("a", first_play=edge.get("r", 0.0), prior=edge.get("p", 0.0)) for edge in edges
    )
    node.visits = visits
    for edge, statistics in zip(node.edges, edges, strict=True):
        edge.value = statistics.get("q", 0.0)
        edge.visits = statistics.get("n", 0)
        edge.in_flight = statistics.get("o", 0)
    return node


def chosen(select, node):
    return node.edges.index(select(node, node.edges))


@pytest.mark.parametrize(
    ("score", "by_hand"),
    [
        # UCB of Tree of Options: ln 6 = 1.791759; c = 0.7; 0.7 √(1.791759 / (3 + 1)) = 0.468499.
        (ucb(5.0, 3, 6, 0.7), 5.468499),
        (ucb(4.9, 2, 6, 0.7), 5.440976),
        (ucb(0.0, 0, 6, 0.7), 0.936996),
        # ln 1 = 0, and before the first visit the bonus is 0 by definition.
        (ucb(1.5, 0, 1, 0.7), 1.5),
        (ucb(-2.0, 0, 0, 0.7), -2.0),
        # UCT divides by the visits and tries everything once: ln 5 = 1.609438; c = 2;
        # 2 √(1.609438 / 4) = 1.268637.
        (uct(0.5, 4, 5, 2.0), 1.768637),
        (uct(0.9, 1, 5, 2.0), 3.437273),
        (uct(0.0, 0, 5, 2.0), inf),
        (uct(0.0, 0, 0, 2.0), inf),
        # PUCT, eq. 3 of MC-DML and line 29 of LLM-MCTS: √9 = 3; 50 · 0.6 · 3 / (1 + 5) = 15.
        (puct(2.0, 0.6, 5, 9, 50.0), 17.0),
        (puct(1.0, 0.3, 4, 9, 50.0), 10.0),
        (puct(0.0, 0.1, 0, 9, 50.0), 15.0),
        (puct(0.0, 0.9, 0, 0, 50.0), 0.0),
    ],
)
def test_scores_by_hand(score, by_hand):
    assert score == pytest.approx(by_hand, abs=1e-6)


def test_argmax_takes_the_earliest_of_equals():
    assert argmax([1.0, 3.0, 3.0]) == 1
    assert argmax([inf, inf]) == 0
    with pytest.raises(ValueError, match="empty"):
        argmax([])


def test_first_play_decides_whether_an_unvisited_edge_gets_its_turn():
    # ln 5 = 1.609438: visited 5.0 + 0.7 √(1.609438 / 6) = 5.362544;
    # unvisited 0.7 √1.609438 = 0.888045 on top of 0 or of r̂ = 4.8.
    node = node_with_edges(5, [{"q": 5.0, "n": 5, "r": 0.1}, {"r": 4.8}])
    assert chosen(select_by_ucb(c=0.7), node) == 1
    node.edges[1].first_play = 0.0
    assert chosen(select_by_ucb(c=0.7), node) == 0


def test_first_play_ends_with_the_first_backup():
    # Once visited, an edge counts with its Q even where that is 0.
    node = node_with_edges(2, [{"q": 0.1, "n": 1}, {"q": 0.0, "n": 1, "r": 9.0}])
    assert chosen(select_by_ucb(c=0.7), node) == 0


def test_ucb_selection_counts_visits_in_flight_in_both_terms():
    # Completed only, ln 4: 1.0 + √(1.386294 / 3) = 1.679778 beats 0.9 + √(1.386294 / 3).
    # With O = 2 on the first edge and on the node, ln 6:
    #   1.0 + √(1.791759 / (2 + 2 + 1)) = 1.0 + 0.598625 = 1.598625
    #   0.9 + √(1.791759 / (2 + 0 + 1)) = 0.9 + 0.772822 = 1.672822
    select = select_by_ucb(c=1.0)
    node = node_with_edges(4, [{"q": 1.0, "n": 2}, {"q": 0.9, "n": 2}])
    assert chosen(select, node) == 0
    node.in_flight = node.edges[0].in_flight = 2
    assert chosen(select, node) == 1
    # The parent's term alone: Q apart by 0.15 and bonuses √(x/2) - √(x/3) = 0.129757 √x, so the
    # less visited edge wins where √x > 1.156005, that is from N + O = exp(1.336348) = 3.805 on.
    node = node_with_edges(3, [{"q": 0.15, "n": 2}, {"q": 0.0, "n": 1}])
    assert isclose(sqrt(1 / 2) - sqrt(1 / 3), 0.129757, abs_tol=1e-6)
    assert sqrt(log(3)) < 1.156005 < sqrt(log(4))
    assert chosen(select, node) == 0
    node.in_flight = 1
    assert chosen(select, node) == 1


def test_uct_selection_treats_an_edge_in_flight_as_tried():
    select = select_by_uct(c=1.0)
    node = node_with_edges(2, [{"q": 1.0, "n": 1}, {}, {}])
    assert chosen(select, node) == 1
    node.edges[1].in_flight = 1
    assert chosen(select, node) == 2
    node.edges[2].in_flight = 1
    # N(s) = 3, ln 3 = 1.098612: 1.0 + 1.048147 against 0 + 1.048147, twice.
    assert chosen(select, node) == 0


def test_puct_selection_sums_the_visits_of_the_edges():
    # N(s) = Σ N(s,a) = 0 although the node itself was visited once: no bonus, equal Q. As N(s) → 0+
    # the bonuses vanish in the order of π, so the highest π decides; of equals, the first.
    node = node_with_edges(1, [{"p": 0.1}, {"p": 0.9}, {"p": 0.9}])
    assert chosen(select_by_puct(c=50.0), node) == 1
    node = node_with_edges(1, [{"p": 0.1}, {"p": 0.9}])
    # N(s) = 1: 0.5 + 0.1 · 1 / 2 = 0.55 against 0.9 · 1 / 1 = 0.9
    node.edges[0].visits, node.edges[0].value = 1, 0.5
    assert chosen(select_by_puct(c=1.0), node) == 1
    # With O = 1 on the second edge, N(s) = 2: 0.5 + 0.1 √2 / 2 = 0.570711 against 0.9 √2 / 2 =
    # 0.636396; with O = 2, N(s) = 3: 0.5 + 0.1 √3 / 2 = 0.586603 against 0.9 √3 / 3 = 0.519615.
    node.edges[1].in_flight = 1
    assert chosen(select_by_puct(c=1.0), node) == 1
    node.edges[1].in_flight = 2
    assert chosen(select_by_puct(c=1.0), node) == 0


def test_puct_selection_renormalises_the_priors_of_the_legal_edges():
    # Legal are b and c, with π = 0.3 and 0.2, renormalised 0.6 and 0.4; N(s) = 1 over them.
    #   b: 0.08 + 0.6 · 1 / 2 = 0.38    c: 0 + 0.4 · 1 / 1 = 0.4
    # As they stand: b: 0.08 + 0.15 = 0.23 against c: 0.2.
    node = node_with_edges(8, [{"n": 7, "p": 0.5}, {"q": 0.08, "n": 1, "p": 0.3}, {"p": 0.2}])
    legal = node.edges[1:]
    assert select_by_puct(c=1.0)(node, legal) is legal[1]
    # Nothing is known of either: equal bonuses of 0, so Q decides.
    for edge in legal:
        edge.prior = 0.0
    assert select_by_puct(c=1.0)(node, legal) is legal[0]


@pytest.mark.parametrize("select", [select_by_ucb, select_by_uct, select_by_puct])
def test_selection_takes_the_earliest_of_equals_among_the_edges_given(select):
    node = node_with_edges(4, [{"n": 1, "p": 0.25, "q": 9.0}] + [{"n": 1, "p": 0.25}] * 3)
    assert select(c=1.0)(node, node.edges[1:]) is node.edges[1]
