"""Jericho games: snapshots, keys, endings; on a story of our own and on a game of TextWorld's."""

import random
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from cooking_kitchens import solution
from jericho_toy import needs_jericho, write_kitchen, write_toy

from llm_planning.environments.cooking.recipes import command, read_cookbook
from llm_planning.environments.textgame import jericho_machine
from llm_planning.environments.textgame.game import Ending, TextGameError
from llm_planning.environments.textgame.jericho_interpreter import JerichoInterpreter
from llm_planning.environments.textgame.jericho_machine import MissingJerichoError

pytestmark = [
    needs_jericho,
    # Jericho knows published stories by heart, and says of all others that it does not.
    pytest.mark.filterwarnings("ignore:.*is not fully supported"),
]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return JerichoInterpreter(write_toy(tmp_path_factory.mktemp("toy")), state="exact")


@pytest.fixture(scope="module")
def kitchen_story(tmp_path_factory):
    return write_kitchen(tmp_path_factory.mktemp("kitchen"))


@pytest.fixture(scope="module")
def kitchen(kitchen_story):
    return JerichoInterpreter(kitchen_story, state="exact")


def outcome(interpreter, played):
    return played.text, played.reward, played.ending, interpreter.key(played.state)


def test_a_step_is_a_function_of_snapshot_and_action(toy):
    commands = ["look", "s", "t", "random", "nothing", "zap", "down", "west"]
    draw = random.Random(4)
    living = [toy.begin().state]
    answers = {}
    for _ in range(300):
        snapshot, action = draw.choice(living), draw.choice(commands)
        played = toy.step(snapshot, action)
        answer = outcome(toy, played)
        assert answers.setdefault((toy.key(snapshot), action), answer) == answer
        if played.ending is None:
            living.append(played.state)
    again = JerichoInterpreter(toy._story, state="exact")
    assert outcome(again, again.begin()) == outcome(toy, toy.begin())
    by_key = {toy.key(snapshot): snapshot for snapshot in living}
    for (key, action), answer in draw.sample(list(answers.items()), 50):
        assert outcome(again, again.step(by_key[key], action)) == answer


def test_random_numbers_are_part_of_the_state(toy):
    drawn = toy.step(toy.begin().state, "random")
    assert toy.step(drawn.state, "random").text != drawn.text


def test_a_game_begins_with_its_first_score_as_reward(tmp_path):
    """So that rewards add up to the score: Detective begins with 10 points."""
    game = JerichoInterpreter(write_toy(tmp_path), state="exact")
    game._machine.first = replace(game._machine.first, score=10)
    first = game.begin()
    after = game.step(first.state, "nothing")
    assert first.reward == 10.0
    assert first.reward + after.reward == after.state.score == 0


def test_snapshots_cannot_be_written_to(toy):
    memory, stack, *_ = toy.begin().state.parts
    for array in (memory, stack):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_endings(toy):
    first = toy.begin().state
    assert toy.begin().ending is None
    won, died = toy.step(first, "west"), toy.step(first, "down")
    assert won.ending is Ending.VICTORY
    assert died.ending is Ending.FAILURE
    assert toy.look(died.state) == ("", "")
    assert len({toy.key(each.state) for each in (toy.begin(), won, died)}) == 3


def test_a_story_that_stops_its_machine_has_failed_and_the_machine_goes_on(toy):
    first = toy.begin().state
    stopped = toy.step(first, "zap")
    assert stopped.ending is Ending.FAILURE
    assert "stopped" in stopped.text
    assert toy.key(stopped.state) != toy.key(first)
    assert toy.step(first, "nothing").text == "ok"


def test_a_story_that_is_won_and_then_stops_is_won(toy, monkeypatch):
    first = toy.begin().state
    won = toy.step(first, "victory")
    assert won.ending is Ending.VICTORY
    assert won.text == "****  You have won  ****"
    # Its last points count, too.
    monkeypatch.setattr(toy._machine._env, "get_score", lambda: 5)
    assert toy.step(first, "victory").reward == 5.0
    assert toy.step(first, "zap").reward == 5.0
    monkeypatch.undo()
    assert toy.step(first, "nothing").text == "ok"


