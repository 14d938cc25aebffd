"""Choices are scored in the tokens that they have behind their prompt."""

from random import Random

import pytest
from chat_folders import write
from tokenizers_of_kinds import byte_level, sentencepiece, unigram

from llm_serving.chat import ChatFormat
from llm_serving.errors import RequestFailedError
from llm_serving.request import Message

BLANK = ("prepend", "metaspace first", "bytes with a blank")
KINDS = {
    "prepend": sentencepiece,
    "metaspace first": lambda: sentencepiece(scheme="first"),
    "no blank": lambda: sentencepiece(prepends=False),
    "bytes": byte_level,
    "bytes with a blank": lambda: byte_level(prefix=True),
    "unigram": unigram,
}
LINES = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
TEMPLATES = {
    "ends a line": (LINES, []),
    "ends by a line break and a special token before it": (LINES, ["<|user|>", "<|assistant|>"]),
    "ends by a special token": (LINES.replace("|>\n", "|>"), ["<|user|>", "<|assistant|>"]),
    "ends by a bracket": (
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}"
        "[INST] {{ m.content }} [/INST]{% else %}{{ m.content }}</s>{% endif %}{% endfor %}",
        [],
    ),
}
CHOICES = ("go north", "north", "A", "1", "10", "go\nnorth", "é", '{"go":1}', "🐄")
CHAT = (Message("user", "Which way?"),)


def chats(folder, core, template=LINES, special=()):
    write(
        folder, "plain", core=core, special=["<s>", "</s>", *special], eos="</s>", template=template
    )
    return ChatFormat(folder, name="m")


@pytest.mark.parametrize("ends", TEMPLATES)
@pytest.mark.parametrize("kind", KINDS)
def test_they_are_what_follows_the_prompt_in_the_text_of_both(tmp_path, kind, ends):
    """The text is the template's, and not what its tokens decode to."""
    template, special = TEMPLATES[ends]
    opened = chats(tmp_path, KINDS[kind](), template, special)
    prompt = opened.encode(CHAT)
    written = opened.tokenizer.apply_chat_template(
        [{"role": "user", "content": "Which way?"}], tokenize=False, add_generation_prompt=True
    )
    compared = 0
    for choice in CHOICES:
        both = tuple(opened.tokenizer.encode(written + choice, add_special_tokens=False))
        if both[: len(prompt)] == prompt:
            compared += 1
            assert opened.tokens(choice, behind=prompt) == both[len(prompt) :], choice
    assert compared >= len(CHOICES) - 1


def test_a_tokenizer_s_blank_is_nobody_s_answer(tmp_path):
    """The case of Llama 2: `north` was scored as the tokens of a blank and `north`."""
    opened = chats(tmp_path, sentencepiece())
    name = opened.tokenizer.convert_ids_to_tokens
    alone = opened.tokenizer.encode("north", add_special_tokens=False)
    assert name(alone)[0].startswith("▁")
    for behind in (opened.encode(CHAT), (), opened.plain("Which way?")):
        assert "".join(name(list(opened.tokens("north", behind=behind)))) == "north"
    assert len(opened.tokens("A", behind=opened.encode(CHAT))) == 1, "a label of one token"


@pytest.mark.parametrize("kind", ["bytes", "no blank"])
def test_without_such_a_blank_they_are_the_tokens_of_the_choice_alone(tmp_path, kind):
    opened = chats(tmp_path, KINDS[kind]())
    for choice in (*CHOICES, "'s", " go", "\ngo", "</s> go", "<|user|>", "e\u0301"):
        alone = opened.spans(choice)
        if choice != "</s> go":
            ids = opened.tokenizer.encode(choice, add_special_tokens=False)
            assert [token for token, _ in alone] == ids
        for prompt in (opened.encode(CHAT), opened.plain("Which way?"), opened.plain("it: '")):
            assert opened.spans(choice, behind=prompt) == alone
        assert alone[-1][1][1] == len(choice)


def test_a_blank_that_the_template_writes_before_answers_is_part_of_them(tmp_path):
    """Chats of Llama 2 have `[/INST] go`, those of Vicuna `ASSISTANT: go`."""
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}USER: {{ m.content }} ASSISTANT:"
        "{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
    )
    for kind, has_blank in (("prepend", True), ("bytes with a blank", True), ("bytes", False)):
        opened = chats(tmp_path / kind, KINDS[kind](), template)
        tokens = list(opened.tokens("go north", behind=opened.encode(CHAT)))
        assert opened.tokenizer.convert_ids_to_tokens(tokens)[0].startswith(("▁", "Ġ")) == has_blank
        beyond = opened.tokens("go north", behind=opened.plain("Which way?\n"))
        assert not opened.tokenizer.convert_ids_to_tokens(list(beyond))[0].startswith(("▁", "Ġ"))


