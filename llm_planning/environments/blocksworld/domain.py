"""Blocksworld as a domain."""

from __future__ import annotations

import os
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from pydantic import Field, model_validator

from llm_kernels.files import at_home
from llm_planning.domain import Domain, DomainError, Step
from llm_planning.environments.blocksworld.blocks import (
    TABLE,
    BlockAction,
    Blocks,
    Goal,
    Puzzle,
    Texts,
    goal_text,
    state_text,
)
from llm_planning.environments.blocksworld.generator import FOUR_BLOCKS, TABLE_6, problems
from llm_planning.environments.blocksworld.language import (
    BlockGrammar,
    BlockStateModel,
    language,
)
from llm_planning.environments.blocksworld.pddl import hash_of, read_problems
from llm_planning.environments.blocksworld.rules import RULES, RuleName
from llm_planning.environments.blocksworld.solver import UnsolvedError, shortest_plan
from llm_planning.environments.blocksworld.subtasks import decomposed, judged, spared
from llm_planning.settings import Settings, SettingsError, identified
from llm_planning.specs import DomainSpec, Several, check_task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from llm_planning.domain import Judged
    from llm_planning.roles.exercises import Teacher

ADVICE_KEPT: Final = 10_000
"""States whose shortest plan is remembered."""


class Blocksworld(Domain[Blocks, BlockAction]):
    """Blocks in towers on a table: the variant of DRIP, or the standard rules.

    Nothing is drawn, and every seed has the same start.

    Args:
        puzzle: start and goal.
        rules: `variant`, in which whole piles are moved, or `standard`.
        texts: how states and goals are written.

    Attributes:
        puzzle: as given.
        optimum: actions of a shortest plan from the start.
        traits: `problem`, the number of `blocks`, and the `optimum`.
    """

    grammar: BlockGrammar
    state_model: BlockStateModel
    example: tuple[tuple[str, str], ...]

    def __init__(
        self, puzzle: Puzzle, *, rules: RuleName = "variant", texts: Texts = "english"
    ) -> None:
        self.puzzle = puzzle
        self._rules = RULES[rules]
        self._rules_name = rules
        self._texts = texts
        self.goal = goal_text(puzzle.goal, texts=texts)
        self.about = self._rules.told
        self.grammar, self.state_model = language(rules, puzzle.start.names)
        self.wording = _wording() if rules == "variant" else {}
        self.example = self._examples()
        self._plan = _remembered(puzzle.goal, rules)

    @property
    def optimum(self) -> int:
        """The number of actions of a shortest plan from the start."""
        return len(self.advise(self.puzzle.start))

    @cached_property
    def traits(self) -> dict[str, str | int | None]:
        """What every run's metrics say of the problem; the optimum is None if it is not found."""
        try:
            optimum: int | None = self.optimum
        except UnsolvedError:
            optimum = None
        size = len(self.puzzle.start.names)
        return {"problem": self.puzzle.name, "blocks": size, "optimum": optimum}

    def start(self, seed: int) -> Blocks:  # noqa: ARG002 - every seed has the same start
        """s_0."""
        return self.puzzle.start

    def describe(self, state: Blocks) -> str:
        """What is clear, and what each block stands on."""
        return state_text(state, texts=self._texts, hand=self._rules.hand)

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
            UnsolvedError: finding it takes too long.
        """
        return self._plan(state)

    def score(self, state: Blocks) -> float:
        """1 - (actions that are still needed / actions that the start needs); at least 0."""
        needed = len(self.advise(state))
        return max(0.0, 1.0 - needed / max(1, self.optimum))

    def decompose(self, state: Blocks, subtask: BlockAction | None) -> Sequence[BlockAction]:  # noqa: ARG002
        """The subtasks immediately before a subtask; see `subtasks.decomposed`."""
        self._need_variant()
        return decomposed(self.puzzle.goal, subtask)

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
                one
                for one in every
                if one.verb == subtask.verb and (one.block == block) != (one.onto == onto)
            ],
            "verb": [
                one
                for one in every
                if one.verb != subtask.verb
                and one.block == block
                and (not onto or one.onto in {"", onto})
            ],
        }
        return {kind: written for kind, written in kinds.items() if written}

    def spared(self, state: Blocks, action: BlockAction) -> BlockAction:
        """The action in the place of another that breaks nothing; see `subtasks.spared`."""
        self._need_variant()
        return spared(self.puzzle.goal, state, action)

    def _need_variant(self) -> None:
        """Refuses what only the variant has.

        Raises:
            DomainError: the rules are the standard ones.
        """
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


@cache
def _wording() -> Mapping[str, str]:
    """Template of Tree of Options or DRIP -> the blocks that replace its own."""
    folder = files(__package__) / "prompts"
    return {name: (folder / f"{name}.j2").read_text("utf-8") for name in ("drip", "dynamics")}


def _remembered(goal: Goal, rules: RuleName) -> Callable[[Blocks], Sequence[BlockAction]]:
    @lru_cache(ADVICE_KEPT)
    def plan(state: Blocks) -> Sequence[BlockAction]:
        return tuple(shortest_plan(state, goal, rules))

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
            block, as PlanBench has.
        texts: states and goals as `english` sentences, or as `predicates`.
        pddl: a PDDL file of a problem, or a folder of such files, in the place of the task's
            problems.
        problem: number of the one problem that is planned, in the order of the task or of the
            folder. Without it, all problems of a folder are planned, and the first of a task.
        problem_seed: of generated problems; each draws another set.
        pddl_sha256: hash of the files of `pddl`, in hexadecimal, so that a changed file makes
            another trial. It is computed; a given value must match the files.
    """

    added = ("pddl_sha256",)

    rules: RuleName = "variant"
    texts: Texts = "english"
    pddl: str = ""
    problem: int | None = Field(None, ge=1)
    problem_seed: int = Field(1, ge=0)
    pddl_sha256: str = ""

    @model_validator(mode="before")
    @classmethod
    def _identify(cls, values: object) -> object:
        if not isinstance(values, dict) or not (pddl := values.get("pddl")):
            return values
        return identified(values, "pddl", hash_of(str(pddl)))


