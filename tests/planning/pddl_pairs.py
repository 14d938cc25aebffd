"""Domains and problems in PDDL for the tests of its worlds, and how they are written and opened."""

from llm_planning.environments.bridges.pddl import bridge

BLOCKS = """
(define (domain blocks)
  (:predicates (on ?x ?y) (ontable ?x) (clear ?x) (handempty) (holding ?x))
  (:action pick-up :parameters (?x)
    :precondition (and (clear ?x) (ontable ?x) (handempty))
    :effect (and (not (clear ?x)) (not (ontable ?x)) (not (handempty)) (holding ?x)))
  (:action put-down :parameters (?x)
    :precondition (holding ?x)
    :effect (and (not (holding ?x)) (clear ?x) (handempty) (ontable ?x)))
  (:action stack :parameters (?x ?y)
    :precondition (and (holding ?x) (clear ?y))
    :effect (and (not (holding ?x)) (not (clear ?y)) (clear ?x) (handempty) (on ?x ?y)))
  (:action unstack :parameters (?x ?y)
    :precondition (and (on ?x ?y) (clear ?x) (handempty))
    :effect (and (not (on ?x ?y)) (not (clear ?x)) (not (handempty)) (clear ?y) (holding ?x))))
"""
TOWER = """
(define (problem tower) (:domain blocks) (:objects a b c)
  (:init (handempty) (ontable a) (on b a) (ontable c) (clear b) (clear c))
  (:goal (and (on a c))))
"""
GRIPPER = """
; A robot with hands carries balls.
(define (domain gripper) (:requirements :strips :typing)
  (:types room ball hand)
  (:predicates (robot ?r - room) (lies ?b - ball ?r - room) (empty ?h - hand)
    (holds ?h - hand ?b - ball) (door ?r ?s - room))
  (:action go :parameters (?r ?s - room)
    :precondition (and (robot ?r) (door ?r ?s)) :effect (and (robot ?s) (not (robot ?r))))
  (:action pick :parameters (?b - ball ?r - room ?h - hand)
    :precondition (and (lies ?b ?r) (robot ?r) (empty ?h))
    :effect (and (holds ?h ?b) (not (lies ?b ?r)) (not (empty ?h))))
  (:action drop :parameters (?b - ball ?r - room ?h - hand)
    :precondition (and (holds ?h ?b) (robot ?r))
    :effect (and (lies ?b ?r) (empty ?h) (not (holds ?h ?b)))))
"""
BALLS = """
(define (problem balls) (:domain gripper)
  (:objects west east - room b1 b2 - ball left right - hand)
  (:init (robot west) (lies b1 west) (lies b2 west) (empty left) (empty right)
    (door west east) (door east west))
  (:goal (and (lies b1 east) (lies b2 east))))
"""
LAMPS = """
(define (domain lamps)
  (:requirements :adl)
  (:types device - object lamp fan - device)
  (:constants master - lamp)
  (:predicates (lit ?d - device) (wired ?d ?e - device) (worn ?d - device))
  (:action press :parameters (?d - device)
    :precondition (not (worn ?d))
    :effect (and (when (lit ?d) (not (lit ?d))) (when (not (lit ?d)) (lit ?d))
      (forall (?e - device) (when (and (wired ?d ?e) (lit master)) (lit ?e)))))
  (:action rest :parameters ()
    :precondition (and (exists (?d - fan) (lit ?d)) (or (lit master) (worn master)))
    :effect (forall (?d - lamp) (not (lit ?d))))
  (:action swap :parameters (?d ?e - lamp)
    :precondition (and (not (= ?d ?e)) (lit ?d) (not (lit ?e)))
    :effect (and (lit ?e) (not (lit ?d)) (worn ?d)))
  (:action keep :parameters (?d ?e - lamp)
    :precondition (imply (lit ?d) (= ?d ?e)) :effect (and (not (lit ?e)) (lit ?d))))
"""
ROOM = """
(define (problem room) (:domain lamps)
  (:objects desk - lamp big - fan)
  (:init (wired master big) (wired desk master))
  (:goal (and (lit big) (forall (?d - lamp) (not (lit ?d))))))
"""
ROADS = """
(define (domain roads)
  (:requirements :typing :fluents :action-costs)
  (:types place van)
  (:predicates (at ?v - van ?p - place) (road ?p ?q - place))
  (:functions (length ?p ?q - place) - number (fuel ?v - van) - number (total-cost) - number)
  (:action drive :parameters (?v - van ?p ?q - place)
    :precondition (and (at ?v ?p) (road ?p ?q) (>= (fuel ?v) (length ?p ?q)))
    :effect (and (at ?v ?q) (not (at ?v ?p)) (decrease (fuel ?v) (length ?p ?q))
      (increase (total-cost) (length ?p ?q))))
  (:action fill :parameters (?v - van)
    :precondition (< (fuel ?v) 2)
    :effect (and (assign (fuel ?v) 5.5) (increase (total-cost) 3)))
  (:action swap :parameters (?v ?w - van)
    :effect (and (assign (fuel ?v) (fuel ?w)) (assign (fuel ?w) (+ (* 2 (fuel ?v)) 1)))))
"""
TRIP = """
(define (problem trip) (:domain roads)
  (:objects x y z - place van1 - van)
  (:init (at van1 x) (road x y) (road y z) (road y x) (= (length x y) 2) (= (length y z) 4)
    (= (length y x) 1) (= (fuel van1) 3) (= (total-cost) 0))
  (:goal (at van1 z)) (:metric minimize (total-cost)))
"""
ELSEWHERE = "(= (length x x) 0) (= (length y y) 0) (= (length z z) 0) (= (length x z) 9) "
ELSEWHERE += "(= (length z x) 9) (= (length z y) 9) (= (total-cost) 0)"
PAIRS = {
    "blocks": (BLOCKS, TOWER),
    "gripper": (GRIPPER, BALLS),
    "lamps": (LAMPS, ROOM),
    "roads": (ROADS, TRIP.replace("(= (total-cost) 0)", ELSEWHERE)),
}
PAIRS["upper case"] = (BLOCKS.upper(), TOWER.upper())
GOAL = "(:goal (and (on a c))) ; (:goal"
GOAL_FIRST = TOWER.replace("(:goal (and (on a c)))", "").replace("(:init", f"{GOAL}\n(:init")


def written_in(tmp_path):
    """Writes the two files of a pair; gives the id of the bridge."""

    def write(domain, problem):
        for name, text in {"domain.pddl": domain, "task.pddl": problem}.items():
            (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
        return f"{tmp_path}/domain.pddl,{tmp_path}/task.pddl"

    return write


def opened_from(written):
    """Opens the world of a pair of texts."""

    def open_(domain, problem):
        spec = bridge(written(domain, problem))
        return spec.open("task", spec.settings.read({}))

    return open_
