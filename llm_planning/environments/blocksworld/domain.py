"""Blocksworld as a domain."""

from __future__ import annotations

import os
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pydantic import Field, model_validator

from llm_base.files import at_home
from llm_planning.domain import Domain, DomainError, Step, wording_of
from llm_planning.environments.blocksworld.blocks import (
    TABLE,
    BlockAction,
    Blocks,
    Goal,
    Puzzle,
    Texts,
    goal_text,
    state_text,
    towers,
)
from llm_planning.environments.blocksworld.generator import FOUR_BLOCKS, TABLE_6, problems
from llm_planning.environments.blocksworld.language import BlockGrammar, BlockStateModel, language
from llm_planning.environments.blocksworld.pddl import hash_of, read_problems
from llm_planning.environments.blocksworld.rules import DIALECT_RULES, RULES, RuleName
from llm_planning.environments.blocksworld.solver import UnsolvedError, shortest_plan
from llm_planning.environments.blocksworld.subtasks import (
    GoalOrder,
    decomposed,
    judged,
    spared,
)
from llm_planning.environments.pddl_text import PddlError
from llm_planning.settings import Settings, SettingsError, identified
from llm_planning.several import Several
from llm_planning.specs import DomainSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from llm_planning.domain import Judged
    from llm_planning.roles.exercises import Teacher

ADVICE_KEPT: Final = 10_000
"""States of which it is remembered what was found: a shortest plan, or why none was."""

SetRules: TypeAlias = Literal[RuleName, "file"]
"""Rules by name, or those that a PDDL file is made for."""


class Blocksworld(Domain[Blocks, BlockAction]):
    """Blocks in towers on a table: the variant of DRIP, or rules with a hand or without one.

    Nothing is drawn, and every seed has the same start.

    Args:
        rules: `variant`, in which whole piles are moved, `standard` or `handless`.

    Attributes:
        goal_order: in which order `decompose` names what the goal asks for.
        optimum: actions of a shortest plan from the start.
        no_plan: why no plan reaches the goal; empty if one does.
    """

    grammar: BlockGrammar
    state_model: BlockStateModel
    example: tuple[tuple[str, str], ...]

    def __init__(
        self,
        puzzle: Puzzle,
        *,
        rules: RuleName = "variant",
        texts: Texts = "english",
        goal_order: GoalOrder = "sentence",
    ) -> None:
        self.puzzle = puzzle
        self.no_plan = puzzle.no_plan
        self._rules = RULES[rules]
        self._rules_name = rules
        self.mechanics = rules
        self._texts = texts
        self.goal_order: GoalOrder = goal_order
        self.goal = goal_text(puzzle.goal, texts=texts)
        self.about = self._rules.about
        self.grammar, self.state_model = language(rules, puzzle.start.names)
        self.wording = wording_of(__package__) if rules == "variant" else {}
        self.example = self._examples()
        self._plan = _remembered(puzzle.goal, rules)

    @property
    def optimum(self) -> int:
        """The number of actions of a shortest plan from the start."""
        return len(self.advise(self.puzzle.start))

    @cached_property
    def _known_optimum(self) -> int | None:
        try:
            return self.optimum
        except UnsolvedError:
            return None

    def traits(self) -> dict[str, str | int | None]:
        """What every run's metrics say of the problem; the optimum is None if it is not found."""
        dialect, size = self.puzzle.dialect, len(self.puzzle.start.names)
        used = {} if dialect is None else {"dialect": dialect, "rules": self._rules_name}
        return {"problem": self.puzzle.name, "blocks": size, "optimum": self._known_optimum, **used}

    def start(self, seed: int) -> Blocks:  # noqa: ARG002 - every seed has the same start
        """s_0."""
        return self.puzzle.start

    def describe(self, state: Blocks) -> str:
        """What is clear, and what each block stands on."""
        return state_text(state, texts=self._texts, hand=self._rules.hand)

    def brief(self, state: Blocks) -> str:
        """The towers, each from its top to the table, and what is held."""
        held = f"; {state.held} in hand" if state.held is not None else ""
        return "; ".join(towers(state)) + held

    def actions(self, state: Blocks) -> Sequence[BlockAction]:
        """The actions that change the state; none where the goal is reached."""
        return () if self.success(state) else self._rules.possible(state)

    def step(self, state: Blocks, action: BlockAction, rng: Random) -> Step[Blocks]:  # noqa: ARG002
        """Takes an action. By the variant, one whose effect holds already changes nothing."""
        if refusal := self._rules.obstacle(state, action):
            return Step(state, text=refusal, obstacle=refusal)
        after = self._rules.apply(state, action)
        won = self.success(after)
        text = f"{action}: done" if after != state else f"{action}: that holds already"
        return Step(after, reward=float(won), done=won, text=text)

    def success(self, state: Blocks) -> bool:
        """Whether all of the goal holds, and the hand is empty."""
        return state.held is None and not self.puzzle.goal.missing(state)

    def feasible(self, state: Blocks, action: BlockAction) -> str | None:
        """Why an action cannot be taken; None if it can."""
        return self._rules.obstacle(state, action)

    def advise(self, state: Blocks) -> Sequence[BlockAction]:
        """A shortest plan from a state.

        Raises:
            UnsolvedError: finding it takes too long, or there is none.
        """
        return self._plan(state)

    def score(self, state: Blocks) -> float:
        """1 - (actions that are still needed / actions that the start needs); at least 0."""
        needed = len(self.advise(state))
        return max(0.0, 1.0 - needed / max(1, self.optimum))

    def decompose(self, state: Blocks, subtask: BlockAction | None) -> Sequence[BlockAction]:  # noqa: ARG002
        """The subtasks immediately before a subtask; see `subtasks.decomposed`."""
        self._need_variant()
        return decomposed(self.puzzle.goal, subtask, order=self.goal_order)

    def judge(
        self, state: Blocks, subtask: BlockAction | None, parent: BlockAction | None
    ) -> Judged:
        """Whether a subtask is done, can be done, or cannot; see `subtasks.judged`."""
        self._need_variant()
        return judged(self.puzzle.goal, state, subtask, parent)

    def remainder(self, state: Blocks) -> str:
        """The goal's facts that do not hold yet."""
        return goal_text(self.puzzle.goal.open(state), texts=self._texts)

    def mistakes(self, subtask: BlockAction) -> Mapping[str, Sequence[BlockAction]]:
        """Actions with another block in one place, and actions with another verb."""
        every = self._rules.every(self.puzzle.start.names)
        block, onto = subtask.block, subtask.onto
        kinds = {
            "block": [
                action
                for action in every
                if action.verb == subtask.verb and (action.block == block) != (action.onto == onto)
            ],
            "verb": [
                action
                for action in every
                if action.verb != subtask.verb
                and action.block == block
                and (not onto or action.onto in {"", onto})
            ],
        }
        return {kind: written for kind, written in kinds.items() if written}

    def spared(self, state: Blocks, action: BlockAction) -> BlockAction:
        """The action in the place of another that breaks nothing; see `subtasks.spared`."""
        self._need_variant()
        return spared(self.puzzle.goal, state, action)

    def _need_variant(self) -> None:
        """Refuses what only the variant has."""
        if self._rules_name != "variant":
            raise DomainError(
                "subtasks of Blocksworld follow the variant's rules: set rules=variant"
            )

    def _examples(self) -> tuple[tuple[str, str], ...]:
        """A small problem and its shortest plan: states in words, each with its action."""
        state, goal = Blocks.of({"p": "q", "q": TABLE, "r": "p"}), Goal((("q", "r"),))
        asked = goal_text(goal, texts=self._texts)
        pairs: list[tuple[str, str]] = []
        for action in shortest_plan(state, goal, self._rules_name):
            pairs.append((f"Goal: {asked} State: {self.describe(state)}", str(action)))
            state = self._rules.apply(state, action)
        return tuple(pairs)


