"""The rule that keeps the batch full, on traces made by hand and on a model of an engine."""

import random
from dataclasses import replace

import pytest

from llm_planning.experiments.local_pool import CALM, first_limit, next_limit
from llm_serving.vllm_stats import EngineLoad


def load(running, waiting=0, *, capacity=64, preempted=0, kv_usage=0.1):
    return EngineLoad(
        running=running,
        waiting=waiting,
        capacity=capacity,
        preempted=preempted,
        kv_usage=kv_usage,
    )


def limits(state, loads, *, trials=None):
    chosen = []
    for sample in loads:
        state = next_limit(state, sample, trials=state.limit if trials is None else trials)
        chosen.append(state.limit)
    return chosen


def test_it_begins_between_its_bounds():
    assert first_limit(least=1, most=64).limit == 4
    assert first_limit(least=1, most=2).limit == 2
    assert first_limit(least=9, most=64).limit == 9


def test_it_grows_halfway_into_the_room_until_the_first_sign():
    # 4 trials with 4 requests leave room for 60: 30 more; 34 leave 30: 15 more; 49, then 56.
    state, chosen = first_limit(least=1, most=100), []
    for _ in range(4):
        state = next_limit(state, load(state.limit), trials=state.limit)
        chosen.append(state.limit)
    assert chosen == [34, 49, 56, 60]


def test_a_trial_that_asks_several_things_at_once_takes_more_room():
    # r = 1, then 0.7 * 1 + 0.3 * 3 = 1.6: 52 requests' room is 32.5 trials, half of them 16.
    grown = next_limit(first_limit(least=1, most=100), load(12), trials=4)
    assert grown.requests == pytest.approx(1.6)
    assert grown.limit == 4 + 16


def test_a_full_batch_or_a_full_cache_stops_the_growth():
    state = replace(first_limit(least=1, most=100), limit=64)
    assert limits(state, [load(64)] * 3) == [64] * 3
    assert limits(state, [load(20, kv_usage=0.95)] * 3) == [64] * 3


def test_unused_room_is_no_reason_to_grow():
    state = first_limit(least=1, most=100)
    assert limits(state, [load(2)] * 3, trials=2) == [4, 4, 4]


def test_a_preemption_cuts_a_quarter_once():
    state = replace(first_limit(least=1, most=100), limit=40)
    cut = next_limit(state, load(40, preempted=2), trials=40)
    assert cut.limit == 30
    # 40 trials are still in flight: what they cause is no new sign.
    assert limits(cut, [load(40, preempted=5), load(36, preempted=6)], trials=36) == [30, 30]


def test_after_a_sign_it_grows_by_one_in_calm_times():
    state = replace(first_limit(least=1, most=100), limit=40)
    cut = next_limit(state, load(40, preempted=2), trials=40)
    chosen = limits(cut, [load(20, preempted=2)] * (2 * CALM))
    assert chosen == [30] * (CALM - 1) + [31] * CALM + [32]


def test_requests_that_pile_up_cut_the_limit_and_passing_ones_do_not():
    state = replace(first_limit(least=1, most=100), limit=40)
    passing = [load(20, 20, capacity=20), *[load(20, 1, capacity=20)] * 2]
    assert limits(state, passing, trials=40) == [40, 40, 40]
    # Mean waiting: 6, then 0.7 * 6 + 6 = 10.2, which is more than a third of the batch.
    assert limits(state, [load(20, 20, capacity=20)] * 2, trials=40) == [40, 30]
    no_memory = [load(20, 20, kv_usage=0.99)] * 2
    assert limits(state, no_memory, trials=40) == [40, 30]


def test_requests_that_wait_for_a_long_step_to_end_are_no_sign():
    # Before the end of the first step the engine counts everything as waiting.
    chosen = limits(first_limit(least=1, most=100), [load(0, 4), load(0, 34)], trials=None)
    assert chosen == [34, 49]


def test_the_bounds_hold():
    state = replace(first_limit(least=1, most=8), limit=8)
    assert limits(state, [load(8)] * 5) == [8] * 5
    low = first_limit(least=1, most=8)
    for preempted in range(1, 20):
        low = next_limit(low, load(low.limit, preempted=preempted), trials=low.limit)
    assert low.limit == 1
    fixed = first_limit(least=5, most=5)
    assert limits(fixed, [load(5), load(1, 50), load(5, preempted=9)]) == [5] * 3


@pytest.mark.parametrize(("blocks", "capacity"), [(10_000, 64), (600, 64), (10_000, 256)])
def test_a_model_of_an_engine_is_kept_full_with_few_preemptions(blocks, capacity):
    """Trials of up to three requests of 8 to 24 blocks each, on an engine that admits by block."""
    draw = random.Random(0)
    state, preempted, fullness, trials = first_limit(least=1, most=512), 0, [], 0
    for step in range(400):
        trials += min(max(0, state.limit - trials), 32)
        asked = sum(draw.choice((1, 3, 3)) for _ in range(trials))
        sizes = [draw.randint(8, 24) for _ in range(min(asked, capacity))]
        running = used = 0
        for size in sizes:
            if used + size > blocks:
                preempted += draw.random() < 0.05
                break
            used += size
            running += 1
        seen = load(
            running,
            asked - running,
            capacity=capacity,
            preempted=preempted,
            kv_usage=used / blocks,
        )
        state = next_limit(state, seen, trials=trials)
        if step >= 100:
            fullness.append(running / min(capacity, blocks / 16))
        trials -= sum(draw.random() < 0.1 for _ in range(trials))
    assert sum(fullness) / len(fullness) > 0.85
    assert preempted < 20
