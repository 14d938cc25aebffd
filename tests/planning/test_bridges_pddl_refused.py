"""Which files of PDDL are found, and what is said of those that cannot be read."""

import os
import sys

import pytest

from llm_planning.domain import DomainError
from llm_planning.specs import UnknownTaskError

pytest.importorskip("unified_planning")

from pddl_pairs import BALLS, BLOCKS, GRIPPER, LAMPS, ROADS, ROOM, TRIP, opened_from, written_in

from llm_planning.environments.bridges.pddl import bridge

written = pytest.fixture(written_in)
opened = pytest.fixture(opened_from)


def test_a_folder_has_its_problems_as_tasks(tmp_path, written):
    written(GRIPPER, BALLS)
    (tmp_path / "p10.pddl").write_text(BALLS)
    (tmp_path / "p2.pddl").write_text(BALLS.replace("(lies b2 east)", ""))
    spec = bridge(str(tmp_path))
    assert spec.tasks == ("p2", "p10", "task")
    assert bridge(f"{tmp_path}/domain.pddl,{tmp_path}").tasks == spec.tasks
    assert spec.open("p2", spec.settings.read({})).goal.endswith("holds: lies b1 east.")
    with pytest.raises(UnknownTaskError, match=r"unknown task 'p3' of pddl:.*known: p10, p2, task"):
        spec.open("p3", spec.settings.read({}))


def test_a_folder_may_have_other_domains_and_endings_in_capitals(tmp_path, written):
    written(GRIPPER, BALLS)
    (tmp_path / "older.pddl").write_text("; of 1998\r( DEFINE (Domain gripper))")
    (tmp_path / "P3.PDDL").write_text(BALLS)
    (tmp_path / "broken.pddl").write_bytes(b"\xff")
    spec = bridge(str(tmp_path))
    assert spec.tasks == ("P3", "broken", "task")
    with pytest.raises(DomainError, match=r"problem=.*broken\.pddl: line 1: it is not UTF-8 text"):
        spec.open("broken", spec.settings.read({}))


def test_settings_name_the_files_and_identify_what_is_in_them(tmp_path, written):
    domain, problem = written(GRIPPER, BALLS).split(",")
    spec = bridge("")
    settings = spec.settings.read({"domain": domain, "problem": problem})
    assert spec.open("problem", settings).goal.endswith("lies b1 east and lies b2 east.")
    assert spec.settings.read(settings.to_json()) == settings
    assert bridge(f"{domain},{problem}").settings.read({}).pddl_sha256 == settings.pddl_sha256
    (tmp_path / "task.pddl").write_text(BALLS + " ")
    assert bridge(f"{domain},{problem}").settings.read({}).pddl_sha256 != settings.pddl_sha256


