"""Oracles err at their rate and in their way; the setting `roles` is read or refused."""

import asyncio
import json
import math
import subprocess
import sys
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from importing import importing

from llm_planning.roles import (
    Errors,
    Items,
    Kinds,
    Oracle,
    OwnModel,
    RoleSettings,
    Rule,
    read_roles,
)
from llm_planning.roles.oracles import draw
from llm_planning.running import prepare
from llm_planning.settings import SettingsError

PLACES = ("fridge", "oven", "table", "sink")


@dataclass(frozen=True)
class Where:
    """Where is a thing? `around` is other text in the question."""

    thing: str
    around: int = 0


def elsewhere(question, rng):
    return rng.choice(PLACES[1:])


RULE = Rule(
    right=lambda question: "fridge",
    wrong=elsewhere,
    situation=lambda question: (question.thing, question.around),
)


def an_oracle(rate, kind="independent", *, seed=0, rule=RULE, unit="answer"):
    return Oracle("where", rule, errors=Errors(rate=rate, kind=kind, unit=unit), seed=seed)


def binomial_bounds(rate, count):
    """Four standard deviations to both sides: one run in 16,000 is outside."""
    spread = 4 * math.sqrt(rate * (1 - rate) / count)
    return rate - spread, rate + spread


def test_a_draw_is_that_of_its_key_by_hand():
    assert (
        draw(3, "where", "cup").random() == Random(sha256(b"(3, 'where', 'cup')").digest()).random()
    )
    assert draw(3, ("where", None)).random() != draw(3, "where", None).random()


@pytest.mark.parametrize("part", [{"cup"}, object(), ["cup"], ("cup", frozenset())])
def test_a_key_whose_text_is_not_the_same_everywhere_is_refused(part):
    with pytest.raises(TypeError, match="make a situation of texts, numbers, None and tuples"):
        draw(0, part)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("independent", b"(5, 'where', 'cup', 2, 1)"),
        ("sticky", b"(5, 'where', 'cup', 2)"),
        ("systematic", b"(5, 'where', 'cup')"),
    ],
)
async def test_answers_are_drawn_with_the_key_of_their_kind_by_hand(kind, key):
    for rate in (0.2, 0.5, 0.8):
        rng = Random(sha256(key).digest())
        expected = "fridge" if rng.random() < rate else rng.choice(PLACES[1:])
        assert await an_oracle(rate, kind, seed=5)(Where("cup", 2)) == expected


@pytest.mark.parametrize("kind", ["independent", "sticky", "systematic"])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.6, 1.0])
async def test_answers_are_right_at_the_rate(kind, rate):
    oracle = an_oracle(rate, kind)
    answers = [await oracle(Where(f"thing {n}")) for n in range(4000)]
    low, high = binomial_bounds(rate, len(answers))
    assert low <= answers.count("fridge") / len(answers) <= high


async def test_an_independent_error_does_not_stay():
    oracle = an_oracle(0.5)
    answers = [await oracle(Where("cup")) for _ in range(2000)]
    low, high = binomial_bounds(0.5, len(answers))
    assert low <= answers.count("fridge") / len(answers) <= high
    pairs = [a == b == "fridge" for a, b in zip(answers[::2], answers[1::2], strict=True)]
    low, high = binomial_bounds(0.25, len(pairs))
    assert low <= sum(pairs) / len(pairs) <= high, "an asking does not depend on the one before"


async def test_a_sticky_error_stays_in_its_situation_and_no_further():
    oracle = an_oracle(0.5, "sticky")
    first = [await oracle(Where("cup", n)) for n in range(200)]
    assert [await oracle(Where("cup", n)) for n in range(200)] == first
    low, high = binomial_bounds(0.5, len(first))
    assert low <= first.count("fridge") / len(first) <= high


async def test_a_systematic_error_stays_whatever_is_asked_around_it():
    oracle = an_oracle(0.5, "systematic")
    answers_about = {
        thing: {await oracle(Where(thing, n)) for n in range(20)}
        for thing in map("thing {}".format, range(100))
    }
    assert all(len(answers) == 1 for answers in answers_about.values())
    assert {"fridge", "oven"} < set().union(*answers_about.values())
    others = [await an_oracle(0.5, "systematic", seed=seed)(Where("cup")) for seed in range(100)]
    assert 30 < others.count("fridge") < 70, "another run believes something else"


@pytest.mark.parametrize("kind", ["independent", "sticky", "systematic"])
async def test_the_order_of_asking_does_not_matter(kind):
    questions = [Where(f"thing {n % 7}", n % 3) for n in range(42)]
    forwards, backwards = an_oracle(0.5, kind), an_oracle(0.5, kind)
    first = [(question, await forwards(question)) for question in questions]
    second = [(question, await backwards(question)) for question in reversed(questions)]
    # Of one situation the n-th asking has the n-th answer, whatever was asked between.
    for question in set(questions):
        assert [a for q, a in first if q == question] == [a for q, a in second if q == question]


