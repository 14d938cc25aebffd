"""DRIP's subtasks carried out by programs in the world, as in Section 4.2.1 of its paper."""

from dataclasses import replace

import pytest
from drip_runs import PLANNERS
from runs import compact, roles_file, run_in

from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.tasks import TASKS
from llm_planning.execution.sandbox import why_unsealed
from llm_planning.registry import find_domain
from llm_planning.settings import SettingsError
from llm_serving.encoder_engine import EncoderEngine
from llm_serving.scripted import ScriptedEngine

NAMES = ("drip", "drip-plus", "drip-react", "plan-and-solve")
sealed = pytest.mark.skipif(why_unsealed() is not None, reason="programs cannot be sealed here")


async def run(name, *, world=None, seed=0, engine=None, roles="rules", **settings):
    spec = PLANNERS[name]
    given = spec.settings.read({"roles": str(roles), **settings})
    world = world or Minecraft(task="cook-meat")
    return await spec.run(run_in(world, given, engine or EncoderEngine(), seed=seed))


def attempts_of(outcome):
    return outcome.trace["executions"][0]["attempts"]


@sealed
@pytest.mark.parametrize("name", NAMES)
async def test_programs_carry_out_what_is_planned_until_the_world_is_at_its_goal(name):
    outcome = await run(name, seed=3, execution="programs")
    assert outcome.success
    assert outcome.metrics["execution"] == "programs"
    attempts = attempts_of(outcome)
    assert all("async function" in attempt["program"] for attempt in attempts)
    moves = [move["action"] for move in outcome.trace["executions"][0]["moves"]]
    assert moves == [action for attempt in attempts for action in attempt["actions"]]
    assert any("cook" in action or "smelt" in action for action in moves)
    if name != "plan-and-solve":
        assert outcome.metrics["applications"] == 0
        assert outcome.plan == tuple(
            attempt["option"] for attempt in attempts if attempt["done"] or attempt["actions"]
        )


def subtask(verb, quantity, item):
    return {"verb": verb, "quantity": quantity, "item": item}


WRONG = "async function chop(bot) { await mineBlock(bot, 'oak', 3); }"
RIGHT = "async function chopLogs(bot) { await mineBlock(bot, 'oak_log', 3); }"
LOGS = replace(TASKS["cook-meat"], goal="hold three oak logs", wanted=(("oak_log",),))


def model(programs):
    """A model that names one action, writes these programs in turn, and believes the inventory."""
    left = list(programs)

    def answer(request):
        match request.role:
            case "act":
                return compact({"thought": "", "next": subtask("mine", 3, "oak_log")})
            case "code":
                return compact({"explain": "", "code": left.pop(0)})
            case "complete":
                held = "'oak_log': 3" in request.prompt[-1].content
                return compact({"reason": "", "done": held})
        raise AssertionError(request.role)

    return ScriptedEngine(answer)


@sealed
async def test_a_program_is_written_anew_with_what_the_last_one_met():
    engine = model([WRONG, RIGHT])
    outcome = await run("drip-react", engine=engine, roles="llm", execution="programs", moves=1)
    first, second = attempts_of(outcome)
    assert (first["m"], first["done"], first["program"]) == (1, False, WRONG)
    assert (second["m"], second["done"], second["actions"]) == (2, True, ["mine 3 oak_log"])
    codes = [request.prompt[-1].content for request in engine.requests if request.role == "code"]
    assert WRONG not in codes[0]
    assert WRONG in codes[1]
    assert first["feedback"] in codes[1]
    assert outcome.plan == ("mine 3 oak_log",)
    assert [request.role for request in engine.requests] == [
        "act",
        "code",
        "complete",
        "code",
        "complete",
    ]


@sealed
async def test_a_subtask_has_failed_after_five_programs():
    engine = model([WRONG] * 9)
    outcome = await run("drip-react", engine=engine, roles="llm", execution="programs", moves=1)
    assert [attempt["m"] for attempt in attempts_of(outcome)] == [1, 2, 3, 4, 5]
    # Nothing has changed in the world, so the plan is as it was.
    assert outcome.plan == ()
    assert outcome.metrics["refused"] == 1
    assert outcome.metrics["failure"] == "program"
    assert outcome.metrics["failure_cause"] == "subtasks that no program did: 1"
    engine = model([WRONG] * 9)
    outcome = await run(
        "drip-react", engine=engine, roles="llm", execution="programs", moves=1, tries=2
    )
    assert [attempt["m"] for attempt in attempts_of(outcome)] == [1, 2]


@sealed
async def test_a_planner_stops_where_the_world_is_at_its_goal():
    """The model would mine on; the episode is over after the first subtask."""
    engine = model([RIGHT])
    outcome = await run(
        "drip-react",
        world=Minecraft(task=LOGS),
        engine=engine,
        roles="llm",
        execution="programs",
        moves=9,
    )
    assert outcome.success
    assert outcome.metrics["ending"] == "goal"
    assert len(attempts_of(outcome)) == 1


@sealed
@pytest.mark.parametrize("name", ["drip", "drip-react"])
async def test_skills_and_programs_without_errors_do_what_verbs_do(name):
    """Until a subtask is done only in part, which verbs leave and an actuator tries again."""
    direct = await run(name)
    moves = [move["action"] for move in direct.trace["execution"]["moves"]]
    for execution in ("skills", "programs"):
        outcome = await run(name, execution=execution)
        assert {attempt["m"] for attempt in attempts_of(outcome)} == {1}
        assert [move["action"] for move in outcome.trace["executions"][0]["moves"]] == moves
        assert outcome.success is direct.success is True


@sealed
async def test_a_failure_is_blamed_on_the_verdict_that_the_world_contradicts(tmp_path):
    """No program does the subtask, and each time it is said to be done."""
    roles = roles_file(tmp_path, "act", "apply", code="llm", complete={"rate": 0.0})
    engine = model([WRONG] * 9)
    outcome = await run("drip-react", engine=engine, roles=roles, execution="programs", moves=2)
    attempts = attempts_of(outcome)
    assert [(attempt["done"], attempt["shown"]) for attempt in attempts] == [(True, False)] * 2
    assert outcome.metrics["failure"] == "completion"
    assert outcome.metrics["failure_cause"] == "wrong answers of complete: 2"
    assert (outcome.metrics["wrong_complete"], outcome.metrics["wrong_code"]) == (2, 2)


@sealed
async def test_programs_by_rules_without_errors_are_not_blamed():
    outcome = await run("drip", seed=0, execution="programs", max_depth=1)
    assert not outcome.success
    assert outcome.metrics["failure"] == "limit"
    assert outcome.metrics["wrong_code"] == 0


@pytest.mark.parametrize("name", ["drip", "plan-and-solve"])
async def test_a_world_without_primitives_refuses_programs_in_one_line(name):
    spec = find_domain("blocksworld")
    world = spec.open("four-blocks", spec.settings.read({"problem": 1}))
    with pytest.raises(SettingsError, match=r"^execution=programs: .*; set execution=direct$"):
        await run(name, world=world, execution="programs")


def test_the_world_answers_apply_where_programs_act_in_it():
    roles = ("decompose", "judge", "apply", "code", "complete")
    asked = {
        execution: PLANNERS["drip"].settings.read({"execution": execution}).models_roles(roles)
        for execution in ("direct", "skills", "programs")
    }
    assert asked == {
        "direct": ("decompose", "judge", "apply"),
        "skills": ("decompose", "judge"),
        "programs": ("decompose", "judge", "code", "complete"),
    }
