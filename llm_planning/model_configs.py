"""Models: from a name to a configuration, and from that to an engine.

This module imports little: what models need is imported inside the functions.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from llm_base.files import at_home
from llm_planning.sharing import sharing
from llm_serving.encoder_engine import NO_MODEL, EncoderEngine
from llm_serving.errors import AdapterError, EngineConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from llm_serving.config import EngineConfig
    from llm_serving.engine import Engine
    from llm_serving.vllm_engine import VllmEngine

DEFAULT_MODEL = "smollm2-135m-instruct"
"""The bundled model that was not taught anything; the only default of sweeps."""
_PACKAGE = Path(__file__).resolve().parent


def config_folder() -> Path:
    """Folder of the model configurations: in an installed package, or beside it in a checkout."""
    packaged = _PACKAGE / "configs" / "models"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "configs" / "models"


def packaged_file(name: str) -> str:
    """Where a file that a setting names is: as named, or among those that come with this project.

    The sweeps of this project name theirs as they lie in a checkout, such as
    `configs/too/oracles/ends-5.yaml`. An installed package has them beside its models.
    """
    if os.path.lexists(name) or not name.startswith("configs/"):
        return name
    packaged = config_folder().parent.parent / name
    return str(packaged) if packaged.is_file() else name


def configured_models() -> tuple[str, ...]:
    """Names of the configurations that come with this project."""
    return tuple(sorted(path.stem for path in config_folder().glob("*.yaml")))


def find_config(name: str) -> EngineConfig:
    """Finds the configuration of a model.

    Args:
        name: a YAML file; the name of a configuration of this project; or any model's name, which
            gets the default settings. MODEL+ADAPTER is such a model with one adapter: one of its
            configuration, a folder, or a bundled model that is made of one.

    Raises:
        EngineConfigError: the file is missing or says something impossible.
        AdapterError: there is no such adapter.
    """
    from llm_serving.config import load_config

    name, adapter = split_adapter(name)
    if adapter is not None:
        return with_adapters(find_config(name), [adapter])
    path = Path(name)
    if path.suffix.lower() in {".yaml", ".yml"}:
        if not os.path.isfile(path):
            raise EngineConfigError(
                f"no model configuration {name}; this project's own are "
                f"{', '.join(configured_models())}"
            )
        return load_config(path)
    if name in configured_models():
        return load_config(config_folder() / f"{name}.yaml")
    return _validated({"model": name})


def split_adapter(name: str) -> tuple[str, str | None]:
    """The model and the adapter of a name such as MODEL+ADAPTER; None for a model alone.

    Paths may hold the sign, too. The name of a file or a folder is a model's whole name. Any other
    name is cut at the first sign that follows a model of this machine, otherwise at the first one.
    """
    if "+" not in name or os.path.exists(at_home(name)):
        return name, None
    places = [place for place, sign in enumerate(name) if sign == "+" and 0 < place < len(name) - 1]
    cuts = [(name[:place], name[place + 1 :]) for place in places]
    return next((cut for cut in cuts if _is_here(cut[0])), cuts[0] if cuts else (name, None))


def default_model(roles: Collection[str], *, domain: str) -> str:
    """The bundled model that one run uses if the user names none.

    Returns:
        The model that was taught all of these roles in this domain, if there is one and it is meant
        to be one; otherwise `DEFAULT_MODEL`.
    """
    from llm_serving.models import CATALOGUE, TaughtModel, read_card

    taught = (model for model in CATALOGUE.values() if isinstance(model, TaughtModel))
    for model in taught:
        card = read_card(model.adapter) if model.default else None
        if card and card.domain == domain and roles and set(roles) <= set(card.roles):
            return model.name
    return DEFAULT_MODEL


def _is_here(model: str) -> bool:
    from llm_serving.models import CATALOGUE

    return model in CATALOGUE or model in configured_models() or os.path.exists(at_home(model))


def with_adapters(config: EngineConfig, adapters: Iterable[str]) -> EngineConfig:
    """A model's configuration with these adapters, and no others of its own.

    Args:
        adapters: each a name in the configuration, a folder, or a bundled model that is made of an
            adapter.

    Raises:
        AdapterError: there is no such adapter.
        EngineConfigError: a name is impossible.
    """
    wanted = {name: config.adapters.get(name, name) for name in adapters}
    if wanted == config.adapters:
        return config
    return _validated(config.model_dump(exclude={"adapters_sha256"}) | {"adapters": wanted})


def _validated(values: Mapping[str, object]) -> EngineConfig:
    from pydantic import ValidationError

    from llm_serving.config import EngineConfig, explain

    try:
        return EngineConfig.model_validate(values)
    except ValidationError as error:
        raise EngineConfigError(f"the model {explain(error, EngineConfig)}") from error


def served_adapters(name: str, config: EngineConfig) -> tuple[str, ...]:
    """The adapters that an engine of a name serves, of those in its configuration.

    A GPU serves them all. A CPU serves either one, for MODEL+ADAPTER, or the base model alone.

    Args:
        name: as `find_config` takes it.
        config: what `find_config` made of it.
    """
    if not config.adapters or split_adapter(name)[1] is not None:
        return tuple(config.adapters)
    from llm_serving.vllm_arguments import on_gpu

    return tuple(config.adapters) if on_gpu() else ()


def served_together(names: Iterable[str]) -> list[tuple[str, ...]]:
    """The names of models in groups that one engine serves each.

    A GPU serves a model and all of its adapters at once; on a CPU every name has its own engine.
    """
    distinct = list(dict.fromkeys(names))
    if all(split_adapter(name)[1] is None for name in distinct):
        return [(name,) for name in distinct]
    from llm_serving.vllm_arguments import on_gpu

    if not on_gpu():
        return [(name,) for name in distinct]
    groups: dict[str, list[str]] = {}
    for name in distinct:
        groups.setdefault(split_adapter(name)[0], []).append(name)
    return [tuple(group) for group in groups.values()]


def adapted(engine: Engine, name: str) -> Engine:
    """An engine as a name asks it: always for its adapter, where it is MODEL+ADAPTER.

    Raises:
        AdapterError: the engine has no such adapter.
    """
    from llm_serving.engine import MeteredEngine

    adapter = split_adapter(name)[1]
    return engine if adapter is None else MeteredEngine(engine, adapter=adapter)


def model_name(name: str) -> str:
    """The name that a user's words mean: None, as Python writes it, is "none", like NONE."""
    return NO_MODEL if name.lower() == NO_MODEL else name


