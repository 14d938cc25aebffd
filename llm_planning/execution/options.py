"""Options: plans of them, their execution in the real world (ToO, Section 3.2, Algorithm 2).

An attempt is one execution of an in-option policy π_ω. Success is what the world says. The numbers
in the margin are the lines of Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from statistics import fmean
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias

from llm_planning.domain import A, S, Shows
from llm_planning.domain_calls import in_words
from llm_planning.execution.episode import Episode, milestone_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from llm_planning.domain import Domain, Grammar, StateModel
    from llm_planning.execution.episode import Move
    from llm_planning.execution.option_settings import ExecutionSettings

    class OptionDomain(Domain[S, A]):
        """A domain with a grammar of its options and a model of its state."""

        grammar: Grammar[A]
        state_model: StateModel[S]


Leaves: TypeAlias = "Callable[[PolicyQuestion[S, A]], bool]"

_STRIDE = 1_000_003
"""The distance between the seeds of the worlds in which one plan is executed."""


@dataclass(frozen=True, slots=True)
class OptionState(Generic[S, A]):
    """The option-level state τ_i = [ŝ_i, ω_1, ..., ω_i] (Section 3.1), on the way to a goal.

    Attributes:
        goal: in words.
        state: ŝ_i; without a world model always s_0.
        described: ŝ_i in words.
        options: ω_1 to ω_i.
        since: the options after `state`: all without a world model, none with one.
        feedback: what the world said of each of `options`; empty before they are executed.
    """

    goal: str
    state: S
    described: str = ""
    options: tuple[A, ...] = ()
    since: tuple[A, ...] = ()
    feedback: tuple[str, ...] = ()

    @property
    def history(self) -> str:
        """The options as numbered lines. Along a path, lines are only added."""
        pairs = zip_longest(self.options, self.feedback)
        lines = [
            f"{i}. {option}: {text}" if text else f"{i}. {option}"
            for i, (option, text) in enumerate(pairs, start=1)
        ]
        return "\n".join(lines) or "none"


async def tau_of(
    domain: OptionDomain[S, A], state: S, options: Iterable[A] = (), feedback: Iterable[str] = ()
) -> OptionState[S, A]:
    """τ of a state that the options led to, with its words."""
    described = await in_words(domain, "describe", state)
    return OptionState(domain.goal, state, described, tuple(options), feedback=tuple(feedback))


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyQuestion(Generic[S, A]):
    """A question about an option ω that is executed (Section 3.2): for π_ω, or for β_ω.

    Attributes:
        tau: the real s_{t_m}, with the options that were executed before ω.
        option: ω.
        before: τ with the state s_{t_1} in which ω was begun.
        m: the attempt at ω, from 1.
        program: of the last attempt; empty before the first, and where verbs are executed.
        feedback: of the last attempt, feedback^(m-1); empty before the first.
        critique: what LLM_β missed after the last attempt; empty before the first, and from rules.
        moves: of the last attempt, in order.
        skills: the retrieved skills, as a model reads them.
        explanation: how ω is done, in a model's words; empty if nobody was asked.
    """

    tau: OptionState[S, A]
    option: A
    before: OptionState[S, A]
    m: int = 1
    program: str = ""
    feedback: str = ""
    critique: str = ""
    moves: tuple[Move[S, A], ...] = ()
    skills: str = ""
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class Candidate(Generic[A]):
    """A proposed option, and what the check made of it.

    Attributes:
        option: ω, which expands the node; None if ω̃ was dropped.
        proposed: ω̃; a repair makes ω differ from it.
        reasoning: why the model proposed ω̃.
        obstacle: why ω̃ is infeasible; None if it is feasible or was not checked.
    """

    option: A | None
    proposed: A
    reasoning: str = ""
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """Whether an option that was executed is done: β_ω.

    Attributes:
        critique: what is missing, by who judges; empty if it is done, and from rules.
    """

    done: bool
    critique: str = ""


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
        texts = {"option": str(self.option), "actions": [str(action) for action in self.actions]}
        return {
            **{attribute.name: getattr(self, attribute.name) for attribute in fields(self)},
            **texts,
        }


Policy: TypeAlias = "Sequence[A] | str"
"""π_ω: verbs of the world, in order, or a program."""


@dataclass(frozen=True, slots=True)
class Feedback(Generic[S, A]):
    """feedback^(m): what came of one execution of a policy.

    Attributes:
        text: for the next question; "done" if nothing went wrong.
        moves: what was done in the world, in order.
        program: that was run; None for verbs.
    """

    text: str
    moves: tuple[Move[S, A], ...]
    program: str | None = None


class Policies(Protocol[S, A]):
    """Where in-option policies come from, and how they are run.

    Attributes:
        name: the value of the setting `execution` that makes them.
    """

    name: str

    async def write(self, question: PolicyQuestion[S, A]) -> Policy[A]:
        """Makes π_ω."""

    async def run(self, policy: Policy[A], episode: Episode[S, A]) -> Feedback[S, A]:
        """EXECUTE (line 6)."""

    async def judged(self, question: PolicyQuestion[S, A]) -> Completion:
        """β_ω (line 7)."""

    async def note(self, question: PolicyQuestion[S, A], *, shown: bool) -> None:
        """Takes note of an attempt: ADDSKILL (line 9), if the world shows the option's effect."""


