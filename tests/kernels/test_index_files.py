import errno
import os
import tracemalloc

import numpy as np
import pytest
from hostile.folders import index_alterations, name_of
from safetensors.numpy import load_file, save_file

from llm_kernels import index_file
from llm_kernels.errors import IndexFileError
from llm_kernels.index import EmbeddingIndex


def index_of(seed, rows=5, dtype="float32"):
    index = EmbeddingIndex(4, dtype=dtype, metadata={"seed": seed, "é": ["\u2028"]})
    vectors = np.random.default_rng(seed).normal(size=(rows, 4))
    keys = [f"{seed}: key\n{row} é" for row in range(rows)]
    index.add(keys, vectors, [None if row % 3 == 0 else {"row": row} for row in range(rows)])
    return index


def content_of(index):
    found = index.search([1, 0, 0, 0], max(1, len(index)))
    return (
        index.dtype,
        index.dimension,
        index.metadata,
        {match.key: match.payload for match in found},
        [(key, index.vector(key).tobytes()) for key in index.keys],
    )


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "saved"
    index_of(1).save(path)
    return path


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_an_index_comes_back_bit_for_bit(tmp_path, rows, dtype):
    index = index_of(3, rows=rows, dtype=dtype)
    index.save(str(tmp_path / "index"))
    loaded = EmbeddingIndex.load(str(tmp_path / "index"), backend="numpy")
    assert content_of(loaded) == content_of(index)
    queries = np.random.default_rng(9).normal(size=(3, 4))
    assert loaded.search_batch(queries, 5) == index.search_batch(queries, 5)
    loaded.add(["new"], [[1, 0, 0, 0]])
    assert len(loaded) == rows + 1


def test_only_live_rows_are_saved_in_their_order(saved):
    index = index_of(1, rows=8)
    keys = index.keys
    index.remove([keys[0], keys[1], keys[4]])
    index.add([keys[0]], [[0, 0, 0, 1]], [7])
    index.save(saved)
    loaded = EmbeddingIndex.load(saved)
    assert loaded.keys == (keys[2], keys[3], keys[5], keys[6], keys[7], keys[0])
    assert content_of(loaded) == content_of(index)


def test_other_programs_can_read_the_file(saved):
    tensors = load_file(saved)
    index = index_of(1)
    np.testing.assert_array_equal(tensors["vectors"], [index.vector(key) for key in index.keys])
    assert b'"payloads":[null,{"row":1},' in tensors["entries"].tobytes()


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()])
def test_a_save_that_fails_leaves_one_whole_index(saved, monkeypatch, at, error):
    calls = []
    fsync = os.fsync

    def failing(handle):
        calls.append(handle)
        if len(calls) == at:
            raise error
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(type(error)):
            index_of(2).save(saved)
    # The second one is for the name of the new file.
    assert content_of(EmbeddingIndex.load(saved)) == content_of(index_of(at))
    assert list(saved.parent.iterdir()) == [saved]


def test_a_place_that_holds_no_file(tmp_path):
    for path in (tmp_path, tmp_path / "missing" / "index"):
        with pytest.raises(OSError, match="cannot write"):
            index_of(1).save(path)
        with pytest.raises(IndexFileError, match=r"cannot be read: .*; build an index"):
            EmbeddingIndex.load(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(IndexFileError, match="cannot be read: it is not a regular file"):
        EmbeddingIndex.load(tmp_path / "pipe")


def test_a_file_of_any_other_length_is_refused(saved):
    content = saved.read_bytes()
    for other in (*(content[:length] for length in range(len(content))), content + b"\n"):
        saved.write_bytes(other)
        with pytest.raises(IndexFileError, match=f"{saved} is no embedding index, or is damaged"):
            EmbeddingIndex.load(saved)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0])
def test_vectors_without_a_direction_are_refused(saved, bad):
    tensors = load_file(saved)
    tensors["vectors"][3] = bad
    save_file(tensors, saved, metadata=index_file._FORMAT)
    with pytest.raises(IndexFileError, match=r"vectors\[3\].*build it again"):
        EmbeddingIndex.load(saved)


SOUND = {"a key with a zero byte", "another encoder", "an encoder that is a number"}
"""These leave the index sound; the commands on an index check whose encoder it is."""


@pytest.mark.parametrize(("name", "alter"), index_alterations(), ids=name_of)
def test_what_was_altered_is_refused_in_one_line(tmp_path, name, alter):
    index = EmbeddingIndex(4, metadata={"encoder": {"name": "tiny", "revision": "1"}})
    index.add(["a"], np.ones((1, 4)), [{"text": "one"}])
    index.save(tmp_path / "index")
    alter(tmp_path / "index")
    tracemalloc.start()
    if name in SOUND:
        assert len(EmbeddingIndex.load(tmp_path / "index")) == 1
    else:
        with pytest.raises(IndexFileError) as caught:
            EmbeddingIndex.load(tmp_path / "index")
        assert len(str(caught.value)) < 1000
        assert len(str(caught.value).splitlines()) == 1
    assert tracemalloc.get_traced_memory()[1] < 1 << 26
    tracemalloc.stop()


def test_entries_of_any_length_are_neither_written_nor_read(saved, monkeypatch):
    monkeypatch.setattr(index_file, "_MOST_ENTRY_BYTES", 200)
    with pytest.raises(IndexFileError, match="more than the 200 that are read back: keep smaller"):
        index_of(2, rows=9).save(saved)
    assert content_of(EmbeddingIndex.load(saved)) == content_of(index_of(1))
    monkeypatch.setattr(index_file, "_MOST_ENTRY_BYTES", 20)
    with pytest.raises(IndexFileError, match="it holds"):
        EmbeddingIndex.load(saved)
