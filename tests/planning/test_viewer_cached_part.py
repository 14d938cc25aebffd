"""Where the cached part of a prompt ends in its text."""

import asyncio
from dataclasses import replace

import pytest

from llm_planning.roles.engines import TracingEngine
from llm_planning.trace import recording
from llm_planning.viewer.cached_part import CachedPart, UnknownEndError, cached_end
from llm_serving.chat import ChatFormat
from llm_serving.models import resolve
from llm_serving.request import EncodedPrompt, Message, Request, ScoreRequest, SharedPrompt
from llm_serving.scripted import ScriptedEngine

MODEL = "smollm2-135m-instruct"

CHAT = (
    Message("system", "Plan. user"),
    Message("user", "  Où? 🐄 user\n"),
    Message("assistant", "=="),
    Message("user", "plains\ufffd"),
)


def characters(text, units):
    """Characters of a text that begin within its first bytes."""
    return sum(len(text[:place].encode()) < units for place in range(len(text)))


class Bytes:
    """Chats as the scripted engine has them: a token for every byte, and marks around messages."""

    def __init__(self, change=lambda messages: messages):
        self.engine, self.change = ScriptedEngine({}), change

    def encode(self, messages):
        return self.engine.encode(self.change(tuple(messages))).token_ids

    def plain(self, text):
        return self.engine.encode(text).token_ids

    def decode(self, token_ids):
        return self.engine.decode(token_ids)


def ends(chat, prompt, counts):
    part = CachedPart(chat)
    total = len(chat.plain(prompt) if isinstance(prompt, str) else chat.encode(prompt))
    return [part.end(prompt, count, total=total) for count in counts or range(total + 1)]


def test_every_end_in_a_chat():
    # In this engine's template a header is before a message, and a mark behind it: a token each.
    expected = [(0, 0)]
    for place, message in enumerate(CHAT):
        size = len(message.content.encode())
        expected.append((place, 0))
        expected += [(place, characters(message.content, unit)) for unit in range(1, size + 1)]
        expected.append((place + 1, 0) if place < 3 else (place, len(message.content)))
    expected.append((3, len(CHAT[3].content)))
    assert ends(Bytes(), CHAT, None) == expected


def test_a_plain_text():
    text = "Où est la vache? 🐄!"
    expected = [(0, characters(text, count)) for count in range(len(text.encode()) + 1)]
    assert ends(Bytes(), text, None) == expected


def test_the_tokenizer_of_the_bundled_model():
    """Compares with the places that the tokenizer itself gives its tokens."""
    chat = ChatFormat(resolve(MODEL).path)
    long = (*CHAT, Message("user", "🐄 A cow; une vache là-bas.\n" * 20))
    turns = [{"role": message.role, "content": message.content} for message in long]
    text = chat.tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    read = chat.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    spans, begun = [], 0
    for message in long:
        begun = text.index(message.content, begun + len("<|im_start|>user"))
        spans.append((begun, begun + len(message.content)))
    part, total = CachedPart(chat), len(read["input_ids"])
    assert total > 200
    for count, (_, end) in enumerate(read["offset_mapping"], start=1):
        place = next((i for i, span in enumerate(spans) if end <= span[1]), len(spans) - 1)
        start, last = spans[place]
        assert part.end(long, count, total=total) == (place, max(0, min(end, last) - start))


def each(change):
    return lambda chat: tuple(replace(turn, content=change(turn.content)) for turn in chat)


def test_what_a_template_does_to_messages():
    chat = (Message("user", "  Go. "), Message("user", " Now! "))
    # A header, "Go.", a mark, a header, "Now!".
    found = ends(Bytes(each(str.strip)), chat, (1, 2, 4, 5, 6, 8))
    assert found == [(0, 0), (0, 3), (0, 5), (1, 0), (1, 0), (1, 3)]
    for change in (each(str.upper), lambda chat: chat[-1:]):
        with pytest.raises(UnknownEndError, match="changes what the messages say"):
            ends(Bytes(change), chat, [5])


