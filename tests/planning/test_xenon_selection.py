"""Choosing actions with the true graph: UCB by hand, golden traces of all five ways (Figure 25)."""

import math

import pytest

from llm_planning.environments.minecraft.rulebook import Rule, RuleBook
from llm_planning.environments.minecraft.text_world import TextWorld
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.papers import find_paper
from llm_planning.planners.xenon.benchmark import Repeat, obtain, true_graph
from llm_planning.planners.xenon.choosing import Asking, FailureAware, Forgetful, SelfReflecting
from llm_planning.planners.xenon.memory import ActionMemory
from llm_planning.planners.xenon.roles import Attempt
from llm_planning.planners.xenon.selection import RandomFam, Ucb, UcbSettings
from llm_planning.planners.xenon.similarity import Similar
from llm_planning.planners.xenon.specs import SPECS
from llm_planning.roles import Engines
from llm_planning.settings import SettingsError
from llm_planning.specs import Problem
from llm_serving.scripted import ScriptedEngine

RULES = (
    Rule(item="logs", action="mine"),
    Rule(item="planks", action="craft", consumed={"logs": 1}, makes=4),
    Rule(item="stick", action="craft", consumed={"planks": 2}, makes=4),
)
BOOK = RuleBook({rule.item: rule for rule in RULES})
VERBS = ("mine", "craft", "smelt")


class Draws:
    """A generator that takes the same place of every list."""

    def __init__(self, place):
        self.choice = lambda options: options[place]


class Liking:
    """A model that likes some actions more than others, whatever the item."""

    def __init__(self, *liked):
        self.liked = liked
        self.asked = []

    async def __call__(self, question):
        self.asked.append((question.item, question.examples, question.options, question.analyses))
        liked = [action for action in self.liked if action in question.options]
        return liked[len(question.analyses) % len(liked)]


async def analyse(failure):
    return f"{failure.action} is wrong"


def memory():
    return ActionMemory(VERBS, x0=2)


def asking(model):
    return Asking(memory=memory(), similar=Similar(ScriptedEngine({})), ask=model, k=3)


async def tried(policy, *, until=300, goal="stick"):
    world = TextWorld(BOOK, goals=(goal,), verbs=VERBS)
    truth = true_graph(BOOK, world.items)
    episode = await obtain(
        goal,
        world,
        graph=truth,
        truth=truth,
        actions=policy,
        execute=Repeat(world),
        until=until,
    )
    trace = [f"{s.action} {s.item}{'' if s.reached else ' -'}" for s in episode.subgoals]
    return episode, trace


STUBBORN = [
    *["smelt logs -"] * 2,
    *["craft logs -"] * 2,
    "mine logs",
    *["smelt planks -"] * 2,
    "craft planks",
    *["smelt stick -"] * 2,
    "craft stick",
]
"""What FAM makes of somebody who likes smelt best and mine least, with x_0 = 2."""


async def test_xenon_takes_away_what_failed_twice():
    model = Liking("smelt", "craft", "mine")
    episode, trace = await tried(FailureAware(asking(model)))
    assert trace == STUBBORN
    assert (episode.success, episode.steps, episode.plan_length) == (True, 11, 3)
    assert [options for _, _, options, _ in model.asked][:5] == [
        VERBS,
        VERBS,
        ("mine", "craft"),
        ("mine", "craft"),
        VERBS,
    ]
    item, examples, _, _ = model.asked[-1]
    assert (item, sorted(examples)) == ("stick", [("logs", "mine"), ("planks", "craft")])


async def test_random_fam_draws_from_the_same_candidates():
    _, trace = await tried(RandomFam(memory(), rng=Draws(-1)))
    assert trace == STUBBORN


async def test_an_llm_without_memory_repeats_itself():
    model = Liking("smelt", "craft", "mine")
    episode, trace = await tried(Forgetful(asking(model)))
    assert (episode.success, episode.steps) == (False, 300)
    assert trace == ["smelt logs -"] * 300


async def test_self_correction_is_told_why_it_failed():
    model = Liking("smelt", "craft", "mine")
    episode, trace = await tried(SelfReflecting(asking(model), analyse=analyse))
    assert trace == [
        "smelt logs -",
        "craft logs -",
        "mine logs",
        "smelt planks -",
        "craft planks",
        "smelt stick -",
        "craft stick",
    ]
    assert episode.steps == 7
    assert model.asked[2][3] == ("smelt is wrong", "craft is wrong")


