"""From names to a plan: which domain is meant, and what does not fit together."""

import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Protocol

import pytest
from catalogues import listed
from textgame_toys import trap_door

from llm_planning import open_engine
from llm_planning.domain import Domain, DomainError, Step, wording_of
from llm_planning.environments.catalogue import DOMAINS
from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.outcome import Outcome
from llm_planning.planners.wording import check_wording, known_blocks
from llm_planning.registry import find_planner, spec_of
from llm_planning.roles import Engines, metered
from llm_planning.running import (
    find_where,
    plan,
    prepare,
    prepare_with,
    run_planner,
)
from llm_planning.settings import Settings, SettingsError
from llm_planning.specs import UnknownTaskError, planner, why_unfit
from llm_planning.trace import recording
from llm_serving.encoder_engine import EncoderEngine
from llm_serving.errors import UnableError
from llm_serving.request import Request
from llm_serving.scripted import ScriptedEngine


class Walk(Settings):
    length: int = 2


class Line(Domain[int, str]):
    """A line."""

    tasks = ("right", "left")

    def __init__(self, task: str = "right", length: int = 3):
        self.task, self.goal = task, f"{length} to the {task}"

    def start(self, seed):
        return 0

    def describe(self, state):
        return str(state)

    def actions(self, state):
        return ("left", "right")

    def step(self, state, action, rng):
        return Step(state)


@planner("echo", settings=Walk)
async def echo(run):
    """Says what it was given."""
    given = (run.domain, run.task, run.world.goal, str(run.settings.length), str(run.seed))
    return Outcome(success=None, plan=given, metrics={}, trace={}, text="")


class HasMap(Protocol):
    """Has a map."""

    map: str


MAPPED = replace(echo, name="mapped", needs=(HasMap,))


async def plan_of(prepared):
    return (await prepared.run(Engines(ScriptedEngine({})), 7)).plan


async def test_a_domain_is_opened_with_its_own_settings_and_the_planner_has_its_own():
    line = spec_of(Line)
    prepared = prepare(echo, domain=line, task="left", settings={"domain.length": "5", "length": 4})
    assert prepared.chosen.to_json() == {"length": 4, "domain.length": 5}
    assert await plan_of(prepared) == ("line", "left", "5 to the left", "4", "7")
    first = prepare(echo, domain=line, settings={})
    assert await plan_of(first) == ("line", "right", "3 to the right", "2", "7")


async def test_a_domain_that_is_open_is_taken_as_it_is():
    prepared = prepare_with(echo, Line("left", length=9), settings={"length": 1})
    assert await plan_of(prepared) == ("line", "left", "9 to the left", "1", "7")
    with pytest.raises(SettingsError, match=r"unknown setting 'domain\.length'"):
        prepare_with(echo, Line(), settings={"domain.length": 1})
    with pytest.raises(DomainError, match="needs a domain that has a map"):
        prepare_with(MAPPED, Line(), settings={})


async def test_a_problem_is_a_name_or_an_open_domain():
    with pytest.raises(DomainError, match=r"Line'> is neither a task's name nor a domain: give an"):
        await plan(echo, Line, engine=Engines(EncoderEngine()))


async def test_without_a_model_the_setting_is_named_and_no_flag_of_the_command_line():
    with (
        open_engine("none") as engine,
        pytest.raises(UnableError, match=r"or let rules answer \(setting roles=rules\)$"),
    ):
        await plan("puct", "trap-door", engine=engine)


async def test_an_open_domain_has_the_names_that_a_sweep_would_give_it():
    prepared = prepare_with("uct", Minecraft(task="cook-meat"), settings={})
    assert (prepared.domain.name, prepared.task) == ("minecraft", "cook-meat")
    prepared = prepare_with("uct", trap_door(), settings={})
    assert (prepared.domain.name, prepared.task) == ("textgame", "textgame")
    line = Line()
    line.task = 3
    assert prepare_with(echo, line, settings={}).task == "line"


@pytest.mark.parametrize("goal", [None, 3])
async def test_a_world_says_its_goal_in_words(goal):
    line = Line()
    line.goal = goal
    with pytest.raises(DomainError, match=f"Line.goal is {goal}, not a text: say what is to be"):
        await plan_of(prepare_with(echo, line, settings={}))
    del line.goal
    with pytest.raises(DomainError, match="goal is None"):
        await plan_of(prepare_with(echo, line, settings={}))


async def test_a_wording_that_is_no_mapping_is_said_of_the_world():
    world = Line()
    world.wording = "x"
    with pytest.raises(DomainError, match=r"^Line\.wording is 'x', not a mapping from questions"):
        await plan_of(prepare_with(echo, world, settings={}))


def test_where_a_planner_cannot_plan_is_said_in_one_way():
    line = spec_of(Line)
    message = "planner mapped needs a domain that has a map; line does not"
    assert why_unfit(MAPPED, line) == message
    assert why_unfit(echo, line) is None
    with pytest.raises(DomainError, match=f"{message}: it lacks `map`"):
        prepare(MAPPED, domain=line, settings={})
    with pytest.raises(DomainError, match=r": docs/extending\.md says how to add `grammar`, `st"):
        prepare("too", domain=line, settings={})
    with pytest.raises(DomainError, match="planner mapped needs a domain: name one"):
        prepare(MAPPED, settings={})
    with pytest.raises(UnknownTaskError, match="unknown task 'lift' of line; did you mean left"):
        prepare(echo, domain=line, task="lift", settings={})


