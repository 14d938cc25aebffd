"""What tests share: one engine on the bundled model, started when the first test asks for it."""

import pytest_asyncio

from llm_serving.config import EngineConfig
from llm_serving.vllm_engine import VllmEngine


@pytest_asyncio.fixture(scope="session")
async def engine():
    """The real engine, without a response cache; float32, so that batch shapes tip no tie."""
    opened = VllmEngine(
        EngineConfig(model="smollm2-135m-instruct", dtype="float32", context=4096, kv_cache_gib=1)
    )
    yield opened
    await opened.aclose()
