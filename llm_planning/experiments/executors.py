"""Opens the models of a sweep: a GPU holds one set of models, so the sets take turns."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pydantic import ValidationError

from llm_base.terminal import complain
from llm_planning.experiments.local_pool import LocalPool
from llm_planning.experiments.scheduler import Progress, run_sweep
from llm_planning.interrupts import heard_while_loading
from llm_planning.model_configs import (
    serve,
    served_adapters,
    served_together,
    split_adapter,
)
from llm_planning.roles import Engines
from llm_serving.config import EngineConfig, explain
from llm_serving.encoder_engine import NO_MODEL, EncoderEngine
from llm_serving.errors import EngineConfigError
from llm_serving.request import ModelIdentity
from llm_serving.vllm_arguments import on_gpu

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from llm_planning.experiments.pool import TrialPool
    from llm_planning.experiments.scheduler import ResultLedger
    from llm_planning.experiments.trial import Trial, TrialResult
    from llm_serving.vllm_engine import VllmEngine

MOST = 256
"""Trials in flight at most, by default."""

INVARIANT_SINCE = (8, 0)
"""Compute capability from which vLLM 0.32 documents batch invariance on NVIDIA GPUs."""


class Answers(Enum):
    """The source of a sweep's answers.

    Attributes:
        CACHED: the response cache, and the model for answers that it lacks: a sweep that is run
            twice has the same answers.
        FRESH: always the model.
        DETERMINISTIC: always the model, and no answer depends on the rest of the batch.
    """

    CACHED = "cached"
    FRESH = "fresh"
    DETERMINISTIC = "deterministic"


@dataclass(frozen=True, slots=True)
class Models:
    """The models that must be loaded to run a trial.

    Attributes:
        configurations: (name, configuration) of each, sorted by name; of "none", (name, None).
    """

    configurations: tuple[tuple[str, EngineConfig | None], ...]

    @classmethod
    def of(cls, trial: Trial) -> Models:
        """The models of a trial, configured as they were when its sweep was read.

        Raises:
            EngineConfigError: a configuration in a ledger is malformed.
        """
        names = sorted({trial.model, *trial.role_models.values()})
        return cls(tuple((name, _configuration(trial, name)) for name in names))

    def __str__(self) -> str:
        return " and ".join(name for name, _ in self.configurations)


def _configuration(trial: Trial, name: str) -> EngineConfig | None:
    if name == NO_MODEL:
        return None
    try:
        return EngineConfig.model_validate(trial.engines.get(name))
    except ValidationError as error:
        raise EngineConfigError(
            f"the model {name} as a trial has it: {explain(error, EngineConfig)}"
        ) from error


class SerialPool(LocalPool):
    """Runs one trial at a time, from an empty prefix cache, so that no trial affects another."""

    def __init__(
        self,
        engines: Callable[[Trial], Engines],
        *,
        gauges: tuple[VllmEngine, ...],
    ) -> None:
        super().__init__(engines, least=1, most=1, gauges=gauges)
        self._served = gauges

    async def run(self, trial: Trial) -> TrialResult:
        """Runs one trial, as `LocalPool` does."""
        for engine in self._served:
            await engine.forget_prefixes()
        return await super().run(trial)


@contextmanager
def open_pool(models: Models, *, answers: Answers, most: int | None) -> Iterator[TrialPool]:
    """Loads models into this process.

    With `Answers.DETERMINISTIC`, a GPU for which vLLM has batch-invariant kernels uses them, at
    full concurrency. Elsewhere (a CPU, older GPUs) every step advances one sequence of one trial,
    which starts from an empty prefix cache. That is as slow as one question after the other.

    Args:
        most: trials in flight at most; None lets the load of the engines decide.

    Raises:
        ServingError: a model cannot be found, fetched or served.
    """
    alone = answers is Answers.DETERMINISTIC and not use_invariant_kernels()
    limits = {"max_batch": 1} if alone else {}
    named = dict(models.configurations)
    configs = {
        names: _served({name: named[name] for name in names}) for names in served_together(named)
    }
    with serve(configs, cached=answers is Answers.CACHED, limits=limits) as (gauges, asked):

        def engines(trial: Trial) -> Engines:
            by_role = {role: asked[name] for role, name in trial.role_models.items()}
            return Engines(asked[trial.model], by_role)

        if alone:
            yield SerialPool(engines, gauges=tuple(gauges))
        else:
            yield LocalPool(engines, most=most or MOST, gauges=tuple(gauges))


def _served(configs: Mapping[str, EngineConfig | None]) -> EngineConfig | None:
    """The configuration of an engine that serves all of these names of one model."""
    adapters: dict[str, str] = {}
    hashes: dict[str, str] = {}
    for name, config in configs.items():
        if config is None:
            return None
        for adapter_name in served_adapters(name, config):
            adapters[adapter_name] = config.adapters[adapter_name]
            hashes[adapter_name] = config.adapters_sha256[adapter_name]
    first = next(iter(configs.values()))
    return first and first.model_copy(update={"adapters": adapters, "adapters_sha256": hashes})


def identify(name: str, config: EngineConfig | None) -> ModelIdentity:
    """Identifies the weights of a model without loading them; fetches missing ones.

    The dtype is the configuration's, as only the engine knows what `auto` means.

    Args:
        name: of the model, as the trials name it.
        config: None for the engine without a model.

    Raises:
        ServingError: there is no such model.
    """
    from llm_serving.models import resolve
    from llm_serving.models.merging import merged_revision

    if config is None:
        return EncoderEngine.identity
    model = resolve(config.model)
    adapter = split_adapter(name)[1]
    revision = (
        model.revision
        if adapter is None
        else merged_revision(model.revision, config.adapters_sha256[adapter])
    )
    return ModelIdentity(name=name, revision=revision, dtype=config.dtype)


def use_invariant_kernels() -> bool:
    """Asks vLLM, before it is loaded, for batch-invariant kernels; returns whether it has them."""
    import torch

    # ROCm answers the same functions with other capabilities, so it takes the slow way.
    if torch.version.hip is not None or not on_gpu():
        return False
    if torch.cuda.get_device_capability() < INVARIANT_SINCE:
        return False
    os.environ["VLLM_BATCH_INVARIANT"] = "1"
    return True


PoolOpener: TypeAlias = "Callable[[], Awaitable[TrialPool]]"
"""Opens the pool on the event loop that will use it."""


class Executor(Protocol):
    """Where trials run."""

    def open(self, models: Models) -> AbstractContextManager[PoolOpener]:
        """Loads models, or prepares their loading on workers; closes them at the end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalExecutor:
    """Trials as coroutines on engines in this process.

    Attributes:
        most: trials in flight at most; None lets the load of the engines decide.
    """

    answers: Answers
    most: int | None = None

    @contextmanager
    def open(self, models: Models) -> Iterator[PoolOpener]:
        """Loads models before any event loop runs, so that Ctrl-C takes effect at once.

        Libraries may swallow it; a terminal is told what is loaded.
        """
        if sys.stderr.isatty():
            complain(f"loading {models}")
        with ExitStack() as stack:
            with heard_while_loading():
                pool = stack.enter_context(open_pool(models, answers=self.answers, most=self.most))

            async def opened() -> TrialPool:
                return pool

            yield opened


