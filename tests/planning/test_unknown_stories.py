"""Stories that Jericho does not know, on a compiled one of our own (`stories/bell_tower.inf`)."""

import logging
import shutil
from dataclasses import replace
from random import Random

import pytest
from bell_tower import VERSIONS, bell_tower, story_file
from jericho_toy import needs_jericho, write_toy
from textgame_toys import played

from llm_planning.environments.textgame import jericho_games, jericho_interpreter
from llm_planning.environments.textgame.game import Ending, TextGameError
from llm_planning.environments.textgame.jericho_actions import ALWAYS, WAYS, Finder
from llm_planning.environments.textgame.jericho_games import read_story
from llm_planning.environments.textgame.jericho_interpreter import JerichoInterpreter
from llm_planning.environments.textgame.jericho_machine import Machine
from llm_planning.environments.textgame.open_games import GameSettings, open_game
from llm_planning.running import plan
from llm_planning.worker_processes import end_workers
from llm_serving.scripted import ScriptedEngine

pytestmark = needs_jericho


@pytest.fixture(scope="module", params=VERSIONS)
def story(request):
    return bell_tower(request.param)


@pytest.fixture(scope="module")
def story_5():
    return bell_tower(5)


@pytest.fixture
def game(story):
    return JerichoInterpreter(story, state="exact")


def test_a_story_tells_its_own_points_and_ending(game):
    transition, score = game.begin(), 0.0
    assert "Score:" not in transition.text
    rewards = []
    for action in game.walkthrough:
        transition = game.step(transition.state, action)
        assert not transition.text.startswith(">")
        assert "Moves:" not in transition.text
        rewards.append(transition.reward)
        score += transition.reward
    assert (rewards[0], rewards[-1]) == (2.0, 3.0)
    assert score == game.max_score == 5.0
    assert transition.ending is Ending.VICTORY
    assert "*** You have won... for now ***" in transition.text


def test_an_end_without_a_word_at_full_score_is_won(game):
    """`leave` prints neither won nor lost; the score decides where it is the highest."""
    start = game.begin().state
    game._machine.max_score = 0
    assert game.step(start, "leave").ending is Ending.OVER
    rich = played(game, "open chest").state
    game._machine.max_score = 2
    assert game.step(rich, "leave").ending is Ending.VICTORY


def test_what_the_library_cannot_see_is_found(story):
    """An end, a way that moves no object, and a word with an accent beside a semicolon."""
    finder = Finder(story)
    game = JerichoInterpreter(story, state="exact")
    start = game.begin().state
    chosen = finder.chosen(start, finder.candidates(start))
    assert {"open chest", "drink poison", "leave", "ring bell", "down"} <= set(chosen.actions)
    assert chosen.untried == 0
    sign = next(
        action for action in chosen.actions if action.startswith("take ") and "sign" in action
    )
    assert game.step(start, sign).text == "Taken."
    assert not any(";" in candidate for candidate in finder.candidates(start))


def test_a_command_that_stops_the_machine_is_no_action(tmp_path):
    toy = replace(write_toy(tmp_path), known=False)
    finder = Finder(toy)
    start = Machine(toy).first
    assert finder.chosen(start, ["zap", "s", "nothing"]).actions == ("s",)


def test_a_dark_room_without_a_way_out_offers_all_ways(story):
    """No filter sees that the first `north` counts; the second leads on, which `look` shows."""
    finder = Finder(story)
    game = JerichoInterpreter(story, state="exact")
    pit = played(game, "down").state
    actions = finder.chosen(pit, finder.candidates(pit)).actions
    assert {"sing", "jump", "north", "down", "look", "inventory", "wait"} == set(actions)
    groped = game.step(pit, "north").state
    assert finder.chosen(groped, finder.candidates(groped)).actions == ("jump", "north", "sing")
    assert finder.chosen(pit, ["score"]).actions == tuple(sorted(set(actions) - {"sing", "jump"}))


def test_an_accent_is_read_as_one_letter(story_5):
    machine = Machine(story_5)
    assert "café" in {word.word for word in machine.dictionary()}
    (answer,) = machine.answers(machine.first, ("examine café",))
    assert answer == "Nothing special about café sign; open all day."
    # Jericho splits its list of commands at semicolons, which makes two commands of one.
    changes = machine.changes(machine.first, ["look;take café", "take café"])
    assert [change for change, _ in changes] == ["take café"]


def test_states_are_not_named_by_objects_that_nobody_knows(story_5):
    """All of them would have one name."""
    with pytest.raises(TextGameError, match="state=world is not possible"):
        JerichoInterpreter(story_5, state="world")


@pytest.mark.parametrize("action", ["\\s", "look \\U", "take 東京", "say \x00", "x\x7f"])
def test_what_no_story_reads_is_refused(story_5, action):
    """A backslash gives orders to the interpreter: `\\s` never ended."""
    game = JerichoInterpreter(story_5, state="exact")
    with pytest.raises(TextGameError, match="no story reads"):
        game.step(game.begin().state, action)


