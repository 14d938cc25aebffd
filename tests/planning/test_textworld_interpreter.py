"""Real games of TextWorld: the same state is always the same game, however it was reached."""

import importlib.metadata
import importlib.util
import warnings
from functools import cache

import numpy as np
import pytest

from llm_planning.environments.textgame.game import Ending, TextGameError
from llm_planning.environments.textgame.textworld_interpreter import (
    _order_objects,
    _words,
    open_textworld,
)
from llm_planning.environments.textgame.textworld_kinds import KINDS

if importlib.util.find_spec("textworld") is None:
    pytest.skip(
        "TextWorld is not installed: pip install 'llm-planning[textgames]'",
        allow_module_level=True,
    )


@pytest.fixture(scope="module")
def game():
    """Opens the first game of a kind; making one takes seconds, so they stay in the cache."""
    return cache(lambda kind: open_textworld(kind, level=None, seed=1))


@pytest.fixture
def simple(game):
    """A game, its beginning, the first move of its solution and what undoes that."""
    interpreter = game("simple")
    opens = interpreter.walkthrough[0]
    return interpreter, interpreter.begin().state, opens, opens.replace("open", "close")


def play(interpreter, snapshot, *actions):
    """Plays actions; returns what came of the last one."""
    for action in actions:
        transition = interpreter.step(snapshot, action)
        snapshot = transition.state
    return transition


@pytest.mark.parametrize("kind", KINDS)
def test_first_words_are_the_objective_and_the_first_room(game, kind):
    interpreter = game(kind)
    first = interpreter.begin()
    look, inventory = interpreter.look(first.state)
    assert first.text == f"{interpreter.objective}\n\n{look}"
    assert look.startswith("-= ")
    assert inventory.startswith("You are carrying")
    assert "$" not in first.text
    assert 3 <= len(interpreter.walkthrough) <= 12
    assert play(interpreter, first.state, *interpreter.walkthrough).text.endswith("*** The End ***")


async def test_lists_do_not_tell_what_moved_last(simple):
    """Inform names the thing that was put down last first; both orders must read the same."""
    interpreter, start, *_ = simple
    start = play(interpreter, start, *interpreter.walkthrough[:5]).state
    assert {"put old key on counter", "take note from kitchen island"} <= {
        *await interpreter.valid_actions(start)
    }
    things = ("old key", "note")
    held = play(interpreter, start, "take note from kitchen island").state
    first, other = (
        play(interpreter, held, *(f"put {thing} on counter" for thing in order)).state
        for order in (things, things[::-1])
    )
    assert interpreter.key(first) == interpreter.key(other)
    assert interpreter.look(first) == interpreter.look(other)
    assert "note" in interpreter.look(first)[0]


def test_key_does_not_know_the_turn(game):
    interpreter = game("coin-collector")
    start = interpreter.begin().state
    way = interpreter.walkthrough[0]
    back = {"go north": "go south", "go south": "go north", "go east": "go west"}
    there = play(interpreter, start, way).state
    home = play(interpreter, there, back.get(way, "go east")).state
    assert interpreter.key(home) == interpreter.key(start) != interpreter.key(there)


def test_points_are_given_once_and_the_key_remembers(simple):
    interpreter, start, opens, closes = simple
    assert play(interpreter, start, opens).reward == 1
    closed = play(interpreter, start, opens, closes).state
    assert closed.facts == start.facts
    assert interpreter.key(closed) != interpreter.key(start)
    assert play(interpreter, closed, opens).reward == 0
    # Commands in a line are turns of their own.
    together = interpreter.step(start, f"{opens}. {closes}")
    assert interpreter.key(together.state) == interpreter.key(closed)
    assert together.reward == 1


@pytest.mark.parametrize("command", ["look", "open", "go up", "wait", ""])
def test_what_changes_nothing_leaves_the_snapshot(simple, command):
    """Not even the parser's question, which would take the next action for an answer."""
    interpreter, start, *_ = simple
    transition = interpreter.step(start, command)
    assert transition.state is start
    assert (transition.reward, transition.ending) == (0, None)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("save", "'save' reaches files or earlier turns"),
        ("a" * 199, "199 bytes"),
        *(
            (command, "depends on more than the state of the game")
            for command in ("again", "G", "go north. g", "go north then again", "oops")
        ),
        ("tw-extra-infos moves", "depends on more than the state of the game"),
    ],
)
def test_what_is_no_function_of_the_key_is_refused(simple, command, message):
    interpreter, start, *_ = simple
    with pytest.raises(TextGameError, match=message):
        interpreter.step(start, command)


