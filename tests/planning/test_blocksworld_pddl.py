"""PDDL files of Blocksworld: read, written, refused."""

import os

import pytest

from llm_planning.environments.blocksworld.blocks import TABLE, Blocks, Goal
from llm_planning.environments.blocksworld.domain import BLOCKSWORLD
from llm_planning.environments.blocksworld.generator import problems
from llm_planning.environments.blocksworld.pddl import (
    MOST_BLOCKS,
    MOST_BYTES,
    PddlError,
    read_problems,
    write_problem,
)
from llm_planning.specs import Several

GOOD = """\
(define (problem BW-rand-3)
(:domain blocksworld-4ops)
(:objects a b c )
(:init
(handempty)
(ontable a)
(on b a)
(ontable c)
(clear b)
(clear c)
)
(:goal
(and
(on a c))
)
)
"""
START = Blocks.of({"a": TABLE, "b": "a", "c": TABLE})


@pytest.fixture
def read(tmp_path):
    def read(text, *, hand=False):
        path = tmp_path / "instance-1.pddl"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_problems(str(path), hand=hand)[0]

    return read


def test_planbenchs_files_are_read(read):
    puzzle = read(GOOD)
    assert (puzzle.name, puzzle.start) == ("instance-1.pddl", START)
    assert puzzle.goal == Goal((("a", "c"),))


@pytest.mark.parametrize(
    "text",
    [
        GOOD.upper(),
        "\ufeff" + GOOD.replace("\n", "\r\n"),
        GOOD.replace("(ontable a)", "; (on a b)\n(on-table a) (on-table a)"),
        GOOD.replace("handempty", "arm-empty"),
        GOOD.replace("a b c )", "a b - block c - block)"),
        GOOD.replace("(:init", "(:requirements :strips) (:init"),
        GOOD.replace("(and\n(on a c))", "(on a c)"),
        GOOD.replace("(on a c))", "(on a c) (handempty))"),
    ],
)
def test_other_ways_of_writing_the_same(read, text):
    puzzle = read(text)
    assert (puzzle.start, puzzle.goal) == (START, Goal((("a", "c"),)))


def test_goals_may_name_the_table_and_clear_blocks(read):
    goal = read(GOOD.replace("(on a c)", "(ontable c) (clear a) (clear c)")).goal
    assert goal == Goal((("c", TABLE),), ("a", "c"))


def test_a_block_may_be_held_by_the_standard_rules_only(read):
    held = GOOD.replace("(handempty)", "(holding b)").replace("(on b a)", "(clear a)")
    held = held.replace("(clear b)", "")
    assert read(held, hand=True).start == Blocks.of({"a": TABLE, "c": TABLE}, held="b")
    with pytest.raises(PddlError, match=r"the fact \(holding b\).* set rules=standard"):
        read(held)


def test_what_is_written_is_read(tmp_path):
    drawn = problems({4: 3, 15: 1}, seed=9)
    for puzzle in drawn:
        (tmp_path / f"{puzzle.name}.pddl").write_text(write_problem(puzzle))
    found = read_problems(str(tmp_path), hand=False)
    assert [one.name for one in found] == [f"{one.name}.pddl" for one in drawn]
    assert [(one.start, one.goal) for one in found] == [(one.start, one.goal) for one in drawn]


def test_a_folder_is_read_in_the_order_of_numbers_without_domains(tmp_path):
    for name in ("instance-10.pddl", "instance-9.PDDL", "x2.pddl", "x1.pddl"):
        (tmp_path / name).write_text(GOOD)
    (tmp_path / "domain.pddl").write_text("(define (domain blocksworld-4ops))")
    (tmp_path / "notes.txt").write_text("no problem")
    names = [one.name for one in read_problems(str(tmp_path), hand=False)]
    assert names == ["instance-9.PDDL", "instance-10.pddl", "x1.pddl", "x2.pddl"]


