"""Kills a process before every call to the file system and to SQLite, and looks.

Run as `python ledger_killed.py FOLDER`: a process that has imported little and forks quickly. It
prints how many processes it killed, and ends with an error if one of them lost or repeated
something.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

from ledger_samples import PROVENANCE, failure_of, result_of, sweep_of_seeds, trial_number

from llm_planning.experiments.ledger import LEDGER_FILE, Ledger

EVENTS = {
    *("open", "write", "flush", "fsync", "close", "rename", "replace", "unlink", "mkdir", "flock"),
    *("connect", "execute", "executemany", "fetchone", "fetchall"),
}
STEPS = (
    (result_of(trial_number(0)), 1, True),
    (failure_of(trial_number(1)), 1, False),
    (result_of(trial_number(1)), 2, True),
)


def live(folder, said):
    """One process of a sweep: does what is left, and says after each step that it is done."""
    if (folder / LEDGER_FILE).exists():
        ledger = Ledger.resume(folder, PROVENANCE, sweep=sweep_of_seeds(2))
    else:
        ledger = Ledger.create(folder, sweep_of_seeds(2), PROVENANCE)
    with ledger:
        for number, (result, attempt, final) in enumerate(STEPS):
            key = result.trial.key
            if key not in ledger.finished() and ledger.attempts().get(key, 0) == attempt - 1:
                ledger.record(result, attempt=attempt, final=final)
            said(number)
        return ledger.content_digest()


def live_until(event, folder):
    """The same in a child that is killed at an event; how many steps it said were done."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        left = event

        def watch(frame, kind, function):
            nonlocal left
            if kind == "c_call" and function.__name__ in EVENTS:
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1

        def said(number):
            sys.setprofile(None)
            os.write(write, b"x")
            sys.setprofile(watch)

        sys.setprofile(watch)
        live(folder, said)
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        done = len(pipe.read())
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or status == 0, status
    return done, killed


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
            assert ledger.read_trace(row)["seed"] == row.result.trial.seed


def main(place):
    """Kills at the first event, at the second, and so on until there are no more."""
    expected = live(place / "whole", lambda number: None)
    for killed in range(10_000):
        folder = place / f"killed-{killed}"
        done, was_killed = live_until(killed, folder)
        if not was_killed:
            break
        look(folder, done)
        assert live(folder, lambda number: None) == expected, killed
        left = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
        keys = {f"traces/{trial_number(seed).key}.jsonl.gz" for seed in range(2)}
        assert left == {LEDGER_FILE, "ledger.lock", "traces", *keys}, left
        shutil.rmtree(folder)
    print(killed)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
