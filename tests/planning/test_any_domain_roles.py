"""The prompts of the planners of every domain, word for word."""

import pytest
from any_domain_worlds import Corridor, Doors, Tiger

from llm_planning.domain import Step
from llm_planning.planners.any_domain.roles import (
    LONGEST_PAST,
    ActWording,
    Situation,
    Turn,
    last_that_fit,
    seen,
)

RULES = (
    "You decide what to do next. You are told a goal, how things are, and which actions are "
    "possible. You choose the action that leads to the goal in the fewest steps."
)
HERE = Situation((), "You are outside.", ("open left", "open right"))
LATER = Situation(
    (Turn("You are asleep.", "wake up"), Turn("", "get up", "I need to get up first.")),
    "You are outside.",
    ("open left", "open right"),
    "I know the way.",
)


def texts(chat):
    return [message.content for message in chat]


def test_the_question_for_several_labels():
    _, user = texts(ActWording(Doors()).several(HERE, ("A", "B")))
    assert user.endswith(
        "Which actions could you take now? Answer with up to 5 of them as compact JSON, the best "
        'first, each with its chance of being the best in percent, such as {"actions":[["A",60]]}.'
    )


def test_past_and_thought_are_told_where_there_are_any():
    _, user = texts(ActWording(Doors()).label(LATER, ("1", "2")))
    assert user.startswith(
        "What happened before:\nYou are asleep.\n> wake up\nYour thought: I need to get up first.\n"
        "> get up\n\nNow:\nYou are outside.\n\nPossible actions:\n"
    )
    assert "\n\nYour thought: I know the way.\n\nWhich action" in user


def test_a_world_that_says_nothing_of_itself_and_has_examples():
    class Shown(Corridor):
        example = (("room 3", "forward"), ("room 8", "forward"))

    system, _ = texts(ActWording(Shown()).think(HERE))
    assert system == (
        f"{RULES}\n\nGoal: Reach the last room.\n\nGood decisions in situations like yours:\n"
        "room 3\n> forward\nroom 8\n> forward"
    )


def test_a_world_has_words_of_its_own():
    world = Doors()
    world.wording = {"act": "{% block rules %}Be brave, {{ goal | lower }}{% endblock %}"}
    system, user = texts(ActWording(world).think(HERE))
    assert system.startswith("Be brave, win the prize.\n\nYou stand")
    assert user == texts(ActWording(Doors()).think(HERE))[1]


def test_equal_situations_are_one_question():
    wording = ActWording(Doors())
    same = Situation((), "You are outside.", ("open left", "open right"))
    assert wording.key(same) == wording.key(HERE)
    assert wording.key(LATER) != wording.key(HERE)
    assert wording.actions(HERE) == ("open left", "open right")


def test_a_long_past_is_cut_at_its_beginning():
    turns = [Turn(f"{i} {'x' * 997}", "go") for i in range(10)]
    lines = last_that_fit(map(str, reversed(turns)))
    assert lines[0] == "..."
    assert lines[1:] == [str(turn) for turn in turns[5:]]
    assert sum(map(len, lines[1:])) <= LONGEST_PAST
    assert last_that_fit(map(str, reversed(turns[:2]))) == [str(turn) for turn in turns[:2]]
    assert last_that_fit([str(Turn("y" * 9000, "go"))]) == ["y" * 9000 + "\n> go"]


@pytest.mark.parametrize(
    ("world", "step", "expected"),
    [
        (Corridor(), Step(3), "room 3"),
        (Corridor(), Step(3, text="A door slams."), "A door slams.\nroom 3"),
        (Corridor(), Step(3, text="Locked.", obstacle="Locked."), "Locked.\nroom 3"),
        (Doors(), Step("inside", text="Dust."), "Dust.\nYou are inside."),
        (Tiger(), Step("left"), ""),
        (Tiger(), Step("left", observation="heard right"), "heard right"),
        (Tiger(), Step("left", observation=1, text="a roar"), "a roar"),
    ],
)
async def test_what_is_seen_after_a_step(world, step, expected):
    assert await seen(world, step) == expected
