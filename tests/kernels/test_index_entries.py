import enum
import math

import numpy as np
import pytest

from llm_kernels.errors import EntryError, SimilarityError, VectorError
from llm_kernels.index import EmbeddingIndex

ONE, TWO = [[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]


class Name(enum.StrEnum):
    PLATE = "plate"


def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.fixture
def index():
    index = EmbeddingIndex(2)
    index.add(["a", "b"], TWO, [{"n": 1}, None])
    return index


@pytest.mark.parametrize(
    ("keys", "vectors", "payloads", "message"),
    [
        (["c", "a"], TWO, None, "key 'a' is in the index already: remove it first"),
        (["c", "c"], TWO, None, "key 'c' comes twice"),
        ("cd", TWO, None, r"string 'cd', not a list of keys: pass \['cd'\]"),
        ([3], ONE, None, "key 3 is a int: keys are strings"),
        (["c\udc80"], ONE, None, r"key 'c\\udc80' is not a JSON value .*surrogates"),
        (["c", "d"], ONE, None, "1 vectors for 2 keys"),
        (["c"], [1.0, 0.0], None, "one vector is a matrix of one row"),
        (["c"], [[1.0, 0.0, 0.0]], None, r"\[1, 3\] instead of \[rows, 2\]"),
        (["c", "d"], [[1.0, 0.0], [0.0, 0.0]], None, "the vector of key 'd' is zero"),
        (["c"], [[1e200, 0.0]], None, "key 'c' has norm inf, outside"),
        (["c"], [[1.0], [1.0, 2.0]], None, "not an array of numbers"),
        (["c"], [["1", "0"]], None, "dtype <U1, not real numbers"),
        (["c"], ONE, [1, 2], "2 payloads for 1 keys"),
        (["c"], ONE, {"c": 1}, "payloads is a dict, not a list"),
        (["c"], ONE, [math.nan], "payload of key 'c' is not a JSON value"),
        (["c"], ONE, [{"x": {1, 2}}], "payload of key 'c' is not a JSON value"),
        (["c"], ONE, [{"x": [(1, 2)]}], "payload of key 'c' is .* JSON cannot give back"),
        (["c"], ONE, [deep(100_000)], "payload of key 'c' is not a JSON value"),
    ],
)
def test_what_add_refuses_changes_nothing(index, keys, vectors, payloads, message):
    with pytest.raises(SimilarityError, match=message) as caught:
        index.add(keys, vectors, payloads)
    assert isinstance(caught.value, EntryError | VectorError)
    assert index.keys == ("a", "b")
    assert "c" not in index


def test_what_remove_refuses_changes_nothing(index):
    for keys, message in (
        (["a", "z"], "key 'z' is not in the index"),
        (["a", "a"], "key 'a' comes twice"),
    ):
        with pytest.raises(EntryError, match=message):
            index.remove(keys)
    assert index.keys == ("a", "b")


def test_looking_up_a_key_that_is_not_there(index):
    index.remove(["b"])
    for key in ("b", "z"):
        with pytest.raises(EntryError, match=f"key '{key}' is not in the index"):
            index.vector(key)
        assert key not in index
    assert 3 not in index


def test_metadata_must_be_json():
    with pytest.raises(EntryError, match="metadata is not a JSON value"):
        EmbeddingIndex(2, metadata={"x": object()})


def test_a_bad_row_is_found_in_any_block():
    vectors = np.ones((3 * 1024, 128))
    index = EmbeddingIndex(128)
    for row in (0, 1023, 1024, 3071):
        bad = vectors.copy()
        bad[row] = 0
        with pytest.raises(VectorError, match=f"key '{row}' is zero"):
            index.add([str(number) for number in range(len(bad))], bad)


def test_keys_are_kept_as_plain_strings():
    index = EmbeddingIndex(2)
    index.add([np.str_("bowl"), Name.PLATE], TWO)
    assert index.keys == ("bowl", "plate")
    assert [type(key) for key in index.keys] == [str, str]
    assert "plate" in index


@pytest.mark.parametrize(
    "payload",
    [
        0,
        False,
        -0.0,
        1e-320,
        2**80,
        "",
        "é\x00\u2028\U0001f600",
        [],
        {},
        [None],
        {"": [1, {"a": None}]},
        deep(90),
    ],
)
def test_payloads_come_back_equal_and_of_their_type(index, payload):
    index.add(["c"], [[-1.0, -1.0]], [payload])
    assert repr(index.search([-1, -1], 1)[0].payload) == repr(payload)
