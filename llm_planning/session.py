"""The public functions: opening a model, and planning with it."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from llm_planning.domain import Domain
from llm_planning.model_configs import (
    configuration,
    serve,
    served_adapters,
    served_together,
    split_adapter,
    with_adapters,
)
from llm_planning.roles import Engines, metered
from llm_planning.running import prepare, prepare_with, run_planner
from llm_serving.encoder_engine import NO_MODEL
from llm_serving.errors import AdapterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from llm_planning.outcome import Outcome
    from llm_planning.specs import PlannerSpec
    from llm_serving.config import EngineConfig
    from llm_serving.engine import Engine


@contextlib.contextmanager
def open_engine(model: str, *, adapters: Iterable[str] = ()) -> Iterator[Engine]:
    """Loads a model into this process; its answers and its encoder's vectors are cached on disk.

    Args:
        model: a bundled model, the name of a configuration, a YAML file, a folder or a hub id;
            "none" for planners that ask no model. MODEL+ADAPTER is a model with an adapter, which
            answers every question.
        adapters: that questions may ask for by name, as in MODEL+ADAPTER. Those of a YAML file are
            served beside them on a GPU. On a CPU there may be one, and every question names it.

    Yields:
        An engine for any number of planners at once, on one event loop. It is closed at the end.

    Raises:
        ServingError: the model cannot be found, fetched or served.

    Example:
        >>> import asyncio
        >>> from llm_planning import open_engine, plan
        >>> with open_engine("none") as engine:
        ...     outcome = asyncio.run(plan("walkthrough", "trap-door", engine=engine))
        >>> outcome.success, outcome.metrics["score"]
        (True, 100.0)
    """
    with serve({(model,): _with(model, adapters)}, cached=True) as (_, engines):
        yield engines[model]


@contextlib.contextmanager
def open_uncached_engine(model: str, *, adapters: Iterable[str] = ()) -> Iterator[Engine]:
    """Loads a model into this process and caches nothing.

    Every question goes to the model, and every vector and every step of a game is computed.

    Args:
        model: as `open_engine` takes it.
        adapters: likewise.

    Yields:
        An engine, as `open_engine` does.

    Raises:
        ServingError: the model cannot be found, fetched or served.

    Example:
        >>> from llm_planning import open_uncached_engine
        >>> with open_uncached_engine("none") as engine:
        ...     engine.identity.name
        'none'
    """
    with serve({(model,): _with(model, adapters)}, cached=False) as (_, engines):
        yield engines[model]


@contextlib.contextmanager
def open_engines(models: Iterable[str], *, cached: bool) -> Iterator[dict[str, Engine]]:
    """Loads the models of one run into this process; on a GPU they share its memory.

    Args:
        models: each as `open_engine` takes it.
        cached: whether answers, vectors and steps of games are cached on disk.

    Yields:
        The engine of each model, by the name of the model.

    Raises:
        ServingError: a model cannot be found, fetched or served.

    Example:
        >>> from llm_planning.session import open_engines
        >>> with open_engines(["none"], cached=False) as engines:
        ...     [*engines]
        ['none']
    """
    configs = {}
    for names in served_together(models):
        beside = [adapter for name in names if (adapter := split_adapter(name)[1])]
        lone = len(names) == 1
        configs[names] = _with(
            names[0] if lone else split_adapter(names[0])[0], () if lone else beside
        )
    with serve(configs, cached=cached) as (_, engines):
        yield engines


def _with(model: str, adapters: Iterable[str]) -> EngineConfig | None:
    """The configuration of a model with the adapters that its engine serves.

    Raises:
        AdapterError: there is no such adapter.
    """
    config, named = configuration(model), list(adapters)
    if config is None:
        if named:
            raise AdapterError(f"{NO_MODEL} has no adapter {named[0]}: name a model")
        return None
    return with_adapters(config, [*served_adapters(model, config), *named])


async def plan(
    planner: str | PlannerSpec,
    problem: str | Domain[Any, Any] | None = None,
    *,
    engine: Engine | Engines,
    domain: str | None = None,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
) -> Outcome:
    """Runs one planner on one problem; in Jupyter, shows what it costs meanwhile.

    Args:
        planner: a name, such as "too", or a planner of your own.
        problem: the name of a task, or a domain of your own; None for the domain's first task.
        engine: answers the questions; `Engines` if some roles have their own engine.
        domain: the name of a domain, if the task alone does not decide it.
        settings: key -> value, of planner and domain; missing ones keep their defaults.
        seed: of every draw, an integer; equal seeds and answers make equal plans.

    Returns:
        The plan, whether it reaches the goal, and what it cost.

    Raises:
        ValueError: no planner, domain, task or setting has this name, a value is impossible, or the
            planner cannot plan there.
        ServingError: the engine failed.
        Exception: whatever the planner or the domain raises.

    Example:
        >>> import asyncio
        >>> from llm_planning import open_engine, plan
        >>> async def main():
        ...     with open_engine("none") as engine:
        ...         settings = {"simulations": 30, "moves": 1}
        ...         return await plan("uct", "trap-door", engine=engine, settings=settings, seed=1)
        >>> outcome = asyncio.run(main())
        >>> outcome.success, outcome.metrics["simulations"]
        (False, 30)
    """
    from llm_planning.notebook import display
    from llm_planning.watching import spent, watched

    chosen = settings or {}
    find = (
        partial(prepare_with, planner, problem, settings=chosen)
        if isinstance(problem, Domain)
        else partial(prepare, planner, domain=domain, task=problem, settings=chosen)
    )
    meters = metered(engine if isinstance(engine, Engines) else Engines(engine))
    planning = run_planner(find, meters, seed=seed)
    show = display()
    if show is None:
        return (await planning).result()
    record = await watched(planning, meters, show)
    show(f"Took {record.seconds:.1f} s, {spent(meters)}.")
    return record.result()
