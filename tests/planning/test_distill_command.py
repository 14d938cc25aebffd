"""`llm-planning distill`: what it writes, and what it refuses."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest
from command_line import invoke

from llm_planning.commands import distill_teaching
from llm_planning.commands.distill_teaching import LessonOptions, _words, _worlds
from llm_planning.distill.ahead import Ahead
from llm_planning.distill.checkpoint import TrainingError
from llm_planning.distill.course import Course, lessons_of
from llm_planning.distill.tokens import LessonTokenizer
from llm_planning.environments.minecraft.options.domain import MINECRAFT, Minecraft
from llm_planning.planners.drip.settings import ROLES as DRIP
from llm_planning.planners.tree_of_options.exercises import ROLES
from llm_planning.registry import exercise_makers
from llm_planning.roles.exercises import GENERAL_WORDS, STATE, STATE_SHOWN
from llm_planning.roles.short import words_of
from llm_serving.models import read_adapter, read_card, resolve

MODEL = "smollm2-135m-instruct"

WORLDS = Path(__file__).parent / "any_domain_worlds.py"
"""A world without rules."""


@pytest.fixture(scope="module")
def maker():
    return exercise_makers(MINECRAFT, words="taught")["propose"]


@pytest.fixture(scope="module")
def course(maker):
    return Course([[(maker, ROLES)]], states=2, seed=3)


@pytest.fixture(scope="module")
def exam(course):
    return course.exam(3)


def fields_of(exercises):
    return [(exercise.role, exercise.prompt, exercise.answer) for exercise in exercises]


def test_a_batch_depends_on_its_number_and_the_seed_alone(maker, course):
    again = Course([[(maker, ROLES)]], states=2, seed=3)
    again.exercises(7)
    assert fields_of(course.exercises(4)) == fields_of(again.exercises(4))
    assert fields_of(course.exercises(4)) != fields_of(course.exercises(5))
    other = Course([[(maker, ROLES)]], states=2, seed=4)
    assert fields_of(course.exercises(4)) != fields_of(other.exercises(4))


def test_a_batch_asks_every_role_about_its_states(course):
    assert {exercise.role for exercise in course.exercises(0)} == set(ROLES)
    states = {
        exercise.prompt[1].content.partition("\ngoal: ")[0]
        for exercise in course.exercises(0)
        if exercise.kinds[STATE] == STATE_SHOWN
    }
    assert len(states) == 2


def test_the_exam_has_so_many_different_questions_of_every_role(course, exam):
    for role in ROLES:
        assert len({exercise.prompt for exercise in exam if exercise.role == role}) == 3
    assert fields_of(exam) == fields_of(Course(course._worlds, states=1, seed=99).exam(3))


def test_a_world_under_several_settings_is_taught_in_turns():
    """Every second state is of the world as it is; the others take turns, and say their rules."""
    also = [{"options": "single"}, {"options": "single", "stations": "held"}]
    lessons = LessonOptions(roles=("judge",), hold_out=None, states=4, seed=0, also=also)
    worlds = _worlds("minecraft", lessons)
    rules = [
        text.splitlines()[0] if (text := exercise.prompt[1].content).startswith("Rules") else ""
        for exercise in Course(worlds, states=4, seed=0).exercises(0)
    ]
    single, held = "Rules: single crafts, placed stations", "Rules: single crafts, held stations"
    assert list(dict.fromkeys(rules)) == ["", single, held]
    taught = [
        Minecraft(),
        Minecraft(options="single"),
        Minecraft(options="single", stations="held"),
    ]
    assert _words(worlds) == tuple(map(words_of, taught))
    assert worlds[0] is not worlds[1]
    assert [maker for maker, _ in worlds[0]] == [maker for maker, _ in worlds[2]]


@pytest.mark.parametrize(
    ("domain", "settings", "message"),
    [
        ("blocksworld", "rules=standard", "blocksworld has no teacher for settings"),
        ("minecraft", "vocabulary=free", "vocabulary=free: lessons are in the closed one"),
        ("minecraft", "options=double", "setting options='double' is not possible"),
        ("minecraft", "options", "--also options: write it as key=value"),
    ],
)
def test_settings_that_cannot_be_taught(tmp_path, domain, settings, message):
    ended = invoke("distill", domain, "--also", settings, "--out", str(tmp_path / "out"))
    assert ended.exit_code == 2
    assert message in ended.stderr


def test_lessons_weigh_what_makers_say(course):
    exercises = [
        replace(exercise, importance=1.0 + number)
        for number, exercise in enumerate(course.exercises(0)[:3])
    ]
    lessons = lessons_of(exercises, LessonTokenizer(resolve(MODEL).path))
    assert [lesson.role for lesson in lessons] == [exercise.role for exercise in exercises]
    assert [lesson.importance for lesson in lessons] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("domain", ["blocksworld", "minecraft"])
def test_judging_and_acting_have_the_largest_shares(domain):
    """All roles of a world are taught, about the same states; those that come last weigh most."""
    lessons = LessonOptions(roles=(), hold_out=None, states=4, seed=0)
    taught = Course(_worlds(domain, lessons), states=4, seed=0)
    drawn = [exercise for batch in range(2) for exercise in taught.exercises(batch)]
    weights = Counter()
    for exercise in drawn:
        weights[exercise.role] += exercise.importance
    assert set(weights) == {*ROLES, *DRIP, "prior"}
    first, second, third = (role for role, _ in weights.most_common(3))
    assert first == "judge"
    assert {"act", "prior"} == {second, third}
    states = {
        exercise.prompt[1].content.partition("\ngoal")[0].partition("\n\n")[0]
        for exercise in drawn
        if exercise.kinds.get(STATE, STATE_SHOWN) == STATE_SHOWN
        and not exercise.prompt[1].content.startswith("goal")
    }
    # A maker draws another state where it has nothing to ask.
    assert len(states) <= 10


def test_exports_are_chats(tmp_path):
    file = tmp_path / "chats.jsonl"
    ended = invoke("distill", "minecraft", "--export", str(file), "--questions", "50")
    assert ended.exit_code == 0, ended.stderr
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert len(lines) == 50
    for line in lines:
        assert [turn["role"] for turn in line["messages"]] == ["system", "user", "assistant"]
        assert line["role"] in {*ROLES, *DRIP, "prior"}
        assert line["role"] == "prior" or json.loads(line["messages"][-1]["content"])


def test_one_role_is_exported_if_it_is_asked_for(tmp_path):
    file = tmp_path / "chats.jsonl"
    ended = invoke(
        "distill", "minecraft", "--export", str(file), "--questions", "20", "--role", "prior"
    )
    assert ended.exit_code == 0, ended.stderr
    assert {json.loads(line)["role"] for line in file.read_text("utf-8").splitlines()} == {"prior"}


@pytest.mark.slow
def test_what_is_held_out_is_in_no_chat(tmp_path):
    file = tmp_path / "chats.jsonl"
    items = [f"iron_{tool}" for tool in ("axe", "sword", "shovel")]
    held_out = [part for item in items for part in ("--hold-out", item)]
    ended = invoke("distill", "minecraft", "--export", str(file), "--questions", "1500", *held_out)
    assert ended.exit_code == 0, ended.stderr
    asked = file.read_text("utf-8")
    assert not any(f"Obtain 1 {item}." in asked for item in items)
    assert not any(f"craft {count} {item}" in asked for item in items for count in (1, 2, 3))
    assert "_hoe" in asked


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["minecraft"], "--out is missing"),
        (
            [f"{WORLDS}:Corridor", "--out", "out"],
            "any_domain_worlds.py:Corridor: its rules know no right answers; add `feasible`, "
            "`advise`, `success` as plain methods",
        ),
        ([f"{WORLDS}:Tiger", "--out", "out"], "any_domain_worlds.py:Tiger: it hides its state"),
        (["minecarft", "--out", "out"], "minecraft"),
        (["minecraft", "--out", "out", "--role", "propse"], "propose"),
        (["minecraft", "--out", "out", "--hold-out", "comPass"], "cannot hold out 'comPass'"),
        (["minecraft", "--out", "out", "--resume"], "out holds no training"),
        (["minecraft", "--out", "out", "--start", "none"], "--start none: there is no adapter"),
        (
            ["minecraft", "--out", "out", "--start", "smollm2-135m-instruct"],
            "--start smollm2-135m-instruct: smollm2-135m-instruct is a bundled model and no adap",
        ),
        (["minecraft", "--out", "out", "--minutes", "0"], "--minutes 0.0: give a number above 0"),
        (["minecraft", "--out", "out", "--minutes", "nan"], "--minutes nan"),
        (["minecraft", "--out", "out", "--minutes", "1", "--batches", "1"], "leave one out"),
        (["minecraft", "--out", "out", "--rate", "inf"], "--rate inf"),
        (["minecraft", "--out", "out", "--export", "x.jsonl"], "leave --out"),
    ],
)
def test_what_is_not_possible_is_refused_in_one_line(arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("llm_planning.commands.distill_teaching._student", None)  # not opened
    ended = invoke("distill", *arguments)
    assert ended.exit_code == 2
    assert says in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow  # it trains a model for two batches, and merges it
def test_a_short_training_writes_an_adapter_that_is_a_model(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("llm_planning.commands.distill_teaching.EXAM", 2)
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "taught"
    options = ("--model", tiny, "--states", "1", "--rank", "4", "--json")
    ended = invoke("distill", "minecraft", "--out", str(out), "--minutes", "0.01", *options)
    assert ended.exit_code == 0, ended.stderr
    report = json.loads(ended.stdout)
    card = read_card(out / "adapter")
    assert report["card"] == card.to_json()
    assert card.words_sha256 == (words_of(Minecraft()),)
    assert (card.base, card.domain) == (tiny, "minecraft")
    assert set(card.roles) == card.parts.keys() == {*ROLES, *DRIP, "prior"}
    assert card.recipe["questions"] > 0
    assert report["curve"][-1]["questions"] == card.recipe["questions"]
    assert {name.partition(",")[0] for name in report["curve"][-1]["figures"]} == set(card.roles)
    assert report["curve"][0]["questions"] == 0
    assert resolve(str(out / "adapter")).taught == card.taught
    again = invoke("distill", "minecraft", "--out", str(out), "--minutes", "0.1", *options)
    assert again.exit_code == 2
    assert "go on with --resume" in again.stderr
    further = (*options, "--minutes", "0.01", "--out", str(tmp_path / "further"))
    started = invoke("distill", "minecraft", "--start", str(out / "adapter"), *further)
    assert started.exit_code == 0, started.stderr
    start = json.loads(started.stdout)["card"]["recipe"]["start"]
    assert start["revision"] == read_adapter(out / "adapter").revision
    assert start["recipe"] == card.recipe
    wide = invoke(
        *("distill", "minecraft", "--model", tiny),
        *("--start", str(out / "adapter"), "--out", str(tmp_path / "wide")),
    )
    assert wide.exit_code == 2
    assert "has rank 4" in wide.stderr
    over = invoke(
        "distill", "minecraft", "--out", str(out), "--minutes", "0.01", "--resume", *options
    )
    assert over.exit_code == 0, over.stderr
    assert json.loads(over.stdout)["card"]["recipe"]["questions"] == card.recipe["questions"]
    other = invoke(
        "distill", "minecraft", "--out", str(out), "--minutes", "9", "--resume", *options
    )
    assert other.exit_code == 1
    assert "minutes" in other.stderr


@pytest.mark.slow  # it trains the bundled model for a batch or two
def test_a_world_without_a_teacher_teaches_the_prior(tiny, tmp_path, monkeypatch):
    """At home some questions are held out, and instructions and places are taught as well."""
    monkeypatch.setattr("llm_planning.commands.distill_teaching.EXAM", 2)
    own = tmp_path / "corridor.py"
    own.write_text(CORRIDOR)
    at_home = ("household", MODEL, ("goal", "position", "prior"))
    for domain, model, roles in (at_home, (f"{own}:Corridor", tiny, ("prior",))):
        out = tmp_path / domain.rpartition(":")[2]
        options = ("--minutes", "0.01", "--states", "1", "--rank", "4")
        ended = invoke("distill", domain, "--model", model, "--out", str(out), *options)
        assert ended.exit_code == 0, ended.stderr
        card = read_card(out / "adapter")
        assert (card.base, card.domain, card.roles) == (model, domain, roles)
        assert card.words_sha256 == (GENERAL_WORDS,)
        assert ("not learned: " in ended.stdout) == (domain == "household")
        planner = "llm-mcts" if domain == "household" else "puct"
        assert f"run {planner} --domain {domain} --model" in ended.stdout.replace("\n", "")


CORRIDOR = """
from llm_planning import Domain, Step


