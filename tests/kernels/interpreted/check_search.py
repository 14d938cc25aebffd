"""The Triton kernels against the oracle; needs TRITON_INTERPRET=1 before Triton is imported."""

import itertools

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
    triton_search._cut.cache_clear()
    yield
    triton_search._cut.cache_clear()


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


@pytest.fixture
def flags(monkeypatch):
    """The queries that each `merge` left flagged."""
    left, run = [], triton_search._run

    def watched(kernel, grid, tensors, *others, **options):
        run(kernel, grid, tensors, *others, **options)
        if kernel.__name__ == "merge":
            left.append(tensors[1].tolist())

    monkeypatch.setattr(triton_search, "_run", watched)
    return left


def cut_into(monkeypatch, slabs):
    """Slabs that are fewer and longer than a search would have."""

    def slab_rows(shape, *, rows, **_):
        return -(-rows // (shape.rows * slabs)) * shape.rows

    monkeypatch.setattr(triton_search, "slab_rows", slab_rows)


def compare(queries, corpus, weights, k, *, exact):
    scores, rows = triton_search.search(queries.numpy(), corpus, weights, k)
    expected_scores, expected_rows = topk_oracle(
        queries.numpy(), corpus.float().numpy(), k, inverse_norms=weights.numpy()
    )
    assert scores.shape == rows.shape == (len(queries), k)
    assert scores.dtype == np.float32
    assert rows.dtype == np.int64
    np.testing.assert_allclose(scores, expected_scores, atol=2e-6 if exact else 2e-4)
    if exact:
        np.testing.assert_array_equal(rows, expected_rows)


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
    scores, rows = triton_search.search(queries.numpy(), corpus, weights, k)
    corpus[absent] = 0
    expected, _ = topk_oracle(
        queries.numpy(), corpus.float().numpy(), k, inverse_norms=weights.numpy()
    )
    tolerance = 2e-4 if dtype == "bfloat16" else 2e-6
    np.testing.assert_allclose(scores, expected, atol=tolerance)
    exact = (queries.double() @ corpus.double().T * weights.double()).numpy()
    np.testing.assert_allclose(np.take_along_axis(exact, rows, axis=1), scores, atol=tolerance)
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


@pytest.mark.parametrize("queries", [1, 20])
def test_equal_rows_are_found_in_order(queries):
    corpus = poisoned_corpus(np.ones((513, 5)), torch.float16)
    asked = unit(torch.ones((queries, 5)))
    _, rows = triton_search.search(asked.numpy(), corpus, inverse_norms_of(corpus, (0, 3)), 6)
    assert rows.tolist() == [[1, 2, 4, 5, 6, 7]] * queries


def test_zeros_of_either_sign_are_equal():
    far, tiny = 2.0**60, 1e-30
    rows = np.array([[far, -tiny], [far, 0], [far, -tiny], [far, tiny], [1, -1]])
    corpus = poisoned_corpus(rows, torch.float32)
    asked = torch.tensor([[0.0, 1.0]])
    compare(asked, corpus, inverse_norms_of(corpus, ()), 5, exact=True)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("dimension", "k"), [(384, 10), (1024, 3), (257, 64), (48, 128)])
def test_the_shapes_of_real_encoders(dimension, k, dtype):
    random = np.random.default_rng(7)
    corpus = poisoned_corpus(random.standard_normal((150, dimension)), DTYPES[dtype])
    queries = unit(torch.from_numpy(random.standard_normal((2, dimension))).float())
    compare(queries, corpus, inverse_norms_of(corpus, (1,)), k, exact=True)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_number_of_programs_does_not_matter(dtype, monkeypatch, flags):
    random = np.random.default_rng(3)
    corpus = poisoned_corpus(random.standard_normal((1400, 48)), DTYPES[dtype])
    queries = unit(torch.from_numpy(random.standard_normal((3, 48))).float())
    weights = inverse_norms_of(corpus, range(100, 200))
    answers = []
    for slabs in (1, 3, 11):
        cut_into(monkeypatch, slabs)
        triton_search._cut.cache_clear()
        answers.append(triton_search.search(queries.numpy(), corpus, weights, 8))
    compare(queries, corpus, weights, 8, exact=True)
    assert not np.any(flags)
    for scores, rows in answers[1:]:
        np.testing.assert_array_equal(scores, answers[0][0])
        np.testing.assert_array_equal(rows, answers[0][1])


