"""Blocking work in other processes."""

import asyncio
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import Future
from functools import partial
from multiprocessing.context import SpawnProcess

import pytest
from planted import plant, ran

from llm_planning import worker_processes
from llm_planning.worker_processes import (
    LONGEST_FILE,
    MOST_MEMORY,
    WorkerLostError,
    bounded,
    end_workers,
    in_lone_worker,
    in_worker,
)


@pytest.fixture(scope="module", autouse=True)
def workers():
    yield
    end_workers()


def describe(word, *, times):
    return os.getpid(), word * times


def shout(word):
    print(word)
    os.system(f"echo {word}")


def refuse():
    raise ValueError("no such door")


def wait_for(path):
    while not path.exists():
        time.sleep(0.01)
    return os.getpid()


def vanish():
    os._exit(3)


async def test_the_loop_goes_on_while_another_process_works():
    await in_worker(os.getpid)  # started
    ticks = 0
    sleeping = asyncio.ensure_future(in_worker(time.sleep, 0.3))
    while not sleeping.done():
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks > 5
    pid, words = await in_worker(describe, "ab", times=2)
    assert pid != os.getpid()
    assert words == "abab"


async def test_errors_come_back_and_a_dead_worker_is_replaced():
    with pytest.raises(ValueError, match="no such door"):
        await in_worker(refuse)
    with pytest.raises(WorkerLostError, match="vanish"):
        await in_worker(vanish)
    assert await in_worker(os.getpid) != os.getpid()


class Panic(BaseException):
    """As errors of native libraries, which are no `Exception`."""


class CodedError(Exception):
    """It is written, but cannot be read again."""

    def __init__(self, *, code):
        super().__init__(f"code {code}")


class UnwrittenError(Exception):
    def __reduce__(self):
        raise OSError("it holds a socket")


class Unread:
    def __reduce__(self):
        return int, ("no number",)


def raise_(error, *arguments, **named):
    raise error(*arguments, **named)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (partial(raise_, Panic, "index out of bounds"), Panic, "^index out of bounds"),
        (partial(raise_, SystemExit, 3), SystemExit, "^3"),
        (partial(raise_, CodedError, code=3), RuntimeError, "^CodedError: code 3$"),
        (partial(raise_, UnwrittenError, "closed"), RuntimeError, "^UnwrittenError: closed$"),
        (partial(raise_, StopIteration), RuntimeError, "StopIteration"),
        (Unread, ValueError, "no number"),
        (partial(repr, Unread()), ValueError, "no number"),
    ],
)
async def test_what_cannot_cross_is_the_error_of_its_call_alone(call, error, message):
    beside = asyncio.ensure_future(in_worker(time.sleep, 0.2))
    with pytest.raises(error, match=message):
        await in_worker(call)
    await beside


def test_the_end_waits_for_no_process_that_was_started_while_another_was_lost(monkeypatch):
    # As if it came too early.
    monkeypatch.setattr(SpawnProcess, "terminate", lambda self: None)

    async def lose():
        await asyncio.gather(*(in_worker(time.sleep, 0.3) for _ in range(2)))  # both are started
        with pytest.raises(WorkerLostError):
            await asyncio.gather(in_worker(time.sleep, 200), in_worker(vanish))

    begun = time.monotonic()
    asyncio.run(lose())
    assert time.monotonic() - begun < 100


async def test_the_end_of_a_lone_worker_ends_no_other_call(tmp_path):
    waiting = asyncio.ensure_future(in_worker(wait_for, tmp_path / "sign"))
    with pytest.raises(WorkerLostError, match="vanish"):
        await in_lone_worker(vanish)
    (tmp_path / "sign").touch()
    assert await waiting != os.getpid()


def hang():
    while True:
        pass


def take_memory():
    # Other threads may give memory back meanwhile: a quarter more is too much in any case.
    return len(bytearray(MOST_MEMORY + (MOST_MEMORY >> 2)))


def write_much(path):
    with open(path, "wb", buffering=0) as file:
        return sum(file.write(bytes(1 << 16)) for _ in range(LONGEST_FILE >> 15))


def limits():
    return [
        resource.getrlimit(kind)
        for kind in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
    ]


