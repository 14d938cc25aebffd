"""The loop of XENON (Algorithm 1), its beginning (Algorithm 2) and its file, step by step."""

from __future__ import annotations

import json
import random

import pytest

from llm_planning.environments.minecraft.rulebook import Rule, RuleBook
from llm_planning.environments.minecraft.text_world import TextWorld
from llm_planning.planners.xenon.agent import Agent
from llm_planning.planners.xenon.choosing import Asking, FailureAware, SelfReflecting, SuccessOnly
from llm_planning.planners.xenon.failure_notes import FailureNotes
from llm_planning.planners.xenon.goals import dex
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.initial import (
    PlanFailedError,
    demonstrate,
    predict_requirements,
)
from llm_planning.planners.xenon.knowledge import Knowledge
from llm_planning.planners.xenon.memory import ActionMemory
from llm_planning.planners.xenon.plans import PLANS, HumanPlan
from llm_planning.planners.xenon.revision import AnalogyStore, Revising, consumed
from llm_planning.planners.xenon.roles import Attempt
from llm_planning.planners.xenon.saved import Saved, SavedKnowledgeError, save_knowledge
from llm_planning.planners.xenon.settings import LearningSettings
from llm_planning.settings import SettingsError

VERBS = ("mine", "craft", "smelt")


def tiny_book():
    return RuleBook(
        {
            rule.item: rule
            for rule in (
                Rule(item="logs", action="mine"),
                Rule(item="planks", action="craft", consumed={"logs": 1}, makes=4),
                Rule(item="bowl", action="craft", consumed={"planks": 3}),
                Rule(item="pot", action="smelt", consumed={"planks": 6}),
            )
        }
    )


class Logged:
    """A text world that writes down what is tried."""

    def __init__(self, world):
        self._world = world
        self.log = []
        self.items, self.verbs = world.items, world.verbs

    steps = property(lambda self: self._world.steps)
    inventory = property(lambda self: self._world.inventory)

    def reset(self):
        self._world.reset()

    def step(self, action, item):
        used = self._world.step(action, item)
        self.log.append(f"{action} {item}{'' if used is not None else ' fails'}")
        return used


class Alphabetical:
    """Everything is alike, in alphabetical order."""

    async def top(self, item, among, k):
        return sorted(u for u in among if u != item)[:k]

    async def learn(self, names):
        pass


def chooser(answers):
    """Answers by item, each list from left to right; says what it was asked."""
    asked = []

    async def choose(question):
        asked.append((question.item, question.examples, question.options, question.analyses))
        return answers[question.item].pop(0)

    return choose, asked


def asking(memory, ask=None, *, k=3):
    return Asking(memory=memory, similar=Alphabetical(), ask=ask, k=k)


def xenon(known, ask, *, x0=2, scales=None):
    memory = ActionMemory(VERBS, x0=x0)
    given = Revising(
        knowledge=known,
        similar=Alphabetical(),
        scales=scales or LearningSettings(c0=3, alpha_s=2, alpha_i=8, K=3),
        resources=consumed,
    )
    return Agent(
        knowledge=known,
        dependencies=AnalogyStore(given),
        actions=FailureAware(asking(memory, ask)),
        select_goal=dex,
        notes=FailureNotes(),
        rng=random.Random(0),
    ), memory


