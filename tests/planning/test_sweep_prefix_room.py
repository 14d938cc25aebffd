"""Trials in turn, so that the prefix cache holds what each asked before."""

import asyncio

import pytest
from catalogues import listed
from loaded_engine import LoadedEngine
from test_sweep_local_pool import cot

from llm_planning.experiments.local_pool import LocalPool
from llm_planning.experiments.prefix_room import HELD, PrefixRoom
from llm_planning.outcome import Outcome
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.roles import Engines
from llm_planning.specs import planner
from llm_serving.request import Request, ScoreRequest
from llm_serving.scripted import ScriptedEngine

LONG = "x" * 40  # of a prompt: 40 tokens of a scripted engine


def room_of(tokens):
    """Room for exactly so many tokens of prompts."""
    return PrefixRoom(round(tokens / HELD))


async def asked(engines, prompt=LONG):
    await engines.default.generate(Request(prompt=prompt))


async def settled(task):
    """Whether a task ends without any other one's help."""
    for _ in range(20):
        await asyncio.sleep(0)
    return task.done()


async def test_the_first_trial_asks_whatever_it_holds():
    async with room_of(10).trial(Engines(ScriptedEngine(lambda _: "yes"))) as engines:
        await asked(engines)


async def test_a_later_one_waits_for_the_end_of_an_earlier_one():
    room, engines = room_of(100), Engines(ScriptedEngine(lambda _: "yes"))
    async with room.trial(engines) as first, room.trial(engines) as second:
        await asked(first)
        await asked(second)
        async with room.trial(engines) as third:
            waits = asyncio.ensure_future(asked(third))
            assert not await settled(waits)
            assert room.waiting == 1
            await asked(second)  # who began earlier goes on meanwhile
            assert not await settled(waits)
            await asked(second, prompt="short")  # and makes room by asking for less
            assert await settled(waits)
    assert room.waiting == 0


async def test_the_end_of_a_trial_lets_the_next_one_on():
    room, engines = room_of(40), Engines(ScriptedEngine(lambda _: "yes"))
    first = room.trial(engines)
    await asked(await first.__aenter__())
    async with room.trial(engines) as second:
        waits = asyncio.ensure_future(asked(second))
        assert not await settled(waits)
        await first.__aexit__(None, None, None)
        assert await settled(waits)


async def test_scores_wait_as_answers_do():
    room, engines = room_of(40), Engines(ScriptedEngine(lambda _: "yes"))
    async with room.trial(engines) as first, room.trial(engines) as second:
        await asked(first)
        scores = second.default.score(ScoreRequest(prompt=LONG, choices=("a", "b")))
        waits = asyncio.ensure_future(scores)
        assert not await settled(waits)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
    assert room.waiting == 0


async def test_an_engine_of_several_roles_is_wrapped_once():
    engine, other = ScriptedEngine(lambda _: "yes"), ScriptedEngine(lambda _: "no")
    async with room_of(40).trial(Engines(engine, {"a": other, "b": other, "c": engine})) as asking:
        assert asking.of("a") is asking.of("b") is not asking.default
        assert asking.of("c") is asking.default


@planner("talker")
async def talk(run):
    """Three questions, each of which begins with all that was asked before."""
    for turn in range(1, 4):
        await run.engines.of("decompose").generate(Request(prompt=turn * LONG, role="decompose"))
    return Outcome(success=None, plan=(), metrics={}, trace={}, text="")


async def test_a_pool_adds_no_trial_while_one_waits_and_all_of_them_end(monkeypatch):
    listed(monkeypatch, PLANNERS, "talker", talk)
    engine = LoadedEngine({"decompose": "yes"}, delay=lambda request: 0.01)
    engine.cache_tokens = round(250 / HELD)  # two trials of 120 tokens, and not three
    pool = LocalPool(Engines(engine), most=100, gauges=(engine,))
    world = {"planner": "talker", "domain": "multiplication", "task": "product", "settings": {}}
    running = [asyncio.ensure_future(pool.run(cot(seed, **world))) for seed in range(4)]
    limits = []
    while not all(task.done() for task in running):
        limits.append(pool.limit)
        await asyncio.sleep(0.002)
    results = [task.result() for task in running]
    assert [result.status for result in results] == ["done"] * 4
    assert min(limits) <= 3
    # The first two never wait, and the others are through only after them.
    last = {seed: result.started + result.seconds for seed, result in enumerate(results)}
    assert max(last[0], last[1]) < min(last[2], last[3])
    assert pool.limit > 3
