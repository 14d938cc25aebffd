"""ReAct as DRIP's baseline: thought and action in turn, on the state that the actuator gives.

`react` of every domain chooses among listed actions, in the real world, until that is at its goal.
Here the model writes an action of the domain's language, or says that it is at the end (Section
4.1.2), and the role `apply` acts, as for DRIP. The fair end is the one that DRIP+ has: a test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import A, S, settled
from llm_planning.planners.drip.acting import Acting, ended
from llm_planning.planners.drip.outcome import outcome_of
from llm_planning.planners.drip.questions import NextAction

if TYPE_CHECKING:
    from llm_planning.outcome import Outcome
    from llm_planning.planners.drip.acting import Ending
    from llm_planning.planners.drip.questions import DripDomain
    from llm_planning.planners.drip.settings import ReactSettings
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem


async def react(
    problem: Problem[DripDomain[Any, Any]],
    *,
    engines: Engines,
    settings: ReactSettings,
    seed: int,
) -> Outcome:
    """ReAct with an actuator."""
    acting = await Acting.begin(problem, engines, settings, seed=seed)
    ending = await ended(Forward(acting, settings).plan())
    return await outcome_of(problem, acting, acting.plan, settings=settings, ending=ending)


class Forward(Generic[S, A]):
    """ReAct.

    Args:
        acting: applies and keeps the plan; its roles name the next action.
        settings: of the planner.

    Attributes:
        history: the actions so far, in words, with a mark if they were refused.
    """

    def __init__(self, acting: Acting[S, A], settings: ReactSettings) -> None:
        self._acting = acting
        self._domain: Any = acting.domain
        self._settings = settings
        self._act = acting.asking.of(acting.roles.act(reason=settings.reason))
        self.history: list[str] = []

    async def plan(self) -> Ending:
        """Acts until the end is said or tested.

        Returns:
            Why it stopped.

        Raises:
            RanOutError: as many actions were tried as may be.
        """
        acting, tested = self._acting, self._settings.end == "tested"
        for _ in range(self._settings.moves):
            if tested and await self.reached():
                return "goal"
            described = await acting.described()
            asked: NextAction[S, A] = NextAction(
                self._domain.goal, acting.state, described, tuple(self.history)
            )
            actions = await self._act(asked)
            if not actions and not tested:
                return "goal"
            for action in actions:
                done = await acting.apply(action)
                self.history.append(f"{action}" if done else f"{action} (impossible)")
        return "goal" if tested and await self.reached() else "moves"

    async def reached(self) -> bool:
        """Whether the goal holds in the state."""
        return bool(await settled(self._domain.success(self._acting.state)))
