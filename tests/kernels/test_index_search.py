from importlib.util import find_spec

import numpy as np
import pytest
import torch

from llm_kernels import index as index_module
from llm_kernels import similarity
from llm_kernels.errors import BackendError, VectorError
from llm_kernels.index import EmbeddingIndex, Match, _Sent
from llm_kernels.similarity import topk_oracle

NEEDS_FAISS = pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed")
BACKENDS = ("numpy", "torch", pytest.param("faiss", marks=NEEDS_FAISS), "auto")


def normal(rows, dimension, *, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)


def names(rows, *, prefix="k"):
    return [f"{prefix}{row}" for row in range(rows)]


def test_scores_are_cosines_of_vectors_of_any_length():
    index = EmbeddingIndex(2)
    index.add(["east", "north", "north-east"], [[5, 0], [0, 0.01], [3, 3]], [1, None, {"d": [45]}])
    matches = index.search([2, 0], 3)
    assert [match.key for match in matches] == ["east", "north-east", "north"]
    assert [match.score for match in matches] == pytest.approx([1, 2**-0.5, 0], abs=1e-7)
    assert [match.payload for match in matches] == [1, {"d": [45]}, None]
    assert index.search([-1, 0], 1)[0] == Match("north", 0.0, None)


def test_an_index_of_another_age_answers_with_what_it_holds():
    index = EmbeddingIndex(3)
    assert len(index) == 0
    assert index.keys == ()
    assert index.search([1, 0, 0], 4) == ()
    assert index.search_batch(np.eye(3), 4) == ((), (), ())
    assert index.search_batch(np.empty((0, 3)), 4) == ()
    index.add(["a", "b"], np.eye(3)[:2])
    assert len(index.search([1, 0, 0], 4)) == 2
    assert len(index.search([1, 0, 0], 1)) == 1
    index.add([], np.empty((0, 3)))
    index.remove([])
    assert index.keys == ("a", "b")
    index.remove(["b", "a"])
    assert index.search([1, 0, 0], 4) == ()
    assert "a" not in index


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_entry_that_a_query_is_comes_first(dtype):
    index = EmbeddingIndex(2, dtype=dtype)
    alike = names(5, prefix="same")
    index.add(["gone", *alike, "other"], [[0, 2], *[[3, 4]] * 5, [4, 3]], [*range(7)])
    index.remove(["gone"])
    queries = np.float32([[3, 4]] * 5)
    asked = ["same4", "same1", None, "gone", "other"]
    found = index.search_batch(queries, 2, keys=asked)
    assert [[match.key for match in matches] for matches in found] == [
        ["same4", "same0"],
        ["same1", "same0"],
        ["same0", "same1"],
        ["same0", "same1"],
        ["other", "same0"],
    ]
    own, close = found[0][0], found[4][0]
    assert (own.payload, own.score) == (5, pytest.approx(1, abs=1e-3))
    assert close.score == pytest.approx(0.96, abs=1e-3)
    with pytest.raises(ValueError, match="zip"):
        index.search_batch(queries, 2, keys=["same1"])


def test_payloads_cannot_be_changed_from_outside():
    payload = {"steps": ["mine"]}
    index = EmbeddingIndex(2, metadata={"encoder": {"name": "e"}})
    index.add(["a"], [[1, 0]], [payload])
    payload["steps"].append("craft")
    index.search([1, 0], 1)[0].payload["steps"].clear()
    index.metadata["encoder"]["name"] = "other"
    assert index.search([1, 0], 1)[0].payload == {"steps": ["mine"]}
    assert index.metadata == {"encoder": {"name": "e"}}


def test_vectors_handed_out_are_copies():
    index = EmbeddingIndex(2)
    given = np.array([[3.0, 4.0]])
    index.add(["a"], given)
    given[:] = 0
    index.vector("a")[:] = 7
    np.testing.assert_array_equal(index.vector("a"), np.float32([0.6, 0.8]))
    assert index.vector("a").dtype == np.float32


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_agree_with_the_oracle_also_on_ties(backend):
    corpus = normal(300, 24)
    corpus[100:200] = corpus[:100]  # ties
    corpus[200:250] = 4 * corpus[:50]
    index = EmbeddingIndex(24, backend=backend)
    index.add(names(300), corpus)
    gone = list(range(0, 300, 3))
    index.remove([f"k{row}" for row in gone])
    alive = [row for row in range(300) if row % 3]
    stored = np.stack([index.vector(f"k{row}") for row in alive])
    queries = np.concatenate((normal(5, 24, seed=1), 3 * corpus[:3]))
    for k in (1, 7, 250):
        scores, rows = topk_oracle(queries, stored, k)
        found = index.search_batch(queries, k)
        assert [len(answer) for answer in found] == [min(k, 200)] * 8
        expected = [[f"k{alive[row]}" for row in answer] for answer in rows]
        assert [[match.key for match in answer] for answer in found] == expected
        graded = [[match.score for match in answer] for answer in found]
        np.testing.assert_array_equal(np.float32(graded), scores)
        assert index.search(queries[0], k) == found[0]


