"""The actor of a worker: a pool of trials with its own engines."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import platform
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from llm_planning.experiments.pool import TrialPool
from llm_planning.interrupts import was_interrupted
from llm_planning.own_code import describe_error
from llm_planning.worker_processes import end_workers

if TYPE_CHECKING:
    from llm_planning.experiments.pool import PoolLoad
    from llm_planning.experiments.trial import Trial, TrialResult

WorkerRecipe: TypeAlias = Callable[[], AbstractContextManager[TrialPool]]
"""Opens the engines of one worker and the pool that runs trials on them.

It is pickled and called on the worker, which must have the same version of this project.
"""


class WorkerStartError(RuntimeError):
    """A worker's engines cannot be opened, and another attempt would fail too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker tells the pool a few times per second.

    Attributes:
        limit: trials that it wants in flight now.
        load: what its engines are doing.
    """

    pid: int
    host: str
    limit: int
    load: PoolLoad


class Worker:
    """One actor: opens a pool by a recipe and runs the trials that it receives.

    Args:
        folder: where relative paths begin, on machines that have it.
    """

    def __init__(self, recipe: WorkerRecipe, folder: str) -> None:
        with contextlib.suppress(OSError):
            os.chdir(folder)
        self._recipe = recipe
        self._stack = contextlib.ExitStack()
        # The context variables that the recipe sets, such as the games that trials share.
        self._context = contextvars.copy_context()
        self._pool: TrialPool | None = None

    async def start(self) -> Report:
        """Opens the pool; must be the first call.

        Raises:
            WorkerStartError: the recipe raised.
        """
        try:
            self._pool = self._context.run(self._stack.enter_context, self._recipe())
        except BaseException as error:
            if was_interrupted(error):
                raise
            # As text, since not every error can be unpickled.
            raise WorkerStartError(describe_error(error)) from None
        return await self.report()

    async def report(self) -> Report:
        """The limit and the load of this moment."""
        pool = self._opened
        return Report(pid=os.getpid(), host=platform.node(), limit=pool.limit, load=pool.load())

    async def run(self, trial: Trial) -> TrialResult:
        """Runs one trial, as `TrialPool.run`."""
        return await asyncio.create_task(self._opened.run(trial), context=self._context.copy())

    async def close(self) -> None:
        """Closes the pool and the engines; must be the last call."""
        try:
            await self._opened.aclose()
        finally:
            self._context.run(self._stack.close)
        end_workers()

    @property
    def _opened(self) -> TrialPool:
        if self._pool is None:
            raise RuntimeError("the worker was not started")
        return self._pool
