"""Any sequence of calls, against a dictionary and the definition of the search."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from llm_kernels.errors import EntryError, VectorError
from llm_kernels.index import EmbeddingIndex
from llm_kernels.similarity import topk_oracle

DIMENSION = 5
# Few directions, so that most scores are tied.
DIRECTIONS = np.random.default_rng(11).normal(size=(6, DIMENSION)).astype(np.float32)

keys = st.sampled_from([f"k{number}" for number in range(14)])
key_lists = st.lists(keys, min_size=1, max_size=6, unique=True)
payloads = st.one_of(st.none(), st.integers(0, 3), st.lists(st.text(max_size=2), max_size=2))
vectors = st.builds(
    lambda direction, power: DIRECTIONS[direction] * np.float32(2.0**power),
    st.integers(0, len(DIRECTIONS) - 1),
    st.integers(-3, 3),
)


class IndexMachine(RuleBasedStateMachine):
    """`model` holds (vector, payload) by key, the oldest entry first."""

    dtype = "float32"

    def __init__(self):
        super().__init__()
        self.index = EmbeddingIndex(DIMENSION, dtype=self.dtype, backend="numpy")
        self.model = {}
        self.folder = tempfile.TemporaryDirectory()

    def teardown(self):
        self.folder.cleanup()

    @rule(named=key_lists, data=st.data(), with_payloads=st.booleans())
    def add(self, named, data, with_payloads):
        rows = [data.draw(vectors) for _ in named]
        kept = [data.draw(payloads) if with_payloads else None for _ in named]
        given = kept if with_payloads else None
        if self.model.keys() & set(named):
            with pytest.raises(EntryError, match="is in the index already"):
                self.index.add(named, rows, given)
        else:
            self.index.add(named, rows, given)
            self.model |= dict(zip(named, zip(rows, kept, strict=True), strict=True))

    @rule(named=key_lists)
    def remove(self, named):
        if set(named) - self.model.keys():
            with pytest.raises(EntryError, match="is not in the index"):
                self.index.remove(named)
        else:
            self.index.remove(named)
            for key in named:
                del self.model[key]

    @rule(named=key_lists)
    def fail(self, named):
        rows = np.ones((len(named), DIMENSION))
        rows[-1] = 0
        with pytest.raises(VectorError, match=f"key '{named[-1]}' is zero"):
            self.index.add(named, rows)

    @rule()
    def save_and_load(self):
        path = Path(self.folder.name) / "index"
        self.index.save(path)
        self.index = EmbeddingIndex.load(path, backend="numpy")

    @rule(queries=st.lists(vectors, min_size=1, max_size=3), k=st.integers(1, 16))
    def search(self, queries, k):
        answers = self.index.search_batch(queries, k)
        assert answers[0] == self.index.search(queries[0], k)
        if not self.model:
            assert answers == ((),) * len(queries)
            return
        names = list(self.model)
        units = [row / np.linalg.norm(row.astype(np.float64)) for row, _ in self.model.values()]
        scores, rows = topk_oracle(np.array(queries), np.array(units, self.dtype), k)
        for answer, expected, graded in zip(answers, rows, scores, strict=True):
            assert [match.key for match in answer] == [names[row] for row in expected]
            np.testing.assert_allclose([match.score for match in answer], graded, atol=1e-7)
            assert [match.payload for match in answer] == [
                self.model[match.key][1] for match in answer
            ]

    @invariant()
    def holds_what_the_model_holds(self):
        assert self.index.keys == tuple(self.model)
        assert len(self.index) == len(self.model)
        for number in range(14):
            key = f"k{number}"
            assert (key in self.index) == (key in self.model)
        for key, (vector, _) in self.model.items():
            unit = vector / np.linalg.norm(vector)
            tolerance = 1e-6 if self.dtype == "float32" else 1e-3
            np.testing.assert_allclose(self.index.vector(key), unit, atol=tolerance)
        assert len(self.index._rows) >= len(self.index._keys)
        assert 2 * len(self.model) >= len(self.index._keys)


class HalfPrecisionMachine(IndexMachine):
    """The same on 16-bit rows."""

    dtype = "float16"


IndexMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
HalfPrecisionMachine.TestCase.settings = settings(
    max_examples=10, stateful_step_count=30, deadline=None
)
TestIndex = IndexMachine.TestCase
TestHalfPrecisionIndex = HalfPrecisionMachine.TestCase
