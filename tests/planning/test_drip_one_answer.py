"""CoT in Blocksworld: one answer plans, and the plan is judged as DRIP's own."""

import pytest
from drip_runs import FIGURE_3, action, run
from runs import compact

from llm_planning.planners.drip.outcome import carried_out
from llm_serving.scripted import ScriptedEngine

RIGHT = ("stack r o", "unstack blocks r", "stack y r")
"""A plan for Figure 3: yellow on blue on red; orange."""

PLANS = {
    RIGHT: True,
    (*RIGHT, "put-down y"): False,  # reaches the goal and leaves it
    ("stack r b", *RIGHT): False,  # impossible at the start: r is below b
    (*RIGHT, "stack o y"): False,  # impossible at the goal, which holds on: o is below y
}


async def answered(plan):
    options = [{"reasoning": "as it is", "option": action} for action in plan]
    engine = ScriptedEngine({"decompose": compact({"options": options})})
    return engine, await run("drip-cot", FIGURE_3, engine=engine, roles="llm")


@pytest.mark.parametrize(("plan", "success"), PLANS.items())
async def test_plans_are_judged_by_where_they_end_and_may_not_be_refused(plan, success):
    done = await carried_out(FIGURE_3, [action(text) for text in plan], seed=0)
    assert done.success is success


async def test_a_plan_is_one_answer_and_what_was_refused_in_it_is_told():
    plan = ("stack r b", *RIGHT)
    engine, outcome = await answered(plan)
    assert (outcome.success, outcome.plan) == (False, plan)
    assert len(outcome.trace["execution"]["moves"]) == len(plan)
    assert len(engine.requests) == 1
    assert outcome.metrics["first_failed"] == "stack r b"
    assert "carried out: the goal is not reached" in outcome.text


async def test_without_errors_the_plan_is_a_shortest_one():
    outcome = await run("drip-cot", FIGURE_3, engine=ScriptedEngine({}))
    assert outcome.success is True
    assert len(outcome.plan) == FIGURE_3.optimum
