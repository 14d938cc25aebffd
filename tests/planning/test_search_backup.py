"""What walks teach, by hand."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_worlds import walked

from llm_planning.domain import Step
from llm_planning.search import (
    Edge,
    Node,
    by_means,
    by_softmax,
    by_sums,
    by_weighted_returns,
    softmax_value,
)

finite = st.floats(min_value=-100, max_value=100)


def chain(backup, rewards, tail=0.0):
    """Q of each edge of a chain that was walked once, and V of its root."""
    edges = [Edge(i) for i in range(len(rewards))]
    root = Node()
    walked(backup, root, [(edge, Step(edge.action, rewards[edge.action])) for edge in edges], tail)
    return [edge.value for edge in edges], root.value


@pytest.mark.parametrize(
    ("backup", "tail", "q"),
    [
        # R_2 = 4;  R_1 = 2 + 0.5 · 4 = 4;  R_0 = 1 + 0.5 · 4 = 3
        (by_sums, 0.0, [3.0, 4.0, 4.0]),
        # R_2 = 4 + 0.5 · 8 = 8;  R_1 = 2 + 0.5 · 8 = 6;  R_0 = 1 + 0.5 · 6 = 4
        (by_sums, 8.0, [4.0, 6.0, 8.0]),
        # The sums over weights 1 + 0.5 + 0.25 = 1.75, 1 + 0.5 = 1.5 and 1: the tail has none.
        (by_means, 0.0, [3 / 1.75, 4 / 1.5, 4.0]),
        (by_means, 8.0, [4 / 1.75, 6 / 1.5, 8.0]),
    ],
)
def test_sums_and_means_by_hand(backup, tail, q):
    returned, v = chain(backup(gamma=0.5), [1.0, 2.0, 4.0], tail)
    assert returned == pytest.approx(q)
    assert v == returned[0]


@pytest.mark.parametrize(
    "backup",
    [
        by_sums(gamma=0.95),
        by_means(gamma=0.95),
        by_softmax(gamma=0.95, temperature=1.0),
    ],
)
def test_a_walk_without_edges_teaches_its_tail(backup):
    root = Node()
    walked(backup, root, [], 3.0)
    walked(backup, root, [], 4.0)
    assert root.value == 3.5


@settings(deadline=None)
@given(rewards=st.lists(finite, min_size=1, max_size=15), gamma=st.floats(0, 1), tail=finite)
def test_sums_are_the_double_sum_and_means_divide_it(rewards, gamma, tail):
    m = len(rewards)
    sums = [
        sum(gamma ** (j - i) * rewards[j] for j in range(i, m)) + gamma ** (m - i) * tail
        for i in range(m)
    ]
    weights = [sum(gamma ** (j - i) for j in range(i, m)) for i in range(m)]
    means = [total / weight for total, weight in zip(sums, weights, strict=True)]
    assert chain(by_sums(gamma=gamma), rewards, tail)[0] == pytest.approx(sums, abs=1e-9)
    assert chain(by_means(gamma=gamma), rewards, tail)[0] == pytest.approx(means, abs=1e-9)


@settings(deadline=None)
@given(reward=finite, m=st.integers(1, 15), gamma=st.floats(0, 1))
def test_the_mean_of_a_constant_is_that_constant(reward, m, gamma):
    q, _ = chain(by_means(gamma=gamma), [reward] * m)
    assert q == pytest.approx([reward] * m, abs=1e-9)


def test_q_is_the_mean_of_the_returns_of_all_visits():
    root, edge = Node(), Edge("a")
    for reward, tail in ((1.0, 2.0), (0.0, 0.0), (4.0, 0.0)):
        walked(by_sums(gamma=0.5), root, [(edge, Step("t", reward))], tail)
    # Returns 2, 0 and 4.
    assert (edge.value, root.value) == (2.0, 2.0)


def test_softmax_lies_between_the_mean_and_the_maximum():
    # Weights 1 and e^{-1} = 0.367879: (3 + 2 · 0.367879) / 1.367879 = 2.731059
    assert softmax_value([3.0, 2.0], 1.0) == pytest.approx(2.731059, abs=1e-6)
    assert softmax_value([1.0, 3.0], 1e9) == pytest.approx(2.0)
    assert softmax_value([1.0, 3.0], 1e-9) == 3.0
    assert softmax_value([-5.0], 0.1) == -5.0
    # No overflow, wherever Q lies.
    assert softmax_value([1e6, 1e6 - 1.0], 1.0) == pytest.approx(1e6 - 0.268941)


def test_softmax_backup_credits_earlier_visits_with_the_present_value():
    # γ = 0.5, temperature 1.
    root = Node()
    a, b, c = Edge("a"), Edge("b"), Edge("c")
    root.edges = [a, b, Edge("never taken")]
    backup = by_softmax(gamma=0.5, temperature=1.0)
    # 1. a, reward 1, to x with tail 4: V(x) = 4, Q(a) = 1 + 0.5 · 4 = 3, V = 3.
    walked(backup, root, [(a, Step("x", 1.0))], 4.0)
    assert (a.outcomes["x"].value, a.value, root.value) == (4.0, 3.0, 3.0)
    # 2. b, reward 2: Q(b) = 2, V = softmax(3, 2) = 2.731059.
    walked(backup, root, [(b, Step("z", 2.0))])
    assert b.value == 2.0
    assert root.value == pytest.approx(2.731059, abs=1e-6)
    # 3. a, reward 3, to y with tail 2: r̄ = 2, Σ N V = 1 · 4 + 1 · 2 = 6, Q(a) = 2 + 0.5 · 6 / 2;
    #    V = softmax(3.5, 2) = (3.5 + 2 · 0.223130) / 1.223130 = 3.226362.
    walked(backup, root, [(a, Step("y", 3.0))], 2.0)
    assert a.value == 3.5
    assert root.value == pytest.approx(3.226362, abs=1e-6)
    # 4. a, reward 1, to x, and c there, reward 8: V(x) = Q(c) = 8, r̄ = 5/3,
    #    Σ N V = 2 · 8 + 1 · 2 = 18, Q(a) = 5/3 + 0.5 · 18 / 3 = 4.666667;
    #    V = softmax(4.666667, 2): weight e^{-2.666667} = 0.069483:
    #    (4.666667 + 2 · 0.069483) / 1.069483 = 4.493416.
    a.outcomes["x"].edges = [c]
    walked(backup, root, [(a, Step("x", 1.0)), (c, Step("end", 8.0))])
    assert (c.value, a.outcomes["x"].value) == (8.0, 8.0)
    assert a.value == pytest.approx(14 / 3)
    assert root.value == pytest.approx(4.493416, abs=1e-6)


def test_weighted_returns_lean_to_the_highest_by_hand():
    root, edge = Node(), Edge("a")
    root.edges = [edge]
    backup = by_weighted_returns(gamma=0.5, temperature=1.0)
    # R = 1, then 2 + 0.5 · 2 = 3: (1 · e^{-2} + 3) / (e^{-2} + 1) = 3.135335 / 1.135335.
    walked(backup, root, [(edge, Step("t", 1.0))])
    walked(backup, root, [(edge, Step("t", 2.0))], 2.0)
    assert edge.value == pytest.approx(2.761594, abs=1e-6)
    assert root.value == pytest.approx(2.0)  # the mean


def test_another_search_goes_on_with_what_the_last_one_knew():
    # What a backup keeps lies on the tree: a new one of its kind takes it up.
    def taught(backups):
        root, edge = Node(), Edge("a")
        root.edges = [edge]
        for backup, reward in zip(backups, (2.0, 4.0, 3.0, 8.0), strict=True):
            walked(backup, root, [(edge, Step("t", reward))])
        return edge.value, root.value

    make = partial(by_softmax, gamma=0.5, temperature=1.0)
    assert taught([make()] * 4) == taught([make() for _ in range(4)])
