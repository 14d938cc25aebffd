import errno
import hashlib
import json
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from llm_kernels import index_files
from llm_kernels.errors import IndexFileError
from llm_kernels.index import EmbeddingIndex


def index_of(seed, rows=5, dtype="float32", dimension=4):
    index = EmbeddingIndex(dimension, dtype=dtype, metadata={"seed": seed, "é": ["\u2028"]})
    vectors = np.random.default_rng(seed).normal(size=(rows, dimension))
    keys = [f"{seed}: key\n{row} é" for row in range(rows)]
    index.add(keys, vectors, [None if row % 3 == 0 else {"row": row} for row in range(rows)])
    return index


def content_of(index):
    return (
        index.dtype,
        index.dimension,
        index.metadata,
        [(key, index.payload(key), index.vector(key).tobytes()) for key in index.keys],
    )


def vectors_file(folder):
    (path,) = folder.glob("vectors-*.safetensors")
    return path


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "index.lock"}


def sealed(fields):
    """An `index.json` of any content with a right digest."""
    body = ",\n".join(f'"{name}": {json.dumps(value)}' for name, value in fields.items())
    body = body.encode() + b"\n}\n"
    return b'{\n"sha256": "%s",\n%s' % (hashlib.sha256(body).hexdigest().encode(), body)


def fields_of(folder):
    fields = json.loads((folder / "index.json").read_bytes())
    del fields["sha256"]
    return fields


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "deep" / "saved"
    index_of(1).save(folder)
    return folder


# --- what comes back -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_an_index_comes_back_bit_for_bit(tmp_path, rows, dtype):
    index = index_of(3, rows=rows, dtype=dtype)
    index.save(str(tmp_path))
    loaded = EmbeddingIndex.load(str(tmp_path), backend="numpy")
    assert content_of(loaded) == content_of(index)
    queries = np.random.default_rng(9).normal(size=(3, 4))
    assert loaded.search_batch(queries, 5) == index.search_batch(queries, 5)
    loaded.add(["new"], [[1, 0, 0, 0]])
    assert len(loaded) == rows + 1


def test_only_live_rows_are_saved_in_their_order(tmp_path):
    index = index_of(1, rows=8)
    keys = index.keys
    index.remove([keys[1], keys[4]])
    index.update([keys[0]], [[0, 0, 0, 1]])
    index.save(tmp_path)
    loaded = EmbeddingIndex.load(tmp_path)
    assert loaded.keys == (keys[2], keys[3], keys[5], keys[6], keys[7], keys[0])
    assert content_of(loaded) == content_of(index)
    assert loaded._table.snapshot.count == 6


