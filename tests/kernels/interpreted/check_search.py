"""The Triton kernels against the oracle; needs TRITON_INTERPRET=1 before Triton is imported."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_kernels import triton_search
from llm_kernels.similarity import topk_oracle

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@pytest.fixture(autouse=True)
def poison(monkeypatch):
    """Fills the outputs with NaN and with a row that no corpus has, to show unwritten places."""

    def empty(shape, *, dtype, device):
        filling = float("nan") if dtype.is_floating_point else -(10**9)
        return torch.full(shape, filling, dtype=dtype, device=device)

    monkeypatch.setattr(torch, "empty", empty)


def poisoned_corpus(rows, dtype):
    """The rows, with NaN right behind them in memory."""
    behind = np.full((130, rows.shape[1]), np.nan)
    whole = torch.from_numpy(np.concatenate((rows, behind))).to(dtype)
    return whole[: len(rows)]


def inverse_norms_of(corpus, absent):
    norms = corpus.float().norm(dim=1)
    weights = torch.where(norms > 0, 1 / norms, 0.0)
    weights[list(absent)] = 0
    return weights


def compare(queries, corpus, weights, k, *, exact):
    scores, rows = triton_search.search(queries, corpus, weights, k)
    expected_scores, expected_rows = topk_oracle(
        queries.numpy(), corpus.float().numpy(), k, inverse_norms=weights.numpy()
    )
    assert scores.shape == rows.shape == (len(queries), k)
    assert scores.dtype == torch.float32
    assert rows.dtype == torch.int64
    np.testing.assert_allclose(scores.numpy(), expected_scores, atol=2e-6 if exact else 2e-4)
    if exact:
        np.testing.assert_array_equal(rows.numpy(), expected_rows)


def unit(queries):
    return queries / queries.norm(dim=1, keepdim=True)


@settings(
    max_examples=14, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    n_queries=st.sampled_from([1, 2, 16, 17, 33]),
    n_rows=st.integers(1, 260),
    dimension=st.integers(1, 150),
    dtype=st.sampled_from(list(DTYPES)),
    k=st.integers(1, 9),
    seed=st.integers(0, 2**20),
)
def test_agrees_with_the_oracle(n_queries, n_rows, dimension, dtype, k, seed):
    random = np.random.default_rng(seed)
    corpus = poisoned_corpus(random.standard_normal((n_rows, dimension)) + 0.1, DTYPES[dtype])
    queries = unit(torch.from_numpy(random.standard_normal((n_queries, dimension))).float())
    absent = np.flatnonzero(random.random(n_rows) < 0.2)
    weights = inverse_norms_of(corpus, absent)
    k = min(k, int((weights > 0).sum()))
    if k == 0:
        return
    corpus[absent] = float("nan")
    scores, rows = triton_search.search(queries, corpus, weights, k)
    corpus[absent] = 0
    expected, _ = topk_oracle(
        queries.numpy(), corpus.float().numpy(), k, inverse_norms=weights.numpy()
    )
    tolerance = 2e-4 if dtype == "bfloat16" else 2e-6
    np.testing.assert_allclose(scores.numpy(), expected, atol=tolerance)
    exact = (queries.double() @ corpus.double().T * weights.double()).numpy()
    np.testing.assert_allclose(
        np.take_along_axis(exact, rows.numpy(), axis=1), scores.numpy(), atol=tolerance
    )
    assert not set(rows.flatten().tolist()) & set(absent.tolist())
    assert all(len(set(found)) == k for found in rows.tolist())


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    n_queries=st.sampled_from([1, 5, 18]),
    n_rows=st.integers(20, 200),
    dtype=st.sampled_from(list(DTYPES)),
    k=st.integers(1, 12),
    seed=st.integers(0, 2**20),
)
def test_ties_go_to_the_lower_row(n_queries, n_rows, dtype, k, seed):
    random = np.random.default_rng(seed)
    rows = np.eye(4)[random.integers(0, 4, n_rows)] * 2.0 ** random.integers(-2, 3, (n_rows, 1))
    corpus = poisoned_corpus(rows, DTYPES[dtype])
    queries = torch.from_numpy(np.eye(4)[random.integers(0, 4, n_queries)]).float()
    compare(queries, corpus, inverse_norms_of(corpus, ()), k, exact=True)


@pytest.mark.parametrize("queries", [1, 20], ids=["stream", "gemm"])
def test_equal_rows_are_found_in_order(queries):
    corpus = poisoned_corpus(np.ones((513, 5)), torch.float16)
    asked = unit(torch.ones((queries, 5)))
    _, rows = triton_search.search(asked, corpus, inverse_norms_of(corpus, (0, 3)), 6)
    assert rows.tolist() == [[1, 2, 4, 5, 6, 7]] * queries


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("dimension", "k"), [(384, 10), (1024, 3), (257, 64)])
def test_the_shapes_of_real_encoders(dimension, k, dtype):
    random = np.random.default_rng(7)
    corpus = poisoned_corpus(random.standard_normal((150, dimension)), DTYPES[dtype])
    queries = unit(torch.from_numpy(random.standard_normal((2, dimension))).float())
    compare(queries, corpus, inverse_norms_of(corpus, (1,)), k, exact=True)


def test_a_far_row_is_found_and_the_number_of_programs_does_not_matter(monkeypatch):
    random = np.random.default_rng(3)
    corpus = poisoned_corpus(random.standard_normal((700, 48)), torch.float16)
    queries = unit(torch.from_numpy(random.standard_normal((3, 48))).float())
    weights = inverse_norms_of(corpus, range(100, 200))
    answers = []
    for processors in (1, 5):
        device = triton_search.Device(processors=processors, shared_bytes=101376)
        monkeypatch.setattr(triton_search, "_device", lambda corpus, device=device: device)
        answers.append(triton_search.search(queries, corpus, weights, 8))
    assert answers[0][1].tolist() == answers[1][1].tolist()
    assert torch.equal(answers[0][0], answers[1][0])
    compare(queries, corpus, weights, 8, exact=True)


def test_the_public_function_takes_the_triton_backend():
    from llm_kernels import topk_cosine

    corpus = torch.tensor([[3.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    scores, rows = topk_cosine(
        torch.tensor([[5.0, 0.0]]),
        corpus,
        9,
        inverse_norms=torch.tensor([1 / 3, 1 / 2, 0]),
        backend="triton",
    )
    assert rows.tolist() == [[0, 1]]
    assert scores.tolist() == [[1.0, 0.0]]