def test_float16_halves_the_rows_and_is_right_to_three_digits():
    corpus, queries = normal(50, 64), normal(4, 64, seed=1)
    single, half = (EmbeddingIndex(64, dtype=dtype) for dtype in ("float32", "float16"))
    for index in (single, half):
        index.add(names(50), corpus)
    assert half.dtype == "float16"
    assert half._rows.nbytes * 2 == single._rows.nbytes
    for matches, other in zip(
        single.search_batch(queries, 50), half.search_batch(queries, 50), strict=True
    ):
        exact = {match.key: match.score for match in matches}
        assert all(abs(match.score - exact[match.key]) < 1e-3 for match in other)
    np.testing.assert_allclose(half.vector("k3"), single.vector("k3"), atol=1e-3)


def test_vectors_are_unit_rows_whatever_kind_they_come_as():
    values = [[1, 2, 2], [0, 0, -3]]
    kinds = [
        values,
        np.array(values, np.int8),
        np.array(values, np.float64) * 2**50,
        np.asfortranarray(np.array(values, np.float16)),
        torch.tensor(values, dtype=torch.bfloat16),
        torch.tensor(values, dtype=torch.float64, requires_grad=True),
    ]
    for kind in kinds:
        index = EmbeddingIndex(3)
        index.add(["a", "b"], kind)
        np.testing.assert_array_equal(index.vector("a"), np.float32([1 / 3, 2 / 3, 2 / 3]))
        np.testing.assert_array_equal(index.vector("b"), np.float32([0, 0, -1]))
        assert index.search(kind[0], 1)[0].key == "a"


def test_growth_is_amortised():
    index = EmbeddingIndex(4)
    buffers, copied = [], 0
    for number, row in enumerate(normal(1000, 4)):
        index.add([str(number)], row[None])
        buffer = index._rows
        if not buffers or buffer is not buffers[-1]:
            buffers.append(buffer)
            copied += number
    assert len(buffers) == 11  # 1, 2, 4, ... 1024 rows
    assert copied < 2 * 1000
    bulk = EmbeddingIndex(4)
    bulk.add(names(1000), normal(1000, 4))
    assert len(bulk._rows) == 1000  # no room to spare before it is needed


@pytest.fixture
def sent(monkeypatch):
    """How many rows of how many dimensions were sent to a device."""
    numbers = []
    from_numpy = torch.from_numpy

    def counted(array):
        numbers.append(array.shape)
        return from_numpy(array)

    monkeypatch.setattr(torch, "from_numpy", counted)
    return numbers


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_only_what_is_new_is_sent_to_a_device(sent, dtype):
    array = np.zeros((20, 3), dtype)
    array[:12] = normal(12, 3)
    copy = _Sent("cpu")
    for count, number in ((10, 10), (10, 0), (12, 2)):
        sent.clear()
        found = copy.following(array, count)
        assert sum(shape[0] for shape in sent) == number
        assert str(found.dtype) == f"torch.{dtype}"
        np.testing.assert_array_equal(found[:, :3].numpy(), array[:count])
    sent.clear()
    np.testing.assert_array_equal(copy.following(array.copy(), 12)[:, :3].numpy(), array[:12])
    assert sent == [(12, 3)]


@pytest.mark.parametrize(
    ("dtype", "dimension", "width"),
    [("float32", 101, 104), ("float32", 384, 384), ("float16", 101, 104), ("float16", 100, 104)],
)
def test_on_a_device_rows_begin_at_whole_16_bytes_and_score_the_same_bits(dtype, dimension, width):
    there = EmbeddingIndex(dimension, dtype=dtype, backend="torch")
    here = EmbeddingIndex(dimension, dtype=dtype, backend="numpy")
    there._sent = _Sent("cpu"), _Sent("cpu")
    vectors = normal(500, dimension)
    for index in (there, here):
        index.add(names(300), vectors[:300])
        index.search(vectors[0], 1)
        index.add(names(200, prefix="later"), vectors[300:])
    copy = there._sent[0].following(there._rows, 500)
    assert copy.shape == (500, width)
    assert copy.is_contiguous()
    assert not copy[:, dimension:].any()
    queries = normal(40, dimension, seed=1)
    assert there.search_batch(queries, 300) == here.search_batch(queries, 300)


def test_a_copy_that_failed_is_made_anew(monkeypatch):
    copy, array = _Sent("cpu"), normal(8, 3)
    copy.following(array, 4)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "from_numpy", lambda _: torch.ones(9))
        with pytest.raises(RuntimeError):
            copy.following(array, 8)
    np.testing.assert_array_equal(copy.following(array, 8)[:, :3].numpy(), array)


