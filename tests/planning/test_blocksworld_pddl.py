"""PDDL files of Blocksworld: read, written, refused."""

import os

import pytest

from llm_planning.environments.blocksworld.blocks import TABLE, Blocks, Goal
from llm_planning.environments.blocksworld.domain import BLOCKSWORLD
from llm_planning.environments.blocksworld.generator import problems
from llm_planning.environments.blocksworld.pddl import hash_of, read_problems, write_problem
from llm_planning.environments.blocksworld.pddl_problem import MOST_BLOCKS
from llm_planning.environments.pddl_text import MOST_BYTES, PddlError
from llm_planning.settings import SettingsError
from llm_planning.several import Several

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
DOMAIN = """\
(define (domain blocksworld-4ops)
(:predicates (clear ?x) (ontable ?x) (handempty) (holding ?x) (on ?x ?y))
(:action pick-up :parameters (?x)
  :precondition (and (clear ?x) (ontable ?x) (handempty))
  :effect (and (holding ?x) (not (clear ?x)) (not (ontable ?x)) (not (handempty)))))
"""
THREE_OPERATORS = """\
(define (domain blocks)
(:predicates (clear ?x) (on-table ?x) (on ?x ?y))
(:action move-t-to-b :parameters (?x ?y)
  :precondition (and (clear ?x) (clear ?y) (on-table ?x))
  :effect (and (on ?x ?y) (not (clear ?y)) (not (on-table ?x)))))
"""
START = Blocks.of({"a": TABLE, "b": "a", "c": TABLE})


@pytest.fixture
def read(tmp_path):
    def read(text, *, rules="variant"):
        path = tmp_path / "instance-1.pddl"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_problems(str(path), rules=rules)["instance-1.pddl"]

    return read


