"""The engine without a language model, on the real encoder."""

from __future__ import annotations

import numpy as np
import pytest

from llm_serving.encoder_engine import EncoderEngine
from llm_serving.errors import UnsupportedEngineError
from llm_serving.request import Request, Sampling


async def test_it_embeds_counts_and_answers_nothing():
    engine = EncoderEngine()
    vectors = await engine.embed(["iron sword", "golden sword"], role="similarity")
    assert vectors.shape[0] == 2
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert engine.counters.roles["similarity"].calls == 1
    request = Request(prompt="What?", sampling=Sampling(), role="ask")
    for asked in (
        engine.generate(request),
        engine.score("What?", ["yes", "no"]),
        engine.score_labels("What?", ["1", "2"]),
    ):
        with pytest.raises(UnsupportedEngineError, match="'none' answers no questions"):
            await asked
    with pytest.raises(UnsupportedEngineError):
        engine.encode("What?")
    await engine.aclose()
