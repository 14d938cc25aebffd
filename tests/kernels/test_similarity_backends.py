"""Every backend on the CPU gives the oracle's answer, bit for bit; and which backend is chosen."""

import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_kernels import (
    available_backends,
    choose_backend,
    faiss_search,
    inverse_norms,
    numpy_search,
    similarity,
    topk_cosine,
    topk_oracle,
    torch_search,
    triton_search,
    unit_queries,
)
from llm_kernels.errors import BackendError, VectorError
from llm_kernels.similarity import check_backend

NEEDS_FAISS = pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed")


def by_torch(queries, corpus, norms, k):
    return torch_search.search(queries, torch.from_numpy(corpus), torch.from_numpy(norms), k)


def by_torch_as_on_a_device(queries, corpus, norms, k):
    """What runs on a GPU: matrix product, top k and merge in torch."""
    return on_a_device(queries, torch.from_numpy(corpus), torch.from_numpy(norms), k)


def on_a_device(queries, corpus, norms, k):
    """As on a GPU, where 16-bit matrices have a product with a float32 result."""
    halves = corpus.itemsize == 2
    best_of = torch_search.best_of_halves if halves else torch_search.best_of_floats
    error = torch_search.halves_error(corpus) if halves else torch_search.floats_error(corpus)
    product = torch.mm

    def product_of_halves(left, right, *, out_dtype):
        assert left.dtype == right.dtype == corpus.dtype
        assert out_dtype == torch.float32
        return product(left.float(), right.float())

    with (
        mock.patch.object(torch_search, "_BLOCK", 1 << 10),
        mock.patch.object(torch, "mm", product_of_halves),
    ):
        return torch_search.search_on_device(
            queries, corpus, norms, k, best_of=best_of, error=error
        )


def by_faiss_in_blocks(queries, corpus, norms, k):
    with mock.patch.object(faiss_search, "_COPIED", 1 << 8):
        return faiss_search.search(queries, corpus, norms, k)


class GpuFaiss:
    """What `faiss_search` takes of a faiss for GPUs, computed on the CPU under the GPU's rules."""

    METRIC_INNER_PRODUCT = "inner product"
    StandardGpuResources = object
    __version__ = "1.15.1"

    def __init__(self, gpus=1):
        self.gpus = gpus
        self.current = ["cuda:0"]
        self.searched_on = []

    def get_num_gpus(self):
        return self.gpus

    def knn_gpu(self, resources, queries, rows, k, *, metric):
        assert faiss_search._ONE_AT_A_TIME.locked()
        assert len(rows) > 0
        assert 0 < k <= min(2048, len(rows))
        assert queries.dtype == rows.dtype == torch.float32
        assert (type(resources), metric) == (object, "inner product")
        self.searched_on.append(self.current[-1])
        return (queries @ rows.T).topk(k)

    @contextmanager
    def device_of(self, tensor):
        self.current.append(str(tensor.device))
        yield
        self.current.pop()

    @contextmanager
    def installed(self):
        """In the place of faiss, and of the current device of torch."""
        modules = {
            "faiss": self,
            "faiss.contrib": SimpleNamespace(torch_utils=None),
            "faiss.contrib.torch_utils": SimpleNamespace(),
        }
        with pytest.MonkeyPatch.context() as patch:
            for name, module in modules.items():
                patch.setitem(sys.modules, name, module)
            patch.setattr(torch.cuda, "device_of", self.device_of)
            faiss_search._resources.cache_clear()
            yield self
        faiss_search._resources.cache_clear()


def by_faiss_as_on_a_gpu(queries, corpus, norms, k):
    with GpuFaiss().installed() as stand_in, mock.patch.object(torch_search, "_BLOCK", 1 << 10):
        answer = faiss_search.search_on_gpu(
            queries, torch.from_numpy(corpus), torch.from_numpy(norms), k
        )
    assert set(stand_in.searched_on) == {"cpu"}
    return answer


def by_numpy_in_blocks(queries, corpus, norms, k):
    """Blocks so small that groups of rows and of queries come into play, and rows beyond them."""
    small = {"SPARE": 1, "_BLOCK_SCORES": 96, "_QUERIES": 3, "_FEW_SCORES": 0, "_GROUPS": 1}
    with mock.patch.multiple(numpy_search, **small, _SUMMED=64):
        return numpy_search.search(queries, corpus, norms, k)


