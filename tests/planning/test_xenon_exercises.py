"""Exercises of XENON's questions: what they tell, what they leave out, how they are graded."""

import functools
import hashlib
import re
from random import Random

import pytest

from llm_planning.commands.distill_teaching import LessonOptions, _held_out, _makers
from llm_planning.domain import DomainError
from llm_planning.environments.halves import HALVES
from llm_planning.environments.minecraft.book.rulebook import game_rules
from llm_planning.environments.minecraft.items.halves import TOLD, left_out
from llm_planning.environments.minecraft.items.text_world import ACTIONS, TextWorld
from llm_planning.planners.xenon.exercises import ItemExercises
from llm_planning.planners.xenon.roles import Analysis, RequirementList
from llm_planning.registry import exercise_makers, find_domain
from llm_planning.roles import Engines
from llm_planning.roles.exercises import HELD_OUT, SEEN
from llm_planning.roles.measuring import MATERIAL, digest, draw_exercises
from llm_planning.running import prepare
from llm_serving.answers import compact
from llm_serving.scripted import ScriptedEngine

BOOK = game_rules()
ROLES = ("predict", "choose", "analyse", "correct")
WORD = re.compile(r"[a-z]+(?:_[a-z]+)*")


@functools.cache
def maker(name="half-0"):
    return ItemExercises(left_out([name]) if name else frozenset())


def made(count, *, name="half-0", roles=ROLES, held_out=False):
    return [
        one
        for seed in range(count)
        for one in maker(name).about_one_state(Random(seed), roles=roles, held_out=held_out)
    ]


def asked(exercise):
    """The item that a question is about."""
    line = exercise.prompt[-1].content.rsplit("\n", 1)[-1]
    first = line.split(", holding")[0].removesuffix(":")
    return first.split()[-1]


def shown(exercise):
    """The items whose recipes or actions a question shows as examples."""
    lines = exercise.prompt[-1].content.split("\n")
    return {line.split(":")[0] for line in lines if re.match(r"[a-z_]+: ", line)}


@pytest.mark.parametrize("domain", ["minecraft-goals", "minecraft-items"])
def test_the_domains_of_items_have_makers(domain):
    assert {*ROLES} < exercise_makers(find_domain(domain), words="general").keys()
    assert "predict" not in exercise_makers(find_domain("cooking"), words="general")


