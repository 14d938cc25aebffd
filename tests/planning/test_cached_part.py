"""Where the cached part of a prompt ends in its text."""

import asyncio
from dataclasses import replace

from llm_planning.roles.cached_part import CachedPart
from llm_planning.roles.engines import TracingEngine
from llm_planning.trace import recording
from llm_serving.errors import UnsupportedEngineError
from llm_serving.models import resolve
from llm_serving.models.reading import read_tokenizer
from llm_serving.request import EncodedPrompt, Image, Message, Request, ScoreRequest, SharedPrompt
from llm_serving.scripted import ScriptedEngine

CHAT = (
    Message("system", "Plan. user"),
    Message("user", "  Où? 🐄 user\n"),
    Message("assistant", "=="),
    Message("user", "plains\ufffd"),
)


def characters(text, units):
    """Characters of a text that begin within its first bytes."""
    return sum(len(text[:place].encode()) < units for place in range(len(text)))


def test_every_end_in_a_chat():
    engine = ScriptedEngine({})
    ids = engine.encode(CHAT).token_ids
    # In this engine's template a header is before a message, and a mark behind it: a token each.
    expected = [(0, 0)]
    for place, message in enumerate(CHAT):
        size = len(message.content.encode())
        expected.append((place, 0))
        expected += [(place, characters(message.content, unit)) for unit in range(1, size + 1)]
        expected.append((place + 1, 0) if place < 3 else (place, len(message.content)))
    expected.append((3, len(CHAT[3].content)))
    part = CachedPart(engine)
    assert [part.end(CHAT, None, count) for count in range(len(ids) + 1)] == expected


def test_a_plain_text():
    engine = ScriptedEngine({})
    text = "Où est la vache? 🐄!"
    ends = [CachedPart(engine).end(text, None, count) for count in range(len(text.encode()) + 1)]
    assert ends == [(0, characters(text, count)) for count in range(len(text.encode()) + 1)]


class Reader:
    """The tokenizer of the bundled model."""

    def __init__(self):
        self.tokenizer = read_tokenizer(resolve("smollm2-135m-instruct").path)

    def text(self, prompt):
        turns = [{"role": message.role, "content": message.content} for message in prompt]
        return self.tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)

    def encode(self, prompt):
        ids = self.tokenizer.encode(self.text(prompt), add_special_tokens=False)
        return EncodedPrompt(tuple(ids))

    def decode(self, token_ids):
        return self.tokenizer.decode(token_ids, skip_special_tokens=False)


def test_the_tokenizer_of_the_bundled_model():
    """Compares with the places that the tokenizer itself gives its tokens."""
    reader = Reader()
    long = (*CHAT, Message("user", "🐄 A cow; une vache là-bas.\n" * 20))
    text = reader.text(long)
    read = reader.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    spans, begun = [], 0
    for message in long:
        begun = text.index(message.content, begun + len("<|im_start|>user"))
        spans.append((begun, begun + len(message.content)))
    part = CachedPart(reader)
    assert len(read["input_ids"]) > 200
    for count, (_, end) in enumerate(read["offset_mapping"], start=1):
        place = next((i for i, span in enumerate(spans) if end <= span[1]), len(spans) - 1)
        start, last = spans[place]
        assert part.end(long, None, count) == (place, max(0, min(end, last) - start))


class Template(ScriptedEngine):
    """An engine whose chat template changes the messages."""

    def __init__(self, change):
        super().__init__({})
        self.change = change

    def encode(self, prompt):
        return super().encode(self.change(prompt) if isinstance(prompt, tuple) else prompt)


def each(change):
    return lambda chat: tuple(replace(turn, content=change(turn.content)) for turn in chat)


def test_what_a_template_does_to_messages():
    chat = (Message("user", "  Go. "), Message("user", " Now! "))
    # A header, "Go.", a mark, a header, "Now!".
    strips = CachedPart(Template(each(str.strip)))
    ends = [strips.end(chat, None, count) for count in (1, 2, 4, 5, 6, 8)]
    assert ends == [(0, 0), (0, 3), (0, 5), (1, 0), (1, 0), (1, 3)]
    for change in (each(str.upper), lambda chat: chat[-1:]):
        assert CachedPart(Template(change)).end(chat, None, 5) is None


def test_who_cannot_say_it():
    class Mute(ScriptedEngine):
        def decode(self, token_ids):
            raise UnsupportedEngineError("no tokenizer")

    seen = (Message("user", "What is this?", (Image(b"png"),)),)
    assert CachedPart(ScriptedEngine({})).end(seen, None, 5) is None
    assert CachedPart(Mute({})).end(CHAT, None, 5) is None
    # Nothing was cached: no tokenizer is needed.
    assert CachedPart(Mute({})).end(CHAT, None, 0) == (0, 0)


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


def test_it_is_in_the_trace():
    engine = TracingEngine(Remembering({"x": "y"}, score=lambda _, choices: [0.0] * len(choices)))

    async def ask():
        await engine.generate(Request(prompt=CHAT, role="x"))
        await engine.score(ScoreRequest(engine.encode("Next: "), ("a", "b")))
        await engine.score(ScoreRequest("Next: ", ("a", "b"), kind="labels"))
        await engine.score(ScoreRequest(EncodedPrompt((78, 79)), ("a", "b")))

    with recording() as trace:
        asyncio.run(ask())
    written, *scored = [event for event in trace.events if event["type"] == "role"]
    assert written["cached_end"] == [1, 1]
    assert "shared" not in written
    assert [question.get("cached_end") for question in scored] == [[0, 2], [0, 2], None]
    for question in scored:
        assert question["shared"] == {"tokens": 32, "cached_tokens": 2, "requests": 3}
        assert (question["prompt_tokens"], question["cached_tokens"]) == (80, 40)
