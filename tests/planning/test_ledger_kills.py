"""Deaths, full disks, and more than one process at a ledger."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from ledger_samples import PROVENANCE, result_of, sweep_of_seeds, trial_number

from llm_planning.experiments.ledger import LEDGER_FILE, Ledger, LedgerError

HERE = Path(__file__).parent


def python(*arguments, **options):
    """A process that can import this folder's samples."""
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **options)


def test_a_kill_at_any_call_loses_nothing_and_repeats_nothing():
    # A killed process leaves the same in memory as on a disk, sooner.
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place,
        python(HERE / "ledger_killed.py", place) as process,
    ):
        killed = int(process.communicate()[0])
    assert process.returncode == 0
    assert killed > 80


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

        def note_insert(table, row):
            steps.append(("insert", table))
            insert(table, row)

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
        ("insert", "results"),
    ]
    assert level == 2  # FULL: the log is flushed with every commit


# --- one writer ----------------------------------------------------------------------------------

FORKED = """
import os, sys, time
from pathlib import Path
from ledger_samples import PROVENANCE
from llm_planning.experiments.ledger import Ledger

ledger = Ledger.resume(Path(sys.argv[1]), PROVENANCE)
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_dies(tmp_path):
    folder = tmp_path / "s"
    Ledger.create(folder, sweep_of_seeds(2), PROVENANCE).close()
    with python("-c", FORKED, folder) as process:
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

FULL = """
import os, random, resource, sys
from pathlib import Path
from ledger_samples import PROVENANCE, result_of, sweep_of_seeds, trial_number
from llm_planning.experiments.ledger import Ledger, LedgerError

def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

def refused(action):
    try:
        action()
    except LedgerError as error:
        print(error)
        return True
    return False

folder, trials = Path(sys.argv[1]), 60
files = lambda: sorted(path.name for path in folder.iterdir())
create = lambda: Ledger.create(folder, sweep_of_seeds(trials), PROVENANCE)
for size in (0, 1000, 5000, 20000):
    room(size)
    assert refused(create), size
    assert files() == ["ledger.lock"], files()
room(-1)
with create() as ledger:
    # The trace's file is what does not fit.
    room(100_000)
    long = result_of(trial_number(0), trace={"noise": random.randbytes(200_000).hex()})
    assert refused(lambda: ledger.record(long, attempt=1, final=True))
    assert not list((folder / "traces").iterdir())
    assert not ledger.finished()
    # Then the log is.
    kept = []
    for seed in range(trials):
        result = result_of(trial_number(seed))
        record = lambda: ledger.record(result, attempt=1, final=True)
        if refused(record):
            assert ledger.finished() == set(kept)
            room(-1)
            record()
            failures = locals().get("failures", 0) + 1
            room(os.path.getsize(folder / "ledger.sqlite-wal") + 20_000)
        kept.append(result.trial.key)
    assert failures > 3, failures
    digest = ledger.content_digest()
room(-1)
with Ledger.resume(folder, PROVENANCE) as ledger:
    assert ledger.content_digest() == digest
    assert [ledger.read_trace(row)["seed"] for row in ledger.rows()] == list(range(trials))
"""


def test_a_full_disk_is_a_clear_error_and_leaves_nothing_half_written(tmp_path):
    with python("-c", FULL, tmp_path / "s") as process:
        said = process.communicate()[0].splitlines()
    assert process.returncode == 0
    assert len(said) > 5
    for line in said:
        assert f"the ledger {tmp_path / 's' / LEDGER_FILE} cannot be used (" in line
        assert "free disk space there" in line
        assert "nothing that was recorded is lost" in line