async def test_what_takes_too_much_memory_or_disk_fails(tmp_path):
    before = await in_worker(limits)
    with pytest.raises(MemoryError):
        await in_worker(bounded, 5.0, take_memory)
    with pytest.raises(OSError, match="File too large"):
        await in_worker(bounded, 5.0, write_much, tmp_path / "long")
    assert (tmp_path / "long").stat().st_size == LONGEST_FILE
    assert (await in_worker(bounded, 5.0, limits))[2][0] == 0
    assert await in_worker(limits) == before


async def test_what_takes_too_much_processor_time_is_ended():
    assert await in_worker(bounded, 5.0, str.upper, "ab") == "AB"
    with pytest.raises(WorkerLostError):
        await in_worker(bounded, 0.1, hang)
    with pytest.raises(WorkerLostError):
        await in_lone_worker(bounded, 0.1, hang)
    with pytest.raises(ValueError, match="no such door"):
        await in_worker(bounded, 5.0, refuse)
    # The limit was on those calls alone.
    await in_worker(bounded, 0.1, os.getpid)
    assert await in_worker(busy, 0.3) >= 0.3


def busy(seconds):
    while time.process_time() < seconds:
        pass
    return time.process_time()


async def test_lone_workers_are_as_many_as_there_are_processors(monkeypatch):
    running, most = 0, 0

    class Alone:
        def __init__(self, count):
            pass

        def submit(self, function, call):
            nonlocal running, most
            running += 1
            most = max(most, running)
            done = Future()
            asyncio.get_running_loop().call_later(0.01, self.end, done, function(call))
            return done

        def end(self, done, answer):
            nonlocal running
            running -= 1
            done.set_result(answer)

        def shutdown(self, **options):
            pass

    monkeypatch.setattr(worker_processes, "_Processes", Alone)
    monkeypatch.setattr(worker_processes, "_turns_of", {})
    monkeypatch.setattr(worker_processes.os, "sched_getaffinity", lambda _: {0, 1, 2})
    await asyncio.gather(*(in_lone_worker(os.getpid) for _ in range(8)))
    assert (most, running) == (3, 0)


async def test_workers_leave_stdout_to_the_command(capfd):
    await in_lone_worker(shout, "hello")
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("hello") == 2


WORKS = """
import asyncio, os
from llm_planning.worker_processes import in_lone_worker, in_worker


async def main():
    return [await each(os.getcwd) for each in (in_worker, in_lone_worker)]


if __name__ == "__main__":
    print(asyncio.run(main()), os.environ.get("PYTHONSAFEPATH"))
"""

COMMAND = """
import os, sys
from llm_planning.cli import main
sys.argv = ["llm-planning", "--help"]
main()
print(os.environ["PYTHONSAFEPATH"])
"""


@pytest.mark.parametrize("theirs", [{}, {"PYTHONSAFEPATH": "yes"}])
def test_workers_import_nothing_from_the_working_directory(tmp_path, theirs):
    script = tmp_path / "works.py"
    script.write_text(WORKS)
    (tmp_path / "hostile").mkdir()
    hostile = plant(tmp_path / "hostile")
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, script],
        cwd=hostile,
        env={**inherited, **theirs},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran(hostile) == []
    assert (done.returncode, done.stderr) == (0, "")
    # The program's own environment is what it was.
    assert done.stdout == f"{[str(hostile)] * 2} {theirs.get('PYTHONSAFEPATH')}\n"


ENDS_AT_ONCE = """
import asyncio, threading, time
from concurrent.futures.process import _ThreadWakeup
from llm_planning.worker_processes import in_lone_worker

if __name__ == "__main__":
    exiting = threading.Event()
    close = _ThreadWakeup.close

    def wakeup(self):
        if not self._closed:
            exiting.set()
            time.sleep(0.2)  # the executor's thread closes the pipe meanwhile
            self._writer.send_bytes(b"")

    def close_at_exit(self):
        exiting.wait(0.5)
        close(self)

    async def main():
        await in_lone_worker(len, "four")
        _ThreadWakeup.wakeup, _ThreadWakeup.close = wakeup, close_at_exit

    asyncio.run(main())
"""


def test_a_program_may_end_right_after_a_call(tmp_path):
    (tmp_path / "ends.py").write_text(ENDS_AT_ONCE)
    command = [sys.executable, "ends.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_processes_of_a_command_import_nothing_from_the_working_directory(tmp_path):
    command = [sys.executable, "-P", "-c", COMMAND]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "1"
