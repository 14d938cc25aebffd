"""With rules that err, a run is the same in whatever order their answers come."""

import asyncio
import random

import pytest
import yaml

from llm_planning.model_configs import open_uncached_engine
from llm_planning.registry import find_planner
from llm_planning.roles import Engines, Oracle
from llm_planning.running import prepare

MEAT = {"domain": "minecraft", "task": "cook-meat", "iter": 6, "width": 4}
DIAMOND = {"domain": "minecraft", "task": "mine-a-diamond", "options": "single", "votes": 3}
BLOCKS = {"domain": "blocksworld", "task": "four-blocks"}
HOME = {"domain": "household", "task": "rearrange", "home": "seen", "class": "simple", "problem": 1}
CASES = [
    ("too", MEAT),
    ("too-no-wm", {**MEAT, "rules_see": "imagined"}),
    ("too-no-wm", {**MEAT, "rules_see": "anew"}),
    ("too-no-wm", {**MEAT, "rules_see": "initial"}),
    ("too-no-fc", MEAT),
    ("tot-mcts", {**MEAT, "rules_see": "imagined"}),
    ("too-plus", MEAT),
    ("drip", {**DIAMOND, "reading": "redo", "empty": "close", "attempts": 3, "max_depth": 12}),
    ("drip-plus", DIAMOND),
    ("puct", {**BLOCKS, "moves": 4, "simulations": 20, "width": 4}),
    ("mc-dml", {**BLOCKS, "moves": 2, "simulations_per_action": 4, "C": 1, "width": 4}),
    ("llm-mcts", {**HOME, "simulations": 8, "width": 4}),
    ("llm-mcts-plus", {**HOME, "simulations": 8, "width": 4}),
]


async def run(planner, given, roles):
    given = dict(given)
    where = {name: given.pop(name) for name in ("domain", "task")}
    ready = prepare(planner, **where, settings={**given, "roles": str(roles)})
    with open_uncached_engine("none") as engine:
        outcome = await ready.run(Engines(engine), seed=0)
    took = {name for name in outcome.metrics if name.startswith("seconds")}
    metrics = {name: outcome.metrics[name] for name in outcome.metrics.keys() - took}
    trees = {name: outcome.trace[name] for name in {"tree", "trees"} & outcome.trace.keys()}
    return outcome.plan, metrics, trees, outcome.text


@pytest.mark.parametrize(("planner", "given"), CASES)
async def test_independent_errors_do_not_depend_on_the_order_of_answers(
    planner, given, tmp_path, monkeypatch
):
    asked = find_planner(planner).settings.known_roles
    roles = tmp_path / "roles.yaml"
    roles.write_text(yaml.safe_dump({role: {"rate": 0.7} for role in asked}))
    at_once = await run(planner, given, roles)
    answer, draw = Oracle.__call__, random.Random(0)

    async def late(oracle, question, /):
        given = await answer(oracle, question)
        for _ in range(draw.randrange(6)):
            await asyncio.sleep(0)
        return given

    monkeypatch.setattr(Oracle, "__call__", late)
    assert await run(planner, given, roles) == at_once
