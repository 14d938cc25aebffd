import gc
import json
import random
import re
import weakref
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import outlines_core
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    StringConstraints,
    ValidationError,
    computed_field,
    conlist,
    create_model,
    field_validator,
    model_validator,
)

from llm_serving.answers import Constraint, compact, constraint_of, parse
from llm_serving.errors import AnswerModelError

Short = Annotated[str, Field(max_length=6)]
Unit = Annotated[float, Field(ge=0, le=1, multiple_of=0.1)]
NAMES = tuple(f"{a}_{b}" for a in ("oak", "iron", "gold", "raw") for b in ("axe", "ore", "planks"))


class Verb(Enum):
    MINE = "mine"
    CRAFT = "craft"


class Level(IntEnum):
    LOW = 1
    HIGH = 12


class Option(BaseModel):
    reasoning: Short
    verb: Verb
    quantity: Annotated[int, Field(ge=1, le=64)]
    item: Literal[NAMES]


class Proposal(BaseModel):
    options: Annotated[list[Option], Field(min_length=2, max_length=2)]


class Feasibility(BaseModel):
    reason: Annotated[str, Field(min_length=2, max_length=9)]
    action_valid: bool = Field(alias="actionValid", description="whether it can be done")


class Change(BaseModel):
    gained: Annotated[tuple[tuple[Literal["log", "ore"], Level], ...], Field(max_length=2)] = ()
    lost: conlist(Literal["log"], max_length=1) = []
    health: int | None = Field(None, gt=-3, lt=21)


class Odd(BaseModel):
    letter: Literal['"', "\\", "é", "\n", "a.b*(c)", "[x]", "😀", "-", "^", "", 3, True, None]
    code: Annotated[str, Field(pattern=r"^[a-f]{2}(-\d{1,2}|\.\w?)?$")]
    quoted: Annotated[str, StringConstraints(pattern=r"(\"|\\|é)[^a-z]", max_length=2)]


class Numbers(BaseModel):
    unit: Unit
    quarter: Annotated[float, Field(gt=-0.5, lt=0.5, multiple_of=0.25)]
    price: Annotated[Decimal, Field(ge=0, le=Decimal("1.2"), decimal_places=2)]
    even: Annotated[int, Field(ge=-4, le=4, multiple_of=2)]
    wide: Annotated[int, Field(ge=-1234, le=98765)]


class Left(BaseModel):
    kind: Literal["left"]
    x: bool


class Right(BaseModel):
    kind: Literal["right"]
    y: Literal[1, 2]


class Mixed(BaseModel):
    either: Annotated[Left | Right, Field(discriminator="kind")]
    shape: Left | Right | bool | Literal["none"] | None
    number: Annotated[int, Field(ge=0, le=3)] | Unit


Thing = TypeVar("Thing")


class Box(BaseModel, Generic[Thing]):
    held: Thing
    tag: Literal["box"] = "box"


class Bare(RootModel[Annotated[list[Box[bool]], Field(min_length=1, max_length=3)]]):
    pass


MODELS = [Proposal, Feasibility, Change, Odd, Numbers, Mixed, Bare, Box[Level]]


def bytes_automaton(regex):
    vocabulary = outlines_core.Vocabulary(256, {bytes([b]): [b] for b in range(256)})
    return outlines_core.Index(regex, vocabulary)


def outlines_accepts(index, text):
    state = index.get_initial_state()
    for byte in text.encode():
        state = index.get_next_state(state, byte)
        if state is None:
            return False
    return index.is_final_state(state)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_text_of_the_language_is_read_and_written_back(model, data):
    constraint = constraint_of(model)
    text = data.draw(st.from_regex(constraint.regex, fullmatch=True))
    assert compact(parse(model, text)) == text
    assert len(text.encode()) <= constraint.max_bytes
    values = json.loads(text)
    if isinstance(values, dict):
        fields = model.model_fields.items()
        assert list(values) == [field.alias or name for name, field in fields]


def xgrammar_reader(regex):
    xgrammar = pytest.importorskip("xgrammar")
    tokens = [bytes([byte]) for byte in range(256)] + [b"</s>"]
    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo(tokens, stop_token_ids=[256]))
    grammar = compiler.compile_regex(regex)

    def accepts(text):
        matcher = xgrammar.GrammarMatcher(grammar)
        return matcher.accept_string(text.encode()) and matcher.accept_token(256)

    return accepts