def configuration(name: str) -> EngineConfig | None:
    """Like `find_config`; None for "none", the engine without a model."""
    return None if model_name(name) == NO_MODEL else find_config(name)


@contextmanager
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


@contextmanager
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


@contextmanager
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
        >>> from llm_planning.model_configs import open_engines
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


@contextmanager
def serve(
    configs: Mapping[tuple[str, ...], EngineConfig | None],
    *,
    cached: bool,
    limits: Mapping[str, object] = MappingProxyType({}),
) -> Iterator[tuple[list[VllmEngine], dict[str, Engine]]]:
    """Opens the models of one run, which share the GPUs, and closes them at the end.

    Args:
        configs: names that one engine serves -> its configuration; None for the engine without a
            model.
        cached: whether answers, vectors and what worlds remember are kept on disk.
        limits: fields of the configurations to replace.

    Yields:
        The engines with a model, beneath the cache of answers, and what each name asks.

    Raises:
        ServingError: a model cannot be fetched or served.
    """
    with ExitStack() as opened:
        opened.enter_context(sharing(on_disk=cached))
        served: list[VllmEngine] = []
        engines: Sequence[Engine]
        if any(configs.values()):
            served, engines = _load(configs.values(), opened, cached=cached, limits=limits)
        else:
            engines = [opened.enter_context(closing(EncoderEngine(cached=cached))) for _ in configs]
        asked = zip(configs, engines, strict=True)
        yield served, {name: adapted(adapter, name) for names, adapter in asked for name in names}


def _load(
    configs: Iterable[EngineConfig | None],
    opened: ExitStack,
    *,
    cached: bool,
    limits: Mapping[str, object],
) -> tuple[list[VllmEngine], list[Engine]]:
    """Loads models with what they share: the engines with a model, and all as they are asked."""
    from llm_serving.cache import CachedEngine
    from llm_serving.encoder import TextEncoder
    from llm_serving.gpu_sharing import share_gpus
    from llm_serving.stores import ResponseCache, response_cache_path
    from llm_serving.vllm_engine import VllmEngine

    answers = (
        opened.enter_context(closing(ResponseCache(response_cache_path()))) if cached else None
    )
    # One for all of them, since it takes memory of the GPU, too.
    encoder = opened.enter_context(closing(TextEncoder(cache="shared" if cached else None)))
    served: list[VllmEngine] = []
    asked: list[Engine] = []
    for place in share_gpus([*configs]):
        if place.config is None:
            asked.append(opened.enter_context(closing(EncoderEngine(encoder))))
            continue
        config = place.config.model_copy(update=limits)
        engine = VllmEngine(config, encoder=encoder, beside=place.beside)
        served.append(opened.enter_context(closing(engine)))
        asked.append(engine if answers is None else CachedEngine(engine, answers))
    return served, asked


def comes_along(model: str) -> bool:
    """Whether this project names a model itself, and no folder has its name."""
    from llm_serving.models import CATALOGUE, names_folder

    return model in CATALOGUE or (model in _configured() and not names_folder(model))


@cache
def _configured() -> frozenset[str]:
    return frozenset(find_config(name).model for name in configured_models())
