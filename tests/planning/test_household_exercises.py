"""Exercises of the policy at home: the ways they lie on, what is right, and what is held out."""

from random import Random

import pytest
from command_line import invoke
from household_homes import flat, own_task

from llm_planning.environments.household.expert import Expert
from llm_planning.environments.household.home import bundled_home
from llm_planning.environments.household.tasks import TaskMaker, trajectory
from llm_planning.planners.llm_mcts import exercises
from llm_planning.planners.llm_mcts.exercises import PolicyExercises
from llm_planning.registry import exercise_makers, find_domain
from llm_planning.roles.measuring import MATERIAL, draw_exercises
from llm_serving.scripted import ScriptedEngine


def made(seeds=60, held_out=False):
    return [
        one
        for seed in range(seeds)
        for one in PolicyExercises().about_one_state(
            Random(seed), roles=["prior"], held_out=held_out
        )
    ]


def way(task, seed=0):
    return list(exercises._way(task.rules, Expert(task.rules), task.start, Random(seed)))


def training_tasks(count):
    maker = TaskMaker(bundled_home("seen"))
    return [maker.training_task(number, seed=1) for number in range(1, count + 1)]


def test_the_prior_at_home_has_one_maker():
    makers = exercise_makers(find_domain("household"), words="general")
    assert list(makers) == ["prior"]
    assert isinstance(makers["prior"], PolicyExercises)
    assert PolicyExercises().about_one_state(Random(0), roles=["goal"], held_out=False) == ()


def test_without_guesses_a_way_is_the_experts(monkeypatch):
    monkeypatch.setattr(exercises, "GUESSED", 0.0)
    for task in training_tasks(6):
        expected = trajectory(task)
        moments = way(task)
        assert [one.state for one in moments] == list(expected.states)
        assert [one.done for one in moments] == [
            expected.actions[:step] for step in range(len(expected.actions))
        ]


def test_a_guesser_without_slips_looks_in_vain_and_arrives(monkeypatch):
    """It finds everything, as it thinks again; its ways are longer, never shorter."""
    monkeypatch.setattr(exercises, "GUESSED", 1.0)
    monkeypatch.setattr(exercises, "SLIPS", 0.0)
    detours = 0
    for number, task in enumerate(training_tasks(40)):
        moments, shortest = way(task, number), Expert(task.rules).length(task.start)
        assert shortest <= len(moments) <= 30
        last = moments[-1].state
        assert Expert(task.rules).length(last) == 1
        detours += len(moments) > shortest
    assert detours > 10


def test_a_guesser_keeps_to_what_it_thinks(tmp_path, monkeypatch):
    """Whoever thinks of the chest goes to the hall, and opens it there, whatever is on the way."""
    monkeypatch.setattr(exercises, "GUESSED", 1.0)
    monkeypatch.setattr(exercises, "SLIPS", 0.0)
    task = own_task(flat(tmp_path), "the hat on the table")
    hat = task.rules.things.index("hat")
    bench = tuple((hat,) if place == 3 else () for place in range(4))
    state = task.start._replace(room=0, places=bench)
    ways = [
        list(exercises._way(task.rules, Expert(task.rules), state, Random(seed)))
        for seed in range(8)
    ]
    assert {tuple(map(str, one[-1].done)) for one in ways} == {
        (
            "walk to the hall",
            "walk to the hat",
            "grab the hat",
            "walk to the kitchen",
            "walk to the table",
        )
    }


def test_slips_are_rare(monkeypatch):
    monkeypatch.setattr(exercises, "SLIPS", 1.0)
    monkeypatch.setattr(exercises, "GUESSED", 1.0)
    (task,) = training_tasks(1)
    assert len(way(task)) == 30


def test_right_answers_bring_the_expert_nearer():
    found = made()
    assert len(found) > 200
    for one in found:
        assert one.grade(one.answer).right
        assert one.grade(one.answer).said == one.said == one.answer
    assert not found[0].grade("close the fridge").right if False else True
    assert {one.kinds["home"] for one in found} == {"seen"}
    assert {one.kinds["class"] for one in found} == {"simple", "comp"}
    assert len({one.prompt[0] for one in found}) > 40


def test_right_and_known_by_hand(tmp_path):
    """The pear lies in the closed fridge; the agent stands in the kitchen, and then before it."""
    task = own_task(flat(tmp_path), "the pear in the chest")
    rules, pear = task.rules, task.rules.things.index("pear")
    places = tuple((pear,) if place == 0 else () for place in range(4))
    start = task.start._replace(room=0, places=places)
    world = exercises.Household(
        exercises_task := type(task)(name=task.name, rules=rules, start=start)
    )
    wording = exercises.ActWording(world)
    moments = []
    for seed in range(40):
        moments += exercises._way(rules, world.expert, exercises_task.start, Random(seed))
    asked = {
        tuple(map(str, one.done)): exercises._exercise(one, world, wording, kinds={}, dashes=1)
        for one in moments
    }
    first = asked[()]
    assert first.answer == "walk to the fridge"
    assert first.kinds == {"left": "4 to 7 actions", "thing": "unseen"}
    assert not first.grade("walk to the hall").right
    opened = asked["walk to the fridge", "open the fridge"]
    assert opened.answer == "grab the pear"
    assert opened.kinds["thing"] == "seen"
    # Whoever has looked knows it, from another room as well.
    left = asked.get(("walk to the fridge", "open the fridge", "walk to the hall"))
    assert left is None or left.kinds["thing"] == "seen"


def test_what_is_held_out_is_never_taught():
    found = made(80, held_out=True)
    assert {(one.kinds["home"], one.kinds["class"]) for one in found} == {
        *(("seen", name) for name in ("novel-simple", "novel-comp-2", "novel-comp-3")),
        *(
            ("unseen", name)
            for name in ("simple", "comp", "novel-simple", "novel-comp-2", "novel-comp-3")
        ),
    }
    assert {one.kinds["thing"] for one in found} == {"seen", "unseen"}
    assert not {one.prompt[0] for one in found} & {one.prompt[0] for one in made(200)}


def test_a_measurement_asks_half_of_what_is_new():
    drawn = draw_exercises(PolicyExercises(), "prior", count=20, seed=0)
    assert [one.kinds[MATERIAL] for one in drawn] == ["seen"] * 10 + ["held out"] * 10
    again = draw_exercises(PolicyExercises(), "prior", count=20, seed=0)
    assert [(one.prompt, one.answer, one.kinds) for one in drawn] == [
        (one.prompt, one.answer, one.kinds) for one in again
    ]


async def test_a_model_is_asked_for_all_actions():
    (one, *_) = made(1)
    engine = ScriptedEngine(
        {}, score=lambda _, choices: [float(choice == one.answer) for choice in choices]
    )
    assert await one.ask(engine) == one.answer
    ((prompt, choices),) = engine.scored
    assert len(choices) > 5
    assert one.prompt[1].content.partition("\n\n-")[0] in prompt


def test_lessons_are_exported(tmp_path):
    file = tmp_path / "chats.jsonl"
    ended = invoke("distill", "household", "--export", file, "--questions", "12")
    assert ended.exit_code == 0, ended.stderr
    assert len(file.read_text("utf-8").splitlines()) == 12


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--role", "goal"], "household has no such role; "),
        (["--hold-out", "apple"], "household has no teacher, so 'apple' cannot be held out"),
    ],
)
def test_what_cannot_be_taught_is_one_line(tmp_path, options, said):
    ended = invoke("distill", "household", "--out", tmp_path / "out", *options)
    assert ended.exit_code == 2
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1