def test_things_nearby_are_found_if_the_package_exports_another_util(toy, monkeypatch):
    """In `room` (1) are the player (2), who has a key (3), and a box (4); 5 is elsewhere."""
    import ctypes.util

    import jericho

    def thing(num, name, child=0, sibling=0):
        return SimpleNamespace(num=num, name=name, child=child, sibling=sibling)

    things = [thing(0, ""), thing(1, "room", child=2, sibling=5), thing(2, "self", 3, 4)]
    things += [thing(3, "key"), thing(4, "box"), thing(5, "moon")]
    monkeypatch.setattr(jericho, "util", ctypes.util, raising=False)
    for name, nearby in {
        "get_player_object": things[2],
        "get_player_location": things[1],
        "get_world_objects": things,
    }.items():
        monkeypatch.setattr(toy._machine._env, name, lambda nearby=nearby: nearby)
    assert toy._machine.nearby(toy.begin().state) == ["key", "box"]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        *(
            (action, "reaches files or earlier turns")
            for action in (
                *("undo", "SAVE", "look. restore", "quit", "take all, undo", "look: save"),
                *("take all then undo", "look and quit", "look.save"),
            )
        ),
        ("a" * 199, "199 bytes"),
    ],
)
def test_what_no_snapshot_holds_is_not_reached(toy, action, message):
    with pytest.raises(TextGameError, match=message):
        toy.step(toy.begin().state, action)


def test_the_key_leaves_out_what_decides_nothing(kitchen):
    """The last words, and the bytes beyond the end of the stack."""
    first = kitchen.begin().state
    memory, stack, counter, top, *others, _ = first.parts
    changed = stack.copy()
    changed[: 2 * top] ^= 255
    beyond = (memory, changed, counter, top, *others, b"other words")
    same = jericho_machine.MachineSnapshot(beyond, first.score, None)
    assert jericho_machine.exact_key(same) == kitchen.key(first)
    assert kitchen.step(same, "look").text == kitchen.step(first, "look").text
    changed[2 * top] ^= 255
    assert jericho_machine.exact_key(same) != kitchen.key(first)


def test_games_of_one_process_are_apart(toy, kitchen):
    toys, kitchens = toy.begin().state, kitchen.begin().state
    for _ in range(3):
        assert toy.step(toys, "look").text == "turn 1"
        assert kitchen.step(kitchens, "take knife").text.startswith("You take the knife")


def test_a_recipe_is_played_to_its_end_for_its_points(kitchen, kitchen_story):
    recipe = read_cookbook(kitchen.step(kitchen.begin().state, "examine cookbook").text)
    played = kitchen.step(kitchen.begin().state, "take knife")
    rewards = []
    for direction in recipe:
        sentence = command(direction, solution(direction)[2])
        # What was played in between, here a raw meal that ends the game, changes nothing.
        lost = kitchen.step(kitchen.begin().state, "eat yellow bell pepper")
        assert (lost.ending, lost.reward) == (Ending.FAILURE, 0.0)
        played = kitchen.step(played.state, sentence)
        rewards.append(played.reward)
    assert played.ending is Ending.VICTORY
    assert sum(rewards) == kitchen.max_score == len(recipe)
    assert kitchen.begin().reward == 0.0


def test_the_world_hash_forgets_turns_and_keeps_things(kitchen, kitchen_story):
    worlds = JerichoInterpreter(kitchen_story, state="world")
    assert worlds.revision != kitchen.revision
    first = worlds.begin().state
    # TextWorld's parser marks what was named: the first look and the first drop make a difference.
    held = worlds.step(worlds.step(first, "take knife").state, "drop knife").state
    taken = worlds.step(held, "take knife").state
    back = worlds.step(taken, "drop knife").state
    assert worlds.key(back) == worlds.key(held) != worlds.key(taken)
    assert kitchen.key(back) != kitchen.key(held)


def test_missing_jericho_is_told_with_its_remedy(monkeypatch, toy):
    monkeypatch.setattr(jericho_machine, "find_spec", lambda name: None)
    with pytest.raises(MissingJerichoError, match=r"llm-planning\[textgames\]"):
        JerichoInterpreter(toy._story, state="exact")


def test_a_process_with_an_open_game_ends(tmp_path):
    """Also after actions were found in another process; spaCy is not imported."""
    code = f"""
import asyncio, pathlib, sys, warnings
sys.path.insert(0, {__file__.rpartition("/")[0]!r})
from jericho_toy import write_toy
from llm_planning.environments.textgame.jericho_interpreter import JerichoInterpreter

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    toy = JerichoInterpreter(write_toy(pathlib.Path({str(tmp_path)!r})), state="exact")
    found = asyncio.run(toy.valid_actions(toy.begin().state))
    print(len(found), "spacy" in sys.modules)
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["4", "False"]
