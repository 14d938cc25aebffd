import numpy as np
import pytest

from llm_kernels import searcher
from llm_kernels.index import EmbeddingIndex
from llm_kernels.searcher import DeviceMirror

torch = pytest.importorskip("torch")


class Watched:
    """A mirror of an index on the CPU, and how many rows and norms it sends."""

    def __init__(self, index, monkeypatch):
        self.index = index
        self.mirror = DeviceMirror("cpu")
        self.sent = []
        send = searcher._DeviceCopy._send

        def counted(held, array, tensor, first, end):
            self.sent.append(end - first)
            send(held, array, tensor, first, end)

        monkeypatch.setattr(searcher._DeviceCopy, "_send", counted)

    def follow(self):
        """Checks the copy; returns rows sent, norms sent and the copy."""
        self.sent.clear()
        snapshot, rows, norms = self.mirror.follow(self.index._newest)
        assert snapshot is self.index._newest()
        np.testing.assert_array_equal(rows.numpy(), snapshot.rows[: snapshot.count])
        np.testing.assert_array_equal(norms.numpy(), snapshot.inverse_norms[: snapshot.count])
        return (*self.sent, (rows, norms))


def add(index, first, end):
    vectors = np.random.default_rng(first).normal(size=(end - first, 3))
    index.add([str(row) for row in range(first, end)], vectors)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_only_what_is_new_is_sent(monkeypatch, dtype):
    index = EmbeddingIndex(3, dtype=dtype)
    watched = Watched(index, monkeypatch)
    assert watched.follow()[:2] == (0, 0)
    add(index, 0, 10)
    assert watched.follow()[:2] == (10, 10)
    assert watched.follow()[:2] == (0, 0)
    add(index, 10, 12)  # new buffers here, with room for 20
    rows, norms, (old_rows, old_norms) = watched.follow()
    assert (rows, norms) == (2, 12)
    assert str(old_rows.dtype) == f"torch.{dtype}"
    add(index, 12, 15)
    rows, norms, (newer_rows, _) = watched.follow()
    assert (rows, norms) == (3, 3)
    assert newer_rows.data_ptr() == old_rows.data_ptr()
    kept = old_rows.clone(), old_norms.clone()
    index.remove(["3", "11"])
    assert watched.follow()[:2] == (0, 15)
    index.update(["4"], [[1, 2, 3]])
    add(index, 15, 17)
    assert watched.follow()[:2] == (3, 18)
    index.remove([str(row) for row in range(5, 11)])
    index.remove(["12", "13"])
    assert index._newest().generation == 1
    left = len(index)
    assert watched.follow()[:2] == (left, left)
    # A search that still runs on an older state is not disturbed by any of it.
    assert torch.equal(old_rows, kept[0])
    assert torch.equal(old_norms, kept[1])


def test_a_copy_that_failed_is_made_anew(monkeypatch):
    index = EmbeddingIndex(3)
    watched = Watched(index, monkeypatch)
    add(index, 0, 4)
    watched.follow()
    add(index, 4, 8)
    send = searcher._DeviceCopy._send

    def failing(held, array, tensor, first, end):
        tensor[first:end] = 7
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(searcher._DeviceCopy, "_send", failing)
        with pytest.raises(RuntimeError, match="out of memory"):
            watched.follow()
    assert searcher._DeviceCopy._send is send
    assert watched.follow()[:2] == (8, 8)


def test_any_sequence_of_writes_is_followed(monkeypatch):
    rng = np.random.default_rng(5)
    index = EmbeddingIndex(3)
    watched = Watched(index, monkeypatch)
    following = 0
    for _ in range(300):
        kind, keys = rng.integers(4), index.keys
        if kind < 2 or not keys:
            count = int(rng.integers(1, 4))
            add(index, following, following + count)
            following += count
        else:
            chosen = list(rng.choice(keys, size=rng.integers(1, len(keys) + 1), replace=False))
            if kind == 2:
                index.update(chosen, rng.normal(size=(len(chosen), 3)))
            else:
                index.remove(chosen)
        if rng.integers(2):
            watched.follow()
    watched.follow()
    assert index._newest().generation > 5


def test_a_search_uses_the_copy():
    index = EmbeddingIndex(3, backend="torch")
    index._searcher._mirror = DeviceMirror("cpu")
    other = EmbeddingIndex(3, backend="numpy")
    queries = np.random.default_rng(1).normal(size=(4, 3))
    for either in (index, other):
        assert either.search_batch(queries, 3) == ((),) * 4
        add(either, 0, 30)
        either.remove(["3", "7"])
    assert index.search_batch(queries, 9) == other.search_batch(queries, 9)
    held = index._searcher._mirror._copy
    held.inverse_norms[:] = 0
    held.inverse_norms[21] = 1
    assert index.search(queries[0], 1)[0].key == "21"
