"""Requests that name an adapter: who answers, what a CPU refuses, and under which keys."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from lora import with_adapter, write_adapter

from llm_serving.cache import CachedEngine, request_key
from llm_serving.config import EngineConfig, load_config
from llm_serving.engine import MeteredEngine
from llm_serving.errors import AdapterError
from llm_serving.models import Card, resolve
from llm_serving.request import (
    AdapterIdentity,
    EncodedPrompt,
    Message,
    ModelIdentity,
    Request,
    Sampling,
    ScoreRequest,
    Taught,
)
from llm_serving.scripted import ScriptedEngine
from llm_serving.stores import ResponseCache
from llm_serving.vllm_adapter import lora_requests
from llm_serving.vllm_arguments import engine_arguments, on_gpu
from llm_serving.vllm_engine import VllmEngine

BASE = "smollm2-135m-instruct"
TAUGHT = Taught(roles=("propose",), words_sha256=("ab" * 32,))
ONE = AdapterIdentity(name="one", revision="r1+a1", taught=TAUGHT)
TWO = AdapterIdentity(name="two", revision="r1+a2")
PLAIN = ModelIdentity(name="base", revision="r1", dtype="none")
ADAPTED = replace(PLAIN, adapters=(ONE, TWO))
PROMPT = EncodedPrompt((1, 2, 3))


# --- identity and keys ---------------------------------------------------------------------------


def test_an_adapter_s_identity():
    assert ADAPTED.answering(None) is ADAPTED
    adapted = ADAPTED.answering("one")
    assert (adapted.name, adapted.revision, adapted.dtype, adapted.taught) == (
        "base+one",
        "r1+a1",
        "none",
        TAUGHT,
    )
    for identity, message in ((ADAPTED, "only one, two"), (PLAIN, "only none"), (adapted, "none")):
        with pytest.raises(AdapterError, match=message):
            identity.answering("three")


def test_an_adapter_is_in_every_key_and_its_absence_in_none():
    def keys(identity, adapter):
        request = Request(prompt=PROMPT, adapter=adapter)
        return (
            request_key(identity, PROMPT, request),
            request_key(identity, PROMPT, ScoreRequest(PROMPT, ("a",), adapter=adapter)),
            request_key(
                identity, PROMPT, ScoreRequest(PROMPT, ("a",), kind="labels", adapter=adapter)
            ),
        )

    assert keys(PLAIN, None) == keys(ADAPTED, None)
    assert len({*keys(ADAPTED, None), *keys(ADAPTED, "one"), *keys(ADAPTED, "two")}) == 9
    renamed = replace(PLAIN, adapters=(replace(ONE, name="another name"),))
    assert keys(renamed, "another name") == keys(ADAPTED, "one")
    merged = replace(PLAIN, revision="r1+a1")
    assert keys(merged, None) == keys(ADAPTED, "one")
    changed = replace(PLAIN, adapters=(replace(ONE, revision="r1+b"),))
    assert not {*keys(changed, "one")} & {*keys(ADAPTED, "one")}


def speaking():
    return ScriptedEngine(
        lambda request: request.adapter or "base",
        score=lambda _, choices: [0.0] * len(choices),
        identity=ADAPTED,
    )


async def test_a_cached_engine_keeps_the_answers_of_adapters_apart(tmp_path):
    inner = speaking()
    cache = ResponseCache(tmp_path / "responses.sqlite")
    engine = MeteredEngine(CachedEngine(inner, cache))
    for replayed in (0, 1):
        for adapter in (None, "one", "two"):
            answer = await engine.generate(Request(prompt="Who?", adapter=adapter))
            assert (answer.text, answer.usage.replayed) == (adapter or "base", replayed)
            for kind in ("answers", "labels"):
                scored = await engine.score(
                    ScoreRequest("Who?", ("a",), kind=kind, adapter=adapter)
                )
                assert scored.usage.replayed == replayed
    assert len(inner.requests) == 3
    assert {share.name for share in cache.stats().shares} == {"base", "base+one", "base+two"}
    # The engine of a role that always means an adapter shares the answers.
    alone = CachedEngine(MeteredEngine(inner, adapter="one"), cache)
    answer = await alone.generate(Request(prompt="Who?"))
    assert (answer.text, answer.usage.replayed) == ("one", 1)
    cache.close()


@pytest.mark.parametrize(
    "wrap", [lambda engine: engine, MeteredEngine, lambda e: MeteredEngine(e, adapter="one")]
)
async def test_an_unknown_adapter_is_refused_in_one_line(wrap):
    engine = wrap(speaking())
    for asked in (
        engine.generate(Request(prompt="Who?", adapter="three")),
        engine.score(ScoreRequest("Who?", ("a",), adapter="three")),
        engine.score(ScoreRequest("Who?", ("a",), adapter="three", kind="labels")),
    ):
        with pytest.raises(AdapterError, match="has no adapter 'three'") as error:
            await asked
        assert "\n" not in str(error.value)


async def test_an_engine_that_means_one_adapter():
    inner = speaking()
    engine = MeteredEngine(inner, adapter="two")
    assert engine.identity == ADAPTED.answering("two")
    assert (await engine.generate(Request(prompt="Who?"))).text == "two"
    await engine.score(ScoreRequest("Who?", ("a",)))
    await engine.aclose()
    assert (await inner.generate(Request(prompt="Who?"))).text == "base"
    with pytest.raises(AdapterError):
        MeteredEngine(inner, adapter="three")


# --- configurations ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base():
    return resolve(BASE)


@pytest.fixture(scope="module")
def adapters(base, tmp_path_factory):
    """Two adapters of the bundled model; the first has a card."""
    folder = tmp_path_factory.mktemp("adapters")
    card = Card(
        base=BASE,
        base_revision=base.revision,
        domain="minecraft",
        roles=("dynamics",),
        words_sha256=("ab" * 32,),
    )
    return (
        write_adapter(base.path, folder / "one", seed=1, size=0.05, card=card),
        write_adapter(base.path, folder / "two", seed=2, rank=9),
    )


def test_a_configuration_holds_the_content_of_its_adapters(adapters, tmp_path):
    plain = EngineConfig(model=BASE)
    config = EngineConfig(model=BASE, adapters={"one": str(adapters[0])})
    written = config.model_dump(mode="json")
    assert len(written["adapters_sha256"]["one"]) == 64
    assert EngineConfig.model_validate(written) == config
    assert len({plain, config, EngineConfig.model_validate(written)}) == 2
    written["adapters"]["one"] = str(adapters[1])
    with pytest.raises(AdapterError, match="the adapter 'one' of smollm2-135m-instruct is not the"):
        EngineConfig.model_validate(written)
    file = tmp_path / "mine.yaml"
    file.write_text(f"model: {BASE}\nadapters:\n  one: {tmp_path / 'missing'}\n")
    with pytest.raises(AdapterError, match=r"there is no adapter .*missing: name a folder"):
        load_config(file)


def test_vllm_is_told_of_all_adapters_at_once(adapters):
    known = frozenset({"enable_lora", "max_loras", "max_lora_rank"})
    config = EngineConfig(model=BASE)
    whole = frozenset(engine_arguments(config, Path("x"), known=frozenset(_names())))
    assert not known & whole
    arguments = engine_arguments(config, Path("x"), ranks=[4, 9], known=frozenset(_names()))
    assert [arguments[key] for key in ("enable_lora", "max_loras", "max_lora_rank")] == [
        True,
        2,
        16,
    ]


def _names():
    import dataclasses

    from vllm import EngineArgs

    return (field.name for field in dataclasses.fields(EngineArgs))


def test_vllm_reads_the_folders_and_keeps_their_prefixes_apart(adapters):
    from vllm.config.lora import LoRAConfig
    from vllm.lora.peft_helper import PEFTHelper
    from vllm.v1.core.kv_cache_utils import generate_block_hash_extra_keys

    from llm_serving.models import read_adapter

    read = {"b": read_adapter(adapters[1]), "a": read_adapter(adapters[0])}
    loras = lora_requests(read)
    assert {name: lora.lora_int_id for name, lora in loras.items()} == {"a": 1, "b": 2}
    for name, request in loras.items():
        helper = PEFTHelper.from_local_dir(request.lora_path, max_position_embeddings=8192)
        helper.validate_legal(LoRAConfig(max_lora_rank=16, max_loras=2))
        assert helper.vllm_lora_scaling_factor == read[name].alpha / read[name].rank

    class Asked:
        mm_features, cache_salt, prompt_embeds = (), None, None

    def block_key(lora):
        asked = Asked()
        asked.lora_request = lora
        return generate_block_hash_extra_keys(asked, 0, 32, 0)[0]

    # The same name with other content is another adapter, also to the prefix cache.
    changed = lora_requests({"a": replace(read["a"], revision="changed")})["a"]
    keys = [block_key(lora) for lora in (None, loras["a"], loras["b"], changed)]
    assert len(set(map(str, keys))) == 4


# --- the real engine -----------------------------------------------------------------------------

CHATS = tuple(
    (Message("system", "Answer in a few words."), Message("user", question))
    for question in ("What is the capital of France?", "Name three fruits.", "How are you?")
)
GREEDY = Sampling(max_tokens=12)


def greedy(model, engine, chat):
    """What transformers writes, one token after the other."""
    tokens = list(engine.encode(chat).token_ids)
    written = []
    with torch.no_grad():
        while len(written) < GREEDY.max_tokens and written[-1:] != [2]:
            logits = model(torch.tensor([tokens + written])).logits[0, -1]
            written.append(int(logits.argmax()))
    return tuple(written)


def config_of(*folders):
    return EngineConfig(
        model=BASE,
        dtype="float32",
        context=1024,
        kv_cache_gib=0.25,
        adapters={folder.name: str(folder) for folder in folders},
    )


def from_transformers(base):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(base.path, dtype=torch.float32)


def test_a_cpu_refuses_several_adapters_in_one_engine(adapters):
    if on_gpu():
        pytest.skip("a GPU serves them together")
    with pytest.raises(AdapterError, match=r"has 2 adapters \(one, two\), and on a CPU"):
        VllmEngine(config_of(*adapters))


@pytest.mark.slow
@pytest.mark.skipif(not on_gpu(), reason="a CPU serves merged adapters, one an engine")
async def test_adapters_in_one_batch_answer_as_alone(adapters, base):
    opened = await asyncio.to_thread(VllmEngine, config_of(*adapters))
    try:
        asked = [
            Request(prompt=chat, sampling=GREEDY, adapter=adapter)
            for adapter in (None, "one", "two")
            for chat in CHATS
        ]
        alone = []
        for request in asked:
            await opened.forget_prefixes()
            alone.append((await opened.generate(request)).token_ids)
        await opened.forget_prefixes()
        together = await asyncio.gather(*map(opened.generate, asked))
        assert [answer.token_ids for answer in together] == alone
        # The cache is warm with the blocks of every adapter now: none may read another's.
        again = await asyncio.gather(*map(opened.generate, reversed(asked)))
        assert [answer.token_ids for answer in reversed(again)] == alone
        for adapter, folder in zip((None, "one", "two"), (None, *adapters), strict=True):
            model = from_transformers(base)
            reference = model if folder is None else with_adapter(model, folder)
            place = 3 * (None, "one", "two").index(adapter)
            assert alone[place] == greedy(reference, opened, CHATS[0])
    finally:
        await opened.aclose()