def test_other_programs_can_read_the_files(saved):
    fields = fields_of(saved)
    assert fields["keys"] == list(index_of(1).keys)
    assert fields["dimension"] == 4
    path = vectors_file(saved)
    assert fields["vectors"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    vectors = load_file(path)["vectors"]
    np.testing.assert_array_equal(vectors, [index_of(1).vector(key) for key in fields["keys"]])
    # The very bytes that the library writes.
    save_file({"vectors": vectors}, saved / "again")
    assert (saved / "again").read_bytes() == path.read_bytes()


def test_a_save_replaces_what_was_there_and_nothing_else(saved):
    others = ("notes.txt", "vectors-notes.safetensors", "model.safetensors", "index.json.bak")
    for name in others:
        (saved / name).write_text(name)
    (saved / "vectors").mkdir()
    old = vectors_file_named(saved)
    index_of(2).save(saved)
    assert content_of(EmbeddingIndex.load(saved)) == content_of(index_of(2))
    assert all((saved / name).read_text() == name for name in others)
    new = vectors_file_named(saved)
    expected = {*others, "vectors", "index.json", new}
    assert new != old
    assert {path.name for path in saved.iterdir()} - {"index.lock"} == expected


def vectors_file_named(folder):
    return fields_of(folder)["vectors"]["file"]


def test_the_same_vectors_with_other_payloads(saved):
    index = EmbeddingIndex.load(saved)
    key = index.keys[0]
    vectors = {key: index.vector(key) for key in index.keys}
    index.update(vectors, list(vectors.values()), ["new"] * len(vectors))
    index.save(saved)
    assert EmbeddingIndex.load(saved).payload(key) == "new"
    index.save(saved)
    assert content_of(EmbeddingIndex.load(saved)) == content_of(index)


# --- what is refused -----------------------------------------------------------------------------


def refused(folder, match):
    before = files_of(folder)
    with pytest.raises(IndexFileError, match=match):
        EmbeddingIndex.load(folder)
    assert files_of(folder) == before


def test_a_folder_that_holds_no_index(tmp_path):
    with pytest.raises(IndexFileError, match="there is no folder"):
        EmbeddingIndex.load(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()
    refused(tmp_path, "holds no index, as it has no file index.json")
    (tmp_path / "file").write_text("x")
    with pytest.raises(IndexFileError, match="there is no folder"):
        EmbeddingIndex.load(tmp_path / "file")
    (tmp_path / "index.json").mkdir()
    with pytest.raises(IndexFileError, match="holds no index"):
        EmbeddingIndex.load(tmp_path)


@pytest.mark.parametrize("name", ["index.json", "vectors"])
def test_a_file_of_any_other_length_is_refused(saved, name):
    path = saved / name if name == "index.json" else vectors_file(saved)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        refused(saved, f"{path.name} .*restore the folder from a copy, or build the index again")
    for more in (b"\0", b" ", b"\n", content):
        path.write_bytes(content + more)
        refused(saved, path.name)
    path.write_bytes(content)
    assert content_of(EmbeddingIndex.load(saved)) == content_of(index_of(1))


def test_vectors_of_another_index_are_refused(saved, tmp_path):
    index_of(2).save(tmp_path / "other")
    path = vectors_file(saved)
    path.write_bytes(vectors_file(tmp_path / "other").read_bytes())
    refused(saved, "was altered, as its digest differs")
    path.unlink()
    refused(saved, f"names {path.name}, which is missing")


def test_an_index_of_another_version_is_refused(saved):
    (saved / "index.json").write_bytes(sealed(fields_of(saved) | {"version": 2}))
    refused(saved, "is of version 2 and this release reads version 1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimension": 0}, "dimension 0"),
        ({"dimension": True}, "dimension True"),
        ({"dimension": 5}, "bytes instead of"),
        ({"dtype": "float16"}, "bytes instead of"),
        ({"dtype": "float64"}, "dtype 'float64'"),
        ({"dtype": ["float32"]}, "wrong fields"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"x": float("nan")}}, "metadata"),
        ({"keys": "abcde"}, "not a list"),
        ({"keys": ["a", "b", "c", "d", "d"]}, "'d' comes twice"),
        ({"keys": ["a", "b", "c", "d", 5]}, "keys are strings"),
        ({"keys": ["a"]}, "bytes instead of"),
        ({"payloads": [1, 2]}, "2 payloads for 5 keys"),
        ({"payloads": [float("inf")] * 5}, "not a JSON value"),
        ({"vectors": None}, "wrong fields"),
        ({"vectors": {"file": "../x.safetensors", "sha256": "0" * 64}}, "not named by its digest"),
    ],
)
def test_wrong_fields_under_a_right_digest_are_refused(saved, change, message):
    (saved / "index.json").write_bytes(sealed(fields_of(saved) | change))
    refused(saved, message)