def test_another_process_gives_the_same_answers():
    code = "import asyncio; from test_roles_oracles import answers; print(asyncio.run(answers()))"
    env = importing(Path(__file__).parent) | {"PYTHONHASHSEED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert done.stdout.strip() == str(asyncio.run(answers()))


async def answers():
    oracle = an_oracle(0.5)
    return [await oracle(Where(f"thing {n % 5}", n % 2)) for n in range(40)]


def moved(question, answer, thing, rng):
    return answer | {thing: rng.choice(PLACES[1:])}


BY_ITEM = Rule(
    right=lambda question: dict.fromkeys(("cup", "pan", "egg", "jam"), "fridge"),
    wrong=lambda question, rng: dict.fromkeys(("cup", "pan", "egg", "jam"), "oven"),
    situation=lambda question: (question.thing, question.around),
    items=Items(names=lambda question: ("cup", "pan", "egg", "jam"), spoil=moved),
)


async def test_each_item_errs_on_its_own():
    oracle = an_oracle(0.7, rule=BY_ITEM, unit="item")
    answers = [await oracle(Where("all")) for _ in range(1000)]
    right = [place == "fridge" for answer in answers for place in answer.values()]
    low, high = binomial_bounds(0.7, len(right))
    assert low <= sum(right) / len(right) <= high
    whole = sum(set(answer.values()) == {"fridge"} for answer in answers) / len(answers)
    low, high = binomial_bounds(0.7**4, len(answers))
    assert low <= whole <= high


async def test_an_answer_of_items_can_err_as_a_whole():
    oracle = an_oracle(0.7, rule=BY_ITEM)
    answers = [await oracle(Where("all")) for _ in range(1000)]
    assert {tuple(answer.values()) for answer in answers} == {("fridge",) * 4, ("oven",) * 4}


async def test_wrong_items_stay_wrong_systematically():
    oracle = an_oracle(0.5, "systematic", rule=BY_ITEM, unit="item")
    first = await oracle(Where("all"))
    assert all([await oracle(Where("all", n)) == first for n in range(30)])
    assert any(
        [
            await an_oracle(0.5, "systematic", rule=BY_ITEM, unit="item", seed=n)(Where("all"))
            != first
            for n in range(1, 10)
        ]
    )


def test_a_rule_without_items_cannot_err_by_item():
    with pytest.raises(
        ValueError,
        match="role where has no items, so no item can err; write unit: answer",
    ):
        an_oracle(0.5, unit="item")


async def test_where_every_answer_is_right_or_none_is():
    only_right = Rule(right=lambda q: "yes", wrong=lambda q, rng: None, situation=lambda q: (q,))
    assert await an_oracle(0.0, rule=only_right)("?") == "yes"
    only_wrong = Rule(right=lambda q: None, wrong=lambda q, rng: "no", situation=lambda q: (q,))
    assert await an_oracle(1.0, rule=only_wrong)("?") == "no"
    neither = Rule(right=lambda q: None, wrong=lambda q, rng: None, situation=lambda q: (q,))
    with pytest.raises(ValueError, match="role where: its rule has no answer to '\\?'"):
        await an_oracle(1.0, rule=neither)("?")


def test_an_oracle_describes_itself_as_json():
    described = an_oracle(0.9, "systematic", seed=4).describe()
    assert json.loads(json.dumps(described)) == {
        "role": "where",
        "oracle": {"rate": 0.9, "unit": "answer", "kind": "systematic"},
        "key": "(seed, role, situation[0])",
        "seed": 4,
    }


BY_THING = replace(
    RULE, kinds=Kinds(names=("cold", "hot"), of=lambda question: question.thing.split()[0])
)


def test_a_kind_of_question_may_have_a_rate_of_its_own():
    errors = Errors(rate=0.5, rates={"cold": 1.0, "hot": 0.1})
    oracle = Oracle("where", BY_THING, errors=errors, seed=1)
    for thing, rate in (("cold cup", 1.0), ("hot cup", 0.1)):
        answers = [asyncio.run(oracle(Where(thing, n))) for n in range(1000)]
        low, high = binomial_bounds(rate, 1000)
        assert low <= answers.count("fridge") / 1000 <= high


def test_a_kind_without_a_rate_of_its_own_has_the_common_one():
    oracle = Oracle("where", BY_THING, errors=Errors(rate=1.0, rates={"hot": 0.0}), seed=1)
    assert asyncio.run(oracle(Where("cold cup"))) == "fridge"
    assert asyncio.run(oracle(Where("hot cup"))) != "fridge"
    assert oracle.describe()["oracle"]["rates"] == {"hot": 0.0}


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (BY_THING, "no questions of the kind 'cool', so `rates` cannot name it; did you mean cold"),
        (RULE, "no questions of the kind 'cool', so `rates` cannot name any: leave it out"),
    ],
)
def test_a_rate_of_a_kind_that_there_is_not(rule, message):
    with pytest.raises(SettingsError, match=message):
        Oracle("where", rule, errors=Errors(rates={"cool": 0.5}), seed=0)


