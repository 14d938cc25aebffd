"""The model configurations that ship with the project."""

from pathlib import Path

import pytest

from llm_serving.config import load_config
from llm_serving.errors import EngineConfigError
from llm_serving.models.catalogue import CATALOGUE, TAUGHT
from llm_serving.models.hub import is_hub_id

FOLDER = Path(__file__).parents[2] / "configs" / "models"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_configuration_is_valid_and_says_how_to_fetch(path):
    config = load_config(path)
    assert config.model.rpartition("/")[2].lower() == path.stem
    text = path.read_text(encoding="utf-8")
    assert f"llm-planning models fetch {config.model}\n" in text
    if config.model in {*CATALOGUE, *TAUGHT}:
        assert (config.context, config.block_size, config.images_per_prompt) == (8192, 32, 0)
    else:
        assert is_hub_id(config.model)
        assert "HF_HUB_OFFLINE=1" in text
        assert (config.images_per_prompt > 0) == ("-VL-" in config.model)


@pytest.mark.parametrize("name", ["none", "None"])
def test_a_configuration_is_of_a_model(tmp_path, name):
    path = tmp_path / "mine.yaml"
    path.write_text(f"model: {name}\n")
    with pytest.raises(EngineConfigError, match=r"mine\.yaml: `model` = .*: .*for no model, give"):
        load_config(path)


@pytest.mark.parametrize("content", [b"model: \xff\xfe", b"[" * 20_000])
def test_a_file_that_is_no_yaml_is_refused(tmp_path, content):
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    with pytest.raises(EngineConfigError, match=r"model configuration .*bad\.yaml") as caught:
        load_config(path)
    assert str(caught.value).isprintable()
