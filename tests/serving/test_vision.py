"""Images, on a tiny random Qwen2.5-VL made on the spot.

The engine runs in a process of its own: Qwen2.5-VL's image processor needs torchvision, which is
kept away from every other process where only a build for other hardware can be had. The child asks
its questions once and prints what it saw (`vision/observe_images.py`); each test looks at a part.
"""

import importlib.util
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from importing import importing

SUPPORT = Path(__file__).parent / "vision"
ON_CPU = Path(__file__).parent / "runners" / "on_cpu.py"
KEPT_APART = Path(sys.prefix) / "vision"

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        importlib.util.find_spec("torchvision") is None and not KEPT_APART.is_dir(),
        reason=f"no torchvision, neither installed nor in {KEPT_APART}: run `make setup`",
    ),
]


def run_with_torchvision(*arguments):
    """Runs Python where torchvision can be imported, also by the processes it starts."""
    installed = importlib.util.find_spec("torchvision") is not None
    folders = [SUPPORT] if installed else [SUPPORT, KEPT_APART]
    child = subprocess.run(
        [sys.executable, *arguments],
        env=importing(*folders) | {"HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-5000:]
    return child.stdout.splitlines()


@pytest.fixture(scope="module")
def observed():
    """What the child saw: one entry for each of its questions."""
    return json.loads(run_with_torchvision(str(SUPPORT / "observe_images.py"))[-1])


def near(expected):
    return pytest.approx(expected, abs=2e-3)


def test_an_image_is_read_as_one_token_for_each_28_x_28_pixels(observed):
    """90 x 100 pixels are 3 x 4 tokens. 600 x 400 are more than `max_pixels`, 64 x 28 x 28: scaled
    down by sqrt(240,000 / 50,176) = 2.187 to 274 x 183, that is 9 x 6 whole ones. The model's own
    limit would leave them."""
    none, wide, small, both = observed["answers"]
    assert [answer["image_tokens"] for answer in (none, wide, small, both)] == [
        [],
        [54],
        [12],
        [54, 12],
    ]
    for answer in (none, wide, small, both):
        assert answer["prompt_tokens"] == answer["text_tokens"] + sum(answer["image_tokens"])
        assert answer["completion_tokens"] == 6 or answer["finish"] == "stop"
    assert wide["text_tokens"] == small["text_tokens"] == none["text_tokens"] + 2  # its two marks


def test_another_image_is_answered_otherwise_and_the_same_one_alike(observed):
    likelihoods = observed["likelihoods"]
    assert likelihoods["wide again"] == near(likelihoods["wide"])
    for likelihood, other in zip(likelihoods["wide"], likelihoods["other wide"], strict=True):
        assert abs(likelihood - other) > 0.05


def test_images_are_read_in_their_order(observed):
    likelihoods = observed["likelihoods"]
    for likelihood, other in zip(
        likelihoods["wide, small"], likelihoods["small, wide"], strict=True
    ):
        assert abs(likelihood - other) > 0.05


@pytest.mark.parametrize("prompt", ["wide", "small, wide", "two turns"])
def test_scores_about_images_are_those_that_transformers_computes(observed, prompt):
    assert observed["likelihoods"][prompt] == near(observed["peer_likelihoods"][prompt])


def test_both_ways_of_scoring_agree_about_images(observed):
    ways = observed["both_ways"]
    assert ways["tail"] == near(ways["trie"])
    assert ways["warm tail"] == near(ways["trie"])
    assert ways["trie"] == near(observed["likelihoods"]["small, wide"])


@pytest.mark.parametrize("offset", ["31", "0", "1"])
def test_both_ways_agree_around_the_end_of_a_block(observed, offset):
    """The prompt's length modulo the block's, counted with the image's tokens."""
    ways = observed["block_offsets"][offset]
    assert ways["tail"] == near(ways["trie"])


@pytest.mark.slow
def test_a_gpu_s_runner_gives_the_scores_that_transformers_computes():
    """vLLM's second model runner, scheduled asynchronously."""
    questions = ("likelihoods", "peer_likelihoods", "block_offsets", "together")
    lines = run_with_torchvision(ON_CPU, "V2", "async", SUPPORT / "observe_images.py", *questions)
    observed = json.loads(lines[-1])
    for prompt, expected in observed["peer_likelihoods"].items():
        assert observed["likelihoods"][prompt] == near(expected)
    for ways in observed["block_offsets"].values():
        assert ways["tail"] == near(ways["trie"])
    assert observed["together"]["batched"] == observed["together"]["alone"]


def test_the_prefix_cache_tells_images_apart(observed):
    cache = observed["prefix_cache"]
    block = cache["block_size"]
    assert cache["first"] == 0
    assert cache["again"] == (cache["prompt_tokens"] - 1) // block * block
    assert cache["other_prompt_tokens"] == cache["prompt_tokens"]
    assert cache["other"] == cache["before_image"] // block * block
    assert 0 < cache["other"] < cache["again"]


def test_prompts_with_and_without_images_share_a_batch(observed):
    assert observed["together"]["batched"] == observed["together"]["alone"]


def test_constrained_answers_about_an_image_parse(observed):
    steps = observed["constrained"]
    assert {step["finish"] for step in steps} == {"stop"}
    assert {step["verb"] for step in steps} <= {"open", "take", "go"}
    assert all(1 <= step["times"] <= 9 for step in steps)
    assert len({(step["verb"], step["times"]) for step in steps}) > 1


@pytest.mark.parametrize("call", ["too many", "too many, scored"])
def test_more_images_than_configured_are_refused_with_both_numbers(observed, call):
    refusal = observed["refusals"][call]
    assert refusal["type"] == "TooManyImagesError"
    assert refusal["ours"]
    assert (refusal["images"], refusal["allowed"]) == (3, 2)
    assert "3 images" in refusal["message"]
    assert "allows 2" in refusal["message"]
    assert "images_per_prompt" in refusal["message"]


@pytest.mark.parametrize("call", ["long", "long, scored"])
def test_a_prompt_that_its_image_makes_too_long_is_refused_with_its_real_length(observed, call):
    """54 tokens take the place of the one that was sent."""
    refusal, refusals = observed["refusals"][call], observed["refusals"]
    assert refusal["type"] == "PromptTooLongError"
    assert refusal["prompt_tokens"] + refusal["answer_tokens"] == refusals["context"] + 53
    assert refusal["prompt_tokens"] >= refusals["long, as sent"] + 53
    assert str(refusal["prompt_tokens"]) in refusal["message"]


@pytest.mark.parametrize("caller", ["waiting", "late"])
def test_a_closed_engine_fails_its_callers(observed, caller):
    """Tested here, where an engine of its own is open already: loading another takes seconds."""
    assert observed["closing"][caller]["type"] == "EngineStoppedError"


# Pictures that domains draw -----------------------------------------------------------------------


def test_the_response_cache_tells_images_apart(observed):
    assert observed["response_cache"] == [0, 1, 0]


@pytest.mark.parametrize("see", ["picture", "both"])
def test_the_policy_of_a_home_follows_what_its_picture_shows(observed, see):
    """The texts of the questions are the same; only with words alone so are the answers."""
    policy = observed["roles"]["policy"]
    assert all(logprobs == near(policy["words"][0]) for logprobs in policy["words"])
    for logprobs, other in itertools.combinations(policy[see], 2):
        assert logprobs != near(other)


@pytest.mark.parametrize("see", ["picture", "both"])
def test_the_world_model_follows_what_its_picture_shows(observed, see):
    """With a picture alone, the texts of all questions are the same."""
    for logprobs, other in itertools.combinations(observed["roles"]["world model"][see], 2):
        assert logprobs != near(other)


def test_a_stuck_controller_is_described_by_its_picture(observed):
    captions = observed["roles"]["captions"]
    assert captions["stuck"] == captions["stuck again"] != captions["free"]


def test_an_episode_is_planned_from_words_and_pictures(observed):
    assert observed["roles"]["episode"] == {"moves": 2}