@pytest.mark.parametrize(
    "text",
    [
        GOOD.upper(),
        "\ufeff" + GOOD.replace("\n", "\r\n"),
        GOOD.replace("(ontable a)", "; (on a b)\n(on-table a) (on-table a)"),
        GOOD.replace("a b c )", "a b - block c - block)"),
        GOOD.replace("(:init", "(:requirements :strips) (:init"),
        GOOD.replace("(and\n(on a c))", "(on a c)"),
        GOOD.replace("handempty", "emptyhand"),
        GOOD.replace("(on a c))", "(and (and (on a c)) (and)) (emptyhand))"),
        GOOD.replace("(on a c))", "(on a c) (not (holding b)))"),
        GOOD.replace("(handempty)", "(= (total-cost) 0) (handempty)").replace(
            "(:goal", "(:metric minimize (total-cost)) (:goal"
        ),
        # PDDLGym's: a robot, and facts that say which actions there are.
        GOOD.replace("a b c )", "a b c - block rob - robot)").replace(
            "(handempty)", "(handempty rob) (pickup a) (putdown a) (stack a b) (unstack a b)"
        ),
        # A robot without a type, and one that the domain has as a constant.
        GOOD.replace("a b c )", "a rob b c )").replace("(handempty)", "(arm-empty rob)"),
        GOOD.replace("(handempty)", "(handempty rob)") + DOMAIN,
        # One file has a domain and a problem, in any order.
        DOMAIN + GOOD,
        GOOD + DOMAIN,
        GOOD.replace("(:goal", "(:metric minimize (total-cost)) (:goal")
        + DOMAIN.replace("(holding ?x) (not", "(increase (total-cost) 1) (not"),
        GOOD.replace("(:init", "; déjà vu (a comment in another encoding)\n(:init").encode(
            "latin-1"
        ),
        *(
            GOOD.replace("(:init", f"; page{end}2 (on c a) ; two (\n(:init")
            for end in ("\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029")
        ),
        *(
            GOOD.replace("(on a c)", f"(on a c) ; was:{end} (on b c){after}")
            for end, after in (("\u2028", "\r"), ("\x85", "\r\n"), ("\x0c", "\n"))
        ),
        GOOD.replace("\n", "\r"),
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
    assert read(held, rules="standard").start == Blocks.of({"a": TABLE, "c": TABLE}, held="b")
    with pytest.raises(PddlError, match=r"the fact \(holding b\).* set rules=standard"):
        read(held)
    with pytest.raises(PddlError, match=r"by rules=handless no block is held: set rules=standard"):
        read(held, rules="handless")


def test_what_is_written_is_read(tmp_path):
    drawn = problems({4: 3, 15: 1}, seed=9)
    for puzzle in drawn:
        (tmp_path / f"{puzzle.name}.pddl").write_text(write_problem(puzzle))
    by_name = read_problems(str(tmp_path))
    assert list(by_name) == [problem.name for problem in by_name.values()]
    assert list(by_name) == [f"{problem.name}.pddl" for problem in drawn]
    assert [(problem.start, problem.goal) for problem in by_name.values()] == [
        (problem.start, problem.goal) for problem in drawn
    ]


def test_a_folder_is_read_in_the_order_of_numbers_without_domains(tmp_path):
    for name in ("instance-10.pddl", "instance-9.PDDL", "x2.pddl", "x1.pddl"):
        (tmp_path / name).write_text(GOOD)
    (tmp_path / "domain.pddl").write_text("(define (domain blocksworld-4ops))")
    (tmp_path / "notes.txt").write_text("no problem")
    assert list(read_problems(str(tmp_path))) == [
        "instance-9.PDDL",
        "instance-10.pddl",
        "x1.pddl",
        "x2.pddl",
    ]


REFUSED = {
    # Foreign.
    "": "it has nothing in it",
    "blocks": "line 1: 'blocks' stands outside of (define ...)",
    "()": "it does not begin with (define (problem ...",
    "(define (domain blocks))": "it defines a domain, where (define (problem ...) ...) is expected",
    "(define blocks)": "it defines nothing, where",
    "(define (problem x) (at truck city))": "the section 'at' is not of Blocksworld; known:",
    GOOD.replace("(on a c)", "(onn a c)"): (
        "the goal has the fact (onn a c), which is not of Blocksworld; did you mean on?"
    ),
    GOOD.replace("(on a c)", "(not (or (on a c)))"): (
        "the goal has (or (on a c)), which is no fact of Blocksworld"
    ),
    GOOD.replace("(on a c)", "(not (on a c) (on b c))"): (
        "the goal has (not (on a c) (on b c)), which is no fact of Blocksworld"
    ),
    GOOD.replace("(:goal", "(:metric maximize (total-cost)) (:goal"): (
        "it has (:metric maximize (total-cost)): every action costs one"
    ),
    GOOD.replace("(:goal", "(:metric minimize (total-cost)) (:goal")
    + DOMAIN.replace("(holding ?x) (not", "(increase (total-cost) (weight ?x)) (not"): (
        "its domain's actions differ in cost"
    ),
    GOOD.replace("(:goal", "(:metric minimize (total-cost)) (:goal")
    + DOMAIN.replace("(holding ?x) (not", "(increase (total-cost) 2) (not")[:-2]
    + "(:action put-down :parameters (?x) :precondition (holding ?x) :effect (ontable ?x)))": (
        "its domain's actions differ in cost"
    ),
    GOOD.replace("a b c )", "a b c r s)").replace(
        "(handempty)", "(handempty r) (handempty s)"
    ): "it has the robots 'r s': one hand is possible",
    GOOD.replace("(handempty)", "(handempty c)"): "the start has the fact (ontable c) about 'c'",
    # Blanks that PDDL does not know part nothing.
    GOOD.replace("(on a c)", "(on a\u00a0c)"): "the goal has the fact (on a\\xa0c)",
    GOOD.replace("a b c", "a b - truck c"): "(:objects ...) has the type 'truck'",
    GOOD.replace("(on a c)", "(" * 5_000 + "x\x1b" + ")" * 5_000): "the goal has ((((((",
    # Damaged.
    GOOD[:-3]: "1 parentheses are not closed at its end",
    GOOD + ")": "line 17: ')' stands outside of (define ...)",
    GOOD + GOOD: "line 17: '(' stands outside of (define ...): one problem may stand in a file",
    GOOD + "(and)": "line 17: '(' stands outside of (define ...)",
    "(" * 100_000: "100000 parentheses are not closed",
    GOOD.replace("a b c )", "a b \u00e9 )").encode("latin-1"): "line 3: it is not UTF-8 text",
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
    # Without a goal that can be asked for.
    GOOD.replace("(on a c)", "(not (handempty))"): "the goal has the fact (not (handempty)): no",
    GOOD.replace("a b c", "a b c d")
    .replace("(clear c)", "(clear c) (ontable d) (clear d)")
    .replace(
        "(on a c)", " ".join(f"(not (clear {block}))" for block in "abcd")
    ): "(not (clear d)), 4 facts that name no place: up to 3 are possible",
    GOOD.replace("(on a c)", "(holding c)"): "the goal has the fact (holding c): no goal may ask",
    GOOD.replace("(on a c)", ""): "the goal asks for nothing",
}


@pytest.mark.parametrize(("text", "fault"), REFUSED.items(), ids=range(len(REFUSED)))
def test_one_error_names_the_file_and_the_fact(read, text, fault):
    with pytest.raises(PddlError) as refused:
        read(text)
    message = str(refused.value)
    assert "instance-1.pddl: " in message
    assert fault in message
    assert "\n" not in message
    assert len(message) < 600


NO_PLAN = {
    "(on a c) (on b c)": "(on a c) contradicts (on b c)",
    "(on a c) (on a b)": "(on a c) contradicts (on a b)",
    "(on a c) (on c b) (on b a)": "(on a c) (on c b) (on b a) go in a circle",
    "(on a c) (clear c)": "(on a c) contradicts (clear c)",
    "(on a c) (not (on a c))": "(on a c) contradicts (not (on a c))",
    # Some block stands on the table, and on the highest one stands none.
    "(not (ontable a)) (not (ontable b)) (not (ontable c))": "no state has all of its facts",
    "(not (clear a)) (not (clear b)) (not (clear c))": "no state has all of its facts",
    "(on a c) (not (clear a)) (not (on b a))": "no state has all of its facts",
}


@pytest.mark.parametrize(("goal", "why"), NO_PLAN.items())
def test_a_goal_that_no_state_reaches_is_a_problem_without_a_plan(read, goal, why):
    puzzle = read(GOOD.replace("(on a c)", goal))
    assert puzzle.start == START
    assert puzzle.no_plan == f"the goal is not possible: {why}"
    assert read(GOOD).no_plan == ""


def test_a_goal_may_deny_facts(read):
    goal = read(GOOD.replace("(on a c)", "(and (not (on b a)) (on a c)) (not (clear b))")).goal
    assert goal == Goal((("a", "c"),), (), (("clear", "b"), ("on", "b", "a")))


MYSTERY = """\
(define (problem MBW-rand-3)
(:domain mystery-4ops)
(:objects a b c )
(:init (harmony) (planet a) (craves b a) (planet c) (province b) (province c))
(:goal (and (craves a c))))
"""


def test_mystery_is_read_in_plain_words(read):
    puzzle = read(MYSTERY, rules=None)
    assert (puzzle.start, puzzle.goal) == (START, Goal((("a", "c"),)))
    assert puzzle.dialect == "mystery"
    with pytest.raises(PddlError, match=r"the start has the fact \(clear b\).* not of Blocksworld"):
        read(MYSTERY.replace("province b", "clear b"))


WITHOUT_HAND = GOOD.replace("(handempty)\n", "")


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        # What the start says of a hand counts more than names.
        (GOOD.replace("4ops", "3ops"), "four operators"),
        (GOOD.replace("blocksworld-4ops", "blocks") + THREE_OPERATORS, "four operators"),
        (WITHOUT_HAND.replace("4ops", "3ops"), "three operators"),
        (WITHOUT_HAND.replace("blocksworld-4ops", "blocks") + THREE_OPERATORS, "three operators"),
    ],
)
def test_the_file_says_which_operators_there_are(read, text, dialect):
    for rules in (None, "variant", "handless"):
        puzzle = read(text, rules=rules)
        assert (puzzle.start, puzzle.dialect) == (START, dialect)


