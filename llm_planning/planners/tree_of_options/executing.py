"""Options executed in the real world (Section 3.2, Algorithm 2).

An attempt is one execution of an in-option policy π_ω. Success is what the world says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

from llm_planning.domain import A, S, settled
from llm_planning.execution.episode import Episode
from llm_planning.planners.tree_of_options.program_roles import is_shown
from llm_planning.planners.tree_of_options.settings import EXECUTION_ROLES
from llm_planning.planners.tree_of_options.states import OptionState, PolicyQuestion

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from llm_planning.execution.episode import Move
    from llm_planning.planners.tree_of_options.asking import OptionAsking
    from llm_planning.planners.tree_of_options.policies import Policies
    from llm_planning.planners.tree_of_options.settings import ExecutionSettings
    from llm_planning.specs import Problem

Verdict: TypeAlias = Literal["done", "again", "leave"]
"""After an attempt at ω: it is done, it is tried again, or it is left."""

Judge: TypeAlias = "Callable[[PolicyQuestion[S, A]], Awaitable[Verdict]]"

_STRIDE = 1_000_003
"""The distance between the seeds of the worlds in which one plan is executed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Generic[A]):
    """One execution of a policy.

    Attributes:
        option: ω.
        planned: the index of ω in the plan.
        m: the number of the attempt at ω, from 1.
        done: what β_ω says.
        shown: whether the world shows that ω is done.
        program: π_ω as a program; None where verbs were carried out.
        feedback: what the world and the program said; "done" if nothing went wrong.
        actions: what was done in the world, in order.
        seconds: of the world.
    """

    option: A
    planned: int
    m: int
    done: bool
    shown: bool
    program: str | None
    feedback: str
    actions: tuple[A, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """For a trace."""
        return {
            "option": str(self.option),
            "planned": self.planned,
            "m": self.m,
            "done": self.done,
            "shown": self.shown,
            "program": self.program,
            "feedback": self.feedback,
            "actions": [str(action) for action in self.actions],
            "seconds": self.seconds,
        }


class Executing(Generic[S, A]):
    """The execution of options, one after the other, in one real world.

    Attributes:
        attempts: so far, in order.
    """

    def __init__(
        self,
        problem: Problem[Any],
        policies: Policies[S, A],
        settings: ExecutionSettings,
        episode: Episode[S, A],
    ) -> None:
        self._problem = problem
        self._policies = policies
        self._settings = settings
        self.episode = episode
        self.attempts: list[Attempt[A]] = []
        self._executed: list[tuple[A, str]] = []

    @classmethod
    async def begin(
        cls,
        problem: Problem[Any],
        policies: Policies[S, A],
        settings: ExecutionSettings,
        *,
        seed: int,
        number: int,
    ) -> Executing[S, A]:
        """Starts the world of one execution.

        Args:
            problem: see `Executing`.
            policies: see `Executing`.
            settings: see `Executing`.
            seed: of the trial.
            number: of the execution, from 0; each has a world of its own.
        """
        episode = await Episode.begin(problem.world, seed=seed + _STRIDE * number)
        return cls(problem, policies, settings, episode)

    @property
    def goes_on(self) -> bool:
        """Whether the goal is open and attempts are left."""
        return not self.episode.over and len(self.attempts) < self._settings.attempts

    async def state(self) -> OptionState[S, A]:
        """τ of the real state, with what was executed and what the world said of it."""
        domain, state = self._problem.world, self.episode.state
        return OptionState(
            domain.goal,
            state,
            await settled(domain.describe(state)),
            tuple(option for option, _ in self._executed),
            feedback=tuple(said for _, said in self._executed),
        )

    async def execute(self, option: A, planned: int, *, judge: Judge[S, A] | None = None) -> bool:
        """Executes an option (Algorithm 2).

        Args:
            option: ω.
            planned: the index of ω in the plan.
            judge: says after each attempt whether ω is done (line 7); by default β_ω does.

        Returns:
            Whether ω was said to be done, in at most M attempts.
        """
        before = tau = await self.state()
        question = PolicyQuestion(tau=tau, option=option, before=before)
        said = ""
        verdict: Verdict = "again"
        for m in range(1, self._settings.refinements + 1):
            if not self.goes_on:
                break
            policy = await self._policies.write(replace(question, m=m))  # lines 3 and 12
            feedback = await self._policies.run(policy, self.episode)  # line 6
            said = feedback.said
            question = PolicyQuestion(
                tau=await self.state(),
                option=option,
                before=before,
                m=m,
                program=feedback.program or "",
                feedback=said,
                moves=feedback.moves,
            )
            if judge is None:
                completion = await self._policies.judged(question)  # line 7
                verdict = "done" if completion.done else "again"
                question = replace(question, critique=completion.critique)
            else:
                verdict = await judge(question)
            shown = is_shown(self._problem.world, question)
            self.attempts.append(
                Attempt(
                    option=option,
                    planned=planned,
                    m=m,
                    done=verdict == "done",
                    shown=shown,
                    program=feedback.program,
                    feedback=said,
                    actions=tuple(move.action for move in feedback.moves),
                    seconds=sum(move.step.time for move in feedback.moves),
                )
            )
            await self._policies.note(question, shown=shown)  # line 9
            if verdict != "again":
                break
        self._executed.append((option, said))
        return verdict == "done"

    async def recorded(self) -> Executed[S, A]:
        """The record of the execution so far."""
        domain = self._problem.world
        return Executed(
            won=bool(self.episode.success),
            exhausted=self.goes_on,
            attempts=tuple(self.attempts),
            moves=tuple(self.episode.moves),
            last=await settled(domain.describe(self.episode.state)),
            milestones=dict(self.episode.milestones),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed(Generic[S, A]):
    """The record of one execution.

    Attributes:
        won: whether the world says that the goal is reached.
        exhausted: whether the plan ran out before the attempts did.
        attempts: in order.
        moves: what was done in the world, in order.
        last: the last state in words.
        milestones: milestone of the domain -> the number of moves after which it was reached.
    """

    won: bool
    exhausted: bool
    attempts: tuple[Attempt[A], ...]
    moves: tuple[Move[S, A], ...]
    last: str
    milestones: Mapping[str, int | None]

    @property
    def minutes(self) -> float:
        """Time of the world."""
        return sum(attempt.seconds for attempt in self.attempts) / 60

    @property
    def first_failed(self) -> Attempt[A] | None:
        """The first attempt that did not do its option, as the world shows it."""
        return next((attempt for attempt in self.attempts if not attempt.shown), None)

    def to_json(self) -> dict[str, Any]:
        """For a trace."""
        return {
            "won": self.won,
            "exhausted": self.exhausted,
            "attempts": [attempt.to_json() for attempt in self.attempts],
            "moves": [move.to_json() for move in self.moves],
            "last": self.last,
            **({"milestones": dict(self.milestones)} if self.milestones else {}),
        }


def metrics_of(executed: Sequence[Executed[Any, Any]]) -> dict[str, Any]:
    """The metrics of all executions of a trial, for the ledger.

    Returns:
        success_basis: "executed", because the world judges success.
        executions, executions_won, won_share: how many there were, and how many were won.
        attempts, minutes: means over those that were won; None without any.
        won_1, attempts_1, minutes_1, ...: of each one.
        plan_exhausted: the share in which the plan ran out before the attempts.
        options_executed, first_failed, first_obstacle, reached_NAME, steps_to_NAME: of the first;
            the number of attempts after which the world showed the option's effect, and the first
            other attempt.
    """
    first, won = executed[0], [one for one in executed if one.won]
    failed = first.first_failed
    each = {
        f"{name}_{number}": value
        for number, one in enumerate(executed, start=1)
        for name, value in (
            ("won", one.won),
            ("attempts", len(one.attempts)),
            ("minutes", round(one.minutes, 2)),
        )
    }
    return {
        "success_basis": "executed",
        "executions": len(executed),
        "executions_won": len(won),
        "won_share": len(won) / len(executed),
        "attempts": fmean(len(one.attempts) for one in won) if won else None,
        "minutes": fmean(one.minutes for one in won) if won else None,
        **each,
        "plan_exhausted": fmean(one.exhausted for one in executed),
        "options_executed": sum(attempt.shown for attempt in first.attempts),
        "first_failed": failed and str(failed.option),
        "first_obstacle": failed and failed.feedback,
        **{f"reached_{name}": at is not None for name, at in first.milestones.items()},
        **{f"steps_to_{name}": at for name, at in first.milestones.items()},
    }


def costs_of(ask: OptionAsking[Any, Any]) -> dict[str, int]:
    """What planning and execution cost so far.

    Returns:
        planning_calls, planning_tokens, execution_calls, execution_tokens: of models, tokens read
            and written. planning_questions, execution_questions: askings of roles, whoever answers.
    """
    planning = [role for role in ask.settings.known_roles if role not in EXECUTION_ROLES]
    costs: dict[str, int] = {}
    for phase, roles in (("planning", planning), ("execution", EXECUTION_ROLES)):
        calls, tokens = ask.tokens(roles)
        costs[f"{phase}_calls"] = calls
        costs[f"{phase}_tokens"] = tokens
        costs[f"{phase}_questions"] = sum(ask.asked[role] for role in roles)
    return costs
