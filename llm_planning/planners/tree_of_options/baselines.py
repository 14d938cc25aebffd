"""Ablations of ToO, and the baselines ReAct-Option and ReAct-Action (Sections 4.1 and 4.4).

Chain of Thought is `llm_planning.execution.whole_plans.chain_of_thought`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llm_planning.domain import A, S
from llm_planning.execution.option_prompts import NOW, START
from llm_planning.execution.whole_plans import executed, outcome_of
from llm_planning.planners.tree_of_options.algorithm import TreeOfOptions
from llm_planning.planners.tree_of_options.asking import OptionAsking

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llm_planning.execution.options import Executing, OptionDomain, OptionState
    from llm_planning.outcome import Outcome
    from llm_planning.planners.tree_of_options.settings import OptionSettings
    from llm_planning.specs import Run


class Unpredicted(TreeOfOptions[S, A]):
    """ToO without its world model: nodes are [s_0, ω_1, ..., ω_i], as in ToT (Section 4.4)."""

    moment = judged = START

    def roles(self) -> Sequence[str]:
        """All but `dynamics`."""
        return [role for role in super().roles() if role != "dynamics"]

    async def predict(
        self, tau: OptionState[S, A], option: A
    ) -> tuple[OptionState[S, A], Mapping[str, int]]:
        """Adds the option to those that were done since s_0."""
        return replace(tau, options=(*tau.options, option), since=(*tau.since, option)), {}


class Unchecked(TreeOfOptions[S, A]):
    """ToO without its feasibility check (Section 4.4)."""

    def roles(self) -> Sequence[str]:
        """All but `feasibility` and `repair`."""
        return ("propose", "dynamics", "reward", "termination")

    async def check(
        self,
        tau: OptionState[S, A],  # noqa: ARG002
        option: A,
    ) -> tuple[Sequence[A], str | None]:
        """Takes every option as it is proposed."""
        return (option,), None


class TreeOfThoughts(Unpredicted[S, A], Unchecked[S, A]):
    """ToT with MCTS (Section 4.1)."""


async def react_option(run: Run[OptionDomain[Any, Any], OptionSettings]) -> Outcome:
    """ReAct-Option: proposes one option in the real state and executes it (Algorithm 2), in turn.

    It sees what the world said of each option before, and ends when the world is won or the
    attempts are used up: nobody is asked whether the goal is reached.
    """
    return await _react(run, taken=lambda option: option)


async def react_action(run: Run[OptionDomain[Any, Any], OptionSettings]) -> Outcome:
    """ReAct-Action: ReAct-Option with actions of the smallest kind.

    Every action is an attempt. There is no in-option policy, so nothing is refined.
    """
    world: Any = run.world
    units = world.in_units()
    settings = run.settings.model_copy(update={"refinements": 1, "execution": "direct"})
    return await _react(replace(run, world=units, settings=settings), taken=units.unit)


async def _react(
    run: Run[OptionDomain[Any, Any], OptionSettings], *, taken: Callable[[Any], Any]
) -> Outcome:
    """Proposes and executes, in turn; `taken` makes of a proposed option the one to execute."""
    ask: OptionAsking[Any, Any] = OptionAsking(run.world, run.engines, run.settings, seed=run.seed)
    propose = ask.propose(1, NOW)

    async def act(executing: Executing[Any, Any]) -> None:
        planned = 0
        while executing.goes_on:
            for candidate in await propose(await executing.state()):
                await executing.execute(taken(candidate.proposed), planned)
                planned += 1

    executions = await executed(act, ask, run.settings)
    return outcome_of(executions.options, run, ask, executions)