def _remembered(goal: Goal, rules: RuleName) -> Callable[[Blocks], Sequence[BlockAction]]:
    @lru_cache(ADVICE_KEPT)
    def plan_or_reason(state: Blocks) -> Sequence[BlockAction] | str:
        try:
            return tuple(shortest_plan(state, goal, rules))
        except UnsolvedError as error:
            return str(error)

    def plan(state: Blocks) -> Sequence[BlockAction]:
        known = plan_or_reason(state)
        if isinstance(known, str):
            raise UnsolvedError(known)
        return known

    return plan


def _section_4_1_4() -> Puzzle:
    """The state of DRIP's Section 4.1.4, in which the published method fails."""
    start, end = "ifgehjadbc", "hjadbcifg"
    wanted = tuple(sorted(zip(end[1:], end[:-1], strict=True)))
    below = dict(zip(start, (TABLE, *start[:-1]), strict=True))
    return Puzzle("section-4.1.4", Blocks.of(below), Goal(wanted))


GENERATED: Final[Mapping[str, Mapping[int, int]]] = {"hard": TABLE_6, "four-blocks": FOUR_BLOCKS}
"""Task of generated problems -> number of blocks -> number of problems."""

TASKS: Final = (*GENERATED, "section-4.1.4")
"""The names of all tasks; the last one has one problem, the state of that section."""


