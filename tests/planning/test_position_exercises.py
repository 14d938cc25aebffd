"""Exercises of the role `position`: what is right, what is held out, how a model is asked."""

from random import Random
from statistics import mean

import pytest

from llm_planning.environments.household.home import bundled_home
from llm_planning.planners.llm_mcts.exercises import PositionExercises
from llm_planning.planners.llm_mcts.positions import NEUTRAL
from llm_planning.registry import exercise_makers, find_domain
from llm_planning.roles.measuring import draw_exercises
from llm_serving.scripted import ScriptedEngine


def made(seeds=60, **wanted):
    for seed in range(seeds):
        yield from PositionExercises().about_one_state(
            Random(seed), **{"roles": ["position"], "held_out": False, **wanted}
        )


def about(thing, way):
    return next(
        exercise
        for exercise in made(2000)
        if (exercise.kinds["asked"], exercise.kinds["home"]) == (way, "seen")
        and f"the {thing} " in exercise.prompt[-1].content
    )


def test_households_have_a_maker_of_positions():
    makers = exercise_makers(find_domain("household"), words="general")
    assert isinstance(makers["position"], PositionExercises)
    assert list(made(3, roles=["goal"])) == []


@pytest.mark.parametrize("way", ["exact", "samples"])
def test_right_is_where_the_law_has_a_thing(way):
    home = bundled_home("seen")
    exercise = about("apple", way)
    law = home.law[home.things.index("apple")]
    assert 0 < sum(weight > 0 for weight in law) < len(law)
    for place, weight in zip(home.places, law, strict=True):
        assert exercise.grade(f"{place.relation} the {place.name}").right == (weight > 0)
    assert exercise.grade(exercise.answer).right
    assert exercise.brief == exercise.answer


def thing_of(exercise):
    return exercise.prompt[-1].content.partition("may the ")[2].removesuffix(" be?")


def positions(home):
    return [f"{place.relation} the {place.name}" for place in home.places]


def test_lessons_answer_by_the_law():
    """What is no thing in particular may be anywhere, so that it calibrates nothing away."""
    home = bundled_home("seen")
    law = {
        thing: {
            name: weight / sum(weights)
            for name, weight in zip(positions(home), weights, strict=True)
        }
        for thing, weights in zip(home.things, home.law, strict=True)
    }
    law |= dict.fromkeys(NEUTRAL, dict.fromkeys(positions(home), 1 / len(home.places)))
    lessons = [exercise for exercise in made(3000) if exercise.kinds["asked"] == "exact"]
    for things in ({*NEUTRAL}, {*home.things}):
        asked = [exercise for exercise in lessons if thing_of(exercise) in things]
        answered = mean(law[thing_of(exercise)][exercise.answer] for exercise in asked)
        expected = mean(
            sum(share**2 for share in law[thing_of(exercise)].values()) for exercise in asked
        )
        assert answered == pytest.approx(expected, rel=0.05)
    assert 0.09 < sum(thing_of(exercise) in NEUTRAL for exercise in lessons) / len(lessons) < 0.16


def test_the_exam_asks_for_the_likeliest_place():
    home = bundled_home("unseen")
    for exercise in made(held_out=True):
        law = home.law[home.things.index(thing_of(exercise))]
        assert exercise.answer == positions(home)[law.index(max(law))]


def test_an_answer_with_one_wrong_place_is_wrong():
    exercise = about("apple", "samples")
    home = bundled_home("seen")
    law = home.law[home.things.index("apple")]
    places = [f"{place.relation} the {place.name}" for place in home.places]
    right = [text for text, weight in zip(places, law, strict=True) if weight > 0]
    wrong = next(text for text, weight in zip(places, law, strict=True) if not weight)
    assert exercise.grade(", ".join(right[:2])).right
    assert not exercise.grade(f"{right[0]}, {wrong}").right


def test_the_other_home_is_held_out():
    homes = {(exercise.kinds["asked"], exercise.kinds["home"]) for exercise in made()}
    assert homes == {("exact", "seen"), ("samples", "seen"), ("samples", "drawn")}
    assert {exercise.kinds["home"] for exercise in made(held_out=True)} == {"unseen"}
    drawn = draw_exercises(PositionExercises(), "position", count=20, seed=0)
    assert len({exercise.prompt for exercise in drawn}) == 20
    assert {exercise.kinds["asked"] for exercise in drawn} == {"exact", "samples"}


async def test_exact_asks_for_the_likeliest_place():
    exercise = about("apple", "exact")

    def score(text, choices):
        thing = "the apple" in text.rpartition("Where")[2]
        return [2.0 * (thing and choice == "on the bed") for choice in choices]

    engine = ScriptedEngine({}, score=score)
    assert await exercise.ask(engine) == "on the bed"
    assert len(engine.scored) == 4  # the thing, and three words for no thing in particular


async def test_samples_ask_for_one_answer_of_several_places():
    exercise = about("apple", "samples")
    engine = ScriptedEngine({"position": ["inside the fridge, on the bed"]})
    assert set((await exercise.ask(engine)).split(", ")) == {"inside the fridge", "on the bed"}