def test_without_a_hand_and_without_a_word_about_it_a_file_is_refused(read):
    text = WITHOUT_HAND.replace("blocksworld-4ops", "blocks")
    for unclear in (text, WITHOUT_HAND + DOMAIN):
        with pytest.raises(PddlError, match=r"lacks the fact \(handempty\).* or by rules=handless"):
            read(unclear, rules=None)
        assert read(unclear, rules="handless").start == START


def test_the_domain_beside_a_problem_says_its_operators(tmp_path):
    (tmp_path / "p1.pddl").write_text(WITHOUT_HAND.replace("blocksworld-4ops", "blocks"))
    (tmp_path / "p2.pddl").write_text(GOOD)
    assert isinstance(read_problems(str(tmp_path))["p1.pddl"], PddlError)
    (tmp_path / "domain.pddl").write_text(THREE_OPERATORS)
    by_name = read_problems(str(tmp_path))
    assert {name: problem.dialect for name, problem in by_name.items()} == {
        "p1.pddl": "three operators",
        "p2.pddl": "four operators",
    }


def test_a_domain_that_is_defined_in_two_ways_is_chosen_by_no_name_of_a_file(tmp_path):
    (tmp_path / "p1.pddl").write_text(WITHOUT_HAND.replace("blocksworld-4ops", "blocks"))
    (tmp_path / "p2.pddl").write_text(GOOD.replace("blocksworld-4ops", "blocks"))
    (tmp_path / "a.pddl").write_text(DOMAIN.replace("blocksworld-4ops", "blocks"))
    (tmp_path / "z.pddl").write_text(THREE_OPERATORS)
    unclear, clear = read_problems(str(tmp_path)).values()
    assert "its domain 'blocks' is defined with and without a hand: leave one file" in str(unclear)
    assert clear.dialect == "four operators"


