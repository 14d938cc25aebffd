"""Trials in turn, so that the prefix cache keeps what each asks again."""

import asyncio
from contextlib import ExitStack

import pytest
from catalogues import listed
from loaded_engine import LoadedEngine
from test_sweep_local_pool import cot

from llm_planning.experiments.local_pool import START, LocalPool
from llm_planning.experiments.prefix_room import HELD, PrefixRoom, common
from llm_planning.outcome import Outcome
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.roles import Engines
from llm_planning.specs import planner
from llm_serving.request import Request, ScoreRequest
from llm_serving.scripted import ScriptedEngine

LONG = "x" * 40  # 40 tokens of a scripted engine


def room_of(tokens):
    """Room for exactly so many tokens."""
    return PrefixRoom(round(tokens / HELD))


def engines_of(answer="yes"):
    return Engines(ScriptedEngine(lambda _: answer))


async def asked(engines, prompt, role="r"):
    await engines.default.generate(Request(prompt=prompt, role=role))


async def goes_on(task):
    """Whether a task ends without any other one's help."""
    for _ in range(20):
        await asyncio.sleep(0)
    return task.done()


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [((), (1,), 0), ((1, 2, 3), (1, 2, 3, 4), 3), ((1, 2, 3), (1, 9, 3), 1), ((9,), (1,), 0)],
)
def test_a_common_beginning(one, other, length):
    assert common(one, other) == common(other, one) == length


def test_a_common_beginning_of_any_length():
    for length in range(40):
        assert common((*range(length), -1, 5), (*range(length), -2, 5)) == length


async def test_the_oldest_trial_never_waits():
    with room_of(10).trial(engines_of()) as engines:
        for turn in range(3):
            await asked(engines, turn * LONG)


async def test_a_later_one_waits_for_an_earlier_one():
    room, engines = room_of(100), engines_of()
    with room.trial(engines) as first, room.trial(engines) as second:
        for turn in (1, 2, 3):
            await asked(first, "a" + turn * LONG)  # at last holds 81
        await asked(second, "b" + LONG)
        for cancel in (True, False):  # who was cancelled asks anew
            waits = asyncio.ensure_future(asked(second, "b" + 2 * LONG))
            assert not await goes_on(waits)
            assert room.waiting == 1
            if cancel:
                waits.cancel()
                assert await goes_on(waits)
                assert room.waiting == 0
        await asked(first, "a" + 3 * LONG)  # who began earlier goes on meanwhile
        assert not await goes_on(waits)
        await asked(first, "other")  # and makes room where it asks for something else
        assert await goes_on(waits)


async def test_a_question_that_outlives_its_trial_is_answered():
    room, engines = room_of(60), engines_of()
    with room.trial(engines) as first:
        for turn in (1, 2):
            await asked(first, "a" + turn * LONG)
        with room.trial(engines) as second:
            await asked(second, "b" + LONG)
            waits = asyncio.ensure_future(asked(second, "b" + 2 * LONG))
            assert not await goes_on(waits)
        assert await goes_on(waits)
        await waits
        await asked(second, "b" + 3 * LONG)
        with room.trial(engines) as third:  # for which nothing of the second is held
            await asked(third, "c")


async def test_the_end_of_a_trial_lets_the_next_one_on():
    room, engines = room_of(60), engines_of()
    with ExitStack() as earlier:
        first = earlier.enter_context(room.trial(engines))
        with room.trial(engines) as second:
            for turn in (1, 2):
                await asked(first, "a" + turn * LONG)
            await asked(second, "b" + LONG)
            waits = asyncio.ensure_future(asked(second, "b" + 2 * LONG))
            assert not await goes_on(waits)
            assert room.waiting == 1
            earlier.close()
            assert await goes_on(waits)


async def test_what_all_trials_ask_is_counted_once_and_what_is_asked_once_not_at_all():
    room, engines = room_of(60), engines_of()
    with room.trial(engines) as first, room.trial(engines) as second:
        for trial in (first, second):
            for question in "abc":
                await asked(trial, LONG + question)
        await asked(second, "z" + 9 * LONG)
    assert room.waiting == 0


async def test_each_role_goes_on_from_its_own_last_prompt():
    room, engines = room_of(60), engines_of()
    with room.trial(engines) as first, room.trial(engines) as second:
        for turn in (1, 2):
            await asked(first, "a" + turn * LONG)
        await asked(second, "b" + LONG, role="one")
        await asked(second, "b" + 2 * LONG, role="two")
        waits = asyncio.ensure_future(asked(second, "b" + 2 * LONG, role="one"))
        assert not await goes_on(waits)
        waits.cancel()


async def test_scores_wait_as_answers_do():
    room, engines = room_of(60), engines_of()
    with room.trial(engines) as first, room.trial(engines) as second:
        for turn in (1, 2):
            await asked(first, "a" + turn * LONG)
        await asked(second, "b" + LONG)
        request = ScoreRequest(prompt="b" + 2 * LONG, role="r", choices=("a", "b"))
        waits = asyncio.ensure_future(second.default.score(request))
        assert not await goes_on(waits)
        waits.cancel()
        assert await goes_on(waits)
        assert room.waiting == 0


async def test_an_engine_of_several_roles_is_wrapped_once():
    engine, other = engines_of().default, engines_of("no").default
    with room_of(40).trial(Engines(engine, {"a": other, "b": other, "c": engine})) as asking:
        assert asking.of("a") is asking.of("b") is not asking.default
        assert asking.of("c") is asking.default


@planner("talker")
async def talk(run):
    """Three questions, each of which begins with all that was asked before."""
    for turn in range(1, 4):
        prompt = f"{run.seed}{turn * LONG}"
        await run.engines.of("decompose").generate(Request(prompt=prompt, role="decompose"))
    return Outcome(success=None, plan=(), metrics={}, trace={}, text="")


async def until(condition):
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it does not come to that")


class StoppingEngine(LoadedEngine):
    """Answers the third question of trial 0 when it may."""

    def __init__(self, script):
        super().__init__(script)
        self.may = asyncio.Event()

    async def generate(self, request):
        if request.prompt == f"0{3 * LONG}":
            await self.may.wait()
        return await super().generate(request)


async def test_a_pool_adds_no_trial_while_one_waits(monkeypatch):
    listed(monkeypatch, PLANNERS, "talker", talk)
    engine = StoppingEngine({"decompose": "yes"})
    engine.cache_tokens = round(100 / HELD)  # trial 0 holds 81 of them, trial 1 wants 41
    pool = LocalPool(Engines(engine), most=100, gauges=(engine,))
    assert pool.limit == START
    world = {"planner": "talker", "domain": "multiplication", "task": "product", "settings": {}}
    first = asyncio.ensure_future(pool.run(cot(0, **world)))
    await until(lambda: len(engine.requests) == 2)
    second = asyncio.ensure_future(pool.run(cot(1, **world)))
    await until(lambda: pool.limit < START)
    assert pool.limit == 2
    assert [request.prompt[0] for request in engine.requests] == ["0", "0", "1"]
    engine.may.set()
    results = await asyncio.gather(first, second)
    assert [result.status for result in results] == ["done", "done"]
    assert [request.prompt[0] for request in engine.requests][3] == "0"
    assert len(engine.requests) == 6
    assert pool.limit == START
