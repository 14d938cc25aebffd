"""How the models of one run share GPUs."""

import logging

import numpy as np
import pytest
from safetensors.numpy import save_file

from llm_serving import gpu_sharing
from llm_serving.config import EngineConfig
from llm_serving.errors import EngineConfigError, KvCacheMemoryError
from llm_serving.gpu_sharing import ENCODER_BYTES, Place, place, share_gpus, weight_bytes
from llm_serving.vllm_arguments import GIB, SHARE_VARIABLE

SEVEN, SMALL = int(15.4 * GIB), int(0.25 * GIB)


@pytest.fixture(autouse=True)
def whole(monkeypatch):
    monkeypatch.delenv(SHARE_VARIABLE)


def config(name="m", **keys):
    return EngineConfig(model=name, **keys)


def shares(models, weights, gib=80):
    return [
        spot.config.memory_share for spot in place(models, weights, gpu_bytes=lambda _: gib * GIB)
    ]


@pytest.mark.parametrize("gib", [24, 48, 80])
def test_models_that_would_not_fit_together_divide_the_gpu_by_their_sizes(gib):
    large, small = shares([config("large"), config("small")], [SEVEN, SMALL], gib)
    assert 0.9 - 0.003 <= large + small + ENCODER_BYTES / GIB / gib <= 0.9
    assert large * gib > 15.4 + 2
    assert small * gib > 0.25 + 0.3
    assert large > 3 * small


def test_equal_models_get_equal_shares():
    first, second, three = shares([config("a"), config("b"), config("c")], [SMALL] * 3)
    assert first == second == three == pytest.approx((0.9 - 1 / 80) / 3, abs=0.001)


def test_shares_that_fit_are_left_as_they_were_configured():
    models = [config("a", memory_share=0.5), config("b", memory_share=0.3)]
    assert shares(models, [SEVEN, SMALL]) == [0.5, 0.3]
    # 0.02 more would be the encoder's.
    models = [config("a", memory_share=0.5), config("b", memory_share=0.4)]
    assert sum(shares(models, [SEVEN, SMALL])) < 0.9 - 1 / 80
    assert all(
        share <= most
        for share, most in zip(shares(models, [SEVEN, SMALL]), [0.5, 0.4], strict=True)
    )


def test_a_fixed_kv_cache_is_a_share_of_its_own_and_the_rest_is_divided():
    fixed, other = shares([config("fixed", kv_cache_gib=24), config("other")], [SEVEN, SMALL])
    assert fixed == pytest.approx((15.4 + 24 + 2) / 80, abs=0.001)
    assert fixed + other == pytest.approx(0.9 - 1 / 80, abs=0.002)
    both = [config("a", kv_cache_gib=2), config("b", kv_cache_gib=2)]
    assert shares(both, [SMALL] * 2) == [pytest.approx(4.25 / 80, abs=0.001)] * 2
    with pytest.raises(
        KvCacheMemoryError, match=r"the fixed KV caches of a 41\.4 GiB, b 41\.4 GiB"
    ):
        shares([config("a", kv_cache_gib=24), config("b", kv_cache_gib=24)], [SEVEN] * 2)


def test_a_share_below_a_fixed_kv_cache_s_need_stays():
    fixed = config("a", kv_cache_gib=24, memory_share=0.3)
    assert shares([fixed, config("b", memory_share=0.3)], [SEVEN, SMALL]) == [0.3, 0.3]
    low, beside = shares([fixed, config("b", memory_share=0.55)], [SEVEN, SMALL])
    assert low == 0.3
    assert beside == pytest.approx(0.9 - 1 / 80 - (15.4 + 24 + 2) / 80, abs=0.002), "what is left"


def test_the_environment_lowers_the_whole(monkeypatch):
    monkeypatch.setenv(SHARE_VARIABLE, "0.15")
    assert sum(shares([config("a"), config("b")], [SMALL] * 2)) <= 0.15 - 1 / 80


