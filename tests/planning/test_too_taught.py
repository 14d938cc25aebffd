"""A model that a simulator taught is asked in the words that it was taught."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.execution.option_prompts import NOW, PREDICTED, START
from llm_planning.execution.options import OptionState
from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.exercises import ROLES
from llm_planning.planners.tree_of_options.older_words import TAUGHT_ORDER, older_digest
from llm_planning.planners.tree_of_options.roles import OptionQuestion, RewardAnswer
from llm_planning.planners.tree_of_options.settings import OptionSearchSettings, UnpredictedSettings
from llm_planning.roles import Engines
from llm_planning.roles.short import words_of
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


def roles(words, answer, *, taught=ROLES, kind=OptionSearchSettings, **settings):
    taught = Taught(roles=taught, words_sha256=(words,)) if words else None
    identity = ModelIdentity(name="student", revision="1", dtype="float32", taught=taught)
    engine = ScriptedEngine(lambda request: answer, identity=identity)
    return engine, OptionAsking(DOMAIN, Engines(engine), kind.read(settings), seed=0)


def asked(engine):
    return [message.content for message in engine.requests[-1].prompt]


async def test_it_is_asked_in_few_words_after_the_state():
    engine, ask = roles(words_of(DOMAIN), '{"reason":"pig near","action_valid":true}')
    await ask.of(ask.roles.feasibility(NOW))(QUESTION)
    system, user = asked(engine)
    assert system == "You know this world and what every action does in it."
    assert user == (
        "At: plains, height 64, day\n"
        "Near: grass_block, dirt, 32 oak_log, oak_leaves, stone, 17 coal_ore, water, 4 pig, "
        "4 chicken\n"
        "Has: nothing\n"
        f"goal: {DOMAIN.goal}\n\nfeasibility\noption: kill 1 pig"
    )


@pytest.mark.parametrize(("k", "named", "kept"), [(2, 3, 2), (3, 3, 3), (5, 5, 5)])
async def test_it_names_at_least_as_many_options_as_it_learned(k, named, kept):
    engine, ask = roles(words_of(DOMAIN), '{"options":[' + ",".join([OPTION] * named) + "]}")
    assert len(await ask.propose(k, NOW)(TAU)) == kept
    assert asked(engine)[1].endswith("\n\npropose")


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("", {}),
        ("of another world", {}),
        ("today's", {"layout": "paper"}),
        ("today's", {"taught": ("dynamics",)}),
    ],
)
async def test_others_are_asked_in_the_general_words(words, options):
    words = words_of(DOMAIN) if words == "today's" else words
    engine, ask = roles(words, '{"done":false}', **options)
    assert await ask.of(ask.roles.termination(NOW))(TAU) is False
    assert "You decide whether a goal in Minecraft is reached" in "\n".join(asked(engine))


async def test_to_judge_an_option_it_sees_the_state_before_and_the_change():
    engine, ask = roles(words_of(DOMAIN), SCORES)
    after = replace(STATE, inventory={"porkchop": 2})
    judged = replace(TAU, state=after, described=DOMAIN.describe(after))
    await ask.of(ask.roles.reward(PREDICTED))(OptionQuestion(judged, QUESTION.option, before=TAU))
    prompt = asked(engine)[1]
    assert prompt.startswith(f"{DOMAIN.brief(STATE)}\ngoal: {DOMAIN.goal}\n\n")
    assert prompt.endswith(
        "\n\nreward\noption: kill 1 pig\nthen: Has: 2 porkchop\nno more: Has: nothing"
    )


async def test_without_a_world_model_it_sees_the_start_and_the_options_since():
    engine, ask = roles(words_of(DOMAIN), '{"done":false}', kind=UnpredictedSettings)
    since = (QUESTION.option, DOMAIN.advise(STATE)[1])
    tau = replace(TAU, options=since, since=since)
    await ask.of(ask.roles.termination(START))(tau)
    beginning = f"{DOMAIN.brief(STATE)}\ngoal: {DOMAIN.goal}\nsince: {since[0]}; {since[1]}\n\n"
    assert asked(engine)[1] == f"{beginning}termination"
    engine, ask = roles(words_of(DOMAIN), SCORES, kind=UnpredictedSettings)
    after = replace(tau, since=(*since, QUESTION.option))
    await ask.of(ask.roles.reward(START))(OptionQuestion(after, QUESTION.option, before=tau))
    assert asked(engine)[1] == f"{beginning}reward\noption: {QUESTION.option}"


async def test_a_whole_plan_has_a_name_of_its_own():
    """DRIP calls something else `decompose`, and asks it in the same state."""
    engine, ask = roles(words_of(DOMAIN), f'{{"options":[{OPTION}]}}', taught=("decompose",))
    await ask.of(ask.roles.decompose())(TAU)
    assert asked(engine)[1].endswith("\n\nplan")


def test_crafts_of_another_mode_are_other_words():
    assert words_of(DOMAIN) != words_of(Minecraft(options="single"))


# The bundled adapter's words; they go with `older_words` when it is taught again.


async def test_the_bundled_adapter_is_asked_in_its_own_words(caplog):
    engine, ask = roles(older_digest(DOMAIN), '{"reason":"pig near","action_valid":true}')
    await ask.of(ask.roles.feasibility(NOW))(QUESTION)
    assert asked(engine)[1].endswith(f"\n\nGoal: {DOMAIN.goal}\n\nOption: kill 1 pig\n\nPossible?")
    engine, ask = roles(older_digest(DOMAIN), '{"options":[' + ",".join([OPTION] * 3) + "]}")
    assert len(await ask.propose(2, NOW)(TAU)) == 2
    assert asked(engine)[1].endswith("The next 3 options?")
    engine, ask = roles(older_digest(DOMAIN), SCORES)
    after = replace(STATE, inventory={"porkchop": 2})
    judged = replace(TAU, state=after, described=DOMAIN.describe(after))
    await ask.of(ask.roles.reward(PREDICTED))(OptionQuestion(judged, QUESTION.option, before=TAU))
    assert asked(engine)[1].endswith("Then: +2 porkchop\n\nScores?")
    assert not caplog.records
    assert set(TAUGHT_ORDER) == set(ROLES)


async def test_the_bundled_adapter_was_not_taught_what_nobody_predicted():
    engine, ask = roles(older_digest(DOMAIN), '{"done":false}', kind=UnpredictedSettings)
    await ask.of(ask.roles.termination(START))(TAU)
    assert "at the start, before any option" in asked(engine)[1]


@pytest.mark.skipif(PLANNER not in CATALOGUE, reason="no adapter is shipped")
def test_the_shipped_adapter_was_taught_in_todays_words():
    """If this fails, words changed: make the adapter again (docs/distillation.md)."""
    assert resolve(PLANNER).taught.words_sha256 == (older_digest(DOMAIN),)
    assert read_card(CATALOGUE[PLANNER].adapter).words_sha256 == (older_digest(DOMAIN),)
