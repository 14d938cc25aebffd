import time
from dataclasses import dataclass

import pytest

from llm_serving.engine import draw
from llm_serving.errors import EngineStoppedError
from llm_serving.request import EncodedPrompt, Image, Message, Request, ScoreRequest
from llm_serving.scripted import ScriptedEngine, ScriptError

CHAT = (
    Message("system", "Be brief."),
    Message("user", "Où ?", (Image(b"one"), Image(b"two"))),
    Message("assistant", "Là."),
)


@dataclass(frozen=True)
class Words:
    regex: str
    max_tokens: int = 8


async def test_tokens_are_bytes_and_a_terminator():
    engine = ScriptedEngine(lambda request: f"{request.role}!")
    request = Request(prompt="héllo", role="propose")
    answer = await engine.generate(request)
    assert (answer.text, answer.finish) == ("propose!", "stop")
    assert answer.token_ids == (*b"propose!", 256)
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (6, 9)
    assert answer.usage.calls == 1
    assert engine.requests == [request]


async def test_each_role_has_a_voice_of_its_own():
    engine = ScriptedEngine(
        {
            "propose": ["mine 1 log", "craft 4 planks"],
            "done": "no",
            "echo": lambda request: request.prompt.upper(),
        }
    )

    async def say(role):
        return (await engine.generate(Request(prompt="abc", role=role))).text

    assert [await say("propose"), await say("done"), await say("echo")] == [
        "mine 1 log",
        "no",
        "ABC",
    ]
    assert [await say("propose"), await say("done")] == ["craft 4 planks", "no"]
    with pytest.raises(ScriptError, match="'propose' are used up"):
        await say("propose")
    with pytest.raises(ScriptError, match="no role 'score', only propose, done, echo"):
        await say("score")


async def test_answers_in_a_row_go_out_in_the_order_of_asking():
    delays = iter([0.03, 0.02, 0.01])
    engine = ScriptedEngine({"default": list("012")}, delay=lambda _: next(delays))
    answers = await draw(engine, Request(prompt="x"), 3)
    assert [answer.text for answer in answers] == ["0", "1", "2"]
    assert [request.sample for request in engine.requests] == [0, 1, 2]


async def test_an_answer_outside_its_constraint_is_an_error():
    engine = ScriptedEngine(lambda _: "yes.")
    constraint = Words("yes|no")
    with pytest.raises(ScriptError, match=r"'yes\.' to role 'done'.*'yes\|no'"):
        await engine.generate(Request(prompt="x", constraint=constraint, role="done"))
    good = ScriptedEngine(lambda _: "no")
    assert (await good.generate(Request(prompt="x", constraint=constraint))).text == "no"


def test_encode_can_be_read_back():
    engine = ScriptedEngine(lambda _: "")
    encoded = engine.encode(CHAT)
    assert encoded.images == (Image(b"one"), Image(b"two"))
    assert engine.encode(encoded) is encoded
    chat_text = (
        "<|system|>Be brief.<|end|><|user|><|image|><|image|>Où ?<|end|>"
        "<|assistant|>Là.<|end|><|assistant|>"
    )
    assert engine.text(encoded) == engine.text(CHAT) == chat_text
    assert engine.text(EncodedPrompt(tuple("naïve".encode()))) == "naïve" == engine.text("naïve")
    # A header written in a message is not a header.
    assert engine.encode(chat_text).token_ids != encoded.token_ids
    # What is common at the start stays common: prompts of one search share their prefix.
    assert encoded.token_ids[:20] == engine.encode(CHAT[:2]).token_ids[:20]


async def test_scores_come_from_the_score_function():
    engine = ScriptedEngine(
        lambda _: "", score=lambda text, choices: [-float(len(text + c)) for c in choices]
    )
    scores = await engine.score(ScoreRequest("ab", ("c", "cd"), role="act"))
    assert scores.logprobs == (-3.0, -4.0)
    labels = await engine.score(ScoreRequest((Message("user", "x"),), ("A",), kind="labels"))
    assert labels.logprobs == (-float(len("<|user|>x<|end|><|assistant|>A")),)
    assert engine.scored == [("ab", ("c", "cd")), ("<|user|>x<|end|><|assistant|>", ("A",))]
    assert scores.usage.prompt_tokens == 2
    assert scores.usage.calls == 1


async def test_wrong_scores_are_errors():
    with pytest.raises(ScriptError, match="give the engine a `score` function"):
        await ScriptedEngine(lambda _: "").score(ScoreRequest("x", ("a",)))
    with pytest.raises(ScriptError, match="1 values for the 2 choices of role 'act'"):
        await ScriptedEngine(lambda _: "", score=lambda _, __: [0.0]).score(
            ScoreRequest("x", ("a", "b"), role="act")
        )


async def test_delayed_answers_overlap():
    engine = ScriptedEngine(lambda _: "x", delay=lambda _: 0.05)
    started = time.perf_counter()
    answers = await draw(engine, Request(prompt="x"), 50)
    taken = time.perf_counter() - started
    assert taken < sum(answer.usage.seconds for answer in answers) / 10
    assert all(answer.usage.seconds >= 0.049 for answer in answers)


async def test_without_a_delay_nobody_is_suspended():
    engine = ScriptedEngine(lambda _: "x", delay=lambda _: 0)
    with pytest.raises(StopIteration):
        engine.generate(Request(prompt="x")).send(None)
    assert len(engine.requests) == 1


async def test_the_scripts_own_errors_reach_the_caller():
    def fail(_):
        raise EngineStoppedError("planned")

    with pytest.raises(EngineStoppedError, match="planned"):
        await ScriptedEngine(fail).generate(Request(prompt="x"))