def test_a_special_token_in_a_choice_is_text_behind_a_prompt_too(tmp_path):
    opened = chats(tmp_path, sentencepiece())
    prompt = opened.encode(CHAT)
    read = opened.spans("go </s> north", behind=prompt)
    name = opened.tokenizer.convert_ids_to_tokens
    assert "".join(name([token for token, _ in read])) == "go▁</s>▁north"
    assert opened.tokenizer.eos_token_id not in opened.tokens("go </s> north", behind=prompt)
    assert read[0][1][0] == 0
    assert read[-1][1][1] == len("go </s> north")


def test_a_lesson_teaches_what_a_model_writes(tmp_path):
    from llm_planning.distill.tokens import LessonTokenizer

    opened = chats(tmp_path, sentencepiece())
    lesson = LessonTokenizer(tmp_path).lesson("r", CHAT, '{"go":true}')
    assert lesson.answer[:-1] == opened.tokens('{"go":true}', behind=lesson.prompt)
    assert not opened.tokenizer.convert_ids_to_tokens(lesson.answer[0]).startswith("▁")
    decide = [
        token for token, weight in zip(lesson.answer, lesson.weights, strict=True) if weight == 1
    ]
    assert "true" in "".join(opened.tokenizer.convert_ids_to_tokens(decide))
    assert lesson.weights[0] < 1, "the brace decides nothing"


def test_choices_that_a_tokenizer_reads_alike_are_refused(tmp_path):
    opened = chats(tmp_path, unigram())
    prompt = opened.encode(CHAT)
    choices = ("go north", "go", "go")
    assert len(opened.choices(choices, behind=prompt)) == 3
    with pytest.raises(RequestFailedError, match="'\uff11' and '1' are the same tokens to m, "):
        opened.choices(("\uff11", "1"), behind=prompt)


def test_a_choice_that_a_tokenizer_reads_as_nothing_is_refused(tmp_path):
    from tokenizers import normalizers

    core = byte_level()
    core.normalizer = normalizers.Strip()
    opened = chats(tmp_path, core)
    with pytest.raises(RequestFailedError, match="' ' is no token to m, which cannot"):
        opened.choices(("go", " "), behind=opened.encode(CHAT))


def test_unknown_characters_are_told_once(tmp_path, caplog):
    opened = chats(tmp_path, unigram())
    opened.tokenizer.unk_token = "<unk>"
    for _ in range(2):
        opened.choices(("go", "go ☃"), behind=opened.encode(CHAT))
    (record,) = caplog.records
    assert record.getMessage().startswith("m does not know every character of 'go ☃'")
    with pytest.raises(RequestFailedError, match="are the same tokens"):
        opened.choices(("go ☃", "go ☂"), behind=opened.encode(CHAT))


@pytest.mark.parametrize("kind", [*BLANK, "no blank", "bytes"])
def test_answers_kept_under_the_tokens_of_a_blank_are_not_found_again(tmp_path, kind):
    """It is a part of the engine's identity, and so of a kept answer's key."""
    assert chats(tmp_path, KINDS[kind]()).writes_blanks == (kind in BLANK)


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_is_what_transformers_decodes(tmp_path, kind):
    """Words, special tokens, unknown ones, and characters of which only some tokens are there."""
    opened = chats(tmp_path, KINDS[kind](), *TEMPLATES["ends by a special token"])
    tokenizer, draw = opened.tokenizer, Random(kind)
    text = list(opened.plain("go north, é 🐄\n  A."))
    drawn = [
        [draw.randrange(len(tokenizer)) for _ in range(draw.randrange(12))] for _ in range(300)
    ]
    for ids in [[], *(text[:end] for end in range(len(text))), *drawn]:
        ended = bool(ids) and ids[-1] in opened.ends
        options = {"clean_up_tokenization_spaces": False}
        assert opened.decode(tuple(ids)) == tokenizer.decode(ids, **options), ids
        answer = tokenizer.decode(ids[:-1] if ended else ids, skip_special_tokens=True, **options)
        assert opened.answer(tuple(ids)) == answer, ids


def test_a_tokenizer_that_decodes_in_its_own_way_is_left_to_it(tmp_path):
    opened = chats(tmp_path, byte_level())

    class Loud(type(opened.tokenizer)):
        def _decode(self, *arguments, **options):
            return super()._decode(*arguments, **options).upper()

    opened.tokenizer.__class__ = Loud
    assert opened.answer(opened.tokens("go north")) == "GO NORTH"
