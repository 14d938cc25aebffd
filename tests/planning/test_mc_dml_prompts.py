import re
import time
from functools import partial

from llm_planning.planners.mc_dml.roles import (
    LOGGED_TURNS,
    LONGEST_LOOK,
    LONGEST_TEXT,
    SENTENCE,
    GameSituation,
    GameTurn,
    GameWording,
    Observation,
    Trajectory,
    ask_reflection,
    first_of,
    last_of,
    log,
)
from llm_serving.outlines_index import OutlinesIndex, TokenVocabulary
from llm_serving.scripted import ScriptedEngine

ask_action = partial(GameWording().action, dashes=3)
ask_label, ask_several = GameWording().label, GameWording().several
HALL = Observation("", "A hall. Stairs lead down.", "You carry nothing.")
CELLAR = Observation("You walk down.", "A dark cellar.", "You carry nothing.")
ACTIONS = ("go up", "light lamp")
LESSON = "Take the lamp before you go down."


def situation(**changes):
    given = {
        "memory": (GameTurn(HALL, "go down", 0.0, 0.0),),
        "observation": CELLAR,
        "actions": ACTIONS,
        "reflections": (LESSON, "Wait no longer."),
    }
    return GameSituation(**(given | changes))


def text(chat):
    return ScriptedEngine({}).text(chat)


def test_reflections_change_only_what_follows_the_actions():
    for ask in (ask_action, lambda s: ask_label(s, "AB"), lambda s: ask_several(s, "AB")):
        texts = [text(ask(situation(reflections=r))) for r in ((), (LESSON,), ("Go up at once.",))]
        shared = texts[0].partition("light lamp")[0] + "light lamp\n\n"
        assert all(prompt.startswith(shared) for prompt in texts)
        assert len(set(texts)) == 3


def test_siblings_share_what_was_before():
    first = text(ask_action(situation()))
    other = text(
        ask_action(situation(memory=(GameTurn(HALL, "wait", 1.0, 1.0),), actions=("go up",)))
    )
    shared = first.partition("> ")[0] + "> "
    assert shared.count("A hall.") == 1
    assert other.startswith(shared)


def test_all_ways_share_everything_before_the_actions():
    chats = (
        ask_action(situation()),
        ask_label(situation(), ("1", "2")),
        ask_several(situation(), ("1", "2")),
    )
    assert len({text(chat).partition("Possible actions:")[0] for chat in chats}) == 1
    assert '{"actions":[["1",60]]}.' in text(chats[2])


def test_prompts_are_tidy():
    trajectory = Trajectory((GameTurn(HALL, "go down", 0.0, 0.0),), CELLAR)
    chats = [ask_reflection(trajectory), ask_reflection(Trajectory((), HALL))]
    for changes in ({}, {"memory": ()}, {"reflections": ()}, {"actions": ("wait",)}):
        given = situation(**changes)
        labels = ("1", "2")[: len(given.actions)]
        chats += [ask_action(given), ask_label(given, labels), ask_several(given, labels)]
    for chat in chats:
        for message in chat:
            assert not re.search(r"\{\{|\}\}|\{%|\n\n\n| \n|\n\Z|\A\n", message.content)


def test_what_is_said_already_is_not_said_twice():
    look = "-= Cellar =-\nA dark cellar."
    entered = Observation(f"You go down.\n\n{look}\nIt is cold.", look, "You carry\n  nothing.")
    assert str(entered) == (
        "You go down. It is cold.\n-= Cellar =- A dark cellar.\nYou carry nothing."
    )
    assert str(Observation("A dark cellar.", look, "")) == "-= Cellar =- A dark cellar."
    assert str(Observation("", "", "")) == ""
    assert str(Observation("Taken.", "", "")) == "Taken."
    held = Observation("You carry nothing.", "A cellar.", "You carry nothing.")
    assert str(held) == "A cellar.\nYou carry nothing."


