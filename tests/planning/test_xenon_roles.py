"""XENON's roles by the setting `roles`: the rule book's answers, and errors of a stated rate."""

from math import exp
from random import Random

import pytest

from llm_planning.environments.minecraft.book.rulebook import game_rules
from llm_planning.environments.minecraft.items.text_world import TextWorld
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.planners.xenon.asking import MinecraftAsking
from llm_planning.planners.xenon.roles import (
    INTERVENE,
    ActionQuestion,
    CorrectionQuestion,
    Failure,
    MinecraftRoles,
    NeedsQuestion,
    RankingQuestion,
    StuckQuestion,
)
from llm_planning.planners.xenon.settings import AskingSettings, LearningSettings
from llm_planning.roles import Engines
from llm_planning.settings import SettingsError
from llm_serving.encoder_engine import EncoderEngine

BOOK = game_rules()
WORLD = TextWorld(BOOK)
ROLES = MinecraftRoles(WORLD, seed=0)


def answered(file, text):
    file.write_text(text)
    settings = LearningSettings.read({"roles": str(file)})
    return MinecraftAsking(WORLD, Engines(EncoderEngine()), settings, seed=3)


def test_requirements_are_the_books():
    asked = NeedsQuestion("furnace")
    assert ROLES.predict().rule.right(asked) == {"cobblestone": 8, "crafting_table": 1}
    assert ROLES.predict().rule.right(NeedsQuestion("no_such_thing")) == {}
    assert ROLES.correct().rule.right(CorrectionQuestion("stick", asking=2)) == {"planks": 2}


@pytest.mark.parametrize("item", ["furnace", "stick", "log", "no_such_thing"])
def test_wrong_requirements_are_never_right(item):
    """Also of an item that requires nothing: then something is added."""
    asked = NeedsQuestion(item)
    wrong = [ROLES.predict().rule.wrong(asked, Random(seed)) for seed in range(200)]
    assert ROLES.predict().rule.right(asked) not in wrong
    assert len({tuple(requirements.items()) for requirements in wrong}) > 20


def test_analyses_blame_the_action_or_what_is_missing():
    failure = Failure(item="furnace", action="mine", believed={}, inventory={"cobblestone": 3})
    rule = ROLES.analyse().rule
    assert rule.right(failure) == "mine furnace: mine never obtains it; craft does"
    lacking = "it requires 8 cobblestone and 1 crafting_table"
    assert rule.wrong(failure, Random(0)) == f"mine furnace: {lacking}"
    tried = Failure(item="furnace", action="craft", believed={}, inventory={"cobblestone": 8})
    assert rule.right(tried) == "craft furnace: it requires 1 crafting_table"


def test_rankings_by_hand():
    asked = RankingQuestion("furnace", ("stick", "cobblestone", "crafting_table", "log"))
    shares = [exp(logprob) for logprob in ROLES.rank().rule.right(asked)]
    assert shares == pytest.approx([0.05, 0.45, 0.45, 0.05])
    wrong = [exp(logprob) for logprob in ROLES.rank().rule.wrong(asked, Random(0))]
    assert max(wrong) == pytest.approx(0.9)
    assert wrong.index(max(wrong)) in {0, 3}


def test_a_stuck_controller_is_freed_or_not():
    asked = StuckQuestion("dark", "mine log", "log")
    assert INTERVENE.rule.right(asked)
    assert INTERVENE.rule.wrong(asked, Random(0)) == ""


async def test_a_role_that_is_not_asked_needs_no_model(tmp_path):
    by = answered(tmp_path / "roles.yaml", "choose: rules\nrank: {model: other}\n")
    assert await by.choose(ActionQuestion("stick", WORLD.verbs)) == "craft"
    with pytest.raises(SettingsError, match="the model other of role 'rank' is not open"):
        by.rank  # noqa: B018


def test_a_profile_is_one_word_of_the_planners_that_have_it():
    for name, profile, rate in (("xenon", "table12", 0.23), ("xenon-cooking", "sticky-40", 0.6)):
        read = PLANNERS[name].settings.read({"roles": profile})
        assert (read.assignment.of("choose").rate, read.roles_sha256) == (rate, "")
    message = "roles=table12 is neither llm nor rules nor sticky-40 nor a file of roles"
    with pytest.raises(SettingsError, match=message):
        PLANNERS["xenon-cooking"].settings.read({"roles": "table12"}).assignment  # noqa: B018


def test_the_roles_of_a_planner_may_be_in_the_file_of_another(tmp_path):
    file = tmp_path / "roles.yaml"
    file.write_text("choose: rules\ntool: rules\n")
    assert AskingSettings.read({"roles": str(file)}).assignment.of("choose").rate == 1.0
