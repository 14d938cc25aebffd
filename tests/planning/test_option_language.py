"""What rules name, a model can name: options outside a domain's grammar are told, not planned."""

import asyncio
from typing import Annotated, Literal

import pytest
from pydantic import Field, create_model

from llm_planning import plan
from llm_planning.domain import Domain, DomainError, Judged, OneOf, Step
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


class Done:
    answer = create_model("Done", done=(bool, ...))


class Gate(Domain):
    """A gate that opens with a key; the grammar may lack what the rules name."""

    goal = "Open the gate."
    grammar: OneOf
    state_model = Done

    def __init__(self, *, key="take the key", way="open the gate"):
        self.grammar = OneOf(("take the key", "open the gate"))
        self._way = (key, way)

    def start(self, seed):
        return 0

    def describe(self, state):
        return f"{state} of 2 done."

    def actions(self, state):
        return self._way[state : state + 1]

    def step(self, state, action, rng):
        return Step(state + 1, float(state == 1), state == 1)

    def success(self, state):
        return state == 2

    def score(self, state):
        return state / 2

    def feasible(self, state, action):
        return None if action in self.actions(state) else "not now"

    def advise(self, state):
        return self._way[state:]

    def decompose(self, state, subtask):
        number = 2 if subtask is None else self._way.index(subtask)
        return self._way[max(state, number - 1) : number]

    def judge(self, state, subtask, parent):
        if subtask is None:
            return Judged("done" if state == 2 else "false", "")
        number = self._way.index(subtask)
        return Judged("done" if state > number else "true" if state == number else "false", "")


@pytest.mark.parametrize("planner", ["drip", "drip-react", "too", "cot"])
def test_rules_answer_in_the_language_of_a_model(planner):
    assert asyncio.run(
        plan(planner, Gate(), engine=ScriptedEngine({}), settings={"roles": "rules"})
    ).success
    for odd in ({"key": "grab the key"}, {"way": "open it"}):
        with pytest.raises(DomainError, match="which no answer can name"):
            asyncio.run(
                plan(planner, Gate(**odd), engine=ScriptedEngine({}), settings={"roles": "rules"})
            )


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