def _open(task: str, settings: BlocksworldSettings) -> Blocksworld | Several:
    puzzles = _puzzles(task, settings)
    if settings.problem is None and os.path.isdir(at_home(settings.pddl)):
        return Several({one.name: _opened(one, settings) for one in puzzles})
    number = settings.problem or 1
    if number > len(puzzles):
        where = f"pddl={settings.pddl}" if settings.pddl else f"the task {task}"
        raise SettingsError(
            f"setting problem={number} is not possible: {where} has {len(puzzles)} problems"
        )
    return _opened(puzzles[number - 1], settings)


def _puzzles(task: str, settings: BlocksworldSettings) -> list[Puzzle]:
    check_task(task, known=TASKS, of="blocksworld")
    if not settings.pddl and task in GENERATED:
        return problems(GENERATED[task], seed=settings.problem_seed)
    if settings.problem_seed != BlocksworldSettings.model_fields["problem_seed"].default:
        where = f"pddl={settings.pddl}" if settings.pddl else f"the task {task}"
        raise SettingsError(
            f"setting problem_seed={settings.problem_seed} is not possible with {where}: nothing "
            "is generated; leave one of them out"
        )
    if settings.pddl:
        return read_problems(settings.pddl, hand=RULES[settings.rules].hand)
    return [_section_4_1_4()]


def _teacher(held_out: Sequence[str] | None) -> Teacher[Blocks, BlockAction]:
    # The teacher makes domains, so it imports this module.
    from llm_planning.environments.blocksworld.teacher import HELD_OUT_SIZES, BlocksworldTeacher

    return BlocksworldTeacher(held_out=HELD_OUT_SIZES if held_out is None else held_out)


def _opened(puzzle: Puzzle, settings: BlocksworldSettings) -> Blocksworld:
    return Blocksworld(puzzle, rules=settings.rules, texts=settings.texts)


BLOCKSWORLD = DomainSpec(
    name="blocksworld",
    summary="Blocks in towers: DRIP's variant, which moves whole piles, and the standard rules",
    kind=Blocksworld,
    tasks=TASKS,
    settings=BlocksworldSettings,
    open=_open,
    teacher=_teacher,
)
