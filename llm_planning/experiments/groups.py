"""A sweep over several models: one GPU holds one of them, so they take turns."""

from __future__ import annotations

import asyncio
import functools
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from llm_planning.experiments.opening import Answers, Models, open_pool
from llm_planning.experiments.progress import Progress
from llm_planning.experiments.scheduler import run_sweep

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from llm_planning.experiments.pool import TrialPool
    from llm_planning.experiments.recorder import Records
    from llm_planning.experiments.trial import Trial

Opened: TypeAlias = "Callable[[], Awaitable[TrialPool]]"
"""Gives the pool, on the event loop that will use it."""


class Executor(Protocol):
    """Where trials run."""

    def open(self, models: Models) -> AbstractContextManager[Opened]:
        """Loads models, or says how they are loaded; closes them at the end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalExecutor:
    """Trials as coroutines on engines in this process.

    Attributes:
        answers: where answers come from.
        tell: is given what a user should know.
        most: trials in flight at most; None leaves it to the load of the engines.
    """

    answers: Answers
    tell: Callable[[str], None]
    most: int | None = None

    @contextmanager
    def open(self, models: Models) -> Iterator[Opened]:
        """Loads models, before any event loop runs: Ctrl-C is heard at once."""
        self.tell(f"loading {models}")
        with open_pool(models, answers=self.answers, most=self.most) as pool:

            async def opened() -> TrialPool:
                return pool

            yield opened


@dataclass(frozen=True, slots=True, kw_only=True)
class RayExecutor:
    """Trials on the workers of a Ray cluster, each with engines of its own.

    Attributes:
        answers: where answers come from; a response cache is the one of the worker's machine.
        most: trials in flight at most on one worker; None leaves it to the load of its engines.
        address: of a cluster that runs; None starts a Ray on this machine.
        workers: how many; None: as many as the cluster has room for.
        cpus_per_worker: CPU slots of a worker on a machine without a GPU.
        tell: is given what a user should know.
    """

    answers: Answers
    tell: Callable[[str], None]
    most: int | None = None
    address: str | None = None
    workers: int | None = None
    cpus_per_worker: int = 8

    @contextmanager
    def open(self, models: Models) -> Iterator[Opened]:
        """Says how the workers load models."""
        from llm_planning.experiments.ray_pool import RayPool

        yield lambda: RayPool.open(
            recipe=functools.partial(open_pool, models, answers=self.answers, most=self.most),
            tell=self.tell,
            address=self.address,
            workers=self.workers,
            cpus_per_worker=self.cpus_per_worker,
        )


def by_models(trials: Iterable[Trial]) -> dict[Models, list[Trial]]:
    """The trials of each pair of models, both in the order of the sweep."""
    groups: dict[Models, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(Models.of(trial), []).append(trial)
    return groups


def run_groups(
    trials: Iterable[Trial],
    *,
    executor: Executor,
    ledger: Records,
    retries: int,
    watch: Callable[[Progress], None],
) -> Progress:
    """Runs a sweep to its end, the models one after the other.

    Models whose trials are all finished are not loaded.

    Args:
        trials: of the whole sweep.
        executor: where they run.
        ledger: keeps the results.
        retries: attempts beyond the first that a failing trial gets.
        watch: told how far the whole sweep is.

    Raises:
        KeyboardInterrupt: Ctrl-C; what had ended is recorded.
        ServingError: a model cannot be served, or its engine stopped.
        RayPoolError: Ray cannot be had.
        LedgerError: a result could not be kept.
    """
    by_key = {trial.key: trial for trial in trials}
    finished = ledger.finished()
    so_far = Progress(total=len(by_key), kept=len(by_key.keys() & finished))
    for models, group in by_models(by_key.values()).items():
        left = [trial for trial in group if trial.key not in finished]
        if not left:
            continue
        with executor.open(models) as opened:
            part = asyncio.run(
                _run(left, opened, ledger, retries, watch=functools.partial(_on, so_far, watch))
            )
        so_far = part.after(so_far)
    return replace(so_far, running=0)


async def _run(
    trials: list[Trial],
    opened: Opened,
    ledger: Records,
    retries: int,
    *,
    watch: Callable[[Progress], None],
) -> Progress:
    pool = await opened()
    try:
        return await run_sweep(trials, pool=pool, ledger=ledger, retries=retries, watch=watch)
    finally:
        await pool.aclose()


def _on(earlier: Progress, watch: Callable[[Progress], None], progress: Progress) -> None:
    watch(progress.after(earlier))
