"""Real games of TextWorld: the same state is always the same game, however it was reached."""

import importlib.metadata
import importlib.util
import random
import warnings

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
    opened = {}

    def get(kind):
        if kind not in opened:
            opened[kind] = open_textworld(kind, level=None, seed=1)
        return opened[kind]

    return get


def play(interpreter, snapshot, *actions):
    """Plays actions; returns what came of the last one."""
    for action in actions:
        played = interpreter.step(snapshot, action)
        snapshot = played.snapshot
    return played


@pytest.mark.parametrize("kind", KINDS)
async def test_walkthrough_wins_all_points_by_valid_actions(game, kind):
    interpreter = game(kind)
    played = interpreter.begin()
    score = 0.0
    for action in interpreter.walkthrough:
        assert played.ending is None
        assert action in await interpreter.valid_actions(played.snapshot)
        played = interpreter.step(played.snapshot, action)
        score += played.reward
    assert played.ending is Ending.VICTORY
    assert score == interpreter.max_score > 0
    assert played.text.endswith("*** The End ***")
    assert 3 <= len(interpreter.walkthrough) <= 12


@pytest.mark.parametrize("kind", KINDS)
def test_first_words_are_the_objective_and_the_first_room(game, kind):
    interpreter = game(kind)
    first = interpreter.begin()
    look, inventory = interpreter.look(first.snapshot)
    assert first.text == f"{interpreter.objective}\n\n{look}"
    assert look.startswith("-= ")
    assert inventory.startswith("You are carrying")
    assert "$" not in first.text
    assert (first.reward, first.ending) == (0.0, None)


@pytest.mark.parametrize("kind", KINDS)
async def test_everything_is_a_function_of_key_and_action(game, kind):
    """Walks, then the same states in another order, from the snapshots that came first and last."""
    interpreter = game(kind)
    draw = random.Random(7)
    views, edges, snapshots = {}, {}, {}

    async def visit(snapshot):
        key = interpreter.key(snapshot)
        view = (*interpreter.look(snapshot), await interpreter.valid_actions(snapshot))
        assert views.setdefault(key, view) == view
        snapshots.setdefault(key, []).append(snapshot)
        return key, view[-1]

    def take(snapshot, key, action):
        played = interpreter.step(snapshot, action)
        after = interpreter.key(played.snapshot)
        made = (played.text, played.reward, played.ending, after)
        assert edges.setdefault((key, action), made) == made
        return played

    for _ in range(2):
        snapshot = interpreter.begin().snapshot
        for _ in range(12):
            key, actions = await visit(snapshot)
            played = take(snapshot, key, draw.choice(actions))
            if played.ending is not None:
                break
            snapshot = played.snapshot
    again = [(key, states[i]) for key, states in snapshots.items() for i in (0, -1)]
    draw.shuffle(again)
    for key, snapshot in again[:24]:
        assert await visit(snapshot) == (key, views[key][-1])
        known = [action for state, action in edges if state == key]
        take(snapshot, key, draw.choice(known or views[key][-1]))


async def test_lists_do_not_tell_what_moved_last(game):
    """Inform names the thing that was put down last first; both orders must read the same."""
    interpreter = game("simple")
    start = play(interpreter, interpreter.begin().snapshot, *interpreter.walkthrough[:5]).snapshot
    here = await interpreter.valid_actions(start)
    assert {"put old key on counter", "take note from kitchen island"} <= set(here)
    things = ("old key", "note")
    held = play(interpreter, start, "take note from kitchen island").snapshot
    one, other = (
        play(interpreter, held, *(f"put {thing} on counter" for thing in order)).snapshot
        for order in (things, things[::-1])
    )
    assert interpreter.key(one) == interpreter.key(other)
    assert interpreter.look(one) == interpreter.look(other)
    assert "note" in interpreter.look(one)[0]


def test_key_does_not_know_the_turn(game):
    interpreter = game("coin-collector")
    start = interpreter.begin().snapshot
    way = interpreter.walkthrough[0]
    back = {"go north": "go south", "go south": "go north", "go east": "go west"}
    there = play(interpreter, start, way).snapshot
    home = play(interpreter, there, back.get(way, "go east")).snapshot
    assert interpreter.key(home) == interpreter.key(start) != interpreter.key(there)


def test_points_are_given_once_and_the_key_remembers(game):
    interpreter = game("simple")
    start = interpreter.begin().snapshot
    opens = interpreter.walkthrough[0]
    closes = opens.replace("open", "close")
    assert play(interpreter, start, opens).reward == 1
    closed = play(interpreter, start, opens, closes).snapshot
    assert closed.facts == start.facts
    assert interpreter.key(closed) != interpreter.key(start)
    assert play(interpreter, closed, opens).reward == 0


@pytest.mark.parametrize("command", ["look", "open", "xyzzy", "go up", "inventory", "wait", ""])
def test_what_changes_nothing_leaves_the_snapshot(game, command):
    """Not even the parser's question, which would take the next action for an answer."""
    interpreter = game("simple")
    start = interpreter.begin().snapshot
    played = interpreter.step(start, command)
    assert played.snapshot is start
    assert (played.reward, played.ending) == (0, None)