def guidance_reader(regex):
    llguidance = pytest.importorskip("llguidance")
    tokenizer = llguidance.LLTokenizer("byte")
    grammar = llguidance.grammar_from("regex", regex)

    def accepts(text):
        matcher = llguidance.LLMatcher(tokenizer, grammar)
        tokens = tokenizer.tokenize_bytes(text.encode())
        return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()

    return accepts


def outlines_reader(regex):
    index = bytes_automaton(regex)
    return lambda text: outlines_accepts(index, text)


@pytest.mark.parametrize("reader", [outlines_reader, xgrammar_reader, guidance_reader])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_backend_reads_the_same_language(model, reader):
    regex = constraint_of(model).regex
    accepts = reader(regex)
    generator = random.Random(7)
    verdicts = []

    @settings(
        max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
    )
    @given(text=st.from_regex(regex, fullmatch=True))
    def check(text):
        spot = generator.randrange(len(text) + 1)
        other = generator.choice(['"', " ", "0", "", ",", "-", "é", "\\"])
        changed = text[:spot] + other + text[spot + 1 :]
        for spelled in (text, changed, text + " ", " " + text, text[:-1]):
            verdicts.append(re.fullmatch(regex, spelled) is not None)
            assert accepts(spelled) is verdicts[-1], spelled

    check()
    assert {*verdicts} == {True, False}


def test_the_regex_is_the_compact_json_one_expects():
    class Done(BaseModel):
        done: bool
        count: int = Field(ge=1, le=64)
        note: str = Field(max_length=3)

    regex = (
        r"""\{"done":(fals|tru)e,"count":([1-9]|[1-5][0-9]|6[0-4]),"note":"[ !#-\[\]-~]{0,3}"\}"""
    )
    assert constraint_of(Done) == Constraint(regex, len('{"done":false,"count":64,"note":"abc"}'))
    assert constraint_of(Done).max_tokens == 39


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (Annotated[int, Field(ge=-2, le=11)], [str(i) for i in range(-2, 12)]),
        (Unit, [f"{i / 10}" for i in range(11)]),
        (Annotated[float, Field(ge=-1, lt=1, multiple_of=0.5)], ["-1.0", "-0.5", "0.0", "0.5"]),
        (
            Annotated[Decimal, Field(gt=0, le=Decimal("0.03"), decimal_places=2)],
            ['"0.01"', '"0.02"', '"0.03"'],
        ),
        (Literal["é", 'a"b', 1, False], ['"é"', '"a\\"b"', "1", "false"]),
        (Level | None, ["1", "12", "null"]),
        (Annotated[list[bool], Field(max_length=1)], ["[]", "[true]", "[false]"]),
        (tuple[bool, Literal[0]], ["[true,0]", "[false,0]"]),
        (tuple[()], ["[]"]),
        (Annotated[str, Field(max_length=0)], ['""']),
        (Annotated[str, Field(pattern="^(ab?|c){1,2}$")], None),
    ],
)
def test_a_small_language_is_exact(value, spelled):
    model = create_model("Model", value=(value, ...))
    constraint = constraint_of(model)
    if spelled is None:
        words = ["a", "ab", "c"]
        spelled = [f'"{word}"' for word in [*words, *(a + b for a in words for b in words)]]
    language = {f'{{"value":{word}}}' for word in spelled}
    assert all(re.fullmatch(constraint.regex, text) for text in language)
    assert max(len(text.encode()) for text in language) == constraint.max_bytes
    index = bytes_automaton(constraint.regex)
    frontier, words = [(index.get_initial_state(), b"")], set()
    while frontier:
        state, written = frontier.pop()
        if index.is_final_state(state):
            words.add(written.decode())
        for byte, follower in index.get_transitions().get(state, {}).items():
            if byte != 256:
                frontier.append((follower, written + bytes([byte])))
    assert words == language


def test_a_constraint_is_remembered_as_long_as_its_model_lives():
    model = create_model("Model", flag=(bool, ...))
    assert constraint_of(model) is constraint_of(model)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_an_answer_cut_off_is_not_read():
    with pytest.raises(ValidationError):
        parse(Feasibility, '{"reason":"no ore')


class Node(BaseModel):
    children: Annotated[list["Node"], Field(max_length=2)]


