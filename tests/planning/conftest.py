"""The Ray of this machine that the tests of a module share."""

import contextlib

import pytest
from planted import plant, ran


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The working directory of the Ray of these tests."""
    return plant(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def local_ray(hostile):
    """One Ray for all tests of a module; pools use the connection that they find."""
    from ray_pools import ray_folder, told_ray

    from llm_planning.experiments.ray_cluster import connect

    before = told_ray()
    with contextlib.chdir(hostile):
        cluster = connect(None, cpus=2)
    folder = ray_folder()
    yield cluster
    cluster.close()
    assert not folder.exists()
    assert ran(hostile) == []
    assert told_ray() == before