class BlocksworldSettings(Settings):
    """Settings of the domain.

    Attributes:
        rules: `variant` moves whole piles, as DRIP does; `standard` has a hand that holds one
            block, as PlanBench has; `handless` moves one block without a hand, as domains with
            three operators do; `file` takes those that each file of `pddl` is made for, and holds
            where `pddl` is set and this is not.
        texts: states and goals as `english` sentences, or as `predicates`.
        goal_order: `sentence` names what the goal asks for in the order of its sentence, as DRIP's
            Figure 3 does; `lowest` tower by tower from below, which a model is then told as well.
        pddl: a PDDL file of a problem, or a folder of such files, in the place of the task's
            problems.
        problem: number of the one problem that is planned, in the order of the task or of the
            folder. Without it, all problems of a folder are planned, and the first of a task.
        problem_seconds: time that each problem of a folder may take, waiting included; None for
            any. The search for a shortest plan has a limit of its own.
        problem_seed: of generated problems; each draws another set.
        pddl_sha256: hash of the files of `pddl`, in hexadecimal, so that a changed file makes
            another trial. It is computed; a given value must match the files.
    """

    rules: SetRules = "variant"
    texts: Texts = "english"
    goal_order: GoalOrder = "sentence"
    pddl: str = ""
    problem: int | None = Field(None, ge=1)
    problem_seconds: float | None = Field(None, gt=0)
    problem_seed: int = Field(1, ge=0)
    pddl_sha256: str = ""

    @model_validator(mode="before")
    @classmethod
    def _identify(cls, values: object) -> object:
        if not isinstance(values, dict) or not (pddl := values.get("pddl")):
            return values
        return identified({"rules": "file", **values}, "pddl", hash_of(str(pddl)))


def _open(task: str, settings: BlocksworldSettings) -> Blocksworld | Several:
    _refuse_unread(task, settings)
    puzzles = _puzzles(task, settings)
    if settings.problem is None and os.path.isdir(at_home(settings.pddl)):
        worlds = {name: _opened(puzzle, settings) for name, puzzle in puzzles.items()}
        return Several(worlds, seconds=settings.problem_seconds)
    number = settings.problem or 1
    if number > len(puzzles):
        raise SettingsError(
            f"setting problem={number} is not possible: {_where(task, settings)} has "
            f"{len(puzzles)} problems"
        )
    opened = _opened(list(puzzles.values())[number - 1], settings)
    if isinstance(opened, PddlError):
        raise opened
    return opened


def _puzzles(task: str, settings: BlocksworldSettings) -> Mapping[str, Puzzle | PddlError]:
    if settings.pddl:
        rules = None if settings.rules == "file" else settings.rules
        return read_problems(settings.pddl, rules=rules)
    if task in GENERATED:
        drawn = problems(GENERATED[task], seed=settings.problem_seed)
        return {puzzle.name: puzzle for puzzle in drawn}
    only = _section_4_1_4()
    return {only.name: only}


def _refuse_unread(task: str, settings: BlocksworldSettings) -> None:
    """Refuses settings that the problems do not read."""
    where = _where(task, settings)
    is_drawn = task in GENERATED and not settings.pddl
    seed = BlocksworldSettings.model_fields["problem_seed"].default
    if not is_drawn and settings.problem_seed != seed:
        raise SettingsError(
            f"setting problem_seed={settings.problem_seed} is not possible with {where}: nothing "
            "is generated; leave one of them out"
        )
    if settings.rules == "file" and not settings.pddl:
        known = ", ".join(RULES)
        raise SettingsError(
            f"setting rules=file is not possible with {where}: it has no file; write one of {known}"
        )
    single = settings.problem is not None or not os.path.isdir(at_home(settings.pddl))
    if single and settings.problem_seconds is not None:
        raise SettingsError(
            f"setting problem_seconds={settings.problem_seconds:g} is not possible for one "
            "problem: it is for those of a folder; leave it out"
        )


def _where(task: str, settings: BlocksworldSettings) -> str:
    return f"pddl={settings.pddl}" if settings.pddl else f"the task {task}"


@cache
def _teacher(held_out: tuple[str, ...] | None) -> Teacher[Blocks, BlockAction]:
    # The teacher makes domains, so it imports this module.
    from llm_planning.environments.blocksworld.teacher import HELD_OUT_SIZES, BlocksworldTeacher

    return BlocksworldTeacher(held_out=HELD_OUT_SIZES if held_out is None else held_out)


def _opened(puzzle: Puzzle | PddlError, settings: BlocksworldSettings) -> Blocksworld | PddlError:
    if isinstance(puzzle, PddlError):
        return puzzle
    rules = settings.rules
    if rules == "file":
        rules = DIALECT_RULES[puzzle.dialect or "four operators"]
    return Blocksworld(puzzle, rules=rules, texts=settings.texts, goal_order=settings.goal_order)


BLOCKSWORLD = DomainSpec(
    name="blocksworld",
    summary="Blocks in towers: DRIP's variant, which moves whole piles, and the standard rules",
    kind=Blocksworld,
    tasks=TASKS,
    settings=BlocksworldSettings,
    open=_open,
    teacher=_teacher,
)
