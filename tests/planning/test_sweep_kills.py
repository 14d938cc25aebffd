"""A sweep that is killed at random moments loses nothing and repeats nothing."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("sweep_killed.py")
MEMORY = Path("/dev/shm")
TRIALS, KILLS = 2000, 50


@pytest.fixture
def folder():
    # What a killed process wrote, the system keeps, on whichever disk: the fastest will do.
    base = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=base) as made:
        yield Path(made)


def test_2000_trials_killed_50_times(folder):
    command = [sys.executable, str(SCRIPT), str(folder), str(TRIALS), str(KILLS), "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["heavy"] == []
    assert seen["kills"] == KILLS
    # The last run had some trials left, and ran no others.
    assert 0 < seen["left"] == seen["resumed"] < TRIALS
    killed = seen["killed"]
    assert killed["rows"] == killed["keys"] == killed["traces"] == killed["files"] == TRIALS
    assert killed["attempts"] == [["done", 1], ["failed", 2]]
    assert killed["plans"] > 100
    assert 100 < killed["failed"] < 300
    assert killed == seen["whole"]
