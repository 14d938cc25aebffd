"""Every planner of the paper by name: what it says of itself is true."""

import json
from functools import partial

import pytest
from cooking_kitchens import paper_kitchen

from llm_planning.environments.minecraft import controller
from llm_planning.environments.minecraft.controller_data import Gathering, Profile
from llm_planning.planners.xenon.agents import AGENTS, INFORMED_AGENTS
from llm_planning.planners.xenon.specs import SPECS
from llm_planning.roles import Engines
from llm_planning.specs import Problem
from llm_serving.scripted import ScriptedEngine

ANSWERS = {
    "predict": '{"needs":[["planks",1]]}',
    "correct": '{"needs":[["logs",2]]}',
    "analyse": '{"analysis":"x"}',
    "intervene": json.dumps(
        {"need_intervention": True, "thoughts": "", "task": "swim"}, separators=(",", ":")
    ),
}


async def kitchens(specs):
    return [paper_kitchen(("chop", "egg"), name=spec.name) for spec in specs]


def test_every_agent_has_a_name_and_each_name_is_there_once():
    names = [spec.name for spec in SPECS]
    assert len(set(names)) == len(names) == 27
    assert {*AGENTS, *INFORMED_AGENTS} <= set(names)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_summary_says_all_by_itself(spec):
    assert 20 <= len(spec.summary) <= 85
    assert "same" not in spec.summary
    assert "likewise" not in spec.summary
    assert spec.paper == "XENON"


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
async def test_it_asks_in_the_roles_that_it_names(spec, monkeypatch):
    stalling = Gathering(find=1, take=1, stall=0.5 if "intervene" in spec.roles else 0.0)
    profile = Profile(items={}, tiers=(stalling,) * 5, make=1, vain=600, rescue=1.0)
    monkeypatch.setattr(controller, "PROFILES", {"minerl": profile})
    run = spec.run
    if spec.benchmark.domain == "cooking":
        run = partial(run, kitchens_of=kitchens)
    values = {
        "steps": 1000,
        "episodes": 2 if spec.benchmark.domain == "cooking" else 1,
        "requirements": 1,
        "graph": "initial",
    }
    known = spec.settings.known_keys()
    engine, *others = [
        ScriptedEngine(ANSWERS, score=lambda _, choices: [-float(len(c)) for c in choices])
        for _ in ("", *spec.roles)
    ]
    engines = dict(zip(spec.roles, others, strict=True))
    tasks = spec.benchmark.tasks
    await run(
        Problem(
            domain=spec.benchmark.domain,
            task="67-goals" if "67-goals" in tasks else tasks[-1],
            world=None,
        ),
        engines=Engines(engine, engines),
        settings=spec.settings.read({k: v for k, v in values.items() if k in known}),
        seed=0,
    )
    # Names are embedded by the default engine; everything else goes to the role's own.
    assert set(engine.counters.roles) <= {"similarity"}
    asked = {role for role, one in engines.items() if one.counters.roles}
    assert asked == set(spec.roles), "each role is asked, by its own engine"
    assert all(set(one.counters.roles) <= {role} for role, one in engines.items())
