import asyncio
import time
from dataclasses import dataclass
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from llm_planning.roles import Engines, LlmRole, Prompt, PromptError, gather, metered, usage_by_role
from llm_planning.roles.llm import compiled, parsed
from llm_serving.errors import AnswerModelError
from llm_serving.request import Message, Sampling
from llm_serving.scripted import ScriptedEngine

SOURCE = """{% block role %}
You choose {{ count }}.
{%- endblock %}
{% block rules %}
Be brief.
{%- endblock %}
{% block goal %}
Goal: {{ goal }}
{%- endblock %}
{% block option %}
Option: {{ option }}
{%- endblock %}"""


@dataclass(frozen=True)
class Question:
    goal: str
    option: str
    asking: int = 0


class Verdict(BaseModel):
    choice: Literal["yes", "no"]
    certainty: int = Field(ge=0, le=9)


class Endless(BaseModel):
    text: str


def a_prompt(system=("role", "rules"), user=("goal", "option"), constants=None):
    return Prompt([SOURCE], system=system, user=user, constants=constants or {"count": 2})


def a_role(engine, **changes):
    settings = {
        "prompt": a_prompt(),
        "answer": Verdict,
        "engine": engine,
        "sampling": Sampling(temperature=0.2, seed=7),
    } | changes
    return LlmRole("judge", **settings)


def test_prompt_orders_its_blocks():
    system, user = a_prompt().messages({"goal": "win", "option": "wait"})
    assert system == Message("system", "You choose 2.\n\nBe brief.")
    assert user == Message("user", "Goal: win\n\nOption: wait")
    system, user = a_prompt(("role",), ("option", "goal", "rules")).messages(
        {"goal": "win", "option": "wait"}
    )
    assert system == Message("system", "You choose 2.")
    assert user == Message("user", "Option: wait\n\nGoal: win\n\nBe brief.")


def test_later_source_replaces_a_block():
    later = "{% block goal %}Aim: {{ goal }}{% endblock %}"
    prompt = Prompt([SOURCE, later], system=("rules",), user=("goal",), constants={})
    assert prompt.messages({"goal": "win"})[1].content == "Aim: win"


def test_prompts_of_the_same_texts_are_compiled_once_and_keep_their_own_constants():
    given = {"goal": "win", "option": "wait"}
    compiled.cache_clear()
    two = a_prompt().messages(given)
    three = a_prompt(constants={"count": 3}).messages(given)
    assert compiled.cache_info().misses == len(two)
    assert two[0] == Message("system", "You choose 2.\n\nBe brief.")
    assert three[0] == Message("system", "You choose 3.\n\nBe brief.")
    assert two[1] == three[1] == Message("user", "Goal: win\n\nOption: wait")


def test_prompt_does_not_escape_or_evaluate_what_it_is_given():
    user = a_prompt().messages({"goal": "<b> & {{ option }}", "option": "x"})[1]
    assert user.content == "Goal: <b> & {{ option }}\n\nOption: x"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: a_prompt().messages({"goal": "win"}), "'option' is undefined"),
        (lambda: a_prompt(user=("history",)), "no source has a block 'history'; there are .*goal"),
        (lambda: a_prompt(constants={"other": 1}), "'count' is undefined"),
        (lambda: Prompt(["{% block %}"], system=(), user=(), constants={}), "not valid"),
    ],
)
def test_a_prompt_that_misses_something(make, message):
    with pytest.raises(PromptError, match=message):
        make()


YES = '{"choice":"yes","certainty":8}'


async def test_role_asks_and_parses():
    engine = ScriptedEngine({"judge": YES})
    answer = await a_role(engine)(Question("win", "wait"))
    assert answer == Verdict(choice="yes", certainty=8)
    (request,) = engine.requests
    assert request.role == "judge"
    assert request.sampling == Sampling(temperature=0.2, seed=7)
    assert [message.role for message in request.prompt] == ["system", "user"]
    assert request.prompt[1].content == "Goal: win\n\nOption: wait"
    assert request.constraint.max_tokens >= len(YES)


async def test_role_tells_what_it_is_told_to():
    engine = ScriptedEngine({"judge": YES})
    role = a_role(engine, values_of=lambda pair: {"goal": pair[0], "option": pair[1].upper()})
    await role(("win", "wait"))
    assert engine.requests[0].prompt[1].content == "Goal: win\n\nOption: WAIT"
    with pytest.raises(TypeError, match="tuple is not a dataclass: give the role `values_of`"):
        await a_role(engine)(("win", "wait"))


async def test_sampling_may_follow_from_the_question():
    engine = ScriptedEngine({"judge": YES})
    role = a_role(engine, sampling=lambda question: Sampling(temperature=1.0, seed=question.asking))
    for asking in (3, 4):
        await role(Question("win", "wait", asking))
    assert [request.sampling.seed for request in engine.requests] == [3, 4]


async def test_answers_are_read_as_values_of_the_domain():
    role = a_role(ScriptedEngine({"judge": YES})).read(
        lambda question, verdict: (question.option, verdict.choice == "yes")
    )
    assert await role(Question("win", "wait")) == ("wait", True)


def test_role_refuses_an_answer_without_bounds():
    with pytest.raises(AnswerModelError):
        a_role(ScriptedEngine({}), answer=Endless)


async def test_role_costs_little():
    """What does not change is made once: a tenth of what a role of new words costs."""
    engine = ScriptedEngine({"judge": YES})
    role = a_role(engine)
    question = Question("win", "wait")

    async def cpu_of(ask, calls):
        start = time.process_time()
        for _ in range(calls):
            await ask()
        return (time.process_time() - start) / calls

    async def anew():
        compiled.cache_clear()
        parsed.cache_clear()
        await a_role(engine)(question)

    await role(question)
    assert await cpu_of(lambda: role(question), 200) < await cpu_of(anew, 20) / 10


async def test_gathered_answers_are_in_the_order_of_the_questions():
    async def after(seconds, value):
        await asyncio.sleep(seconds)
        return value

    assert await gather([after(0.02, "a"), after(0.0, "b"), after(0.01, "c")]) == ["a", "b", "c"]
    assert await gather([]) == []


async def test_gathering_ends_everything_at_the_first_error():
    ended = []

    async def endless():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    async def fails():
        await asyncio.sleep(0)
        raise LookupError("no answer")

    with pytest.raises(LookupError, match="no answer"):
        await gather([endless(), fails(), endless()])
    assert ended == [True, True]


async def test_each_role_may_have_an_engine_of_its_own():
    first, second = ScriptedEngine({"judge": YES}), ScriptedEngine({"other": YES})
    engines = Engines(first, {"other": second, "third": first})
    assert engines.of("other") is second
    assert engines.of("judge") is engines.of("third") is first
    assert engines.different == (first, second)


async def test_usage_is_counted_by_role_over_all_engines():
    both = Engines(ScriptedEngine({"judge": YES}), {"other": ScriptedEngine({"other": YES})})
    mine, yours = metered(both), metered(both)
    for name in ("judge", "other", "other"):
        await LlmRole(
            name,
            prompt=a_prompt(),
            answer=Verdict,
            engine=mine.of(name),
            sampling=Sampling(temperature=0.0),
        )(Question("win", "wait"))
    calls = {role: spent.calls for role, spent in usage_by_role(mine).items()}
    assert calls == {"judge": 1, "other": 2}
    assert usage_by_role(yours) == {}
