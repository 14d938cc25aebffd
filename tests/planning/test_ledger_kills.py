"""Deaths, full disks, and more than one process at a ledger."""

import os
import random
import resource
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from killing import apart, at_call, in_memory, kill_everywhere, start
from ledger_samples import PROVENANCE, failure_of, result_of, sweep_of_seeds, trial_number

from llm_planning.experiments.ledger import LEDGER_FILE, Ledger, LedgerError
from llm_planning.trace_file import summary_of

STEPS = (
    (result_of(trial_number(0)), 1, True),
    (failure_of(trial_number(1)), 1, False),
    (result_of(trial_number(1)), 2, True),
)


def live(folder, report):
    """One process of a sweep: does what is left, and says so after each step that is done."""
    if (folder / LEDGER_FILE).exists():
        ledger = Ledger.resume(folder, PROVENANCE, sweep=sweep_of_seeds(2))
    else:
        ledger = Ledger.create(folder, sweep_of_seeds(2), PROVENANCE)
    with ledger:
        for result, attempt, final in STEPS:
            key = result.trial.key
            if key not in ledger.finished() and ledger.attempts().get(key, 0) == attempt - 1:
                ledger.record(result, attempt=attempt, final=final)
            report()
        return ledger.content_digest()


def look(folder, done):
    """What a reader finds after the kill: everything that was said, and nothing half-written."""
    if not (folder / LEDGER_FILE).exists():
        assert done == 0
        return
    with Ledger.open(folder) as ledger:
        rows = list(ledger.rows())
        steps = len(rows) + sum(ledger.attempts().values()) + sum(row.attempts - 1 for row in rows)
        assert done <= steps <= done + 1, (done, steps)
        for row in rows:
            assert summary_of(ledger.read_events(row))["seed"] == row.result.trial.seed


def kill_at_every_call(place, stride):
    """How often it was killed; an error if one of the kills lost or repeated something."""
    place = Path(place)
    expected = live(place / "whole", lambda: None)
    keys = {f"traces/{trial_number(seed).key}.jsonl.gz" for seed in range(2)}

    def look_and_go_on(number, done):
        folder = place / str(number)
        look(folder, done)
        assert live(folder, lambda: None) == expected, number
        left = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
        assert left == {LEDGER_FILE, "ledger.lock", "traces", *keys}, left
        shutil.rmtree(folder)

    return kill_everywhere(
        at_call,
        lambda number, report: live(place / str(number), report),
        look_and_go_on,
        stride=stride,
    )


@pytest.mark.parametrize("stride", [10, pytest.param(1, marks=pytest.mark.kills)])
def test_a_kill_at_any_call_loses_nothing_and_repeats_nothing(stride):
    with tempfile.TemporaryDirectory(dir=in_memory()) as place:
        assert apart(kill_at_every_call, place, stride) > 80 / stride


def test_a_trace_is_on_the_disk_before_its_row(tmp_path, monkeypatch):
    """Each step lasts before the next begins, so lost power finds what a kill finds."""
    steps = []
    with Ledger.create(tmp_path / "s", sweep_of_seeds(1), PROVENANCE) as ledger:
        fsync, replace, insert = os.fsync, Path.replace, ledger._insert

        def note_fsync(descriptor):
            steps.append(("fsync", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name))
            fsync(descriptor)

        def note_replace(path, target):
            steps.append(("replace", path.name))
            return replace(path, target)

        def note_insert(into, row):
            steps.append(("insert", into))
            insert(into, row)

        monkeypatch.setattr(os, "fsync", note_fsync)
        monkeypatch.setattr(Path, "replace", note_replace)
        monkeypatch.setattr(ledger, "_insert", note_insert)
        (tmp_path / "s" / "traces").mkdir()
        ledger.record(result_of(trial_number(0)), attempt=1, final=True)
        (level,) = ledger._connection.execute("PRAGMA synchronous").fetchone()
    name = f"{trial_number(0).key}.jsonl.gz.tmp"
    assert steps == [
        ("fsync", name),
        ("replace", name),
        ("fsync", "traces"),
        ("insert", "INTO results"),
    ]
    assert level == 2  # FULL: the log is flushed with every commit


