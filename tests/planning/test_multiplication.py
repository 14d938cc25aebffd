"""Multiplication: the world, the two planners by hand and by rates, and what is refused."""

import asyncio
import json
from math import log2, sqrt
from pathlib import Path
from random import Random

import pytest
from golden import golden

from llm_planning.domain import DomainError
from llm_planning.environments.multiplication.domain import MULTIPLICATION, Multiplication, Writing
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.planners.llm_mcts.analysis.multiplication import (
    Times,
    answer_model,
    facts_used,
    long_multiplication,
    product_role,
    table_bits,
)
from llm_planning.roles import Engines, Errors, Oracle
from llm_planning.running import prepare
from llm_planning.settings import SettingsError
from llm_serving import constraint_of
from llm_serving.scripted import ScriptedEngine

ORACLES = Path(__file__).parents[2] / "configs" / "llm_mcts" / "oracles"
POLICY, MODEL = "l-policy-multiplication", "l-model-multiplication"
HELD_OUT = range(5000, 5400)
EXACT = {(a, b): a * b for a in range(10) for b in range(10)}


async def run(planner, *, engine=None, seed=0, **settings):
    prepared = prepare(planner, domain="multiplication", settings=settings)
    return await prepared.run(Engines(engine), seed)


# THE WORLD ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", range(1, 6))
def test_pairs_have_so_many_digits_and_are_drawn_from_the_seed(digits):
    world = Multiplication(digits)
    pairs = [world.factors(world.start(seed)) for seed in range(300)]
    assert pairs == [Multiplication(digits).factors(world.start(seed)) for seed in range(300)]
    assert {len(str(number)) for pair in pairs for number in pair} == {digits}
    assert len(set(pairs)) > (70 if digits == 1 else 290)


def test_only_the_exact_product_is_a_success():
    world = Multiplication(2)
    for written, won in (("0408", True), ("0407", False), ("4080", False)):
        state, step = Writing(12, 34, ""), None
        for digit in written:
            assert step is None or not step.done
            step = world.step(state, digit, Random(0))
            state = step.state
        assert (step.done, step.reward, world.success(state)) == (True, float(won), won)
        assert not world.actions(state)
        assert world.step(state, "1", Random(0)).obstacle == "all digits are written"
    assert not world.success(Writing(12, 34, "040"))
    assert world.step(Writing(12, 34, "0"), "12", Random(0)) == (
        Writing(12, 34, "0"), 0.0, False, None, "12 is not a digit", "12 is not a digit", 0.0
    )  # fmt: skip


def test_advice_is_what_is_missing():
    world = Multiplication(2)
    assert "".join(world.advise(Writing(12, 34, "04"))) == "08"
    assert world.advise(Writing(12, 34, "1")) == ()
    assert world.describe(Writing(12, 34, "0")) == "12 x 34 = 0___ (4 digits in all, 1 is written)"


@pytest.mark.parametrize("planner", ["react", "puct"])
async def test_planners_of_every_domain_write_with_the_rules(planner):
    outcome = await run(planner, digits=2, roles="rules", seed=3)
    assert outcome.success
    assert len(outcome.plan) == 4


# BY HAND -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "wrong", "product"),
    [
        (12, 34, {}, 408),
        (7, 0, {}, 0),
        (99999, 99999, {}, 9999800001),
        (12, 34, {(2, 4): 9}, 409),  # the units
        (12, 34, {(1, 3): 2}, 308),  # the hundreds
        (11, 11, {(1, 1): 2}, 242),  # one fact, used four times: 2 + 20 + 20 + 200
        (12, 34, {(2, 4): 18, (1, 4): 3}, 408),  # two errors that make up for each other
        (12, 34, {(3, 1): 81, (4, 2): 81}, 408),  # facts the other way round are not used
    ],
)
def test_long_multiplication_by_hand(first, second, wrong, product):
    assert long_multiplication(first, second, EXACT | wrong) == product


def test_no_table_has_a_product_of_too_many_digits():
    most = dict.fromkeys(EXACT, 81)
    for digits in range(1, 6):
        number = 10**digits - 1
        assert long_multiplication(number, number, most) == number**2


def test_facts_that_are_used():
    assert facts_used(12, 34) == {(1, 3), (1, 4), (2, 3), (2, 4)}
    assert facts_used(11, 31) == {(1, 3), (1, 1)}


def test_description_lengths():
    assert table_bits(1) == pytest.approx(200 * log2(10))  # 100 entries of two digits
    assert table_bits(3) == pytest.approx(6e6 * log2(10))
    for digits in range(1, 5):  # n 10^(2n): the next one is longer by this factor
        ratio = table_bits(digits + 1) / table_bits(digits)
        assert ratio == pytest.approx(100 * (digits + 1) / digits)


@pytest.mark.parametrize("case", golden("multiplication"))
async def test_golden_traces(case):
    engine = ScriptedEngine(case.run["answers"])
    outcome = await run(
        case.run["planner"], engine=engine, seed=case.run["seed"], digits=case.run["digits"]
    )
    first = engine.requests[0]
    case.check(
        {
            "asked": len(engine.requests),
            "first question": [message.content for message in first.prompt],
            "text": outcome.text,
            "plan": outcome.plan,
            "metrics": outcome.metrics,
            "trace": outcome.trace,
        }
    )