DURATIVE = """
(define (domain slow) (:requirements :durative-actions)
  (:predicates (done))
  (:durative-action wait :parameters () :duration (= ?duration 5)
    :condition (at start (not (done))) :effect (at end (done))))
"""
SLOW = "(define (problem slow) (:domain slow) (:init) (:goal (done)))"
REFUSED = [
    (DURATIVE, SLOW, r"domain=.*domain\.pddl is not classical, it has .*continuous time"),
    (GRIPPER[:-9], BALLS, r"domain=.*domain\.pddl: \d parentheses are not closed at its end"),
    (GRIPPER, BALLS[:-9], r"problem=.*task\.pddl: \d parentheses are not closed at its end"),
    (GRIPPER, BALLS.replace("(lies b1 east)", "(hangs b1)"), r"problem=.*hangs b1"),
    (GRIPPER, b"\xff\xfe", r"problem=.*: line 1: it is not UTF-8 text"),
    (GRIPPER, BALLS.replace("(lies b1 east) (lies b2 east)", ""), r"has no goal: add conditions"),
    (
        GRIPPER,
        BALLS.replace("(lies b1 east)", "(lies b1 east) (not (lies b1 east))"),
        r"goal that contradicts itself: no plan exists",
    ),
    (
        GRIPPER.replace("?b - ball ?r - room)", "?b - (either ball hand) ?r - room)"),
        BALLS,
        r"domain=.* does not know types that are one of several, written \(either",
    ),
    (
        GRIPPER.replace("(:action go", "(:derived (full) (and)) (:action go"),
        BALLS,
        r"domain=.* does not know derived predicates, written \(:derived",
    ),
    (
        BALLS,
        GRIPPER,
        r"domain=.*: it defines a problem: set domain to a file that defines a domain",
    ),
    (
        GRIPPER,
        GRIPPER,
        r"problem=.*: it defines a domain: set problem to a file that defines a pro",
    ),
    (GRIPPER + BALLS, BALLS, r"domain=.* something else than one \(define \(domain NAME\) ...\)"),
    (GRIPPER, "", r"problem=.* something else than one \(define \(problem NAME\) ...\)"),
    (
        GRIPPER,
        BLOCKS.replace("domain", "problem"),
        r"problem=.*: the section ':predicates' is none",
    ),
    (
        GRIPPER,
        BALLS.replace(":domain gripper", ":domain grippers"),
        r"is of the domain grippers, and domain=.* defines gripper: name a domain and a problem",
    ),
    (GRIPPER, BALLS.replace("(:domain gripper)", ""), r"is of the domain of no name"),
    (
        GRIPPER.replace("?r ?s - room)\n    :pre", "?r ?r - room)\n    :pre"),
        BALLS,
        r"domain=.*: the action go has the parameter \?r 2 times: rename one",
    ),
    (
        LAMPS.replace(
            "(when (lit ?d) (not (lit ?d)))",
            "(when (lit ?d) (forall (?e - lamp) (when (worn ?e) (not (lit ?e)))))",
        ),
        ROOM,
        r"domain=.*: the action press has \(when ...\) inside of \(when ...\): write one of them",
    ),
    (
        GRIPPER.replace(":strips", ":open-world"),
        BALLS,
        r"domain=.*: it requires ':open-world', whi",
    ),
    (GRIPPER, BALLS.replace("b1", "1"), r"problem=.*: line 3: '1' is not read: a name is a letter"),
    (GRIPPER, BALLS.replace("b1 b2", "b1 b1"), r"is not read as PDDL: Name b1 already defined!$"),
    (
        GRIPPER,
        BALLS.replace("(:init", "(:init (not (robot west))"),
        r"problem=.*: \(:init ...\) contradicts itself: it says two things of \(robot west\)",
    ),
    (
        ROADS,
        TRIP.replace("(:init", "(:init (= (length x y) 7)"),
        r"problem=.*: \(:init ...\) contradicts itself: it says two things of \(length x y\)",
    ),
    (
        GRIPPER,
        BALLS.replace("(:init", "(:init (or (robot east))"),
        r"has \(or .*, which is no fact",
    ),
    (
        GRIPPER,
        BALLS.replace("robot west", "robot ?x"),
        r"has \(robot \?x\): a variable is no object",
    ),
    (
        GRIPPER,
        BALLS.replace("(:goal", "(:length 3) (:goal"),
        r"problem=.*: line 6: the section ':length' is none of a problem; .*known: :constraints",
    ),
    (GRIPPER, BALLS.replace("(:init", "(:init) (:init"), r"problem=.*: it has 2 sections \(:init"),
    (GRIPPER, BALLS.replace("- hand", "- foot"), r"problem=.*: the type 'foot' is not declared$"),
    (
        GRIPPER.replace("(not (robot ?r))", "(not (robot ?r) (robot ?s))"),
        BALLS,
        r"domain=.*: \(not \(robot \?r\) \(robot \?s\)\) has 2 parts after not, not 1",
    ),
    (
        LAMPS.replace("(lit ?e))))", "(lit ?e) (lit ?d))))"),
        ROOM,
        r"\(when .* has 3 parts after whe",
    ),
    (
        LAMPS,
        ROOM.replace("(not (lit ?d)))", "(lit ?d) (lit big))"),
        r"has 3 parts after forall, not",
    ),
    (
        ROADS,
        TRIP.replace("(= (fuel van1) 3)", "(= (fuel van1) 3 4)"),
        r"has 3 parts after =, not 2",
    ),
    (
        ROADS.replace("(assign (fuel ?v) 5.5)", "(forall (?q - place) (increase (fuel ?v) 1))"),
        TRIP,
        r"the action fill has \(increase \(fuel \?v\) 1\) for every \?q, which it does not name",
    ),
    (
        "(define (domain d) (:predicates (at ?x)) (:functions (f)) (:action go :parameters (?a) "
        ":precondition (>= (/ 1 (f)) 0) :effect (at ?a)))",
        "(define (problem x) (:domain d) (:objects a) (:init (= (f) 0)) (:goal (at a)))",
        r"problem=.*task\.pddl divides by a function that is always 0: give it another value",
    ),
]


@pytest.mark.parametrize(("domain", "problem", "message"), REFUSED, ids=range(len(REFUSED)))
def test_one_line_says_what_cannot_be_read(domain, problem, message, opened):
    with pytest.raises(DomainError, match=message) as refused:
        opened(domain, problem)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


def test_files_that_are_missing_are_named(tmp_path, written, monkeypatch):
    domain, problem = written(GRIPPER, BALLS).split(",")
    with pytest.raises(DomainError, match=r"domain=.*/none/domain.pddl does not exist: set it"):
        bridge(f"{tmp_path}/none")
    with pytest.raises(DomainError, match="problem=nothing does not exist"):
        bridge(f"{domain},nothing")
    os.remove(problem)
    with pytest.raises(DomainError, match=r"has no file .* beside the domain: add one"):
        bridge(str(tmp_path))
    spec = bridge("")
    with pytest.raises(DomainError, match="setting domain is empty: set it to a file of PDDL"):
        spec.open("problem", spec.settings.read({}))
    monkeypatch.setitem(sys.modules, "unified_planning", None)
    with pytest.raises(
        DomainError, match=r"unified-planning: pip install 'llm-planning\[worlds\]'"
    ):
        bridge("")
