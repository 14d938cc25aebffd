"""A user's own words for worlds of other people."""

import re
from pathlib import Path
from random import Random

import pytest
from command_line import invoke

from llm_planning.domain import DomainError, NamesOptions, Observes, Succeeds
from llm_planning.environments.bridges import bridge
from llm_planning.own_code import OwnCodeError
from llm_planning.running import prepare
from llm_planning.settings import SettingsError

PAGE = Path(__file__).parents[2] / "docs" / "other-worlds.md"
LAMP = """(define (domain lamp) (:predicates (lit) (broken))
  (:action press :parameters () :precondition (not (lit)) :effect (lit)))"""
DARK = "(define (problem dark) (:domain lamp) (:init (broken)) (:goal (lit)))"
UP = "def action(name): return name.upper()\n"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a file of words and returns a function that opens a world with them."""
    monkeypatch.chdir(tmp_path)

    def open_(text, name="gymnasium:FrozenLake-v1", **settings):
        (tmp_path / "mine.py").write_text(text)
        spec = bridge(name)
        return spec.open(spec.tasks[0], spec.settings.read({"words": "mine.py", **settings}))

    return open_


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n# lake\.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (command,) = re.findall(r"\$ llm-planning (.*words=lake\.py.*)", PAGE.read_text())
    (tmp_path / "lake.py").write_text(code)
    ended = invoke(*command.split(), "--set", "simulations=10", "--set", "moves=4")
    assert ended.exit_code == 0, ended.stderr
    assert re.search(r" 1\. go (west|south|east|north) ", ended.stdout)
    spec = bridge("gymnasium:FrozenLake-v1")
    world = spec.open(spec.tasks[0], spec.settings.read({"words": "lake.py"}))
    start = world.start(0)
    assert world.describe(start) == "You stand in row 1, column 1. The gift is in row 4, column 4."
    assert world.actions(start) == ("go west", "go south", "go east", "go north")


@pytest.mark.parametrize(
    "name",
    [
        *("gymnasium:FrozenLake-v1", "openspiel:tic_tac_toe", "textarena:TicTacToe-v0"),
        "gymnasium:MiniGrid-DoorKey-5x5-v0",
    ],
)
def test_each_source_is_said_in_them(written, name):
    """The bridge's own words are given, and the steps are those of the world."""
    world = written(UP + "def state(text, state): return f'{type(state).__name__}: {text}'", name)
    spec = bridge(name)
    plain = spec.open(spec.tasks[0], spec.settings.read({}))
    mine, own = world.start(3), plain.start(3)
    kind = type(own).__name__
    for _ in range(3):
        assert world.describe(mine) == f"{kind}: {plain.describe(own)}"
        assert isinstance(world, Observes) == isinstance(plain, Observes)
        if isinstance(world, Observes):
            assert world.observe(mine) == f"{kind}: {plain.observe(own)}"
        actions = plain.actions(own)
        assert world.actions(mine) == tuple(action.upper() for action in actions)
        first, second = (
            world.step(mine, actions[-1].upper(), Random(1)),
            plain.step(own, actions[-1], Random(1)),
        )
        assert (first.reward, first.done) == (second.reward, second.done)
        mine, own = first.state, second.state
    assert isinstance(world, Succeeds)
    assert world.success(mine) is plain.success(own)
    assert (world.goal, world.about, world.no_search) == (plain.goal, plain.about, plain.no_search)


def test_an_action_of_another_name_is_no_action(written):
    world = written(UP)
    start = world.start(0)
    step = world.step(start, "move left", Random(0))
    assert step.state is start
    assert step.obstacle.startswith("there is no such action; known: MOVE DOWN, MOVE LEFT")


def test_a_changed_file_makes_another_trial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hashes = []
    for text in (UP, UP + "# changed\n"):
        (tmp_path / "mine.py").write_text(text)
        chosen = prepare(
            "uct", domain=bridge("gymnasium:FrozenLake-v1"), settings={"words": "mine.py"}
        ).chosen.to_json()
        hashes.append(chosen["words_sha256"])
    assert len(set(hashes)) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def words(): ...",
            r"mine.py defines neither `state\(text, state\)` nor `action\(name\)`",
        ),
        ("def action(name): return 'go'", "`action` calls two alike: tell them apart"),
        ("def action(name): return 1", "`action` gives 1: return a text"),
        ("def action(): return ''", "`action` fails: TypeError: action"),
    ],
)
def test_words_that_do_not_work_are_one_line(written, text, message):
    def acts():
        world = written(text)
        world.actions(world.start(0))

    with pytest.raises(DomainError, match=message) as caught:
        acts()
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_run(written, tmp_path):
    with pytest.raises(OwnCodeError, match=r"mine\.py fails: ZeroDivisionError"):
        written("1 / 0")
    settings = bridge("gymnasium:FrozenLake-v1").settings
    with pytest.raises(SettingsError, match=r"give the path of a file that ends with \.py"):
        settings.read({"words": "mine.txt"})
    with pytest.raises(SettingsError, match=r"none\.py cannot be read as Python: No such file"):
        settings.read({"words": "none.py"})


def test_actions_that_a_grammar_names_keep_their_names(written, tmp_path):
    (tmp_path / "domain.pddl").write_text(LAMP)
    (tmp_path / "problem.pddl").write_text(DARK)
    name = f"pddl:{tmp_path}/domain.pddl,{tmp_path}/problem.pddl"
    with pytest.raises(DomainError, match="here a grammar names actions: define `state` only"):
        written(UP, name)
    world = written("def state(text, state): return text.upper()", name)
    assert world.describe(world.start(0)).isupper()
    assert isinstance(world, NamesOptions)
