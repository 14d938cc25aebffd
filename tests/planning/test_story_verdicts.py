"""What stories print at their ends, and how many points they tell; scripted interpreters."""

import numpy as np
import pytest
from bell_tower import story_file
from jericho_toy import needs_jericho, write_toy

from llm_planning.environments.textgame.game import Ending
from llm_planning.environments.textgame.jericho_commands import ENTER
from llm_planning.environments.textgame.jericho_interpreter import JerichoInterpreter
from llm_planning.environments.textgame.story_verdicts import (
    asks_what_now,
    points_in,
    printed_ending,
    status_score,
)


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        ("You did it.\n\n    *** You have won ***\n\n", Ending.VICTORY),
        ("    *** You have won... for now ***", Ending.VICTORY),
        ("    ****  You have won  ****\n", Ending.VICTORY),
        ("*** You've won! ***", Ending.VICTORY),
        ("Oh dear.\n    *** You have died ***\nIn that game you scored 3", Ending.FAILURE),
        ("*** You are dead ***", Ending.FAILURE),
        ("*** You have lost ***", Ending.FAILURE),
        ("*** The second day ***", None),
        ("*** You have died, and you have won ***", None),
        ("He says that you have won.", None),
        ("*** ***", None),
        ("You have died.", None),
        ("", None),
    ],
)
def test_what_stands_between_stars_tells_how_a_game_ended(words, ending):
    assert printed_ending(words) is ending


@pytest.mark.parametrize(
    "question",
    [
        "Would you like to RESTART, RESTORE a saved game or QUIT?\n> ",
        "Would I like to RESTART, RESTORE or QUIT?",
        "Would you like to restart the game from the beginning, restore a saved\ngame position, or "
        "end this session of the game?\n(Type RESTART, RESTORE, or QUIT):\n>",
        "[Type RESTART, RESTORE or QUIT.] >",
        "Time for Grunk to RESTART or RESTORE a saved story or UNDO",
    ],
)
def test_the_last_question_is_known(question):
    assert asks_what_now(f"It was a long day.\n\n{question}")
    assert not asks_what_now(question + "You wake up. It was a dream. " * 40)


@pytest.mark.parametrize(
    "words", ["Use SAVE, RESTORE, RESTART and QUIT as usual.", "Would you like to rest?", ""]
)
def test_other_words_are_no_last_question(words):
    assert not asks_what_now(words)


@pytest.mark.parametrize(
    ("words", "points"),
    [
        ("You have so far scored 5 out of a possible 10, in 3 turns, earning you", (5, 10)),
        ("In that game you scored -10 out of a possible 350, in 3 turns.", (-10, 350)),
        ("Your score is 10 (total of 350 points), in 1 move.", (10, 350)),
        ("Your score would be 35 (total of 585 points), in 7 moves.", (35, 585)),
        ("Your score is 0 out of 100.", (0, 100)),
        ("You have scored 7 points.", (7, 0)),
        ("Your score is now\n12 out of a maximum of 40", (12, 40)),
        ("That's not a verb I recognise.", None),
        ("There is no score in this story.", None),
    ],
)
def test_points_are_read_in_the_words_of_infocom_and_inform(words, points):
    assert points_in(words) == points


def test_the_status_line_of_version_3_tells_the_score():
    memory = np.frombuffer(story_file(3).read_bytes(), np.uint8).copy()
    at = int.from_bytes(memory[12:14].tobytes()) + 2
    memory[at : at + 2] = (0xFF, 0xF6)
    assert status_score(memory) == -10
    memory[1] |= 2  # the status line tells the time
    assert status_score(memory) is None
    assert status_score(np.frombuffer(story_file(5).read_bytes(), np.uint8)) is None


@needs_jericho
@pytest.mark.filterwarnings("ignore:.*is not fully supported")
@pytest.mark.parametrize(
    ("action", "over", "score", "ending"),
    [
        # Jericho 3.3.1 says so of Deephome and Anchorhead, which print that they are won.
        ("west", True, 0, Ending.VICTORY),
        ("west", True, 300, Ending.VICTORY),
        # No word between stars, so the score decides; then Jericho.
        ("nothing", True, 300, Ending.VICTORY),
        ("nothing", True, 299, Ending.FAILURE),
        ("nothing", False, 300, None),
        # At full score, too, whoever has died has not won.
        ("down", True, 300, Ending.FAILURE),
        # A known story goes on after such a line if Jericho says so, as after Zork's deaths.
        ("down", False, 10, None),
    ],
)
def test_what_a_game_prints_decides_beside_the_library(
    tmp_path, monkeypatch, action, over, score, ending
):
    toy = JerichoInterpreter(write_toy(tmp_path), state="exact")
    toy._machine.max_score = 300
    env = toy._machine._env
    monkeypatch.setattr(env, "victory", lambda: False)
    monkeypatch.setattr(env, "game_over", lambda: over)
    monkeypatch.setattr(env, "get_score", lambda: score)
    assert toy.step(toy.begin().state, action).ending is ending


@needs_jericho
def test_commands_without_a_word_are_keys_in_all_of_jerichos_walkthroughs():
    import jericho

    from llm_planning.environments.textgame.jericho_games import _commands

    with_keys = {}
    for bindings in jericho.defines.BINDINGS_DICT.values():
        walkthrough = bindings.get("walkthrough", "")
        commands = _commands(walkthrough)
        assert [command.strip() for command in walkthrough.split("/")] == [
            "" if command == ENTER else command for command in commands or ("",)
        ]
        if ENTER in commands:
            with_keys[bindings["name"]] = [
                i for i, command in enumerate(commands) if command == ENTER
            ]
    assert with_keys == {
        "curses": [486],
        "theatre": [289],
        "trinity": [609],
        "tryst205": [88, 516],
        "yomomma": [64, 65, 72, 73, 96, 97],
    }
