"""Every planner of the paper does what its spec says."""

import json

import pytest
from cooking_kitchens import PAPER_KITCHENS

from llm_planning.environments.cooking.domain import COOKING
from llm_planning.environments.minecraft.items import controller
from llm_planning.environments.minecraft.items.controller_data import Gathering, Profile
from llm_planning.planners.xenon.specs import SPECS
from llm_planning.registry import find_planner
from llm_planning.roles import Engines
from llm_planning.running import find_where, prepare
from llm_planning.specs import known_keys
from llm_serving.engine import MeteredEngine
from llm_serving.scripted import ScriptedEngine

ANSWERS = {
    "predict": '{"needs":[["planks",1]]}',
    "correct": '{"needs":[["logs",2]]}',
    "analyse": '{"analysis":"x"}',
    "caption": '{"description":"A river."}',
    "intervene": json.dumps(
        {"need_intervention": True, "thoughts": "", "task": "swim"}, separators=(",", ":")
    ),
}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
async def test_it_asks_in_the_roles_that_it_names(spec, monkeypatch):
    stalling = Gathering(find=1, take=1, stall=0.5 if "intervene" in spec.roles else 0.0)
    profile = Profile(items={}, tiers=(stalling,) * 5, make=1, vain=600, rescue=1.0)
    monkeypatch.setattr(controller, "PROFILES", {"minerl": profile})
    cooks = not spec.lacks(COOKING)
    values = {
        "steps": 1000,
        "episodes": 2 if cooks else 1,
        "games": 1,
        "requirements": 1,
        "graph": "initial",
        "see": "both",
    }
    domain = find_where(spec, domain=PAPER_KITCHENS if cooks else None, task=None)
    known = {*known_keys(spec, domain)} - spec.never_read
    engine, *others = [
        MeteredEngine(
            ScriptedEngine(ANSWERS, score=lambda _, choices: [-float(len(c)) for c in choices])
        )
        for _ in ("", *spec.roles)
    ]
    engines = dict(zip(spec.roles, others, strict=True))
    task = "67-goals" if "67-goals" in domain.tasks else domain.tasks[-1]
    settings = {key: value for key, value in values.items() if key in known}
    prepared = prepare(spec, domain=domain, task=task, settings=settings)
    await prepared.run(Engines(engine, engines), 0)
    # The default engine embeds names; each role's own engine answers its questions.
    assert set(engine.usage) <= {"similarity"}
    asked = {role for role, engine in engines.items() if engine.usage}
    assert asked == set(spec.roles), "each role is asked, by its own engine"
    assert all(set(engine.usage) <= {role} for role, engine in engines.items())


@pytest.mark.parametrize(("see", "captions"), [("words", False), ("picture", True)])
def test_a_caption_is_a_models_only_where_a_picture_is_shown(see, captions):
    spec = find_planner("plan-xenon")
    settings = spec.settings.read({"see": see})
    assert ("caption" in settings.models_roles(spec.roles)) is captions