class Executing(Generic[S, A]):
    """The execution of options, one after the other, in one real world.

    Attributes:
        attempts: so far, in order.
    """

    def __init__(
        self,
        domain: OptionDomain[S, A],
        policies: Policies[S, A],
        settings: ExecutionSettings,
        episode: Episode[S, A],
    ) -> None:
        self._domain = domain
        self._policies = policies
        self._settings = settings
        self.episode = episode
        self.attempts: list[Attempt[A]] = []
        self._executed: list[tuple[A, str]] = []

    @classmethod
    async def begin(
        cls,
        domain: OptionDomain[S, A],
        policies: Policies[S, A],
        settings: ExecutionSettings,
        *,
        seed: int,
        number: int,
    ) -> Executing[S, A]:
        """Starts the world of one execution.

        Args:
            number: of the execution, from 0; each has a world of its own.
        """
        episode = await Episode.begin(domain, seed=seed + _STRIDE * number)
        return cls(domain, policies, settings, episode)

    @property
    def goes_on(self) -> bool:
        """Whether the goal is open and attempts are left."""
        return not self.episode.over and len(self.attempts) < self._settings.attempts

    async def state(self) -> OptionState[S, A]:
        """τ of the real state, with what was executed and what the world said of it."""
        options = [option for option, _ in self._executed]
        feedback = [text for _, text in self._executed]
        return await tau_of(self._domain, self.episode.state, options, feedback)

    async def execute(self, option: A, planned: int, *, leaves: Leaves[S, A] | None = None) -> bool:
        """Executes an option (Algorithm 2).

        Args:
            option: ω.
            planned: the index of ω in the plan.
            leaves: says after an attempt whether ω is given up, so that β_ω is not asked; by
                default it never is.

        Returns:
            Whether ω was said to be done, in at most M attempts.
        """
        before = tau = await self.state()
        question = PolicyQuestion(tau=tau, option=option, before=before)
        completion = Completion(False)
        for m in range(1, self._settings.refinements + 1):  # 4, 5, 13
            if not self.goes_on:
                break
            policy = await self._policies.write(replace(question, m=m))  # 3, 12
            feedback = await self._policies.run(policy, self.episode)  # 6
            question = PolicyQuestion(
                tau=await self.state(),
                option=option,
                before=before,
                m=m,
                program=feedback.program or "",
                feedback=feedback.text,
                moves=feedback.moves,
            )
            left = leaves is not None and leaves(question)
            completion = Completion(False) if left else await self._policies.judged(question)  # 7
            question = replace(question, critique=completion.critique)
            shown = is_shown(self._domain, question)
            self.attempts.append(
                Attempt(
                    option=option,
                    planned=planned,
                    m=m,
                    done=completion.done,
                    shown=shown,
                    program=feedback.program,
                    feedback=feedback.text,
                    actions=tuple(move.action for move in feedback.moves),
                    seconds=sum(move.step.time for move in feedback.moves),
                )
            )
            # Line 9 stands under line 8, LLM_β's word. Here the world has to show the effect.
            await self._policies.note(question, shown=shown)  # 9
            if completion.done or left:  # 8
                break
        self._executed.append((option, question.feedback))
        return completion.done  # 10, 15

    async def recorded(self) -> Executed[S, A]:
        """The record of the execution so far."""
        return Executed(
            success=bool(self.episode.success),
            exhausted=self.goes_on,
            attempts=tuple(self.attempts),
            moves=tuple(self.episode.moves),
            last=await in_words(self._domain, "describe", self.episode.state),
            milestones=dict(self.episode.milestones),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed(Generic[S, A]):
    """The record of one execution.

    Attributes:
        success: whether the world says that the goal is reached.
        exhausted: whether the plan ran out before the attempts did.
        attempts: in order.
        moves: what was done in the world, in order.
        last: the last state in words.
        milestones: milestone of the domain -> the number of moves after which it was reached.
    """

    success: bool
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
            "won": self.success,
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
    first, won = executed[0], [execution for execution in executed if execution.success]
    failed = first.first_failed
    each = {
        f"{name}_{number}": value
        for number, execution in enumerate(executed, start=1)
        for name, value in (
            ("won", execution.success),
            ("attempts", len(execution.attempts)),
            ("minutes", round(execution.minutes, 2)),
        )
    }
    return {
        "success_basis": "executed",
        "executions": len(executed),
        "executions_won": len(won),
        "won_share": len(won) / len(executed),
        "attempts": fmean(len(execution.attempts) for execution in won) if won else None,
        "minutes": fmean(execution.minutes for execution in won) if won else None,
        **each,
        "plan_exhausted": fmean(execution.exhausted for execution in executed),
        "options_executed": sum(attempt.shown for attempt in first.attempts),
        "first_failed": failed and str(failed.option),
        "first_obstacle": failed and failed.feedback,
        **milestone_metrics(first.milestones),
    }


def approach(domain: Any, question: PolicyQuestion[S, A]) -> Sequence[A]:  # noqa: ANN401
    """The verbs that carry an option out.

    The first policy is the option itself. Later ones are the domain's `approach`.
    """
    option = question.option
    if question.m == 1:
        return (option,)
    actions: Sequence[A] = domain.approach(question.before.state, question.tau.state, option)
    return actions


def alone(domain: object, question: PolicyQuestion[S, A]) -> Sequence[A]:  # noqa: ARG001 - as `approach`
    """The option itself, in every policy: what it lacks stays lacking."""
    return (question.option,)


def is_shown(domain: Any, question: PolicyQuestion[S, A]) -> bool:  # noqa: ANN401
    """Whether the world shows that an option is done.

    The domain's `shows` says so. Without it, the option is done if it was carried out completely.
    """
    if isinstance(domain, Shows):
        return domain.shows(question.before.state, question.tau.state, question.option)
    return any(
        move.action == question.option and move.step.obstacle is None for move in question.moves
    )
