"""Trials on many engines: one Ray actor for each GPU, or for each group of CPU slots."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from llm_planning.experiments.pool import PoolLoad
from llm_planning.experiments.ray_cluster import RayPoolError, connect, place
from llm_planning.experiments.ray_worker import Worker, WorkerStartError
from llm_planning.experiments.trial import TrialResult
from llm_planning.own_code import OwnCodeError
from llm_planning.worker_processes import WorkerLostError
from llm_serving.errors import EngineStoppedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.experiments.ray_cluster import Cluster
    from llm_planning.experiments.ray_worker import Report, WorkerRecipe
    from llm_planning.experiments.trial import Trial

POLL: Final = 0.25
"""Seconds between two reports of a worker."""

IMPATIENCE: Final = 60.0
"""Seconds without any worker after which the pool says that it is waiting."""

CLOSING: Final = 30.0
"""Seconds in which workers may close their engines."""

# Calls of one actor at the same moment: far more than the trials that one engine can use.
_MOST_CALLS: Final = 4096

Notify: TypeAlias = "Callable[[str], None]"


@dataclass(slots=True, eq=False, kw_only=True)
class _Running:
    """A worker whose engines are open.

    Attributes:
        name: in messages.
        actor: Ray's handle.
        in_flight: trials that it received and has not returned.
        finished: trials that it has returned.
        gone: set when it gets no more trials; the cause is `reason`.
    """

    name: str
    actor: Any
    report: Report
    in_flight: int = 0
    finished: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""

    @property
    def fullness(self) -> float:
        """Trials in flight divided by the worker's limit."""
        return self.in_flight / max(1, self.report.limit)


