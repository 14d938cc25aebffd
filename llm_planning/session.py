"""The front door: opening a model, and planning with it."""

from __future__ import annotations

import contextlib
from contextlib import closing
from typing import TYPE_CHECKING, Any

from llm_planning.domain import Domain
from llm_planning.environments.textgame.open_games import off_disk, share_games
from llm_planning.model_configs import configuration, serve
from llm_planning.roles import Engines, metered
from llm_planning.running import prepare, prepare_with
from llm_serving.cache import CachedEngine, ResponseCache, response_cache_path
from llm_serving.encoder import TextEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from llm_planning.outcome import Outcome
    from llm_planning.specs import PlannerSpec
    from llm_serving.engine import Engine


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
        share_games(),
        serve(configuration(model), encoder, limits={}) as engine,
    ):
        yield CachedEngine(engine, answers)


@contextlib.contextmanager
def open_uncached_engine(model: str) -> Iterator[Engine]:
    """The same, with every question put to the model anew, and every vector and game computed."""
    with off_disk(), share_games(), serve(configuration(model), None, limits={}) as engine:
        yield engine


async def plan(
    planner: str | PlannerSpec,
    problem: str | Domain[Any, Any] | None = None,
    *,
    engine: Engine | Engines,
    domain: str | None = None,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
) -> Outcome:
    """Runs one planner on one problem.

    Args:
        planner: a name, such as "too", or a planner of your own.
        problem: the name of a task, or a domain of your own; None for the domain's first task.
        engine: who answers; `Engines` where some roles have an engine of their own.
        domain: the name of a domain, where the task alone does not tell it.
        settings: key -> value, the planner's and the domain's; what is missing keeps its default.
        seed: of every draw.

    Raises:
        ValueError: no planner, domain, task or setting has this name, a value is impossible, or the
            planner cannot plan there.
        ServingError: the engine failed.
    """
    chosen = settings or {}
    if isinstance(problem, Domain):
        prepared = prepare_with(planner, problem, settings=chosen)
    else:
        prepared = prepare(planner, domain=domain, task=problem, settings=chosen)
    engines = engine if isinstance(engine, Engines) else Engines(engine)
    return await prepared.run(metered(engines), seed)