async def test_a_story_waits_for_a_key(story_5):
    game = JerichoInterpreter(story_5, state="exact")
    waiting = played(game, "ring bell").state
    assert waiting.awaits_key
    assert game.look(waiting) == ("", "")
    assert await game.valid_actions(waiting) == ("press enter", "press space")
    assert game.step(waiting, "press enter").state.awaits_key
    assert game.step(waiting, "press space").text == "The last echo dies away."
    # Where a line is awaited, Enter is an empty one.
    assert "verb" in played(game, "press enter").text
    end_workers()


def test_the_rest_of_a_line_is_no_key_of_another_state(story_5):
    """The interpreter kept it: `x` and then blanks pressed the space bar in later states."""
    game = JerichoInterpreter(story_5, state="exact")
    waiting = played(game, "ring bell").state
    game.step(waiting, "x    then more")
    assert game.step(waiting, "press enter").state.awaits_key
    # `q` quits elsewhere, and is only a key here.
    assert game.step(waiting, "q").state.awaits_key


async def test_a_state_has_a_bound_in_time_which_is_said_once(story_5, monkeypatch, caplog):
    monkeypatch.setattr(jericho_interpreter, "SECONDS", 0.0)
    game = JerichoInterpreter(story_5, state="exact")
    with caplog.at_level(logging.WARNING):
        actions = await game.valid_actions(game.begin().state)
        again = await game.valid_actions(played(game, "open chest").state)
    assert "down" in actions
    assert "down" in again
    (message,) = [
        record.getMessage() for record in caplog.records if "not tried" in record.getMessage()
    ]
    assert "bell_tower: " in message
    finder = Finder(story_5)
    start = game.begin().state
    commands = finder.candidates(start)
    cut = finder.chosen(start, commands, seconds=0.0)
    assert cut.untried == len(commands) - 50 > 0
    assert set(cut.actions) < set(finder.chosen(start, commands).actions)
    assert set(WAYS) < set(ALWAYS)
    end_workers()


@pytest.mark.parametrize(
    ("favourite", "success", "ending"),
    [("leave", None, "over"), ("drink poison", False, "failure")],
)
async def test_a_planner_reports_what_was_not_judged(
    tmp_path, monkeypatch, favourite, success, ending
):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    engine = ScriptedEngine(
        {}, score=lambda _, actions: [0.0 if action == favourite else -50.0 for action in actions]
    )
    settings = {"game": str(story_file(3)), "moves": 3, "prior": "exact"}
    outcome = await plan("llm-agent", "zork1", engine=engine, settings=settings, seed=1)
    assert (outcome.success, outcome.plan) == (success, (favourite,))
    assert (outcome.metrics["ending"], outcome.metrics["max_score"]) == (ending, 5.0)
    basis = "not judged" if success is None else "executed"
    assert outcome.metrics["success_basis"] == basis
    end_workers()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda story: story[:-300], "its header tells of 6.* bytes, and it has 6"),
        (lambda story: story[:3000] + b"\xff" + story[3001:], "do not fit its checksum"),
        (lambda story: b"\x06" + story[1:], "stories of version 6 are not played"),
        (lambda story: story[:8] + b"\xff\xff" + story[10:], "addresses beyond its end"),
    ],
)
def test_a_damaged_story_is_refused_before_it_is_played(tmp_path, change, message):
    file = tmp_path / "story.z5"
    file.write_bytes(change(story_file(5).read_bytes()))
    with pytest.raises(TextGameError, match=message):
        read_story(file)


def test_a_story_that_never_begins_is_refused(tmp_path, monkeypatch):
    """Its first instruction jumps to itself; the checksum is right."""
    story = bytearray(story_file(5).read_bytes())
    start = int.from_bytes(story[6:8])
    story[start : start + 3] = b"\x8c\xff\xff"
    length = 4 * int.from_bytes(story[0x1A:0x1C])
    story[0x1C:0x1E] = (sum(story[0x40:length]) & 0xFFFF).to_bytes(2)
    (tmp_path / "loop.z5").write_bytes(story)
    monkeypatch.setattr(jericho_games, "_SECONDS_OF_TRIAL", 0.5)
    with pytest.raises(TextGameError, match=r"loop.z5 cannot be played: .* than 0.5 seconds"):
        read_story(tmp_path / "loop.z5")


async def test_a_game_of_table_1_is_the_release_that_jericho_knows(tmp_path):
    shutil.copy(story_file(3), tmp_path / "zork1.z3")
    with pytest.raises(TextGameError, match=r"game=FILE plays other .*its zork1 has MD5"):
        async with open_game("zork1", GameSettings(games=str(tmp_path))):
            pass


def test_a_random_walk_never_stops_for_lack_of_actions(story):
    """Every state that is not the end has actions, at a prompt for a key and in the dark."""
    finder = Finder(story)
    game = JerichoInterpreter(story, state="exact")
    draw = Random(3)
    transition = game.begin()
    for _ in range(40):
        if transition.ending is not None:
            transition = game.begin()
        actions = finder.chosen(transition.state, finder.candidates(transition.state)).actions
        assert actions
        transition = game.step(transition.state, draw.choice(actions))