async def test_ucb_tries_every_action_of_an_item_before_it_compares():
    _, trace = await tried(Ucb(memory(), c=math.sqrt(2), rng=Draws(0)))
    assert trace == [
        "mine logs",
        "mine planks -",
        "craft planks",
        "mine stick -",
        "craft stick",
    ]
    policy = Ucb(memory(), c=math.sqrt(2), rng=Draws(0))
    for action in VERBS:
        assert await policy.choose("logs") == action
        policy.failed(Attempt(item="logs", action=action, believed={}, inventory={}))
    assert not policy.exhausted("logs")


def test_ucb_scores_by_hand():
    """S/n + c sqrt(ln N / n) with N = 6, n = 4 and 2; ln 6 = 1.791759."""
    record = ActionMemory(("a", "b", "c"), x0=2)
    for action, outcomes in {"a": (1, 1, 1, 0), "b": (1, 0)}.items():
        for outcome in outcomes:
            record.record(action, "v", bool(outcome))
    scores = Ucb(record, c=math.sqrt(2), rng=Draws(0)).scores("v")
    assert scores["a"] == pytest.approx(0.75 + 0.946509, abs=1e-6)
    assert scores["b"] == pytest.approx(0.5 + 1.338566, abs=1e-6)
    assert scores["c"] == math.inf
    assert Ucb(record, c=0.0, rng=Draws(0)).scores("v")["a"] == 0.75


async def test_ucb_takes_the_highest_bound_and_breaks_ties_by_its_draws():
    record = ActionMemory(("a", "b"), x0=2)
    for action, outcomes in {"a": (1, 1, 1, 0), "b": (1, 0)}.items():
        for outcome in outcomes:
            record.record(action, "v", bool(outcome))
    assert await Ucb(record, c=math.sqrt(2), rng=Draws(0)).choose("v") == "b"
    assert await Ucb(record, c=0.0, rng=Draws(0)).choose("v") == "a"
    assert await Ucb(record, c=1.0, rng=Draws(0)).choose("w") == "a"
    assert await Ucb(record, c=1.0, rng=Draws(-1)).choose("w") == "b"


async def test_actions_all_ruled_out_are_explored_afresh():
    """Two failures each of two wrong actions, and none is left: all are candidates again."""
    wrong = ActionMemory(("craft", "smelt"), x0=2)
    episode, trace = await tried(RandomFam(wrong, rng=Draws(0)), until=8, goal="logs")
    assert not episode.success
    assert trace == [*["craft logs -"] * 2, *["smelt logs -"] * 2] * 2


RUNS = {spec.name: spec for spec in SPECS if spec.name.startswith("select-")}


async def run(name, settings, *, seed=0, task="note_block"):
    return await RUNS[name].run(
        Problem(domain="minecraft", task=task, world=None),
        engines=Engines(ScriptedEngine({})),
        settings=RUNS[name].settings.read(settings),
        seed=seed,
    )


@pytest.mark.parametrize("name", RUNS)
async def test_runs_are_repeatable_and_within_the_horizon(name):
    settings = {"verbs": 15}
    if RUNS[name].roles:
        settings["prior"] = "table12"
    one, again = await run(name, settings, seed=1), await run(name, settings, seed=1)
    assert one == again
    assert one.metrics["env_steps"] <= 300
    assert one.metrics["group"] == "Redstone"
    assert one.success == ("craft 1 note_block" in one.plan)
    assert one.metrics["subgoal_omission"] is False


async def test_fam_reaches_what_the_llm_alone_does_not():
    asking = {"verbs": 45, "prior": "table12"}
    reached = {
        name: sum([(await run(name, asking, seed=seed)).success for seed in range(5)])
        for name in ("select-xenon", "select-llm")
    }
    assert reached["select-xenon"] == 5
    assert reached["select-llm"] == 0


def test_sizes_of_action_sets_are_those_of_the_paper():
    assert UcbSettings.read({"verbs": "45"}).verbs == 45
    with pytest.raises(SettingsError, match=r"verbs=7.*3, 15, 30, 45"):
        UcbSettings.read({"verbs": 7})


def test_the_sweep_of_figure_25_has_its_trials():
    paper = find_paper("xenon")
    trials = load_sweep(paper.folder / "figure25.yaml").trials
    assert len(trials) == 6 * 4 * 20 * (2 + 3 + 3)
    assert {row.where["planner"][0] for row in paper.table("figure25").rows} == set(RUNS)