async def test_the_model_is_asked_for_all_facts_at_once():
    """No question waits for the answer of another, so the engine sees a hundred of them."""
    waiting = most = 0

    class Slow(ScriptedEngine):
        async def generate(self, request):
            nonlocal waiting, most
            waiting += 1
            most = max(most, waiting)
            await asyncio.sleep(0)
            waiting -= 1
            return await super().generate(request)

    engine = Slow(lambda request: '{"product":1}')
    await run(MODEL, engine=engine)
    asked = {request.prompt[1].content for request in engine.requests}
    assert (most, len(asked)) == (100, 100)
    assert {request.role for request in engine.requests} == {"fact"}


@pytest.mark.parametrize("digits", range(1, 6))
def test_an_answer_is_a_possible_product_and_nothing_else(digits):
    answer = answer_model(digits)
    largest = (10**digits - 1) ** 2
    assert constraint_of(answer).max_bytes == len(json.dumps({"product": largest}).replace(" ", ""))
    assert answer(product=largest).product == largest
    with pytest.raises(ValueError, match="less than or equal"):
        answer(product=largest + 1)


# BY RATES ----------------------------------------------------------------------------------------


def near(share, expected, n, *, sigmas=3.5):
    """Whether a share of n runs is what a binomial of this probability gives."""
    return abs(share - expected) <= sigmas * sqrt(expected * (1 - expected) / n) + 1e-12


def roles(folder, rate, **more):
    path = folder / "roles.yaml"
    oracle = {"rate": rate, "kind": "systematic", **more}
    path.write_text(json.dumps({"product": oracle, "fact": oracle}))
    return str(path)


@pytest.mark.parametrize(("rate", "digits"), [(0.9, 1), (0.6, 5)])
async def test_the_policy_is_right_as_often_as_its_oracle(tmp_path, rate, digits):
    file = roles(tmp_path, rate)
    won = [(await run(POLICY, roles=file, digits=digits, seed=s)).success for s in HELD_OUT]
    assert near(sum(won) / len(won), rate, len(won))


@pytest.mark.parametrize(("rate", "digits"), [(0.95, 2), (0.98, 5)])
async def test_the_model_is_right_as_often_as_all_facts_that_it_uses(tmp_path, rate, digits):
    file = roles(tmp_path, rate)
    runs = [await run(MODEL, roles=file, digits=digits, seed=s) for s in HELD_OUT[:150]]
    chances = [rate ** run.metrics["facts_used"] for run in runs]
    share = sum(run.success for run in runs) / len(runs)
    spread = sqrt(sum(p * (1 - p) for p in chances)) / len(runs)
    assert abs(share - sum(chances) / len(runs)) <= 3.5 * spread
    for ended in runs:
        if not ended.metrics["facts_used_wrong"]:
            assert ended.success
        if ended.metrics["facts_used_wrong"] == 1:  # a single error is never made up for
            assert not ended.success
    wrong = sum(run.metrics["facts_wrong"] for run in runs) / (100 * len(runs))
    assert near(wrong, 1 - rate, 100 * len(runs))


async def test_a_wrong_answer_stays_wrong_and_is_never_the_right_one():
    errors = Errors(rate=0.0, kind="systematic")
    oracle = Oracle("fact", product_role("fact", Multiplication(), 1).rule, errors=errors, seed=1)
    products = {}
    for pair in EXACT:
        answers = {await oracle(Times(*pair, 1)) for _ in range(3)}
        assert len(answers) == 1
        products[pair] = answers.pop()
    assert not [pair for pair, product in products.items() if product == EXACT[pair]]
    assert min(products.values()) >= 0
    assert max(products.values()) <= 81
    assert len(set(products.values())) > 40


@pytest.mark.parametrize(("digits", "rate"), [(1, 1.0), (2, 0.99), (4, 0.04), (5, 0.0)])
async def test_the_oracle_at_the_rates_quoted_of_gpt_4(digits, rate):
    file = str(ORACLES / "products-gpt4.yaml")
    won = [(await run(POLICY, roles=file, digits=digits, seed=s)).success for s in HELD_OUT]
    assert near(sum(won) / len(won), rate, len(won))
    assert (await run(MODEL, roles=file, digits=digits, seed=5)).success


# WHAT IS REFUSED ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"digits": 0}, "setting digits=0 is not possible"),
        ({"digits": 6}, "setting digits=6 is not possible"),
        ({"digit": 2}, "unknown setting 'digit'; did you mean digits"),
        ({"roles": "nobody.yaml"}, "roles"),
    ],
)
async def test_impossible_settings_are_one_line(settings, says):
    with pytest.raises(SettingsError, match=says) as raised:
        await run(MODEL, **settings)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"rates": {"six-digit": 0.5}}, "no questions of the kind 'six-digit'"),
        ({"unit": "item"}, "has no items"),
        ({"mistakes": ["dropped"]}, "no kinds of mistakes"),
    ],
)
async def test_impossible_oracles_are_one_line(tmp_path, more, says):
    with pytest.raises(ValueError, match=says) as raised:
        await run(MODEL, roles=roles(tmp_path, 0.5, **more))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("planner", [POLICY, MODEL])
def test_they_plan_in_no_other_world(planner):
    with pytest.raises(DomainError, match="needs a domain that gives two numbers to multiply"):
        prepare(planner, domain="blocksworld", settings={})


def test_planners_of_other_worlds_say_what_is_missing():
    assert PLANNERS["cot"].lacks(MULTIPLICATION)
    with pytest.raises(DomainError, match="needs a domain that"):
        prepare("cot", domain="multiplication", settings={})