class RayPool:
    """Runs trials on workers anywhere in a Ray cluster; made by `open`.

    Each worker is one actor with engines of its own. A trial goes to the worker that has the
    fewest in flight for its limit. A worker that dies, or whose engine does, is replaced, and its
    trials raise `WorkerLostError`; a worker whose replacements die again and again before any of
    them returned a trial is given up.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        recipe: WorkerRecipe,
        workers: int,
        resources: dict[str, float],
        replacements: int,
        notify: Notify,
    ) -> None:
        self._cluster = cluster
        self._actor = cluster.ray.remote(Worker).options(
            max_restarts=0, max_task_retries=0, max_concurrency=_MOST_CALLS, **resources
        )
        self._recipe = recipe
        # A worker that replaces another works where the first one did.
        self._folder = os.getcwd()
        self._replacements = replacements
        self._notify = notify
        self._actors: dict[int, Any] = {}
        self._running: list[_Running] = []
        self._past = PoolLoad()
        self._over: str | None = None
        # Set while a worker runs, and after the last one was given up.
        self._settled = asyncio.Event()
        self._keepers = {asyncio.create_task(self._keep(slot)) for slot in range(workers)}
        self._kept = workers
        for keeper in self._keepers:
            keeper.add_done_callback(self._given_up)

    @classmethod
    async def open(
        cls,
        *,
        recipe: WorkerRecipe,
        notify: Notify,
        address: str | None = None,
        workers: int | None = None,
        cpus_per_worker: int = 8,
        replacements: int = 3,
    ) -> Self:
        """Connects to Ray, starts the workers and waits for the first; others join as they can.

        Call it from the main thread (see `connect`).

        Args:
            recipe: opens the engines of one worker and the pool that runs trials on them.
            notify: receives messages for the user, such as that a worker was lost.
            address: `auto`, `ray://host:port` or `host:port` of a cluster that runs; None starts
                a Ray on this machine, which ends with the pool.
            workers: how many; None: one for each GPU of the cluster, and where there is none, one
                for each `cpus_per_worker` CPU slots.
            cpus_per_worker: CPU slots and OpenMP threads of a worker without a GPU; a machine that
                has fewer gives all of its own.
            replacements: of a worker that may be lost in a row without returning a trial.

        Raises:
            RayPoolError: Ray is missing, cannot be reached, has no room for so many workers, or
                none of them opens its engines.
        """
        for name, value in {"workers": workers, "cpus_per_worker": cpus_per_worker}.items():
            if value is not None and value < 1:
                raise RayPoolError(f"{name}={value} is not possible: write 1 or more")
        here = len(os.sched_getaffinity(0))
        cpus = min(cpus_per_worker, here)
        cluster = connect(address, cpus=max(here, cpus * (workers or 1)))
        try:
            count, resources = place(
                cluster.nodes(),
                workers=workers,
                cpus_per_worker=cpus if cluster.local else cpus_per_worker,
            )
            pool = cls(
                cluster,
                recipe=recipe,
                workers=count,
                resources=resources,
                replacements=replacements,
                notify=notify,
            )
        except BaseException:
            cluster.close()
            raise
        try:
            await pool._first()
        except BaseException:
            await pool.aclose()
            raise
        return pool

    @property
    def limit(self) -> int:
        """Trials that should be in flight now: the sum over the workers that run.

        While all are being replaced it is 1, and the trial waits for the first of them.
        """
        return max(1, sum(worker.report.limit for worker in self._running))

    def load(self) -> PoolLoad:
        """What the engines are doing, from the last reports of their workers."""
        return sum((worker.report.load for worker in self._running), start=self._past)

    @property
    def reports(self) -> tuple[Report, ...]:
        """The newest report of each worker that runs."""
        return tuple(worker.report for worker in self._running)

    async def run(self, trial: Trial) -> TrialResult:
        """Runs one trial on the worker with the most room.

        Raises:
            WorkerLostError: the worker died, or its engine; another takes its place.
            EngineStoppedError: no worker is left, or the pool is closed.
            OwnCodeError: the user's own code on the worker differs from the code here.
        """
        from ray.exceptions import RayError, RayTaskError

        worker = await self._choose()
        started, begun = time.time(), time.perf_counter()
        answer = worker.actor.run.remote(trial)
        worker.in_flight += 1
        try:
            result: TrialResult = await answer
        except asyncio.CancelledError:
            self._cluster.ray.cancel(answer)
            raise
        except RayError as error:
            if self._over is not None:
                raise EngineStoppedError(self._over) from error
            cause = error.cause if isinstance(error, RayTaskError) else None
            if isinstance(
                cause, WorkerLostError
            ):  # a process of the environment died, not this worker
                raise WorkerLostError(str(cause)) from error
            if isinstance(cause, OwnCodeError):
                raise OwnCodeError(f"{worker.name}: {cause}") from error
            if cause is not None and not isinstance(cause, (EngineStoppedError, RayError)):
                seconds = time.perf_counter() - begun
                failed = TrialResult.failed(trial, cause, started=started, seconds=seconds)
                message = f"the worker could not return the result: {failed.error}"
                result = replace(failed, error=message)
            else:
                reason = _reason(error)
                self._lose(worker, reason)
                raise WorkerLostError(f"{worker.name} was lost: {reason}") from error
        finally:
            worker.in_flight -= 1
        worker.finished += 1
        return result

    async def aclose(self) -> None:
        """Closes the engines and ends the workers, and the local Ray if it was started here."""
        self._over = self._over or "the pool is closed: open another"
        self._settled.set()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        leaving = [self._close(worker) for worker in self._running]
        self._running.clear()
        try:
            await asyncio.gather(*leaving)
        finally:
            for actor in self._actors.values():
                self._cluster.ray.kill(actor)
            self._actors.clear()
            self._cluster.close()

    async def _close(self, worker: _Running) -> None:
        """Asks a worker to close its engines; it is ended in any case."""
        from ray.exceptions import RayError

        try:
            async with asyncio.timeout(CLOSING):
                await worker.actor.close.remote()
        except RayError as error:
            self._notify(f"{worker.name} did not close its engines: {_reason(error)}")
        except TimeoutError:
            self._notify(f"{worker.name} did not close its engines in {CLOSING:.0f} s")

    async def _first(self) -> None:
        """Waits until a worker runs."""
        while not self._settled.is_set():
            try:
                async with asyncio.timeout(IMPATIENCE):
                    await self._settled.wait()
            except TimeoutError:
                self._notify(
                    "no worker runs yet: engines are being loaded, or the cluster has no room"
                )
        if self._over is not None:
            raise RayPoolError(self._over)

    async def _choose(self) -> _Running:
        """The worker with the most room; waits while all are being replaced."""
        while True:
            await self._settled.wait()
            if self._over is not None:
                raise EngineStoppedError(self._over)
            if self._running:
                return min(self._running, key=lambda worker: worker.fullness)

    async def _keep(self, slot: int) -> str:
        """Starts a worker, watches it, and replaces it when it is lost.

        Returns:
            The reason why it was given up.
        """
        from ray.exceptions import RayError

        name, fruitless = f"worker {slot + 1}", 0
        while True:
            actor = self._actors[slot] = self._actor.remote(self._recipe, self._folder)
            finished = 0
            try:
                report = await actor.start.remote()
            except RayError as error:
                cause = getattr(error, "cause", None)
                if isinstance(cause, WorkerStartError):
                    return f"{name} cannot open its engines: {cause}"
                reason = f"it did not start: {_reason(error)}"
            else:
                worker = _Running(
                    name=f"{name} (process {report.pid} on {report.host})",
                    actor=actor,
                    report=report,
                )
                self._running.append(worker)
                self._settled.set()
                reason = await self._watch(worker)
                finished = worker.finished
            self._cluster.ray.kill(actor)
            fruitless = 0 if finished else fruitless + 1
            if fruitless > self._replacements:
                return f"{name} was lost {fruitless} times before it returned a trial: {reason}"
            self._notify(f"{name} was lost, another is starting: {reason}")

    async def _watch(self, worker: _Running) -> str:
        """Keeps a worker's report fresh until it is lost.

        Returns:
            The reason why it was lost.
        """
        from ray.exceptions import RayError

        while not worker.gone.is_set():
            try:
                worker.report = await worker.actor.report.remote()
            except RayError as error:
                self._lose(worker, _reason(error))
            try:
                async with asyncio.timeout(POLL):
                    await worker.gone.wait()
            except TimeoutError:
                continue
        return worker.reason

    def _lose(self, worker: _Running, reason: str) -> None:
        """Sends no more trials to a worker; its keeper replaces it."""
        if worker.gone.is_set():
            return
        worker.reason = reason
        worker.gone.set()
        self._running.remove(worker)
        self._past += worker.report.load.past
        if not self._running:
            self._settled.clear()

    def _given_up(self, keeper: asyncio.Task[str]) -> None:
        """Notes that a worker was given up; after the last one the pool has failed."""
        if keeper.cancelled():
            return
        error = keeper.exception()
        reason = keeper.result() if error is None else f"{type(error).__name__}: {error}"
        self._kept -= 1
        if self._kept:
            self._notify(f"{reason}; the sweep goes on without it")
            return
        self._over = self._over or f"no worker is left: {reason}"
        self._settled.set()


def _reason(error: Exception) -> str:
    """The first sentence of the last part of Ray's message, which begins with identifiers."""
    cause = getattr(error, "cause", None)
    lines = str(error if cause is None else cause).strip().splitlines()
    return lines[-1].split(". ")[0] if lines else type(error).__name__
