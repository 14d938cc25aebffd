"""`llm-planning models` on a cache of its own; nothing is downloaded."""

import json

import pytest
from command_line import invoke, refused

from llm_serving.models import CATALOGUE, bundled_folder
from llm_serving.models.folders import publish

NAME = "all-minilm-l6-v2"


@pytest.fixture
def models_cache(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(cache))
    return cache


@pytest.fixture
def fetched_model(models_cache):
    folder = bundled_folder(CATALOGUE[NAME], cache=models_cache)
    built = models_cache / "built"
    built.mkdir(parents=True)
    (built / "config.json").write_text("{}")
    folder.parent.mkdir()
    publish(built, folder, revision=CATALOGUE[NAME].revision)
    return folder


def invoke_models(*arguments):
    result = invoke("models", *arguments)
    return result.exit_code, result.stdout, result.stderr


def test_list_says_what_is_fetched(models_cache, fetched_model):
    code, out, _ = invoke_models("list", "--json")
    listed = json.loads(out.splitlines()[-1])
    assert code == 0
    assert listed["cache"] == str(models_cache)
    assert {row["name"]: row["path"] for row in listed["models"]} == {
        **dict.fromkeys(CATALOGUE),
        NAME: str(fetched_model),
    }
    code, out, _ = invoke_models("list")
    assert code == 0
    fetched = [line.split()[-2] for line in out.splitlines() if " MB " in line]
    assert fetched == ["yes" if name == NAME else "no" for name in CATALOGUE]


@pytest.mark.parametrize("arguments", [["path"], ["fetch"], ["fetch", "--verify"]])
def test_path_and_fetch_print_the_folder(fetched_model, arguments):
    code, out, _ = invoke_models(*arguments, NAME)
    assert code == 0
    assert out.split()[-1] == str(fetched_model)
    code, out, _ = invoke_models(*arguments, NAME, "--json")
    printed = json.loads(out.splitlines()[-1])
    assert code == 0
    assert (printed["name"], printed["path"]) == (NAME, str(fetched_model))
    assert printed["revision"] == CATALOGUE[NAME].revision


def test_path_fetches_nothing(models_cache):
    assert f"llm-planning models fetch {NAME}" in refused("models", "path", NAME, code=1)
    assert not models_cache.exists()


@pytest.mark.parametrize("command", ["path", "fetch"])
def test_unknown_model_exits_with_1(command):
    assert f"did you mean {NAME}?" in refused("models", command, "all-minilm", code=1)
