"""Trials as coroutines on one engine, and the limit that follows the engine's load."""

import asyncio
import json
import time

import pytest
from catalogues import listed
from loaded_engine import LoadedEngine
from served_models import ONE_OPTION

import llm_planning.experiments.local_pool as pool_module
from llm_planning.experiments.local_pool import BLIND, LocalPool, run_trial
from llm_planning.experiments.trial import Trial
from llm_planning.outcome import Outcome
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.registry import find_planner
from llm_planning.roles import Engines
from llm_planning.specs import planner
from llm_planning.worker_processes import WorkerLostError
from llm_serving.errors import EngineStoppedError
from llm_serving.request import Request
from llm_serving.scripted import ScriptedEngine

SCRIPT = {"decompose": ONE_OPTION}


def cot(seed=0, **changes):
    settings = find_planner("cot").settings.read({"d": 2}).to_json()
    values = {
        "planner": "cot",
        "domain": "minecraft",
        "task": "milk-a-cow",
        "model": "m",
        "seed": seed,
        "settings": settings,
    }
    return Trial(**values | changes)


async def test_a_trial_s_result_is_its_planner_s_and_its_own_usage():
    engine = ScriptedEngine(SCRIPT)
    before = time.time()
    first, second = await asyncio.gather(
        run_trial(cot(0), Engines(engine)), run_trial(cot(1), Engines(engine))
    )
    assert first.trial == cot(0)
    assert (first.status, first.success, first.plan, first.error) == (
        "done",
        False,
        ("mine 3 oak_log",),
        None,
    )
    assert first.metrics["options_planned"] == 1
    (fixed,) = first.prompts["decompose"]
    assert fixed == engine.requests[0].prompt[0].content
    assert first.usage["decompose"].calls == second.usage["decompose"].calls == 1
    assert [step["option"] for step in first.trace["steps"]] == ["mine 3 oak_log"]
    assert [event["type"] for event in first.events] == ["prompt", "role", "execution"]
    assert before <= first.started <= time.time()
    assert 0 < first.seconds < 60


async def test_two_engines_add_up_and_may_depend_on_the_trial():
    engines = {name: LoadedEngine(SCRIPT) for name in ("m", "n")}
    pool = LocalPool(
        lambda trial: Engines(engines[trial.model]), most=2, gauges=tuple(engines.values())
    )
    await asyncio.gather(pool.run(cot()), pool.run(cot(model="n")), pool.run(cot(1, model="n")))
    assert [len(engine.requests) for engine in engines.values()] == [1, 2]
    assert pool.load().written_tokens == sum(engine.written for engine in engines.values()) > 0


async def test_what_cannot_be_planned_is_a_failed_result():
    result = await run_trial(cot(planner="coat"), Engines(ScriptedEngine(SCRIPT)))
    assert result.status == "failed"
    assert result.error.startswith("UnknownNameError: unknown planner 'coat'")
    assert any("Traceback" in line for line in result.trace["raised"])
    json.dumps(result.trace)


async def test_usage_of_a_trial_that_failed_in_the_middle_is_kept():
    def second_fails(request):
        if len(engine.requests) > 1:
            raise ValueError("out of ideas")
        return SCRIPT["decompose"]

    engine = ScriptedEngine(second_fails)
    pool = LocalPool(Engines(engine), most=1)
    assert (await pool.run(cot(0))).usage["decompose"].calls == 1
    failed = await pool.run(cot(1))
    assert failed.error == "ValueError: out of ideas"
    assert failed.usage == {}


@pytest.mark.parametrize("error", [EngineStoppedError("over"), WorkerLostError("gone")])
async def test_the_end_of_an_engine_or_a_worker_is_no_trial_s_failure(error):
    def end(request):
        raise error

    with pytest.raises(type(error)):
        await run_trial(cot(), Engines(ScriptedEngine(end)))


async def test_a_cancel_inside_a_planner_is_its_failure_and_one_of_the_trial_is_not():
    def cancelled(request):
        raise asyncio.CancelledError

    result = await run_trial(cot(), Engines(ScriptedEngine(cancelled)))
    assert result.error.startswith("CancelledError")
    engine = ScriptedEngine(SCRIPT, delay=lambda request: 60)
    running = asyncio.ensure_future(run_trial(cot(), Engines(engine)))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_without_a_load_the_limit_is_fixed():
    engine = ScriptedEngine(SCRIPT)
    assert LocalPool(Engines(engine), most=100).limit == BLIND
    assert LocalPool(Engines(engine), most=3).limit == 3
    assert LocalPool(Engines(engine), most=100, least=40).limit == 40


@planner("asker")
async def ask(run):
    """One question and nothing else, so that the engine is what is waited for."""
    await run.engines.of("decompose").generate(Request(prompt=str(run.seed), role="decompose"))
    return Outcome(success=None, plan=(), metrics={}, trace={}, text="")


async def run_for_a_while(pool, engine, samples):
    """Keeps as many trials in flight as the pool wants."""
    tasks, limits = set(), []
    for _ in range(samples):
        limits.append(pool.limit)
        while len(tasks) < pool.limit:
            asked = {
                "planner": "asker",
                "domain": "multiplication",
                "task": "product",
                "settings": {},
            }
            trial = cot(len(engine.requests), **asked)
            task = asyncio.ensure_future(pool.run(trial))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.sleep(0.005)
    await asyncio.gather(*tasks)
    return limits


async def test_the_limit_fills_the_batch(monkeypatch):
    monkeypatch.setattr(pool_module, "SAMPLE_EVERY", 0.004)
    listed(monkeypatch, PLANNERS, "asker", ask)
    engine = LoadedEngine(SCRIPT, delay=lambda request: 0.02)
    pool = LocalPool(Engines(engine), most=100, gauges=(engine,))
    limits = await run_for_a_while(pool, engine, 60)
    assert limits[0] == 4
    # About as many as the engine takes; on a busy machine some more wait, but never all of them.
    assert 7 <= limits[-1] <= 30
    assert pool.load().running == 0


async def test_a_preemption_lowers_the_limit(monkeypatch):
    monkeypatch.setattr(pool_module, "SAMPLE_EVERY", 0.0)
    engine = LoadedEngine(SCRIPT, delay=lambda request: 0.02)
    pool = LocalPool(Engines(engine), most=100, gauges=(engine,))
    before = pool.limit
    engine.preempted = 1
    assert pool.limit == before - 1
    assert pool.load().preempted == 1


async def test_counts_begin_with_the_pool():
    engine = LoadedEngine(SCRIPT)
    await run_trial(cot(), Engines(engine))
    pool = LocalPool(Engines(engine), most=1, gauges=(engine,))
    assert pool.load().written_tokens == 0
    await pool.run(cot(1))
    assert pool.load().written_tokens == engine.written / 2 > 0
