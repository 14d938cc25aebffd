"""The engine on vLLM's model runners V1 and V2, stepped synchronously and asynchronously.

A GPU takes V2 and asynchronous scheduling, and every other test of the engine V1. Each runner has a
process of its own on a tiny random model (`runners/observe.py`); transformers in float32 says what
is right.
"""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parent / "runners"
NATS = 1e-4

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run_on(runner, scheduling, *program):
    child = subprocess.run(
        [sys.executable, SUPPORT / "on_cpu.py", runner, scheduling, *program],
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-5000:]
    return child.stdout.splitlines()


@cache
def observed(runner):
    """What one child saw of all engines on a runner: opening vLLM takes longest."""
    parts = ("async", "sync", "other")
    return json.loads(run_on(runner, parts[0], SUPPORT / "observe.py", *parts)[-1])


@pytest.fixture(scope="module", params=["V2 async", "V2 sync", "V1 async", "V1 sync"])
def seen(request):
    runner, scheduling = request.param.split()
    return observed(runner)[scheduling] | {"asked": (runner, scheduling)}


@pytest.fixture(scope="module", params=["V2", "V1"])
def others(request):
    return observed(request.param)["other"] | {"asked": request.param}


def test_the_runner_and_the_scheduling_are_the_ones_asked_for(seen):
    runner, scheduling = seen["asked"]
    assert seen["runner"] == runner
    assert (
        seen["module"]
        == {
            "V1": "vllm.v1.worker.cpu_model_runner",
            "V2": "vllm.v1.worker.cpu.model_runner",
        }[runner]
    )
    assert seen["step"] == {"sync": "step", "async": "step_with_batch_queue"}[scheduling]


def test_scores_are_exact_by_every_way_with_and_without_cached_tokens(seen):
    gaps = seen["scoring"]["gaps"]
    assert len(gaps) >= 11
    assert max(gaps.values()) < NATS, gaps


def test_a_prompt_without_cached_tokens_does_not_decide_the_way(seen):
    """The first one is shorter than a block; the fast way is taken from the second one on."""
    assert seen["scoring"]["ways"] == ["auto", "tail", "tail", "tail"]
    assert seen["scoring"]["fast"] == {"V1": "tail_scores", "V2": "branch_scores"}[seen["runner"]]
    assert seen["warnings"] == []


def test_scores_are_exact_beside_other_requests(seen):
    assert seen["beside_others"] < NATS


def test_scores_do_not_depend_on_the_order_of_requests(seen):
    assert seen["in_any_order"] < NATS


def test_labels_of_mixed_requests_are_exact(seen):
    assert seen["labels"]["count"] > 64
    assert seen["labels"]["gap"] < NATS


def test_constrained_answers_match_their_pattern(seen):
    assert seen["constrained"] == {"match": [True] * 4, "kinds": 4}


def test_seeded_answers_are_those_of_a_request_alone_and_cancelled_ones_leave(seen):
    assert seen["cancelled"] == {"same": True, "unfinished": 0}


def test_a_stop_text_ends_an_answer(seen):
    assert seen["stopped"] == {"right": True, "finish": "stop"}


def test_the_prefix_cache_is_read_and_emptied(seen):
    assert seen["prefixes"]["again"] > 0
    assert seen["prefixes"]["forgotten"]
    assert seen["prefixes"]["after"] == 0


def test_closing_lets_go_of_the_engine(seen):
    assert seen["released"]


def test_scores_of_preempted_requests_are_exact(others):
    assert others["preempted"]["preempted"] > 0
    assert others["preempted"]["gap"] < NATS


def test_scoring_computes_little_more_than_the_prompts(others):
    """Blocks of 32 tokens; a runner without branches asks about each action by itself."""
    assert others["computed"] <= {"V1": 1.85, "V2": 1.7}[others["asked"]]


def test_two_engines_of_a_process_answer_as_one_alone(others):
    assert others["two_at_once"] == {"same": True, "after closing one": True}


def test_scores_with_an_adapter_are_exact_and_on_a_cpu_the_base_is_not_asked(others):
    assert others["adapted"]["gap"] < NATS
    assert others["adapted"]["same revision"]
    refused = others["adapted"]["refused"]
    assert len(refused) == 3
    assert all("on a CPU the engine of" in message for message in refused)
