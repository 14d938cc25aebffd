"""XENON, SC and DECKARD in the kitchen from scripted answers: golden traces, who learns what."""

from dataclasses import replace

from cooking_kitchens import cooking_in, paper_kitchen
from xenon_builders import Alike

from llm_planning.environments.cooking.recipes import ACTIONS, TOOLS
from llm_planning.planners.xenon.cooking import COOKS
from llm_planning.planners.xenon.cooking_agent import CookingKnowledge, cook
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.memory import ActionMemory, Knowledge

ALIKE = Alike("dice", "chop", "slice", "fry", "roast", "prepare", "eat")


class Script:
    """Answers tools and actions from tables; an action that is not listed is the first option."""

    def __init__(self, tools, actions):
        self.tools = tools
        self.actions = actions
        self.asked = []

    async def predict(self, question):
        failures = tuple(question.failures)
        self.asked.append(("tool", question.item, tuple(question.examples), failures))
        answer = self.tools[question.item]
        return answer if isinstance(answer, str) else answer[min(len(failures), len(answer) - 1)]

    async def choose(self, question):
        item, options, examples, analyses = (
            question.item, question.options, question.examples, question.analyses,
        )  # fmt: skip
        self.asked.append(("action", item, examples, options, analyses))
        answer = self.actions.get(item, options[0])
        return answer if isinstance(answer, str) else answer[min(len(analyses), len(answer) - 1)]


MEAL = {"prepare": "prepare", "eat": "eat"}


def a_cook(script=None, *, name="xenon", known=None, x0=1, alike=ALIKE):
    return COOKS[f"{name}-cooking"](
        knowledge=Knowledge(DependencyGraph()),
        memory=ActionMemory(ACTIONS, x0=x0),
        similar=alike,
        roles=script,
        known=known or CookingKnowledge(),
        seed=0,
    )


def player(name, script, **state):
    """Plays episodes with one agent, whose knowledge lasts."""
    agent = a_cook(script, name=name, **state)

    async def play(kitchen, *, max_steps=50):
        world, meal = cooking_in(kitchen)
        return await cook(world, meal, agent=agent, max_steps=max_steps)

    return play, agent.known


def tried(episode):
    return [(s.cookbook_action, s.action, s.tool, s.success) for s in episode.steps]


async def test_golden_trace_of_xenon():
    script = Script({"dice": "knife", "chop": "oven", "prepare": "table", "eat": "oven"}, MEAL)
    play, known = player("xenon", script)
    kitchen = paper_kitchen(("dice", "carrot"), ("chop", "onion"))
    episode = await play(kitchen)
    assert tried(episode) == [
        # FAM with x0 = 1 prunes an action after one failure.
        ("dice", "chop", "knife", False),
        ("dice", "close", "knife", False),
        ("dice", "cook", "knife", False),
        ("dice", "dice", "knife", True),
        # No action chops with an oven: the tool must be wrong.
        *(("chop", action, "oven", False) for action in ACTIONS),
        # Revised by analogy with dicing, and FAM was reset.
        ("chop", "chop", "knife", True),
        ("prepare", "prepare", "table", True),
        ("eat", "eat", "oven", True),
    ]
    assert episode.success
    assert known.tools == {"dice": "knife", "chop": "knife", "prepare": "table", "eat": "oven"}
    assert known.rejected == {"chop": ["oven"]}
    assert known.revisions == 1
    # Tools are predicted before the episode; the ninth action of chopping needs no question.
    assert [q[:2] for q in script.asked] == [
        *(("tool", v) for v in ("dice", "chop", "prepare", "eat")),
        *[("action", "dice")] * 4,
        *[("action", "chop")] * 9,
        ("action", "prepare"),
        ("action", "eat"),
    ]
    assert script.asked[5][3] == tuple(a for a in ACTIONS if a != "chop")
    # The examples are the actions of similar cookbook actions.
    assert script.asked[8] == ("action", "chop", (("dice", "dice"),), ACTIONS, ())


