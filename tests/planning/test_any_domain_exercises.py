"""Exercises of the prior: walks over states, questions as planners ask them, and their grades."""

from collections import Counter
from math import log
from random import Random

import pytest
from any_domain_worlds import Corridor, Tiger

from llm_planning.domain import DomainError
from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.planners.any_domain.exercises import PriorExercises
from llm_planning.planners.any_domain.roles import Situation
from llm_planning.planners.any_domain.specs import SPECS
from llm_planning.registry import find_domain, spec_of
from llm_planning.roles import RuleWalks
from llm_serving.scripted import ScriptedEngine


class Rooms(Corridor):
    """A corridor that knows its way: a user's own small world."""

    def feasible(self, state, action):
        return None

    def advise(self, state):
        return ["forward"] * (self.rooms - 1 - state)

    def success(self, state):
        return state == self.rooms - 1


class Dreams(Rooms):
    """The same, where nobody knows the room."""

    def belief(self, history, rng):
        return 0


def asked(maker, seeds=100, held_out=False):
    return [
        exercise
        for seed in range(seeds)
        for exercise in maker.about_one_state(Random(seed), roles=["prior"], held_out=held_out)
    ]


# Walks --------------------------------------------------------------------------------------------


def test_walks_cover_the_way():
    walks = RuleWalks(Rooms(6))
    counts = Counter(walks.state(Random(seed)) for seed in range(600))
    assert set(counts) == set(range(6))
    # The goal is met by few walks, and at the end of three in ten of those that reach it.
    assert 0 < counts[5] < 120
    assert counts[0] > 60


def test_a_walk_of_advice_alone_is_as_long_as_it_was_drawn():
    """Lengths 0 to 15 on a way of 10: a walk of 10 or more reaches the goal, or ends before it."""
    walks = RuleWalks(Rooms(11), advised=1.0)
    counts = Counter(walks.state(Random(seed)) for seed in range(1600))
    for room in range(9):
        # 100 ± 4 standard deviations of √(1600 / 16 · 15 / 16) = 9.7.
        assert 61 <= counts[room] <= 139
    # 6 of 16 lengths reach room 10, and 0.3 of those stay: 180 ± 4 · √(1600 · 0.1125 · 0.8875).
    assert 129 <= counts[10] <= 231


def test_a_walk_is_the_same_for_the_same_generator():
    walks = RuleWalks(Minecraft(task="cook-meat"))
    states = [walks.state(Random(seed)) for seed in range(8)]
    assert states == [walks.state(Random(seed)) for seed in range(8)]
    assert len({str(state) for state in states}) > 4


def test_a_walk_needs_rules():
    with pytest.raises(DomainError, match="Corridor needs `feasible`, `advise`, `success`"):
        RuleWalks(Corridor())


# Exercises ----------------------------------------------------------------------------------------


def test_the_planners_of_every_domain_share_one_maker():
    makers = {spec.exercises for spec in SPECS if spec.roles}
    assert len(makers) == 1
    (make,) = makers
    assert make(find_domain("minecraft"), "general").roles == ("prior",)
    assert all(spec.exercises is None for spec in SPECS if not spec.roles)


@pytest.mark.parametrize("kind", [Corridor, Tiger, Dreams])
def test_domains_without_rules_have_none(kind):
    maker = PriorExercises(spec_of(kind))
    assert maker.roles == ()
    assert asked(maker, 3) == []


def test_text_games_have_none():
    assert PriorExercises(find_domain("textgame")).roles == ()


def test_an_own_world_by_hand():
    maker = PriorExercises(spec_of(Rooms))
    exercises = asked(maker)
    assert {exercise.brief for exercise in exercises} == {"forward"}
    ways = Counter(exercise.kinds["asked"] for exercise in exercises)
    assert set(ways) == {"exact", "index"}
    # Half of at most 100 states, ± 4 standard deviations of √(100 / 4).
    assert min(ways.values()) >= len(exercises) / 2 - 20
    assert {exercise.kinds["left"] for exercise in exercises} == {
        "1 to 3 actions",
        "4 to 7 actions",
        "8 actions or more",
    }
    exact, index = (
        next(exercise for exercise in exercises if exercise.kinds["asked"] == way)
        for way in ("exact", "index")
    )
    assert (exact.answer, index.answer) == ("forward", "1")
    assert exact.grade("forward").right
    assert not exact.grade("back").right
    assert index.grade("1").right
    assert index.grade("2").brief == "back"
    assert "forward\nback" in exact.prompt[-1].content
    assert asked(maker, 5, held_out=True) == []
    assert maker.about_one_state(Random(0), roles=["think"], held_out=False) == ()


def test_right_answers_shorten_the_way_in_minecraft():
    exercises = asked(PriorExercises(find_domain("minecraft")), 40)
    assert len(exercises) > 20
    assert len({exercise.kinds["task"] for exercise in exercises}) > 4
    for exercise in exercises:
        assert exercise.grade(exercise.answer).right
        assert exercise.grade(exercise.answer).brief == exercise.brief


@pytest.mark.parametrize("wanted", ["forward", "back"])
async def test_the_likeliest_action_is_the_answer(wanted):
    """Exact scores whole actions; the scripted engine reads its labels from the prompt."""

    def score(text, choices):
        lines = {line.rpartition(wanted)[0].strip(" .:)") for line in text.splitlines()}
        return [log(0.9 if choice == wanted or choice in lines else 0.1) for choice in choices]

    engine = ScriptedEngine({}, score=score)
    exercises = asked(PriorExercises(spec_of(Rooms)), 8)
    assert {exercise.kinds["asked"] for exercise in exercises} == {"exact", "index"}
    for exercise in exercises:
        grade = exercise.grade(await exercise.ask(engine))
        assert (grade.brief, grade.right) == (wanted, wanted == "forward")


async def test_a_model_is_asked_as_puct_asks_it():
    """What the engine scores is the exercise's own prompt, but for its line of dashes."""
    engine = ScriptedEngine({}, score=lambda _, choices: [0.0] * len(choices))
    exercises = asked(PriorExercises(spec_of(Rooms)), 8)
    exact = next(exercise for exercise in exercises if exercise.kinds["asked"] == "exact")
    assert await exact.ask(engine) == "forward"
    ((prompt, choices),) = engine.scored
    assert tuple(choices) == ("forward", "back")
    asked_for = exact.prompt[-1].content.partition("\n-")[0]
    assert asked_for in prompt
    assert Situation((), "room 1", ("forward", "back"), state=1) == Situation(
        (), "room 1", ("forward", "back"), state=2
    )


@pytest.mark.slow
async def test_the_bundled_model_answers(engine):
    exercises = asked(PriorExercises(find_domain("minecraft")), 4)
    answers = [exercise.grade(await exercise.ask(engine)) for exercise in exercises]
    assert all(grade.brief for grade in answers)
    for exercise, grade in zip(exercises, answers, strict=True):
        assert grade.brief in exercise.prompt[-1].content