BACKENDS = {
    "numpy": numpy_search.search,
    "numpy in blocks": by_numpy_in_blocks,
    "torch": by_torch,
    "torch as on a device": by_torch_as_on_a_device,
    "faiss as on a GPU": by_faiss_as_on_a_gpu,
}
if find_spec("faiss") is not None:
    BACKENDS |= {"faiss": faiss_search.search, "faiss in blocks": by_faiss_in_blocks}


def normal(rng, rows, dimension):
    return rng.standard_normal((rows, dimension)).astype(np.float32)


def small_integers(rng, rows, dimension):
    """Few distinct scores, each shared by many rows."""
    drawn = rng.integers(-1, 2, (rows, dimension)).astype(np.float32)
    drawn[:, 0] = 1
    return drawn


def repeated(rng, rows, dimension):
    return normal(rng, 3, dimension)[rng.integers(0, 3, rows)]


def almost_equal(rng, rows, dimension):
    """Scores that differ by less than a float32 product rounds."""
    noise = rng.standard_normal((rows, dimension)) * 1e-7
    return (rng.standard_normal(dimension) + noise).astype(np.float32)


def unit(rng, rows, dimension):
    return unit_queries(normal(rng, rows, dimension))


def one_hot(rng, rows, dimension):
    """Most scores are exactly zero."""
    return np.eye(dimension, dtype=np.float32)[rng.integers(0, dimension, rows)]


def assert_same(expected, found, what):
    np.testing.assert_array_equal(found[1], expected[1], err_msg=what)
    np.testing.assert_array_equal(found[0], expected[0], err_msg=what)
    assert found[0].dtype == np.float32
    assert found[1].dtype == np.int64


@settings(max_examples=150, deadline=None)
@given(
    queries=st.integers(1, 9),
    rows=st.integers(1, 120),
    dimension=st.integers(1, 48),
    k=st.integers(1, 140),
    draw=st.sampled_from((normal, small_integers, repeated, almost_equal, unit, one_hot)),
    half=st.booleans(),
    masked=st.sampled_from((0.0, 0.4, 0.95)),
    seed=st.integers(0, 2**32 - 1),
)
def test_all_backends_agree_with_the_oracle(queries, rows, dimension, k, draw, half, masked, seed):
    rng = np.random.default_rng(seed)
    corpus = draw(rng, rows, dimension)
    if half:
        corpus = corpus.astype(np.float16)
    norms = inverse_norms(corpus)
    norms[rng.random(rows) < masked] = 0.0
    norms[rng.integers(rows)] = inverse_norms(np.ones((1, dimension), np.float32))[0]
    norms[norms > 0] = inverse_norms(corpus)[norms > 0]
    corpus[norms == 0] = np.nan
    drawn = draw(rng, queries, dimension)
    asked = unit_queries(drawn)
    taking_part = np.count_nonzero(norms)
    expected = topk_oracle(drawn, corpus, k, inverse_norms=norms)
    assert expected[0].shape == (queries, min(k, taking_part))
    for name, search in BACKENDS.items():
        assert_same(expected, search(asked, corpus, norms, min(k, taking_part)), name)


@settings(max_examples=20, deadline=None)
@given(
    queries=st.sampled_from((1, 2, 40)),
    rows=st.integers(1_000, 4_000),
    dimension=st.integers(1, 24),
    k=st.integers(1, 12),
    draw=st.sampled_from((normal, small_integers, repeated, almost_equal)),
    seed=st.integers(0, 2**32 - 1),
)
def test_corpora_of_thousands(queries, rows, dimension, k, draw, seed):
    rng = np.random.default_rng(seed)
    corpus = draw(rng, rows, dimension)
    norms = inverse_norms(corpus)
    drawn = draw(rng, queries, dimension)
    asked = unit_queries(drawn)
    expected = topk_oracle(drawn, corpus, k, inverse_norms=norms)
    for name in BACKENDS.keys() - {"numpy in blocks", "faiss in blocks"}:
        assert_same(expected, BACKENDS[name](asked, corpus, norms, k), name)


def test_scores_by_hand():
    corpus = np.float32([[1, 0], [3, 4], [0, -2], [-1, 0]])
    asked = np.float32([[1, 0], [0, 1]])
    for name, search in BACKENDS.items():
        scores, indices = search(asked, corpus, inverse_norms(corpus), 4)
        expected = np.float32([[1, 0.6, 0, -1], [0.8, 0, 0, -1]])
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-7, err_msg=name)
        np.testing.assert_array_equal(indices, [[0, 1, 2, 3], [1, 0, 3, 2]], err_msg=name)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("queries", [1, 5])