REFUSED = {
    # Foreign.
    "": "it has nothing in it",
    "blocks": "line 1: 'blocks' stands outside of (define ...)",
    "()": "it does not begin with (define (problem ...",
    "(define (domain blocks))": "it defines a domain, where (define (problem ...) ...) is expected",
    "(define blocks)": "it defines nothing, where",
    "[1, 2]": "line 1: '[1,' stands outside",
    "(define (problem x) (at truck city))": "the section 'at' is not of Blocksworld; known:",
    GOOD.replace("(ontable a)", "(at truck1 city)"): (
        "the start has the fact (at truck1 city), which is not of Blocksworld; known: arm-empty"
    ),
    GOOD.replace("(on a c)", "(onn a c)"): (
        "the goal has the fact (onn a c), which is not of Blocksworld; did you mean on?"
    ),
    GOOD.replace("(on a c)", "(not (on a c))"): (
        "the goal has (not (on a c)), which is no fact of Blocksworld"
    ),
    GOOD.replace("(and", "(or"): "the goal has (or (on a c)), which is no fact of Blocksworld",
    GOOD.replace("(:goal", "(:metric minimize (total-cost)) (:goal"): (
        "the section ':metric' is not of Blocksworld"
    ),
    GOOD.replace("a b c", "a b - truck c"): "(:objects ...) has the type 'truck'",
    GOOD.replace("(on a c)", "(" * 5_000 + "x\x1b" + ")" * 5_000): "the goal has ((((((",
    # Damaged.
    GOOD[:-3]: "1 parentheses are not closed at its end",
    GOOD + ")": "line 17: ')' stands outside of (define ...)",
    GOOD + GOOD: "line 17: '(' stands outside of (define ...)",
    "(" * 100_000: "100000 parentheses are not closed",
    b"\xff\xfe(": "it is not UTF-8 text",
    GOOD.replace("(:init", "(:start"): "the section ':start' is not of Blocksworld",
    GOOD.replace("(:goal", "(:init"): "it has two sections (:init ...)",
    "(define (problem x) (:objects a) (:init))": "it has no section (:goal ...)",
    GOOD.replace("(on b a)", "(on b)"): "the start has the fact (on b): (on ...) takes 2 blocks",
    GOOD.replace("(on b a)", "(on b z)"): (
        "the start has the fact (on b z) about 'z', which is not in (:objects ...)"
    ),
    GOOD.replace("(and\n(on a c))", "(on a c) (on b c)"): "(:goal ...) has 2 parts",
    GOOD.replace("a b c", "a b c a"): "(:objects ...) has a 2 times",
    GOOD.replace("a b c", "a b c table"): "(:objects ...) has 'table': the name of a block",
    GOOD.replace("a b c", "a b c (d)"): "(:objects ...) has ['d']: the name of a block",
    GOOD.replace("a b c", ""): "it has 0 blocks: 1 to",
    GOOD.replace("a b c", " ".join(f"b{n}" for n in range(MOST_BLOCKS + 1))): "it has 51 blocks",
    # Inconsistent.
    GOOD.replace("(ontable a)", ""): "the start lacks a fact that says what a stands on",
    GOOD.replace("(ontable a)", "(ontable a) (on a c)"): (
        "the start is not possible: (ontable a) contradicts (on a c)"
    ),
    GOOD.replace("(ontable c)", "(on c a)"): (
        "the start is not possible: (on b a) contradicts (on c a)"
    ),
    GOOD.replace("(ontable a)", "(on a b)"): (
        "the start is not possible: (on a b) (on b a) go in a circle"
    ),
    GOOD.replace("(ontable a)", "(on a a)").replace("(on b a)", "(ontable b)"): (
        "the start is not possible: (on a a) go in a circle"
    ),
    GOOD.replace("(clear b)", "(clear b) (clear a)"): (
        "the start is not possible: (clear a) contradicts (on b a)"
    ),
    GOOD.replace("(clear b)", ""): "the start lacks the fact (clear b): nothing stands on b",
    GOOD.replace("(handempty)", ""): "the start lacks the fact (handempty)",
    GOOD.replace("(handempty)", "(handempty) (holding c)"): "(handempty) contradicts (holding c)",
    GOOD.replace("(handempty)", "(holding c)"): "(holding c) contradicts (ontable c)",
    # Unsolvable.
    GOOD.replace("(on a c)", "(on a c) (on b c)"): (
        "the goal is not possible: (on a c) contradicts (on b c)"
    ),
    GOOD.replace("(on a c)", "(on a c) (on a b)"): "(on a c) contradicts (on a b)",
    GOOD.replace("(on a c)", "(on a c) (on c b) (on b a)"): (
        "the goal is not possible: (on a c) (on c b) (on b a) go in a circle"
    ),
    GOOD.replace("(on a c)", "(on a c) (clear c)"): "(on a c) contradicts (clear c)",
    GOOD.replace("(on a c)", "(on a c) (ontable a)"): "(on a c) contradicts (ontable a)",
    GOOD.replace("(on a c)", "(holding c)"): "the goal has the fact (holding c): no goal may ask",
    GOOD.replace("(on a c)", ""): "the goal asks for nothing",
    GOOD.replace("(on a c)", "(handempty)"): "the goal asks for nothing",
}


@pytest.mark.parametrize(("text", "said"), REFUSED.items(), ids=range(len(REFUSED)))
def test_one_error_names_the_file_and_the_fact(read, text, said):
    with pytest.raises(PddlError) as refused:
        read(text)
    message = str(refused.value)
    assert "instance-1.pddl: " in message
    assert said in message
    assert "\n" not in message
    assert len(message) < 600


def test_files_that_are_none_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.pddl")
    (tmp_path / "large.pddl").write_text(GOOD + " " * MOST_BYTES)
    for name, said in {
        "missing.pddl": "there is no such file: set pddl to a file or a folder",
        "pipe.pddl": "it cannot be read: it is not a regular file",
        "large.pddl": "it cannot be read: it is larger than",
        "empty": "has no problem: name a folder with files",
        "a\0b": "no file can have this name",
    }.items():
        with pytest.raises(PddlError, match=said):
            read_problems(str(tmp_path / name), hand=False)


def opened(**settings):
    return BLOCKSWORLD.open("hard", BLOCKSWORLD.settings.read(settings))


def test_a_folder_opens_all_of_its_problems_and_a_file_or_a_number_one(tmp_path):
    for name in ("p1.pddl", "p2.pddl"):
        (tmp_path / name).write_text(GOOD)
    several = opened(pddl=str(tmp_path))
    assert isinstance(several, Several)
    assert list(several.worlds) == ["p1.pddl", "p2.pddl"]
    assert opened(pddl=str(tmp_path), problem=2).puzzle.name == "p2.pddl"
    assert opened(pddl=str(tmp_path / "p1.pddl")).puzzle.start == START
    with pytest.raises(ValueError, match=r"problem=3 is not possible: pddl=.* has 2 problems"):
        opened(pddl=str(tmp_path), problem=3)