ROLES = ("propose", "dynamics")


def test_one_word_for_all_roles():
    assert read_roles("llm", known=ROLES).of("propose") == "llm"
    assert read_roles("rules", known=ROLES).of("dynamics") == Errors(rate=1.0)


def test_a_file_says_who_answers(tmp_path):
    file = tmp_path / "roles.yaml"
    file.write_text("propose: {model: small}\ndynamics: {rate: 0.9, kind: systematic}\n")
    roles = read_roles(str(file), known=(*ROLES, "reward"))
    assert roles.of("propose") == OwnModel("small")
    assert roles.of("dynamics") == Errors(rate=0.9, kind="systematic", unit="answer")
    assert roles.of("reward") == "llm"
    assert roles.models == {"propose": "small"}
    file.write_text("propose: {model: None}\n")
    assert read_roles(str(file), known=ROLES).of("propose") == OwnModel("none")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("propose: lm", "role propose: 'lm' does not say who answers; write llm, rules"),
        ("propose: {rat: 1}", "role propose: unknown setting 'rat'; did you mean rate"),
        ("propose: {rates: {hot: 2}}", "setting rates.hot=2 is not possible"),
        ("propose: {rate: 2}", "role propose: setting rate=2 is not possible"),
        ("propose: {kind: stick}", "setting kind='stick' is not possible"),
        ("propose: {model: x, rate: 1}", "does not say who answers; write llm"),
        ("propose: {}", "does not say who answers; write llm"),
        ("- propose", "write a mapping"),
        ("propose: {", "is not YAML"),
    ],
)
def test_a_file_that_makes_no_sense(tmp_path, content, message):
    file = tmp_path / "roles.yaml"
    file.write_text(content)
    with pytest.raises(SettingsError, match=f"roles={file}.*{message}"):
        read_roles(str(file), known=ROLES)


def test_a_file_may_name_roles_that_another_planner_asks(tmp_path):
    file = tmp_path / "roles.yaml"
    file.write_text("propose: rules\nprior: {rate: 0.5}\n")
    roles = read_roles(str(file), known=ROLES)
    assert (roles.by_role, roles.others) == ({"propose": Errors()}, ("prior",))
    file.write_text("prior: {rate: 2}\n")
    with pytest.raises(SettingsError, match=f"roles={file}: role prior: setting rate=2"):
        read_roles(str(file), known=ROLES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("prose: llm", "unknown role 'prose'; did you mean propose"),
        ("propose: rules\nprose: llm", "unknown role 'prose'; did you mean propose"),
        ("prior: llm", "names no role of this planner; it asks: propose, feasibility"),
    ],
)
def test_a_file_of_other_roles(tmp_path, content, message):
    file = tmp_path / "roles.yaml"
    file.write_text(content)
    with pytest.raises(SettingsError, match=f"roles={file}.*{message}"):
        prepare("too", settings={"roles": str(file)})


def test_a_file_is_part_of_the_settings_by_its_content(tmp_path):
    file = tmp_path / "roles.yaml"
    file.write_text("propose: llm\n")
    settings = RoleSettings.read({"roles": str(file)})
    assert settings.roles_sha256 == sha256(b"propose: llm\n").hexdigest()
    assert RoleSettings.read(settings.to_json()) == settings
    file.write_text("propose: rules\n")
    assert RoleSettings.read({"roles": str(file)}).roles_sha256 != settings.roles_sha256
    with pytest.raises(SettingsError, match="has changed"):
        RoleSettings.read(settings.to_json())
    assert RoleSettings.read({"roles": "rules"}).roles_sha256 == ""


def test_a_file_that_was_there_is_told_from_one_that_has_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roles.yaml").write_text("propose: llm\n")
    settings = RoleSettings.read({"roles": "roles.yaml"}).to_json()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    with pytest.raises(
        SettingsError,
        match=r"^these settings are not possible: what roles=roles\.yaml names cannot be read from "
        "the working directory: run it from the folder where the sweep began, or restore it$",
    ):
        RoleSettings.read(settings)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(
        SettingsError,
        match=r"is neither llm nor rules nor a file of roles: .*no such file",
    ):
        read_roles(str(tmp_path / "none.yaml"), known=ROLES)
