"""A model that a simulator taught is asked in the words that it was taught."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from llm_planning.environments.minecraft.domain import Minecraft
from llm_planning.planners.tree_of_options.answers import RewardAnswer
from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.exercises import ROLES
from llm_planning.planners.tree_of_options.prompts import NOW, PREDICTED, START, taught_words
from llm_planning.planners.tree_of_options.settings import OptionSearchSettings
from llm_planning.planners.tree_of_options.states import OptionQuestion, OptionState
from llm_planning.roles import Engines
from llm_serving import ScriptedEngine
from llm_serving.models import CATALOGUE, read_card, resolve
from llm_serving.request import ModelIdentity, Taught

DOMAIN = Minecraft(task="cook-meat")
STATE = DOMAIN.start(0)
TAU = OptionState(DOMAIN.goal, STATE, DOMAIN.describe(STATE))
QUESTION = OptionQuestion(TAU, DOMAIN.advise(STATE)[0])
OPTION = '{"reasoning":"no meat","verb":"kill","quantity":1,"item":"pig"}'
SCORES = RewardAnswer(**dict.fromkeys(RewardAnswer.model_fields, 0.5)).model_dump_json()
PLANNER = "smollm2-135m-planner"


def roles(words, answer, *, taught=ROLES, **settings):
    taught = Taught(roles=taught, words_sha256=words) if words else None
    identity = ModelIdentity(name="student", revision="1", dtype="float32", taught=taught)
    engine = ScriptedEngine(lambda request: answer, identity=identity)
    return engine, OptionAsking(
        DOMAIN, Engines(engine), OptionSearchSettings.read(settings), seed=0
    )


def asked(engine):
    return [message.content for message in engine.requests[-1].prompt]


async def test_it_is_asked_in_one_line_after_the_state():
    engine, ask = roles(taught_words(DOMAIN), '{"reason":"pig near","action_valid":true}')
    await ask.of(ask.roles.feasibility(NOW))(QUESTION)
    system, user = asked(engine)
    assert system == "You know this world and what every option does in it."
    assert user == (
        "At: plains, height 64, day\n"
        "Near: grass_block, dirt, 32 oak_log, oak_leaves, stone, 17 coal_ore, water, 4 pig, "
        "4 chicken\n"
        "Has: nothing\n\n"
        f"Goal: {DOMAIN.goal}\n\nOption: kill 1 pig\n\nPossible?"
    )


@pytest.mark.parametrize(("k", "named", "kept"), [(2, 3, 2), (3, 3, 3), (5, 5, 5)])
async def test_it_names_at_least_as_many_options_as_it_learned(k, named, kept):
    engine, ask = roles(taught_words(DOMAIN), '{"options":[' + ",".join([OPTION] * named) + "]}")
    assert len(await ask.propose(k, NOW)(TAU)) == kept
    assert asked(engine)[1].endswith(f"The next {named} options?")


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("", {}),
        ("of another world", {}),
        ("today's", {"layout": "paper"}),
        ("today's", {"taught": ("dynamics",)}),
    ],
)
async def test_others_are_asked_in_the_general_words(words, options, caplog):
    words = taught_words(DOMAIN) if words == "today's" else words
    with caplog.at_level(logging.WARNING):
        engine, ask = roles(words, '{"done":false}', **options)
        assert await ask.of(ask.roles.termination(NOW))(TAU) is False
    assert "You decide whether a goal in Minecraft is reached" in "\n".join(asked(engine))
    warned = [record.getMessage() for record in caplog.records]
    expected = ["student was taught in other words, so it is asked as any model: teach it again"]
    assert warned == (expected if words == "of another world" else [])


async def test_to_judge_an_option_it_sees_the_state_before_and_the_change():
    engine, ask = roles(taught_words(DOMAIN), SCORES)
    after = replace(STATE, inventory={"porkchop": 2})
    judged = replace(TAU, state=after, described=DOMAIN.describe(after))
    await ask.of(ask.roles.reward(PREDICTED))(OptionQuestion(judged, QUESTION.option, before=TAU))
    asked_last = asked(engine)[1].split("\n\n")[1:]
    assert asked_last == [
        f"Goal: {DOMAIN.goal}",
        "Option: kill 1 pig",
        "Then: +2 porkchop",
        "Scores?",
    ]


def test_crafts_of_another_mode_are_other_words():
    assert taught_words(DOMAIN) != taught_words(Minecraft(options="single"))


async def test_questions_without_a_world_model_are_not_taught():
    engine, ask = roles(taught_words(DOMAIN), '{"done":false}')
    await ask.of(ask.roles.termination(START))(TAU)
    assert "at the start, before any option" in asked(engine)[1]


@pytest.mark.skipif(PLANNER not in CATALOGUE, reason="no adapter is shipped")
def test_the_shipped_adapter_was_taught_in_todays_words():
    """If this fails, words changed: make the adapter again (docs/distillation.md)."""
    assert resolve(PLANNER).taught.words_sha256 == taught_words(DOMAIN)
    assert read_card(CATALOGUE[PLANNER].adapter).words_sha256 == taught_words(DOMAIN)
