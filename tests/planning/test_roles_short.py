"""Short words: what a taught model is asked follows from the fields of the question."""

from random import Random

import pytest
from drip_runs import FIGURE_3, run, state

from llm_planning.environments.blocksworld.domain import Blocksworld
from llm_planning.execution.option_settings import PromptSettings
from llm_planning.planners.any_domain.roles import ActAsking, ShortActing, Situation
from llm_planning.planners.any_domain.settings import PolicySettings
from llm_planning.planners.drip.exercises import SubtaskExercises
from llm_planning.planners.drip.roles import (
    Application,
    Decomposition,
    DripRoles,
    Judgement,
    NextAction,
)
from llm_planning.planners.tree_of_options.roles import OptionRoles
from llm_planning.registry import exercise_makers, find_domain
from llm_planning.roles import Engines
from llm_planning.roles.short import FORM, difference, words_of
from llm_serving.request import ModelIdentity, Taught
from llm_serving.scripted import ScriptedEngine

START = state("y-b-r o")
DESCRIBED = FIGURE_3.describe(START)
BRIEF = "o on table; y on b on r on table"
WORDS = words_of(FIGURE_3)
JUDGED = '{"reason":"so it is","verdict":"true"}'
SUBTASKS = '{"subtasks":[{"option":"stack r o"}]}'


def words(spec, question):
    return spec.short.values_of(question)["asked"]


def test_the_state_is_first_and_the_roles_own_fields_are_last():
    """If one of these changes, `FORM` rises: adapters were taught the words as they are."""
    assert FORM == 2
    roles = DripRoles(FIGURE_3, seed=0).by_name()
    judged = Judgement("stack r o", "stack y r", START, DESCRIBED, vote=3)
    assert words(roles["judge"], judged) == (
        f"{BRIEF}\n\njudge\nsubtask: stack r o\nparent: stack y r"
    )
    goal = Decomposition(None, FIGURE_3.goal, START, DESCRIBED, asking=2)
    assert words(roles["decompose"], goal) == f"{BRIEF}\ngoal: {FIGURE_3.goal}\n\ndecompose"
    assert words(roles["decompose"], Decomposition("put-down r", "G", START)) == (
        "goal: G\n\ndecompose\nsubtask: put-down r"
    )
    assert words(roles["apply"], Application("stack r o", START, DESCRIBED)) == (
        f"{BRIEF}\n\napply\nsubtask: stack r o"
    )
    act = NextAction(FIGURE_3.goal, START, DESCRIBED, ("stack r o", "stack o y (impossible)"))
    assert words(roles["act"], act) == (
        f"{BRIEF}\ngoal: {FIGURE_3.goal}\n\nact\nhistory: stack r o; stack o y (impossible)"
    )
    prior = ShortActing(FIGURE_3).action(
        Situation((), DESCRIBED, ("a", "b"), state=START), dashes=2
    )
    assert prior[1].content == f"{BRIEF}\ngoal: {FIGURE_3.goal}\n\nprior\n-: - -"


async def asked(words, roles):
    taught = Taught(roles=roles, words_sha256=(words,))
    identity = ModelIdentity(name="student", revision="1", dtype="float32", taught=taught)
    engine = ScriptedEngine({"decompose": SUBTASKS, "judge": JUDGED}, identity=identity)
    with pytest.raises(Exception, match="apply"):
        await run("drip", FIGURE_3, engine=engine, roles="llm")
    return {
        request.role: [turn.content for turn in request.prompt] for request in engine.requests[:2]
    }


async def test_a_taught_model_reads_short_words_and_no_rules():
    prompts = await asked(WORDS, ("decompose", "judge"))
    system, judge = prompts["judge"]
    assert prompts["decompose"] == [system, f"goal: {FIGURE_3.goal}\n\ndecompose"]
    assert judge == f"{BRIEF}\n\njudge\nsubtask: stack r o"
    assert len(system) < 60


async def test_what_it_was_not_taught_is_asked_as_ever():
    prompts = await asked(WORDS, ("judge",))
    assert prompts["decompose"][0].startswith("You plan backwards.")
    assert len(prompts["judge"][0]) < 60
    prompts = await asked("of other fields", ("decompose", "judge"))
    assert prompts["judge"][0].startswith("You judge a subtask")


def test_all_roles_of_a_world_have_words_of_one_family():
    """So one adapter holds them all, in every problem; other rules are another family."""
    for name in ("blocksworld", "minecraft"):
        makers = exercise_makers(find_domain(name), words="taught")
        own = {maker.taught_words for maker in makers.values()}
        assert len(own) == 1
        assert len(makers) == 11
        world = find_domain(name).teacher(None).situation(Random(1), held_out=False).domains[0]
        assert own == {words_of(world)}
        specs = (
            *DripRoles(world, seed=0).by_name().values(),
            *OptionRoles(world, PromptSettings.read({}), seed=0).by_name().values(),
        )
        assert {spec.short.digest() for spec in specs if spec.short} == own
    assert words_of(Blocksworld(FIGURE_3.puzzle)) == WORDS
    assert words_of(Blocksworld(FIGURE_3.puzzle, rules="standard")) != WORDS


@pytest.mark.parametrize(
    ("roles", "family", "short"),
    [(("prior",), WORDS, True), (("judge",), WORDS, False), (("prior",), "others", False)],
)
async def test_a_taught_model_names_an_action_without_a_list_of_them(roles, family, short):
    taught = Taught(roles=roles, words_sha256=(family,))
    identity = ModelIdentity(name="student", revision="1", dtype="float32", taught=taught)
    engine = ScriptedEngine({}, score=lambda _, choices: [0.0] * len(choices), identity=identity)
    settings = PolicySettings.read({})
    prior = ActAsking(FIGURE_3, Engines(engine), settings, seed=0).prior(settings)
    actions = tuple(map(str, FIGURE_3.actions(START)))
    await prior(Situation((), DESCRIBED, actions, state=START))
    ((prompt, choices),) = engine.scored
    assert choices == actions
    assert (f"{BRIEF}\ngoal: {FIGURE_3.goal}\n\nprior" in prompt) is short
    assert ("Possible actions:" in prompt) is not short


def test_what_a_change_changes():
    before, after = "b on a on table; c on table", "a on table; b on c on table"
    assert difference(before, after) == {
        "then": "a on table, b on c on table",
        "no more": "b on a on table, c on table",
    }
    assert difference(after, after) == {"then": "nothing", "no more": ""}


def test_lessons_are_in_the_words_of_the_planner():
    maker = SubtaskExercises(find_domain("blocksworld").teacher(None), words="taught")
    assert maker.taught_words == WORDS
    exercises = maker.about_one_state(Random(1), roles=maker.roles, held_out=False)
    assert {exercise.role for exercise in exercises} == {"decompose", "judge", "apply", "act"}
    for exercise in exercises:
        assert f"\n\n{exercise.role}" in exercise.prompt[1].content
        assert exercise.grade(exercise.answer).right