# --- one writer ----------------------------------------------------------------------------------


def hold_and_fork(folder):
    """Holds a ledger, with a child that outlives this process and prints its own id."""
    ledger = Ledger.resume(Path(folder), PROVENANCE)
    # The child lets go of the lock before `fork` returns there, so it speaks for itself.
    if os.fork() == 0:
        print(os.getpid(), flush=True)
    time.sleep(60)
    ledger.close()


def test_a_second_process_is_refused_until_the_first_dies(tmp_path):
    folder = tmp_path / "s"
    Ledger.create(folder, sweep_of_seeds(2), PROVENANCE).close()
    with start(hold_and_fork, folder) as process:
        worker = int(process.stdout.readline())
        try:
            for opening in (
                lambda: Ledger.resume(folder, PROVENANCE),
                lambda: Ledger.create(folder, sweep_of_seeds(2), PROVENANCE),
            ):
                with pytest.raises(LedgerError, match="another process is running the sweep in"):
                    opening()
            Ledger.open(folder).close()
            process.kill()
            process.wait()
            # A worker that outlives it does not keep the lock.
            Ledger.resume(folder, PROVENANCE).close()
        finally:
            process.kill()
            os.kill(worker, 9)


def test_this_process_is_refused_as_well(tmp_path):
    folder = tmp_path / "s"
    with (
        Ledger.create(folder, sweep_of_seeds(2), PROVENANCE),
        pytest.raises(LedgerError, match="another process is running the sweep"),
    ):
        Ledger.resume(folder, PROVENANCE)
    Ledger.resume(folder, PROVENANCE).close()


# --- a full disk ---------------------------------------------------------------------------------


def fill_the_disk(place):
    """Leaves less and less room for a ledger's files; what each refusal says."""
    folder, trials, refusals = Path(place), 60, []

    def room(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def refused(action):
        try:
            action()
        except LedgerError as error:
            refusals.append(str(error))
            return True
        return False

    def create():
        return Ledger.create(folder, sweep_of_seeds(trials), PROVENANCE)

    for size in (0, 1000, 5000, 20000):
        room(size)
        assert refused(create), size
        assert os.listdir(folder) == ["ledger.lock"]
    room(-1)
    with create() as ledger:
        # The trace's file is what does not fit.
        room(100_000)
        long = result_of(trial_number(0), trace={"noise": random.randbytes(200_000).hex()})
        assert refused(lambda: ledger.record(long, attempt=1, final=True))
        assert not list((folder / "traces").iterdir())
        assert not ledger.finished()
        # Then the log is.
        kept, before = [], len(refusals)
        for seed in range(trials):
            result = result_of(trial_number(seed))
            if refused(lambda result=result: ledger.record(result, attempt=1, final=True)):
                assert ledger.finished() == set(kept)
                room(-1)
                ledger.record(result, attempt=1, final=True)
                room(os.path.getsize(folder / "ledger.sqlite-wal") + 20_000)
            kept.append(result.trial.key)
        assert len(refusals) > before + 3
        digest = ledger.content_digest()
    room(-1)
    with Ledger.resume(folder, PROVENANCE) as ledger:
        assert ledger.content_digest() == digest
        assert [summary_of(ledger.read_events(row))["seed"] for row in ledger.rows()] == list(
            range(trials)
        )
    return refusals


def test_a_full_disk_is_a_clear_error_and_leaves_nothing_half_written(tmp_path):
    lines = apart(fill_the_disk, tmp_path / "s")
    assert len(lines) > 5
    for line in lines:
        assert f"the ledger {tmp_path / 's' / LEDGER_FILE} cannot be used (" in line
        assert "free disk space there" in line
        assert "nothing that was recorded is lost" in line