@pytest.mark.parametrize("apart", [True, False])
def test_best_rows_that_meet_in_one_bin_are_found_by_the_second_scan(apart, monkeypatch, flags):
    cut_into(monkeypatch, 2)
    random = np.random.default_rng(1)
    rows = random.standard_normal((2500, 32))
    asked = random.standard_normal((17, 32))
    # The best of query 4 lie in one bin of each slab, or as neighbours in a bin each.
    places = slice(5, 2500, 128) if apart else slice(640, 660)
    rows[places] = asked[4] + 0.01 * random.standard_normal((20, 32))
    corpus = poisoned_corpus(rows, torch.float16)
    compare(
        unit(torch.from_numpy(asked).float()), corpus, inverse_norms_of(corpus, ()), 10, exact=True
    )
    first, second = flags
    assert [query for query, flag in enumerate(first) if flag] == ([4] if apart else [])
    assert not any(second)


def test_more_equal_rows_in_a_bin_than_any_list_holds_come_in_order(monkeypatch, flags):
    """Signs in 16 dimensions are exact; rows are equal, and some of them are left out."""
    cut_into(monkeypatch, 1)
    random = np.random.default_rng(2)
    rows = random.choice([-1, 1], size=(128 * 16, 16))
    rows[7::128] = 1
    corpus = poisoned_corpus(rows, torch.float32)
    weights = inverse_norms_of(corpus, (7, 7 + 256))
    compare(torch.full((1, 16), 0.25), corpus, weights, 12, exact=True)
    assert flags == [[1], [0]]


def test_a_bin_keeps_any_three_scores_in_order(monkeypatch, flags):
    """Each bin gets three scores of few values; three tiles drop nothing."""
    cut_into(monkeypatch, 1)
    directions = np.array([[0, 1], [0.6, 0.8], [1, 0]])
    rows = np.tile([[-1.0, 0.0]], (384, 1))
    for lane, values in enumerate(itertools.product(range(3), repeat=3)):
        rows[lane::128] = directions[list(values)]
    corpus = poisoned_corpus(rows, torch.float32)
    compare(torch.tensor([[1.0, 0.0]]), corpus, torch.ones(384), 81, exact=True)
    assert flags == [[0], [0]]


def test_of_equal_rows_a_bin_keeps_the_lower_ones(monkeypatch, flags):
    cut_into(monkeypatch, 1)
    rows = np.tile([[-1.0, 0.0]], (600, 1))
    rows[5::128] = 1, 0
    corpus = poisoned_corpus(rows, torch.float16)
    compare(torch.tensor([[1.0, 0.0]]), corpus, torch.ones(600), 3, exact=True)
    assert flags == [[0], [0]]


def test_lists_of_a_second_scan_end_one_by_one(monkeypatch, flags):
    """The best of each query are as many, in a bin of their own, and come sooner or later."""
    cut_into(monkeypatch, 1)
    rows = np.zeros((128 * 12, 16))
    rows[:, 15] = 1
    for query in range(4):
        for count, row in enumerate(range(20 * query, len(rows), 128)):
            rows[row, [query, 15]] = 1, (count if query % 2 else 12 - count) / 4
    corpus = poisoned_corpus(rows, torch.float32)
    queries = torch.eye(16)[:4]
    compare(queries, corpus, inverse_norms_of(corpus, ()), 5, exact=True)
    assert flags == [[1, 1, 1, 1], [0, 0, 0, 0]]


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    n_rows=st.integers(400, 1400),
    kinds=st.integers(1, 40),
    k=st.integers(1, 20),
    seed=st.integers(0, 2**20),
)
def test_few_bins_and_many_ties(n_rows, kinds, k, seed):
    """One slab, so that bins overflow, and rows that repeat."""
    random = np.random.default_rng(seed)
    rows = random.choice([-1, 1], size=(kinds, 16))[random.integers(0, kinds, n_rows)]
    corpus = poisoned_corpus(rows, torch.float16)
    queries = torch.from_numpy(random.choice([-1, 1], size=(2, 16)) / 4).float()
    absent = np.flatnonzero(random.random(n_rows) < 0.2)
    with pytest.MonkeyPatch.context() as patch:
        cut_into(patch, 1)
        triton_search._cut.cache_clear()
        compare(queries, corpus, inverse_norms_of(corpus, absent), k, exact=True)
    triton_search._cut.cache_clear()


def test_many_queries_are_searched_for_some_at_a_time(monkeypatch):
    monkeypatch.setattr(triton_search, "_QUERIES_TOGETHER", 4)
    random = np.random.default_rng(5)
    corpus = poisoned_corpus(random.standard_normal((200, 16)), torch.float32)
    queries = unit(torch.from_numpy(random.standard_normal((10, 16))).float())
    compare(queries, corpus, inverse_norms_of(corpus, ()), 3, exact=True)


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
