"""The actuator of DRIP's agents in Minecraft: programs that act in the world (Section 4.2.1).

Each subtask is carried out by a skill or by a program that a model writes, as Tree of Options
executes an option: the program runs, the world and the program say what came of it, and a role says
whether the subtask is done. If it is not, the program is written anew, five times at most. S_{t+1}
is then the state of the world itself, so the role `apply` is not asked.

In the paper a model selects one skill to be shown; here it is shown the nearest ones.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import A, S
from llm_planning.execution.option_roles import PlanAsking
from llm_planning.execution.option_settings import POLICY_ROLES
from llm_planning.execution.options import Executing, metrics_of
from llm_planning.execution.policies import policies_of
from llm_planning.planners.drip.questions import Applied
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from llm_planning.execution.options import Executed
    from llm_planning.execution.policies import Policies
    from llm_planning.planners.drip.questions import Application, DripDomain
    from llm_planning.planners.drip.settings import ActingSettings, CarryingSettings
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem


def demand_primitives(domain: object, settings: CarryingSettings) -> None:
    """Refuses skills and programs where none can act.

    Tree of Options falls back on verbs there. Here the state would then come from the world instead
    of the role `apply`, which is another experiment than the one that was asked for.

    Raises:
        SettingsError: the domain has no control primitives.
    """
    if settings.execution != "direct" and getattr(domain, "primitives", None) is None:
        raise SettingsError(
            f"execution={settings.execution}: this domain has no `primitives`, so no program can "
            "act in it; set execution=direct"
        )


class Actuator(Generic[S, A]):
    """Carries subtasks out in one real world. Begin with `Actuator.begin`.

    Args:
        ask: answers what is asked about programs.
        policies: make and run the programs.
        run: the execution, at the start.
    """

    def __init__(
        self, ask: PlanAsking[S, A], policies: Policies[S, A], run: Executing[S, A]
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

        Raises:
            SettingsError: the domain has no control primitives, or the library cannot be opened.
        """
        demand_primitives(problem.world, settings)
        how = settings.of_execution(settings.budget)
        world: Any = problem.world
        ask: PlanAsking[S, A] = PlanAsking(world, engines, how, seed=seed)
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

    @property
    def wrong(self) -> Counter[str]:
        """What the world shows to be wrong: role -> number.

        For `complete` these are verdicts that differ from what the world shows. For `code` they are
        subtasks that no program carried out; programs by rules without errors are not counted,
        because then it was the world's chance.
        """
        attempts = self._run.attempts
        last = {one.planned: one for one in attempts}
        wrong = Counter(complete=sum(one.done != one.shown for one in attempts))
        if self._policies.name == "programs" and not self._ask.never_wrong("code"):
            wrong["code"] = sum(not one.shown for one in last.values())
        return wrong

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
        wrong = {f"wrong_{role}": self.wrong[role] for role in POLICY_ROLES}
        return executed, {**metrics_of([executed]), **wrong, "execution": self._policies.name}