def test_commands_in_a_line_are_turns_of_their_own(game):
    interpreter = game("simple")
    start = interpreter.begin().snapshot
    opens = interpreter.walkthrough[0]
    closes = opens.replace("open", "close")
    apart = play(interpreter, start, opens, closes).snapshot
    together = interpreter.step(start, f"{opens}. {closes}")
    assert interpreter.key(together.snapshot) == interpreter.key(apart)
    assert together.reward == 1


def test_command_that_reaches_outside_the_game_is_refused(game):
    interpreter = game("simple")
    with pytest.raises(TextGameError, match="'save' reaches files or earlier turns outside"):
        interpreter.step(interpreter.begin().snapshot, "save")
    with pytest.raises(TextGameError, match="199 bytes"):
        interpreter.step(interpreter.begin().snapshot, "a" * 199)


@pytest.mark.parametrize(
    "command", ["again", "G", "go north. g", "go north then again", "oops", "tw-extra-infos moves"]
)
def test_command_whose_effect_is_no_function_of_the_key_is_refused(game, command):
    interpreter = game("simple")
    with pytest.raises(TextGameError, match="depends on more than facts and quests"):
        interpreter.step(interpreter.begin().snapshot, command)


def test_machine_that_stops_is_an_error_and_goes_on_afterwards(game, monkeypatch):
    interpreter = game("simple")
    start = interpreter.begin().snapshot
    opens = interpreter.walkthrough[0]
    expected = interpreter.step(start, opens)
    monkeypatch.setattr(interpreter._frotz, "_emulator_halted", lambda: True)
    with pytest.raises(TextGameError, match=r"of simple-1-1 stopped over .* another seed or level"):
        interpreter.step(start, opens)
    monkeypatch.undo()
    again = interpreter.step(start, opens)
    assert (again.text, again.reward) == (expected.text, expected.reward)
    assert interpreter.key(again.snapshot) == interpreter.key(expected.snapshot)


def test_revision_tells_with_what_the_game_is_played(game):
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("textworld", "jericho")]
    assert all(version in game("simple").revision for version in versions)


def test_games_are_opened_without_a_warning_and_filters_stay(game, recwarn):
    """A filter that is put back in one thread would take those of the others away."""
    before = list(warnings.filters)
    open_textworld("simple", level=None, seed=1)
    assert not [one for one in recwarn if "fully supported" in str(one.message)]
    assert warnings.filters[-len(before) :] == before or warnings.filters == before
    assert [one for one in warnings.filters if one[1] and "fully" in one[1].pattern]


def test_snapshots_are_never_written(game):
    interpreter = game("simple")
    start = interpreter.begin().snapshot
    before = [array.tobytes() for array in start.machine[:2]]
    play(interpreter, start, *interpreter.walkthrough)
    interpreter.look(start)
    assert [array.tobytes() for array in start.machine[:2]] == before


async def test_valid_actions_are_sorted_and_change_something(game):
    """But for one, which the game offers and then refuses, saying why."""
    interpreter = game("cooking")
    snapshot = play(
        interpreter, interpreter.begin().snapshot, *interpreter.walkthrough[:3]
    ).snapshot
    actions = await interpreter.valid_actions(snapshot)
    assert list(actions) == sorted(set(actions))
    assert not any(action.startswith(("look", "inventory", "examine")) for action in actions)
    idle = [a for a in actions if interpreter.step(snapshot, a).snapshot is snapshot]
    assert idle == ["prepare meal"]


def test_eating_raw_and_burning_lose_the_meal(game):
    interpreter = game("cooking")
    take = next(i for i, a in enumerate(interpreter.walkthrough) if a.startswith("cook "))
    before = play(interpreter, interpreter.begin().snapshot, *interpreter.walkthrough[:take])
    cook = interpreter.walkthrough[take]
    food = cook.removeprefix("cook ").partition(" with ")[0]
    eaten = interpreter.step(before.snapshot, f"eat {food}")
    burned = play(interpreter, before.snapshot, cook, cook)
    for lost in (eaten, burned):
        assert lost.ending is Ending.FAILURE
        assert lost.text.endswith("*** You lost! ***")


def test_taking_the_wrong_thing_loses(game):
    """The treasure hunter's other object; the way to it is found by looking everywhere."""
    interpreter = game("treasure-hunter")
    queue, seen = [interpreter.begin().snapshot], set()
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
                after = interpreter.step(snapshot, action).snapshot
                if interpreter.key(after) not in seen:
                    seen.add(interpreter.key(after))
                    queue.append(after)
    pytest.fail(f"no way to take {name!r}")


def test_game_that_its_description_does_not_fit_is_an_error(game, monkeypatch):
    interpreter = game("simple")
    start = interpreter.begin().snapshot
    monkeypatch.setattr(interpreter._game.quests[0], "reward", 5)
    with pytest.raises(TextGameError, match=r"simple-1-1 has 1 points after .* quests give 5"):
        interpreter.step(start, interpreter.walkthrough[0])


def test_words_are_stripped_of_what_is_not_the_game():
    said = (
        "[closing d]\nYou close the door.\n[closing d - succeeded]\n\n<score>\n0\n</score>"
        "<moves>\n3\n</moves>\n\n\n>      -= Kitchen =-0/3"
    )
    assert _words(said) == "You close the door."
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
