"""Exercises of DRIP's roles in both worlds, and plans at rates that were measured with them."""

import json
import re
from collections import Counter, defaultdict
from random import Random

import pytest
from command_line import invoke
from runs import compact

from llm_planning.commands.distill_teaching import LessonOptions, _worlds
from llm_planning.environments.blocksworld.blocks import BlockAction, Blocks, Goal, Puzzle
from llm_planning.environments.blocksworld.domain import Blocksworld
from llm_planning.environments.blocksworld.teacher import SIZES, BlocksworldTeacher, _is_new
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.planners.drip.exercises import HIDDEN, SHOWN, WHOLE, subtask_exercises
from llm_planning.planners.drip.roles import VERDICTS, DripRoles
from llm_planning.planners.drip.settings import ROLES
from llm_planning.planners.tree_of_options.exercises import OptionExercises
from llm_planning.registry import exercise_makers, find_domain, why_unmeasured
from llm_planning.roles.exercises import HELD_OUT, VERDICT, WAY
from llm_planning.roles.measuring import draw_exercises
from llm_serving.scripted import ScriptedEngine

WORLDS = ("blocksworld", "minecraft")
STATES = 12


@pytest.fixture(scope="module", params=WORLDS)
def by_role(request):
    maker = subtask_exercises(find_domain(request.param), "general")
    drawn = defaultdict(list)
    for number in range(STATES):
        # Held-out states of Minecraft are one in twenty, so few are drawn.
        held_out = number % 4 == 3
        for exercise in maker.about_one_state(Random(number), roles=ROLES, held_out=held_out):
            drawn[exercise.role].append(exercise)
    return drawn


@pytest.mark.parametrize("role", ROLES)
def test_the_right_answer_of_every_exercise_is_right(by_role, role):
    assert len(by_role[role]) >= STATES / 2
    for exercise in by_role[role]:
        grade = exercise.grade(exercise.answer)
        assert grade.right, (exercise.prompt, exercise.answer)
        assert grade.brief == exercise.brief
        assert grade.items is None or grade.items[0] == grade.items[1]
    assert len({tuple(exercise.kinds) for exercise in by_role[role]}) == 1


@pytest.mark.parametrize("role", ROLES)
async def test_every_answer_is_in_the_language_that_the_engine_enforces(by_role, role):
    for exercise in by_role[role][:6]:
        engine = ScriptedEngine(lambda _, exercise=exercise: exercise.answer)
        assert await exercise.ask(engine) == exercise.answer
        (request,) = engine.requests
        assert re.fullmatch(request.constraint.regex, exercise.answer)
        assert (request.role, tuple(request.prompt)) == (role, exercise.prompt)


def test_all_verdicts_are_asked_about_and_only_the_right_one_is_right(by_role):
    assert {exercise.kinds[VERDICT] for exercise in by_role["judge"]} == set(VERDICTS)
    for exercise in by_role["judge"]:
        for verdict in VERDICTS:
            grade = exercise.grade(compact({"reason": "so", "verdict": verdict}))
            assert (grade.right, grade.brief) == (verdict == exercise.brief, verdict)


def test_decompositions_are_asked_in_three_ways(by_role):
    ways = {exercise.kinds[WAY]: exercise for exercise in by_role["decompose"]}
    assert set(ways) == {HIDDEN, SHOWN, WHOLE}
    assert "now:" not in ways[HIDDEN].prompt[-1].content
    assert "now:" in ways[SHOWN].prompt[-1].content
    # A whole plan has no items, so the rate of items is that of subtasks.
    assert ways[WHOLE].grade(ways[WHOLE].answer).items is None
    plan = json.loads(ways[WHOLE].answer)
    short = compact({"options": [{**plan["options"][0], "reasoning": ""}]})
    assert ways[WHOLE].grade(short).right is (len(plan["options"]) == 1)


def test_subtasks_count_one_by_one(by_role):
    longest = max(
        (exercise for exercise in by_role["decompose"] if exercise.kinds[WAY] != WHOLE),
        key=lambda exercise: len(json.loads(exercise.answer)["subtasks"]),
    )
    right = json.loads(longest.answer)["subtasks"]
    count = len(right)
    assert count >= 2

    def graded(subtasks):
        grade = longest.grade(compact({"subtasks": subtasks}))
        return grade.right, grade.items

    assert graded(right[::-1]) == (True, (count, count))
    assert graded(right[1:]) == (False, (count - 1, count))
    assert graded([*right, right[0]]) == (False, (count, count + 1))
    assert graded([]) == (False, (0, count))


def test_the_end_is_right_at_the_goal_alone(by_role):
    assert {exercise.kinds["end"] for exercise in by_role["act"]} == {"done", "not done"}
    for exercise in by_role["act"]:
        assert exercise.grade(compact({"thought": "", "next": "end"})).right is (
            exercise.brief == "end"
        )


def test_an_unchanged_state_is_right_where_nothing_changes():
    maker = subtask_exercises(find_domain("blocksworld"), "general")
    drawn = draw_exercises(maker, "apply", count=12, seed=1)
    assert {exercise.kinds["subtask"] for exercise in drawn} == {"feasible", "infeasible"}
    for exercise in drawn:
        described = exercise.prompt[-1].content
        stands = dict(re.findall(r"Block (\w) is on (?:block |the )(\w+)\.", described))
        unchanged = compact({block: stands[block] for block in sorted(stands)})
        # A block that a subtask puts down may stand on the table already.
        assert exercise.grade(unchanged).right is (exercise.answer == unchanged)
        assert exercise.answer == unchanged or exercise.kinds["subtask"] == "feasible"


