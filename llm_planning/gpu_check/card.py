"""Checks of the machine itself and of the similarity kernels."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

from llm_planning.gpu_check.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


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
