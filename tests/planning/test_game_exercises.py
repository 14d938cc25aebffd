"""Exercises of the prior in text games: where they lie, what is right, and how a model is asked."""

from random import Random

import pytest

from llm_planning.environments.textgame.domain import open_text_game
from llm_planning.environments.textgame.open_games import GameSettings
from llm_planning.planners.mc_dml import exercises
from llm_planning.planners.mc_dml.exercises import GameExercises, moments
from llm_planning.registry import exercise_makers, find_domain
from llm_planning.roles.measuring import digest
from llm_serving.scripted import ScriptedEngine

pytestmark = pytest.mark.usefixtures("_one_game")


@pytest.fixture
def _one_game(monkeypatch):
    monkeypatch.setattr(exercises, "ASKED_KINDS", ("custom",))
    monkeypatch.setattr(exercises, "GAMES", (1,))


def made(seeds=40, **wanted):
    return [
        exercise
        for seed in range(seeds)
        for exercise in GameExercises().about_one_state(
            Random(seed), **{"roles": ["prior"], "held_out": False, **wanted}
        )
    ]


def test_text_games_have_a_maker_of_the_prior():
    makers = exercise_makers(find_domain("textgame"), words="general")
    assert set(makers) == {"prior"}
    assert isinstance(makers["prior"], GameExercises)
    assert made(3, held_out=True) == []
    assert made(3, roles=["reflection"]) == []


async def test_an_action_is_right_if_the_advice_is_shorter_after_it():
    strayed = 0
    async with open_text_game("custom", GameSettings(game_seed=1, remember="memory")) as game:
        moments = {
            moment.situation.state.state: moment
            async for moment in exercises._moments(game, Random(3))
        }
        here = await game.start(0)
        way = [here.state]
        for action in game.walkthrough:
            moment = moments[here.state]
            assert moment.best == action
            assert moment.left == len(game.walkthrough) - len(way) + 1
            here = (await game.step(here, action, Random(0))).state
            way.append(here.state)
        for moment in moments.values():
            strayed += moment.situation.state.state not in way
            assert moment.left == len(await game.advise(moment.situation.state))
            for action in moment.situation.actions:
                after = (await game.step(moment.situation.state, action, Random(0))).state
                left = 0 if game.success(after) else len(await game.advise(after))
                assert (action in moment.situation.right) == (left < moment.left)
    assert strayed >= 3


def test_exercises_are_the_same_for_every_maker():
    first = made()
    moments.cache_clear()
    assert digest(first) == digest(made())
    assert {exercise.kinds["asked"] for exercise in first} == {"exact", "index"}
    assert {exercise.kinds["game"] for exercise in first} == {"custom"}
    for exercise in first:
        assert exercise.grade(exercise.answer).right
        assert exercise.grade(exercise.answer).brief == exercise.brief


def test_the_turn_before_is_told_and_no_other():
    start, *others = moments("custom", 1)
    assert start.situation.memory == ()
    assert {len(other.situation.memory) for other in others} == {1}
    assert all(other.situation.reflections == () for other in others)


async def test_a_model_is_asked_as_mc_dml_asks_it():
    exercise = next(exercise for exercise in made() if exercise.kinds["asked"] == "exact")
    engine = ScriptedEngine(
        {}, score=lambda _, choices: [float(choice == exercise.answer) for choice in choices]
    )
    assert await exercise.ask(engine) == exercise.answer
    ((prompt, choices),) = engine.scored
    assert exercise.answer in choices
    assert exercise.prompt[-1].content.partition("\n-")[0] in prompt
