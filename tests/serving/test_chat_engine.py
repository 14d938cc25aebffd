"""An engine on a model whose turns end as Gemma's do: not by the tokenizer's `eos_token`."""

import math
import re

import pytest
import pytest_asyncio
from chat_folders import SHAPES, write
from runners.tiny_llama import build

from llm_serving.answers import Constraint
from llm_serving.chat import ChatFormat
from llm_serving.config import EngineConfig
from llm_serving.errors import EngineConfigError
from llm_serving.models.reading import read_tokenizer
from llm_serving.request import Message, Request, Sampling, ScoreRequest
from llm_serving.vllm_engine import VllmEngine

pytestmark = pytest.mark.slow

CHAT = (Message("system", "Play."), Message("user", "You are in a cave <eos> of 3 rooms."))
ACTIONS = ("go", "go n", "take it", "<end_of_turn>")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Its folder, and the model itself in float32, to which both ends are equally likely."""
    import torch

    folder = tmp_path_factory.mktemp("model")
    tokenizer = read_tokenizer(write(folder, "gemma"))
    network = build(folder, tokenizer)
    end, eos = tokenizer.convert_tokens_to_ids(["<end_of_turn>", "<eos>"])
    with torch.no_grad():
        network.lm_head.weight[end] = network.lm_head.weight[eos]
    network.save_pretrained(folder)
    write(folder, "gemma")
    return folder, network


@pytest_asyncio.fixture(scope="module")
async def observed(model):
    """The engine on it."""
    config = EngineConfig(
        model=str(model[0]),
        chat_template=SHAPES["gemma"]["template"],
        dtype="float32",
        context=512,
        kv_cache_gib=0.05,
        max_batch=8,
    )
    opened = VllmEngine(config)
    yield opened
    await opened.aclose()


async def test_a_score_adds_up_all_ends_of_the_model(observed, model):
    import torch

    scores = (await observed.score(ScoreRequest(CHAT, ACTIONS))).logprobs
    prompt = observed.encode(CHAT).token_ids
    ends = observed._chat.tokenizer.convert_tokens_to_ids(["<end_of_turn>", "<eos>"])
    for action, score in zip(ACTIONS, scores, strict=True):
        tokens = observed._chat.tokenizer.encode(action, split_special_tokens=True)
        assert len(tokens) == len(action)
        with torch.inference_mode():
            logits = model[1](torch.tensor([[*prompt, *tokens]])).logits[0].double()
        rows = torch.log_softmax(logits, -1)[len(prompt) - 1 :]
        ended = math.log(sum(math.exp(rows[-1, end]) for end in ends))
        own = sum(rows[i, token].item() for i, token in enumerate(tokens))
        assert score == pytest.approx(own + ended, abs=1e-3)
        assert ended == pytest.approx(rows[-1, ends[1]].item() + math.log(2))


async def test_a_free_answer_ends_where_the_template_ends_it(observed):
    end = observed._chat.tokenizer.convert_tokens_to_ids("<end_of_turn>")
    requests = [
        Request(prompt=CHAT, sampling=Sampling(temperature=1, max_tokens=200, seed=seed, stop=stop))
        for seed in range(12)
        for stop in ((), ("no such text",))
    ]
    ended = 0
    for request in requests:
        answer = await observed.generate(request)
        assert end not in answer.token_ids[:-1]
        assert "<end_of_turn>" not in answer.text
        if answer.token_ids[-1] == end:
            ended += 1
            assert answer.finish == "stop"
    assert ended


async def test_a_constrained_answer_ends_by_any_end_of_the_model(observed):
    constraint = Constraint(regex="[a-z]{1,12}", max_bytes=12)
    requests = [
        Request(prompt=CHAT, constraint=constraint, sampling=Sampling(temperature=1, seed=seed))
        for seed in range(24)
    ]
    answers = [await observed.generate(request) for request in requests]
    assert {answer.finish for answer in answers} == {"stop"}
    assert all(re.fullmatch(constraint.regex, answer.text) for answer in answers)
    assert {answer.token_ids[-1] for answer in answers} == {*observed.ends}


def test_a_backend_that_ends_answers_otherwise_is_refused(model):
    config = EngineConfig(model=str(model[0]), structured_backend="guidance")
    with pytest.raises(EngineConfigError, match=r"by <eos> alone, .* end by <end_of_turn>: take"):
        VllmEngine(config)


async def test_ends_and_a_template_of_one_s_own_are_part_of_the_identity(observed, model):
    digest = ChatFormat(model[0], template=observed.config.chat_template).digest
    assert len(digest) == 16
    assert observed.identity.engine == f"V1 auto {observed.ends} {digest}"
    assert observed.choice_tokens("go")[-1] == observed.ends[0]
