"""One given goal, one episode: Algorithm 1 with a graph that is not learnt any further.

Shared by the long-horizon benchmark (XENON, Section 5.3, in `goal_planning`) and by the comparison
of ways to choose actions with the true graph at hand, the runs of Figure 25 (Appendix K.10):

    select-xenon       FAM, and the LLM for what it does not know
    select-sc          the LLM, told why earlier attempts failed
    select-llm         the LLM, which remembers nothing
    select-random-fam  any action that has not repeatedly failed; what worked is reused
    select-ucb         UCB1 over the actions of each item, with the binary feedback as reward

Experience changes the action memory only. Nothing is carried from one episode to the next: in the
runs of Figure 25 a valid action must be found for every subgoal item within the episode. (The paper
does not say whether its 20 runs of a goal share a memory; here they are independent.)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from llm_planning.environments.minecraft.controller import group_of
from llm_planning.environments.minecraft.goals import GOAL_GROUPS_67
from llm_planning.environments.minecraft.rulebook import game_rules
from llm_planning.environments.minecraft.text_world import TextWorld, action_set
from llm_planning.outcome import Outcome
from llm_planning.planners.xenon.agent import Agent, Plan
from llm_planning.planners.xenon.choosing import Asking, RandomFam, Ucb
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.knowledge import Knowledge
from llm_planning.planners.xenon.memory import ActionMemory
from llm_planning.planners.xenon.oracle_roles import prior_roles
from llm_planning.planners.xenon.revision import DependencyStore
from llm_planning.planners.xenon.similarity import Similar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from llm_planning.environments.minecraft.rulebook import RuleBook
    from llm_planning.environments.minecraft.text_world import World
    from llm_planning.planners.xenon.agent import Reprompt, Subgoal
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.planners.xenon.questions import Roles
    from llm_planning.planners.xenon.settings import (
        AskingSettings,
        MemorySettings,
        SelectionSettings,
        UcbSettings,
    )
    from llm_planning.roles import Engines
    from llm_planning.settings import Settings
    from llm_planning.specs import Problem

SELECTION_TASKS = GOAL_GROUPS_67["Redstone"]
"""The goals of Figure 25."""


@dataclass(frozen=True, slots=True)
class GoalAttempt:
    """What was done for one goal.

    Attributes:
        goal: g.
        success: whether it was obtained in time.
        steps: environment steps it took.
        plans: what was tried, plan by plan; each plan but the last ends with a failure.
        omitted: true requirements that one of the plans had no subgoal for.
    """

    goal: str
    success: bool
    steps: int
    plans: tuple[Plan, ...]
    omitted: frozenset[str]

    @property
    def subgoals(self) -> tuple[Subgoal, ...]:
        """Everything that was tried, in order."""
        return tuple(subgoal for plan in self.plans for subgoal in plan.tried)


async def obtain(
    goal: str,
    world: World,
    *,
    knowledge: Knowledge,
    truth: Knowledge,
    actions: ActionPolicy,
    until: int,
    reprompt: Reprompt | None = None,
) -> GoalAttempt:
    """Plans and acts until the goal is held or the time is up.

    Actions that are all ruled out for an item are explored afresh; the graph is not revised.

    Args:
        goal: g.
        world: at the beginning of an episode.
        knowledge: to plan with; see `fixed`.
        truth: to tell which requirements a plan leaves out.
        actions: chooses actions and learns from their outcomes.
        until: the horizon, in environment steps.
        reprompt: looks after a controller that may be stuck.
    """
    plans: list[Plan] = []
    agent = Agent(
        knowledge=knowledge,
        dependencies=DependencyStore(knowledge),
        actions=actions,
        select_goal=lambda: None if goal in world.inventory else goal,
        reprompt=reprompt,
    )
    await agent.learn(world, until=until, watch=plans.extend)
    omitted: set[str] = set()
    for plan in plans:
        needed = {item for _, item in truth.aggregated(goal, plan.inventory)}
        omitted |= needed - {item for _, item in plan.missing}
    return GoalAttempt(
        goal=goal,
        success=goal in world.inventory,
        steps=world.steps,
        plans=tuple(plans),
        omitted=frozenset(omitted),
    )


def fixed(graph: DependencyGraph, goal: str, kept: Collection[str]) -> Knowledge:
    """Knowledge that no experience changes: as if the agent had obtained everything itself.

    Args:
        graph: Ĝ.
        goal: g, which may be missing in it.
        kept: items that stay when they are required.
    """
    return Knowledge(graph, obtained={*graph.items, goal}, kept={*kept})


def true_knowledge(book: RuleBook, items: Collection[str], goal: str) -> Knowledge:
    """𝒢*, the oracle graph.

    Args:
        book: the rules.
        items: its nodes; with everything that they need.
        goal: g.
    """
    graph = DependencyGraph()
    kept: set[str] = set()
    for item in items:
        rule = book.rule(item)
        graph.require(item, rule.requirements, makes=rule.makes)
        kept.update(rule.kept)
    return fixed(graph, goal, kept)


async def play(
    goal: str,
    world: World,
    *,
    book: RuleBook,
    knowledge: Knowledge | None = None,
    actions: ActionPolicy,
    until: int,
    judged_by: str,
    settings: Settings,
    seed: int,
    reprompt: Reprompt | None = None,
    oracles: Sequence[Mapping[str, object]] = (),
) -> Outcome:
    """Obtains a goal, and says how that went.

    Its metrics: `env_steps`; `plan_length`, subgoals of the first plan, tried or not; `subgoals`
    and `failed_subgoals` tried; `invalid_subgoals` with an action that never obtains the item;
    `invalid_action`, whether one of those was in the last plan (Table 15); `subgoal_omission`,
    whether a plan left out something that is required; `group`, the goal's.

    Args:
        goal: g.
        world: at the beginning of an episode.
        book: the rules.
        knowledge: to plan with; by default the true graph.
        actions: chooses actions and learns from their outcomes.
        until: the horizon, in environment steps.
        judged_by: what the world is called.
        settings: of the run.
        seed: of the run.
        reprompt: looks after a controller that may be stuck.
        oracles: who answers in a model's place.

    Raises:
        UnknownGoalError: there is no such goal.
    """
    group = group_of(goal)
    truth = true_knowledge(book, world.items, goal)
    attempt = await obtain(
        goal,
        world,
        knowledge=knowledge or truth,
        truth=truth,
        actions=actions,
        until=until,
        reprompt=reprompt,
    )

    def invalid(subgoal: Subgoal) -> bool:
        return subgoal.item not in book or subgoal.action != book.rule(subgoal.item).action

    tried, plans = attempt.subgoals, attempt.plans
    return Outcome(
        success=attempt.success,
        plan=tuple(str(subgoal) for subgoal in tried if subgoal.reached),
        metrics={
            "success_basis": judged_by,
            "env_steps": attempt.steps,
            "plan_length": len(plans[0].missing),
            "subgoals": len(tried),
            "failed_subgoals": sum(not subgoal.reached for subgoal in tried),
            "invalid_subgoals": sum(map(invalid, tried)),
            "invalid_action": any(map(invalid, plans[-1].tried)),
            "subgoal_omission": bool(attempt.omitted),
            "group": group,
        },
        trace={
            "goal": goal,
            "seed": seed,
            "settings": settings.to_json(),
            "oracles": list(oracles),
            "omitted": sorted(attempt.omitted),
            "plans": [[asdict(subgoal) for subgoal in plan.tried] for plan in plans],
        },
        text=_text(attempt),
    )


def _text(attempt: GoalAttempt) -> str:
    lines = [
        f"step {subgoal.steps}: {subgoal}{'' if subgoal.reached else ' (failed)'}"
        for subgoal in attempt.subgoals
    ]
    end = "obtained" if attempt.success else "not obtained"
    return "\n".join([*lines, f"{attempt.goal} {end} after {attempt.steps} steps"])


# Figure 25 ----------------------------------------------------------------------------------------


async def select_by_draws(
    problem: Problem[Any],
    *,
    engines: Engines,  # noqa: ARG001 - it asks nobody
    settings: SelectionSettings,
    seed: int,
    actions: Callable[[TextWorld, Any, Random], ActionPolicy],
) -> Outcome:
    """Obtains one goal with the true graph, without asking anybody.

    Args:
        problem: its task is the goal item.
        engines: not asked.
        settings: of the run.
        seed: of the draws.
        actions: how actions are chosen, in a world, with these settings and draws.

    Raises:
        UnknownGoalError: there is no such goal.
    """
    world = _text_world(settings)
    policy = actions(world, settings, Random(f"actions {seed}"))
    return await _select(problem, world, policy, settings=settings, seed=seed)


def random_fam(world: TextWorld, settings: MemorySettings, rng: Random) -> RandomFam:
    """Random+FAM."""
    return RandomFam(ActionMemory(world.verbs, x0=settings.x0), rng=rng)


def ucb(world: TextWorld, settings: UcbSettings, rng: Random) -> Ucb:
    """UCB; counts alone are kept, so x_0 has no say."""
    return Ucb(ActionMemory(world.verbs, x0=1), c=settings.c, rng=rng)


async def select_by_asking(
    problem: Problem[Any],
    *,
    engines: Engines,
    settings: AskingSettings,
    seed: int,
    actions: Callable[[Asking[Roles]], ActionPolicy],
) -> Outcome:
    """Obtains one goal with the true graph, asking the model or an oracle.

    Args:
        problem: its task is the goal item.
        engines: answer questions; the default one embeds names.
        settings: of the run.
        seed: of the oracle's errors.
        actions: how actions are chosen.

    Raises:
        UnknownGoalError: there is no such goal.
    """
    world = _text_world(settings)
    roles = prior_roles(settings.prior, world, engines, seed=seed)
    asking = Asking(
        memory=ActionMemory(world.verbs, x0=settings.x0),
        similar=Similar(engines.default),
        roles=roles,
        k=settings.k,
    )
    return await _select(
        problem, world, actions(asking), settings=settings, seed=seed, oracles=roles.oracles
    )


async def _select(
    problem: Problem[Any],
    world: TextWorld,
    policy: ActionPolicy,
    *,
    settings: SelectionSettings,
    seed: int,
    oracles: Sequence[Mapping[str, object]] = (),
) -> Outcome:
    """One episode; the task is the goal item."""
    return await play(
        problem.task,
        world,
        book=world.book,
        actions=policy,
        until=settings.steps,
        judged_by="text world",
        settings=settings,
        seed=seed,
        oracles=oracles,
    )


def _text_world(settings: SelectionSettings) -> TextWorld:
    return TextWorld(game_rules(), verbs=action_set(settings.verbs))
