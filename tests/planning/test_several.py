"""Several problems of one run: side by side, each with its verdict, and one trace."""

import asyncio
import time
from functools import cached_property

import pytest

from llm_planning import Outcome, planner
from llm_planning.domain import Domain, DomainError, Step
from llm_planning.roles import Engines, metered
from llm_planning.running import prepare
from llm_planning.settings import NoSettings
from llm_planning.several import MOST_AT_ONCE, Several
from llm_planning.specs import DomainSpec
from llm_planning.trace import recording, tracing
from llm_serving.errors import EngineStoppedError, PromptTooLongError
from llm_serving.request import Message, Request
from llm_serving.scripted import ScriptedEngine


class Numbered(Domain):
    """A world that is its number; the goal is to say it."""

    goal = "Say the number."

    def __init__(self, number):
        self.number = number

    def traits(self):
        return {"problem": str(self.number), "rules": "plain"}

    def start(self, seed):
        return self.number

    def describe(self, state):
        return str(state)

    def actions(self, state):
        return [str(state)]

    def step(self, state, action, rng):
        return Step(state, done=True)


def opened(worlds, *, seconds=None):
    return DomainSpec(
        name="numbered",
        summary="numbers",
        kind=Numbered,
        tasks=("all",),
        settings=NoSettings,
        open=lambda _task, _settings: Several(worlds, seconds=seconds),
    )


@planner("asker", roles=("say",))
async def asker(run):
    """Asks what to say."""
    number = run.world.number
    prompt = (Message("system", "You count."), Message("user", f"What is {number}?"))
    answer = await run.engines.of("say").generate(Request(prompt=prompt, role="say"))
    trace = tracing()
    if trace is not None:
        trace.execution(answer.text, done=True)
    return Outcome(success=True, plan=(answer.text,), metrics={}, trace={}, text="")


def run(worlds, answer, *, seconds=None, delay=None):
    """The outcome of all, the engine, and the events."""

    async def planned():
        engine = ScriptedEngine(answer, delay=delay)
        prepared = prepare(asker, domain=opened(worlds, seconds=seconds), settings={})
        with recording() as trace:
            outcome = await prepared.run(metered(Engines(engine)), 0)
        return outcome, engine, trace.events

    return asyncio.run(planned())


def number_of(request):
    return int(request.prompt[-1].content.removeprefix("What is ")[:-1])


def test_the_questions_of_all_problems_are_in_flight_together():
    in_flight, most = 0, 0

    class Counting(ScriptedEngine):
        async def generate(self, request):
            nonlocal in_flight, most
            in_flight += 1
            most = max(most, in_flight)
            try:
                return await super().generate(request)
            finally:
                in_flight -= 1

    async def planned(size):
        worlds = {f"p{number}": Numbered(number) for number in range(size)}
        # The last answers come first.
        engine = Counting(
            lambda request: str(number_of(request)),
            delay=lambda request: 0.3 - number_of(request) / 1_000,
        )
        prepared = prepare(asker, domain=opened(worlds), settings={})
        return await prepared.run(Engines(engine), 0)

    outcome = asyncio.run(planned(14))
    assert most == 14
    problems = outcome.trace["problems"]
    assert [problem["plan"] for problem in problems.values()] == [
        [str(number)] for number in range(14)
    ]
    assert list(problems) == [f"p{number}" for number in range(14)]
    assert outcome.success
    assert outcome.metrics["rules"] == {"plain": 14}
    most = 0
    assert asyncio.run(planned(2 * MOST_AT_ONCE)).metrics["solved"] == 2 * MOST_AT_ONCE
    assert most == MOST_AT_ONCE


def test_each_problem_has_its_own_verdict():
    def answer(request):
        if number_of(request) == 1:
            raise PromptTooLongError(prompt_tokens=9, answer_tokens=1, context=8)
        return "yes"

    class Refusing(Numbered):
        def traits(self):
            raise DomainError("its rules give up")

    worlds = {
        "fine": Numbered(0),
        "large": Numbered(1),
        "refusing": Refusing(2),
        "bad": DomainError("line 3 is wrong"),
        "slow": Numbered(3),
        "last": Numbered(4),
    }
    outcome, engine, _ = run(
        worlds, answer, seconds=0.2, delay=lambda request: 5 * (number_of(request) == 3)
    )
    problems = outcome.trace["problems"]
    assert {name: problem["failure"] for name, problem in problems.items()} == {
        "fine": None,
        "large": "not planned",
        "refusing": "not planned",
        "bad": "not planned",
        "slow": "out of time",
        "last": None,
    }
    assert problems["bad"]["cause"] == "line 3 is wrong"
    assert problems["refusing"]["cause"] == "its rules give up"
    assert problems["large"]["cause"].startswith("the prompt has 9 tokens")
    assert problems["slow"]["cause"] == "it took over 0.2 s"
    assert problems["slow"]["rules"] == "plain"
    assert outcome.success is False
    assert outcome.metrics["failures"] == {"not planned": 3, "out of time": 1}
    assert outcome.text.splitlines()[3] == "bad: not planned (line 3 is wrong)"
    assert len(engine.requests) == 4


def test_what_a_world_searches_for_takes_no_time_from_the_others():
    class Slow(Numbered):
        def __init__(self, number):
            self.number = number

        @cached_property
        def searched(self):
            time.sleep(2.2)
            return str(self.number)

        def traits(self):
            return {"problem": self.searched}

    worlds = {"one": Numbered(1), "slow": Slow(2), "three": Numbered(3)}
    outcome, _, _ = run(worlds, lambda _: "yes", seconds=2.0, delay=lambda _: 0.1)
    assert outcome.metrics["solved"] == 3


def test_where_no_problem_can_be_planned_the_run_fails():
    with pytest.raises(DomainError, match=r"^one: wrong \(none of 2 problems can be planned\)$"):
        run({"one": DomainError("wrong"), "two": DomainError("also")}, number_of)


def test_an_engine_that_stops_ends_the_run():
    def answer(request):
        if number_of(request) == 1:
            raise EngineStoppedError("the engine died")
        return "yes"

    with pytest.raises(EngineStoppedError, match="the engine died"):
        run({"one": Numbered(1), "two": Numbered(2)}, answer)


def test_a_trace_has_one_problem_after_the_other():
    worlds = {name: Numbered(number) for number, name in enumerate("abc")}
    _, _, events = run(
        worlds,
        lambda request: f"no. {number_of(request)}",
        delay=lambda request: 0.03 - number_of(request) / 100,
    )
    lines = [(event["type"], event.get("name") or event.get("action")) for event in events]
    assert lines == [
        ("problem", "a"),
        ("prompt", None),
        ("role", None),
        ("execution", "no. 0"),
        ("problem", "b"),
        ("role", None),
        ("execution", "no. 1"),
        ("problem", "c"),
        ("role", None),
        ("execution", "no. 2"),
    ]
    (known,) = {event["system"] for event in events if event["type"] == "role"}
    assert known == events[1]["id"]
    # The times are those of the whole run.
    assert all(0 <= event["at"] < 10 for event in events)
    ends = [event["at"] for event in events if event["type"] == "execution"]
    assert ends == sorted(ends, reverse=True)
