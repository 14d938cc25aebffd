from importlib.util import find_spec

import numpy as np
import pytest
import torch

from llm_kernels import (
    BackendError,
    VectorError,
    available_backends,
    inverse_norms,
    similarity,
    topk_cosine,
    topk_oracle,
)

RNG = np.random.default_rng(0)
QUERIES = RNG.standard_normal((3, 20), dtype=np.float32)
CORPUS = RNG.standard_normal((50, 20), dtype=np.float32)
WITH_FAISS = pytest.param(
    "faiss", marks=pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed")
)
CPU_BACKENDS = ("auto", "numpy", "torch", WITH_FAISS)


def assert_same(found, expected):
    for side, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(side), wanted)


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_arrays_give_arrays_and_tensors_tensors(backend):
    expected = topk_oracle(QUERIES, CORPUS, 7)
    assert_same(topk_cosine(QUERIES, CORPUS, 7, backend=backend), expected)
    queries = torch.from_numpy(QUERIES.copy()).requires_grad_()
    scores, indices = topk_cosine(queries, torch.from_numpy(CORPUS), 7, backend=backend)
    assert (scores.dtype, indices.dtype) == (torch.float32, torch.int64)
    assert not scores.requires_grad
    assert_same((scores, indices), expected)


@pytest.mark.parametrize("backend", CPU_BACKENDS)
@pytest.mark.parametrize("as_kind", [np.asarray, torch.from_numpy])
def test_rows_without_a_norm_take_no_part(backend, as_kind):
    corpus, norms = CORPUS.copy(), inverse_norms(CORPUS)
    corpus[::2], norms[::2] = np.nan, 0
    scores, indices = topk_cosine(
        as_kind(QUERIES), as_kind(corpus), 30, inverse_norms=as_kind(norms), backend=backend
    )
    assert tuple(indices.shape) == (3, 25)
    expected = topk_oracle(QUERIES, CORPUS[1::2], 30)
    assert_same((scores, indices), (expected[0], 2 * expected[1] + 1))


def test_queries_are_looked_at_also_where_no_row_takes_part():
    nothing = np.zeros(len(CORPUS), np.float32)
    assert topk_cosine(QUERIES, CORPUS, 2, inverse_norms=nothing)[0].shape == (3, 0)
    with pytest.raises(VectorError, match=r"queries\[0\] is zero"):
        topk_cosine(np.zeros((1, 20), np.float32), CORPUS, 2, inverse_norms=nothing)


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_fewer_rows_than_asked_for_show_in_the_shape(backend):
    scores, indices = topk_cosine(QUERIES, CORPUS[:4], 10, backend=backend)
    assert scores.shape == indices.shape == (3, 4)


@pytest.mark.parametrize("as_kind", [np.asarray, torch.from_numpy])
def test_nothing_to_search(as_kind):
    empty = np.empty((0, 20), np.float32)
    for queries, corpus, shape in (
        (QUERIES, empty, (3, 0)),
        (empty, CORPUS, (0, 5)),
        (empty, empty, (0, 0)),
    ):
        scores, indices = topk_cosine(as_kind(queries), as_kind(corpus), 5)
        assert tuple(scores.shape) == tuple(indices.shape) == shape
        assert str(scores.dtype).endswith("float32")
        assert str(indices.dtype).endswith("int64")
    nobody = np.zeros(50, np.float32)
    scores, _ = topk_cosine(as_kind(QUERIES), as_kind(CORPUS), 5, inverse_norms=as_kind(nobody))
    assert tuple(scores.shape) == (3, 0)


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_read_only_and_strided_arrays(backend, recwarn):
    wide = np.repeat(CORPUS, 2, axis=1)
    strided = wide[:, ::2]
    strided.flags.writeable = False
    expected = topk_oracle(QUERIES, CORPUS, 7)
    for corpus in (strided, np.asfortranarray(CORPUS)):
        _, indices = topk_cosine(QUERIES, corpus, 7, backend=backend)
        np.testing.assert_array_equal(indices, expected[1])
    assert not recwarn


@pytest.mark.parametrize("backend", ["numpy", WITH_FAISS])
def test_bfloat16_goes_to_torch(backend):
    corpus = torch.from_numpy(CORPUS).bfloat16()
    _, indices = topk_cosine(torch.from_numpy(QUERIES), corpus, 7)
    expected = topk_oracle(QUERIES, corpus.float().numpy(), 7)
    np.testing.assert_array_equal(indices.numpy(), expected[1])
    with pytest.raises(BackendError, match=r"no bfloat16.*'torch'.*\.float\(\)"):
        topk_cosine(torch.from_numpy(QUERIES), corpus, 7, backend=backend)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"queries": QUERIES[0]}, r"queries has shape \[20\].*v\[None, :\]"),
        ({"queries": QUERIES[:, :19]}, "queries has dimension 19 and corpus 20: .* one encoder"),
        ({"queries": torch.from_numpy(QUERIES)}, "a torch tensor and corpus a NumPy array: conv"),
        ({"corpus": CORPUS.astype(np.float64)}, r"corpus is of dtype float64.*\.astype"),
        ({"k": 0}, "k is 0: it must be at least 1"),
        ({"k": 2.5}, r"k is 2\.5: it must be a whole number"),
        ({"inverse_norms": [1.0] * 50}, "inverse_norms is a list, the corpus a NumPy array: conv"),
        ({"inverse_norms": np.ones(50)}, "inverse_norms is of dtype float64: .* float32"),
        ({"inverse_norms": np.ones((50, 1), np.float32)}, r"inverse_norms has shape \[50, 1\]"),
    ],
)
def test_wrong_arguments(changes, message):
    arguments = {"queries": QUERIES, "corpus": CORPUS, "k": 5, **changes}
    with pytest.raises(VectorError, match=message):
        topk_cosine(**arguments)


def test_tensors_of_different_devices():
    queries, corpus = torch.from_numpy(QUERIES), torch.from_numpy(CORPUS)
    with pytest.raises(VectorError, match=r"queries is on cpu and corpus on meta: move .*'meta'"):
        topk_cosine(queries, corpus.to("meta"), 5)
    with pytest.raises(VectorError, match=r"norms is on meta and corpus on cpu: move .*'cpu'"):
        topk_cosine(queries, corpus, 5, inverse_norms=torch.ones(50, device="meta"))


def test_bad_vectors_are_named():
    corpus = CORPUS.copy()
    corpus[31] = 0
    with pytest.raises(VectorError, match=r"corpus\[31\] is zero.*leave it out"):
        topk_cosine(QUERIES, corpus, 5)
    with pytest.raises(VectorError, match=r"queries\[1\] holds NaN at position 0"):
        topk_cosine(np.where(np.arange(3)[:, None] == 1, np.nan, QUERIES), CORPUS, 5)


def test_backends_that_do_not_exist_or_cannot_run(monkeypatch):
    with pytest.raises(BackendError, match="no backend is called 'faise': choose one of auto, "):
        topk_cosine(QUERIES, CORPUS, 5, backend="faise")
    monkeypatch.setattr(similarity, "find_spec", lambda name: None)
    with pytest.raises(BackendError, match=r"'faiss' cannot search here: .* pip install faiss-cpu"):
        topk_cosine(QUERIES, CORPUS, 5, backend="faiss")
    with pytest.raises(BackendError, match=r"'faiss' cannot search here: .* pip install faiss-gpu"):
        similarity.check_backend("faiss", "cuda")
    assert available_backends() == ("numpy",)
    with pytest.raises(BackendError, match=r"on the CPU and the vectors are on cuda.*\.cpu\(\)"):
        similarity.check_backend("numpy", "cuda:1")