def test_a_file_has_no_problem_of_another_domain_than_its_own(read):
    with pytest.raises(PddlError, match=r"it is of the domain 'bricks', and defines .* 'blocks'$"):
        read(
            GOOD.replace("blocksworld-4ops", "bricks")
            + DOMAIN.replace("blocksworld-4ops", "blocks")
        )
    same = GOOD.replace("blocksworld-4ops", "BLOCKS") + DOMAIN.replace("blocksworld-4ops", "blocks")
    assert read(same).dialect == "four operators"


def test_a_bad_file_leaves_the_others_of_a_folder(tmp_path):
    (tmp_path / "p1.pddl").write_text(GOOD)
    (tmp_path / "p2.pddl").write_text(GOOD.replace("(on a c)", "(upon a c)"))
    (tmp_path / "p3.pddl").write_text(GOOD[:-3])
    blocks = " ".join(f"b{number}" for number in range(MOST_BLOCKS + 1))
    (tmp_path / "p4.pddl").write_text(GOOD.replace("a b c", blocks))
    os.mkfifo(tmp_path / "p5.pddl")
    (tmp_path / "p6.pddl").write_text(GOOD)
    before = hash_of(str(tmp_path))
    first, *bad, last = read_problems(str(tmp_path)).values()
    assert first.start == last.start == START
    for error, fault in zip(
        bad, ("(upon a c)", "not closed", "51 blocks", "not a regular file"), strict=True
    ):
        assert isinstance(error, PddlError)
        assert fault in str(error)
    (tmp_path / "p6.pddl").write_text(DOMAIN + GOOD)
    assert "" != before != hash_of(str(tmp_path))


def test_files_that_are_none_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.pddl")
    (tmp_path / "large.pddl").write_text(GOOD + " " * MOST_BYTES)
    for name, message in {
        "missing.pddl": "there is no such file: set pddl to a file or a folder",
        "pipe.pddl": "it cannot be read: it is not a regular file",
        "large.pddl": "it cannot be read: it is larger than",
        "empty": "has no problem: name a folder with files",
        "a\0b": "no file can have this name",
    }.items():
        with pytest.raises(PddlError, match=message):
            read_problems(str(tmp_path / name))


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


def test_rules_are_the_files_own_unless_they_are_set(tmp_path):
    three = WITHOUT_HAND.replace("blocksworld-4ops", "blocks") + THREE_OPERATORS
    texts = {"p1.pddl": GOOD, "p2.pddl": three, "p3.pddl": MYSTERY}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    read = BLOCKSWORLD.settings.read
    for settings, rules in (
        ({}, ["standard", "handless", "standard"]),
        ({"rules": "file"}, ["standard", "handless", "standard"]),
        ({"rules": "variant"}, ["variant"] * 3),
    ):
        worlds = opened(pddl=str(tmp_path), **settings).worlds.values()
        assert [world.traits()["rules"] for world in worlds] == rules
        assert [world.traits()["dialect"] for world in worlds] == [
            "four operators",
            "three operators",
            "mystery",
        ]
    # A trial is the same when it is read again, and without files nothing has changed.
    written = read({"pddl": str(tmp_path)}).to_json()
    assert written["rules"] == "file"
    assert read(written).to_json() == written
    assert read({}).to_json()["rules"] == "variant"
    assert opened().traits().keys() == {"problem", "blocks", "optimum"}
    with pytest.raises(
        SettingsError, match="rules=file is not possible with the task hard: it has"
    ):
        opened(rules="file")
    with pytest.raises(SettingsError, match="problem_seconds=2 is not possible for one problem"):
        opened(pddl=str(tmp_path / "p1.pddl"), problem_seconds=2)
