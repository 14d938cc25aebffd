"""The plan in the making: π, the state S_t as the planner believes it, and the limits.

With programs S_{t+1} is the state of the world itself, so the role `apply` is not asked (Section
4.2.1): each subtask is carried out by a skill or by a program that a model writes, as Tree of
Options executes an option. The program runs, the world and the program say what came of it, and a
role says whether the subtask is done. If it is not, the program is written anew, five times at
most. In the paper a model selects one skill to be shown; here it is shown the nearest ones.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

from llm_planning.domain import A, NamesGoal, RunsPrograms, S
from llm_planning.domain_calls import in_words, settled, stepped
from llm_planning.execution.episode import world_draws
from llm_planning.execution.option_roles import PlanAsking
from llm_planning.execution.option_settings import POLICY_ROLES
from llm_planning.execution.options import Executing, metrics_of
from llm_planning.execution.policies import policies_of
from llm_planning.planners.drip.roles import (
    Application,
    Applied,
    Decomposition,
    DripRoles,
    Judgement,
)
from llm_planning.roles import Asking
from llm_planning.roles.domain_rules import CheckedRules
from llm_planning.roles.language import OptionLanguage
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from typing import Self

    from llm_planning.domain import Judged
    from llm_planning.execution.options import Executed, Policies
    from llm_planning.planners.drip.roles import DripDomain
    from llm_planning.planners.drip.settings import (
        ActingSettings,
        CarryingSettings,
        TreeSettings,
    )
    from llm_planning.roles import Role
    from llm_planning.specs import Run

Ending: TypeAlias = Literal["goal", "stuck", "depth", "budget", "decompositions", "moves"]
"""Why a planner stopped: it holds the goal for reached, knows nothing more to do, or ran out of a
limit."""


class RanOutError(Exception):
    """A limit is reached, or the goal in the world.

    Attributes:
        limit: its name, an `Ending`.
    """

    def __init__(self, limit: Ending) -> None:
        super().__init__(limit)
        self.limit: Ending = limit


async def ending_of(plan: Awaitable[Ending]) -> Ending:
    """Plans; a limit that ran out is an ending."""
    try:
        return await plan
    except RanOutError as limit:
        return limit.limit


def apply_role(
    roles: DripRoles[S, A], asking: Asking, votes: int
) -> Role[Application[S, A], Applied[S]]:
    """The role `apply`. Where rules without errors answer, the world acts, with the trial's chance.

    Args:
        votes: how often it is asked each time.
    """
    spec = roles.apply()
    if not asking.never_wrong(spec.name):
        predict = asking.of(spec, votes=votes)

        async def predicted(application: Application[S, A], /) -> Applied[S]:
            return Applied(await predict(application))

        return predicted
    asking.by_rules(spec)
    draws = world_draws(asking.seed)

    async def acted(application: Application[S, A], /) -> Applied[S]:
        asking.asked[spec.name] += 1
        before = draws.getstate()
        step = await stepped(roles.domain, application.state, application.subtask, draws)
        return Applied(step.state, step.obstacle, certain=draws.getstate() == before)

    return acted


class Acting(Generic[S, A]):
    """Applies actions to the present state, and keeps the plan.

    Args:
        start: S_0.
        actuator: carries actions out; None if the role `apply` is asked.

    Attributes:
        state: S_t.
        plan: π. A refused action that drew no chance is left out: it left the world as it was.
        states: S_0, then the state after each action of the plan, as the planner believes.
        certain: whether no action drew chance, so that the plan can be simulated.
    """

    def __init__(
        self,
        roles: DripRoles[S, A],
        asking: Asking,
        start: S,
        settings: ActingSettings,
        actuator: Actuator[S, A] | None = None,
    ) -> None:
        self.actuator = actuator
        self.roles = roles
        self.asking = asking
        self.domain: Any = roles.domain
        self.state = start
        self.plan: list[A] = []
        self.states: list[S] = [start]
        self.certain = True
        self.refused = 0
        self.decomposed = 0
        self._left = settings.budget
        self._apply = actuator.apply if actuator else apply_role(roles, asking, settings.votes)
        self._described: tuple[S, str] | None = None

    @classmethod
    async def begin(cls, run: Run[DripDomain[S, A], ActingSettings]) -> Self:
        """Begins at the start of a problem."""
        world, settings = run.world, run.settings
        roles = DripRoles(world, seed=run.seed)
        asking = Asking(world, run.engines, settings, seed=run.seed)
        start = await settled(world.start(run.seed))
        actuator = None if settings.execution == "direct" else await Actuator.begin(run)
        return cls(roles, asking, start, settings, actuator)

    async def described(self) -> str:
        """S_t in words."""
        if self._described is None or self._described[0] is not self.state:
            self._described = (self.state, await in_words(self.domain, "describe", self.state))
        return self._described[1]

    async def apply(self, action: A) -> bool:
        """Acts: S_{t+1} is the answer of `apply`, and π grows by g.

        Returns:
            Whether the action was carried out completely.

        Raises:
            RanOutError: as many actions were tried as may be, or the world has ended.
        """
        if self.actuator is not None and self.actuator.over:
            raise RanOutError("goal")
        if not self._left:
            raise RanOutError("budget")
        self._left -= 1
        applied = await self._apply(Application(action, self.state, await self.described()))
        self.refused += applied.obstacle is not None
        if applied.obstacle is None or not applied.certain:
            self.plan.append(action)
            self.state = applied.state
            self.states.append(applied.state)
            self.certain = self.certain and applied.certain
        return applied.obstacle is None


class Decomposing(Acting[S, A]):
    """Asks about subtasks in the present state as well."""

    def __init__(
        self,
        roles: DripRoles[S, A],
        asking: Asking,
        start: S,
        settings: TreeSettings,
        actuator: Actuator[S, A] | None = None,
    ) -> None:
        # The roles are described in the order in which they are asked first.
        self._decompose = asking.of(roles.decompose(settings.most))
        self._judge = asking.of(roles.judge(reason=settings.reason), votes=settings.votes)
        super().__init__(roles, asking, start, settings, actuator)
        self._decompositions = settings.decompositions
        self._language: OptionLanguage[A] = OptionLanguage(self.domain.grammar)

    def spend(self, decompositions: int) -> None:
        """Counts decompositions before they are asked for.

        Raises:
            RanOutError: so many are not left.
        """
        if self.decomposed + decompositions > self._decompositions:
            raise RanOutError("decompositions")
        self.decomposed += decompositions

    async def decompose(
        self, subtask: A | None, *, goal: str = "", described: str = "", asking: int = 0
    ) -> Sequence[A]:
        """Asks for the subtasks right before g.

        Those of the goal are not asked for where the domain names them (`domain.NamesGoal`).

        Args:
            subtask: g; None for the goal.
            goal: what is open of the goal, in words; the whole goal if empty.
            described: S_t in words; empty for a question that does not look at the state.
            asking: how often it was asked about before, as the answer was refused.
        """
        if subtask is None and isinstance(self.domain, NamesGoal):
            named: Sequence[A] = CheckedRules(self.domain).named(self.state)
            self._language.check(named)
            return named
        goal = goal or self.domain.goal
        # What is open of the goal tells of S_t; a subtask alone, or the whole goal, of nothing.
        told = described or (subtask is None and goal != self.domain.goal)
        state = self.state if told else self.states[0]
        return await self._decompose(
            Decomposition(subtask, goal, state, described=described, asking=asking)
        )

    async def judge(self, subtask: A, parent: A | None) -> Judged:
        """Asks for executability(g, S_t)."""
        return await self._judge(Judgement(subtask, parent, self.state, await self.described()))


def demand_primitives(domain: object, settings: CarryingSettings) -> None:
    """Refuses skills and programs where none can act.

    Tree of Options falls back on verbs there. Here the state would then come from the world instead
    of the role `apply`, which is another experiment than the one that was asked for.

    Raises:
        SettingsError: the domain has no control primitives.
    """
    if settings.execution != "direct" and not isinstance(domain, RunsPrograms):
        raise SettingsError(
            f"execution={settings.execution}: this domain has no `primitives`, so no program can "
            "act in it; set execution=direct"
        )


class Actuator(Generic[S, A]):
    """Carries subtasks out in one real world. Begin with `Actuator.begin`.

    Args:
        ask: answers what is asked about programs.
        policies: make and run the programs.
        executing: the execution, at the start.
    """

    def __init__(
        self, ask: PlanAsking[S, A], policies: Policies[S, A], executing: Executing[S, A]
    ) -> None:
        self._ask = ask
        self._policies = policies
        self._executing = executing

    @classmethod
    async def begin(cls, run: Run[DripDomain[S, A], ActingSettings]) -> Actuator[S, A]:
        """Starts the world.

        Raises:
            SettingsError: the domain has no control primitives, or the library cannot be opened.
        """
        demand_primitives(run.world, run.settings)
        execution = run.settings.of_execution(run.settings.budget)
        world: Any = run.world
        ask: PlanAsking[S, A] = PlanAsking(world, run.engines, execution, seed=run.seed)
        policies = await policies_of(world, ask, execution)
        executing = await Executing.begin(world, policies, execution, seed=run.seed, number=0)
        return cls(ask, policies, executing)

    @property
    def over(self) -> bool:
        """Whether the world says that the episode has ended."""
        return self._executing.episode.over

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
        attempts = self._executing.attempts
        last = {attempt.planned: attempt for attempt in attempts}
        wrong = Counter(complete=sum(attempt.done != attempt.shown for attempt in attempts))
        if self._policies.name == "programs" and not self._ask.never_wrong("code"):
            wrong["code"] = sum(not attempt.shown for attempt in last.values())
        return wrong

    async def apply(self, application: Application[S, A]) -> Applied[S]:
        """Carries a subtask out; its obstacle is the feedback of the last try."""
        executing = self._executing
        done = await executing.execute(application.subtask, len(executing.attempts))
        after = executing.episode.state
        if done:
            return Applied(after, certain=False)
        return Applied(after, executing.attempts[-1].feedback, certain=after == application.state)

    async def recorded(self) -> tuple[Executed[S, A], dict[str, Any]]:
        """The record of the execution, and its metrics."""
        executed = await self._executing.recorded()
        wrong = {f"wrong_{role}": self.wrong[role] for role in POLICY_ROLES}
        return executed, {**metrics_of([executed]), **wrong, "execution": self._policies.name}