class Corridor(Domain):
    goal = "Reach room 6."

    def start(self, seed):
        return 0

    def describe(self, state):
        return f"You are in room {state}."

    def actions(self, state):
        return [] if state == 6 else ["forward", "back"]

    def step(self, state, action, rng):
        after = max(state + (1 if action == "forward" else -1), 0)
        return Step(after, float(after == 6), after == 6)

    def success(self, state):
        return state == 6

    def feasible(self, state, action):
        return None

    def advise(self, state):
        return ["forward"] * (6 - state)
"""


class Seldom:
    """A maker that has something to ask in every third state alone."""

    roles = ("seldom",)
    taught_words = ""

    def __init__(self):
        self.drawn = 0

    def about_one_state(self, rng, *, roles, held_out):
        self.drawn += 1
        return [] if self.drawn % 3 else [rng.random()]


class Never(Seldom):
    def about_one_state(self, rng, *, roles, held_out):
        return []


def test_a_batch_has_as_many_states_with_questions_as_it_should():
    maker = Seldom()
    assert len(Course([[(maker, ("seldom",))]], states=4, seed=0).exercises(0)) == 4
    assert maker.drawn == 12


def test_a_maker_that_makes_nothing_is_refused():
    with pytest.raises(TrainingError, match="no lesson of seldom in 1000 states"):
        Course([[(Never(), ("seldom",))]], states=1, seed=0).exercises(0)


def test_seeds_of_exams_are_no_seeds_of_batches(course, exam):
    batches = {exercise.prompt for number in range(5) for exercise in course.exercises(number)}
    assert not batches & {exercise.prompt for exercise in exam}
    assert Random("exam propose 0").random() != Random("3 0").random()


@pytest.mark.slow
def test_batches_made_ahead_are_those_that_one_would_make():
    with closing(Ahead(partial(counting_from, 5), processes=1)) as batches:
        assert [batches(batch) for batch in (3, 4, 9)] == [8, 9, 14]


def counting_from(start):
    return partial(plus, start)


def plus(start, batch):
    return start + batch


@pytest.mark.parametrize(("minutes", "says"), [(0.02, "no"), (0.07, "little"), (9.0, "")])
def test_exams_that_need_most_of_the_time_are_told_beforehand(monkeypatch, capsys, minutes, says):
    clock = [0.0]

    def asked(_, exam):
        clock[0] += 0.06 if len(exam) == 2 else 0  # of the probe, one question in 20
        return {"role": 1.0}

    monkeypatch.setattr(distill_teaching, "shares_right", asked)
    monkeypatch.setattr(distill_teaching, "perf_counter", lambda: clock[0])
    report = distill_teaching._Report([None] * 40, print, minutes=minutes)
    for _ in range(2):
        assert report.examine(None) == {"role": 1.0}
    told = capsys.readouterr().err
    assert told.count("note: ") == bool(says)
    if says:
        assert "40 questions each, take about 0.0 minutes here" in told
        assert told.endswith(f"leaves {says} time to teach\n")
