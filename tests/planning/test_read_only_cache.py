"""Commands whose cache folder cannot be written: what needs no cache works."""

import json
import subprocess
import sys

import pytest
from importing import importing

from llm_serving.models import resolve

COMMAND = (
    "from hostile.privileges import respect_permissions; assert respect_permissions(); "
    "from llm_planning.cli import main; main()"
)


@pytest.fixture(params=["unwritable", "missing in one", "a file"])
def folder(tmp_path, request):
    cache = tmp_path / "cache"
    if request.param == "a file":
        cache.write_text("in the way")
    else:
        cache.mkdir(mode=0o555)
    yield cache / "below" if request.param == "missing in one" else cache
    if cache.is_dir():
        cache.chmod(0o755)
        assert not list(cache.iterdir())


def called(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        env=importing() | {"LLM_PLANNING_CACHE": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


WALK = ("run", "walkthrough", "--task=trap-door", "--model=none", "--json")


def test_a_game_is_played_with_one_warning(folder):
    pytest.importorskip("jericho")
    done = called(folder, *(word.replace("trap-door", "gull-rock") for word in WALK))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["success"] is True
    assert len(done.stderr.splitlines()) == 1
    assert "nothing is added to the caches" in done.stderr


@pytest.mark.parametrize("folder", ["unwritable"], indirect=True)
def test_without_caches_nothing_is_said(folder):
    done = called(folder, *WALK)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["score"] == 100
    assert done.stderr == ""


@pytest.mark.slow
def test_a_game_that_must_be_made_is_made_elsewhere(folder):
    pytest.importorskip("textworld")
    if folder.name == "below":
        pytest.skip("as the folder above it")
    done = called(folder, *(word.replace("trap-door", "custom") for word in WALK), "--no-cache")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["success"] is True
    (line,) = done.stderr.splitlines()
    assert line.startswith("note: custom-5-1 is made for this process alone")


@pytest.mark.slow
def test_a_model_that_is_there_is_used(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "models").symlink_to(resolve("all-minilm-l6-v2").path.parent)
    (tmp_path / "texts.txt").write_text("one\ntwo\n")
    cache.chmod(0o555)
    built = called(cache, "index", "build", str(tmp_path / "texts.txt"), f"--out={tmp_path}/index")
    assert built.returncode == 0, built.stderr
    assert "nothing is added to the caches" in built.stderr
    ended = called(cache, "index", "search", str(tmp_path / "index"), "one", "--no-cache")
    cache.chmod(0o755)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [path.name for path in cache.iterdir()] == ["models"]
