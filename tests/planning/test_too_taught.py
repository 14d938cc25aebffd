"""A model that a simulator taught is asked in the words that it was taught."""

from __future__ import annotations

import logging

import pytest

from llm_planning.environments.minecraft.domain import Minecraft
from llm_planning.planners.tree_of_options.prompts import NOW, START, taught_words
from llm_planning.planners.tree_of_options.roles import OptionRoles
from llm_planning.planners.tree_of_options.settings import OptionSearchSettings
from llm_planning.planners.tree_of_options.states import OptionQuestion, OptionState
from llm_planning.roles import Engines
from llm_serving import ScriptedEngine
from llm_serving.models import CATALOGUE, read_card, resolve
from llm_serving.request import ModelIdentity

DOMAIN = Minecraft(task="cook-meat")
STATE = DOMAIN.start(0)
TAU = OptionState(DOMAIN.goal, STATE, DOMAIN.describe(STATE))
QUESTION = OptionQuestion(TAU, DOMAIN.advise(STATE)[0])
OPTION = '{"reasoning":"no meat","verb":"kill","quantity":1,"item":"pig"}'
PLANNER = "smollm2-135m-planner"


def roles(taught, answer, **settings):
    identity = ModelIdentity(name="student", revision="1", dtype="float32", taught=taught)
    engine = ScriptedEngine(lambda request: answer, identity=identity)
    return engine, OptionRoles(DOMAIN, Engines(engine), OptionSearchSettings.read(settings), seed=0)


def asked(engine):
    return [message.content for message in engine.requests[-1].prompt]


async def test_it_is_asked_in_one_line_after_the_state():
    engine, ask = roles(taught_words(DOMAIN), '{"reason":"pig near","action_valid":true}')
    await ask.feasibility(NOW)(QUESTION)
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
    ("taught", "settings"), [("", {}), ("of another world", {}), ("today's", {"layout": "paper"})]
)
async def test_others_are_asked_in_the_general_words(taught, settings, caplog):
    taught = taught_words(DOMAIN) if taught == "today's" else taught
    with caplog.at_level(logging.WARNING):
        engine, ask = roles(taught, '{"done":false}', **settings)
        assert await ask.termination(NOW)(TAU) is False
    assert "You decide whether a goal in Minecraft is reached" in "\n".join(asked(engine))
    warned = [record.getMessage() for record in caplog.records]
    expected = ["the model of role termination was taught other words: teach it again"]
    assert warned == (expected if taught == "of another world" else [])


async def test_questions_without_a_world_model_are_not_taught():
    engine, ask = roles(taught_words(DOMAIN), '{"done":false}')
    await ask.termination(START)(TAU)
    assert "at the start, before any option" in asked(engine)[1]


@pytest.mark.skipif(PLANNER not in CATALOGUE, reason="no adapter is shipped")
def test_the_shipped_adapter_was_taught_in_todays_words():
    """If this fails, words changed: make the adapter again (docs/distillation.md)."""
    assert resolve(PLANNER).taught == taught_words(DOMAIN)
    assert read_card(CATALOGUE[PLANNER].adapter).words_sha256 == taught_words(DOMAIN)
