"""Opening the models of a sweep, and choosing where their answers come from."""

from __future__ import annotations

import contextlib
import os
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from llm_planning.experiments.local_pool import LocalPool
from llm_planning.model_configs import find_config
from llm_planning.roles import Engines
from llm_planning.session import serve
from llm_serving.cache import CachedEngine, ResponseCache, response_cache_path
from llm_serving.encoder import TextEncoder
from llm_serving.encoder_engine import NO_MODEL, EncoderEngine
from llm_serving.request import ModelIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llm_planning.experiments.pool import TrialPool
    from llm_planning.experiments.trial import Trial, TrialResult
    from llm_serving.engine import Engine
    from llm_serving.vllm_engine import VllmEngine

MOST = 256
"""Trials in flight at most, unless the user says otherwise."""

INVARIANT_SINCE = (8, 0)
"""Compute capability from which vLLM 0.32 documents batch invariance on NVIDIA GPUs."""


class Answers(Enum):
    """Where a sweep's answers come from.

    Attributes:
        CACHED: the response cache, and the model for what it lacks: a sweep that is run twice
            gives the same answers.
        FRESH: the model, every time.
        DETERMINISTIC: the model, every time, and no answer depends on what else is in the batch.
    """

    CACHED = "cached"
    FRESH = "fresh"
    DETERMINISTIC = "deterministic"


@dataclass(frozen=True, slots=True)
class Models:
    """Who answers a trial: what has to be loaded to run it."""

    options: str
    world: str

    @classmethod
    def of(cls, trial: Trial) -> Models:
        """The models of a trial."""
        return cls(trial.model, trial.world_model or trial.model)

    @property
    def names(self) -> tuple[str, ...]:
        """Each of them once."""
        return tuple(dict.fromkeys((self.options, self.world)))

    def __str__(self) -> str:
        return " and ".join(self.names)


class LonePool(LocalPool):
    """One trial at a time, from an empty prefix cache: nothing that ran before can be felt."""

    def __init__(self, engines: Engines, *, gauges: tuple[VllmEngine | EncoderEngine, ...]) -> None:
        super().__init__(engines, least=1, most=1, gauges=gauges)
        self._served = [one for one in gauges if not isinstance(one, EncoderEngine)]

    async def run(self, trial: Trial) -> TrialResult:
        """Runs one trial, as `LocalPool` does."""
        for engine in self._served:
            await engine.forget_prefixes()
        return await super().run(trial)


@contextlib.contextmanager
def open_pool(models: Models, *, answers: Answers, most: int | None) -> Iterator[TrialPool]:
    """Loads models into this process.

    With `Answers.DETERMINISTIC`, a GPU for which vLLM has batch-invariant kernels uses them, at
    full concurrency. Elsewhere (a CPU, older GPUs) every step advances one sequence of one trial,
    which starts from an empty prefix cache: as slow as asking one question after the other.

    Args:
        models: which ones.
        answers: where answers come from.
        most: trials in flight at most; None leaves it to the load of the engines.

    Raises:
        ServingError: a model cannot be found, fetched or served.
    """
    alone = answers is Answers.DETERMINISTIC and not use_invariant_kernels()
    limits = {"max_batch": 1} if alone else {}
    with contextlib.ExitStack() as opened:
        encoder = answers_cache = None
        if answers is Answers.CACHED:
            answers_cache = opened.enter_context(closing(ResponseCache(response_cache_path())))
            encoder = opened.enter_context(closing(TextEncoder()))
        served = {
            name: opened.enter_context(serve(name, encoder, limits=limits)) for name in models.names
        }
        asked: dict[str, Engine] = dict(served)
        if answers_cache is not None:
            asked = {name: CachedEngine(one, answers_cache) for name, one in served.items()}
        engines = Engines(options=asked[models.options], world=asked[models.world])
        gauges = tuple(served.values())
        if alone:
            yield LonePool(engines, gauges=gauges)
        else:
            yield LocalPool(engines, most=most or MOST, gauges=gauges)


def identify(model: str) -> ModelIdentity:
    """Which weights a name means, without loading them; fetches what is not here yet.

    The dtype is the configuration's: what `auto` means is known to the engine alone.

    Raises:
        ServingError: there is no such model.
    """
    from llm_serving.models import resolve

    if model == NO_MODEL:
        return EncoderEngine.identity
    config = find_config(model)
    found = resolve(config.model)
    return ModelIdentity(name=found.name, revision=found.revision, dtype=config.dtype)


def use_invariant_kernels() -> bool:
    """Asks vLLM, before it is loaded, for kernels that do not feel the batch; False without any."""
    import torch

    # ROCm speaks through the same functions and has other capabilities: it goes the slow way.
    if torch.version.hip is not None or not torch.cuda.is_available():
        return False
    if torch.cuda.get_device_capability() < INVARIANT_SINCE:
        return False
    os.environ["VLLM_BATCH_INVARIANT"] = "1"
    return True