@dataclass(frozen=True, slots=True, kw_only=True)
class RayExecutor:
    """Trials on the workers of a Ray cluster, each with engines of its own.

    Attributes:
        answers: where answers come from; a response cache is that of the worker's machine.
        most: trials in flight at most on a worker; None lets the load of its engines decide.
        address: of a running cluster; None starts Ray on this machine.
        workers: number of workers; None for as many as the cluster has room for.
        cpus_per_worker: CPU slots of a worker on a machine without a GPU.
    """

    answers: Answers
    notify: Callable[[str], None]
    most: int | None = None
    address: str | None = None
    workers: int | None = None
    cpus_per_worker: int = 8

    @contextmanager
    def open(self, models: Models) -> Iterator[PoolOpener]:
        """Prepares the loading of models on the workers."""
        from llm_planning.experiments.ray_pool import RayPool

        yield lambda: RayPool.open(
            recipe=functools.partial(open_pool, models, answers=self.answers, most=self.most),
            notify=self.notify,
            address=self.address,
            workers=self.workers,
            cpus_per_worker=self.cpus_per_worker,
        )


def run_groups(
    trials: Iterable[Trial],
    *,
    executor: Executor,
    ledger: ResultLedger,
    retries: int,
    watch: Callable[[Progress], None],
) -> Progress:
    """Runs a sweep to its end, one set of models after the other.

    Models are not loaded if all of their trials are finished.

    Args:
        retries: attempts beyond the first that a failing trial gets.
        watch: receives the progress of the whole sweep.

    Raises:
        KeyboardInterrupt: Ctrl-C; results of trials that ended are recorded.
        ServingError: a model cannot be served, or its engine stopped.
        RayPoolError: Ray cannot be used.
        LedgerError: a result could not be recorded.
    """
    by_key = {trial.key: trial for trial in trials}
    finished = ledger.finished()
    so_far = Progress(total=len(by_key), kept=len(by_key.keys() & finished))
    groups: dict[Models, list[Trial]] = {}
    for key, trial in by_key.items():
        if key not in finished:
            groups.setdefault(Models.of(trial), []).append(trial)
    for models, left in groups.items():
        so_far = _run_group(models, left, executor, ledger, retries, earlier=so_far, watch=watch)
    return replace(so_far, running=0)


def _run_group(
    models: Models,
    trials: list[Trial],
    executor: Executor,
    ledger: ResultLedger,
    retries: int,
    *,
    earlier: Progress,
    watch: Callable[[Progress], None],
) -> Progress:
    """Runs the trials of one set of models; nothing of the set is held when it returns.

    The next set may need the memory.
    """
    with executor.open(models) as opened:
        part = asyncio.run(
            _run(trials, opened, ledger, retries, watch=lambda now: watch(now.after(earlier)))
        )
    return part.after(earlier)


async def _run(
    trials: list[Trial],
    opened: PoolOpener,
    ledger: ResultLedger,
    retries: int,
    *,
    watch: Callable[[Progress], None],
) -> Progress:
    pool = await opened()
    try:
        return await run_sweep(trials, pool=pool, ledger=ledger, retries=retries, watch=watch)
    finally:
        await pool.aclose()
