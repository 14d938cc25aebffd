"""An index on the Triton backend; needs TRITON_INTERPRET=1 before Triton is imported."""

import numpy as np
import pytest

from llm_kernels.index import EmbeddingIndex, _Sent


# On a device a row of four float16 numbers is filled up to eight.
@pytest.mark.parametrize(
    ("dimension", "dtype", "sent"),
    [(16, "float32", False), (16, "float32", True), (4, "float16", True)],
)
def test_the_index_answers_as_with_numpy(dimension, dtype, sent):
    rng = np.random.default_rng(0)
    # Signs in 16 or 4 dimensions: unit rows and their products are exact, with many ties.
    vectors = rng.choice([-1, 1], size=(26, dimension))
    queries = rng.choice([-1, 1], size=(2, dimension))
    indexes = [
        EmbeddingIndex(dimension, dtype=dtype, backend=backend) for backend in ("triton", "numpy")
    ]
    if sent:
        indexes[0]._sent = _Sent("cpu"), _Sent("cpu")
    found = []
    for index in indexes:
        assert index.search_batch(queries, 3) == ((), ())
        index.add([str(row) for row in range(18)], vectors[:18])
        first = index.search(queries[1], 4)
        index.remove(["0", "7", "17"])
        index.add([str(row) for row in range(18, 26)], vectors[18:])
        found.append((first, *index.search_batch(queries, 30)))
    assert found[0] == found[1]
    assert [len(answer) for answer in found[0]] == [4, 23, 23]