class Point(NamedTuple):
    x: bool


class Reordered(BaseModel):
    x: bool
    kind: Literal["left"]


class Deep(BaseModel):
    inner: Annotated[list[Annotated[tuple[int, bool] | None, Field()]], Field(max_length=2)]


@pytest.mark.parametrize(
    ("value", "place", "hint"),
    [
        (str, "Model.value", "max_length"),
        (Annotated[str, Field(pattern="a+")], "Model.value", "{1,8} for +"),
        (Annotated[str, Field(pattern="[a&&b]")], "Model.value", "portable"),
        (Annotated[str, Field(pattern="(?i)a")], "Model.value", "flags"),
        (Annotated[str, Field(pattern="[a-z]{1,12}", max_length=8)], "Model.value", "1 to 12"),
        (Annotated[str, Field(min_length=3, max_length=2)], "Model.value", "3 to 2"),
        (int, "Model.value", "ge=..., le=..."),
        (
            Annotated[float, Field(ge=0, le=float("inf"), multiple_of=1)],
            "Model.value",
            "both sides",
        ),
        (Annotated[int, Field(gt=0, lt=1)], "Model.value", "widen"),
        (Annotated[int, Field(ge=0, le=10**9, multiple_of=2)], "Model.value", "500000001 points"),
        (Annotated[float, Field(ge=0, le=1)], "Model.value", "multiple_of"),
        (Annotated[float, Field(ge=0, le=1, decimal_places=1)], "Model.value", "validator"),
        (Annotated[float, Field(ge=0, le=1, multiple_of=1e-6)], "Model.value", "10000"),
        (Decimal, "Model.value", "multiple_of"),
        (list[bool], "Model.value", "max_length"),
        (Annotated[list, Field(max_length=2)], "Model.value[]", "'any'"),
        (tuple[bool, ...], "Model.value", "max_length"),
        (dict[Literal["a"], bool], "Model.value", "pairs"),
        (set[bool], "Model.value", "unsupported"),
        (Any, "Model.value", "'any'"),
        (Point, "Model.value", "unsupported"),
        (Node, "Model.value.children[]", "unroll"),
        (Deep, "Model.value.inner[][0]", "both sides"),
        (Left | Reordered, "Model.value", "discriminator"),
        (Short | Annotated[Decimal, Field(ge=0, le=1, decimal_places=1)], "Model.value", "apart"),
        (Annotated[bool | Short, Field(union_mode="left_to_right")], "Model.value", "apart"),
        (Annotated[bool, AfterValidator(lambda flag: flag)], "Model.value", "<lambda>"),
        (Annotated[bool, PlainSerializer(int)], "Model.value", "serializer"),
        (
            Annotated[str, StringConstraints(max_length=4, strip_whitespace=True)],
            "Model",
            "setting",
        ),
        (Annotated[bool, Field(exclude=True)], "Model", "excluded"),
        (Annotated[bool, Field(validation_alias="other")], "Model.other", "refuses"),
        (Annotated[list[Short], Field(max_length=10_000)], "Model", "states"),
    ],
)
def test_a_model_that_is_not_finite_or_not_faithful_is_refused(value, place, hint):
    model = create_model("Model", value=(value, ...))
    with pytest.raises(AnswerModelError, match=re.escape(hint)) as caught:
        constraint_of(model)
    assert str(caught.value).startswith(f"{place}: ")


def test_validators_serializers_and_settings_of_a_model_are_refused():
    class Validated(BaseModel):
        flag: bool

        @field_validator("flag")
        @classmethod
        def only_true(cls, value):
            return value

    class Checked(BaseModel):
        flag: bool

        @model_validator(mode="after")
        def agree(self):
            return self

    class Extended(BaseModel):
        flag: bool

        @computed_field
        @property
        def more(self) -> int:
            return 1

    class Own(BaseModel):
        flag: bool

        def __init__(self, **values):
            super().__init__(**values)

    class Stripped(BaseModel):
        model_config = ConfigDict(str_strip_whitespace=True)
        text: Short

    for model, hint in (
        (Validated, "only_true"),
        (Checked, "agree"),
        (Extended, "computed"),
        (Own, "__init__"),
        (Stripped, "setting"),
    ):
        with pytest.raises(AnswerModelError, match=hint):
            constraint_of(model)