def test_machine_that_stops_is_an_error_and_goes_on_afterwards(simple, monkeypatch):
    interpreter, start, opens, _ = simple
    expected = interpreter.step(start, opens)
    monkeypatch.setattr(interpreter._frotz, "_emulator_halted", lambda: True)
    with pytest.raises(TextGameError, match=r"of simple-1-1 stopped over .* another seed or level"):
        interpreter.step(start, opens)
    monkeypatch.undo()
    again = interpreter.step(start, opens)
    assert (again.text, again.reward) == (expected.text, expected.reward)
    assert interpreter.key(again.state) == interpreter.key(expected.state)


def test_revision_tells_with_what_the_game_is_played(game):
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("textworld", "jericho")]
    assert all(version in game("simple").revision for version in versions)


def test_games_are_opened_without_a_warning_and_filters_stay(game, recwarn):
    """A filter that is put back in one thread would take those of the others away."""
    before = list(warnings.filters)
    open_textworld("simple", level=None, seed=1)
    assert not [warning for warning in recwarn if "fully supported" in str(warning.message)]
    assert warnings.filters[-len(before) :] == before or warnings.filters == before
    assert [entry for entry in warnings.filters if entry[1] and "fully" in entry[1].pattern]


async def test_the_ways_to_fail_a_meal(game):
    """Valid actions change something, but for one, which the game offers and then refuses."""
    interpreter = game("cooking")
    solution = interpreter.walkthrough
    snapshot = play(interpreter, interpreter.begin().state, *solution[:3]).state
    actions = await interpreter.valid_actions(snapshot)
    assert not any(action.startswith(("look", "inventory", "examine")) for action in actions)
    idle = [a for a in actions if interpreter.step(snapshot, a).state is snapshot]
    assert idle == ["prepare meal"]
    cook = next(action for action in solution if action.startswith("cook "))
    before = play(interpreter, interpreter.begin().state, *solution[: solution.index(cook)]).state
    food = cook.removeprefix("cook ").partition(" with ")[0]
    for lost in (interpreter.step(before, f"eat {food}"), play(interpreter, before, cook, cook)):
        assert lost.ending is Ending.FAILURE
        assert lost.text.endswith("*** You lost! ***")


def test_taking_the_wrong_thing_loses(game):
    """The treasure hunter's other object; the way to it is found by looking everywhere."""
    interpreter = game("treasure-hunter")
    queue, seen = [interpreter.begin().state], set()
    wrong = {
        thing.name
        for quest in interpreter._game.quests
        for event in quest.fail_events
        for fact in event.condition.preconditions
        for thing in fact.arguments
    }
    name = next(interpreter._game.infos[thing].name for thing in wrong - {"I"})
    for snapshot in queue:
        for action in interpreter._moves(snapshot.facts).commands:
            if action.startswith("take ") and action.partition(" from ")[0].endswith(name):
                assert interpreter.step(snapshot, action).ending is Ending.FAILURE
                return
            if action.startswith(("go ", "open ")):
                after = interpreter.step(snapshot, action).state
                if interpreter.key(after) not in seen:
                    seen.add(interpreter.key(after))
                    queue.append(after)
    pytest.fail(f"no way to take {name!r}")


def test_game_that_its_description_does_not_fit_is_an_error(simple, monkeypatch):
    interpreter, start, opens, _ = simple
    monkeypatch.setattr(interpreter._game.quests[0], "reward", 5)
    with pytest.raises(TextGameError, match=r"simple-1-1 has 1 points after .* quests give 5"):
        interpreter.step(start, opens)


def test_words_are_stripped_of_what_is_not_the_game():
    text = (
        "[closing d]\nYou close the door.\n[closing d - succeeded]\n\n<score>\n0\n</score>"
        "<moves>\n3\n</moves>\n\n\n>      -= Kitchen =-0/3"
    )
    assert _words(text) == "You close the door."
    assert _words("Eaten.\n\n\n*** The End ***\n\nYou scored 1, in 9 turns.") == (
        "Eaten.\n\n*** The End ***"
    )


def test_children_are_chained_by_number():
    """Four objects of 14 bytes at 200; object 1 holds 4, 2 and 3 in this order."""
    ram = np.zeros(300, dtype=np.uint8)
    ram[10:12] = divmod(200 - 126, 256)
    links = {1: (0, 0, 4), 4: (1, 2, 0), 2: (1, 3, 0), 3: (1, 0, 0)}
    for number, (parent, sibling, child) in links.items():
        entry = 200 + 14 * (number - 1)
        ram[[entry + 7, entry + 9, entry + 11]] = parent, sibling, child
        ram[entry + 12 : entry + 14] = divmod(256, 256)
    _order_objects(ram)
    after = {n: tuple(ram[200 + 14 * (n - 1) + np.array([7, 9, 11])].tolist()) for n in links}
    assert after == {1: (0, 0, 2), 2: (1, 3, 0), 3: (1, 4, 0), 4: (1, 0, 0)}
