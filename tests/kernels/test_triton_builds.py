"""Every kernel that a search launches, compiled for six kinds of GPUs without one."""

import multiprocessing
import re
import subprocess
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from llm_kernels import triton_search

# Opt-in maximum of H100, of A100 and B200, and of GeForce RTX 30, 40 and 50.
HOPPER = {90: 232448}
SERVERS = {80: 166912, 100: 232448}
GEFORCE = {86: 101376, 89: 101376, 120: 101376}
ITEMSIZES = {"fp16": 2, "bf16": 2, "fp32": 4}
SCAN = ("D", "PARTS", "CHUNK", "QUERIES", "ROWS", "STAGES")
SIZES = {
    "split": 0,
    "scan": 4,  # n_queries, n_rows, slab_rows, k
    "merge": 2,  # slabs, k
    "rescue": 4,
}


@dataclass(frozen=True)
class Wanted:
    kernel: str
    capability: int
    dtype: str
    dimension: int
    shape: triton_search.Shape

    def __str__(self):
        return (
            f"{self.kernel} sm_{self.capability} {self.dtype} D={self.dimension} "
            f"Q={self.shape.queries}"
        )

    @property
    def constants(self):
        """As `triton_search.launch` chooses them."""
        parts, shape = triton_search.parts_of(ITEMSIZES[self.dtype]), self.shape
        common = {"D": self.dimension, "PARTS": parts}
        block = 1 << (self.dimension - 1).bit_length()
        return {
            "split": common | {"BLOCK": block},
            "scan": common | {name: getattr(shape, name.lower()) for name in SCAN[2:]},
            "merge": {"SLABS": 512},
            "rescue": common | {"CHUNK": shape.chunk} | triton_search.RESCUED,
        }[self.kernel]

    @property
    def pointers(self):
        own = f"*{self.dtype}"
        return {
            "split": ["*fp32", own, "*i32"],
            "scan": [own, own, "*fp32", "*i64"],
            "merge": ["*i64", "*i32", "*i64"],
            "rescue": [own, own, "*fp32", "*i32", "*i64"],
        }[self.kernel]


@dataclass(frozen=True)
class Built:
    registers: int
    spilled_bytes: int
    shared_bytes: int
    asynchronous_copies: int
    tensor_core_instructions: int


def wanted(shared_bytes):
    sizes = [("fp16", 384, queries) for queries in (1, 16, 32, 512)]
    sizes += [("fp32", 384, queries) for queries in (1, 16, 512)]
    # An index fills 100 numbers up to 104.
    sizes += [("bf16", 768, 16), ("fp16", 104, 512)]
    for capability, shared in shared_bytes.items():
        for dtype, dimension, queries in sizes:
            shape = triton_search.shape_for(
                queries=queries,
                dimension=dimension,
                itemsize=ITEMSIZES[dtype],
                shared_bytes=shared,
            )
            yield Wanted("scan", capability, dtype, dimension, shape)
            if queries == 16:
                yield Wanted("rescue", capability, dtype, dimension, shape)
        yield Wanted("split", capability, "bf16", 768, shape)
        yield Wanted("merge", capability, "fp16", 1, shape)


def build(case):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from llm_kernels import triton_kernels

    kernel = getattr(triton_kernels, case.kernel)
    types = [*case.pointers, *["i32"] * SIZES[case.kernel]]
    assert kernel.arg_names[len(types) :] == list(case.constants)
    source = ASTSource(
        fn=kernel,
        signature=dict(zip(kernel.arg_names, types, strict=False))
        | dict.fromkeys(case.constants, "constexpr"),
        constexprs=case.constants,
        # The launcher finds the same: allocations are aligned, and of sizes nothing is known.
        attrs={(place,): [["tt.divisibility", 16]] for place in range(len(case.pointers))},
    )
    warps = case.shape.warps if case.kernel == "scan" else 4
    compiled = triton.compile(
        source, target=GPUTarget("cuda", case.capability, 32), options={"num_warps": warps}
    )
    return _usage(compiled)


def _usage(compiled):
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
    usage = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", text)}
    ptx = compiled.asm["ptx"]
    return Built(
        registers=usage["REG"],
        spilled_bytes=usage["STACK"] + usage["LOCAL"],
        shared_bytes=compiled.metadata.shared,
        asynchronous_copies=len(re.findall(r"cp\.async\.c[ag]", ptx)),
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
        pytest.param((SERVERS, 72), id="servers", marks=pytest.mark.slow),
        pytest.param((GEFORCE, 16), id="GeForce", marks=pytest.mark.slow),
    ],
)
def built(request):
    """The builds for some cards, how much of their memory each may take, and how much it spills."""
    shared_bytes, spilled = request.param
    return build_all(shared_bytes), shared_bytes, spilled


def test_as_many_programs_as_are_counted_on_fit_a_processor_and_spill_next_to_nothing(built):
    builds, shared_bytes, spilled = built
    scans = {case: one for case, one in builds.items() if case.kernel == "scan"}
    assert {case.kernel for case in builds} == {"split", "scan", "merge", "rescue"}
    assert {case.shape.queries for case in scans} >= {8, 16, 32}
    for case, one in builds.items():
        assert one.spilled_bytes <= spilled, str(case)
        assert one.shared_bytes <= shared_bytes[case.capability], str(case)
    for case, one in scans.items():
        # A processor has 65,536 registers, and a kilobyte of shared memory of its own a program.
        programs, threads = case.shape.programs, 32 * case.shape.warps
        assert programs * threads * one.registers <= 65536, str(case)
        assert programs * one.shared_bytes <= shared_bytes[case.capability], str(case)


def test_products_prefetch_and_use_the_tensor_cores(built):
    for case, one in built[0].items():
        if case.kernel in {"scan", "rescue"}:
            assert one.asynchronous_copies > 0, str(case)
            assert one.tensor_core_instructions > 0, str(case)
