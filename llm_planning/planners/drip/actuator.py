"""The actuator of DRIP's agents in Minecraft: programs that act in the world (Section 4.2.1).

Each subtask is carried out by a skill or by a program that a model writes, as Tree of Options
executes an option: the program runs, the world and the program say what came of it, and a role says
whether the subtask is done. If it is not, the program is written anew, five times at most. S_{t+1}
is then the state of the world itself, so the role `apply` is not asked.

In the paper a model selects one skill to be shown; here it is shown the nearest ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import A, S
from llm_planning.planners.drip.questions import Applied
from llm_planning.planners.tree_of_options.executing import Executing, metrics_of
from llm_planning.planners.tree_of_options.policies import policies_of
from llm_planning.planners.tree_of_options.roles import OptionRoles

if TYPE_CHECKING:
    from llm_planning.planners.drip.questions import Application, DripDomain
    from llm_planning.planners.drip.settings import ActingSettings
    from llm_planning.planners.tree_of_options.executing import Executed
    from llm_planning.planners.tree_of_options.policies import Policies
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem


class Actuator(Generic[S, A]):
    """Carries subtasks out in one real world. Begin with `Actuator.begin`.

    Args:
        ask: answers what is asked about programs.
        policies: make and run the programs.
        run: the execution, at the start.
    """

    def __init__(
        self, ask: OptionRoles[S, A], policies: Policies[S, A], run: Executing[S, A]
    ) -> None:
        self._ask = ask
        self._policies = policies
        self._run = run

    @classmethod
    async def begin(
        cls,
        problem: Problem[DripDomain[S, A]],
        engines: Engines,
        settings: ActingSettings,
        *,
        seed: int,
    ) -> Actuator[S, A]:
        """Starts the world.

        Args:
            problem: its domain is the world.
            engines: answer the roles.
            settings: of the planner.
            seed: of the trial.

        Raises:
            SettingsError: the domain has no control primitives, or the library cannot be opened.
        """
        how = settings.of_execution(settings.budget)
        world: Any = problem.world
        ask: OptionRoles[S, A] = OptionRoles(world, engines, how, seed=seed)
        policies = await policies_of(world, ask, how)
        run = await Executing.begin(problem, policies, how, seed=seed, number=0)
        return cls(ask, policies, run)

    @property
    def over(self) -> bool:
        """Whether the world says that the episode has ended."""
        return self._run.episode.over

    @property
    def oracles(self) -> list[dict[str, object]]:
        """The oracles that answer roles about programs, JSON-able."""
        return self._ask.oracles

    async def apply(self, asked: Application[S, A]) -> Applied[S]:
        """Carries a subtask out; its obstacle is the feedback of the last try."""
        run = self._run
        done = await run.execute(asked.subtask, len(run.attempts))
        after = run.episode.state
        if done:
            return Applied(after, certain=False)
        return Applied(after, run.attempts[-1].feedback, certain=after == asked.state)

    async def recorded(self) -> tuple[Executed[S, A], dict[str, Any]]:
        """The record of the execution, and its metrics."""
        executed = await self._run.recorded()
        return executed, {**metrics_of([executed]), "execution": self._policies.name}
