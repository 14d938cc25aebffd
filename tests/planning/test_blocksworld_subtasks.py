"""Backward reasoning in Blocksworld: Tables 7 and 8, and cuts that spare what is achieved."""

from random import Random

import pytest
from test_blocksworld_solver import towers
from test_blocksworld_world import action

from llm_planning.domain import DomainError
from llm_planning.environments.blocksworld.blocks import TABLE, Goal, Puzzle
from llm_planning.environments.blocksworld.domain import BLOCKSWORLD, Blocksworld
from llm_planning.environments.blocksworld.generator import problems
from llm_planning.environments.blocksworld.rules import RULES
from llm_planning.planners.drip.roles import Decomposition, DripRoles
from llm_planning.roles.llm import fields_of


def opened(start, goal, clear=(), **options):
    return Blocksworld(Puzzle("test", start, Goal(goal, clear)), **options)


def texts(actions):
    return [str(action) for action in actions]


def test_a_goal_is_its_sentence_and_a_stack_is_two_subtasks():
    start = towers("abcdef")
    world = opened(start, (("a", "b"), ("b", "c"), ("e", "d")))
    assert world.goal == "Block a is on block b. Block b is on block c. Block e is on block d."
    assert texts(world.decompose(start, None)) == ["stack a b", "stack b c", "stack e d"]
    assert texts(world.decompose(start, action("stack a b"))) == [
        "unstack blocks b",
        "put-down b",
    ]
    assert world.decompose(start, action("put-down b")) == ()
    assert world.decompose(start, action("unstack blocks b")) == ()


def test_a_goal_comes_apart_from_below_where_the_setting_says_so():
    """Then a model is told so, too."""
    puzzle = Puzzle("test", towers("abcdef"), Goal((("a", "b"), ("b", "c"), ("e", "d"))))
    lowest = Blocksworld(puzzle, goal_order="lowest")
    assert texts(lowest.decompose(puzzle.start, None)) == ["stack b c", "stack a b", "stack e d"]
    table = Goal((("a", "b"), ("b", TABLE)), ("a",))
    world = Blocksworld(Puzzle("test", towers("abc"), table), goal_order="lowest")
    assert texts(world.decompose(puzzle.start, None)) == [
        "put-down b",
        "stack a b",
        "unstack blocks a",
    ]

    def rules_of(world):
        question = Decomposition(None, world.goal, puzzle.start)
        prompt = DripRoles(world, seed=0).decompose(9).prompt()
        return prompt.messages(fields_of(question))[0].content

    assert "the lowest blocks of a tower first" in rules_of(lowest)
    assert "lowest" not in rules_of(Blocksworld(puzzle))


def test_goals_about_the_table_and_clear_blocks_have_subtasks_too():
    start = towers("abc")
    world = opened(start, (("a", "b"), ("b", TABLE)), clear=("a",))
    assert texts(world.decompose(start, None)) == ["stack a b", "put-down b", "unstack blocks a"]


def test_a_goal_that_denies_a_place_puts_its_block_down():
    start = towers("abcd")
    denied = (("on", "a", "c"), ("on", "c", "b"))
    world = Blocksworld(Puzzle("test", start, Goal((("a", "d"),), (), denied)))
    assert texts(world.decompose(start, None)) == ["stack a d", "put-down c"]
    vague = Goal((("a", "d"),), (), (("clear", "b"), ("clear", "d")))
    with pytest.raises(DomainError, match=r"\(not \(clear b\)\) names no action"):
        Blocksworld(Puzzle("test", start, vague)).decompose(start, None)
    implied = Goal((("a", "d"),), (), (("clear", "d"), ("ontable", "a")))
    world = Blocksworld(Puzzle("test", start, implied))
    assert texts(world.decompose(start, None)) == ["stack a d"]


JUDGED = {
    ("stack c e", None): ("true", "block e is clear and in another tower"),
    ("stack c b", None): ("done", "block c stands on block b"),
    ("stack c d", None): ("false", "block d is not clear: block e stands on it"),
    ("stack a c", None): ("false", "blocks a and c are in one tower"),
    ("unstack blocks c", "stack a c"): ("done", "block c is clear"),
    ("unstack blocks b", "stack d b"): (
        "true",
        "what stands on block b can always be put down",
    ),
    ("put-down c", "stack a c"): (
        "true",
        "blocks a and c are in one tower",
    ),
    # Whether it stands on the table does not matter.
    ("put-down e", "stack a e"): ("done", "blocks a and e are in different towers"),
    ("put-down e", None): ("true", "block e can always be put down"),
    ("put-down a", None): ("done", "block a stands on the table"),
}


@pytest.mark.parametrize(("asked", "verdict"), JUDGED.items())
def test_verdicts_of_table_8(asked, verdict):
    start = towers("abc", "de")
    subtask, parent = asked
    parent = parent and action(parent)
    assert opened(start, (("a", "c"),)).judge(start, action(subtask), parent) == verdict


def test_the_goal_is_judged_by_its_facts():
    start = towers("abc", "de")
    assert opened(start, (("b", "a"),)).judge(start, None, None) == ("done", "the goal holds")
    judged = opened(start, (("b", "a"), ("a", "e"))).judge(start, None, None)
    assert judged == ("false", "1 of the goal's facts do not hold yet")


def test_a_tower_is_cut_below_its_achieved_chain():
    world = BLOCKSWORLD.open("section-4.1.4", BLOCKSWORLD.settings.read({}))
    start = world.start(0)
    published, parent = action("put-down c"), action("stack i c")
    assert world.judge(start, parent, None).verdict == "false"
    assert world.judge(start, published, parent).verdict == "true"
    broken = world.step(start, published, Random(0)).state
    assert world.puzzle.goal.missing(broken) == world.puzzle.goal.missing(start) + 1
    cut = world.spared(start, published)
    assert str(cut) == "put-down h"
    whole = world.step(start, cut, Random(0)).state
    assert world.judge(whole, published, parent).verdict == "done"
    assert world.step(whole, parent, Random(0)).done


def test_whatever_is_asked_nothing_achieved_is_broken():
    changed = 0
    for puzzle in problems({5: 10, 7: 6}, seed=4):
        world, rng = Blocksworld(puzzle), Random(puzzle.name)
        state = puzzle.start
        for _ in range(4):
            achieved = set(puzzle.goal.on) & set(state.on)
            for asked in RULES["variant"].every(state.names):
                spared = world.spared(state, asked)
                changed += spared != asked
                after = world.step(state, spared, Random(0)).state
                assert achieved <= set(after.on)
            state = world.step(state, rng.choice(world.actions(state)), Random(0)).state
    assert changed > 100


def test_what_cannot_be_taken_or_changes_nothing_stays_as_it_is():
    start = towers("abc", "de")
    world = opened(start, (("b", "a"), ("c", "b")))
    for text in ("stack a c", "unstack blocks c", "put-down a"):
        assert world.spared(start, action(text)) == action(text)
    assert str(world.spared(start, action("stack c e"))) == "stack a e"
    assert str(world.spared(start, action("unstack blocks b"))) == "put-down a"


def test_the_standard_rules_have_no_subtasks():
    start = towers("abc")
    world = opened(start, (("a", "b"),), rules="standard")
    for ask in (
        lambda: world.decompose(start, None),
        lambda: world.judge(start, None, None),
        lambda: world.spared(start, action("put-down a")),
    ):
        with pytest.raises(DomainError, match="set rules=variant"):
            ask()