def test_long_texts_lose_their_beginning_and_long_places_their_end():
    words = " ".join(f"word{i}" for i in range(1000))
    place, seen, held = str(
        Observation(f"{words} end", f"At first {words}", f"You carry {words}")
    ).split("\n")
    assert place.startswith("...word")
    assert place.endswith(" end")
    assert LONGEST_TEXT - 10 < len(place) <= LONGEST_TEXT
    assert seen.startswith("At first ")
    assert seen.endswith("...")
    assert LONGEST_LOOK - 10 < len(seen) <= LONGEST_LOOK
    assert len(held) <= LONGEST_LOOK


def test_a_long_place_is_not_lost_with_the_beginning_of_the_text():
    look = "A cellar full of casks. " + "Dust everywhere. " * 20
    shortened = str(Observation(f"{look}{'Rats squeak. ' * 90}", look, ""))
    assert shortened.splitlines()[1].startswith("A cellar full of casks.")
    assert shortened.count("Dust everywhere.") == 20


def test_cuts_are_between_words_where_there_are_any():
    assert last_of("one two three", 13) == "one two three"
    assert last_of("one two three", 10) == "...three"
    assert last_of("x" * 20, 10) == "..." + "x" * 7
    assert first_of("one two three", 13) == "one two three"
    assert first_of("one two three", 12) == "one two..."
    assert first_of("x" * 20, 10) == "x" * 7 + "..."


def test_a_log_tells_actions_rewards_and_answers():
    answer = Observation("You fall. The door shuts.", "A dark cellar.", "You carry nothing.")
    trajectory = Trajectory(
        (GameTurn(HALL, "open door", 5.0, 5.0), GameTurn(answer, "wait", -1.5, 3.5)),
        Observation("You are dead.", "", ""),
    )
    assert log(trajectory) == (
        "A hall. Stairs lead down.\n"
        "You carry nothing.\n"
        "> open door (reward 5, score 5)\n"
        "You fall. The door shuts.\n"
        "> wait (reward -1.5, score 3.5)\n"
        "You are dead."
    )
    _, user = ask_reflection(trajectory)
    assert user.content.startswith("Record of the game:\nA hall.")
    assert "You are dead.\n\nWhat made the game go badly?" in user.content


def test_a_long_log_tells_the_last_turns():
    turns = tuple(GameTurn(CELLAR, f"do {i}", 0.0, 0.0) for i in range(50))
    lines = log(Trajectory(turns, Observation("You are dead.", "", ""))).splitlines()
    assert lines[0] == "..."
    assert [line for line in lines if line.startswith(">")] == [
        f"> do {i} (reward 0, score 0)" for i in range(50 - LOGGED_TURNS, 50)
    ]
    assert lines[-1] == "You are dead."


def test_a_reflection_s_language_compiles_at_once():
    """Some patterns of this length take minutes."""
    tokens = [bytes((byte,)) for byte in range(256)]
    begun = time.process_time()
    index = OutlinesIndex(SENTENCE.regex, TokenVocabulary(tokens, ends=(256,), size=257))
    assert time.process_time() - begun < 10
    assert index.states < 300


def test_a_reflection_is_one_bounded_sentence():
    assert SENTENCE.max_bytes == 200
    for text in ("Next time, take the lamp before you go down.", "Next time," + "b" * 189 + "."):
        assert re.fullmatch(SENTENCE.regex, text)
    for text in (
        "Next time, take it.",
        "The game ended badly because the player lost.",
        "Next times, take the lamp before you go down.",
        "Next time, go down. North of it is the lamp.",
        "Next time, go North before you take the lamp.",
        "Next time, take the lamp before you go down",
        "Next time, take the lamp first. Then go down.",
        "Next time, take the lamp\nbefore you go down.",
        "Next time," + "b" * 190 + ".",
    ):
        assert not re.fullmatch(SENTENCE.regex, text)