def test_a_task_tells_the_domain_where_only_one_has_it(monkeypatch):
    assert prepare("too", task="cook-meat", settings={}).domain.name == "minecraft"
    assert find_where(find_planner("uct"), domain=None, task="cook-meat").name == "minecraft"
    with pytest.raises(UnknownTaskError, match="did you mean cook-meat"):
        prepare("uct", task="cook-meet", settings={})
    with pytest.raises(DomainError, match=r"planner too needs .*; textgame does not"):
        prepare("too", task="coin-collector", settings={})
    listed(monkeypatch, DOMAINS, "kitchen", replace(spec_of(Line), tasks=("cook-meat",)))
    with pytest.raises(DomainError, match="'cook-meat' is in the domains minecraft and line"):
        prepare(echo, task="cook-meat", settings={})


async def test_a_run_is_told_with_its_answer_or_its_error():
    meters = metered(Engines(ScriptedEngine({"ask": "yes"})))

    @planner("asking")
    async def asking(run):
        await run.engines.of("ask").generate(Request(prompt="?", role="ask"))
        return Outcome(success=None, plan=(1 / run.seed,), metrics={}, trace={}, text="")

    find = partial(prepare, asking, domain=spec_of(Line), settings={})
    unheard = await run_planner(find, meters, seed=2)
    assert unheard.result() is unheard.outcome
    assert (unheard.outcome.plan, unheard.events) == ((0.5,), ())
    assert unheard.usage["ask"].calls == 1
    assert 0 <= time.time() - unheard.started < 60
    assert 0 < unheard.seconds < 60
    with recording() as trace:
        failed = await run_planner(find, meters, seed=0)
    assert [event["type"] for event in failed.events] == ["role"]
    assert failed.events is trace.events
    assert failed.usage["ask"].calls == 2
    with pytest.raises(ZeroDivisionError):
        failed.result()


WORDED = {
    "no question": (
        {"prior": "{% block rules %}x{% endblock %}"},
        "'prior'\\]: no planner asks it",
    ),
    "a typo": ({"atc": "{% block rules %}x{% endblock %}"}, "'atc'\\]: .*did you mean act"),
    "no text": ({"act": 3}, "'act'\\] is 3, not a text of blocks"),
    "no block": ({"act": " "}, "'act'\\] has no block"),
    "plain words": ({"act": "Be brave."}, "'act'\\]: 'Be brave.' is in no block"),
    "words beside": ({"act": "{% block rules %}x{% endblock %}y"}, "'y' is in no block"),
    "a value beside": ({"act": "{{ goal }}{% block rules %}{% endblock %}"}, "is in no block"),
    "a block's typo": ({"act": "{% block rulez %}{% endblock %}"}, "'rulez'; did you mean rules"),
    "of another question": ({"drip": "{% block think %}{% endblock %}"}, "its block 'think'"),
    "of options": ({"reward": "{% block rulez %}{% endblock %}"}, "'rulez'; did you mean rules"),
    "no template": ({"act": "{% block rules %}"}, "'act'\\] is not a valid template"),
    "no name": ({3: "{% block rules %}{% endblock %}"}, "3\\]: no planner asks it"),
}


@pytest.mark.parametrize(("wording", "message"), WORDED.values(), ids=WORDED)
async def test_what_nothing_reads_of_a_wording_is_refused_by_name(wording, message):
    world = Line()
    world.wording = wording
    with pytest.raises(DomainError, match=rf"^Line\.wording\[.*{message}"):
        await plan("uct", world, engine=EncoderEngine(), settings={"simulations": 1})


async def test_a_wording_may_serve_several_planners_and_a_planner_of_ones_own():
    world = Line()
    world.wording = {
        "act": "{# brave #}{% set kept = 1 %}{% block rules %}Be brave.{% endblock %}",
        "drip": "{% block judge %}Judge.{% endblock %}",
        "shared": "{% block game %}A line.{% endblock %}",
        "mine": "whatever",
    }

    @planner("asks-mine", roles=["mine"])
    async def asks_mine(run):
        return Outcome(success=None, plan=(), metrics={}, trace={}, text=run.world.wording["mine"])

    assert (await plan(asks_mine, world, engine=EncoderEngine())).text == "whatever"
    with pytest.raises(DomainError, match=r"'mine'\]: no planner asks it; .*known: act, code, "):
        await plan("uct", world, engine=EncoderEngine())


def test_our_own_worlds_say_what_planners_ask():
    known = known_blocks()
    for world in ("household", "minecraft.options", "blocksworld", "travel"):
        wording = wording_of(f"llm_planning.environments.{world}")
        assert wording
        check_wording(SimpleNamespace(wording=wording, lessons=()))
    # Every planner reads its own.
    assert {"act", "drip", "shared", "taught"} <= known.keys()
    assert {*find_planner("too").roles} <= known.keys()
