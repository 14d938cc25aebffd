import numpy as np
import pytest
import torch

from llm_kernels import VectorError, inverse_norms, unit_queries


def test_inverse_norms_by_hand():
    rows = np.float32([[3, 4], [0.5, 0], [-1, 1]])
    expected = np.float32([0.2, 2, 1 / np.sqrt(2)])
    np.testing.assert_array_equal(inverse_norms(rows), expected)
    assert inverse_norms(rows).dtype == np.float32


def test_unit_queries_by_hand():
    unit = unit_queries(np.float32([[3, 4], [0, -2]]))
    np.testing.assert_array_equal(unit, np.float32([[0.6, 0.8], [0, -1]]))
    assert unit.dtype == np.float32


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_tensors_give_the_same_bits(dtype):
    rows = np.random.default_rng(0).standard_normal((300, 37)).astype(dtype)
    tensor = torch.from_numpy(rows)
    assert isinstance(inverse_norms(tensor), torch.Tensor)
    np.testing.assert_array_equal(inverse_norms(tensor).numpy(), inverse_norms(rows))
    np.testing.assert_array_equal(unit_queries(tensor).numpy(), unit_queries(rows))


def test_bfloat16_is_read_without_loss():
    rows = torch.tensor([[3, 4], [1, 0.333]], dtype=torch.bfloat16)
    np.testing.assert_array_equal(inverse_norms(rows), inverse_norms(rows.float()))


def test_layout_in_memory_does_not_matter():
    rows = np.random.default_rng(1).standard_normal((50, 19)).astype(np.float32)
    np.testing.assert_array_equal(inverse_norms(np.asfortranarray(rows)), inverse_norms(rows))
    turned = torch.from_numpy(rows.T.copy()).T
    np.testing.assert_array_equal(inverse_norms(turned).numpy(), inverse_norms(rows))


def test_no_rows():
    assert inverse_norms(np.empty((0, 5), np.float32)).shape == (0,)
    assert unit_queries(torch.empty((0, 5))).shape == (0, 5)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([1, np.nan, 0], r"corpus\[2\] holds NaN at position 1: leave it out"),
        ([1, 0, -np.inf], r"corpus\[2\] holds Inf at position 2: leave it out"),
        ([0, 0, 0], r"corpus\[2\] is zero: .* leave it out"),
        ([1e-30, 0, 0], r"corpus\[2\] has norm 1e-30, outside .*: scale it"),
        ([0, 1e30, 0], r"corpus\[2\] has norm 1e\+30, outside .*: scale it"),
    ],
)
def test_bad_rows_are_named(kind, bad, message):
    rows = kind(np.float32([[1, 2, 3], [4, 5, 6], bad, bad]))
    with pytest.raises(VectorError, match=message):
        inverse_norms(rows, name="corpus")
    with pytest.raises(VectorError, match=message.replace("corpus", "queries")):
        unit_queries(rows)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros(3, np.float32), r"queries has shape \[3\].*v\[None, :\]"),
        (np.zeros((1, 2, 3), np.float32), r"queries has shape \[1, 2, 3\].*reshape"),
        (np.zeros((3, 0), np.float32), r"queries has shape \[3, 0\].*dimension > 0"),
        (np.zeros((3, 2)), r"queries is of dtype float64.*\.astype\(numpy\.float32\)"),
        (np.zeros((3, 2), np.int64), r"queries is of dtype int64.*\.astype\(numpy\.float32\)"),
        (torch.zeros((3, 2), dtype=torch.float64), r"dtype torch\.float64.*\.float\(\)"),
        ([[1.0, 2.0]], r"queries is a list.*numpy\.asarray"),
    ],
)
def test_what_cannot_be_read(rows, message):
    with pytest.raises(VectorError, match=message):
        unit_queries(rows)
