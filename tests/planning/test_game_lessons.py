"""Lessons of π in text games: of which games they are, what is right, and what they tell."""

from random import Random

import pytest
from test_lesson_seeds import seeds

from llm_planning.environments.textgame.domain import open_text_game
from llm_planning.environments.textgame.open_games import GameSettings
from llm_planning.planners.mc_dml import lessons
from llm_planning.planners.mc_dml.lessons import GameLessons, moments
from llm_planning.registry import exercise_makers, find_domain
from llm_planning.roles.measuring import digest
from llm_serving.models.folders import cache_folder
from llm_serving.scripted import ScriptedEngine

LEVEL = 5


@pytest.fixture
def _two_games(monkeypatch):
    """Games 0 and 1 of one kind, the second held out; they have seeds that others' tests play."""
    monkeypatch.setattr(lessons, "LEVELS_TAUGHT", {"custom": (LEVEL,)})
    monkeypatch.setattr(lessons, "FIRST", 1)
    monkeypatch.setattr(lessons, "GAMES", 2)
    monkeypatch.setattr(lessons, "HELD_OUT_OF", 2)
    moments.cache_clear()
    yield
    moments.cache_clear()


def made(count=40, **wanted):
    return [
        exercise
        for seed in range(count)
        for exercise in GameLessons().about_one_state(
            Random(seed), **{"roles": ["prior"], "held_out": False, **wanted}
        )
    ]


def test_lessons_are_taught_and_exercises_measured():
    spec = find_domain("textgame")
    assert isinstance(exercise_makers(spec, words="taught")["prior"], GameLessons)
    assert not isinstance(exercise_makers(spec, words="general")["prior"], GameLessons)
    assert GameLessons().about_one_state(Random(0), roles=["reflection"], held_out=False) == ()


def test_no_game_of_a_table_is_taught():
    played = seeds("game_seed")
    assert {1, 6, 1000, 1007} <= played
    assert max(played) < lessons.FIRST


@pytest.mark.usefixtures("_two_games")
async def test_an_action_is_right_if_fewer_are_left_after_it():
    settings = GameSettings(game_seed=1, level=LEVEL, remember="memory")
    async with open_text_game("custom", settings) as game:
        found = [moment async for moment in lessons._moments(game, Random(3))]
        assert found[0].past == []
        assert found[0].left == len(game.walkthrough)
        for number, action in enumerate(game.walkthrough):
            past = list(game.walkthrough[max(number - 3, 0) : number])
            here = next(moment for moment in found if [move for _, move in moment.past] == past)
            assert action in here.right
            assert here.left == len(game.walkthrough) - number
        assert len(found) > len(game.walkthrough)
        for moment in found:
            assert 0 < len(moment.right) < len(moment.actions)
            assert set(moment.right) < set(moment.actions)


@pytest.mark.usefixtures("_two_games")
async def test_right_actions_win_in_as_many_moves_as_are_left():
    settings = GameSettings(game_seed=1, level=LEVEL, remember="memory")
    async with open_text_game("custom", settings) as game:
        played = lessons._Played(game)
        way = await played.way(game.walkthrough[:1], 3, Random(2))
        await played.along(way[-1].now, game.walkthrough[1:])
        await played.explore([move.now for move in way])
        left = played.left()
        here = way[-1].now
        for moves_left in range(left[here.state], 0, -1):
            assert left[here.state] == moves_left
            reached = [await played.step(here, action) for action in await game.actions(here)]
            here = next(there for there in reached if left.get(there.state) == moves_left - 1)
        assert game.success(here)


@pytest.mark.usefixtures("_two_games")
def test_lessons_follow_from_their_generator_alone():
    first = made()
    moments.cache_clear()
    assert digest(first) == digest(made())  # now read from the cache
    (place,) = (cache_folder() / "games").glob(f"moments-custom-{LEVEL}-1")
    (place / "moments.json").write_text("[]")
    moments.cache_clear()
    assert digest(first) == digest(made())  # a damaged file is made anew
    for exercise in first:
        assert exercise.grade(exercise.answer).right
        assert exercise.kinds["games"] == "seen"
    assert {exercise.kinds["turns"] for exercise in first} == {"0", "1", "3"}
    advised = ["Advice from earlier games" in exercise.prompt[-1].content for exercise in first]
    assert 0 < sum(advised) < len(advised) / 2


@pytest.mark.usefixtures("_two_games")
def test_one_game_in_so_many_is_held_out():
    taught, asked = moments("custom", 0), moments("custom", 1)
    assert taught != asked
    words = {moment.seen.look for moment in taught}
    for exercise in made(held_out=True):
        assert exercise.kinds["games"] == "held out"
        assert not any(look and look in exercise.prompt[-1].content for look in words)


@pytest.mark.usefixtures("_two_games")
def test_moments_are_made_without_a_cache_that_can_be_written(monkeypatch, caplog):
    def full(*_, **__):
        raise OSError("no room")

    kept = digest(made())
    moments.cache_clear()
    monkeypatch.setattr(lessons, "is_intact", lambda *_: False)
    monkeypatch.setattr(lessons, "publish", full)
    assert digest(made()) == kept
    assert "are for this process alone" in caplog.text


@pytest.mark.usefixtures("_two_games")
async def test_a_model_is_asked_as_mc_dml_asks_it():
    exercise = made(1)[0]
    engine = ScriptedEngine(
        {}, score=lambda _, choices: [float(choice == exercise.answer) for choice in choices]
    )
    assert await exercise.ask(engine) == exercise.answer
    ((prompt, choices),) = engine.scored
    assert exercise.answer in choices
    assert exercise.prompt[-1].content.partition("\n- -")[0] in prompt
