"""Asks vLLM, without a GPU, what it makes of each model configuration on one.

    python scripts/vllm_configurations.py [FOLDER ...] [--json]

Each FOLDER is an unpacked wheel of vLLM for CUDA, of which only the Python files are read:

    pip download --no-deps vllm==0.33.0
    unzip -q -d 0.33.0 vllm-0.33.0-*.whl '*.py' '*/METADATA'

Without one, the installed vLLM is asked. Every configuration in configs/models and some variants go
through `create_engine_config`, vLLM's own validation, on a platform that says it is CUDA. Neither
weights nor a network are needed: of a model there are its published shape and a tokenizer of one
word. Nothing runs on the pretended GPU: this shows which arguments vLLM takes and what it makes of
them, not that a model fits.

The exit code is 1 if vLLM takes what should be refused, or refuses anything else.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.abc
import importlib.machinery
import json
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from llm_serving.config import EngineConfig

CAPABILITY: Final = (8, 9)
"""Of the pretended GPUs: an RTX 4090 or an L40."""

GPUS: Final = 2
MEMORY: Final = 24 << 30

REFUSED: Final = frozenset({"7B, block size 24"})
"""The variants that must not be taken."""

_VISION: Final = {
    "depth": 32,
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "num_heads": 16,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31],
    "tokens_per_second": 2,
}
_IMAGE_TOKENS: Final = {
    "vision_start_token_id": 151652,
    "vision_end_token_id": 151653,
    "image_token_id": 151655,
    "video_token_id": 151656,
}
_SEVEN: Final = {
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
_THREE: Final = _SEVEN | {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}
_MROPE: Final = {
    "max_position_embeddings": 128000,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
}
_AWQ: Final = {
    "quant_method": "awq",
    "bits": 4,
    "group_size": 128,
    "version": "gemm",
    "zero_point": True,
    "modules_to_not_convert": ["visual"],
}


def _seeing(text: dict[str, Any], **more: object) -> dict[str, Any]:
    return {
        "model_type": "qwen2_5_vl",
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "torch_dtype": "bfloat16",
        **text,
        **_MROPE,
        **_IMAGE_TOKENS,
        "vision_config": _VISION | {"out_hidden_size": text["hidden_size"]},
        **more,
    }


SHAPES: Final[dict[str, dict[str, Any]]] = {
    "Qwen/Qwen2.5-7B-Instruct": {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "torch_dtype": "bfloat16",
        "max_position_embeddings": 32768,
        **_SEVEN,
    },
    "Qwen/Qwen2.5-VL-3B-Instruct": _seeing(_THREE),
    "Qwen/Qwen2.5-VL-7B-Instruct": _seeing(_SEVEN),
    "Qwen/Qwen2.5-VL-7B-Instruct-AWQ": _seeing(
        _SEVEN, torch_dtype="float16", quantization_config=_AWQ
    ),
    "microsoft/Phi-4-mini-instruct": {
        "model_type": "phi3",
        "architectures": ["Phi3ForCausalLM"],
        "torch_dtype": "bfloat16",
        "vocab_size": 200064,
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_hidden_layers": 32,
        "num_attention_heads": 24,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "partial_rotary_factor": 0.75,
        # The factors of positions beyond 4,096 are others; only their number is read here.
        "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [1.0] * 48},
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-5,
        "pad_token_id": 199999,
        "bos_token_id": 199999,
        "eos_token_id": 199999,
        "tie_word_embeddings": True,
    },
    "smollm2-135m-instruct": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "torch_dtype": "bfloat16",
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
        "rope_theta": 100000.0,
        "tie_word_embeddings": True,
    },
}
"""The config.json of each model, as published, as far as an engine's configuration reads it."""