async def test_golden_trace():
    """A pot of 6 planks, believed to be one plank, from the first step to the last.

    C(pot) goes 2, 3 (what similar items need: logs, 2 C(pot) of them), then 4 and 5 (8 of every
    resource; planks are one only after the bowl was made). The bowl, which was believed to need a
    pot, is freed when the pot becomes inadmissible.
    """
    known = Knowledge(DependencyGraph(["logs", "planks", "bowl", "pot"]))
    known.graph.require("planks", {"logs": 1})
    known.graph.require("pot", {"planks": 1})
    known.graph.require("bowl", {"planks": 3, "pot": 1})
    ask, asked = chooser(
        {
            "logs": ["mine"],
            "planks": ["smelt", "craft"],
            "pot": ["craft", "mine"] * 5,
            "bowl": ["craft"],
        }
    )
    agent, memory = xenon(known, ask, x0=1)
    world = Logged(TextWorld(tiny_book(), goals=["bowl", "pot"], verbs=VERBS))
    await agent.learn(world, until=100, watch=lambda: None)
    in_vain = ["craft pot fails", "mine pot fails", "smelt pot fails"]
    assert world.log == [
        "mine logs",
        *("smelt planks fails", "craft planks"),
        *in_vain,
        *["mine logs"] * 4,
        *in_vain,
        *["mine logs"] * 2,
        *in_vain,
        "craft bowl",
        *["mine logs"] * 2,
        *in_vain,
        *["mine logs"] * 2,
        *["craft planks"] * 2,
        *in_vain[:2],
        "smelt pot",
    ]
    assert known.revisions == {"pot": 5, "bowl": 2}
    assert dict(known.graph.requirements("pot")) == {"planks": 6}
    assert dict(known.graph.requirements("bowl")) == {"planks": 3}
    assert memory.known() == {"logs": "mine", "planks": "craft", "bowl": "craft", "pot": "smelt"}
    # With one action left there is nothing to ask.
    assert [options for item, _, options, _ in asked if item == "pot"] == [
        VERBS,
        ("mine", "smelt"),
    ] * 5
    assert list(known.attempts.items()) == [
        ("logs", 1),
        ("planks", 1),
        ("pot", 5),
        ("bowl", 1),
    ]


async def test_the_end_of_the_time_is_no_failure():
    known = Knowledge(DependencyGraph(["logs"]))
    agent, memory = xenon(known, chooser({"logs": ["mine"] * 3})[0])
    world = Logged(TextWorld(tiny_book(), goals=["bowl"], verbs=VERBS))
    known.graph.add("planks")
    known.graph.require("planks", {"logs": 9})
    await agent.learn(world, until=4, watch=lambda: None)
    assert world.log == ["mine logs"] * 4
    assert memory.failures("mine", "logs") == 0


async def test_fam_is_asked_with_similar_items_and_without_what_failed():
    memory = ActionMemory(VERBS, x0=1)
    ask, asked = chooser({"stick": ["smelt", "craft"]})
    policy = FailureAware(asking(memory, ask, k=2))
    for item in ("planks", "logs", "bowl"):
        policy.succeeded("craft" if item != "logs" else "mine", item)
    assert await policy.choose("stick") == "smelt"
    policy.failed(attempt("stick", "smelt"))
    assert await policy.choose("stick") == "craft"
    assert asked == [
        ("stick", (("bowl", "craft"), ("logs", "mine")), VERBS, ()),
        ("stick", (("bowl", "craft"), ("logs", "mine")), ("mine", "craft"), ()),
    ]
    policy.failed(attempt("stick", "craft"))
    assert await policy.choose("stick") == "mine"  # the only one left: nobody is asked
    assert len(asked) == 2
    assert await policy.choose("bowl") == "craft"


async def test_successes_only_asks_the_same_again_until_requirements_are_doubted():
    memory = ActionMemory(VERBS, x0=2)
    ask, asked = chooser({"stick": ["mine"] * 6})
    policy = SuccessOnly(asking(memory, ask, k=2))
    for _ in range(6):
        assert not policy.exhausted("stick")
        assert await policy.choose("stick") == "mine"
        policy.failed(attempt("stick", "mine"))
    assert policy.exhausted("stick")  # x_0 |𝒜| = 6
    assert {options for _, _, options, _ in asked} == {VERBS}


async def test_self_reflection_reads_why_earlier_attempts_failed():
    ask, asked = chooser({"stick": ["mine"] * 5})
    analysed = []

    async def analyse(failure):
        analysed.append(failure)
        return f"reason {len(analysed)}"

    policy = SelfReflecting(asking(ActionMemory(VERBS, x0=9), ask, k=1), analyse=analyse)
    for _ in range(5):
        await policy.choose("stick")
        policy.failed(attempt("stick", "mine"))
    # The same action on the same belief fails for the same reason: it is asked for once.
    assert [analyses for _, _, _, analyses in asked] == [("reason 1",) * n for n in range(5)]
    policy.failed(attempt("stick", "craft"))
    assert await policy.analyses("stick") == (*("reason 1",) * 5, "reason 2")


def attempt(item, action):
    return Attempt(item=item, action=action, believed={}, inventory={})


