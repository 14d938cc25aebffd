"""Short words: what a taught model is asked follows from the fields of the question."""

from random import Random

import pytest
from command_line import invoke
from drip_runs import FIGURE_3, run, state

from llm_planning.planners.drip.exercises import SubtaskExercises
from llm_planning.planners.drip.questions import Decomposition, Judgement
from llm_planning.planners.drip.roles import DripRoles
from llm_planning.registry import find_domain
from llm_planning.roles.short import digest_of, in_short
from llm_serving.request import ModelIdentity, Taught
from llm_serving.scripted import ScriptedEngine

START = state("y-b-r o")
DESCRIBED = FIGURE_3.describe(START)
WORDS = DripRoles(FIGURE_3, seed=0).taught_words()
JUDGED = '{"reason":"so it is","verdict":"true"}'
SUBTASKS = '{"subtasks":[{"option":"stack r o"}]}'


def test_the_state_is_first_and_the_roles_own_fields_are_last():
    judged = Judgement("stack r o", "stack y r", START, DESCRIBED, vote=3)
    assert in_short("judge", judged) == (
        f"{DESCRIBED}\n\njudge\nsubtask: stack r o\nparent: stack y r"
    )
    goal = Decomposition(None, FIGURE_3.goal, START, DESCRIBED, asking=2)
    assert in_short("decompose", goal) == f"{DESCRIBED}\ngoal: {FIGURE_3.goal}\n\ndecompose"
    assert in_short("decompose", Decomposition("put-down r", "G", START)) == (
        "goal: G\n\ndecompose\nsubtask: put-down r"
    )


async def asked(words, roles):
    taught = Taught(roles=roles, words_sha256=words)
    identity = ModelIdentity(name="student", revision="1", dtype="float32", taught=taught)
    engine = ScriptedEngine({"decompose": SUBTASKS, "judge": JUDGED}, identity=identity)
    with pytest.raises(Exception, match="apply"):
        await run("drip", FIGURE_3, engine=engine, roles="llm")
    return {one.role: [turn.content for turn in one.prompt] for one in engine.requests[:2]}


async def test_a_taught_model_reads_short_words_and_no_rules():
    said = await asked(WORDS, ("decompose", "judge"))
    system, judge = said["judge"]
    assert said["decompose"] == [system, f"goal: {FIGURE_3.goal}\n\ndecompose"]
    assert judge == f"{DESCRIBED}\n\njudge\nsubtask: stack r o"
    assert len(system) < 60


async def test_what_it_was_not_taught_is_asked_as_ever():
    said = await asked(WORDS, ("judge",))
    assert said["decompose"][0].startswith("You plan backwards.")
    assert len(said["judge"][0]) < 60
    said = await asked("of other fields", ("decompose", "judge"))
    assert said["judge"][0].startswith("You judge a subtask")


def test_the_words_of_a_world_are_the_same_in_all_of_its_problems():
    teacher = find_domain("blocksworld").teacher(None)
    worlds = [teacher.situation(Random(seed), held_out=False).domains[0] for seed in range(6)]
    assert len({frozenset(map(str, one.actions(one.start(0)))) for one in worlds}) > 1
    assert {DripRoles(one, seed=0).taught_words() for one in worlds} == {WORDS}
    minecraft = find_domain("minecraft").kind()
    assert DripRoles(minecraft, seed=0).taught_words() != WORDS
    two = DripRoles(FIGURE_3, seed=0).by_name()
    assert digest_of([two["judge"]], world=FIGURE_3) != digest_of([two["act"]], world=FIGURE_3)


def test_lessons_are_in_the_words_of_the_planner():
    maker = SubtaskExercises(find_domain("blocksworld").teacher(None), words="taught")
    assert maker.taught_words == WORDS
    made = maker.about_one_state(Random(1), roles=maker.roles, held_out=False)
    assert {one.role for one in made} == {"decompose", "judge", "apply", "act"}
    for one in made:
        assert f"\n\n{one.role}" in one.prompt[1].content
        assert one.grade(one.answer).right


def test_an_adapter_is_taught_the_words_of_one_family(tmp_path):
    ended = invoke(
        "distill",
        "minecraft",
        "--export",
        str(tmp_path / "a"),
        "--role",
        "judge",
        "--role",
        "repair",
    )
    assert ended.exit_code == 2
    assert "an adapter knows the words of one: teach them apart" in " ".join(ended.stderr.split())
