"""A whole plan in options: one answer writes it, or a search does; then it is executed.

Source: ToO, Section 3.2 (execution) and Section 4.1 (Chain of Thought).
"""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 (a dataclass's field)
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic

from llm_base.lines import lines_of
from llm_planning.domain import A
from llm_planning.domain_calls import settled
from llm_planning.execution.episode import milestone_lines
from llm_planning.execution.option_roles import PlanAsking
from llm_planning.execution.option_settings import EXECUTION_ROLES
from llm_planning.execution.options import Candidate, Executing, metrics_of, tau_of
from llm_planning.execution.policies import policies_of
from llm_planning.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from llm_planning.execution.option_settings import ExecutionSettings, PromptSettings
    from llm_planning.execution.options import Attempt, Executed, OptionDomain, OptionState
    from llm_planning.specs import Run


@dataclass(frozen=True, slots=True)
class WrittenPlan(Generic[A]):
    """A plan that one answer wrote.

    Attributes:
        steps: options with their reasons, in order.
    """

    steps: Sequence[Candidate[A]]

    @property
    def options(self) -> list[A]:
        """The options alone."""
        return [step.proposed for step in self.steps]

    def to_json(self) -> list[dict[str, str]]:
        """For a trace."""
        return [{"option": str(step.proposed), "reasoning": step.reasoning} for step in self.steps]

    def __str__(self) -> str:
        return "\n".join(
            f"{i}. {step.proposed} ({step.reasoning})" for i, step in enumerate(self.steps, start=1)
        )


async def written_plan(ask: PlanAsking[Any, A]) -> WrittenPlan[A]:
    """One answer breaks the goal down into at most d options, from s_0 alone."""
    decompose = ask.of(ask.roles.decompose())
    steps = await decompose(await first_state(ask.domain, ask.seed))
    return WrittenPlan(steps[: ask.settings.d])  # Rules may name more.


async def chain_of_thought(run: Run[OptionDomain[Any, Any], ExecutionSettings]) -> Outcome:
    """CoT: plans in one answer, and executes the options (ToO, Section 4.1)."""
    settings = run.settings
    ask: PlanAsking[Any, Any] = PlanAsking(run.world, run.engines, settings, seed=run.seed)
    plan = await written_plan(ask)
    parts = {"trace": {"steps": plan.to_json()}, "text": str(plan)}
    return await executed_plan(plan.options, run, ask, settings, **parts)


async def first_state(domain: OptionDomain[Any, Any], seed: int) -> OptionState[Any, Any]:
    """τ_0 of a trial."""
    return await tau_of(domain, await settled(domain.start(seed)))


async def executed_plan(
    plan: Sequence[A],
    run: Run[OptionDomain[Any, A], PromptSettings],
    ask: PlanAsking[Any, A],
    settings: ExecutionSettings,
    **parts: Any,  # noqa: ANN401
) -> Outcome:
    """Executes a plan and makes the outcome.

    An option that is not done after M attempts is left, and the plan goes on with the next.

    Args:
        **parts: see `outcome_of`.
    """

    async def act(executing: Executing[Any, A]) -> None:
        for place, option in enumerate(plan):
            if not executing.goes_on:
                break
            await executing.execute(option, place)

    executions = await executed(act, ask, settings)
    return outcome_of(plan, run, ask, executions, **parts)


async def executed(
    act: Callable[[Executing[Any, A]], Awaitable[None]],
    ask: PlanAsking[Any, A],
    settings: ExecutionSettings,
) -> Executions[A]:
    """Acts in one world after the other, as often as the settings say.

    Args:
        act: executes options until it ends.
    """
    domain = ask.domain
    policies = await policies_of(domain, ask, settings)
    done = []
    for number in range(settings.executions):
        executing = await Executing.begin(domain, policies, settings, seed=ask.seed, number=number)
        await act(executing)
        done.append(await executing.recorded())
    return Executions(policies.name, done)


@dataclass(frozen=True, slots=True)
class Executions(Generic[A]):
    """The executions of a trial.

    Attributes:
        by: whose policies were executed, as the setting `execution` says it.
        each: at least one.
    """

    by: str
    each: Sequence[Executed[Any, A]]

    @property
    def options(self) -> list[A]:
        """The options of the first execution, in order."""
        return [attempt.option for attempt in self.each[0].attempts if attempt.m == 1]


def outcome_of(
    plan: Sequence[Any],
    run: Run[OptionDomain[Any, Any], PromptSettings],
    ask: PlanAsking[Any, Any],
    executions: Executions[Any],
    *,
    metrics: Mapping[str, Any] = MappingProxyType({}),
    trace: Mapping[str, Any] = MappingProxyType({}),
    text: str = "",
) -> Outcome:
    """The outcome of a trial. Success is what the world says of the first execution.

    Args:
        plan: the options that were planned, or executed where both go together.
        metrics: the planner's own metrics.
        trace: the planner's own part of the summary.
        text: the same for people.
    """
    return Outcome(
        success=executions.each[0].success,
        plan=tuple(map(str, plan)),
        metrics={
            **metrics_of(executions.each),
            "execution": executions.by,
            "options_planned": len(plan),
            **metrics,
            **costs_of(ask),
        },
        trace={
            **run.header,
            **trace,
            "oracles": ask.oracles,
            "executions": [execution.to_json() for execution in executions.each],
        },
        text="\n\n".join((text, *map(execution_text, executions.each))),
    )


def execution_text(execution: Executed[Any, Any]) -> str:
    """Says for people what was executed: each attempt, what came of it, and the verdict."""
    lines = [
        line
        for number, attempt in enumerate(execution.attempts, start=1)
        for line in _attempt_lines(number, attempt)
    ]
    verdict = "reached" if execution.success else "not reached"
    spent = f"{len(execution.attempts)} attempts, {execution.minutes:.1f} minutes of the world"
    lines.append(f"carried out: the goal is {verdict} ({spent})")
    if (failed := execution.first_failed) is not None:
        lines.append(f"first attempt that failed: {failed.option} ({failed.feedback})")
    return "\n".join((*lines, *milestone_lines(execution.milestones)))


def _attempt_lines(number: int, attempt: Attempt[Any]) -> list[str]:
    again = f" (attempt {attempt.m})" if attempt.m > 1 else ""
    return [
        f"{number}. {attempt.option}{again}: {attempt.feedback}",
        *(f"     {line.rstrip()}" for line in lines_of((attempt.program or "").strip())),
    ]


def costs_of(ask: PlanAsking[Any, Any]) -> dict[str, int]:
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
