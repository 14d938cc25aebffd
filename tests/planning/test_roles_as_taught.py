"""A taught model is asked as its lessons asked, or a line says that it is not."""

import logging
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import yaml
from recording import Babbler

from llm_planning.commands.distill_teaching import RECORDED, LessonOptions, _worlds
from llm_planning.distill.course import Course
from llm_planning.experiments.grid import load_sweep
from llm_planning.planners.mc_dml import lessons
from llm_planning.planners.mc_dml.roles import Observation
from llm_planning.planners.mc_dml.specs import SPECS
from llm_planning.roles import Engines, engines, metered
from llm_planning.roles.engines import usage_by_role
from llm_planning.roles.exercises import parts_asked
from llm_planning.roles.measuring import digest
from llm_planning.running import prepare
from llm_serving.models import Card, read_card
from llm_serving.models.catalogue import TAUGHT

ROOT = Path(__file__).parents[2]
MATRIX = ROOT / "configs" / "matrix" / "models.yaml"
CARDS = {name: read_card(model.adapter) for name, model in TAUGHT.items()}

SMALL = {"simulations": 2, "simulations_per_action": 2, "moves": 3, "attempts": 1}
"""Settings that keep a trial short; what they bound does not change how a role is asked."""

IN_GAME_WORDS = {"role", "now", "actions", "line", "action"}
IN_GENERAL_WORDS = {"rules", "about", "goal"}
STRANGE = {
    **dict.fromkeys((spec.name for spec in SPECS), ("prior", IN_GAME_WORDS)),
    "react": ("prior", {"thought"}),
    "react-action": ("propose", {"game", "options"}),
}
STRANGE_IN_GAMES = {
    **dict.fromkeys(("puct", "llm-policy"), ("prior", IN_GENERAL_WORDS)),
    "react": ("prior", {"thought", *IN_GENERAL_WORDS}),
}
"""Planner -> a role, and some parts of its questions in the matrix that no lesson had. The page of
the matrix says so."""


def babbler_as(model):
    """Says anything that is allowed, in the name of a taught model."""
    engine = Babbler()
    engine.identity = replace(engine.identity, name=model, taught=CARDS[model].taught)
    return engine


@pytest.fixture
def asked(monkeypatch):
    """What is asked of a taught model in parts that no lesson had: role -> their names."""
    found = {}

    def noted(model, role, prompt):
        if strange := engines.strange_parts(model, role, prompt):
            found.setdefault(role, set()).update(strange)

    monkeypatch.setattr("llm_planning.roles.engines.note_if_strange", noted)
    return found


@pytest.fixture
def lines(caplog):
    engines._note.cache_clear()
    caplog.set_level(logging.WARNING, logger=engines.__name__)
    return lambda: [record.getMessage() for record in caplog.records]


def matrix_trials(tmp_path):
    """A trial of each planner with each bundled taught model, in the matrix's own settings."""
    blocks = []
    for block in yaml.safe_load(MATRIX.read_text("utf-8"))["grids"]:
        models = [block["model"]] if isinstance(block["model"], str) else block["model"]
        if taught := [model for model in models if model in CARDS]:
            blocks.append({"seeds": [1000], **block, "model": taught})
    file = tmp_path / "taught.yaml"
    file.write_text(yaml.safe_dump({"name": "taught", "grids": blocks}))
    chosen = {(trial.model, trial.planner): trial for trial in load_sweep(file).trials}
    assert len(chosen) > 50
    return chosen


