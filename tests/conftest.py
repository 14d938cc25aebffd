"""What tests share: an engine and an encoder on bundled models, opened when first asked for."""

import os
import signal
from collections import Counter

import pytest
import pytest_asyncio

from llm_serving.config import EngineConfig
from llm_serving.encoder import TextEncoder
from llm_serving.vllm_arguments import SHARE_VARIABLE
from llm_serving.vllm_engine import VllmEngine

# On a GPU several engines are open at once, here and in the processes that tests start.
os.environ.setdefault(SHARE_VARIABLE, "0.15")

# vLLM imports Ray, which reads only then what tests of a Ray of their own want of it.
os.environ.update({"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"})

# A shell's background jobs ignore Ctrl-C, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

MARKED = {"local_ray": "ray", "drive": "ray", "observed": "slow"}
"""Fixture that takes long to make -> marker of the tests that use it."""


LONG = ("slow", "ray", "kills", "browser")
"""Markers of tests that take long."""


def pytest_collection_modifyitems(items):
    """Marks tests by what they need, and puts files with many long ones first.

    Processes that test side by side take whole files: who took a long one last would end alone.
    """
    long = Counter()
    for item in items:
        for name in item.fixturenames:
            if name in MARKED:
                item.add_marker(MARKED[name])
        long[item.path] += any(map(item.get_closest_marker, LONG))
    items.sort(key=lambda item: -long[item.path])


@pytest_asyncio.fixture(scope="session")
async def engine():
    """The real engine, without a response cache; float32, so that batch shapes tip no tie."""
    opened = VllmEngine(
        EngineConfig(model="smollm2-135m-instruct", dtype="float32", context=4096, kv_cache_gib=1)
    )
    yield opened
    await opened.aclose()


@pytest.fixture(scope="session")
def text_encoder(tmp_path_factory):
    """The real encoder, with a vector cache of its own."""
    opened = TextEncoder(cache=tmp_path_factory.mktemp("encoder") / "vectors.sqlite")
    yield opened
    opened.close()
