import re
import typing

import pytest
from pydantic import ValidationError

from llm_planning.environments.minecraft.options.language import (
    CONDITIONS,
    ChangeModel,
    OptionGrammar,
    Prediction,
    Vocabulary,
)
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.state import Change
from llm_planning.environments.minecraft.options.verbs import VERBS
from llm_planning.environments.minecraft.options.vocabulary import OBJECTS
from llm_planning.planners.tree_of_options.roles import (
    FeasibilityAnswer,
    RewardAnswer,
    TerminationAnswer,
)
from llm_planning.roles.options import one_option, reasoned, several_options
from llm_serving.answers import compact, constraint_of, parse

VOCABULARIES = typing.get_args(Vocabulary)
GRAMMARS = {vocabulary: OptionGrammar(vocabulary) for vocabulary in VOCABULARIES}


def every_model():
    yield from (FeasibilityAnswer, RewardAnswer, TerminationAnswer)
    for vocabulary in VOCABULARIES:
        grammar = GRAMMARS[vocabulary]
        yield from (several_options(grammar, k, k) for k in range(1, 9))
        yield from (several_options(grammar, 1, d) for d in (1, 12, 32))
        yield one_option(grammar)
        yield ChangeModel(vocabulary).answer


@pytest.mark.parametrize("model", list(every_model()))
def test_every_answer_is_finite(model):
    constraint = constraint_of(model)
    assert 0 < constraint.max_bytes < 6000
    re.compile(constraint.regex)


def test_proposal_has_exactly_k_options():
    grammar = GRAMMARS["closed"]
    model = several_options(grammar, 2, 2)
    option = '{"reasoning":"tools","verb":"craft","quantity":4,"item":"oak_planks"}'
    parsed = parse(model, f'{{"options":[{option},{option}]}}')
    read = [grammar.read(option.model_dump()) for option in parsed.options]
    assert read == [Option("craft", 4, "oak_planks")] * 2
    for wrong in (1, 3):
        with pytest.raises(ValidationError):
            parse(model, f'{{"options":[{",".join([option] * wrong)}]}}')


def test_a_reason_is_as_long_as_is_said():
    longer = reasoned(FeasibilityAnswer, 100)
    assert list(longer.model_fields) == ["reason", "action_valid"]
    assert parse(longer, f'{{"reason":"{"a" * 100}","action_valid":true}}').action_valid
    option = f'{{"reasoning":"{"a" * 100}","verb":"craft","quantity":4,"item":"oak_planks"}}'
    several = several_options(GRAMMARS["closed"], 1, 1, reason=100)
    assert len(parse(several, f'{{"options":[{option}]}}').options[0].reasoning) == 100
    for model in (reasoned(FeasibilityAnswer, 60), reasoned(FeasibilityAnswer, 99)):
        with pytest.raises(ValidationError):
            parse(model, f'{{"reason":"{"a" * 100}","action_valid":true}}')


def accepts(model, text):
    return re.fullmatch(constraint_of(model).regex, text) is not None


def test_closed_vocabulary_knows_its_words_only():
    text = '{"verb":"craft","quantity":1,"item":"iron_shears"}'
    assert not accepts(one_option(GRAMMARS["closed"]), text)
    assert accepts(one_option(GRAMMARS["free"]), text)
    closed = re.compile(constraint_of(one_option(GRAMMARS["closed"])).regex)
    for verb in VERBS:
        for item in OBJECTS:
            assert closed.fullmatch(f'{{"verb":"{verb}","quantity":64,"item":"{item}"}}')


@pytest.mark.parametrize("quantity", ["0", "65", "1.0", "01", '"3"'])
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_quantity_is_1_to_64(quantity, vocabulary):
    text = f'{{"verb":"craft","quantity":{quantity},"item":"bucket"}}'
    assert not accepts(one_option(GRAMMARS[vocabulary]), text)


@pytest.mark.parametrize("score", ["0.0", "0.1", "0.5", "1.0"])
def test_scores_are_tenths(score):
    names = RewardAnswer.model_fields
    text = "{" + ",".join(f'"{name}":{score}' for name in names) + "}"
    assert accepts(RewardAnswer, text)
    assert parse(RewardAnswer, text).redundancy == float(score)
    assert not accepts(RewardAnswer, text.replace(score, "1.1", 1))


def test_prediction_becomes_a_change():
    text = (
        '{"gained":[{"item":"stick","count":4},{"item":"stick","count":2}],'
        '"lost":[{"item":"oak_planks","count":2}],"blocks":["iron_ore"],"entities":["cow"],'
        '"equipped":["wooden_pickaxe"],"conditions":["time night","height 12"]}'
    )
    for vocabulary in VOCABULARIES:
        model = ChangeModel(vocabulary).answer
        assert accepts(model, text)
        prediction = parse(model, text)
        assert compact(prediction) == text
        assert prediction.change() == Change(
            gained={"stick": 6},
            lost={"oak_planks": 2},
            blocks=("iron_ore",),
            entities=("cow",),
            equipped="wooden_pickaxe",
            time="night",
            height=12.0,
        )


def test_items_that_are_written_freely_are_read_as_ids():
    option = {"verb": "mine", "quantity": 2, "item": "minecraft:oak_log"}
    assert GRAMMARS["free"].read(option) == Option("mine", 2, "oak_log")
    assert str(GRAMMARS["free"].read(option | {"item": "Oak log"})) == "mine 2 oak_log"
    text = (
        '{"gained":[{"item":"Oak planks","count":4},{"item":"oak_planks","count":2}],"lost":'
        '[{"item":"minecraft:oak_log","count":1}],"blocks":["iron ore"],"entities":["Cow"],'
        '"equipped":["wooden pickaxe"],"conditions":[]}'
    )
    assert parse(ChangeModel("free").answer, text).change() == Change(
        gained={"oak_planks": 6},
        lost={"oak_log": 1},
        blocks=("iron_ore",),
        entities=("cow",),
        equipped="wooden_pickaxe",
    )


def test_every_condition_changes_one_attribute():
    for condition in CONDITIONS:
        prediction = Prediction(
            gained=[], lost=[], blocks=[], entities=[], equipped=[], conditions=[condition]
        )
        attribute, value = condition.split(" ")
        kind = str if attribute in ("biome", "time") else float
        assert prediction.change() == Change(**{attribute: kind(value)})
