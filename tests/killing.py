"""Processes that are killed: before every call, at every length of a file, or at drawn moments.

`apart` runs a function of a test module in a fresh process, which has no threads and forks quickly.
There, `Child` forks what is to be killed, and `kill_everywhere` does so once for each point.
"""

import inspect
import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from pathlib import Path

from importing import importing

CALLS = {
    *("open", "write", "flush", "fsync", "close", "rename", "replace", "unlink", "remove"),
    *("mkdir", "listdir", "scandir", "stat", "flock", "serialize_file"),
    *("connect", "execute", "executemany", "fetchone", "fetchall"),
}
"""Functions, written in C, that reach the file system or SQLite."""


def start(function, *arguments):
    """Begins a process that prints what a test module's function returns, as JSON."""
    module = Path(inspect.getfile(function))
    code = (
        f"import json, sys; from {module.stem} import {function.__name__} as run; "
        "print(json.dumps(run(*json.loads(sys.argv[1]))))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(arguments, default=str)],
        env=importing(module.parent) | {"PYTHONHASHSEED": "77", "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def apart(function, *arguments):
    """What a test module's function returns in a process of its own."""
    with start(function, *arguments) as process:
        output = process.communicate()[0]
    assert process.returncode == 0
    return json.loads(output.splitlines()[-1])


def in_memory():
    """Where files are written fastest: a kill finds there what it finds on a disk."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else None


class Child:
    """A fork of this process that runs `live(said)`; it calls `said` to be heard here."""

    def __init__(self, live, prepare=lambda: None):
        self._heard, reported = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            status = 1
            try:
                os.close(self._heard)
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                prepare()
                live(lambda times=1: os.write(reported, b"." * times))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(reported)

    def hear(self, most):
        """Waits until `said` was called so often; returns how often it was, if less."""
        came = 0
        while came < most and (some := os.read(self._heard, min(1 << 16, most - came))):
            came += len(some)
        return came

    def kill(self):
        """Kills it where it stands; returns what `end` does."""
        os.kill(self._process, signal.SIGKILL)
        return self.end()

    def end(self):
        """Waits for its end: whether it was killed, and how often it still called `said`."""
        times = self.hear(sys.maxsize)
        os.close(self._heard)
        _, status = os.waitpid(self._process, 0)
        killed = os.WIFSIGNALED(status)
        assert not killed or os.WTERMSIG(status) in {signal.SIGKILL, signal.SIGXFSZ}
        assert killed or os.WEXITSTATUS(status) == 0
        return killed, times


def at_size(limit):
    """Prepares to be killed where a file grows beyond so many bytes."""

    def prepare():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return prepare


def at_call(number):
    """Prepares to be killed before the call of `CALLS` that has this number, from 0."""
    left = number

    def watch(frame, kind, function):
        nonlocal left
        if kind == "c_call" and function.__name__ in CALLS:
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    return lambda: sys.setprofile(watch)


def kill_everywhere(point, live, look, *, stride=1):
    """Kills `live(number, said)` at one point after the other, until it ends by itself.

    Args:
        point: `at_size` or `at_call`.
        live: what is killed; `number` is that of the point.
        look: called as `look(number, times)` after a kill; `times` is how often `said` was called.
        stride: from one point to the next.

    Returns:
        How often it was killed.
    """
    number, killed = 0, True
    while killed:
        child = Child(lambda report, number=number: live(number, report), point(number))
        killed, times = child.end()
        if killed:
            look(number, times)
            number += stride
    return number // stride
