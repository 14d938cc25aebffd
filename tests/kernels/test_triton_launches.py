"""What is compiled and launched, with a driver that launches nothing."""

from collections import Counter
from contextlib import contextmanager
from math import comb

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from llm_kernels import triton_search

HOPPER = triton_search.Device(processors=132, shared_bytes=232448)


class Driver:
    """What Triton asks of the driver of an H100."""

    def __init__(self):
        self.loaded = Counter()
        self.launched = []
        self.stream, self.streams = 0, []
        self.utils = self

    def load_binary(self, name, kernel, shared, device):
        self.loaded[name] += 1
        return 0, 0, 32, 0, 1024

    def unload_module(self, module):
        pass

    def get_device_properties(self, device):
        return {
            "max_shared_mem": 232448,
            "multiprocessor_count": 132,
            "max_num_regs": 65536,
            "warpSize": 32,
        }

    def launcher_cls(self, source, metadata):
        def launch(x, y, z, stream, function, metadata, launch_metadata, enter, leave, *arguments):
            self.launched.append((source.fn.__name__, (x, y, z), arguments))
            self.streams.append(stream)

        return launch

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return self.stream


@pytest.fixture
def driver(monkeypatch):
    from triton.runtime import driver as active

    from llm_kernels import triton_kernels

    stand_in = Driver()
    monkeypatch.setattr(active, "_active", stand_in)
    monkeypatch.setattr(triton_search, "_KEPT", {})
    monkeypatch.setattr(triton_search, "_device", lambda corpus: HOPPER)
    yield stand_in
    for name in ("split", "scan", "merge", "rescue"):
        getattr(triton_kernels, name).device_caches.clear()


def launch(rows, queries, k):
    corpus = torch.zeros((rows, 64), dtype=torch.float16)
    return triton_search.launch(torch.zeros((queries, 64)), corpus, torch.ones(rows), k)


def plain(arguments):
    """Numbers as they are, and of a tensor what a kernel is compiled for."""
    return [
        (value.dtype, value.shape) if isinstance(value, torch.Tensor) else value
        for value in arguments
    ]


def test_a_growing_index_and_other_lists_compile_nothing_anew(driver):
    for rows in (1, 2, 15, 16, 17, 160, 1000, 4096, 40_000, 100_001):
        for queries, k in ((1, 1), (2, 10), (8, 16), (7, 128)):
            assert launch(rows, queries, k).shape == (queries, k)
    assert driver.loaded == {"split": 1, "scan": 1, "merge": 1, "rescue": 1}
    launch(1000, 9, 10)  # another block of queries
    assert driver.loaded == {"split": 1, "scan": 2, "merge": 1, "rescue": 1}


def test_what_was_compiled_is_launched_as_triton_launches_it(driver):
    launch(1000, 3, 10)
    assert [name for name, _, _ in driver.launched] == ["split", "scan", "merge", "rescue", "merge"]
    by_triton = [(name, grid, plain(arguments)) for name, grid, arguments in driver.launched]
    driver.launched.clear()
    launch(1000, 3, 10)
    kept = [(name, grid, plain(arguments)) for name, grid, arguments in driver.launched]
    # `merge` was kept when it ran for the second time.
    assert kept == by_triton
    assert by_triton[2] == by_triton[4]


class Operations(TorchDispatchMode):
    """Records what torch is asked for."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        self.names.append(str(operation))
        return operation(*arguments, **(keywords or {}))


def test_a_search_can_be_captured_in_a_cuda_graph(driver):
    """It asks torch for memory alone, and launches on the stream that is current by then."""
    corpus, asked, norms = torch.zeros((1000, 64)), torch.zeros((3, 64)), torch.ones(1000)
    triton_search.launch(asked, corpus, norms, 10)
    driver.stream = 7  # which a capture makes current
    with Operations() as operations:
        triton_search.launch(asked, corpus, norms, 10)
    assert set(operations.names) == {"aten.empty.memory_format"}
    assert driver.streams == [0] * 5 + [7] * 5
    assert driver.loaded == {"split": 1, "scan": 1, "merge": 1, "rescue": 1}


def test_rows_at_an_odd_address_have_a_kernel_of_their_own(driver):
    corpus = torch.zeros(1000 * 64 + 1, dtype=torch.float16)
    for start in (0, 1):
        rows = corpus[start : start + 64_000].view(1000, 64)
        triton_search.launch(torch.zeros((1, 64)), rows, torch.ones(1000), 10)
    assert driver.loaded == {"split": 1, "scan": 2, "merge": 1, "rescue": 2}


def test_kernels_are_launched_on_the_device_of_the_corpus(monkeypatch):
    """Triton takes the current device, which is the first one."""
    current, launched = ["cuda:0"], []

    @contextmanager
    def device(name):
        current.append(name)
        yield
        current.pop()

    class There(torch.Tensor):
        is_cuda = True
        device = "cuda:1"

    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda shape, *, dtype, device: empty(shape, dtype=dtype))
    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(triton_search, "_device", lambda corpus: HOPPER)
    monkeypatch.setattr(triton_search, "_run", lambda *_, **__: launched.append(current[-1]))
    corpus = torch.zeros((100, 64)).as_subclass(There)
    triton_search.launch(torch.zeros((4, 64)), corpus, torch.ones(100), 3)
    assert launched == ["cuda:1"] * 5
    assert current == ["cuda:0"]


@settings(max_examples=200, deadline=None)
@given(
    rows=st.integers(1, 2**30),
    queries=st.integers(1, 512),
    k=st.integers(1, 128),
    itemsize=st.sampled_from((2, 4)),
    shared_bytes=st.sampled_from((101376, 166912, 232448)),
    processors=st.integers(1, 200),
)
def test_slabs_fill_the_device_and_have_bins_enough(
    rows, queries, k, itemsize, shared_bytes, processors
):
    shape = triton_search.shape_for(
        queries=queries, dimension=384, itemsize=itemsize, shared_bytes=shared_bytes
    )
    length = triton_search.slab_rows(shape, rows=rows, queries=queries, k=k, processors=processors)
    tiles = length // shape.rows
    assert length == tiles * shape.rows
    assert 1 <= tiles <= 1023  # which a bin can count
    if tiles > 3:  # of three nothing is dropped
        slabs = -(-rows // length)
        # Slabs have one length, so that they are up to a quarter fewer than what was asked for.
        programs = slabs * -(-queries // shape.queries)
        assert programs >= 0.7 * processors * shape.programs
        assert queries * comb(k, 3) / (slabs * shape.rows) ** 2 <= 0.2
