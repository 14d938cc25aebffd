"""Hashes of blocks that prompts share beside those that vLLM computes for each prompt alone."""

import random
from hashlib import sha256

import pytest

from llm_serving.vllm_arguments import prepare_environment

prepare_environment()
pytest.importorskip("vllm")

from vllm import SamplingParams  # noqa: E402
from vllm.lora.request import LoRARequest  # noqa: E402
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange  # noqa: E402
from vllm.v1.core import kv_cache_utils  # noqa: E402
from vllm.v1.request import Request  # noqa: E402

from llm_serving.block_hashes import sharing  # noqa: E402
from llm_serving.request import Message, ScoreRequest  # noqa: E402

SIZE = 4


def digest(parts):
    return sha256(repr(parts).encode()).digest()


kv_cache_utils.init_none_hash(digest)
ALONE = kv_cache_utils.get_request_block_hasher(SIZE, digest)
ADAPTERS = [None, *(LoRARequest(name, 1 + i, f"/{name}") for i, name in enumerate("ab"))]


def request(tokens, hasher, *, pictures=(), adapter=None, salt=None):
    """A request of vLLM's; pictures are (name, first token, tokens)."""
    return Request(
        request_id="0",
        prompt_token_ids=list(tokens),
        sampling_params=SamplingParams(max_tokens=16),
        pooling_params=None,
        mm_features=[
            MultiModalFeatureSpec(None, "image", name, PlaceholderRange(first, length))
            for name, first, length in pictures
        ],
        lora_request=adapter,
        cache_salt=salt,
        block_hasher=hasher,
    )


def drawn(rng):
    """What tells requests apart; all begin with one of two beginnings."""
    tokens = [rng.randrange(2)] * rng.choice((3, 8, 30)) + rng.choices(range(2), k=rng.randrange(9))
    pictures, place = [], rng.randrange(6)
    while rng.random() < 0.5 and place + 5 < len(tokens):
        pictures.append((rng.choice("pq"), place, rng.randint(1, 5)))
        place += 5 + rng.randrange(9)
    return tokens, {
        "pictures": pictures,
        "adapter": rng.choice(ADAPTERS),
        "salt": rng.choice((None, "s")),
    }


def test_hashes_are_those_of_each_request_alone():
    rng = random.Random(0)
    shared = sharing(ALONE, SIZE)
    tokens, beside = drawn(rng)
    for _ in range(3000):
        if rng.random() < 0.4:
            tokens, beside = drawn(rng)
        else:  # another ending, or something else beside the tokens
            tokens = tokens[: rng.randint(1, len(tokens))] + rng.choices(range(3), k=4)
            other = drawn(rng)[1]
            beside |= {key: other[key] for key in other if rng.random() < 0.1}
            beside["pictures"] = [
                each for each in beside["pictures"] if each[1] + each[2] <= len(tokens)
            ]
        ours, right = request(tokens, shared, **beside), request(tokens, ALONE, **beside)
        for token in rng.choices(range(3), k=rng.randrange(6)):
            ours.append_output_token_ids(token)
            right.append_output_token_ids(token)
        assert ours.block_hashes == right.block_hashes


@pytest.mark.parametrize("pictures", [(), [("p", 2, 9)]])
def test_the_prompt_of_fifteen_choices_is_hashed_once(pictures):
    hashed = []

    def counted(parts):
        hashed.append(parts)
        return digest(parts)

    shared = sharing(kv_cache_utils.get_request_block_hasher(SIZE, counted), SIZE)
    prompt = list(range(41))  # ten blocks and one token
    for choice in range(15):
        request([*prompt, 100 + choice, 0, 0], shared, pictures=pictures)
    assert len(hashed) == 10 + 15


def test_a_beginning_with_another_picture_behind_it_is_not_taken_over():
    """vLLM 0.26 would not see a picture between the blocks that are known and the last one."""
    seen = []

    def hasher(asked):
        seen.append(len(asked.block_hashes))
        return ALONE(asked)

    shared = sharing(hasher, SIZE)
    tokens = [*range(8), *[9] * 20]
    request(tokens, shared, pictures=[("p", 9, 2), ("q", 20, 4)])
    request([*tokens[:14], *range(14)], shared, pictures=[("p", 9, 2), ("q", 20, 4)])
    assert seen == [0, 0]


async def test_the_prompt_of_a_scoring_is_hashed_once(engine, monkeypatch):
    hashed = []
    hash_block = kv_cache_utils.hash_block_tokens

    def counted(digest, parent, tokens, beside):
        hashed.append(tuple(tokens))
        return hash_block(digest, parent, tokens, beside)

    monkeypatch.setattr(kv_cache_utils, "hash_block_tokens", counted)
    prompt = (Message("user", "You walk and walk and find a brass lamp. " * 12),)
    await engine.score(ScoreRequest(prompt, ("go north", "go south", "take the lamp", "wait")))
    blocks = len(engine.encode(prompt).token_ids) // engine.block_size
    assert blocks > 3
    assert len(set(hashed)) >= blocks
    assert len(hashed) < 2 * blocks