def test_half_of_the_book_is_drawn_by_its_seed_alone():
    halves = [left_out([name]) for name in HALVES]
    assert {len(one) for one in halves} == {(len(BOOK) - len(TOLD)) // 2}
    assert len({*halves}) == 3
    names = [hashlib.sha256(" ".join(sorted(one)).encode()).hexdigest()[:12] for one in halves]
    assert names == PINNED


PINNED = ["60bb1b4bc72d", "fbd4d10f3827", "064d6d04cd92"]
"""What was taught under these names must not change: a student's name says what it never saw."""


@pytest.mark.parametrize("name", HALVES)
def test_lessons_name_what_is_held_out_in_recipes_of_taught_items_only(name):
    hidden = left_out([name])
    lessons = made(400, name=name)
    assert len(lessons) > 2000
    mentioned = 0
    for one in lessons:
        owners = {asked(one), *shown(one)}
        assert owners.isdisjoint(hidden), one
        own = {u for item in owners for u in BOOK.requirements(item)}
        # The system message is the same whatever is held out.
        texts = (one.prompt[-1].content, one.answer)
        named = {word for text in texts for word in WORD.findall(text)} & hidden
        assert named <= own, (one, named - own)
        mentioned += bool(named)
    assert mentioned > 50  # as ingredients


def test_lessons_have_the_rules_of_the_game_and_no_others():
    for one in made(100):
        required, action = BOOK.requirements(asked(one)), BOOK.rule(asked(one)).action
        if one.role == "choose":
            assert one.answer == action
        elif one.role == "analyse":
            says = Analysis.model_validate_json(one.answer).analysis
            if one.kinds["because of"] == "the action":
                assert says.endswith(f"never obtains it; {action} does")
            else:
                lacking = set(WORD.findall(says)) - {"it", "requires", "and"}
                assert lacking
                assert lacking <= required.keys()
        else:
            needs = RequirementList.model_validate_json(one.answer).requirements()
            assert needs == required


def test_every_failure_is_one_that_the_game_explains():
    world = TextWorld(BOOK, goals=BOOK.rules, verbs=ACTIONS)
    found = 0
    for seed in range(100):
        rng = Random(seed)
        item = rng.choice(sorted(BOOK.rules))
        for action in ("mine", "craft", "smelt"):
            failure = maker("")._failure(item, action, rng)
            if failure is None:
                # Bare hands suffice, so the right action cannot fail.
                assert (action, BOOK.requirements(item)) == (BOOK.rule(item).action, {})
                continue
            found += 1
            held = dict(failure.inventory)
            assert all(held[u] >= q for u, q in failure.believed.items())
            assert world.holding(held).step(action, item) is None
    assert found > 200


def test_a_question_tells_why_attempts_failed_or_does_not():
    told = {False: 0, True: 0}
    for one in made(100, roles=("choose",)):
        has = "Why attempts failed:" in one.prompt[-1].content
        assert has == (one.kinds["told"] == "failures")
        told[has] += 1
    assert min(told.values()) > 50
    assert all("Failed attempts:" in one.prompt[-1].content for one in made(40, roles=["correct"]))


def test_what_is_held_out_is_asked_only_to_measure():
    assert {asked(one) for one in made(100, held_out=True)} <= left_out(["half-0"])
    assert made(5, name="", held_out=True) == []
    drawn = draw_exercises(maker(), "predict", count=20, seed=0)
    assert [one.kinds[MATERIAL] for one in drawn] == [SEEN] * 10 + [HELD_OUT] * 10
    assert digest(drawn) == digest(
        draw_exercises(ItemExercises(left_out(["half-0"])), "predict", count=20, seed=0)
    )


def test_a_prior_that_walks_everywhere_is_not_taught_beside_what_is_held_out():
    whole = find_domain("minecraft-goals")
    assert "prior" in exercise_makers(whole, words="taught")
    assert [*exercise_makers(whole.holding_out(["half-1"]), words="taught")] == [*ROLES]
    options = LessonOptions(roles=(), hold_out=("half-1",), states=1, seed=0)
    ((_, roles),) = _makers("minecraft-goals", options, {})
    assert roles == ROLES


def test_the_card_names_the_items_that_were_held_out():
    options = LessonOptions(roles=(), hold_out=("half-1", "bread"), states=1, seed=0)
    assert _held_out("minecraft-goals", options) == sorted({*left_out(["half-1"]), "bread"})
    assert _held_out(
        "blocksworld", LessonOptions(roles=(), hold_out=("blocks-5",), states=1, seed=0)
    ) == ("blocks-5",)


def test_an_unknown_name_cannot_be_held_out():
    with pytest.raises(DomainError, match=r"cannot hold out 'half-7'.*half-0"):
        find_domain("minecraft-goals").holding_out(["half-7"])


# Grades -------------------------------------------------------------------------------------------


def test_right_answers_are_right_and_invent_nothing():
    for one in made(60):
        grade = one.grade(one.answer)
        assert (grade.right, grade.brief) == (True, one.brief)
        assert grade.invented is (None if one.role == "choose" else False)


@pytest.mark.parametrize("role", ["predict", "correct"])
@pytest.mark.parametrize(
    ("needs", "invented"),
    [([("logs", 64)], False), ([("golden_stick", 1)], True), ([("planks", 63), ("iron", 1)], True)],
)
def test_a_name_that_the_book_lacks_is_invented(role, needs, invented):
    grade = made(10, roles=[role])[0].grade(compact(RequirementList(needs=needs)))
    assert (grade.right, grade.invented) == (False, invented)


def test_a_wrong_quantity_is_wrong():
    one = next(one for one in made(50, roles=["predict"]) if one.brief != "nothing")
    (name, count), *rest = RequirementList.model_validate_json(one.answer).needs
    assert not one.grade(compact(RequirementList(needs=[(name, count + 1), *rest]))).right


@functools.cache
def analysis(item, *, because):
    return next(
        one
        for seed in range(4000)
        for one in maker("").about_one_state(Random(seed), roles=["analyse"], held_out=False)
        if asked(one) == item and one.kinds["because of"] == because
    )


@pytest.mark.parametrize(
    ("says", "right", "invented"),
    [
        ("Sticks are crafted and cannot be mined.", True, False),
        ("mine never obtains it; smelt does", False, False),
        ("craft never obtains it; smelt does", False, False),
        ("It is crafted at a stick_table.", True, True),
        ("Planks are missing.", False, False),
    ],
)
def test_an_analysis_of_a_wrong_action_names_the_right_one(says, right, invented):
    one = analysis("stick", because="the action")
    grade = one.grade(compact(Analysis(analysis=says)))
    assert (grade.right, grade.invented) == (right, invented)


@pytest.mark.parametrize(
    ("says", "right"),
    [
        ("It needs two planks.", True),
        ("it requires 2 planks", True),
        ("craft never obtains it; mine does", False),
        ("A crafting table is missing.", False),
    ],
)
def test_an_analysis_of_something_missing_names_it_all(says, right):
    one = analysis("stick", because="something missing")
    assert one.grade(compact(Analysis(analysis=says))).right == right


# Asking -------------------------------------------------------------------------------------------


async def test_a_model_is_asked_as_xenon_asks_it():
    predict, choose = made(1, roles=["predict"])[0], made(1, roles=["choose"])[0]
    engine = ScriptedEngine(
        {"predict": [predict.answer]},
        score=lambda _, choices: [float(one == "smelt") for one in choices],
    )
    assert await predict.ask(engine) == predict.answer
    assert await choose.ask(engine) == "smelt"
    ((prompt, choices),) = engine.scored
    assert choices[:3] == ("mine", "craft", "smelt")
    assert choose.prompt[-1].content in prompt


async def test_a_measurement_counts_what_is_invented_by_what_was_taught():
    exercises = draw_exercises(maker(), "predict", count=8, seed=3)
    invents = compact(RequirementList(needs=[("golden_stick", 1)]))
    answers = [one.answer for one in exercises[:3]] + [invents] * 5
    prepared = prepare(
        "measure",
        domain="minecraft-goals",
        settings={
            "role": "predict",
            "questions": 8,
            "hold_out": ["half-0"],
            "exercises_sha256": digest(exercises),
        },
    )
    outcome = await prepared.run(Engines(ScriptedEngine({"predict": answers})), 3)
    assert (outcome.metrics["right"], outcome.metrics["invented"]) == (3, [5, 8])
    assert outcome.metrics["kinds"][MATERIAL] == {SEEN: [3, 4], HELD_OUT: [0, 4]}
    assert outcome.metrics["invented_kinds"][MATERIAL] == {SEEN: [1, 4], HELD_OUT: [4, 4]}