def test_any_sequence_of_writes_is_followed_on_a_device():
    rng = np.random.default_rng(5)
    there, here = EmbeddingIndex(3, backend="torch"), EmbeddingIndex(3, backend="numpy")
    there._sent = _Sent("cpu"), _Sent("cpu")
    following = 0
    for _ in range(200):
        kind, keys = rng.integers(3), here.keys
        vectors = rng.normal(size=(len(keys) + 3, 3))
        chosen = (
            list(rng.choice(keys, size=rng.integers(1, len(keys) + 1), replace=False))
            if keys
            else []
        )
        new = [str(row) for row in range(following, following + int(rng.integers(1, 4)))]
        for index in (there, here):
            if kind < 2:
                index.add(new, vectors[: len(new)])
            else:
                index.remove(chosen)
        following += len(new)
        if rng.integers(2):
            assert there.search_batch(vectors, 9) == here.search_batch(vectors, 9)


@pytest.mark.parametrize(
    ("backend", "rows", "queries", "sent"),
    [
        ("auto", 19, 1, []),
        ("auto", 20, 1, [20, 20]),
        ("auto", 10, 2, [10, 10]),
        ("torch", 1, 1, [1, 1]),
    ],
)
def test_what_is_little_work_is_done_here_unless_a_backend_is_named(
    backend, rows, queries, sent, monkeypatch
):
    following, counts = _Sent.following, []

    def watched(copy, array, count):
        counts.append(count)
        return following(copy, array, count)

    monkeypatch.setattr(_Sent, "following", watched)
    monkeypatch.setattr(index_module, "_ANSWERED_HERE", 60)
    index = EmbeddingIndex(3, backend=backend)
    index._sent = _Sent("cpu"), _Sent("cpu")
    vectors = normal(rows, 3)
    index.add(names(rows), vectors)
    found = index.search_batch(vectors[:queries], 1)
    assert [matches[0].key for matches in found] == names(queries)
    assert counts == sent


def test_how_many_entries_there_are_is_not_asked_of_a_device(monkeypatch):
    """The norms there would have to be counted and waited for."""
    index = EmbeddingIndex(3, backend="torch")
    index._sent = _Sent("cpu"), _Sent("cpu")
    index.add(names(20), normal(20, 3))
    index.remove(names(18))
    monkeypatch.setattr(similarity, "_taking_part", None)
    assert [len(found) for found in index.search_batch(normal(2, 3), 9)] == [2, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "annoy"}, "annoy.*choose one of auto"),
        ({"backend": "triton"}, "triton.*cannot search here.*choose one of"),
        ({"device": "tpu"}, "no device is called 'tpu'"),
        ({"device": "cuda:99"}, "'cuda:99' is not here.*use device 'cpu'"),
    ],
)
def test_backends_and_devices_that_are_not_here(options, message):
    with pytest.raises(BackendError, match=message):
        EmbeddingIndex(3, **options)


def test_an_array_backend_has_no_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(BackendError, match=r"'numpy' cannot search here.*CPU"):
        EmbeddingIndex(3, backend="numpy", device="cuda")


@pytest.mark.parametrize(
    ("dimension", "dtype", "message"),
    [
        (0, "float32", "dimension is 0"),
        (2.5, "float32", "dimension is 2.5"),
        (3, "int8", "dtype is 'int8': choose one of float32, float16"),
    ],
)
def test_what_no_index_has(dimension, dtype, message):
    with pytest.raises(VectorError, match=message):
        EmbeddingIndex(dimension, dtype=dtype)


@pytest.mark.parametrize(
    ("query", "k", "message"),
    [
        ([1, 0, 0], 0, "k is 0: it must be at least 1"),
        ([0, 0, 0], 1, "query 0 is zero"),
        ([1, 0], 1, r"shape \[1, 2\] instead of \[rows, 3\]"),
        ([[1, 0, 0]], 1, "use search_batch"),
        (["x", "y", "z"], 1, "not real numbers"),
    ],
)
def test_queries_that_are_refused(query, k, message):
    index = EmbeddingIndex(3)
    for index_of_any_size in (index, filled := EmbeddingIndex(3)):
        if index_of_any_size is filled:
            filled.add(["a"], [[1, 0, 0]])
        with pytest.raises(VectorError, match=message):
            index_of_any_size.search(query, k)


def test_the_position_of_a_bad_query_in_a_batch_is_named():
    index = EmbeddingIndex(3)
    index.add(["a"], [[1, 0, 0]])
    with pytest.raises(VectorError, match="query 2 is zero"):
        index.search_batch([[1, 0, 0], [0, 1, 0], [0, 0, 0]], 1)
    with pytest.raises(VectorError, match="one vector is a matrix of one row"):
        index.search_batch([1, 0, 0], 1)