def test_identical_rows_come_in_order(name, queries):
    corpus = np.tile(np.float32([[0.1, -0.7, 0.3]]), (3_000, 1))
    norms = inverse_norms(corpus)
    norms[[0, 2]] = 0.0
    asked = unit_queries(normal(np.random.default_rng(0), queries, 3))
    scores, indices = BACKENDS[name](asked, corpus, norms, 5)
    np.testing.assert_array_equal(indices, np.tile([1, 3, 4, 5, 6], (queries, 1)))
    assert np.all(scores == scores[:, :1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_torch_reads_every_dtype(dtype):
    rng = np.random.default_rng(2)
    corpus = torch.from_numpy(normal(rng, 700, 33)).to(dtype)
    norms = inverse_norms(corpus)
    drawn = normal(rng, 4, 33)
    asked = unit_queries(drawn)
    expected = topk_oracle(drawn, corpus.float().numpy(), 7, inverse_norms=norms.numpy())
    with mock.patch.object(numpy_search, "_CONVERTED", 1 << 10):
        assert_same(expected, torch_search.search(asked, corpus, norms, 7), str(dtype))
    assert_same(expected, on_a_device(asked, corpus, norms, 7), str(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_err_by_no_more_than_is_counted_on(dtype):
    """Also where a query's numbers are so small that float16 has few steps left for them."""
    rng = np.random.default_rng(4)
    corpus = torch.from_numpy(normal(rng, 300, 400)).to(dtype)
    norms = inverse_norms(corpus)
    drawn = normal(rng, 3, 400) * np.float32(10.0) ** rng.integers(-9, 1, (3, 400))
    asked = unit_queries(drawn.astype(np.float32))
    high = torch.from_numpy(asked).to(dtype).double()
    low = (torch.from_numpy(asked).double() - high).to(dtype).double()
    apart = (high + low - torch.from_numpy(asked).double()) @ corpus.double().T * norms
    exact = torch_search.product_error(400)
    assert 0 < apart.abs().max() <= torch_search.halves_error(corpus) - 2 * exact


def rounded_to_tf32(scores_of):
    """A matrix product as with 10 bits of mantissa."""

    def product(block, transposed, *, out):
        short = [
            (side.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)
            for side in (block, transposed)
        ]
        return scores_of(*short, out=out)

    return product


def test_coarser_products_cost_no_answers():
    rng = np.random.default_rng(3)
    corpus = unit_queries(
        (rng.standard_normal(64) + 0.02 * rng.standard_normal((3_000, 64))).astype(np.float32)
    )
    norms = inverse_norms(corpus)
    drawn = corpus[:3] * np.float32(3)
    asked = unit_queries(drawn)
    expected = topk_oracle(drawn, corpus, 10, inverse_norms=norms)
    assert torch_search._input_error("cpu") == 0.0
    with mock.patch.object(torch, "mm", rounded_to_tf32(torch.mm)):
        misled = by_torch(asked, corpus, norms, 10)
        assert not np.array_equal(misled[1], expected[1])
        torch.backends.mkldnn.matmul.fp32_precision = "tf32"
        try:
            assert torch_search._input_error("cpu") == 2.0**-11
            assert_same(expected, by_torch(asked, corpus, norms, 10), "TF32")
        finally:
            torch.backends.mkldnn.matmul.fp32_precision = "none"


def test_memory_does_not_grow_with_the_corpus():
    """100,000 rows, all candidates of 8 queries: neither all scores nor all pairs are held."""
    import tracemalloc

    corpus = np.ones((100_000, 2), np.float32)
    norms = inverse_norms(corpus)
    asked = unit_queries(normal(np.random.default_rng(0), 8, 2))
    with mock.patch.object(numpy_search, "_BLOCK_SCORES", 1 << 14):
        tracemalloc.start()
        try:
            _, indices = numpy_search.search(asked, corpus, norms, 3)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    np.testing.assert_array_equal(indices, np.tile([0, 1, 2], (8, 1)))
    assert peak < 8 * 100_000 * 4


# --- which backend is chosen ----------------------------------------------------------------------


def test_the_backends_of_a_device():
    assert available_backends()[-2:] == ("torch", "numpy")
    assert "numpy" not in available_backends(device="cuda:0")
    assert "torch" in available_backends(device="cuda:0")


@NEEDS_FAISS
def test_faiss_is_one_of_them():
    assert "faiss" in available_backends()


def test_faiss_searches_on_a_gpu_if_it_is_built_for_one(monkeypatch):
    monkeypatch.setattr(similarity, "find_spec", lambda name: name == "faiss")
    with GpuFaiss().installed():
        check_backend("faiss", "cuda:1")
        assert "faiss" in available_backends(device="cuda:1")
    with GpuFaiss(gpus=0).installed(), pytest.raises(BackendError, match="finds no GPU: `nvid"):
        check_backend("faiss", "cuda:1")
    monkeypatch.delattr(GpuFaiss, "StandardGpuResources")
    with (
        GpuFaiss().installed(),
        pytest.raises(BackendError, match=r"is built for the CPU: .* pip install faiss-gpu"),
    ):
        check_backend("faiss", "cuda:1")
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(BackendError, match=r"faiss cannot be imported: "):
        check_backend("faiss", "cuda:1")


def test_faiss_searches_on_the_gpu_of_the_tensors():
    """Its stream is that of the current device, which is the first one."""
    tensor = SimpleNamespace(device="cuda:1")
    with GpuFaiss().installed() as stand_in, mock.patch.object(stand_in, "knn_gpu") as knn:
        knn.side_effect = lambda *_, **__: (stand_in.current[-1], "found")
        assert faiss_search._knn_gpu(tensor, tensor, 1) == ("cuda:1", "found")
        assert stand_in.current == ["cuda:0"]


def test_faiss_on_a_gpu_has_a_greatest_k():
    """Asked for more, it ends the process."""
    corpus = torch.ones((2_100, 2))
    norms = inverse_norms(corpus)
    asked = np.float32([[1.0, 0.0]])
    with GpuFaiss().installed():
        _, rows = faiss_search.search_on_gpu(asked, corpus, norms, 2_032)
        assert rows[0].tolist() == list(range(2_032))
        with pytest.raises(VectorError, match=r"k is 2033; .* has 1 to 2032: use backend 'torch'"):
            faiss_search.search_on_gpu(asked, corpus, norms, 2_033)


@pytest.mark.parametrize(("triton_runs", "expected"), [(True, "triton"), (False, "torch")])
def test_the_choice_on_a_gpu(monkeypatch, triton_runs, expected):
    monkeypatch.setattr(
        triton_search, "unavailable", lambda: None if triton_runs else "no GPU is here"
    )
    size = {"device": "cuda:1", "rows": 2**30, "k": 128, "dimension": 1024}
    assert choose_backend(**size) == expected
    for beyond in ({"rows": 2**30 + 1}, {"k": 129}, {"dimension": 1025}, {"contiguous": False}):
        assert choose_backend(**size | beyond) == "torch"


def test_the_choice_knows_the_layout_of_the_corpus():
    corpus = torch.ones((2, 3))
    with mock.patch.object(similarity, "choose_backend", return_value="torch") as choose:
        for some in (corpus, torch.ones((3, 2)).T, corpus.numpy()):
            topk_cosine(some, some, 1)
    assert [call.kwargs["contiguous"] for call in choose.call_args_list] == [True, False, True]


@pytest.mark.parametrize(
    ("rows", "dtype", "expected"),
    [
        (10, "float32", "numpy"),
        (1_000_000, "float32", "numpy"),
        (1_000, "float16", "numpy"),
        (10_000, "float16", "torch"),
        (10, "bfloat16", "torch"),
    ],
)
def test_the_choice_on_the_cpu(rows, dtype, expected):
    size = {"device": "cpu", "rows": rows, "dimension": 384}
    assert choose_backend(**size, dtype=dtype) == expected


def test_float16_without_torch(monkeypatch):
    monkeypatch.setattr(similarity, "find_spec", lambda name: None)
    size = {"device": "cpu", "rows": 10_000, "dimension": 384}
    assert choose_backend(**size, dtype="float16") == "numpy"


def test_importing_the_layer_imports_no_backend():
    code = (
        "import sys, llm_kernels; llm_kernels.available_backends;"
        "print([name for name in ('torch', 'faiss', 'triton') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
