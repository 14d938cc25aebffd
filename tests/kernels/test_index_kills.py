"""A save that is killed at any byte or step leaves the old index or the new one, complete."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("index_killer.py")


def run_killer(folder, *arguments):
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), *arguments],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # forks without other threads
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize(("start", "stride"), [("replace", 1), ("first", 24)])
def test_killed_at_any_byte(tmp_path, start, stride):
    found = run_killer(tmp_path, "size", start, str(stride))
    index = tmp_path / "index.json"
    vectors = tmp_path / json.loads(index.read_text())["vectors"]["file"]
    longest = max(path.stat().st_size for path in (index, vectors))
    assert vectors.stat().st_size < index.stat().st_size == longest
    # Whatever limit was below the longer file killed the save, and none of them after its commit.
    assert found["kills"] == found["old"] == -(-longest // stride)
    assert found["files"] == ["index.json", vectors.name]


@pytest.mark.parametrize("start", ["replace", "first"])
def test_killed_at_any_step(tmp_path, start):
    found = run_killer(tmp_path, "event", start, "1")
    assert found["old"] >= 10
    assert found["new"] >= 2  # killed after the commit, before or while tidying up
    assert len(found["files"]) == 2