# The beginning ------------------------------------------------------------------------------------


def test_the_three_plans_demonstrate_what_the_paper_lists():
    known = Knowledge(DependencyGraph())
    memory = ActionMemory(VERBS, x0=2)
    policy = FailureAware(asking(memory))
    world = TextWorld(RuleBook.load(), goals=["diamond", "iron_sword", "golden_sword"], verbs=VERBS)
    demonstrate(PLANS, world, knowledge=known, actions=policy)
    assert known.demonstrated == {
        *("logs", "planks", "stick", "crafting_table", "wooden_pickaxe", "cobblestone", "furnace"),
        *("stone_pickaxe", "iron_ore", "iron_ingot", "iron_pickaxe", "iron_sword", "diamond"),
        *("gold_ore", "gold_ingot", "golden_sword"),
    }
    assert known.obtained == set()
    assert dict(known.graph.requirements("diamond")) == {"iron_pickaxe": 1}
    assert dict(known.graph.requirements("furnace")) == {"cobblestone": 8, "crafting_table": 1}
    assert known.kept >= {"crafting_table", "furnace"}
    assert memory.valid("iron_ingot") == "smelt"


def test_a_plan_that_fails_names_its_step():
    plan = HumanPlan("bowl", (("mine", "logs", 1), ("smelt", "planks", 3)))
    world = TextWorld(tiny_book(), goals=["bowl"], verbs=VERBS)
    policy = FailureAware(asking(ActionMemory(VERBS, x0=2)))
    with pytest.raises(PlanFailedError, match="plan for bowl fails at smelt planks"):
        demonstrate([plan], world, knowledge=Knowledge(DependencyGraph()), actions=policy)


async def predicted(answers, items, *, most=100, demonstrated=()):
    known = Knowledge(DependencyGraph(items))
    for item, used in demonstrated:
        known.demonstrate(item, used, makes=1, kept=set())
    asked = []

    async def predict(question):
        asked.append((question.item, tuple(question.examples)))
        return answers.get(question.item, {})

    initial = await predict_requirements(
        known, predict=predict, similar=Alphabetical(), k=2, most=most
    )
    return known, initial, asked


async def test_mentioned_items_are_accepted_and_asked_for_in_turn():
    known, initial, asked = await predicted(
        {"bowl": {"wood": 2}, "wood": {"tree": 1}},
        ["bowl"],
        demonstrated=[("stick", {"planks": 2})],
    )
    assert [item for item, _ in asked] == ["bowl", "planks", "wood", "tree"]
    assert asked[0][1] == (("stick", {"planks": 2}),)
    assert dict(known.graph.requirements("bowl")) == {"wood": 2}
    assert list(known.graph.items) == ["bowl", "planks", "stick", "wood", "tree"]
    assert initial.cyclic == ()


async def test_a_prediction_that_makes_a_cycle_becomes_nothing():
    known, initial, _ = await predicted(
        {"planks": {"stick": 1}, "stick": {"planks": 2, "glue": 1}}, ["planks", "stick"]
    )
    assert dict(known.graph.requirements("planks")) == {"stick": 1}
    assert not known.graph.requirements("stick")
    assert initial.cyclic == ("stick",)
    assert "glue" in known.graph
    assert initial.predicted["stick"] == {"planks": 2, "glue": 1}


async def test_hallucination_without_end_is_bounded():
    answers = {f"thing_{i}": {f"thing_{i + 1}": 1} for i in range(100)}
    known, initial, asked = await predicted(answers, ["thing_0"], most=5)
    assert len(asked) == 5
    assert initial.unasked == ("thing_5",)
    assert not known.graph.requirements("thing_5")


# The file -----------------------------------------------------------------------------------------


def learnt():
    known = Knowledge(DependencyGraph(["bowl"]))
    known.obtain("planks", {"logs": 1}, makes=4, kept=set())
    known.demonstrate("stick", {"planks": 2}, makes=4, kept=set())
    known.revisions["bowl"] = 3
    known.attempts["bowl"] = 2
    memory = ActionMemory(VERBS, x0=2)
    memory.record("craft", "planks", True)
    memory.record("mine", "bowl", False)
    return known, memory