def test_weights_that_do_not_fit_together_are_refused_with_their_sizes():
    models = [config("one"), config("two")]
    with pytest.raises(KvCacheMemoryError) as caught:
        shares(models, [SEVEN, SEVEN], 24)
    assert str(caught.value) == (
        "GPU 0 has 20.6 GiB for models, too little for the weights of one 15.4 GiB, two 15.4 GiB "
        "together: take smaller ones, or move one to another GPU (`devices`)"
    )


def test_a_model_on_another_gpu_shares_nothing():
    models = [config("one"), config("two", devices=(1,))]
    assert place(models, [SEVEN, SEVEN], gpu_bytes=lambda _: 24 * GIB) == [
        Place(models[0]),
        Place(models[1]),
    ]


def test_a_model_on_two_gpus_shares_the_one_that_another_names():
    models = [config("wide", devices=(0, 1)), config("small", devices=(1,))]
    wide, small = place(models, [SEVEN, SMALL], gpu_bytes=lambda _: 24 * GIB)
    # Its two parts are equal, so the smaller share counts; GPU 1 has no encoder.
    assert wide.config.memory_share + small.config.memory_share == pytest.approx(0.9, abs=0.002)
    assert wide.beside == (
        f"small ({small.config.memory_share:.2f} of GPU 1)",
        gpu_sharing._ENCODER,
    )
    assert small.beside == (f"wide ({wide.config.memory_share:.2f} of GPU 0, 1)",)


@pytest.fixture
def gpus(monkeypatch, tmp_path):
    """Two GPUs of 80 GiB, and models in folders."""
    import torch

    monkeypatch.setattr(gpu_sharing, "on_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(gpu_sharing, "_gpu_bytes", lambda _: 80 * GIB)
    for name, size in (("large", SEVEN), ("small", SMALL)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        with (folder / "model.safetensors").open("wb") as file:
            file.write((2).to_bytes(8, "little") + b"{}")
            file.truncate(size)  # takes no room on the disk
    return lambda name, **keys: config(str(tmp_path / name), **keys)


def test_who_holds_what_is_logged_once(gpus, caplog):
    with caplog.at_level(logging.WARNING):
        large, none, small = share_gpus([gpus("large"), None, gpus("small")])
    assert none == Place(None)
    (record,) = caplog.records
    message = record.getMessage()
    assert f"({large.config.memory_share:.2f} of GPU 0)" in message
    assert f"({small.config.memory_share:.2f} of GPU 0)" in message
    assert message.endswith("beside the encoder (at most 1.0 GiB)")
    assert large.config.memory_share > 0.7
    assert large.beside[0].startswith(small.config.model)


def test_one_model_and_models_of_a_cpu_keep_their_shares(gpus, caplog, monkeypatch):
    alone = [gpus("large"), None]
    assert share_gpus(alone) == [Place(alone[0]), Place(None)]
    monkeypatch.setattr(gpu_sharing, "on_gpu", lambda: False)
    both = [gpus("large"), gpus("small")]
    assert share_gpus(both) == [Place(both[0]), Place(both[1])]
    assert not caplog.records


def test_a_gpu_that_is_not_there_is_named(gpus):
    with pytest.raises(EngineConfigError, match=r"devices=\[2\] of .*small: the numbers"):
        share_gpus([gpus("large"), gpus("small", devices=(2,))])


def test_the_size_of_a_model_is_that_of_its_weights(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert weight_bytes(tmp_path, "auto") == 0
    (tmp_path / "pytorch_model.bin").write_bytes(b"123")
    assert weight_bytes(tmp_path, "float32") == 3
    for part in (1, 2):
        (tmp_path / f"model-{part}.safetensors").write_bytes(b"12345")
    assert weight_bytes(tmp_path, "auto") == 10


def test_weights_that_are_converted_have_their_size_on_the_device(tmp_path):
    file = tmp_path / "model.safetensors"
    tensors = {"a": np.zeros((30, 5), np.float16), "b": np.zeros(7, np.int32)}
    save_file(tensors, file)
    size = file.stat().st_size
    for dtype, grown in {"auto": 0, "float16": 0, "bfloat16": 0, "float32": 30 * 5 * 2}.items():
        assert weight_bytes(tmp_path, dtype) == size + grown
