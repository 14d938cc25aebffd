"""What rules name, a model can name: options outside a domain's grammar are told, not planned."""

import asyncio
from typing import Annotated, Literal

import pytest
from pydantic import Field

from llm_planning import plan
from llm_planning.domain import DomainError, OneOf
from llm_planning.environments.blocksworld.blocks import TABLE, Blocks, Goal, Puzzle
from llm_planning.environments.blocksworld.domain import Blocksworld
from llm_planning.environments.blocksworld.rules import RULES
from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.language import OptionGrammar
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.verbs import VERBS
from llm_planning.environments.minecraft.options.vocabulary import OBJECTS
from llm_planning.roles import OptionLanguage
from llm_serving.scripted import ScriptedEngine


class Names:
    """Free words of three to eight characters, and a number."""

    instruction = "A name."

    def __init__(self, **fields):
        self.fields = {
            "name": Annotated[str, Field(min_length=3, max_length=8)],
            "count": Annotated[int, Field(ge=1, le=3)],
            "how": Literal["slow", "quick"],
            **fields,
        }

    def read(self, answer):
        return answer["name"].lower(), answer["count"], answer["how"]

    def write(self, option):
        return dict(zip(("name", "count", "how"), option, strict=True))


@pytest.mark.parametrize(
    "option",
    [
        ("ab", 1, "slow"),
        ("Łódź", 1, "slow"),
        ('a"b', 1, "slow"),
        ("Capital", 1, "slow"),
        ("abc", 4, "slow"),
    ],
)
def test_what_no_answer_can_name_is_told(option):
    language = OptionLanguage(Names())
    language.check([("abc", 1, "slow"), ("a b c", 3, "quick")])
    with pytest.raises(DomainError, match="which no answer can name") as caught:
        language.check([("abc", 1, "slow"), option])
    assert "\n" not in str(caught.value)


def test_the_grammars_of_this_project_name_their_options():
    OptionLanguage(OptionGrammar("closed")).check([Option("mine", 3, "oak_log")])
    OptionLanguage(OneOf(["東京", 'say "hi"', "a\nb", "", "x" * 999])).check(["東京", "a\nb", ""])


def test_options_of_one_text_are_refused():
    with pytest.raises(DomainError, match="two options are written '1': give each its own text"):
        OneOf([1, 2, "1"])


def tower(*, unnamed=""):
    """Three blocks, to be stacked by two actions; the grammar lacks one of this text."""
    start = Blocks.of(dict.fromkeys("abc", TABLE))
    world = Blocksworld(Puzzle("tower", start, Goal((("a", "b"), ("b", "c")))))
    if unnamed:
        every = RULES["variant"].every(tuple("abc"))
        world.grammar = OneOf([action for action in every if str(action) != unnamed])
    return world


@pytest.mark.parametrize("planner", ["drip", "drip-react", "too", "cot"])
def test_rules_answer_in_the_language_of_a_model(planner):
    def planned(world):
        settings = {"roles": "rules"}
        return asyncio.run(plan(planner, world, engine=ScriptedEngine({}), settings=settings))

    assert planned(tower()).success
    for unnamed in ("stack b c", "stack a b"):
        with pytest.raises(DomainError, match="which no answer can name"):
            planned(tower(unnamed=unnamed))


@pytest.mark.parametrize("planner", ["drip", "drip-plus"])
def test_what_a_goal_names_is_in_the_language_of_a_model(planner):
    world = tower(unnamed="stack a b")
    settings = {"roles": "rules"}
    for named, says in ((["stack a b"], "which no answer can name"), (None, "named returned None")):
        world.named = lambda _, named=named: named
        with pytest.raises(DomainError, match=says):
            asyncio.run(plan(planner, world, engine=ScriptedEngine({}), settings=settings))


@pytest.mark.parametrize("stations", ["placed", "held"])
def test_minecraft_names_what_a_closed_vocabulary_has(stations):
    closed = Minecraft(options="single", stations=stations)
    language = OptionLanguage(closed.grammar)
    for verb in VERBS:
        for item in OBJECTS:
            named = closed.decompose(closed.task.start, Option(verb, 1, item))
            language.check(named)
    clay = Option("craft", 1, "clay")
    free = Minecraft(options="single", vocabulary="free", stations=stations)
    assert "clay_ball" in [action.item for action in free.decompose(free.task.start, clay)]
