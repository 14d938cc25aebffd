"""Every kernel that an index launches, compiled for six kinds of GPUs without one."""

import multiprocessing
import re
import subprocess
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from llm_kernels import triton_search

# Opt-in maximum of H100, of A100 and B200, and of GeForce RTX 30, 40 and 50.
HOPPER = {90: 232448}
SERVERS = {80: 166912, 100: 232448}
GEFORCE = {86: 101376, 89: 101376, 120: 101376}
DTYPES = {"fp16": 2, "bf16": 2, "fp32": 4}
CONSTANTS = ("D", "K", "SLOTS", "PARTS", "STREAMS", "QUERIES", "ROWS", "CHUNK", "STAGES")


@dataclass(frozen=True)
class Wanted:
    capability: int
    dtype: str
    dimension: int
    k: int
    shape: triton_search.Shape | None

    def __str__(self):
        work = "merge" if self.shape is None else "stream" if self.shape.streams else "gemm"
        return f"{work} sm_{self.capability} {self.dtype} D={self.dimension} k={self.k}"


@dataclass(frozen=True)
class Built:
    spilled_bytes: int
    shared_bytes: int
    asynchronous_copies: int
    tensor_core_instructions: int


def wanted(shared_bytes):
    cases = [("fp16", 384, 1, 10), ("fp16", 384, 32, 10), ("fp16", 384, 512, 10)]
    cases += [("fp32", 384, 1, 10), ("fp32", 384, 512, 10), ("bf16", 768, 16, 10)]
    cases += [("fp16", 384, 1, 64), ("fp16", 384, 512, 64), ("fp16", 1024, 1, 10)]
    for capability, shared in shared_bytes.items():
        for dtype, dimension, queries, k in cases:
            shape = triton_search.shape_for(
                queries=queries,
                dimension=dimension,
                itemsize=DTYPES[dtype],
                k=k,
                shared_bytes=shared,
            )
            yield Wanted(capability, dtype, dimension, k, shape)
        yield Wanted(capability, "fp32", 0, 64, None)


def build(case):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from llm_kernels import triton_kernels

    slots = 1 << (case.k - 1).bit_length()
    if case.shape is None:
        types = ["*fp32", "*i32", "*fp32", "*i64", "i32"]
        constants = {"K": case.k, "SLOTS": slots, "CANDIDATES": 1024}
    else:
        pointer = f"*{case.dtype}"
        types = [pointer, pointer, "*fp32", "*fp32", "*i32", "i32", "i32", "i32"]
        parts = triton_search.parts_of(DTYPES[case.dtype])
        shape = case.shape
        values = (case.dimension, case.k, slots, parts, shape.streams, shape.queries, shape.rows)
        constants = dict(zip(CONSTANTS, (*values, shape.chunk, shape.stages), strict=True))
    kernel = triton_kernels.merge if case.shape is None else triton_kernels.scan
    names = kernel.arg_names
    source = ASTSource(
        fn=kernel,
        signature=dict(zip(names, types, strict=False)) | dict.fromkeys(constants, "constexpr"),
        constexprs=constants,
        # The launcher finds the same: allocations are aligned, and slabs are multiples of 16 rows.
        attrs={
            (place,): [["tt.divisibility", 16]]
            for place, kind in enumerate(types)
            if kind[0] == "*" or names[place] == "slab_rows"
        },
    )
    compiled = triton.compile(
        source,
        target=GPUTarget("cuda", case.capability, 32),
        options={"num_warps": 4 if case.shape is None else case.shape.warps},
    )
    return _usage(compiled)


def _usage(compiled):
    import tempfile

    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        text = subprocess.run(
            [str(tool), "--dump-resource-usage", file.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    usage = {name: int(value) for name, value in re.findall(r"(STACK|LOCAL):(\d+)", text)}
    ptx = compiled.asm["ptx"]
    return Built(
        spilled_bytes=usage["STACK"] + usage["LOCAL"],
        shared_bytes=compiled.metadata.shared,
        asynchronous_copies=ptx.count("cp.async.cg"),
        tensor_core_instructions=len(re.findall(r"mma\.sync|wgmma\.mma|tcgen05\.mma", ptx)),
    )


def build_all(shared_bytes):
    cases = list(dict.fromkeys(wanted(shared_bytes)))
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        return dict(zip(cases, pool.map(build, cases), strict=True))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((HOPPER, 0), id="H100"),
        pytest.param((SERVERS, 0), id="servers", marks=pytest.mark.slow),
        # 24 bytes of a thread's 255 registers with Triton 3.9; 48 with others.
        pytest.param((GEFORCE, 64), id="GeForce", marks=pytest.mark.slow),
    ],
)
def built(request):
    """The builds for some cards, how much of their memory each may take, and how much it spills."""
    shared_bytes, spilled = request.param
    return build_all(shared_bytes), shared_bytes, spilled


def test_every_build_fits_its_device_and_spills_next_to_nothing(built):
    builds, shared_bytes, spilled = built
    assert {str(case) for case in builds if case.shape} >= {
        f"{work} sm_{capability} fp16 D=384 k=10"
        for work in ("stream", "gemm")
        for capability in shared_bytes
    }
    for case, one in builds.items():
        assert one.spilled_bytes <= spilled, str(case)
        assert one.shared_bytes <= shared_bytes[case.capability], str(case)


def test_scans_prefetch_use_the_tensor_cores_and_take_little_more_than_was_estimated(built):
    for case, one in built[0].items():
        if case.shape is not None:
            estimate = case.shape.shared_bytes(case.dimension, DTYPES[case.dtype])
            assert one.shared_bytes <= estimate + 8192, str(case)
            assert one.asynchronous_copies > 0, str(case)
            assert one.tensor_core_instructions > 0, str(case)
