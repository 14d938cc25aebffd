import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planning.search import discounted_returns, mean_returns

finite = st.floats(min_value=-100, max_value=100)


def test_discounted_returns_sum_the_rewards_that_follow():
    # R_2 = 4;  R_1 = 2 + 0.5 · 4 = 4;  R_0 = 1 + 0.5 · 4 = 3
    assert discounted_returns([1.0, 2.0, 4.0], 0.5) == [3.0, 4.0, 4.0]


def test_discounted_returns_end_in_the_tail():
    # R_2 = 4 + 0.5 · 8 = 8;  R_1 = 2 + 0.5 · 8 = 6;  R_0 = 1 + 0.5 · 6 = 4
    assert discounted_returns([1.0, 2.0, 4.0], 0.5, tail=8.0) == [4.0, 6.0, 8.0]


def test_mean_returns_divide_by_the_weights():
    # Sums 3, 4, 4 over weights 1 + 0.5 + 0.25 = 1.75, 1 + 0.5 = 1.5 and 1.
    assert mean_returns([1.0, 2.0, 4.0], 0.5) == pytest.approx([3 / 1.75, 4 / 1.5, 4.0])


def test_mean_returns_give_the_tail_no_weight():
    # Sums 4, 6, 8 over the same weights.
    assert mean_returns([1.0, 2.0, 4.0], 0.5, tail=8.0) == pytest.approx([4 / 1.75, 6 / 1.5, 8.0])


def test_no_rewards_no_returns():
    assert discounted_returns([], 0.95, tail=3.0) == []
    assert mean_returns([], 0.95, tail=3.0) == []


@given(rewards=st.lists(finite, max_size=15), gamma=st.floats(0, 1), tail=finite)
def test_discounted_returns_are_the_double_sum(rewards, gamma, tail):
    m = len(rewards)
    expected = [
        sum(gamma ** (j - i) * rewards[j] for j in range(i, m)) + gamma ** (m - i) * tail
        for i in range(m)
    ]
    assert discounted_returns(rewards, gamma, tail) == pytest.approx(expected, abs=1e-9)


@given(reward=finite, m=st.integers(1, 15), gamma=st.floats(0, 1))
def test_the_mean_of_a_constant_is_that_constant(reward, m, gamma):
    assert mean_returns([reward] * m, gamma) == pytest.approx([reward] * m, abs=1e-9)
