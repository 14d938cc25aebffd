"""What XENON's tests share: small books, rankings by hand, policies that ask a script."""

import json
from pathlib import Path
from types import SimpleNamespace

from llm_planning.environments.minecraft.book.rulebook import ItemRule, RuleBook
from llm_planning.planners.xenon.algorithm import Xenon
from llm_planning.planners.xenon.asking import MinecraftAsking
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.memory import ActionMemory, Knowledge
from llm_planning.planners.xenon.roles import Failure
from llm_planning.planners.xenon.settings import LearningSettings
from llm_planning.roles import Engines
from llm_serving.scripted import ScriptedEngine

VERBS = ("mine", "craft", "smelt")
TRACES = json.loads(
    (Path(__file__).parents[1] / "golden" / "xenon" / "traces.json").read_text("utf-8")
)
"""Name -> what is tried, step by step."""


def book_of(*rules):
    return RuleBook({rule.item: rule for rule in rules})


LOGS = ItemRule(item="logs", action="mine")
PLANKS = ItemRule(item="planks", action="craft", consumed={"logs": 1}, makes=4)
STICK = ItemRule(item="stick", action="craft", consumed={"planks": 2}, makes=4)
SMALL = book_of(
    LOGS,
    PLANKS,
    STICK,
    ItemRule(item="crafting_table", action="craft", consumed={"planks": 4}),
    ItemRule(
        item="wooden_pickaxe",
        action="craft",
        consumed={"planks": 3, "stick": 2},
        kept={"crafting_table": 1},
    ),
)


class Alike:
    """Ranks names in a fixed order; in alphabetical order if none is given."""

    def __init__(self, *order):
        self.order = order

    async def top(self, item, among, k):
        order = self.order or sorted(among)
        return [u for u in order if u in among and u != item][:k]

    async def learn(self, names):
        pass


class Liking:
    """A model that likes some actions more than others for every item."""

    def __init__(self, *liked):
        self.liked = liked
        self.asked = []

    async def __call__(self, question):
        self.asked.append(
            (question.item, question.examples, question.options, tuple(question.analyses))
        )
        liked = [action for action in self.liked if action in question.options]
        return liked[len(question.analyses) % len(liked)]


class Draws:
    """A generator that takes the same place of every list."""

    def __init__(self, place):
        self.choice = lambda options: options[place]


async def analyse(failure):
    return f"{failure.action} is wrong"


def agent(kind=Xenon, known=None, *, memory=None, x0=2, similar=None, asks=None, **fields):
    """An agent; `asks` are its roles."""
    return kind(
        knowledge=known or Knowledge(DependencyGraph()),
        memory=memory or ActionMemory(VERBS, x0=x0),
        similar=similar or Alike(),
        roles=SimpleNamespace(**{"analyse": analyse} | (asks or {})),
        **fields,
    )


def minecraft(engine=None, *, book=None, items=(), verbs=VERBS, names=None, seed=0, **settings):
    """Who answers in a small world."""
    return MinecraftAsking(
        SimpleNamespace(book=book or SMALL, items=items, verbs=verbs),
        Engines(engine or ScriptedEngine({})),
        LearningSettings.read(settings),
        seed=seed,
        names=names,
    )


def failed(item, action="mine", **inventory):
    return Failure(item=item, action=action, believed={}, inventory=inventory)
