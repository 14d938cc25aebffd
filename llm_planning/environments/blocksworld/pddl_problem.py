"""A problem of Blocksworld from the parts of its PDDL file, in every dialect that is read.

What a file says must be complete and possible: the first fact that is not is refused, with its
file. A goal that no state reaches is a problem, too: its result is that there is no plan.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from llm_base.quoting import quote
from llm_planning.environments.blocksworld.blocks import TABLE, Blocks, Goal, Puzzle, fact_text
from llm_planning.environments.blocksworld.goals import contradiction, definite, vague
from llm_planning.environments.blocksworld.language import HELD
from llm_planning.environments.blocksworld.rules import DIALECT_RULES, RULES
from llm_planning.environments.pddl_text import quoted, refuse, words_of
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from llm_planning.environments.blocksworld.blocks import Dialect, Fact
    from llm_planning.environments.blocksworld.rules import RuleName
    from llm_planning.environments.pddl_text import Expression, PddlFile

MOST_BLOCKS: Final = 50
"""The most blocks of a problem: a model's answer is one of thousands of actions then."""

MOST_VAGUE: Final = 3
"""The most facts of a goal by which some block has to stand somewhere: each has many readings."""

_PREDICATES: Final[Mapping[str, tuple[str, int]]] = {
    "on": ("on", 2),
    "ontable": ("ontable", 1),
    "on-table": ("ontable", 1),
    "on_table": ("ontable", 1),
    "clear": ("clear", 1),
    "handempty": ("handempty", 0),
    "hand-empty": ("handempty", 0),
    "emptyhand": ("handempty", 0),
    "empty-hand": ("handempty", 0),
    "arm-empty": ("handempty", 0),
    "armempty": ("handempty", 0),
    "arm_empty": ("handempty", 0),
    "holding": ("holding", 1),
    "handfull": ("handfull", 0),
}
"""Predicate as written -> as it is called here, and the number of its blocks."""

_MYSTERY: Final[Mapping[str, tuple[str, int]]] = {
    "craves": ("on", 2),
    "planet": ("ontable", 1),
    "province": ("clear", 1),
    "harmony": ("handempty", 0),
    "pain": ("holding", 1),
}
"""The same in the words of PlanBench's Mystery Blocksworld."""

_OF_THE_HAND: Final = frozenset(
    written
    for written, (name, _) in (*_PREDICATES.items(), *_MYSTERY.items())
    if name in {"handempty", "handfull", "holding"}
)
"""The predicates that only domains with a hand have."""

_POSSIBLE: Final = frozenset({"pick-up", "pickup", "put-down", "putdown", "stack", "unstack"})
"""Predicates by which a start says what actions there are, as in PDDLGym's files; they stay."""

_SECTIONS: Final = (":domain", ":requirements", ":objects", ":init", ":goal", ":metric")
_BLOCK_TYPES: Final = frozenset({"block", "object"})
_ROBOT_TYPES: Final = frozenset({"robot", "arm", "hand", "gripper"})
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_THREE_OPERATORS: Final = re.compile(r"3-?op")
_COST: Final = ["total-cost"]
"""What a metric counts: every action is one."""


