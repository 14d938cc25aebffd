"""Blocking work in other processes."""

import asyncio
import os
import time

import pytest

from llm_planning.worker_processes import (
    WorkerLostError,
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


async def test_what_a_lone_worker_does_concerns_nobody_else():
    pid = await in_worker(os.getpid)
    sleeping = asyncio.ensure_future(in_worker(time.sleep, 1.5))
    with pytest.raises(WorkerLostError, match="vanish"):
        await in_lone_worker(vanish)
    await sleeping
    assert pid != await in_lone_worker(os.getpid)


async def test_workers_leave_stdout_to_the_command(capfd):
    await in_lone_worker(shout, "hello")
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("hello") == 2
