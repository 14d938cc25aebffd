"""From the name after `--model` to a configuration of the engine."""

from __future__ import annotations

from pathlib import Path

from llm_serving.config import EngineConfig, load_config
from llm_serving.errors import EngineConfigError

DEFAULT_MODEL = "smollm2-135m-instruct"
_PACKAGE = Path(__file__).resolve().parent


def config_folder() -> Path:
    """Folder of the model configurations: inside an installed package, or beside a checkout's."""
    packaged = _PACKAGE / "configs" / "models"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "configs" / "models"


def configured_models() -> tuple[str, ...]:
    """Names of the configurations that come with this project."""
    return tuple(sorted(path.stem for path in config_folder().glob("*.yaml")))


def find_config(name: str) -> EngineConfig:
    """The configuration that a name means.

    Args:
        name: a YAML file; the name of a configuration of this project; or any model's name,
            which is then served with default settings.

    Raises:
        EngineConfigError: the file is missing or says something impossible.
    """
    path = Path(name)
    if path.suffix in {".yaml", ".yml"}:
        if not path.is_file():
            raise EngineConfigError(
                f"no model configuration {name}; this project's own are "
                f"{', '.join(configured_models())}"
            )
        return load_config(path)
    if name in configured_models():
        return load_config(config_folder() / f"{name}.yaml")
    return EngineConfig(model=name)
