"""What tests share: a reader of sweep files, a tiny model, and a module's Ray of this machine."""

import contextlib
import sys
import textwrap
from pathlib import Path

import pytest
from hostile.own_modules import forgotten
from planted import plant, ran

from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.sweep_files import Trust

HUB = Trust.of(["some/model", "other/model", "one/model", "my/model"])


@pytest.fixture(autouse=True)
def _forgotten_code():
    """Users' files of one test are none of the next, whatever they are called."""
    with forgotten():
        yield


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The working directory of the Ray of these tests."""
    return plant(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def local_ray(hostile):
    """One Ray for all tests of a module; pools use the connection that they find."""
    from ray_pools import ray_folder, ray_variables

    from llm_planning.experiments.ray_cluster import connect

    before = ray_variables()
    with contextlib.chdir(hostile):
        cluster = connect(None, cpus=2)
    folder = ray_folder()
    yield cluster
    cluster.close()
    assert not folder.exists()
    assert ran(hostile) == []
    assert ray_variables() == before


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The folder of a tiny random model."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "serving" / "runners"))
    from tiny_llama import build

    folder = tmp_path_factory.mktemp("tiny") / "model"
    build(folder)
    return str(folder)


@pytest.fixture
def load(tmp_path):
    """Writes files, the last of which is loaded."""

    def write_and_load(**files):
        for stem, text in files.items():
            path = tmp_path / f"{stem}.yaml"
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return load_sweep(path, trust=HUB)

    return write_and_load
