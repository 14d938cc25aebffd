"""Opening a model and planning with it: what the command line does, as two functions."""

from __future__ import annotations

import contextlib
from contextlib import closing
from typing import TYPE_CHECKING

from llm_planning.model_configs import find_config
from llm_planning.planners.registry import find_planner
from llm_planning.roles import Engines
from llm_serving.cache import CachedEngine, ResponseCache, response_cache_path
from llm_serving.encoder import TextEncoder
from llm_serving.encoder_engine import NO_MODEL, EncoderEngine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from llm_planning.planners.outcome import Outcome
    from llm_serving.engine import Engine
    from llm_serving.vllm_engine import VllmEngine


@contextlib.contextmanager
def serve(
    model: str, encoder: TextEncoder | None, *, limits: Mapping[str, object]
) -> Iterator[VllmEngine | EncoderEngine]:
    """One model, closed at the end.

    Args:
        model: any name that `find_config` takes, or "none".
        encoder: whose vectors are cached; None for one of the engine's own.
        limits: fields of the configuration to replace.

    Raises:
        ServingError: it cannot be found, fetched or served.
    """
    if model == NO_MODEL:
        with closing(EncoderEngine(encoder)) as lone:
            yield lone
        return
    from llm_serving.vllm_engine import VllmEngine

    config = find_config(model).model_copy(update=limits)
    with closing(VllmEngine(config, encoder=encoder)) as engine:
        yield engine


@contextlib.contextmanager
def open_engine(model: str) -> Iterator[Engine]:
    """Loads a model into this process; its answers and its encoder's vectors are cached.

    Args:
        model: a bundled model, a configuration's name, a YAML file, a folder or a hub id.

    Yields:
        An engine for any number of planners at once, on one event loop; closed at the end.

    Raises:
        ServingError: the model cannot be found, fetched or served.
    """
    with (
        closing(ResponseCache(response_cache_path())) as answers,
        closing(TextEncoder()) as encoder,
        serve(model, encoder, limits={}) as engine,
    ):
        yield CachedEngine(engine, answers)


@contextlib.contextmanager
def open_uncached_engine(model: str) -> Iterator[Engine]:
    """The same, with every question put to the model anew and every vector computed."""
    with serve(model, None, limits={}) as engine:
        yield engine


async def plan(
    planner: str,
    task: str,
    *,
    engine: Engine | Engines,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
) -> Outcome:
    """Runs one planner on one task.

    Args:
        planner: a registered name, such as "too".
        task: one of the planner's tasks.
        engine: who answers; `Engines` where the world model is another model.
        settings: key -> value; what is missing keeps the paper's value.
        seed: of every draw.

    Raises:
        UnknownPlannerError: no planner has this name.
        SettingsError: a setting is unknown or impossible.
        ValueError: no task has this name.
        ServingError: the engine failed.
    """
    spec = find_planner(planner)
    chosen = spec.settings.read(settings or {})
    engines = engine if isinstance(engine, Engines) else Engines.both(engine)
    return await spec.run(task, engines=engines, settings=chosen, seed=seed)