def test_missing_fields_under_a_right_digest_are_refused(saved):
    fields = fields_of(saved)
    for name in fields.keys() - {"format"}:
        left = {other: value for other, value in fields.items() if other != name}
        (saved / "index.json").write_bytes(sealed(left))
        refused(saved, f"wrong fields .*{name}")


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0])
def test_vectors_without_a_direction_under_right_digests_are_refused(saved, bad):
    path = vectors_file(saved)
    vectors = load_file(path)["vectors"]
    vectors[3] = bad
    save_file({"vectors": vectors}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    name = f"vectors-{digest[:32]}.safetensors"
    path.rename(saved / name)
    fields = fields_of(saved) | {"vectors": {"file": name, "sha256": digest}}
    (saved / "index.json").write_bytes(sealed(fields))
    refused(saved, r"vectors\[3\]")


@pytest.mark.parametrize("content", ["", "{}", '{"weight_map": {}}'])
def test_a_foreign_index_json_is_not_overwritten(tmp_path, content):
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(IndexFileError, match=r"is not an embedding index.*save to another folder"):
        index_of(1).save(tmp_path)
    assert (tmp_path / "index.json").read_text() == content
    assert not list(tmp_path.glob("*vectors*"))
    refused(tmp_path, "does not begin as an embedding index does")


def test_a_damaged_index_can_be_saved_over(saved):
    path = saved / "index.json"
    path.write_bytes(path.read_bytes()[:-5])
    refused(saved, "truncated or was altered")
    index_of(2).save(saved)
    assert content_of(EmbeddingIndex.load(saved)) == content_of(index_of(2))
    assert len(files_of(saved)) == 2


# --- when writing fails --------------------------------------------------------------------------


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()])
def test_a_save_that_fails_keeps_the_old_index_and_tidies_up(saved, monkeypatch, at, error):
    calls = 0
    fsync = os.fsync

    def failing(handle):
        nonlocal calls
        calls += 1
        if calls == at + 1:
            raise error
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(type(error)):
            index_of(2).save(saved)
    committed = at == 3  # the last one is for the name of the new index.json
    expected = index_of(2 if committed else 1)
    assert content_of(EmbeddingIndex.load(saved)) == content_of(expected)
    assert len(files_of(saved)) == 2
    index_of(2).save(saved)
    assert content_of(EmbeddingIndex.load(saved)) == content_of(index_of(2))


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="file"):
        index_of(1).save(tmp_path / "file" / "below")
    with pytest.raises(OSError, match="file"):
        index_of(1).save(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "x"


# --- at the same time ----------------------------------------------------------------------------


def test_a_loader_follows_a_save_that_takes_its_vectors_away(saved, monkeypatch):
    read, versions = index_files._checked_content, iter((2, 3))

    def overtaken(path, text):
        content = read(path, text)
        if (version := next(versions, None)) is not None:
            index_of(version).save(saved)
        return content

    monkeypatch.setattr(index_files, "_checked_content", overtaken)
    assert content_of(EmbeddingIndex.load(saved)) == content_of(index_of(3))


SAVER = """
import sys
sys.path.insert(0, sys.argv[1])
from test_index_files import index_of
indexes = [index_of(seed, rows=50) for seed in (int(sys.argv[3]), int(sys.argv[3]) + 1)]
for turn in range(40):
    indexes[turn % 2].save(sys.argv[2])
"""


def test_processes_that_save_to_one_folder_while_it_is_loaded(tmp_path):
    possible = [content_of(index_of(seed, rows=50)) for seed in range(4)]
    index_of(0, rows=50).save(tmp_path)
    here = str(Path(__file__).parent)
    savers = [
        subprocess.Popen([sys.executable, "-c", SAVER, here, str(tmp_path), seed])
        for seed in ("0", "2")
    ]
    loads, seen = 0, set()
    while any(saver.poll() is None for saver in savers):
        seen.add(possible.index(content_of(EmbeddingIndex.load(tmp_path))))
        loads += 1
    assert [saver.wait() for saver in savers] == [0, 0]
    assert loads > 10
    assert len(seen) > 1
    assert content_of(EmbeddingIndex.load(tmp_path)) in (possible[1], possible[3])
    assert len(files_of(tmp_path)) == 2


def test_threads_that_save_to_one_folder(tmp_path):
    indexes = [index_of(seed) for seed in range(4)]
    threads = [
        threading.Thread(target=lambda index=index: [index.save(tmp_path) for _ in range(10)])
        for index in indexes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert content_of(EmbeddingIndex.load(tmp_path)) in [content_of(index) for index in indexes]
    assert len(files_of(tmp_path)) == 2


# --- memory --------------------------------------------------------------------------------------


def test_vectors_are_in_memory_once(tmp_path):
    index = index_of(1, rows=5_000, dimension=1024)
    index.remove(index.keys[::7])
    size = 5_000 * 1024 * 4
    tracemalloc.start()
    try:
        index.save(tmp_path)
        _, saving = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        loaded = EmbeddingIndex.load(tmp_path)
        _, loading = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(loaded) == len(index)
    assert saving < size / 2
    assert loading - before < size * 1.4


# --- what others may have put there --------------------------------------------------------------


def test_what_is_no_regular_file_is_refused_at_once(saved):
    vectors = vectors_file(saved)
    for path, message in ((vectors, "cannot be read .it is no"), (saved / "index.json", "cannot")):
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(IndexFileError, match=message) as told:
            EmbeddingIndex.load(saved)
        assert "not a regular file" in str(told.value)
    with pytest.raises(IndexFileError, match="save to another folder or remove it"):
        index_of(2).save(saved)


@pytest.mark.parametrize("name", ["index.json.partial", "vectors.partial"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_planted_link_is_not_written_through(saved, tmp_path, name, exists):
    other = tmp_path / "other"
    if exists:
        other.write_text("mine")
    (saved / name).symlink_to(other)
    index_of(2).save(saved)
    assert other.exists() is exists
    assert not exists or other.read_text() == "mine"
    assert content_of(EmbeddingIndex.load(saved)) == content_of(index_of(2))


@pytest.mark.parametrize("name", ["index.json.partial", "vectors.partial"])
def test_a_planted_pipe_or_folder_holds_nobody_up(saved, name):
    os.mkfifo(saved / name)
    index_of(2).save(saved)
    (saved / name).mkdir()
    with pytest.raises(OSError, match=name):
        index_of(3).save(saved)
    assert content_of(EmbeddingIndex.load(saved)) == content_of(index_of(2))


def test_a_file_that_claims_any_size_is_not_read(saved):
    for size in (1 << 33, 1 << 40):
        os.truncate(saved / "index.json", size)  # takes no room on the disk
        refused_at_once(saved, "more than any index")


def refused_at_once(folder, match):
    tracemalloc.start()
    with pytest.raises(IndexFileError, match=match):
        EmbeddingIndex.load(folder)
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


@pytest.mark.parametrize("keys", [[], ["a"]])
@pytest.mark.parametrize("dimension", [10**12, 10**18, 10**30])
def test_memory_is_not_taken_on_a_file_s_word(saved, keys, dimension):
    fields = {"dimension": dimension, "keys": keys, "payloads": [None] * len(keys)}
    (saved / "index.json").write_bytes(sealed(fields_of(saved) | fields))
    refused_at_once(saved, "dimension")


@pytest.mark.parametrize(
    "change",
    [
        {"version": 10**4000},
        {"dtype": "f" * 10**6},
        {"vectors": {"file": "vectors-../../x.safetensors", "sha256": "../../x"}},
        {"vectors": ["index.json"]},
        {"keys": [["a"]] * 5},
        {"keys": ["\ud800", "b", "c", "d", "e"]},
        {"keys": {"a": 1}},
    ],
)
def test_a_message_is_short_whatever_the_file_says(saved, change):
    (saved / "index.json").write_bytes(sealed(fields_of(saved) | change))
    with pytest.raises(IndexFileError) as told:
        EmbeddingIndex.load(saved)
    assert len(str(told.value)) < 1000


def test_what_is_missing_is_not_kept(saved):
    with (saved / "index.json").open("r+b") as file:
        file.truncate(1 << 32)
    refused_at_once(saved, "its digest differs")
    with (saved / "index.json").open("r+b") as file:
        file.truncate(1 << 25)
        file.seek(1000)
        file.write(b" " * ((1 << 25) - 1000))
    refused_at_once(saved, "its digest differs")


def test_values_that_do_not_fit_the_memory_are_not_read(saved, monkeypatch):
    """A hundred thousand lists take ten times as much as a text of their length."""
    fields = fields_of(saved)
    monkeypatch.setattr(index_files, "free_memory", lambda: 24 << 20)
    (saved / "index.json").write_bytes(sealed(fields | {"metadata": {"a": "x" * 400_000}}))
    assert len(EmbeddingIndex.load(saved)) == len(fields["keys"])
    (saved / "index.json").write_bytes(sealed(fields | {"metadata": {"a": [[]] * 100_000}}))
    refused_at_once(saved, r"takes up to 3\d{7} bytes of memory to read, and 25165824 are free: fr")


def test_what_is_needed_is_more_than_what_is_taken(saved, monkeypatch):
    """Of the shapes that take most for their length, and of a text that one character widens."""
    monkeypatch.setattr(index_files, "BLOCK_BYTES", 1 << 16)
    nested = ([[[[[]]]]] * 4000, [{"a": {"b": {}}}] * 4000)
    shapes = ([[]] * 20_000, [{}] * 20_000, *nested, "x" * 10**6)
    for shape in (*shapes, "x" * 10**6 + "\U0001f600", [str(n) for n in range(20_000)]):
        fields = fields_of(saved) | {"metadata": {"a": shape}}
        (saved / "index.json").write_bytes(sealed(fields))
        with (saved / "index.json").open("rb") as file:
            head = index_files._HEAD.match(file.read(1024))
            file.seek(head.end())
            needed = index_files._measure(saved, file, head[1].decode())
        tracemalloc.start()
        EmbeddingIndex.load(saved)
        assert tracemalloc.get_traced_memory()[1] < needed
        tracemalloc.stop()


def test_deep_json_is_refused(saved):
    body = b'"format": "llm-kernels embedding index",\n"version": ' + b"[" * 10**6 + b"\n}\n"
    digest = hashlib.sha256(body).hexdigest().encode()
    (saved / "index.json").write_bytes(b'{\n"sha256": "%s",\n%s' % (digest, body))
    refused(saved, "wrong fields")
