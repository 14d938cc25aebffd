"""What a running sweep writes down for whoever watches."""

import json
import os
import re
import time
from contextlib import suppress

import pytest
from command_line import invoke
from report_ledgers import result_of, trial_of, write_ledger

from llm_planning.experiments.ledger_files import locked
from llm_planning.experiments.pool import PoolLoad
from llm_planning.experiments.progress_file import (
    PROGRESS_FILE,
    STALE_AFTER,
    ProgressFile,
    read_progress,
)
from llm_planning.experiments.scheduler import Progress

PROGRESS = Progress(
    total=9, kept=1, done=3, failed=1, running=2, seconds=8.0, load=PoolLoad(running=4)
)


def test_what_was_written_is_read_and_removed(tmp_path):
    assert read_progress(tmp_path) is None
    with ProgressFile(tmp_path) as file:
        file(PROGRESS)
        noted = read_progress(tmp_path)
        assert noted.progress == PROGRESS
        assert noted.progress.remaining_seconds == 8.0
        assert noted.is_fresh(time.time())
        assert not noted.is_fresh(time.time() + STALE_AFTER + 1)
        file(Progress(total=9))  # too soon for another writing
        assert read_progress(tmp_path).progress.done == 3
    assert list(tmp_path.iterdir()) == []


def test_it_is_removed_after_an_error_too(tmp_path):
    with suppress(KeyboardInterrupt), ProgressFile(tmp_path) as file:
        file(PROGRESS)
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_file_does_not_end_the_sweep(tmp_path):
    with ProgressFile(tmp_path / "missing") as file:
        file(PROGRESS)


def test_a_link_is_replaced_not_followed(tmp_path):
    (tmp_path / "other.txt").write_text("untouched")
    (tmp_path / PROGRESS_FILE).symlink_to(tmp_path / "other.txt")
    (tmp_path / f"{PROGRESS_FILE}.part").symlink_to(tmp_path / "other.txt")
    with ProgressFile(tmp_path) as file:
        file(PROGRESS)
        assert read_progress(tmp_path).progress == PROGRESS
    assert (tmp_path / "other.txt").read_text() == "untouched"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "[" * 60_000,
        json.dumps({"written": 1.0, "progress": {"total": 1, "load": 5}}),
        json.dumps({"written": 1.0, "progress": {"load": {}}}),
        json.dumps({"written": "now", "progress": {"total": 1, "load": {}}}),
        json.dumps({"written": 1.0, "progress": {"total": 1}, "more": 1}),
    ],
)
def test_what_a_stranger_wrote_is_refused(tmp_path, content):
    (tmp_path / PROGRESS_FILE).write_text(content)
    with pytest.raises(
        ValueError,
        match=r"^(it|written|progress(\.(total|load))?|more) is "
        r"(missing|not JSON: [^\n]*|[^\n]*: [A-Z][^\n]*)$",
    ):
        read_progress(tmp_path)


def test_odd_numbers_are_refused(tmp_path):
    with ProgressFile(tmp_path) as file:
        file(PROGRESS)
        written = json.loads((tmp_path / PROGRESS_FILE).read_text())
    for value in (-1, float("nan"), float("inf"), 2**60, True, None, "5"):
        written["progress"]["running"] = value
        (tmp_path / PROGRESS_FILE).write_text(json.dumps(written))
        with pytest.raises(ValueError, match=r"progress\.running is .*: Input should be "):
            read_progress(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / PROGRESS_FILE)
    with pytest.raises(OSError, match="not a regular file"):
        read_progress(tmp_path)


def test_a_sweep_leaves_none(tmp_path, monkeypatch):
    seen = []
    replace = os.replace
    monkeypatch.setattr(
        "pathlib.Path.replace",
        lambda self, to: (seen.append(to.name), replace(self, to))[1],
    )
    grid = "name: x\nmodel: none\ndomain: textgame\ntasks: trap-door\nplanners: uct\n"
    (tmp_path / "x.yaml").write_text(
        f"{grid}settings: {{moves: 1, simulations: 2, remember: 'off'}}\n"
    )
    assert invoke("sweep", "run", tmp_path / "x.yaml", "--out", tmp_path / "out").exit_code == 0
    assert PROGRESS_FILE in seen
    assert not (tmp_path / "out" / PROGRESS_FILE).exists()


@pytest.fixture
def half(tmp_path, monkeypatch):
    """A sweep of which three of five trials are finished."""
    monkeypatch.chdir(tmp_path)
    results = [result_of(trial_of("cot", seed=seed), failed=seed == 2) for seed in range(3)]
    return write_ledger(tmp_path / "half", results, pending=[trial_of("too"), trial_of("drip")])


def test_the_status_begins_with_how_far_a_sweep_is_and_when_it_ends(half):
    with ProgressFile(half) as file:
        file(PROGRESS)
        lines = invoke("sweep", "status", "half").stdout.splitlines()
        further = invoke("sweep", "status", "half", "-v").stdout.splitlines()
    assert re.fullmatch(
        r".*: 3 of 5 trials are finished, 1 of them failed\. "
        r"It runs, and ends in about 8 s, at \d\d:\d\d\.",
        lines[0],
    )
    assert lines[1:] == [
        "Cost: 3 calls, 300 tokens read and 30 written",
        "Why trials failed:",
        "  1 x ValueError: no",
    ]
    assert set(further) - set(lines) == {
        "Process: 2 trials run, 0 attempts were repeated, 0 workers were lost",
        "Engines: 4 requests in their batches, 0 wait",
    }


def test_the_status_of_a_sweep_that_does_not_run_says_how_to_go_on(half):
    first, *_, last = invoke("sweep", "status", "half").stdout.splitlines()
    assert first.endswith("1 of them failed. It does not run.")
    assert last == "Next: llm-planning sweep resume half"


def test_the_status_of_a_sweep_whose_models_are_loaded_does_not_send_anybody_to_resume_it(half):
    with locked(half) as lock:
        lines = invoke("sweep", "status", "half").stdout.splitlines()
        assert lines[0].endswith("It runs, and loads its models.")
        assert not any(line.startswith("Next:") for line in lines)
        process = json.loads(invoke("sweep", "status", "half", "--json").stdout)["process"]
        assert process == {"state": "starting"}
        lock.release()
    (half / "ledger.lock").unlink()
    os.mkfifo(half / "ledger.lock")
    first = invoke("sweep", "status", "half").stdout.splitlines()[0]
    assert first.endswith("It does not run.")


def test_the_status_tells_a_killed_process_from_one_that_runs(half):
    with ProgressFile(half) as file:
        file(PROGRESS)
        noted = json.loads((half / PROGRESS_FILE).read_text())
        (half / PROGRESS_FILE).write_text(json.dumps(noted | {"written": time.time() - 90}))
        first = invoke("sweep", "status", "half").stdout.splitlines()[0]
        noted["progress"]["seconds"] = 9e9
        (half / PROGRESS_FILE).write_text(json.dumps(noted))
        without_end = invoke("sweep", "status", "half").stdout.splitlines()[0]
    assert "Its process hangs or was killed: the last news is 1:3" in first
    assert without_end.endswith("It runs; when it ends is not known yet.")