def test_the_rules_of_oracles_know_the_verdicts_of_exercises():
    roles = DripRoles(find_domain("minecraft").kind(), seed=0).by_name()
    with_kinds = {role for role, definition in roles.items() if definition.rule.kinds}
    assert with_kinds == {"judge"}
    assert roles["judge"].rule.kinds.names == VERDICTS


# --- Blocksworld's teacher -----------------------------------------------------------------------


def test_larger_problems_are_held_out():
    teacher = BlocksworldTeacher(held_out=["blocks-5"])
    for held_out in (False, True):
        for seed in range(12):
            here = teacher.situation(Random(seed), held_out=held_out)
            kinds = {teacher.goal_kind(domain) for domain in here.domains}
            assert (kinds == {HELD_OUT}) is (len(here.state.names) == 5)
            # Of other sizes one state in twenty is held out.
            assert held_out or (HELD_OUT not in kinds and not _is_new(here.state))
            assert not held_out or HELD_OUT in kinds or _is_new(here.state)
            assert all(
                here.domains[0].feasible(here.state, option) is None for option in here.feasible
            )
            assert not any(
                here.domains[0].feasible(here.state, option) is None for option in here.infeasible
            )


@pytest.mark.parametrize(
    ("held_out", "message"),
    [
        (["16"], "cannot hold out '16': "),
        ([], "hold out some of the numbers of blocks"),
        (list(SIZES), "leave one to teach"),
    ],
)
def test_what_cannot_be_held_out(held_out, message):
    with pytest.raises(ValueError, match=message):
        BlocksworldTeacher(held_out=held_out)


@pytest.mark.parametrize(
    ("subtask", "parent", "judged"),
    [
        (("stack", "c", "a"), None, ("true", "c b; a e d")),
        (("stack", "e", "a"), None, ("false", "e d; a e d")),
        (("stack", "a", "e"), None, ("done", "block a stands on block e")),
        (("stack", "a", "b"), None, ("false", "block b is not clear: block c stands on it")),
        (("put-down", "a"), ("stack", "d", "e"), ("true", "d; e d")),
        (("put-down", "a"), ("stack", "b", "e"), ("done", "b; e d")),
        (("put-down", "a"), None, ("true", "block a can always be put down")),
    ],
)
def test_a_reason_copies_the_towers_where_they_decide(subtask, parent, judged):
    state = Blocks.of({"a": "e", "e": "d", "d": "table", "c": "b", "b": "table"})
    domain = Blocksworld(Puzzle("towers", state, Goal((("c", "a"),))))
    option, above = BlockAction(*subtask), parent and BlockAction(*parent)
    judgement = BlocksworldTeacher().judged(domain, state, option, above)
    assert judgement == judged
    assert judgement.verdict == domain.judge(state, option, above).verdict


def test_tree_of_options_is_asked_in_blocksworld():
    maker = OptionExercises(BlocksworldTeacher(), words="general")
    drawn = Counter()
    for seed in range(8):
        for exercise in maker.about_one_state(
            Random(seed), roles=OptionExercises.roles, held_out=seed % 2 == 1
        ):
            drawn[exercise.role] += 1
            assert exercise.grade(exercise.answer).right, (exercise.prompt, exercise.answer)
    assert set(drawn) == set(OptionExercises.roles)


def test_lessons_of_blocksworld(tmp_path):
    options = LessonOptions(roles=(), hold_out=None, states=1, seed=0)
    taught = {role for _, roles in _worlds("blocksworld", options)[0] for role in roles}
    assert taught == {*OptionExercises.roles, *ROLES, "prior"}
    file = tmp_path / "chats.jsonl"
    asked = ("--questions", "9", "--role", "judge")
    ended = invoke("distill", "blocksworld", "--export", str(file), *asked)
    assert ended.exit_code == 0, ended.stderr
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [line["role"] for line in lines] == ["judge"] * 9


# --- every role ----------------------------------------------------------------------------------

UNMEASURED = {
    "think": "free text",
    "caption": "free text",
    "reflection": "free text",
    **dict.fromkeys(
        (
            *("goal", "position", "explain", "code", "complete"),
            *("route", "flights", "product", "fact"),
            *("predict", "choose", "correct", "analyse", "rank", "intervene", "tool", "action"),
        ),
        "no planner has exercises of it",
    ),
}


@pytest.mark.parametrize("world", WORLDS)
def test_every_role_has_exercises_or_says_why_not(world):
    domain = find_domain(world)
    makers = exercise_makers(domain, words="general")
    for role in {role for spec in PLANNERS.values() for role in spec.roles}:
        assert (role in makers) is (role not in UNMEASURED), role
        if role in UNMEASURED:
            assert UNMEASURED[role] in why_unmeasured(role, domain, makers)


def test_why_a_role_is_not_measured_is_one_line():
    ended = invoke("roles", "measure", "blocksworld", "--role", "think", "--model", "none")
    assert ended.exit_code == 2
    assert ended.stderr.strip() == (
        "error: --role think: its answer is free text, so no answer is the right one"
    )
    game = find_domain("textgame")
    assert why_unmeasured("judge", game, {}).startswith("textgame does not know right answers")


# --- measured, then planned with -----------------------------------------------------------------
