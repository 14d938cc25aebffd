"""Plans by the variant's rules, judged by a validator that knows only PDDL."""

import pytest

from llm_planning.environments.blocksworld.domain import Blocksworld
from llm_planning.environments.blocksworld.generator import problems
from llm_planning.environments.blocksworld.pddl import write_problem

pytest.importorskip("unified_planning")

# (above x y): x is in y's tower, higher. It tells towers apart; moves change it for whole piles.
VARIANT = """
(define (domain blocksworld-4ops)
  (:requirements :strips :negative-preconditions :conditional-effects :universal-preconditions
                 :equality :disjunctive-preconditions)
  (:predicates (on ?x ?y) (ontable ?x) (clear ?x) (handempty) (above ?x ?y))
  (:action put-down
    :parameters (?x)
    :precondition (not (ontable ?x))
    :effect (and (ontable ?x)
      (forall (?y) (when (on ?x ?y) (and (not (on ?x ?y)) (clear ?y))))
      (forall (?u ?v) (when (and (above ?x ?v) (or (= ?u ?x) (above ?u ?x)))
        (not (above ?u ?v))))))
  (:action stack
    :parameters (?x ?z)
    :precondition (and (clear ?z) (not (= ?x ?z)) (not (above ?z ?x)))
    :effect (and (not (ontable ?x)) (on ?x ?z) (not (clear ?z))
      (forall (?y) (when (on ?x ?y) (and (not (on ?x ?y)) (clear ?y))))
      (forall (?u ?v) (when (and (above ?x ?v) (or (= ?u ?x) (above ?u ?x)))
        (not (above ?u ?v))))
      (forall (?u ?v) (when (and (or (= ?u ?x) (above ?u ?x)) (or (= ?v ?z) (above ?z ?v)))
        (above ?u ?v))))))
"""


def aboves(start):
    """The facts with `above` of a state, for the start in a file."""
    piles = {block: start.pile(block) for block in start.names}
    pairs = [(high, low) for low, pile in piles.items() for high in pile[1:]]
    return " ".join(f"(above {high} {low})" for high, low in pairs)


@pytest.mark.slow
def test_a_validator_accepts_shortest_plans_and_refuses_shorter_ones():
    from unified_planning.engines import SequentialPlanValidator
    from unified_planning.io import PDDLReader

    for puzzle in problems({4: 3}, seed=5):
        world = Blocksworld(puzzle)
        plan = world.advise(puzzle.start)
        text = write_problem(puzzle).replace("(:init", f"(:init {aboves(puzzle.start)}")
        reader = PDDLReader()
        problem = reader.parse_problem_string(VARIANT, text)
        lines = [f"({action})" for action in plan]
        with SequentialPlanValidator() as validator:
            whole = reader.parse_plan_string(problem, "\n".join(lines))
            assert validator.validate(problem, whole)
            part = reader.parse_plan_string(problem, "\n".join(lines[:-1]))
            assert not validator.validate(problem, part)
