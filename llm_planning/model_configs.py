"""From the name after `--model` to a configuration, and from that to an engine.

This module imports little: configurations and engines are imported inside the functions.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from llm_serving.errors import EngineConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from llm_serving.config import EngineConfig
    from llm_serving.encoder import TextEncoder
    from llm_serving.encoder_engine import EncoderEngine
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
            gets the default settings.

    Raises:
        EngineConfigError: the file is missing or says something impossible.
    """
    from llm_serving.config import EngineConfig, load_config

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