async def test_knowledge_persists_between_episodes():
    script = Script(dict.fromkeys(("dice", "chop", "prepare", "eat"), "knife"), MEAL)
    play, known = player("xenon", script)
    kitchen = paper_kitchen(("dice", "carrot"), ("chop", "onion"))
    first = await play(kitchen)
    asked = len(script.asked)
    second = await play(kitchen)
    assert len(first.steps) > len(second.steps) == 4
    assert len(script.asked) == asked
    # Experience with one ingredient holds for another.
    third = await play(paper_kitchen(("chop", "egg")))
    assert len(third.steps) == 3
    assert len(script.asked) == asked
    assert known.episodes == 3


async def test_revision_excludes_tools_that_failed():
    known = CookingKnowledge(tools={"dice": "knife", "chop": "knife"})
    agent = a_cook(known=known)
    agent.memory.record("dice", "dice", True)
    believed = ["knife"]
    for _ in range(5):
        await agent.revise("chop")
        believed.append(known.tools["chop"])
    # Dicing offers only the knife, which failed: each other tool follows once.
    assert sorted(believed) == sorted(TOOLS)
    assert known.rejected["chop"] == believed[:-1]
    await agent.revise("chop")
    assert (known.tools["chop"], known.rejected["chop"]) == ("knife", [])


async def test_most_similar_success_is_preferred():
    known = CookingKnowledge(tools={"fry": "stove", "slice": "knife", "roast": "counter"})
    agent = a_cook(known=known, alike=Alike("fry", "slice"))
    agent.memory.record("slice", "slice", True)
    agent.memory.record("cook", "fry", True)
    await agent.revise("roast")
    assert known.tools["roast"] == "stove"
    await agent.revise("roast")
    assert known.tools["roast"] == "knife"
    nearest = replace(agent, k=1)
    known.rejected.clear()
    await nearest.revise("roast")
    assert known.tools["roast"] == "stove"


async def test_deckard_corrects_nothing():
    script = Script({"dice": "knife", "chop": "oven", "prepare": "oven", "eat": "oven"}, MEAL)
    script.actions |= {"dice": "dice", "chop": "chop"}
    play, _ = player("deckard", script)
    kitchen = paper_kitchen(("dice", "carrot"), ("chop", "onion"))
    for _ in range(2):
        episode = await play(kitchen)
        assert not episode.success
        assert tried(episode) == [
            ("dice", "dice", "knife", True),
            *[("chop", "chop", "oven", False)] * 49,
        ]
    assert [q for q in script.asked if q[:2] == ("tool", "chop")] == [("tool", "chop", (), ())]
    # A success is reused without a question; after a failure the same question is asked.
    assert sum(q[:2] == ("action", "dice") for q in script.asked) == 1
    assert len({q for q in script.asked if q[:2] == ("action", "chop")}) == 1


async def test_self_correction_is_told_what_failed():
    script = Script(
        {"chop": ["oven", "knife"], "prepare": "oven", "eat": "oven"},
        MEAL | {"chop": ["dice", "slice", "chop"]},
    )
    play, known = player("sc", script)
    kitchen = paper_kitchen(("chop", "onion"))
    first = await play(kitchen, max_steps=4)
    actions = ("dice", "slice", "chop", "chop")
    assert tried(first) == [("chop", action, "oven", False) for action in actions]
    assert script.asked[4] == ("action", "chop", (), ACTIONS, ("dice with oven",))
    second = await play(kitchen)
    assert tried(second) == [
        ("chop", "chop", "knife", True),
        ("prepare", "prepare", "oven", True),
        ("eat", "eat", "oven", True),
    ]
    failures = tuple(f"{action} with oven" for action in actions)
    assert ("tool", "chop", (), failures) in script.asked
    assert known.revisions == 1
    # Once it succeeded, neither is asked again.
    asked = len(script.asked)
    await play(kitchen)
    assert len(script.asked) == asked