def read_problem(
    file: PddlFile,
    *,
    rules: RuleName | None,
    domains: Mapping[str, Sequence[Sequence[Expression]]],
) -> Puzzle:
    """Reads the problem of a file.

    Args:
        file: with a problem, and perhaps the definition of its domain.
        rules: by which it is planned; None for those of its dialect.
        domains: the different definitions beside the file by the name of the domain.

    Raises:
        PddlError: it is not a problem of Blocksworld, or not one of these rules.
    """
    path = file.path
    if file.problem is None:
        content = "it defines nothing" if file.domain is None else "it defines a domain"
        refuse(path, f"{content}, where (define (problem ...) ...) is expected")
    sections = _sections(path, file.problem[2:])
    blocks, robots = _objects(path, sections[":objects"], _hands(sections[":init"]))
    if len(sections[":goal"]) != 1:
        parts = len(sections[":goal"])
        refuse(path, f"(:goal ...) has {parts} parts: write one fact or one (and ...)")
    predicates = _MYSTERY if _names(sections[":init"]) & _MYSTERY.keys() else _PREDICATES
    reader = _Facts(path, blocks, robots, predicates)
    facts = reader.facts(_changing(sections[":init"]), "start")
    name = next(words_of(sections.get(":domain", [])), "")
    if name and file.domain is not None and name != (own := domain_name(file.domain)):
        refuse(path, f"it is of the domain {quote(name)}, and defines the domain {quote(own)}")
    definitions = [file.domain] if file.domain is not None else domains.get(name, ())
    if ":metric" in sections and not all(map(_costs_are_even, definitions)):
        refuse(path, "its domain's actions differ in cost: only the number of actions is minimized")
    dialects = {_dialect(name, by, facts, predicates) for by in definitions or (None,)}
    if len(dialects) > 1:
        refuse(path, f"its domain {quote(name)} is defined with and without a hand: leave one file")
    (dialect,) = dialects
    by = rules or DIALECT_RULES[dialect]
    start = _start(path, blocks, facts, hand=dialect != "three operators" and by != "handless")
    if start.held is not None and not RULES[by].hand:
        by_them = "by the variant" if by == "variant" else f"by rules={by}"
        refuse(
            path,
            f"the start has the fact (holding {start.held}), but {by_them} no block is held: "
            "set rules=standard",
        )
    goal, no_plan = _goal(path, reader.literals(sections[":goal"]), blocks)
    return Puzzle(path.name, start, goal, dialect, no_plan)


def domain_name(definition: Sequence[Expression]) -> str:
    """The name of a domain; empty if it has none."""
    return next(islice(words_of(definition[1]), 1, None), "")


def _sections(path: Path, parts: Iterable[Expression]) -> dict[str, list[Expression]]:
    sections: dict[str, list[Expression]] = {}
    for part in parts:
        key = part[0] if isinstance(part, list) and part else part
        if not isinstance(part, list) or not isinstance(key, str) or key not in _SECTIONS:
            known = remedy(key, _SECTIONS) if isinstance(key, str) else f"known: {_SECTIONS}"
            refuse(path, f"the section {quote(key)} is not of Blocksworld; {known}")
        if key in sections:
            refuse(path, f"it has two sections ({key} ...)")
        sections[key] = part[1:]
    for key in (":objects", ":init", ":goal"):
        if key not in sections:
            refuse(path, f"it has no section ({key} ...)")
    if sections.get(":metric", ["minimize", _COST]) != ["minimize", _COST]:
        asked = quoted([":metric", *sections[":metric"]])
        refuse(path, f"it has {asked}: every action costs one, so only total-cost is minimized")
    return sections


def _hands(init: Iterable[Expression]) -> list[str]:
    """What has an empty hand at the start: so a robot is known where objects have no types."""
    return [
        fact[1]
        for fact in init
        if isinstance(fact, list)
        and len(fact) == 2
        and isinstance(fact[1], str)
        and isinstance(fact[0], str)
        and _PREDICATES.get(fact[0]) == ("handempty", 0)
    ]