class _Hollow(types.ModuleType):
    """A module whose every name is there, and nothing behind it."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for what is imported and not used here, where nothing else has it.

    That is vLLM's compiled parts, which an unpacked wheel lacks, and torchvision.
    """

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        compiled = package.startswith("vllm") and name.startswith("_") and "C" in name
        if compiled or fullname.startswith(("vllm.third_party.flashmla", "torchvision")):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=not compiled)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Hollow(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _always(answer: object) -> Callable[..., object]:
    return lambda *_, **__: answer


def pretend_cuda() -> None:
    """Makes vLLM take this machine for one with NVIDIA GPUs, before anything else imports it."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # else vLLM wants a driver that Triton can use
    import torch
    from transformers.utils import is_torchvision_available

    is_torchvision_available()  # which remembers what it found before there was a stand-in
    sys.meta_path.append(_Missing())
    torch.cuda.is_available = _always(True)
    torch.cuda.device_count = _always(GPUS)
    torch.accelerator.device_count = _always(GPUS)
    from llm_serving import vllm_arguments

    vllm_arguments.prepare_environment()
    vllm_arguments.on_gpu = _always(True)
    import vllm.platforms
    from vllm.platforms.cuda import CudaPlatformBase
    from vllm.platforms.interface import DeviceCapability

    answers = {
        "get_device_capability": DeviceCapability(*CAPABILITY),
        "get_device_name": "pretended",
        "get_device_total_memory": MEMORY,
        "device_count": GPUS,
        "num_compute_units": 128,
        "is_fully_connected": False,
        "log_warnings": None,
    }
    methods = {name: classmethod(_always(answer)) for name, answer in answers.items()}
    pretended = type("Pretended", (CudaPlatformBase,), methods)
    vllm.platforms._current_platform = pretended()
    vllm.platforms.vllm_version_matches_substr = _always(False)  # though it may be the CPU's
    from vllm import _custom_ops
    from vllm.model_executor.models import registry

    for name in dir(_custom_ops):
        if "supports" in name:  # asks a kernel, of which there is none
            setattr(_custom_ops, name, _always(False))
    registry._run_in_subprocess = lambda inspect: inspect()


def variants() -> Iterator[tuple[str, EngineConfig, dict[str, Any]]]:
    """The configurations that come with this project, and others that a user is likely to write.

    Yields:
        A name, the configuration, and further arguments of `engine_arguments`.
    """
    from llm_planning.model_configs import config_folder
    from llm_serving.config import EngineConfig, load_config

    shipped = {path.stem: load_config(path) for path in sorted(config_folder().glob("*.yaml"))}
    for name, config in shipped.items():
        yield name, config, {}
    seven = shipped["qwen2.5-vl-7b-instruct"]
    changes: dict[str, dict[str, Any]] = {
        "no images": {"images_per_prompt": 0},
        "max_pixels": {"max_pixels": 1280 * 28 * 28},
        "context auto": {"context": None},
        "fp8 KV cache": {"kv_dtype": "fp8"},
        "two GPUs": {"devices": (0, 1)},
        "on the second GPU": {"devices": (1,)},
        "eager": {"eager": True},
        "block size 32": {"block_size": 32},
        "one sequence": {"max_batch": 1},
        "xgrammar": {"structured_backend": "xgrammar"},
    }
    for name, change in changes.items():
        yield f"7B, {name}", seven.model_copy(update=change), {}
    yield "7B, two adapters", seven, {"ranks": [16, 8]}
    yield "7B, beside another", seven, {"beside": ["another"]}
    yield "a hub id alone", EngineConfig(model="Qwen/Qwen2.5-7B-Instruct"), {}
    yield "7B, block size 24", seven.model_copy(update={"block_size": 24}), {}


def ask() -> dict[str, Any]:
    """What vLLM makes of each variant, or why it is refused; call it once in a process."""
    pretend_cuda()
    import vllm
    from vllm import EngineArgs

    from llm_serving.errors import ServingError
    from llm_serving.vllm_arguments import engine_arguments

    known = frozenset(field.name for field in dataclasses.fields(EngineArgs))
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for name, config, more in variants():
            folder = write_model(config.model, Path(place))
            try:
                arguments = engine_arguments(config, folder, known=known, **more)
                rows.append({"name": name} | derived(EngineArgs(**arguments)))
            except (ServingError, ValueError, RuntimeError) as error:
                message = " ".join(str(error).split())
                rows.append({"name": name, "refused": f"{type(error).__name__}: {message[:300]}"})
    return {"vllm": vllm.__version__, "rows": rows}


def write_model(model: str, place: Path) -> Path:
    """A folder that stands for a model: all that an engine's configuration reads of it."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    from llm_serving.models.catalogue import TAUGHT

    shape = SHAPES[TAUGHT[model].base.name if model in TAUGHT else model]
    folder = place / model.replace("/", "--")
    if not folder.is_dir():
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(shape))
        words = Tokenizer(WordLevel({"word": 0}, unk_token="word"))
        PreTrainedTokenizerFast(tokenizer_object=words, eos_token="word").save_pretrained(folder)
    return folder


def derived(arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - vLLM's EngineArgs
    """What vLLM makes of its arguments; `kv_bytes` are those of a token on each GPU."""
    made = arguments.create_engine_config()
    model, cache, scheduler = made.model_config, made.cache_config, made.scheduler_config
    parallel = made.parallel_config
    size = 1 if cache.cache_dtype == "fp8" else model.dtype.itemsize
    heads = model.get_num_layers(parallel) * model.get_num_kv_heads(parallel)
    images = model.get_multimodal_config() if model.is_multimodal_model else None
    return {
        "runner": "V2" if made.use_v2_model_runner else "V1",
        "async": scheduler.async_scheduling,
        "graphs": str(made.compilation_config.cudagraph_mode).rpartition(".")[2],
        "context": "auto" if model.original_max_model_len == -1 else model.max_model_len,
        "sequences": scheduler.max_num_seqs,
        "tokens": scheduler.max_num_batched_tokens,
        "block": cache.block_size,
        "dtype": str(model.dtype).removeprefix("torch."),
        "quantised": model.quantization or "",
        "kv_dtype": cache.cache_dtype,
        "kv_bytes": 2 * heads * model.get_head_size() * size,
        "share": cache.gpu_memory_utilization,
        "gpus": parallel.assigned_physical_gpu_ids or [0],
        "adapters": made.lora_config.max_loras if made.lora_config else 0,
        "images": images.get_limit_per_prompt("image") if images else 0,
        "max_pixels": (images.mm_processor_kwargs or {}).get("max_pixels", 0) if images else 0,
    }


def show(version: str, rows: Sequence[dict[str, Any]]) -> None:
    """Prints the answers of one vLLM as a table."""
    taken = [row for row in rows if "refused" not in row]
    table = [[*taken[0]], *([str(value) for value in row.values()] for row in taken)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    print(f"vLLM {version}")
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
    for row in rows:
        if "refused" in row:
            print(f"{row['name']}: {row['refused']}")


def main() -> int:
    """Asks each vLLM in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--json", action="store_true", help="print the rows of one vLLM as JSON")
    chosen = parser.parse_args()
    if chosen.json:
        print(json.dumps(ask()))
        return 0
    wrong = False
    for folder in chosen.folders or [None]:
        paths = [str(folder.resolve())] if folder else []
        paths += filter(None, [os.environ.get("PYTHONPATH")])
        process = subprocess.run(
            [sys.executable, __file__, "--json"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        measured = json.loads(process.stdout.splitlines()[-1])
        show(measured["vllm"], measured["rows"])
        wrong |= {row["name"] for row in measured["rows"] if "refused" in row} != REFUSED
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
