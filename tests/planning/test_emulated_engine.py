"""The engine that benchmarks emulate answers what planners ask, wherever its steps are taken."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from llm_serving.answers import Constraint
from llm_serving.request import Request

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def emulated_engine(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import emulated_engine

    return emulated_engine


@pytest.mark.parametrize("where", ["StepsHere", "StepsApart"])
def test_planners_get_the_recorded_answers_of_their_roles(emulated_engine, where):
    import sweep
    from batching import bare

    cost = emulated_engine.Cost(python=0, releases=1, wait=0, tokens=64)
    steps = partial(getattr(emulated_engine, where), cost)
    with emulated_engine.emulated(steps) as engine:
        arm = sweep.run(engine, sweep.trials()[:4], least=4, most=4)
        many = bare(engine, arm.requests, limit=8)
        answers = [asyncio.run(engine.generate(request)) for request in arm.requests[:12]]
    recorded = emulated_engine.recorded()
    roles = [request.role for request in arm.requests]
    assert {*roles} == {*recorded}
    assert [answer.text for answer in answers] == [recorded[role][0] for role in roles[:12]]
    assert arm.written == sum(len(recorded[role][1]) for role in roles)
    assert many.requests == arm.requests


def test_a_question_without_a_recorded_answer_is_told(emulated_engine):
    steps = partial(emulated_engine.StepsHere, emulated_engine.Cost(python=0, wait=0))
    asked = Request(prompt="Which way?", constraint=Constraint(regex="north", max_bytes=8))
    with (
        emulated_engine.emulated(steps) as engine,
        pytest.raises(LookupError, match="0 recorded answers fit 'north', not one"),
    ):
        asyncio.run(engine.generate(asked))