def _objects(
    path: Path, objects: Sequence[Expression], hands: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the blocks, sorted, and that of the robot, if it is named.

    Args:
        objects: perhaps with types.
        hands: objects or constants that are robots whatever their type.
    """
    names: list[str] = []
    robots: list[str] = []
    untyped = 0
    words = iter(objects)
    for word in words:
        if word == "-":
            kind = next(words, "nothing")
            if isinstance(kind, str) and kind in _ROBOT_TYPES:
                robots += names[untyped:]
                del names[untyped:]
            elif not isinstance(kind, str) or kind not in _BLOCK_TYPES:
                refuse(path, f"(:objects ...) has the type {quote(kind)}: all objects are blocks")
            untyped = len(names)
        elif not isinstance(word, str) or not _NAME.fullmatch(word) or word in {TABLE, HELD}:
            refuse(
                path,
                f"(:objects ...) has {quote(word)}: the name of a block is up to 32 letters, "
                f"digits, - and _, and neither {TABLE} nor {HELD}",
            )
        else:
            names.append(word)
    for name, times in Counter((*names, *robots)).items():
        if times > 1:
            refuse(path, f"(:objects ...) has {name} {times} times")
    robots = list(dict.fromkeys((*robots, *hands)))
    names = [name for name in names if name not in robots]
    if not 1 <= len(names) <= MOST_BLOCKS:
        refuse(path, f"it has {len(names)} blocks: 1 to {MOST_BLOCKS} are possible")
    if len(robots) > 1:
        refuse(path, f"it has the robots {quote(' '.join(robots))}: one hand is possible")
    return tuple(sorted(names)), tuple(robots)


def _names(facts: Iterable[Expression]) -> set[str]:
    """The predicates of facts."""
    heads = (fact[0] for fact in facts if isinstance(fact, list) and fact)
    return {head for head in heads if isinstance(head, str)}


def _changing(facts: Iterable[Expression]) -> list[Expression]:
    """The facts of a start without the cost so far and without those that never change."""
    return [
        fact
        for fact in facts
        if not isinstance(fact, list)
        or (fact[:2] != ["=", _COST] and _names([fact]).isdisjoint(_POSSIBLE))
    ]


def _costs_are_even(definition: Sequence[Expression]) -> bool:
    """Whether every action of a domain costs the same."""
    costs: list[list[Expression]] = []
    actions = 0
    waiting = list(definition)
    while waiting:
        expression = waiting.pop()
        if isinstance(expression, list):
            actions += expression[:1] == [":action"]
            if expression[:2] == ["increase", _COST]:
                costs.append(expression)
            waiting += expression
    first = costs[0][-1] if costs else "0"
    every_action = len(costs) in {0, actions}
    return every_action and isinstance(first, str) and all(cost[2:] == [first] for cost in costs)


def _dialect(
    name: str,
    definition: Sequence[Expression] | None,
    start: Iterable[Fact],
    predicates: Mapping[str, tuple[str, int]],
) -> Dialect:
    """What a problem's actions are: by its facts, else by its domain, else by the domain's name."""
    if predicates is _MYSTERY:
        return "mystery"
    if any(fact[0] in _OF_THE_HAND for fact in start):
        return "four operators"
    if definition is None:
        return "three operators" if _THREE_OPERATORS.search(name) else "four operators"
    has_hand = not _OF_THE_HAND.isdisjoint(words_of(list(definition)))
    return "four operators" if has_hand else "three operators"


@dataclass(frozen=True, slots=True)
class _Facts:
    """Reads facts.

    Attributes:
        robots: the names of the hand; at most one.
        predicates: as written -> as they are called here, and the number of their blocks.
    """

    path: Path
    blocks: Sequence[str]
    robots: Sequence[str]
    predicates: Mapping[str, tuple[str, int]]

    def facts(self, expressions: Iterable[Expression], of: str) -> list[Fact]:
        """The different facts of the start or of the goal, each with the predicate's own name."""
        return list(dict.fromkeys(self._fact(expression, of) for expression in expressions))

    def literals(self, expressions: Iterable[Expression]) -> dict[tuple[bool, Fact], None]:
        """The different facts of the goal in their order, each with whether it has to hold."""
        literals: dict[tuple[bool, Fact], None] = {}
        for expression in _conjuncts(expressions):
            if isinstance(expression, list) and expression[:1] == ["not"] and len(expression) == 2:
                literals[False, self._fact(expression[1], "goal")] = None
            else:
                literals[True, self._fact(expression, "goal")] = None
        return literals

    def _fact(self, expression: Expression, of: str) -> Fact:
        words = (
            [word for word in expression if isinstance(word, str)]
            if isinstance(expression, list)
            else []
        )
        if not words or len(words) != len(expression):
            refuse(self.path, f"the {of} has {quoted(expression)}, which is no fact of Blocksworld")
        predicate, *blocks = words
        finding = f"the {of} has the fact {quoted(expression)}"
        if predicate not in self.predicates:
            known = remedy(predicate, self.predicates)
            refuse(self.path, f"{finding}, which is not of Blocksworld; {known}")
        name, number = self.predicates[predicate]
        if predicate in _OF_THE_HAND:
            blocks = [block for block in blocks if block not in self.robots]
        if len(blocks) != number:
            refuse(self.path, f"{finding}: ({predicate} ...) takes {number} blocks")
        for block in blocks:
            if block not in self.blocks:
                where = f"which is not in (:objects ...): {remedy(block, self.blocks)}"
                refuse(self.path, f"{finding} about {quote(block)}, {where}")
        return (name, *blocks)


def _conjuncts(parts: Iterable[Expression]) -> Iterator[Expression]:
    """The parts of a goal, with those of every (and ...) in the place of it."""
    waiting = list(parts)[::-1]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list) and part[:1] == ["and"]:
            waiting += part[:0:-1]
        else:
            yield part