def test_another_template_or_tokenizer_than_the_engines_is_no_source():
    with pytest.raises(UnknownEndError, match="make 7 tokens of the prompt, and 8 were asked"):
        CachedPart(Bytes()).end("Go now!", 3, total=8)


def asked(messages=CHAT, **fields):
    """A `role` line as a page reads it, of the bundled model, with as many tokens as it has."""
    turns = [{"role": message.role, "text": message.content} for message in messages]
    total = len(ChatFormat(resolve(MODEL).path).encode(messages))
    counts = {"prompt_tokens": total, "cached_tokens": 4}
    return {"type": "role", "model": MODEL, "turns": turns[1:], **counts, **fields}


def test_a_page_finds_the_end_of_a_question_with_the_tokenizer_of_its_model():
    chat = ChatFormat(resolve(MODEL).path)
    ids = chat.encode(CHAT)
    cached = next(end for end in range(len(ids)) if chat.decode(ids[:end]).endswith("  Où?"))
    line, system = asked(cached_tokens=cached), CHAT[0].content
    assert cached_end(line, system) == {"cached_end": [1, 5]}
    assert cached_end({**line, "model": f"{MODEL}+mine"}, system) == {"cached_end": [1, 5]}
    shared = {"tokens": len(ids), "cached_tokens": cached, "requests": 3}
    scored = {**line, "choices": ["a", "b"], "prompt_tokens": 99, "cached_tokens": 77}
    assert cached_end({**scored, "shared": shared}, system) == {"cached_end": [1, 5]}
    assert cached_end(scored, system) == {}
    assert cached_end({**line, "turns": []}, None) == {}
    # Nothing was cached: no tokenizer is needed.
    assert cached_end({**line, "model": "nowhere", "cached_tokens": 0}, system) == {
        "cached_end": [0, 0]
    }


def test_a_page_says_why_an_end_is_not_known(tmp_path, monkeypatch):
    def why(**fields):
        (said,) = cached_end({**asked(), **fields}, CHAT[0].content).items()
        assert said[0] == "end_unknown"
        return said[1]

    assert why(model="nobody/nothing") == (
        "the tokenizer of 'nobody/nothing' cannot be read on this machine"
    )
    for odd in ("", "x" * 5000, "a\0b", "</script>"):
        assert "cannot be read on this machine" in why(model=odd)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert why(model="./mine") == "a page reads no folder that a trace names, here './mine'"
    assert "and 9 were asked" in why(prompt_tokens=9)
    assert "images" in why(turns=[{"role": "user", "text": "This?", "images": 1}])
    for turns in ([5], [{"role": "user"}], [{"text": "a"}]):
        assert why(turns=turns) == "its line says something that cannot be"
    for count in ("x", -1, 10**6):
        assert why(cached_tokens=count) == "its line says something that cannot be"


class Remembering(ScriptedEngine):
    """Says that tokens were cached."""

    async def generate(self, request):
        answer = await super().generate(request)
        return replace(answer, usage=replace(answer.usage, cached_tokens=14))

    async def score(self, request):
        scores = await super().score(request)
        return replace(
            scores,
            usage=replace(scores.usage, prompt_tokens=80, cached_tokens=40),
            shared=SharedPrompt(tokens=32, cached_tokens=2, requests=3),
        )


def test_a_trace_has_the_number_of_cached_tokens():
    engine = TracingEngine(Remembering({"x": "y"}, score=lambda _, choices: [0.0] * len(choices)))

    async def ask():
        await engine.generate(Request(prompt=CHAT, role="x"))
        await engine.score(ScoreRequest(engine.encode("Next: "), ("a", "b")))
        await engine.score(ScoreRequest("Next: ", ("a", "b"), kind="labels"))
        await engine.score(ScoreRequest(EncodedPrompt((78, 79)), ("a", "b")))

    with recording() as trace:
        asyncio.run(ask())
    written, *scored = [event for event in trace.events if event["type"] == "role"]
    assert written["cached_tokens"] == 14
    assert "shared" not in written
    for question in scored:
        assert question["shared"] == {"tokens": 32, "cached_tokens": 2, "requests": 3}
        assert (question["prompt_tokens"], question["cached_tokens"]) == (80, 40)
