"""Learning runs: XENON and its baselines on the real rules and real embeddings."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import closing

import pytest
from command_line import invoke

from llm_planning.environments.minecraft.book.rulebook import RuleBook
from llm_planning.environments.minecraft.items.domain import MINECRAFT_GOALS
from llm_planning.environments.minecraft.items.perturbation import perturb
from llm_planning.planners.xenon import learning
from llm_planning.planners.xenon.algorithm import Xenon
from llm_planning.planners.xenon.learning_report import Curve
from llm_planning.planners.xenon.plus import XenonPlus
from llm_planning.planners.xenon.saved import Saved, SavedKnowledgeError
from llm_planning.planners.xenon.specs import SPECS
from llm_planning.running import plan, prepare
from llm_planning.settings import SettingsError
from llm_serving.encoder import TextEncoder
from llm_serving.encoder_engine import EncoderEngine

ORACLE = {"roles": "table12"}
PLANNERS = {spec.name: spec for spec in SPECS}
LEARNERS = [spec.name for spec in SPECS if not spec.lacks(MINECRAFT_GOALS)]


@pytest.fixture(scope="module")
def engine():
    with closing(TextEncoder()) as encoder:
        yield EncoderEngine(encoder)


async def learn(engine, planner="xenon", *, seed=0, **settings):
    return await plan(planner, "67-goals", engine=engine, settings=ORACLE | settings, seed=seed)


async def test_xenon_learns_nearly_everything_under_every_perturbation(engine):
    """The paper reports 0.97 in all four settings (Table 5, first row)."""
    for level in ({}, {"requirements": 3, "actions": 3}):
        outcome = await learn(engine, **level)
        assert outcome.metrics["ega"] >= 0.95
        assert outcome.success is None
        graph = outcome.trace["graph"]
        assert len(graph) >= 67
        assert outcome.metrics["ega_at_3000"] == outcome.metrics["ega"]
        assert outcome.metrics["ega_at_150"] < 0.5
        for item in outcome.trace["changed"]:
            assert item in outcome.trace["obtained"]


async def test_xenon_plus_learns_everything_and_the_baselines_stay_below_xenon(engine):
    """The bars of the figure of knowledge conflicts, at one seed."""
    level = {"requirements": 3, "actions": 3}
    plus, xenon, *others = [
        (await learn(engine, planner, **level)).metrics["ega"]
        for planner in ("xenon-plus", "xenon", "sc", "adam", "deckard", "rand")
    ]
    assert plus >= 0.95
    assert max(others) < xenon - 0.1


async def test_xenon_plus_learns_requirements_never_seen_used_up(engine):
    """The wider pool: here a stick needs two crafting tables, and a wooden pickaxe a chest."""
    level = {"requirements": 3, "pool": "required", "seed": 3}
    plus, ranked, xenon = [
        (await learn(engine, planner, **level)).metrics["ega"]
        for planner in ("xenon-plus", "xenon-plus-a4", "xenon")
    ]
    assert plus >= 0.95
    assert max(ranked, xenon) < 0.5


async def test_the_oracle_is_held_to_known_names_as_the_model_is(engine):
    """The oracle invents names; a closed agent does not hear them."""
    known = set(RuleBook.load().rules)
    heard = {
        planner: set((await learn(engine, planner, steps=10)).trace["graph"])
        for planner in ("xenon-plus-a1", "xenon-plus-a4", "xenon-plus")
    }
    assert heard["xenon-plus-a1"] - known
    assert heard["xenon-plus-a4"] <= known
    assert heard["xenon-plus"] <= known


@pytest.mark.parametrize("change_at", [0, 500])
@pytest.mark.parametrize("pool", ["resources", "required"])
async def test_what_is_true_is_never_refuted(engine, monkeypatch, pool, change_at):
    refuters = []

    class Kept(XenonPlus):
        def __init__(self, **fields):
            super().__init__(**fields)
            refuters.append(self)

    monkeypatch.setitem(learning.AGENTS, "xenon-plus", Kept)
    level = {"requirements": 3, "actions": 3, "pool": pool}
    await learn(engine, "xenon-plus", seed=6, steps=1000, change_at=change_at, **level)
    (refutations,) = [agent.refutations for agent in refuters]
    truth = perturb(RuleBook.load(), seed=6, **level).book
    assert len(refutations.refuted) > 20
    for item in refutations.refuted:
        assert not refutations.refutes(item, truth.requirements(item)), item


async def test_xenon_plus_asks_for_more_than_is_proposed_where_that_is_all_that_is_left(engine):
    """A furnace takes eight chests here, of which six are proposed: 38 goals stay unlearnt for it.

    Without asking for more, the run stays at 0.43, however many steps it has.
    """
    level = {"requirements": 3, "pool": "required"}
    outcome = await learn(engine, "xenon-plus", seed=591, steps=6000, **level)
    assert outcome.trace["graph"]["furnace"] == {"chest": 8, "crafting_table": 1}
    assert outcome.metrics["ega"] == 1


async def test_rules_change_at_their_step_though_nothing_is_left_to_try(engine):
    """With the true graph all goals are obtained long before."""
    settings = {"initial": "truth", "actions": 3, "change_at": 3000, "steps": 3010}
    curve = (await learn(engine, **settings)).trace["curve"]
    before = [(steps, obtained) for steps, _, obtained in curve if steps < 3000]
    assert before[-1][0] < 2000
    assert before[-1][1] == 67
    after = [(steps, obtained) for steps, _, obtained in curve if steps >= 3000]
    assert after[0] == (3000, 67 - 7)


async def test_a_change_of_nothing_is_refused(engine):
    with pytest.raises(SettingsError, match="change_at=9: no rules change; give requirements or"):
        await learn(engine, change_at=9)


async def test_xenon_learns_rules_that_change_and_adam_does_not(engine):
    changes = {"actions": 3, "change_at": 1500}
    xenon = await learn(engine, **changes)
    assert xenon.metrics["relearnt"] == 1.0
    for other in ("adam", "deckard"):
        outcome = await learn(engine, other, **changes)
        assert outcome.metrics["relearnt"] < 0.5


async def test_runs_repeat_themselves_and_share_the_event_loop(engine):
    """Several learners at once give what each gives alone."""
    settings = {"steps": 400, "requirements": 2, "actions": 1}
    together = await asyncio.gather(*(learn(engine, seed=seed, **settings) for seed in (3, 4)))
    alone = [await learn(engine, seed=seed, **settings) for seed in (3, 4)]
    assert together == alone
    assert alone[0].trace["changed"] != alone[1].trace["changed"]


@pytest.mark.parametrize("planner", LEARNERS)
async def test_every_agent_runs_and_beats_what_it_began_with(engine, planner):
    outcome = await learn(engine, planner, steps=300)
    metrics = outcome.metrics
    points = outcome.trace["curve"]
    begun, ended = points[0][1], points[-1][1]
    assert ended == round(metrics["ega"] * 67)
    # Predictions that are never revised gain nothing in so short a time.
    assert ended > begun or planner in {"deckard", "rand", "xenon-no-dependencies"}
    # RAND has no memory, so it takes longer to its first goal.
    assert metrics["obtained"] > 0 or planner == "rand"
    told_all = PLANNERS[planner].settings.read({}).to_json()["names"] == "all"
    assert told_all == planner.startswith("xenon-plus")
    if told_all:
        assert metrics["known_items"] >= 77


async def test_of_the_goals_of_an_oracle_graph_the_least_attempted_comes_next(engine, monkeypatch):
    tried = []

    class Vain(Xenon):
        async def pursue(self, goal, world, *, until):
            tried.append(goal)
            world.steps += 1
            return []

    monkeypatch.setitem(learning.AGENTS, "xenon", Vain)
    await learn(engine, initial="truth", steps=2 * 67 + 5)
    for rounds in (1, 2):
        assert set(Counter(tried[: rounds * 67]).values()) == {rounds}
    assert len(tried) == 2 * 67 + 5
    assert tried[:67] != sorted(tried[:67])


async def test_learning_begins_anew_and_writes_over_its_own_file_only(engine, tmp_path):
    """With a controller, whose seed depends on the episode; `test_xenon_saved` runs without one."""
    path, other = tmp_path / "x.json", tmp_path / "other.json"
    settings = {"steps": 9000, "controller": "minerl", "requirements": 1}
    await learn(engine, save=str(path), **settings)
    again = [await learn(engine, save=str(path), episodes=2, **settings) for path in (path, other)]
    assert path.read_bytes() == other.read_bytes()
    assert again[0].metrics == again[1].metrics
    assert Saved.load(path).episodes == 2
    assert dict(Saved.load(path).graph().requirements("planks")) == {"logs": 1}
    for planner, seed, says in (("sc", 0, "agent=xenon.* agent=sc"), ("xenon", 1, "seed=0.*=1")):
        with pytest.raises(SavedKnowledgeError, match=says):
            await learn(engine, planner, seed=seed, save=str(path), **settings)


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        ("xenon", "note: no model: rules with the errors of Table 12 answer (roles=table12)\n"),
        ("select-xenon --task compass", "note: no model: rules with the errors of Table 12 answer"),
        ("xenon --set roles=table12", ""),
        ("xenon --set roles=rules", ""),
    ],
)
def test_without_a_model_rules_answer_and_the_terminal_says_so(arguments, note, tmp_path):
    path = tmp_path / "trace.jsonl"
    steps = ("--set", "steps=20", "--trace", path, "--json")
    result = invoke("run", *arguments.split(), "--model", "none", *steps)
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith(note)
    assert bool(result.stderr) == bool(note)
    settings = json.loads(path.read_text().splitlines()[0])["settings"]
    assert settings["roles"] == ("rules" if "rules" in arguments else "table12")


@pytest.mark.parametrize(
    "arguments",
    ["--set roles=llm", "--role-model predict=none"],
)
def test_without_a_model_whoever_the_user_named_answers(arguments):
    result = invoke("run", "xenon", "--model", "none", *arguments.split())
    assert result.exit_code == 1
    assert result.stderr.startswith("error: the model 'none' answers no questions")
    assert "(setting roles=table12)" in result.stderr


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"change_at": 3000}, "change_at=3000 is not below steps=3000"),
        ({"change_at": 1, "controller": "minerl", "steps": 9}, "needs controller=text"),
        ({"requirement": 1}, "did you mean requirements"),
        ({"verbs": 7}, "verbs=7.*3, 15, 30, 45"),
        ({"controller": "minerl"}, "controller=minerl needs steps; the paper"),
        ({"initial": "truth", "episodes": 2}, "need episodes=1"),
    ],
)
def test_impossible_settings_name_their_remedy(values, says):
    with pytest.raises(SettingsError, match=says):
        prepare("xenon", settings=values)


def test_a_curve_says_where_it_stood():
    curve = Curve()
    for steps, n_true, obtained in ((0, 10, 0), (40, 10, 0), (60, 12, 3), (90, 13, 4)):
        curve.note(steps, n_true, obtained)
    assert len(curve.points) == 3
    reached = {0: (10, 0), 59: (10, 0), 60: (12, 3), 89: (12, 3), 500: (13, 4)}
    assert {steps: curve.at(steps) for steps in reached} == reached
