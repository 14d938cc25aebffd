"""A save that is killed at any byte or call leaves the old index or the new one, complete."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from killing import apart, at_call, at_size, kill_everywhere

from llm_kernels.errors import IndexFileError
from llm_kernels.index import EmbeddingIndex


def index_of(seed, rows):
    index = EmbeddingIndex(3)
    vectors = np.random.default_rng(seed).normal(size=(rows, 3))
    index.add([f"{seed}-{row}" for row in range(rows)], vectors, [{"n": n} for n in range(rows)])
    return index


def content_of(index):
    return [(key, index.payload(key), index.vector(key).tolist()) for key in index.keys]


def saved_content(folder):
    try:
        return content_of(EmbeddingIndex.load(folder))
    except IndexFileError as error:
        if "holds no index" in str(error) and not (folder / "index.json").exists():
            return None
        raise


def save_and_be_killed(place, point, start, stride):
    """How often a kill left the old and the new index, and the files of a save at the end."""
    folder, old, new = Path(place), index_of(1, 1), index_of(2, 2)
    before, after = content_of(old) if start == "replace" else None, content_of(new)
    if start == "replace":
        old.save(folder)
    found = []

    def look(number, _):
        content = saved_content(folder)
        assert content in (before, after), (point, number, content)
        found.append("new" if content == after else "old")
        if content == after and start == "first":
            (folder / "index.json").unlink()
        elif content == after:
            old.save(folder)  # over whatever the killed save left behind
            assert saved_content(folder) == before

    points = {"size": at_size, "call": at_call}
    kill_everywhere(points[point], lambda *_: new.save(folder), look, stride=stride)
    assert saved_content(folder) == after
    return found.count("old"), found.count("new"), sorted({*os.listdir(folder)} - {"index.lock"})


@pytest.mark.parametrize(
    ("start", "stride"), [pytest.param("replace", 1, marks=pytest.mark.kills), ("first", 24)]
)
def test_killed_at_any_byte(tmp_path, start, stride):
    old, new, files = apart(save_and_be_killed, tmp_path, "size", start, stride)
    index = tmp_path / "index.json"
    vectors = tmp_path / json.loads(index.read_text())["vectors"]["file"]
    longest = max(path.stat().st_size for path in (index, vectors))
    assert vectors.stat().st_size < index.stat().st_size == longest
    # Whatever limit was below the longer file killed the save, and none of them after its commit.
    assert old == -(-longest // stride)
    assert new == 0
    assert files == ["index.json", vectors.name]


@pytest.mark.parametrize("start", ["replace", "first"])
def test_killed_at_any_call(tmp_path, start):
    old, new, files = apart(save_and_be_killed, tmp_path, "call", start, 1)
    assert old >= 10
    assert new >= 2  # killed after the commit, before or while tidying up
    assert len(files) == 2
