"""Whom the planners of a home ask: for the goal, for the policy, and for where things may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_planning.environments.household.goals import GoalError, goal_predicates
from llm_planning.planners.any_domain.roles import ActWording, Situation
from llm_planning.planners.llm_mcts.cosine import TEMPERATURE, make_policy
from llm_planning.planners.llm_mcts.examples import similar_instances, worked_examples
from llm_planning.planners.llm_mcts.interpretation import Instruction, as_read, goal_role
from llm_planning.planners.llm_mcts.positions import ROLE as POSITION
from llm_planning.planners.llm_mcts.positions import position_role, state_prior
from llm_planning.planners.llm_mcts.rules import POLICY, BelievedChoice, best_action, situation_of
from llm_planning.priors import Prior
from llm_planning.roles import Asking

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

    from llm_planning.environments.household.belief import Prior as Places
    from llm_planning.environments.household.domain import KnownHousehold
    from llm_planning.planners.llm_mcts.settings import HomeSettings, SearchSettings
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem


class HomeAsking(Asking):
    """Who answers in a home, and what they said of the goal and of π.

    Attributes:
        world: the home; with the goal as it was read, if the role `goal` was asked.
        unmet: why the home cannot meet the goal as it was read; empty if it can.
        policy: π(a|h); None if nobody is asked.
    """

    settings: HomeSettings

    def __init__(
        self,
        problem: Problem[KnownHousehold],
        engines: Engines,
        settings: HomeSettings,
        *,
        seed: int,
    ) -> None:
        super().__init__(problem.world, engines, settings, seed=seed)
        self.world = problem.world
        self.unmet = ""
        self.policy: Prior[Situation] | None = None

    async def ask_for_goal(self) -> None:
        """Reads the instruction, unless the goal is given."""
        if self.settings.interpretation == "given":
            return
        real = self.world.rules
        goal = await self.of(goal_role(real.home))(Instruction(self.world.instruction, real.goal))
        try:
            self.world = as_read(self.world, goal)
        except GoalError as error:
            said = goal_predicates(goal, real.home)
            self.unmet = f"the instruction was read as {said}, which is not possible: {error}"

    async def ask_for_policy(
        self, *, beside: Callable[[Situation], Awaitable[Hashable]] | None = None
    ) -> None:
        """Makes π.

        Args:
            beside: what an answer of rules depends on beside the situation; by default nothing.
        """
        settings, engines = self.settings, self.engines
        if settings.prior == "uniform":
            return
        oracle = self.by_rules(POLICY)
        if oracle is not None:
            expert = self.world.expert

            async def estimate(question: Situation) -> Sequence[float]:
                action = best_action(question.state, expert)
                subject = situation_of(question.state)
                return await oracle(BelievedChoice(question.actions, str(action), subject))

            self.policy = Prior(
                estimate,
                wording=ActWording(self.world),
                temperature=settings.prior_temperature or 1.0,
                mixture=settings.prior_mixture,
                beside=beside,
            )
            return
        instances = (
            await similar_instances(self.world.goal, k=settings.examples, engine=engines.default)
            if settings.examples
            else ()
        )
        self.policy = make_policy(
            settings.prior,
            engines,
            wording=ActWording(
                self.world,
                examples=worked_examples(instances),
                see=settings.see,
                drawn=lambda situation: situation.state.certain,
            ),
            temperature=settings.prior_temperature,
            mixture=settings.prior_mixture,
            samples=settings.policy_samples,
            sampling=settings.drawn(TEMPERATURE),
            scale=settings.cosine_scale,
            seed=self.seed,
        )

    async def ask_for_places(self, settings: SearchSettings) -> Places:
        """Asks where the things of the goal may be, unless all are seen at the start."""
        rules = self.world.rules
        hidden = self.world.first_belief(self.world.start(self.seed)).hidden
        kind = settings.state_prior if any(thing < rules.named for thing in hidden) else "uniform"
        role = position_role(rules, seed=self.seed)
        return await state_prior(
            rules,
            kind,
            engine=self.engines.of(POSITION),
            oracle=None if kind == "uniform" else self.by_rules(role),
            samples=settings.position_samples,
            sampling=settings.drawn(settings.position_temperature),
            seed=self.seed,
        )