def _start(path: Path, blocks: Sequence[str], facts: Sequence[Fact], *, hand: bool) -> Blocks:
    """s_0 of its facts.

    Args:
        hand: whether the start has to say what the hand holds.

    Raises:
        PddlError: two facts contradict each other, or one is missing.
    """
    standing = [fact for fact in facts if fact[0] in {"on", "ontable"}]
    if why := contradiction(standing):
        refuse(path, f"the start is not possible: {why}")
    below = dict(_below(standing))
    held = [fact[1] for fact in facts if fact[0] == "holding"]
    hands = [fact for fact in facts if fact[0] in {"holding", "handempty"}]
    if len(hands) > 1:
        _contradict(path, hands[0], hands[1])
    if hand and not hands:
        refuse(
            path,
            "the start lacks the fact (handempty): a domain without a hand has three operators and "
            "is known by its definition, or by rules=handless",
        )
    clear = {fact[1] for fact in facts if fact[0] == "clear"}
    above = {under: block for block, under in below.items()}
    for block in blocks:
        if block in held:
            for fact in facts:
                if fact[0] != "holding" and block in fact:
                    _contradict(path, ("holding", block), fact)
        elif block not in below:
            refuse(path, f"the start lacks a fact that says what {block} stands on")
        elif block in clear and block in above:
            _contradict(path, ("clear", block), ("on", above[block], block))
        elif block not in clear and block not in above:
            refuse(path, f"the start lacks the fact (clear {block}): nothing stands on {block}")
    return Blocks.of(below, held=held[0] if held else None)


def _goal(
    path: Path, literals: Iterable[tuple[bool, Fact]], blocks: Sequence[str]
) -> tuple[Goal, str]:
    """The goal of its facts, and why no state reaches it; empty if one does.

    Raises:
        PddlError: it asks for nothing, for a held block, or in a way that is not read.
    """
    asked: dict[bool, list[Fact]] = {True: [], False: []}
    for holds, fact in literals:
        # The hand is empty at the end, so to ask for that, or for no held block, is to ask nothing.
        if fact[0] not in {"handempty", "handfull", "holding"}:
            asked[holds].append(fact)
        elif holds != (fact[0] == "handempty"):
            text = fact_text(fact) if holds else f"(not {fact_text(fact)})"
            refuse(path, f"the goal has the fact {text}: no goal may ask for a held block")
    facts, without = asked[True], tuple(sorted(asked[False]))
    if not facts and not without:
        refuse(path, "the goal asks for nothing: write facts with on, ontable or clear")
    pairs = _below(fact for fact in facts if fact[0] != "clear")
    clear = tuple(sorted(fact[1] for fact in facts if fact[0] == "clear"))
    goal = Goal(tuple(sorted(pairs)), clear, without)
    if len(vague(goal)) > MOST_VAGUE:
        text = " ".join(f"(not {fact_text(fact)})" for fact in vague(goal))
        refuse(
            path,
            f"the goal has {quote(text)[1:-1]}, {len(vague(goal))} facts that name no place: up to "
            f"{MOST_VAGUE} are possible",
        )
    why = contradiction(facts, without)
    if not why and next(definite(goal, blocks), None) is None:
        why = "no state has all of its facts"
    return goal, why and f"the goal is not possible: {why}"


def _below(facts: Iterable[Fact]) -> set[tuple[str, str]]:
    """The (block, what it stands on) of facts with `on` and `ontable`."""
    return {(fact[1], fact[2] if fact[0] == "on" else TABLE) for fact in facts}


def _contradict(path: Path, first: Fact, second: Fact) -> None:
    refuse(path, f"the start is not possible: {fact_text(first)} contradicts {fact_text(second)}")