async def test_every_cell_of_the_matrix_asks_as_the_lessons_did_or_is_known_not_to(tmp_path, asked):
    for (model, planner), trial in matrix_trials(tmp_path).items():
        settings = {
            key: min(value, SMALL[key]) if key in SMALL else value
            for key, value in trial.settings.items()
        }
        chosen = prepare(planner, domain=trial.domain, task=trial.task, settings=settings)
        asked.clear()
        engine = babbler_as(model)
        await chosen.run(metered(Engines(engine)), trial.seed)
        assert engine.asked, (model, planner)
        known = STRANGE_IN_GAMES if trial.domain == "textgame" else STRANGE
        role, parts = known.get(planner, ("", set()))
        assert [*asked] == [role] * bool(role), (model, planner)
        assert not role or parts <= asked[role], (model, planner)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"examples": 0}, []),
        ({}, ["prior otherwise than it is asked: no lesson had examples", "set examples=0"]),
        (
            {"prior": "index", "examples": 1},
            ["no lesson had examples, labelled, label", "set examples=0 and prior=exact"],
        ),
    ],
)
async def test_a_run_says_once_that_a_model_is_asked_otherwise(settings, says, lines):
    """The model of homes was taught without examples; the default shows three."""
    given = {"simulations": 3, "moves": 2, "state_prior": "exact", **settings}
    for _ in range(2):
        chosen = prepare("llm-mcts", domain="household", settings=given)
        await chosen.run(metered(Engines(babbler_as("smollm2-135m-household"))), 0)
    assert len(lines()) == bool(says)
    for text in says:
        assert text in lines()[0]
    assert all("smollm2-135m-household was taught " in line for line in lines())


async def test_a_remedy_is_told_once_for_all_roles_and_parts(lines):
    """Asked in general words in another layout, every role of the planner is strange."""
    settings = {"layout": "paper", "iter": 4, "d": 3, "k": 2, "attempts": 1}
    asking = metered(Engines(babbler_as("smollm2-135m-planner")))
    await prepare("too", domain="minecraft", task="cook-meat", settings=settings).run(asking, 0)
    assert len(usage_by_role(asking)) > 2
    (line,) = lines()
    assert "was taught propose otherwise than it is asked: no lesson had role, " in line


async def test_a_world_in_other_words_is_one_line(caplog):
    """`react-action` plans in units, of which the cards of Minecraft know nothing."""
    engines._note.cache_clear()
    settings = {"attempts": 1}
    chosen = prepare("react-action", domain="minecraft", task="cook-meat", settings=settings)
    with caplog.at_level(logging.WARNING, logger="llm_planning"):
        await chosen.run(metered(Engines(babbler_as("smollm2-135m-planner"))), 0)
    (record,) = caplog.records
    assert "was taught propose otherwise than it is asked" in record.getMessage()


async def test_a_run_in_words_of_another_layout_is_told_in_one_line(lines):
    """ToO asks a taught model in general words where its short ones do not fit."""
    chosen = prepare("cot", domain="minecraft", task="cook-meat", settings={"layout": "paper"})
    await chosen.run(metered(Engines(babbler_as("smollm2-135m-minecraft"))), 0)
    (line,) = lines()
    assert "smollm2-135m-minecraft was taught decompose otherwise than it is asked" in line


async def test_of_an_older_card_nothing_is_said(lines):
    card = CARDS["smollm2-135m-household"].to_json()
    del card["parts"]
    engine = Babbler()
    engine.identity = replace(engine.identity, taught=Card.model_validate(card).taught)
    assert not engine.identity.taught.parts
    await prepare("llm-mcts-policy", domain="household", settings={"moves": 2}).run(
        metered(Engines(engine)), 0
    )
    assert engine.asked
    assert not lines()


@pytest.mark.parametrize("domain", ["household", "blocksworld", "minecraft"])
def test_a_bundled_card_has_the_parts_of_its_lessons(domain):
    card = CARDS[f"smollm2-135m-{domain}"]
    states, seed = card.recipe["states"], card.recipe["seed"]
    worlds = _worlds(domain, LessonOptions(roles=(), hold_out=None, states=states, seed=seed))
    course = Course(worlds, states=states, seed=seed)
    assert digest(course.exercises(0)) == card.recipe["lessons_sha256"]
    assert card.parts == parts_asked(
        exercise for batch in range(RECORDED) for exercise in course.exercises(batch)
    )


def test_the_card_of_text_games_has_the_parts_of_its_lessons(monkeypatch):
    seen = Observation("A door.", "A room.", "A key.")
    moment = lessons.Moment([(seen, "wait")] * 3, seen, ["open door", "wait"], ["open door"], 2)
    monkeypatch.setattr(lessons, "moments", lambda _kind, _number: (moment,))
    made = lessons.GameLessons()
    drawn = (
        exercise
        for number in range(100)
        for exercise in made.about_one_state(Random(number), roles=("prior",), held_out=False)
    )
    assert CARDS["smollm2-135m-textworld"].parts == parts_asked(drawn)
