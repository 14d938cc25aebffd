"""Pools of stubs on a Ray of this machine."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from llm_planning.experiments.pool import PoolLoad
from llm_planning.experiments.ray_pool import RayPool
from llm_planning.experiments.trial import TrialResult
from llm_planning.worker_processes import WorkerLostError
from llm_serving.errors import EngineStoppedError

ray = pytest.importorskip("ray", reason="Ray is optional: pip install 'llm-planning[ray]'")
# Workers cannot import this module: what they need of it travels with its pickle.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


async def cancelled(path):
    """Writes down that it is waiting, and that its waiting was cancelled."""
    try:
        path.write_text("begun")
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        path.write_text("cancelled")
        raise


class StubPool:
    """Does what a trial's task says, on the worker."""

    def __init__(self, limit):
        self.limit = limit
        self.running = self.done = 0

    def load(self):
        return PoolLoad(running=self.running, written_tokens=self.done)

    async def run(self, trial):
        self.running += 1
        metrics = {"pid": os.getpid(), "folder": os.getcwd()}
        try:
            match trial.task.split(" "):
                case ["die"]:
                    os.kill(os.getpid(), signal.SIGKILL)
                case ["stop"]:
                    raise EngineStoppedError("the GPU fell off")
                case ["lose"]:
                    raise WorkerLostError("the simulator died")
                case ["unsendable"]:
                    metrics["lock"] = asyncio.get_running_loop()
                case ["nap", seconds]:
                    await asyncio.sleep(float(seconds))
                case ["cancelled", path]:
                    await cancelled(Path(path))
        finally:
            self.running -= 1
        self.done += 1
        return TrialResult(
            trial=trial, status="done", metrics=metrics, usage={}, started=0.0, seconds=0.0
        )

    async def aclose(self):
        pass


@contextlib.contextmanager
def stubbed(*, limits):
    """A recipe whose limit is the first of some files that no worker has taken yet."""
    for path in limits:
        with contextlib.suppress(FileNotFoundError):
            limit = int(path.read_text())
            path.unlink()
            yield StubPool(limit)
            return
    yield StubPool(2)


async def until(condition, seconds=20.0):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what it waits for is in other processes
            await asyncio.sleep(0.02)


def ray_variables():
    """What the environment of this process says to Ray."""
    return {name: value for name, value in os.environ.items() if name.startswith("RAY_")}


def ray_folder():
    """The one around everything that the Ray on this machine keeps in files."""
    (node,) = ray.nodes()
    return Path(node["ObjectStoreSocketName"]).parents[3]


@contextlib.asynccontextmanager
async def opened(recipe, *, workers=2, cpus=1, **options):
    """A pool on this module's Ray, and its messages."""
    messages = []
    pool = await RayPool.open(
        recipe=recipe, notify=messages.append, workers=workers, cpus_per_worker=cpus, **options
    )
    try:
        await until(lambda: len(pool.reports) == workers)
        yield pool, messages
    finally:
        await pool.aclose()
