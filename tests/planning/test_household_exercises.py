"""Exercises of the policy at home: the ways they lie on, what is right, and what is held out."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from command_line import invoke
from household_homes import flat, own_task

from llm_planning.environments.household.expert import Expert
from llm_planning.environments.household.home import bundled_home
from llm_planning.environments.household.tasks import TaskMaker, trajectory
from llm_planning.planners.llm_mcts import exercises
from llm_planning.planners.llm_mcts.exercises import (
    ANYWHERE,
    BY_LAW,
    EXPERT,
    PolicyExercises,
)
from llm_planning.registry import exercise_makers, find_domain
from llm_serving.scripted import ScriptedEngine


def made(seeds=30, held_out=False):
    return [
        exercise
        for seed in range(seeds)
        for exercise in PolicyExercises().about_one_state(
            Random(seed), roles=["prior"], held_out=held_out
        )
    ]


@pytest.fixture(scope="module")
def taught():
    """What may be taught."""
    return made()


def way(task, walker, seed=0):
    return list(exercises._way(task, Expert(task.rules), Random(seed), walker=walker))


def training_tasks(count):
    maker = TaskMaker(bundled_home("seen"))
    return [maker.training_task(number, seed=1) for number in range(1, count + 1)]


def test_the_prior_at_home_has_one_maker():
    makers = exercise_makers(find_domain("household"), words="general")
    assert set(makers) == {"goal", "position", "prior"}
    assert isinstance(makers["prior"], PolicyExercises)
    assert PolicyExercises().about_one_state(Random(0), roles=["goal"], held_out=False) == ()


def test_the_experts_way_is_its_trajectory():
    for task in training_tasks(6):
        expected = trajectory(task)
        moments = way(task, EXPERT)
        assert [moment.state for moment in moments] == list(expected.states)
        assert [moment.done for moment in moments] == [
            expected.actions[:step] for step in range(len(expected.actions))
        ]


def test_seekers_look_in_vain_and_arrive(monkeypatch):
    """Whoever knows the law looks in vain less often than whoever imagines things anywhere."""
    monkeypatch.setattr(exercises, "SLIPS", 0.0)
    detours = dict.fromkeys((BY_LAW, ANYWHERE), 0)
    for number, task in enumerate(training_tasks(60)):
        expert = Expert(task.rules)
        shortest = expert.length(task.start)
        for walker in detours:
            moments = way(task, walker, number)
            assert shortest <= len(moments) <= 30
            assert expert.length(moments[-1].state) == 1 or len(moments) == 30
            detours[walker] += len(moments) > shortest
    assert 4 < detours[BY_LAW] < detours[ANYWHERE] - 10


def placed(task, **where):
    """The task with the agent in the kitchen, and nothing at home but these things."""
    names = [place.name for place in task.rules.home.places]
    places: list[tuple[int, ...]] = [()] * len(names)
    for thing, place in where.items():
        places[names.index(place)] = (task.rules.things.index(thing),)
    return replace(task, start=task.start._replace(room=0, places=tuple(places)))


def test_a_seeker_believes_what_it_sees(tmp_path, monkeypatch):
    """The hat is on the bench. It may be imagined in the fridge, but is seen from the door."""
    monkeypatch.setattr(exercises, "SLIPS", 0.0)
    task = placed(own_task(flat(tmp_path), "the hat on the table"), hat="bench")
    ways = {tuple(map(str, way(task, ANYWHERE, seed)[-1].done)) for seed in range(30)}
    known = ("walk to the hat", "grab the hat", "walk to the kitchen", "walk to the table")
    assert ways == {
        ("walk to the hall", *known),
        ("walk to the fridge", "open the fridge", "walk to the hall", *known),
    }


def test_slips_are_any_action(tmp_path, monkeypatch):
    monkeypatch.setattr(exercises, "SLIPS", 1.0)
    (task,) = training_tasks(1)
    assert len(way(task, BY_LAW)) == 30


def test_right_answers_bring_the_expert_nearer(taught):
    assert len(taught) > 100
    for exercise in taught:
        assert exercise.grade(exercise.answer).right
        assert exercise.grade(exercise.answer).brief == exercise.brief == exercise.answer
    homes = Counter(exercise.kinds["home"] for exercise in taught)
    assert set(homes) == {"seen", "drawn"}
    assert 0.2 < homes["seen"] / len(taught) < 0.5
    assert {exercise.kinds["class"] for exercise in taught} == {"simple", "comp"}
    assert len({exercise.prompt[0] for exercise in taught}) > 25


def test_right_and_known_by_hand(tmp_path):
    """The pear is in the closed fridge, and is wanted in the chest."""
    task = placed(own_task(flat(tmp_path), "the pear in the chest"), pear="fridge")
    world = exercises.Household(task)
    wording = exercises.ActWording(world)
    asked = {
        tuple(map(str, moment.done)): exercises._exercise(
            moment, world, wording, kinds={}, dashes=2
        )
        for seed in range(100)
        for moment in way(task, BY_LAW, seed)
    }
    first = asked[()]
    assert first.answer == "walk to the fridge"
    assert first.kinds == {"left": "4 to 7 actions", "thing": "unseen"}
    assert first.prompt[1].content.endswith("\n\n- -\n\nYour action:")
    assert not first.grade("walk to the hall").right
    assert not first.grade("walk to the table").right
    there = ("walk to the fridge", "open the fridge")
    assert (asked[there].answer, asked[there].kinds["thing"]) == ("grab the pear", "seen")
    # Whoever has looked knows it in another room as well.
    away = asked[*there, "walk to the hall"]
    assert (away.answer, away.kinds["thing"]) == ("walk to the kitchen", "seen")
    assert asked["walk to the hall",].kinds["thing"] == "unseen"


def test_what_is_held_out_is_never_taught(taught):
    drawn = made(40, held_out=True)
    assert {(exercise.kinds["home"], exercise.kinds["class"]) for exercise in drawn} == {
        *(("seen", name) for name in ("novel-simple", "novel-comp-2", "novel-comp-3")),
        *(
            ("unseen", name)
            for name in ("simple", "comp", "novel-simple", "novel-comp-2", "novel-comp-3")
        ),
    }
    assert {exercise.kinds["thing"] for exercise in drawn} == {"seen", "unseen"}
    assert not {exercise.prompt[0] for exercise in drawn} & {
        exercise.prompt[0] for exercise in taught
    }


async def test_a_model_is_asked_for_all_actions(taught):
    exercise = taught[0]
    engine = ScriptedEngine(
        {}, score=lambda _, choices: [float(choice == exercise.answer) for choice in choices]
    )
    assert await exercise.ask(engine) == exercise.answer
    ((prompt, choices),) = engine.scored
    assert len(choices) > 5
    assert exercise.prompt[1].content.partition("\n\n-")[0] in prompt


def test_lessons_are_exported(tmp_path):
    file = tmp_path / "chats.jsonl"
    ended = invoke("distill", "household", "--export", file, "--questions", "12")
    assert ended.exit_code == 0, ended.stderr
    assert len(file.read_text("utf-8").splitlines()) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--role", "propose"], "household has no such role; "),
        (["--hold-out", "apple"], "household has no teacher, so 'apple' cannot be held out"),
    ],
)
def test_what_cannot_be_taught_is_one_line(tmp_path, options, message):
    ended = invoke("distill", "household", "--out", tmp_path / "out", *options)
    assert ended.exit_code == 2
    assert message in ended.stderr
    assert ended.stderr.count("\n") == 1
