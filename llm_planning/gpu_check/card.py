"""Checks of the machine itself, of the similarity kernels, and of room for a model of 7B."""

from __future__ import annotations

import asyncio
import io
import math
import tempfile
import time
from contextlib import closing
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING

from llm_planning.gpu_check.finding import Finding, NoEncoder, describe, set_vllm_arguments
from llm_planning.gpu_check.unweighted import SEVEN_BILLION, TINY, write_folder
from llm_serving.errors import KvCacheMemoryError
from llm_serving.request import Image, Message, Request, Sampling
from llm_serving.vllm_arguments import on_gpu
from llm_serving.vllm_engine import VllmEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

IMAGES = 4


def machine(model: str) -> Finding:  # noqa: ARG001 - nothing is opened
    """Driver, card, compiler, torch, packages: what `doctor` says."""
    import torch

    from llm_planning.commands.doctor_checks import examine

    checks = {check.name: f"{check.status}: {check.detail}" for check in examine()}
    cuda = torch.version.cuda
    right = None if cuda is None else torch.cuda.is_available()
    reason = {None: "torch is built for the CPU", False: "torch finds no GPU", True: ""}[right]
    return Finding(right, {"cuda": cuda, **checks}, reason)


def kernel(model: str) -> Finding:  # noqa: ARG001 - no model
    """Top-k search by Triton against float64, in every type, on every GPU."""
    import torch

    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if not gpus:
        return Finding(None, reason="Triton's kernels run on a GPU")
    return exactness(gpus, backend="triton")


def exactness(devices: Sequence[str], *, backend: str) -> Finding:
    """Scores, and the cosines of the rows that are found, against those of float64."""
    import numpy as np
    import torch
    from torch.nn.functional import normalize

    from llm_kernels import topk_cosine

    def error_of(queries: Tensor, stored: Tensor, weights: Tensor, k: int) -> float:
        scores, found = topk_cosine(queries, stored, k, inverse_norms=weights, backend=backend)
        cosines = normalize(queries.double().cpu()) @ normalize(stored.double().cpu()).T
        cosines[:, weights.cpu() == 0.0] = -math.inf
        answers = torch.stack((scores.cpu().double(), cosines.gather(1, found.cpu())))
        return float((answers - cosines.topk(k).values).abs().max())

    rng = np.random.default_rng(0)
    rows, asked = (
        torch.from_numpy(rng.standard_normal((count, 384)).astype(np.float32))
        for count in (20_000, 33)
    )
    errors: dict[str, float] = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        stored = rows.to(dtype)
        weights = 1 / stored.float().norm(dim=1)
        # Rows that are left out may hold anything.
        stored[::1000], weights[::1000] = math.nan, 0.0
        # Few queries and many, and rows of every type, have kernels of their own.
        for queries, k, device in product((1, len(asked)), (10, 64), devices):
            name = f"{device} {dtype} {queries} queries, k={k}"
            errors[name] = error_of(
                asked[:queries].to(device), stored.to(device), weights.to(device), k
            )
    # The best rows lie so that one place of a tile gets them all: the kernels look for more there.
    many = torch.from_numpy(rng.standard_normal((200_000, 16)).astype(np.float32))
    many[5:700:128] = many[0] + many[5:700:128] / 100
    for device in devices:
        errors[f"{device} the best rows 128 apart"] = error_of(
            many[:1].to(device), many.to(device), (1 / many.norm(dim=1)).to(device), 10
        )
    wrong = {name: error for name, error in errors.items() if not error < 1e-5}
    reason = f"scores or rows are not those of float64: {wrong}" if wrong else ""
    return Finding(not wrong, {"largest_errors": errors}, reason)


def vision_7b(model: str) -> Finding:  # noqa: ARG001 - another one
    """Qwen2.5-VL-7B as it is configured, with random weights; a tiny one on a CPU.

    Says how many tokens of KV cache there are, and how long questions about images take.
    """
    from llm_planning.model_configs import find_config

    gpu = on_gpu()
    with tempfile.TemporaryDirectory() as folder:
        try:
            write_folder(Path(folder), SEVEN_BILLION if gpu else TINY)
        except ImportError as error:
            return Finding(None, reason=f"the image processor cannot be made: {error}")
        config = find_config("qwen2.5-vl-7b-instruct").model_copy(
            update={"model": folder, "images_per_prompt": IMAGES} | ({} if gpu else _SMALL)
        )
        set_vllm_arguments(load_format="dummy")
        try:
            engine = VllmEngine(config, encoder=NoEncoder())  # type: ignore[arg-type]
        except KvCacheMemoryError as error:
            return Finding(None, reason=str(error))
        with closing(engine):
            return asyncio.run(_look(engine))


_SMALL = {
    "dtype": "float32",
    "context": 2048,
    "kv_cache_gib": 0.1,
    "max_batch": 8,
    "max_pixels": 64 * 28 * 28,
}


async def _look(engine: VllmEngine) -> Finding:
    figures = describe(engine)
    figures["kv_tokens"] = figures["blocks"] * figures["block_size"]
    read: list[int] = []
    for count in range(IMAGES + 1):
        images = tuple(_picture(i) for i in range(count))
        begun = time.perf_counter()
        answer = await engine.generate(
            Request(
                prompt=(Message("user", "What do you see?", images),),
                sampling=Sampling(max_tokens=8),
            )
        )
        figures[f"{count} images"] = {
            "seconds": time.perf_counter() - begun,
            "prompt_tokens": answer.usage.prompt_tokens,
        }
        read.append(answer.usage.prompt_tokens)
    right = all(more > less + 20 for less, more in pairwise(read))
    return Finding(right, figures, "" if right else f"images are not read: {read} tokens")


def _picture(shade: int) -> Image:
    from PIL import Image as Pillow

    file = io.BytesIO()
    Pillow.linear_gradient("L").resize((640, 480)).point(
        lambda value: (value + 40 * shade) % 256
    ).save(file, format="PNG")
    return Image(file.getvalue())