NOTES = FailureNotes(
    unrevised={"bowl": [Attempt(item="bowl", action="mine", believed={"planks": 3}, inventory={})]},
    corrections={"bowl": 2},
)


def save(path, known, memory, goals=None):
    save_knowledge(
        path,
        known,
        memory,
        NOTES,
        run={"task": "67-goals", "seed": 3},
        episodes=3,
        goals=goals or random.Random(7),
        curve=[(0, 10, 0), (5, 11, 1)],
    )


def test_knowledge_comes_back_as_it_was(tmp_path):
    known, memory = learnt()
    rng = random.Random(7)
    path = tmp_path / "learnt.json"
    save(path, known, memory, goals=rng)
    saved = Saved.load(path)
    back = saved.knowledge()
    assert saved.episodes == 3
    assert {v: dict(back.graph.requirements(v)) for v in back.graph.items} == {
        v: dict(known.graph.requirements(v)) for v in known.graph.items
    }
    assert list(back.graph.items) == list(known.graph.items)
    assert back.graph.makes("planks") == 4
    for name in (
        "demonstrated",
        "obtained",
        "consumed",
        "kept",
        "gathered",
        "revisions",
        "attempts",
        "setbacks",
    ):
        assert getattr(back, name) == getattr(known, name), name
    restored = ActionMemory(VERBS, x0=2)
    restored.restore(saved.memory.model_dump())
    assert restored.to_json() == memory.to_json()
    assert saved.notes == NOTES
    assert saved.generator().random() == rng.random()
    assert saved.curve == [(0, 10, 0), (5, 11, 1)]
    assert [path.name for path in tmp_path.iterdir()] == ["learnt.json"]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda text: text[:-40], "no learned knowledge"),
        (lambda text: text.replace('"obtained"', '"obtaind"'), "obtain"),
        (lambda text: text.replace('"format": 3', '"format": 9'), "has format 9, not 3: delete it"),
        (lambda text: text.replace('"logs": 1', '"planks": 1'), "has a cycle"),
        (lambda text: text.replace('"logs": 1', '"logs": 0'), "greater than 0"),
        (lambda text: text.replace('"successes"', '"success"'), "memory.success"),
    ],
)
def test_a_damaged_file_is_one_clear_error(tmp_path, spoil, says):
    known, memory = learnt()
    path = tmp_path / "learnt.json"
    save(path, known, memory)
    path.write_text(spoil(path.read_text()))
    with pytest.raises(SavedKnowledgeError, match=says):
        Saved.load(path).knowledge()


def test_knowledge_of_another_run_is_not_taken_up(tmp_path):
    known, memory = learnt()
    path = tmp_path / "x.json"
    run = {"task": "67-goals", "seed": 3}
    assert Saved.resume(path, run, episodes=9) is None
    save(path, known, memory)
    assert Saved.resume(path, run, episodes=9) == Saved.load(path)
    with pytest.raises(SavedKnowledgeError, match="learnt with seed=3, and this run has seed=4"):
        Saved.resume(path, run | {"seed": 4}, episodes=9)
    with pytest.raises(SavedKnowledgeError, match="steps"):
        Saved.resume(path, run | {"steps": 9}, episodes=9)
    with pytest.raises(SavedKnowledgeError, match="more than episodes=0: name another file"):
        Saved.resume(path, run, episodes=0)
    with pytest.raises(SettingsError, match="that folder does not exist"):
        Saved.resume(tmp_path / "no" / "x.json", run, episodes=9)


def test_actions_that_there_are_not_are_refused():
    memory = ActionMemory(VERBS, x0=2)
    with pytest.raises(ValueError, match=r"\['hunt'\] are none of mine, craft, smelt"):
        memory.restore({"successes": {"cow": {"hunt": 1}}, "failures": {}})


def test_a_missing_file_or_folder_is_one_clear_error(tmp_path):
    with pytest.raises(SavedKnowledgeError, match="cannot read"):
        Saved.load(tmp_path / "none.json")
    known, memory = learnt()
    with pytest.raises(SavedKnowledgeError, match="cannot write"):
        save(tmp_path / "no" / "x.json", known, memory)
    assert json.dumps(list(map(str, tmp_path.iterdir()))) == "[]"
