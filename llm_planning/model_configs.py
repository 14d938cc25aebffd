"""From the name after `--model` to a configuration, and from that to an engine.

This module imports little: configurations and engines are imported inside the functions.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from llm_kernels.files import at_home
from llm_serving.errors import EngineConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from llm_serving.config import EngineConfig
    from llm_serving.encoder import TextEncoder
    from llm_serving.encoder_engine import EncoderEngine
    from llm_serving.engine import Engine
    from llm_serving.vllm_engine import VllmEngine

DEFAULT_MODEL = "smollm2-135m-instruct"
_PACKAGE = Path(__file__).resolve().parent


def config_folder() -> Path:
    """Folder of the model configurations: in an installed package, or beside it in a checkout."""
    packaged = _PACKAGE / "configs" / "models"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "configs" / "models"


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
    from llm_serving.config import EngineConfig, load_config

    name, adapter = split_adapter(name)
    if adapter is not None:
        return with_adapters(find_config(name), [adapter])
    path = Path(name)
    if path.suffix in {".yaml", ".yml"}:
        if not os.path.isfile(path):
            raise EngineConfigError(
                f"no model configuration {name}; this project's own are "
                f"{', '.join(configured_models())}"
            )
        return load_config(path)
    if name in configured_models():
        return load_config(config_folder() / f"{name}.yaml")
    return EngineConfig(model=name)


def split_adapter(name: str) -> tuple[str, str | None]:
    """The model and the adapter of a name such as MODEL+ADAPTER; None for a model alone."""
    model, plus, adapter = name.rpartition("+")
    if not (model and plus and adapter) or os.path.exists(at_home(name)):
        return name, None
    return model, adapter


def with_adapters(config: EngineConfig, adapters: Iterable[str]) -> EngineConfig:
    """A model's configuration with just these adapters.

    Args:
        config: of the model.
        adapters: each a name in the configuration, a folder, or a bundled model that is made of an
            adapter.

    Raises:
        AdapterError: there is no such adapter.
    """
    said = config.model_dump(exclude={"adapters_sha256"})
    said["adapters"] = {name: config.adapters.get(name, name) for name in adapters}
    return type(config).model_validate(said)


def served_together(names: Iterable[str]) -> list[tuple[str, ...]]:
    """The names of models in groups that one engine serves each.

    A GPU serves a model and all of its adapters at once; on a CPU every name has its own engine.
    """
    distinct = list(dict.fromkeys(names))
    if all(split_adapter(name)[1] is None for name in distinct):
        return [(name,) for name in distinct]
    from llm_serving.vllm_adapter import on_gpu

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
    from llm_serving.engine import AdaptedEngine

    adapter = split_adapter(name)[1]
    return engine if adapter is None else AdaptedEngine(engine, adapter)


def configuration(name: str) -> EngineConfig | None:
    """Like `find_config`; None for "none", the engine without a model."""
    from llm_serving.encoder_engine import NO_MODEL

    return None if name == NO_MODEL else find_config(name)


@contextmanager
def serve(
    config: EngineConfig | None, encoder: TextEncoder | None, *, limits: Mapping[str, object]
) -> Iterator[VllmEngine | EncoderEngine]:
    """Opens one model, and closes it at the end.

    Args:
        config: of the model; None for the engine without a model.
        encoder: an encoder whose vectors are cached; None gives the engine its own.
        limits: fields of the configuration to replace.

    Raises:
        ServingError: the model cannot be fetched or served.
    """
    if config is None:
        from llm_serving.encoder_engine import EncoderEngine

        with closing(EncoderEngine(encoder)) as lone:
            yield lone
        return
    from llm_serving.vllm_engine import VllmEngine

    with closing(VllmEngine(config.model_copy(update=limits), encoder=encoder)) as engine:
        yield engine
