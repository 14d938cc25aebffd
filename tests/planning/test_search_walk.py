"""The random stream of a simulation, which tells whether anybody drew from it."""

import copy
import random

from llm_planning.search import (
    TrackedRandom,
)


def test_draws_are_those_of_their_seed():
    draws = TrackedRandom()
    for seed in (1, 2, 1):
        draws.restart(seed)
        plain = random.Random(seed)
        assert not draws.drawn
        for draw in ("random", "getrandbits", "gauss", "choice", "shuffle", "normalvariate"):
            given = {"getrandbits": [70], "choice": ["abc"], "shuffle": [list("abc")]}.get(draw, [])
            assert getattr(draws, draw)(*given) == getattr(plain, draw)(*given)
            assert draws.drawn
            draws.drawn = False


def test_a_pair_of_normal_draws_is_not_shared_by_two_simulations():
    draws = TrackedRandom()
    draws.restart(1)
    draws.gauss()
    draws.drawn = False
    # The second number of the pair was made with the first. Taking it counts as a draw.
    second = draws.gauss()
    assert draws.drawn
    draws.restart(2)
    assert draws.gauss() == random.Random(2).gauss() != second


def test_a_copy_of_the_draws_goes_on_from_where_they_are():
    draws = TrackedRandom()
    draws.restart(1)
    twin = copy.deepcopy(draws)
    assert draws.drawn
    assert [twin.random() for _ in range(3)] == [draws.random() for _ in range(3)]
    plain = random.Random(1)
    plain.random(), plain.random(), plain.random()
    assert twin.random() == plain.random()
